// backend/webgpu/wgsl/unit.cpp: bindings, elements in memory and entry points of a module.
#include "backend/webgpu/wgsl/unit.h"

#include <algorithm>

#include "backend/webgpu/wgsl/body.h"
#include "backend/webgpu/wgsl/prelude.h"
#include "base/error.h"

namespace hologram::webgpu::wgsl {
namespace {

// What a binding is an array of. Types of one and two bytes come in words.
std::string_view stored_as(DType t) {
  if (size_of(t) < 4) return "u32";
  return t == DType::i32 ? "i32" : held_as(t);
}

std::string numbers(const std::vector<int>& list) {
  std::string out;
  for (int k : list) out += fmt::format("{}{}", out.empty() ? "" : ",", k);
  return out;
}

}  // namespace

std::string_view held_as(DType t) {
  if (t == DType::b8) return "bool";
  if (is_float(t)) return "f32";
  if (size_of(t) == 8) return "vec2<u32>";
  return is_signed_int(t) ? "i32" : "u32";
}

void require_held(DType t) {
  if (t == DType::f64 || t == DType::host) unrendered("{} is no type of WGSL", name_of(t));
}

Unit::Unit(const atlas::Program& p) : program(p) {
  for (const atlas::Buffer& b : p.buffers) require_held(b.dtype);
  module_.scratch.assign(p.buffers.size(), Expr(0));
}

std::string_view Unit::helper(std::string_view name) {
  const auto [at, fresh] = helpers_.emplace(name);
  if (fresh) {
    for (std::string_view other : needs_of(name)) helper(other);
    if (name == "fault") faults_ = true;
  }
  if (reaches_fault(name)) entry_faults_ = true;
  return *at;
}

std::string Unit::shared(std::string_view stem, DType held, int64_t elements) {
  std::string name = fresh(stem);
  shared_ += fmt::format("var<workgroup> {}: array<{}, {}>;\n", name, held_as(held), elements);
  return name;
}

std::string Unit::word(size_t k) const { return fmt::format("words[{}].{}", k / 4, "xyzw"[k % 4]); }

std::string Unit::base(int buffer) {
  used_.insert(buffer);
  return word(static_cast<size_t>(program.num_symbols + buffer));
}

std::string Unit::units(size_t dispatch) const {
  return word(static_cast<size_t>(program.num_symbols) + program.buffers.size() + dispatch);
}

// Threads that store neighbours of one word do it one behind the other.
bool Unit::atomic(int buffer) const {
  const atlas::Buffer& b = program.buffers[static_cast<size_t>(buffer)];
  return packed(b.dtype) && b.access != atlas::Access::read;
}

// The number of an element in its binding.
std::string Unit::place(int buffer, const std::string& at) {
  const atlas::Buffer& b = program.buffers[static_cast<size_t>(buffer)];
  if (b.access != atlas::Access::scratch) return fmt::format("{} + {}", base(buffer), at);
  return fmt::format("{} + unit * {} + {}", base(buffer), index_text(*this, b.extent, {}), at);
}

std::string Unit::load(int buffer, const std::string& at) {
  const DType t = program.buffers[static_cast<size_t>(buffer)].dtype;
  if (!packed(t)) return fmt::format("b{}[{}]", buffer, place(buffer, at));
  const int each = 4 / size_of(t), shift = each == 4 ? 2 : 1, bits = 32 / each;
  const std::string where = fresh("at");
  line("let {} = u32({});", where, place(buffer, at));
  const std::string cell = fmt::format("b{}[{} >> {}u]", buffer, where, shift);
  std::string word = atomic(buffer) ? fmt::format("atomicLoad(&{})", cell) : cell;
  if (is_signed_int(t)) word = fmt::format("bitcast<i32>({})", word);
  const std::string raw =
      fmt::format("extractBits({}, ({} & {}u) * {}u, {}u)", word, where, each - 1, bits, bits);
  if (t == DType::b8) return fmt::format("({} != 0u)", raw);
  if (t == DType::bf16) return fmt::format("bitcast<f32>({} << 16u)", raw);
  if (t == DType::f16) return fmt::format("{}({})", helper("from_half"), raw);
  return raw;
}

void Unit::store(int buffer, const std::string& at, const std::string& value) {
  const DType t = program.buffers[static_cast<size_t>(buffer)].dtype;
  if (!packed(t)) {
    line("b{}[{}] = {};", buffer, place(buffer, at), value);
    return;
  }
  const int each = 4 / size_of(t), shift = each == 4 ? 2 : 1, bits = 32 / each;
  const std::string where = fresh("at"), low = fresh("low"), raw = fresh("raw");
  line("let {} = u32({});", where, place(buffer, at));
  line("let {} = ({} & {}u) * {}u;", low, where, each - 1, bits);
  const std::string whole = t == DType::b8     ? fmt::format("select(0u, 1u, {})", value)
                            : t == DType::bf16 ? fmt::format("bitcast<u32>({}) >> 16u", value)
                            : t == DType::f16  ? fmt::format("{}({})", helper("half"), value)
                            : is_signed_int(t) ? fmt::format("bitcast<u32>({})", value)
                                               : value;
  const uint32_t mask = (uint32_t{1} << bits) - 1;
  line("let {} = ({}) & {}u;", raw, whole, mask);
  line("atomicAnd(&b{}[{} >> {}u], ~({}u << {}));", buffer, where, shift, mask, low);
  line("atomicOr(&b{}[{} >> {}u], {} << {});", buffer, where, shift, raw, low);
}

void Unit::fault(int bits, const std::string& condition) {
  line("if ({}) {{ {}({}u); }}", condition, helper("fault"), bits);
}

void Unit::entry(std::string_view name, const Expr& units_of, int threads, bool teams,
                 const std::function<void()>& inside) {
  const size_t number = module_.dispatches.size();
  line("@compute @workgroup_size({})", threads);
  block(
      [&] {
        line("zero = groups.z - 1u;");
        line("let group = i32(group_at.y * groups.x + group_at.x);");
        if (teams)
          line("let unit = group;");
        else
          line("let unit = group * {} + i32(lane);", threads);
        line("if (unit >= {}) {{ return; }}", units(number));
        inside();
      },
      "fn {}(@builtin(workgroup_id) group_at: vec3<u32>, @builtin(num_workgroups) groups: "
      "vec3<u32>, @builtin(local_invocation_index) lane: u32)",
      name);
  module_.dispatches.push_back({std::string(name), units_of, threads, teams, Expr(0),
                                std::vector<int>(used_.begin(), used_.end()), entry_faults_});
  used_.clear();
  entry_faults_ = false;
}

void Unit::set_rounds(const Expr& rounds) {
  const bool divides = helpers_.contains("quotient64") || helpers_.contains("rest_of");
  module_.dispatches.back().rounds = divides ? rounds * Expr(320) : rounds;
}

void Unit::declare(std::string& out) const {
  const size_t words =
      static_cast<size_t>(program.num_symbols) + program.buffers.size() + module_.dispatches.size();
  out += fmt::format("@group(0) @binding(0) var<uniform> words: array<vec4<i32>, {}>;\n",
                     (words + 3) / 4);
  out += "var<private> zero: u32;\n";
  for (size_t k = 0; k < program.buffers.size(); ++k) {
    const std::string_view type = stored_as(program.buffers[k].dtype);
    out += fmt::format("@group(0) @binding({}) var<storage, read_write> b{}: array<{}>;\n", 1 + k,
                       k, atomic(static_cast<int>(k)) ? "atomic<u32>" : type);
  }
  if (faults_)
    out += fmt::format("@group(0) @binding({}) var<storage, read_write> faults: atomic<u32>;\n",
                       1 + program.buffers.size());
}

Module Unit::finish() {
  std::string head = fmt::format("//!{{\"wgsl\":1,\"symbols\":{},\"faults\":{},\"buffers\":[",
                                 program.num_symbols, faults_);
  for (size_t k = 0; k < program.buffers.size(); ++k) {
    const atlas::Buffer& b = program.buffers[k];
    const bool scratch = b.access == atlas::Access::scratch;
    if (scratch) module_.scratch[k] = b.extent * module_.dispatches.front().units;
    head += fmt::format(
        "{}{{\"type\":\"{}\",\"access\":\"{}\",\"elements\":\"{}\"}}", k ? "," : "",
        name_of(b.dtype),
        scratch ? "scratch"
                : std::array{"read", "write", "read_write"}[static_cast<size_t>(b.access)],
        (scratch ? module_.scratch[k] : b.extent).str());
  }
  const bool asks = helpers_.contains("fused");
  for (Dispatch& d : module_.dispatches) d.asks_for_fma = asks;
  head += fmt::format("],\"has_fma\":{},\"dispatches\":[", asks);
  for (const Dispatch& d : module_.dispatches)
    head += fmt::format(
        "{}{{\"entry\":\"{}\",\"units\":\"{}\",\"threads\":{},\"teams\":{},\"buffers\":[{}],"
        "\"faults\":{},\"rounds\":\"{}\"}}",
        &d == module_.dispatches.data() ? "" : ",", d.entry, d.units.str(), d.threads, d.teams,
        numbers(d.buffers), d.faults, d.rounds.str());
  head += "]}\n";
  declare(head);
  head += shared_;
  for (const std::string& name : helpers_) head += source_of(name);
  module_.text = head + text_;
  module_.faults = faults_;
  return std::move(module_);
}

}  // namespace hologram::webgpu::wgsl

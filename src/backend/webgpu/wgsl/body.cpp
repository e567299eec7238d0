// backend/webgpu/wgsl/body.cpp: the walk over a body's instructions.
#include "backend/webgpu/wgsl/body.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "atlas/abi.h"
#include "base/error.h"
#include "ir/scalar.h"

namespace hologram::webgpu::wgsl {
namespace {

using atlas::Code;
using atlas::Instr;
using atlas::no_value;
using atlas::ValueId;
using K = Atom::Kind;

std::string atom_text(Unit& unit, const Atom& a, const Scope& scope,
                      const std::vector<std::string>* clamped) {
  switch (a.kind) {
    case K::symbol:
      return unit.symbol(a.id);
    case K::axis: {
      const auto at = scope.axes.find(a.id);
      check(at != scope.axes.end(), "webgpu: an axis that the body does not see");
      return at->second;
    }
    case K::value:
      check(clamped != nullptr, "webgpu: a body value outside its body");
      return (*clamped)[static_cast<size_t>(a.id)];
    default:
      break;
  }
  const std::string x = index_text(unit, *a.a, scope, clamped),
                    y = index_text(unit, *a.b, scope, clamped);
  if (a.kind == K::min) return fmt::format("min({}, {})", x, y);
  if (a.kind == K::max) return fmt::format("max({}, {})", x, y);
  const bool plain = a.b->is_const() && a.b->constant_value() > 0 && provably_nonnegative(*a.a);
  if (plain) return fmt::format("({} {} {})", x, a.kind == K::floor_div ? '/' : '%', y);
  return fmt::format("{}({}, {})", unit.helper(a.kind == K::floor_div ? "floor_div" : "floor_mod"),
                     x, y);
}

std::string number_text(int64_t c) {
  if (c < -(int64_t{1} << 31) || c >= int64_t{1} << 31)
    unrendered("an index needs {}, beyond 32 bits", c);
  return c == -(int64_t{1} << 31) ? "(-2147483647 - 1)" : fmt::format("{}", c);
}

bool fits(int64_t x) { return x >= -(int64_t{1} << 31) && x < int64_t{1} << 31; }

}  // namespace

std::string index_text(Unit& unit, const Expr& e, const Scope& scope,
                       const std::vector<std::string>* clamped) {
  std::string out;
  for (const Term& t : e.terms()) {
    std::string product = t.coefficient == 1 ? "" : number_text(t.coefficient);
    for (const AtomRef& a : t.atoms)
      product += (product.empty() ? "" : " * ") + atom_text(unit, *a, scope, clamped);
    out += (out.empty() ? "" : " + ") + product;
  }
  if (e.constant() != 0 || out.empty())
    out += (out.empty() ? "" : " + ") + number_text(e.constant());
  return e.is_const() || e.as_atom() ? out : "(" + out + ")";
}

std::string constant_text(Unit& unit, DType type, uint64_t bits) {
  require_held(type);
  if (type == DType::b8) return bits ? "true" : "false";
  if (is_float(type)) {
    const auto value = static_cast<float>(ir::as_double(type, bits));
    const auto word = std::bit_cast<uint32_t>(value);
    if (!std::isfinite(value)) return fmt::format("{}(0x{:x}u)", unit.helper("special"), word);
    return fmt::format("bitcast<f32>(0x{:x}u)", word);
  }
  const auto low = static_cast<uint32_t>(bits);
  if (size_of(type) == 8)
    return fmt::format("vec2<u32>({}u, {}u)", low, static_cast<uint32_t>(bits >> 32));
  if (is_unsigned_int(type)) return fmt::format("{}u", low);
  const auto value = static_cast<int32_t>(ir::as_integer(type, bits));
  return fmt::format("bitcast<i32>({}u)", static_cast<uint32_t>(value));
}

void BodyWriter::write(const atlas::Body& body) {
  body_ = &body;
  values_.resize(body.instrs.size());
  clamped_.resize(body.instrs.size());
  for (size_t k = 0; k < body.instrs.size(); ++k) step(body.instrs[k], static_cast<ValueId>(k));
}

std::string BodyWriter::value(ValueId id) {
  Value& v = values_[id];
  if (v.text.empty()) v.text = fmt::format("{}({})", unit_.helper("wide"), v.narrow);
  return v.text;
}

void BodyWriter::bind(ValueId id, DType type, const std::string& text) {
  const std::string name = unit_.fresh("v");
  unit_.line("let {}: {} = {};", name, held_as(type), text);
  values_[id].text = name;
}

void BodyWriter::step(const Instr& i, ValueId id) {
  require_held(i.type);
  switch (i.code) {
    case Code::constant:
      if (size_of(i.type) == 8 && fits(static_cast<int64_t>(i.bits)) && is_signed_int(i.type))
        values_[id].narrow = number_text(static_cast<int64_t>(i.bits));
      else
        values_[id].text = constant_text(unit_, i.type, i.bits);
      return;
    case Code::index: {
      const std::string name = unit_.fresh("n");
      unit_.line("let {} = {};", name, index_text(unit_, i.expr, scope_, &clamped_));
      values_[id].narrow = name;
      return;
    }
    case Code::clamp_index:
      return clamp_index(i, id);
    case Code::load:
      return load(i, id);
    case Code::store: {
      const std::string at = index_text(unit_, i.expr, scope_, &clamped_);
      const std::string x = value(i.args[0]);
      if (i.args[1] == no_value)
        unit_.store(i.buffer, at, x);
      else
        unit_.block([&] { unit_.store(i.buffer, at, x); }, "if ({})", value(i.args[1]));
      return;
    }
    case Code::arithmetic:
      return arithmetic(i, id);
    case Code::accumulator:
      return bind(id, i.type, scope_.accumulators.at(static_cast<size_t>(i.buffer)));
    case Code::accumulate: {
      const std::string& a = scope_.accumulators.at(static_cast<size_t>(i.buffer));
      if (i.op == ir::Op::reduce_sum && i.type == DType::f32) {  // a_low: what rounding left
        const std::string sum = unit_.fresh("sum");
        unit_.line("let {} = {}({}, {});", sum, unit_.helper("two_sum"), a, value(i.args[0]));
        unit_.line("{0} = {1}.x; {0}_low = {0}_low + {1}.y;", a, sum);
        return bind(
            id, i.type,
            fmt::format("select({0}, {0} + {0}_low, {1}({0}))", a, unit_.helper("is_finite")));
      }
      unit_.line("{} = {};", a, combine_text(unit_, i.op, i.type, a, value(i.args[0])));
      return bind(id, i.type, a);
    }
    case Code::lookup: {
      const std::string table = unit_.fresh("table");
      std::string list;
      for (uint64_t bits : i.table)
        list += (list.empty() ? "" : ", ") + constant_text(unit_, i.type, bits);
      unit_.line("var {} = array<{}, {}>({});", table, held_as(i.type), i.table.size(), list);
      return bind(id, i.type,
                  fmt::format("{}[{} & {}]", table, value(i.args[0]), i.table.size() - 1));
    }
  }
}

void BodyWriter::clamp_index(const Instr& i, ValueId id) {
  const std::string extent = index_text(unit_, i.expr, scope_, &clamped_);
  const std::string name = unit_.fresh("n"), inside = unit_.fresh("in");
  const std::string& narrow = values_[i.args[0]].narrow;
  const std::string x = narrow.empty() ? value(i.args[0]) : narrow;
  if (narrow.empty())
    unit_.line("let {} = {}.y == 0u && {}.x < u32({});", inside, x, x, extent);
  else
    unit_.line("let {} = {} >= 0 && {} < {};", inside, x, x, extent);
  unit_.fault(atlas::index_out_of_range, "!" + inside);
  unit_.line("let {} = select(0, {}, {});", name, narrow.empty() ? fmt::format("i32({}.x)", x) : x,
             inside);
  clamped_[id] = values_[id].narrow = name;
}

void BodyWriter::load(const Instr& i, ValueId id) {
  const std::string at = index_text(unit_, i.expr, scope_, &clamped_);
  if (i.args[0] == no_value) return bind(id, i.type, unit_.load(i.buffer, at));
  const std::string name = unit_.fresh("v");
  // Without a value a variable keeps the one of the loop's last round (wgpu-native 29).
  unit_.line("var {}: {} = {};", name, held_as(i.type),
             is_float(i.type) ? fmt::format("{}(0u)", unit_.helper("special"))
                              : constant_text(unit_, i.type, 0));
  unit_.block([&] { unit_.line("{} = {};", name, unit_.load(i.buffer, at)); }, "if ({})",
              value(i.args[0]));
  values_[id].text = name;
}

// Comparisons, choices and conversions of 64-bit integers that fit into 32.
bool BodyWriter::narrow_arithmetic(const Instr& i, ValueId id) {
  auto narrow = [&](size_t k) -> const std::string& { return values_[i.args[k]].narrow; };
  const ir::OpInfo& row = ir::info(i.op);
  if (row.kind == ir::OpKind::compare) {
    if (i.type != DType::i64 || narrow(0).empty() || narrow(1).empty()) return false;
    bind(id, DType::b8,
         arithmetic_text(unit_, i.op, DType::i32, DType::i32, {narrow(0), narrow(1)}));
    return true;
  }
  if (i.op == ir::Op::select) {
    if (i.type != DType::i64 || narrow(1).empty() || narrow(2).empty()) return false;
    const std::string name = unit_.fresh("n");
    unit_.line("let {} = select({}, {}, {});", name, narrow(2), narrow(1), value(i.args[0]));
    values_[id].narrow = name;
    return true;
  }
  if (row.kind != ir::OpKind::cast || i.op == ir::Op::bitcast) return false;
  if (i.from == DType::i64 && i.type != DType::u64 && i.type != DType::i64 && !narrow(0).empty()) {
    bind(id, i.type, cast_text(unit_, ir::Op::cast, narrow(0), DType::i32, i.type));
    return true;
  }
  const bool widens =
      i.type == DType::i64 && !is_float(i.from) && i.from != DType::u32 && size_of(i.from) < 8;
  if (!widens) return false;
  const std::string name = unit_.fresh("n");
  unit_.line("let {} = {};", name,
             cast_text(unit_, ir::Op::cast, value(i.args[0]), i.from, DType::i32));
  values_[id].narrow = name;
  return true;
}

// Operations that round. Drivers may take them for those on real numbers: (a + b) + 1 becomes
// (a + 1) + b, a * 0 becomes 0, 1 / (1 / a) becomes a, and a + b == a becomes b == 0.
static bool rounds(const Instr& i) {
  using ir::Op;
  if (i.code != Code::arithmetic || i.type != DType::f32) return false;
  return i.op == Op::add || i.op == Op::sub || i.op == Op::mul || i.op == Op::div ||
         i.op == Op::sqrt || i.op == Op::fma;
}

// So what one leaves is hidden from the next: an exclusive or with a zero is between them. Of a
// truth value as a float too, by which a product would become a choice.
bool BodyWriter::hides(const Instr& i, ValueId id) const {
  const bool truth =
      i.code == Code::arithmetic && i.op == ir::Op::cast && i.from == DType::b8 && is_float(i.type);
  return (rounds(i) || truth) && std::ranges::any_of(body_->instrs, [&](const Instr& user) {
           return user.code == Code::arithmetic &&
                  std::ranges::find(user.args, id) != user.args.end();
         });
}

// Likewise constants that are 0, and an operand that stands on both sides.
std::string BodyWriter::operand(const Instr& i, size_t k) {
  const Instr& from = body_->instrs[i.args[k]];
  const bool chosen = i.op == ir::Op::select && i.type == DType::f32 && k > 0;
  const bool zero = from.code == Code::constant && static_cast<uint32_t>(from.bits) << 1 == 0;
  if (zero && (rounds(i) || chosen))
    return fmt::format("{}(0x{:x}u)", unit_.helper("special"), static_cast<uint32_t>(from.bits));
  const bool twice = k == 1 && i.args[0] == i.args[1] &&
                     (i.op == ir::Op::sub || i.op == ir::Op::div) && rounds(i);
  return twice ? fmt::format("{}({})", unit_.helper("hidden"), value(i.args[k])) : value(i.args[k]);
}

void BodyWriter::arithmetic(const Instr& i, ValueId id) {
  if (narrow_arithmetic(i, id)) return;
  std::vector<std::string> args;
  for (size_t k = 0; k < i.args.size() && i.args[k] != no_value; ++k) args.push_back(operand(i, k));
  std::string text = arithmetic_text(unit_, i.op, i.type, i.from, args);
  if (hides(i, id)) text = fmt::format("{}({})", unit_.helper("hidden"), text);
  bind(id, atlas::result_type(i), text);
}

}  // namespace hologram::webgpu::wgsl

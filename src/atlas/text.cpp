// atlas/text.cpp: text form of block programs: the disassembler.
#include <bit>

#include "atlas/program.h"
#include "base/error.h"
#include "ir/scalar.h"

namespace hologram::atlas {
namespace {

std::string_view access_name(Access a) {
  constexpr std::string_view names[] = {"read", "write", "read_write", "scratch"};
  return names[static_cast<size_t>(a)];
}

std::string_view stage_name(StageKind k) {
  constexpr std::string_view names[] = {"point", "row", "serial_row", "scan"};
  return names[static_cast<size_t>(k)];
}

class Printer {
 public:
  explicit Printer(const Program& p) : p_(p) {}

  std::string print() {
    out_ = "atlas block 1\n";
    line("symbols {}", p_.num_symbols);
    for (size_t k = 0; k < p_.buffers.size(); ++k)
      line("buffer b{} {} {} [{}]", k, name_of(p_.buffers[k].dtype),
           access_name(p_.buffers[k].access), p_.buffers[k].extent.str());
    std::visit([&](const auto& b) { block(b); }, p_.block);
    return std::move(out_);
  }

 private:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
    out_ += '\n';
  }

  void axes(const std::vector<Axis>& list) {
    for (size_t k = 0; k < list.size(); ++k)
      line("axis i{} {} [{}]", k, list[k].kind == AxisKind::row ? "row" : "parallel",
           list[k].extent.str());
  }

  void block(const LoopBlock& b, std::string_view what = "loop") {
    line("{} parallel {}{}", what, b.parallel_rank,
         b.lane_axis < 0 ? "" : fmt::format(" lane i{}", b.lane_axis));
    axes(b.axes);
    size_t accumulators = 0;
    for (const Stage& s : b.stages) {
      line("stage {}", stage_name(s.kind));
      body(s.body);
      for (const Reduction& r : s.reductions)
        line("  reduce a{} = {}.{} %{}{}{}", accumulators++, ir::name_of(r.op), name_of(r.type),
             r.value, r.tree ? " tree" : "",
             r.position == no_value ? "" : fmt::format(" at %{}", r.position));
      for (const auto& [op, type] : s.running)
        line("  running a{} = {}.{}", accumulators++, ir::name_of(op), name_of(type));
    }
  }

  void block(const ProductBlock& b) {
    line("product batch {} operand {}{} acc {} precision {}{}{}{}{}{}", b.batch_rank,
         name_of(b.operand_type), b.mixed ? " mixed" : "", name_of(b.acc_type), b.precision,
         b.reproducible ? " reproducible" : "", b.winograd ? " winograd" : "",
         b.parts == 1 ? "" : fmt::format(" parts {}", b.parts),
         b.terms == 0 ? "" : fmt::format(" terms {}", b.terms),
         b.packed_rhs < 0 && b.panel_width == 0
             ? ""
             : fmt::format(" packed {} width {} group {}",
                           b.packed_rhs < 0 ? "none" : fmt::format("b{}", b.packed_rhs),
                           b.panel_width, b.panel_group));
    axes(b.axes);
    named("lhs", b.lhs);
    named("rhs", b.rhs);
    if (b.winograd) named("image", b.image);
    named("epilogue", b.epilogue);
    if (!b.tail.stages.empty()) block(b.tail, "tail");
  }

  void block(const AttentionBlock& b) {
    line("attention batch {} operand {} scale {:#x}{}{} ; scale = {}", b.batch_rank,
         name_of(b.operand_type), std::bit_cast<uint64_t>(b.scale), b.causal ? " causal" : "",
         b.reproducible ? " reproducible" : "", b.scale);
    axes(b.axes);
    named("q", b.q);
    named("k", b.k);
    named("v", b.v);
    named("score", b.score);
    named("epilogue", b.epilogue);
    if (!b.lse.instrs.empty()) named("lse", b.lse);
  }

  void block(const AttentionGradBlock& b) {
    line("attention_grad batch {} operand {} scale {:#x}{} ; scale = {}", b.batch_rank,
         name_of(b.operand_type), std::bit_cast<uint64_t>(b.scale), b.causal ? " causal" : "",
         b.scale);
    axes(b.axes);
    for (size_t k = 0; k < b.names.size(); ++k) named(b.names[k], *b.bodies()[k]);
  }

  void block(const SortBlock& b) {
    line("sort batch {} key {}{}", b.batch_rank, name_of(b.key_type),
         b.descending ? " descending" : "");
    axes(b.axes);
    named("key", b.key);
    named("epilogue", b.epilogue);
  }

  void named(std::string_view name, const Body& b) {
    line("{}", name);
    body(b);
  }

  void body(const Body& b) {
    for (size_t k = 0; k < b.instrs.size(); ++k) instruction(k, b.instrs[k]);
  }

  void instruction(size_t at, const Instr& i) {
    switch (i.code) {
      case Code::constant:
        if (is_float(i.type))
          line("  %{} = constant.{} {:#x} ; {}", at, name_of(i.type), i.bits,
               ir::as_double(i.type, i.bits));
        else
          line("  %{} = constant.{} {:#x} ; {}", at, name_of(i.type), i.bits,
               ir::as_integer(i.type, i.bits));
        return;
      case Code::index:
        return line("  %{} = index [{}]", at, i.expr.str());
      case Code::clamp_index:
        return line("  %{} = clamp_index %{}, [{}]", at, i.args[0], i.expr.str());
      case Code::load:
        return line("  %{} = load.{} b{}[{}]{}", at, name_of(i.type), i.buffer, i.expr.str(),
                    guard(i.args[0]));
      case Code::store:
        return line("  store.{} b{}[{}], %{}{}", name_of(i.type), i.buffer, i.expr.str(), i.args[0],
                    guard(i.args[1]));
      case Code::accumulator:
        return line("  %{} = accumulator.{} a{}", at, name_of(i.type), i.buffer);
      case Code::accumulate:
        return line("  %{} = accumulate.{}.{} a{}, %{}", at, ir::name_of(i.op), name_of(i.type),
                    i.buffer, i.args[0]);
      case Code::lookup: {
        std::string entries;
        for (uint64_t e : i.table) entries += fmt::format(", {:#x}", e);
        return line("  %{} = lookup.{} %{}{}", at, name_of(i.type), i.args[0], entries);
      }
      case Code::arithmetic:
        break;
    }
    bool cast = ir::info(i.op).kind == ir::OpKind::cast;
    std::string args;
    for (ValueId a : i.args)
      if (a != no_value) args += fmt::format("{}%{}", args.empty() ? "" : ", ", a);
    if (cast)
      line("  %{} = {}.{}.{} {}", at, ir::name_of(i.op), name_of(i.type), name_of(i.from), args);
    else
      line("  %{} = {}.{} {}", at, ir::name_of(i.op), name_of(i.type), args);
  }

  static std::string guard(ValueId g) { return g == no_value ? "" : fmt::format(" if %{}", g); }

  const Program& p_;
  std::string out_;
};

}  // namespace

std::string disassemble(const Program& program) { return Printer(program).print(); }

}  // namespace hologram::atlas

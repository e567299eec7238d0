// atlas/text.cpp: text form of block programs: the disassembler.
#include <bit>
#include <span>

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

  // The kind, its fields, axes and bodies; then what has no place in a description.
  template <class B>
  void block(const B& b, std::string_view name = Form<B>::name) {
    const B fresh{};
    std::string head(name), notes;
    const auto& fields = Form<B>::fields;
    for (size_t k = 0; k < std::size(fields); k += fields[k].joined + 1) {
      std::span<const Field<B>> joined(&fields[k], fields[k].joined + 1);
      bool shown = !fields[k].optional;
      for (const Field<B>& f : joined)
        std::visit([&](auto member) { shown |= b.*member != fresh.*member; }, f.member);
      for (const Field<B>& f : joined)
        if (shown) with_value(f, b, [&](auto value) { field(f, value, head, notes); });
    }
    line("{}{}", head, notes);
    for (size_t k = 0; k < b.axes.size(); ++k)
      line("axis i{} {} [{}]", k, b.axes[k].kind == AxisKind::row ? "row" : "parallel",
           b.axes[k].extent.str());
    for (const BodyField<B>& row : Form<B>::bodies) {
      const Body& x = b.*row.body;
      if ((row.when && !(b.*row.when)) || (row.optional && x.instrs.empty())) continue;
      line("{}", row.name);
      body(x);
    }
    if constexpr (requires { b.stages; }) stages(b.stages);
    if constexpr (requires { b.tail; })
      if (!b.tail.stages.empty()) block(b.tail, "tail");
  }

  template <class F, class T>
  static void field(const F& f, T value, std::string& head, std::string& notes) {
    if constexpr (std::is_same_v<T, bool>) {
      if (value) head += fmt::format(" {}", f.word);
    } else if constexpr (std::is_same_v<T, DType>) {
      head += fmt::format(" {} {}", f.word, name_of(value));
    } else if constexpr (std::is_same_v<T, double>) {
      head += fmt::format(" {} {:#x}", f.word, std::bit_cast<uint64_t>(value));
      notes += fmt::format(" ; {} = {}", f.word, value);
    } else if (f.letter && value < 0) {
      head += fmt::format(" {} none", f.word);
    } else {
      head += fmt::format(" {} {}{}", f.word, f.letter ? std::string(1, f.letter) : "", value);
    }
  }

  void stages(const std::vector<Stage>& list) {
    size_t accumulators = 0;
    for (const Stage& s : list) {
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

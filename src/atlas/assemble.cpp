// atlas/assemble.cpp: text form of block programs: the assembler.
#include <bit>
#include <utility>

#include "atlas/cursor.h"
#include "atlas/extents.h"
#include "atlas/limits.h"
#include "atlas/program.h"

namespace hologram::atlas {
namespace {

// "loop, product, … or sort".
template <size_t... kinds>
std::string join_names(std::index_sequence<kinds...>) {
  std::string out;
  auto add = [&](size_t k, std::string_view name) {
    if (k > 0) out += k + 1 == sizeof...(kinds) ? " or " : ", ";
    out += name;
  };
  (add(kinds, Form<std::variant_alternative_t<kinds, Block>>::name), ...);
  return out;
}

std::string block_names() {
  return join_names(std::make_index_sequence<std::variant_size_v<Block>>());
}

class Assembler {
 public:
  explicit Assembler(std::string_view text) : in_(text) {}

  Program assemble() {
    in_.at_end();
    in_.expect_word("atlas");
    in_.expect_word("block");
    if (in_.number() != 1) in_.error("expected version 1");
    in_.end_line();
    in_.at_end();
    in_.expect_word("symbols");
    p_.num_symbols = static_cast<int>(in_.number(limits::symbols));
    in_.end_line();
    while (!in_.at_end() && in_.take_word("buffer")) buffer();
    if (!block_named(in_.word(block_names()))) in_.error("expected {}", block_names());
    if (!in_.at_end()) in_.error("expected the end of the program");
    return std::move(p_);
  }

 private:
  DType dtype() {
    std::string_view name = in_.word("an element type");
    auto t = dtype_from_name(name);
    if (!t) in_.error("unknown element type \"{}\"", name);
    return *t;
  }

  DType dot_dtype() {
    in_.expect('.');
    return dtype();
  }

  ir::Op op(std::string_view name) {
    auto o = ir::op_from_name(name);
    if (!o) in_.error("unknown operation \"{}\"", name);
    return *o;
  }

  // An expression in brackets; values of `body` may stand in it.
  Expr expr(const Body* body = nullptr) {
    std::string_view text = in_.bracketed();
    if (text.size() > limits::expression_bytes)
      in_.error("an expression of {} characters; expected at most {}", text.size(),
                limits::expression_bytes);
    try {
      return parse_expr(text, [&](Atom::Kind kind, int id) -> Expr {
        if (const Expr* e = extent_in_scope(kind, id, axes_, in_extent_, body)) return *e;
        fail(ErrorCode::invalid_argument, "unknown {}{}", kind == Atom::Kind::axis ? 'i' : 'v', id);
      });
    } catch (const Error& e) {
      in_.error("{}", e.what());
    }
  }

  void expect_number(char letter, size_t n) {
    if (in_.prefixed(letter, limits::instructions) != n) in_.error("expected {}{} here", letter, n);
  }

  int buffer_number() { return static_cast<int>(in_.prefixed('b', limits::buffers - 1)); }
  int accumulator_number() { return static_cast<int>(in_.prefixed('a', limits::accumulators - 1)); }
  ValueId value() { return static_cast<ValueId>(in_.prefixed('%', limits::instructions)); }

  void buffer() {
    if (p_.buffers.size() == limits::buffers) in_.error("more than {} buffers", limits::buffers);
    expect_number('b', p_.buffers.size());
    Buffer b{.dtype = dtype(), .access = Access::read, .extent = {}};
    std::string_view access = in_.word("read, write, read_write or scratch");
    if (access == "write")
      b.access = Access::write;
    else if (access == "read_write")
      b.access = Access::read_write;
    else if (access == "scratch")
      b.access = Access::scratch;
    else if (access != "read")
      in_.error("expected read, write, read_write or scratch");
    b.extent = expr();
    in_.end_line();
    p_.buffers.push_back(std::move(b));
  }

  void axes(std::vector<Axis>& list) {
    axes_ = &list;
    while (!in_.at_end() && in_.take_word("axis")) {
      if (list.size() == limits::axes) in_.error("more than {} axes", limits::axes);
      expect_number('i', list.size());
      AxisKind kind = AxisKind::parallel;
      if (in_.take_word("row"))
        kind = AxisKind::row;
      else
        in_.expect_word("parallel");
      in_extent_ = true;
      Expr extent = expr();
      in_extent_ = false;
      in_.end_line();
      list.push_back({kind, std::move(extent)});
    }
  }

  // Reads the block of the kind of this name.
  template <size_t kind = 0>
  bool block_named(std::string_view name) {
    if constexpr (kind == std::variant_size_v<Block>) {
      return false;
    } else {
      if (name != Form<std::variant_alternative_t<kind, Block>>::name)
        return block_named<kind + 1>(name);
      block(p_.block.emplace<kind>());
      return true;
    }
  }

  template <class B>
  void block(B& b) {
    const auto& fields = Form<B>::fields;
    for (size_t k = 0; k < std::size(fields); ++k) {
      const Field<B>& f = fields[k];
      if (f.optional && in_.peek_word() != f.word) {
        k += f.joined;
        continue;
      }
      with_value(f, b, [&](auto& value) { field(f, value); });
    }
    in_.end_line();
    axes(b.axes);
    for (const BodyField<B>& row : Form<B>::bodies) {
      if (row.when && !(b.*row.when)) continue;
      bool ends = in_.at_end();
      if (row.optional && (ends || in_.peek_word() != row.name)) continue;
      in_.expect_word(row.name);
      in_.end_line();
      body(b.*row.body);
    }
    if constexpr (requires { b.stages; }) stages(b.stages);
    if constexpr (requires { b.tail; })
      if (!in_.at_end()) {
        in_.expect_word("tail");
        block(b.tail);
        if (b.tail.stages.empty()) in_.error("a tail without stages");
      }
  }

  template <class F, class T>
  void field(const F& f, T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      value = in_.take_word(f.word);
      return;
    }
    in_.expect_word(f.word);
    if constexpr (std::is_same_v<T, DType>)
      value = dtype();
    else if constexpr (std::is_same_v<T, double>)
      value = std::bit_cast<double>(in_.number());
    else if (f.letter == 'b' && in_.take_word("none"))
      value = -1;
    else if (f.letter == 'b')
      value = buffer_number();
    else if (f.letter)
      value = static_cast<T>(in_.prefixed(f.letter, limits::axes));
    else
      value = static_cast<T>(in_.number(f.limit));
  }

  void stages(std::vector<Stage>& list) {
    size_t accumulators = 0;
    while (!in_.at_end()) {
      in_.expect_word("stage");
      if (list.size() == limits::stages) in_.error("more than {} stages", limits::stages);
      Stage& s = list.emplace_back();
      if (in_.take_word("row"))
        s.kind = StageKind::row;
      else if (in_.take_word("serial_row"))
        s.kind = StageKind::serial_row;
      else if (in_.take_word("scan"))
        s.kind = StageKind::scan;
      else {
        in_.expect_word("point");
        s.kind = StageKind::point;
      }
      in_.end_line();
      body(s.body);
      results(s, accumulators);
    }
  }

  void results(Stage& s, size_t& accumulators) {
    while (!in_.at_end()) {
      bool running = in_.peek_word() == "running";
      if (!running && in_.peek_word() != "reduce") return;
      in_.word("");
      if (accumulators == limits::accumulators)
        in_.error("more than {} accumulators", limits::accumulators);
      if (!running && !s.running.empty()) in_.error("reductions come before running accumulators");
      expect_number('a', accumulators++);
      in_.expect('=');
      ir::Op o = op(in_.word("a reduction"));
      DType type = dot_dtype();
      if (running) {
        s.running.emplace_back(o, type);
      } else {
        Reduction r{.op = o, .type = type, .value = value()};
        r.tree = in_.take_word("tree");
        if (in_.take_word("at")) r.position = value();
        s.reductions.push_back(r);
      }
      in_.end_line();
    }
  }

  // Instructions: lines that begin with % or store.
  void body(Body& b) {
    while (!in_.at_end()) {
      bool store = in_.peek_word() == "store";
      if (!store && in_.peek() != '%') return;
      if (b.instrs.size() == limits::instructions)
        in_.error("more than {} instructions", limits::instructions);
      Instr i{.code = Code::store, .expr = {}};
      if (store) {
        in_.word("");
        store_instruction(i, b);
      } else {
        if (value() != b.instrs.size()) in_.error("expected %{} here", b.instrs.size());
        in_.expect('=');
        instruction(i, b);
      }
      in_.end_line();
      b.add(std::move(i));
    }
  }

  void store_instruction(Instr& i, const Body& b) {
    i.type = dot_dtype();
    i.buffer = buffer_number();
    i.expr = expr(&b);
    in_.expect(',');
    i.args[0] = value();
    if (in_.take_word("if")) i.args[1] = value();
  }

  void instruction(Instr& i, const Body& b) {
    std::string_view name = in_.word("an instruction");
    if (name == "constant") {
      i.code = Code::constant;
      i.type = dot_dtype();
      i.bits = in_.number();
    } else if (name == "index") {
      i.code = Code::index;
      i.type = DType::i64;
      i.expr = expr(&b);
    } else if (name == "clamp_index") {
      i.code = Code::clamp_index;
      i.type = DType::i64;
      i.args[0] = value();
      in_.expect(',');
      i.expr = expr(&b);
    } else if (name == "load") {
      i.code = Code::load;
      i.type = dot_dtype();
      i.buffer = buffer_number();
      i.expr = expr(&b);
      if (in_.take_word("if")) i.args[0] = value();
    } else if (name == "accumulator") {
      i.code = Code::accumulator;
      i.type = dot_dtype();
      i.buffer = accumulator_number();
    } else if (name == "accumulate") {
      i.code = Code::accumulate;
      in_.expect('.');
      i.op = op(in_.word("a reduction"));
      i.type = dot_dtype();
      i.buffer = accumulator_number();
      in_.expect(',');
      i.args[0] = value();
    } else if (name == "lookup") {
      i.code = Code::lookup;
      i.type = dot_dtype();
      i.args[0] = value();
      while (!in_.line_ends()) {
        if (i.table.size() == limits::table_entries)
          in_.error("more than {} entries", limits::table_entries);
        in_.expect(',');
        i.table.push_back(in_.number());
      }
    } else {
      i.code = Code::arithmetic;
      i.op = op(name);
      i.type = dot_dtype();
      if (ir::info(i.op).kind == ir::OpKind::cast) i.from = dot_dtype();
      for (size_t k = 0; k < 3 && !in_.line_ends(); ++k) {
        if (k > 0) in_.expect(',');
        i.args[k] = value();
      }
    }
  }

  Cursor in_;
  Program p_;
  const std::vector<Axis>* axes_ = nullptr;
  bool in_extent_ = false;  ///< reading an axis's extent
};

}  // namespace

Program assemble(std::string_view text) {
  require(text.size() <= limits::text_bytes, "assemble: {} bytes of text; expected at most {}",
          text.size(), limits::text_bytes);
  return Assembler(text).assemble();
}

}  // namespace hologram::atlas

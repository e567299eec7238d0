// atlas/assemble.cpp: text form of block programs: the assembler.
#include <bit>

#include "atlas/cursor.h"
#include "atlas/extents.h"
#include "atlas/limits.h"
#include "atlas/program.h"

namespace hologram::atlas {
namespace {

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
    std::string_view kind = in_.word("loop, product, attention, attention_grad or sort");
    if (kind == "loop")
      block(p_.block.emplace<LoopBlock>());
    else if (kind == "product")
      block(p_.block.emplace<ProductBlock>());
    else if (kind == "attention")
      block(p_.block.emplace<AttentionBlock>());
    else if (kind == "attention_grad")
      block(p_.block.emplace<AttentionGradBlock>());
    else if (kind == "sort")
      block(p_.block.emplace<SortBlock>());
    else
      in_.error("expected loop, product, attention, attention_grad or sort");
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

  void block(LoopBlock& b) {
    in_.expect_word("parallel");
    b.parallel_rank = static_cast<int>(in_.number(limits::axes));
    if (in_.take_word("lane")) b.lane_axis = static_cast<int>(in_.prefixed('i', limits::axes));
    in_.end_line();
    axes(b.axes);
    size_t accumulators = 0;
    while (!in_.at_end()) {
      in_.expect_word("stage");
      if (b.stages.size() == limits::stages) in_.error("more than {} stages", limits::stages);
      Stage& s = b.stages.emplace_back();
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

  void named(std::string_view name, Body& b) {
    in_.at_end();
    in_.expect_word(name);
    in_.end_line();
    body(b);
  }

  void block(ProductBlock& b) {
    in_.expect_word("batch");
    b.batch_rank = static_cast<int>(in_.number(limits::axes));
    in_.expect_word("operand");
    b.operand_type = dtype();
    b.mixed = in_.take_word("mixed");
    in_.expect_word("acc");
    b.acc_type = dtype();
    in_.expect_word("precision");
    b.precision = static_cast<int>(in_.number(2));
    b.reproducible = in_.take_word("reproducible");
    b.winograd = in_.take_word("winograd");
    if (in_.take_word("parts")) b.parts = static_cast<int>(in_.number(limits::product_parts));
    if (in_.take_word("terms")) b.terms = static_cast<int>(in_.number(3));
    if (in_.take_word("packed")) {
      if (!in_.take_word("none")) b.packed_rhs = buffer_number();
      in_.expect_word("width");
      b.panel_width = static_cast<int>(in_.number(limits::panel_width));
      in_.expect_word("group");
      b.panel_group = static_cast<int>(in_.number(4));
    }
    in_.end_line();
    axes(b.axes);
    named("lhs", b.lhs);
    named("rhs", b.rhs);
    if (b.winograd) named("image", b.image);
    named("epilogue", b.epilogue);
    if (in_.at_end()) return;
    in_.expect_word("tail");
    block(b.tail);
    if (b.tail.stages.empty()) in_.error("a tail without stages");
  }

  void block(AttentionBlock& b) {
    in_.expect_word("batch");
    b.batch_rank = static_cast<int>(in_.number(limits::axes));
    in_.expect_word("operand");
    b.operand_type = dtype();
    in_.expect_word("scale");
    b.scale = std::bit_cast<double>(in_.number());
    b.causal = in_.take_word("causal");
    b.reproducible = in_.take_word("reproducible");
    in_.end_line();
    axes(b.axes);
    named("q", b.q);
    named("k", b.k);
    named("v", b.v);
    named("score", b.score);
    named("epilogue", b.epilogue);
    if (!in_.at_end() && in_.peek_word() == "lse") named("lse", b.lse);
  }

  void block(AttentionGradBlock& b) {
    in_.expect_word("batch");
    b.batch_rank = static_cast<int>(in_.number(limits::axes));
    in_.expect_word("operand");
    b.operand_type = dtype();
    in_.expect_word("scale");
    b.scale = std::bit_cast<double>(in_.number());
    b.causal = in_.take_word("causal");
    in_.end_line();
    axes(b.axes);
    for (size_t k = 0; k < b.names.size(); ++k) named(b.names[k], *b.bodies()[k]);
  }

  void block(SortBlock& b) {
    in_.expect_word("batch");
    b.batch_rank = static_cast<int>(in_.number(limits::axes));
    in_.expect_word("key");
    b.key_type = dtype();
    b.descending = in_.take_word("descending");
    in_.end_line();
    axes(b.axes);
    named("key", b.key);
    named("epilogue", b.epilogue);
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

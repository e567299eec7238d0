// atlas/binary.cpp: binary form of block programs.
//
// Operations and expressions stand in tables of strings at the front: names outlive a renumbering
// of ops.def, and most expressions occur many times. An expression is read with the axes and values
// in whose scope it stands.
#include <bit>
#include <unordered_map>

#include "atlas/container.h"
#include "atlas/extents.h"
#include "atlas/limits.h"
#include "atlas/program.h"
#include "base/bytes.h"
#include "base/error.h"

namespace hologram::atlas {
namespace {

class Encoder {
 public:
  std::string encode(const Program& p) {
    out_.uint(static_cast<uint64_t>(p.num_symbols));
    out_.uint(p.buffers.size());
    for (const Buffer& b : p.buffers) {
      type(b.dtype);
      out_.byte(static_cast<uint8_t>(b.access));
      expr(b.extent);
    }
    out_.byte(static_cast<uint8_t>(p.kind()));
    std::visit([&](const auto& b) { block(b); }, p.block);
    ByteWriter head;
    head.uint(strings_.size());
    for (const std::string& s : strings_) head.string(s);
    return seal(Layer::block, head.take() + out_.take());
  }

 private:
  void type(DType t) { out_.byte(static_cast<uint8_t>(t)); }

  void text(std::string s) {
    auto [it, fresh] = numbers_.try_emplace(std::move(s), strings_.size());
    if (fresh) strings_.push_back(it->first);
    out_.uint(it->second);
  }

  void op(ir::Op o) { text(std::string(ir::name_of(o))); }
  void expr(const Expr& e) { text(e.str()); }

  void axes(const std::vector<Axis>& list) {
    out_.uint(list.size());
    for (const Axis& a : list) {
      out_.byte(static_cast<uint8_t>(a.kind));
      expr(a.extent);
    }
  }

  void value(ValueId id) { out_.uint(id == no_value ? 0 : uint64_t{id} + 1); }

  void body(const Body& b) {
    out_.uint(b.instrs.size());
    for (const Instr& i : b.instrs) instruction(i);
  }

  void instruction(const Instr& i) {
    out_.byte(static_cast<uint8_t>(i.code));
    type(i.type);
    switch (i.code) {
      case Code::constant:
        return out_.word(i.bits);
      case Code::index:
        return expr(i.expr);
      case Code::clamp_index:
        value(i.args[0]);
        return expr(i.expr);
      case Code::load:
        out_.sint(i.buffer);
        expr(i.expr);
        return value(i.args[0]);
      case Code::store:
        out_.sint(i.buffer);
        expr(i.expr);
        value(i.args[0]);
        return value(i.args[1]);
      case Code::accumulator:
        return out_.sint(i.buffer);
      case Code::accumulate:
        op(i.op);
        out_.sint(i.buffer);
        return value(i.args[0]);
      case Code::lookup:
        value(i.args[0]);
        out_.uint(i.table.size());
        for (uint64_t e : i.table) out_.uint(e);
        return;
      case Code::arithmetic:
        op(i.op);
        if (ir::info(i.op).kind == ir::OpKind::cast) type(i.from);
        for (ValueId a : i.args) value(a);
    }
  }

  template <class B>
  void block(const B& b) {
    auto put = [&](const Field<B>& f, bool leads) {
      if (f.leads == leads) with_value(f, b, [&](auto value) { field(value); });
    };
    in_binary_order(Form<B>::fields, [&](const Field<B>& f) { put(f, true); });
    axes(b.axes);
    in_binary_order(Form<B>::fields, [&](const Field<B>& f) { put(f, false); });
    in_binary_order(Form<B>::bodies, [&](const BodyField<B>& row) {
      if (!row.when || b.*row.when) body(b.*row.body);
    });
    if constexpr (requires { b.stages; }) stages(b.stages);
    if constexpr (requires { b.tail; }) {
      out_.byte(!b.tail.stages.empty());
      if (!b.tail.stages.empty()) block(b.tail);
    }
  }

  void field(int n) { out_.sint(n); }
  void field(bool b) { out_.byte(b); }
  void field(DType t) { type(t); }
  void field(double x) { out_.word(std::bit_cast<uint64_t>(x)); }

  void stages(const std::vector<Stage>& list) {
    out_.uint(list.size());
    for (const Stage& s : list) {
      out_.byte(static_cast<uint8_t>(s.kind));
      body(s.body);
      out_.uint(s.reductions.size());
      for (const Reduction& r : s.reductions) {
        op(r.op);
        type(r.type);
        value(r.value);
        out_.byte(r.tree);
        value(r.position);
      }
      out_.uint(s.running.size());
      for (const auto& [o, t] : s.running) {
        op(o);
        type(t);
      }
    }
  }

  ByteWriter out_;
  std::vector<std::string> strings_;
  std::unordered_map<std::string, size_t> numbers_;
};

template <size_t k = 0>
Block block_of(BlockKind kind) {
  if constexpr (k + 1 < std::variant_size_v<Block>)
    if (static_cast<size_t>(kind) != k) return block_of<k + 1>(kind);
  return Block(std::in_place_index<k>);
}

class Decoder {
 public:
  explicit Decoder(std::string_view payload) : in_(payload, program_bytes) {}

  Program decode() {
    size_t strings = in_.count(1 << 20);
    for (size_t k = 0; k < strings; ++k) strings_.push_back(in_.string(limits::expression_bytes));
    p_.num_symbols = static_cast<int>(in_.uint(limits::symbols));
    size_t buffers = in_.count(limits::buffers);
    for (size_t k = 0; k < buffers; ++k) {
      Buffer b{.dtype = type(), .access = enumerator(Access::scratch), .extent = {}};
      b.extent = expr();
      p_.buffers.push_back(std::move(b));
    }
    p_.block = block_of(enumerator(static_cast<BlockKind>(std::variant_size_v<Block> - 1)));
    std::visit([&](auto& b) { block(b); }, p_.block);
    if (!in_.at_end()) in_.error("bytes after the program");
    return std::move(p_);
  }

 private:
  template <class E>
  E enumerator(E last) {
    uint8_t b = in_.byte();
    if (b > static_cast<uint8_t>(last)) in_.error("an unknown enumerator");
    return static_cast<E>(b);
  }

  DType type() { return enumerator(static_cast<DType>(num_dtypes - 1)); }
  bool flag() { return enumerator(static_cast<uint8_t>(1)) != 0; }

  int small(uint64_t most = 0) {
    int64_t n = in_.sint();
    if (n < -1 || n > std::max<int64_t>(1 << 16, static_cast<int64_t>(most)))
      in_.error("a number out of range");
    return static_cast<int>(n);
  }

  ValueId value() {
    uint64_t n = in_.uint(limits::instructions);
    return n == 0 ? no_value : static_cast<ValueId>(n - 1);
  }

  std::string_view text() { return strings_[in_.uint(strings_.empty() ? 0 : strings_.size() - 1)]; }

  ir::Op op() {
    if (strings_.empty()) in_.error("no operation");
    auto o = ir::op_from_name(text());
    if (!o) in_.error("an unknown operation");
    return *o;
  }

  Expr expr(const Body* body = nullptr) {
    if (strings_.empty()) in_.error("no expression");
    std::string_view s = text();
    parsed_ += s.size();
    if (parsed_ > limits::text_bytes) in_.error("too many expressions");
    try {
      return parse_expr(s, [&](Atom::Kind kind, int id) -> Expr {
        if (const Expr* e = extent_in_scope(kind, id, axes_, in_extent_, body)) return *e;
        in_.error("an expression with an unknown axis or value");
      });
    } catch (const Error& e) {
      in_.error(e.what());
    }
  }

  void axes(std::vector<Axis>& list) {
    axes_ = &list;
    size_t count = in_.count(limits::axes);
    for (size_t k = 0; k < count; ++k) {
      AxisKind kind = enumerator(AxisKind::row);
      in_extent_ = true;
      Expr extent = expr();
      in_extent_ = false;
      list.push_back({kind, std::move(extent)});
    }
  }

  void body(Body& b) {
    size_t count = in_.count(limits::instructions);
    for (size_t k = 0; k < count; ++k) b.add(instruction(b));
  }

  Instr instruction(const Body& b) {
    Instr i{.code = enumerator(Code::lookup), .expr = {}};
    i.type = type();
    switch (i.code) {
      case Code::constant:
        i.bits = in_.word();
        break;
      case Code::index:
        i.expr = expr(&b);
        break;
      case Code::clamp_index:
        i.args[0] = value();
        i.expr = expr(&b);
        break;
      case Code::load:
        i.buffer = small();
        i.expr = expr(&b);
        i.args[0] = value();
        break;
      case Code::store:
        i.buffer = small();
        i.expr = expr(&b);
        i.args[0] = value();
        i.args[1] = value();
        break;
      case Code::accumulator:
        i.buffer = small();
        break;
      case Code::accumulate:
        i.op = op();
        i.buffer = small();
        i.args[0] = value();
        break;
      case Code::lookup: {
        i.args[0] = value();
        size_t entries = in_.count(limits::table_entries);
        for (size_t k = 0; k < entries; ++k) i.table.push_back(in_.uint(~uint64_t{0}));
        break;
      }
      case Code::arithmetic:
        i.op = op();
        if (ir::info(i.op).kind == ir::OpKind::cast) i.from = type();
        for (ValueId& a : i.args) a = value();
        break;
    }
    return i;
  }

  template <class B>
  void block(B& b) {
    auto take = [&](const Field<B>& f, bool leads) {
      if (f.leads == leads) with_value(f, b, [&](auto& value) { field(value, f.limit); });
    };
    in_binary_order(Form<B>::fields, [&](const Field<B>& f) { take(f, true); });
    axes(b.axes);
    in_binary_order(Form<B>::fields, [&](const Field<B>& f) { take(f, false); });
    in_binary_order(Form<B>::bodies, [&](const BodyField<B>& row) {
      if (!row.when || b.*row.when) body(b.*row.body);
    });
    if constexpr (requires { b.stages; }) stages(b.stages);
    if constexpr (requires { b.tail; })
      if (flag()) block(b.tail);
  }

  void field(int& n, uint64_t limit) { n = small(limit); }
  void field(bool& b, uint64_t) { b = flag(); }
  void field(DType& t, uint64_t) { t = type(); }
  void field(double& x, uint64_t) { x = std::bit_cast<double>(in_.word()); }

  void stages(std::vector<Stage>& list) {
    size_t count = in_.count(limits::stages);
    for (size_t k = 0; k < count; ++k) {
      Stage& s = list.emplace_back();
      s.kind = enumerator(StageKind::scan);
      body(s.body);
      size_t reductions = in_.count(limits::accumulators);
      for (size_t j = 0; j < reductions; ++j) {
        Reduction r{.op = op(), .type = type(), .value = value()};
        r.tree = flag();
        r.position = value();
        s.reductions.push_back(r);
      }
      size_t running = in_.count(limits::accumulators);
      for (size_t j = 0; j < running; ++j) {
        ir::Op o = op();
        s.running.emplace_back(o, type());
      }
    }
  }

  ByteReader in_;
  std::vector<std::string_view> strings_;
  Program p_;
  const std::vector<Axis>* axes_ = nullptr;
  bool in_extent_ = false;  ///< reading an axis's extent
  size_t parsed_ = 0;       ///< bytes of expressions read, repetitions included
};

}  // namespace

std::string encode(const Program& program) { return Encoder().encode(program); }

Program decode(std::string_view bytes) { return Decoder(unseal(Layer::block, bytes)).decode(); }

Fingerprint fingerprint(const Program& program) {
  return hologram::fingerprint(std::string_view(encode(program)));
}

}  // namespace hologram::atlas

// schedule/lower/emit.cpp: expressions of the graph → bodies of Atlas programs.
#include "schedule/lower/emit.h"

#include <algorithm>

#include "atlas/walk.h"
#include "ir/scalar.h"
#include "schedule/cluster/cluster.h"

namespace hologram::schedule {

using atlas::Access;
using atlas::Val;
using ir::Op;
using ir::OpKind;
using ir::Value;

int ProgramBuilder::buffer(int slot, Access access) {
  auto [it, added] = number_.emplace(slot, static_cast<int>(program.buffers.size()));
  if (added) {
    const Slot& s = slots_[static_cast<size_t>(slot)];
    Expr extent(1);
    for (size_t i = 0; i < s.shape.size(); ++i) extent += (s.shape[i] - Expr(1)) * s.strides[i];
    program.buffers.push_back({s.dtype, access, extent});
    buffers.push_back(slot);
  }
  Access& now = program.buffers[static_cast<size_t>(it->second)].access;
  if (now != access) now = Access::read_write;
  return it->second;
}

int ProgramBuilder::scratch(DType dtype, const Expr& extent) {
  program.buffers.push_back({dtype, Access::scratch, extent});
  return static_cast<int>(program.buffers.size()) - 1;
}

void ProgramBuilder::join(int from, int to) {
  auto number = [&](int& b) {
    if (b == from) b = to;
    if (b > from) --b;
  };
  atlas::for_each_instr(program, [&](atlas::Instr& i) {
    if (i.code == atlas::Code::load || i.code == atlas::Code::store) number(i.buffer);
  });
  number(program.product().packed_rhs);
  program.buffers[static_cast<size_t>(to)].access = Access::read_write;
  program.buffers.erase(program.buffers.begin() + from);
  for (auto it = number_.begin(); it != number_.end(); ++it) {
    if (it->second == from) buffers.erase(std::find(buffers.begin(), buffers.end(), it->first));
    number(it->second);
  }
}

size_t Emitter::KeyHash::operator()(const Key& k) const {
  size_t h = k.node->hash * 31 + k.guard;
  for (const Expr& e : k.index) h = h * 31 + e.hash();
  return h;
}

Val Emitter::widen(Val v) {
  return v.type == DType::f16 || v.type == DType::bf16 ? b_.cast(v, DType::f32) : v;
}

Val Emitter::convert(Val v, DType to, Op how) {
  if (v.type == to) return v;
  if (how == Op::bitcast) return b_.cast(v, to, how);
  v = widen(v);
  DType direct = compute_type(to);
  if (v.type != direct) v = b_.cast(v, direct, how);
  return direct == to ? v : b_.cast(v, to);
}

Val Emitter::load(int slot, const Index& index, Val guard) {
  int buffer = kernel_.buffer(slot, Access::read);
  const Slot& s = kernel_.slot(slot);
  return b_.load(buffer, s.dtype, offset_of(index, s.strides).unbounded(), guard);
}

void Emitter::store(int slot, const Index& index, Val value, Val guard) {
  int buffer = kernel_.buffer(slot, Access::write);
  b_.store(buffer, offset_of(index, kernel_.slot(slot).strides).unbounded(), value, guard);
}

Val Emitter::within(const Expr& e, const Expr& extent, Val guard) {
  auto both = [&](Val g) {
    guard = guard.id == atlas::no_value ? g : b_.op(Op::bit_and, guard, g);
  };
  Expr at = e.unbounded();
  if (!provably_nonnegative(e)) both(b_.le(b_.integer(DType::i64, 0), b_.index(at)));
  if (!provably_less(e, extent)) both(b_.lt(b_.index(at), b_.index(extent)));
  return guard;
}

namespace {

// A coordinate that a guard holds within [0, extent): divisions by what the operand's shape is made
// of then fold as they do for coordinates that are never outside.
Expr inside(const Expr& e, const Expr& extent) {
  return provably_nonnegative(e) && provably_less(e, extent) ? e : Expr::bounded(e, extent);
}

Index unbounded(const Index& index) {
  Index out;
  out.reserve(index.size());
  for (const Expr& e : index) out.push_back(e.unbounded());
  return out;
}

// The operand of indices that turn a negative one into one that is out of range for every axis:
// x < 0 ? 2^62 or more : x; else null. `at` becomes its coordinates.
Value counted_from_zero(Value v, Index& at, const std::function<bool(Value)>& is_buffered) {
  while (ir::is_movement(v->op) && v->inputs.size() == 1 && !v->is(Op::pad) && !is_buffered(v)) {
    at = input_index(v, 0, at);
    v = v->input();
  }
  if (!v->is(Op::select) || v->dtype != DType::i64 || is_buffered(v)) return nullptr;
  Value c = v->input(0), far = v->input(1), x = v->input(2);
  bool matches = c->is(Op::lt) && c->input(0) == x && c->input(1)->is_constant() &&
                 c->input(1)->attrs.bits == 0 && far->is_constant() &&
                 static_cast<int64_t>(far->attrs.bits) >= int64_t{1} << 62;
  return matches ? x : nullptr;
}

}  // namespace

Val Emitter::place(Value indices, const Index& at, const Expr& extent, Val guard) {
  Index from = at;
  Value bare = counted_from_zero(indices, from, is_buffered_);
  Val i = convert(bare ? value(bare, from, guard) : value(indices, at, guard), DType::i64);
  Val zero = b_.integer(DType::i64, 0);
  if (guard.id != atlas::no_value) i = b_.select(guard, i, zero);
  bool below = !bare && (is_signed_int(indices->dtype) || indices->dtype == DType::u64);
  return below ? b_.select(b_.lt(i, zero), b_.add(i, b_.index(extent)), i) : i;
}

Expr Emitter::checked(Val place, const Expr& extent) {
  return Expr::value(static_cast<int>(b_.clamp_index(place, extent).id), extent);
}

Val Emitter::value(Value v, const Index& index, Val guard) {
  if (v->is(Op::constant)) return b_.constant(v->dtype, v->attrs.bits);
  if (v->is(Op::iota))
    return convert(b_.index(index[static_cast<size_t>(v->attrs.ints[0])].unbounded()), v->dtype);
  Key key{v, guard.id, index};
  if (auto it = memo_.find(key); it != memo_.end()) return it->second;
  Val out;
  if (auto local = local_(v, unbounded(index)))
    out = *local;
  else if (auto other = elsewhere ? elsewhere(v, index) : std::nullopt)
    out = load(other->first, other->second, guard);
  else if (is_buffered_(v))
    out = load(slot_of_(v), index, guard);
  else
    out = compute(v, index, guard);
  memo_.emplace(std::move(key), out);
  return out;
}

Val Emitter::compute(Value v, const Index& index, Val guard) {
  if (v->is(Op::take)) {
    Value operand = v->input(0), indices = v->input(1);
    TakeParts p = split_take(v, index);
    Index at = p.before;
    const Expr& extent = operand->shape[p.before.size()];
    at.push_back(checked(place(indices, p.indices, extent, guard), extent));
    at.insert(at.end(), p.after.begin(), p.after.end());
    return value(operand, at, guard);
  }
  if (v->is(Op::pad)) {
    Index at = input_index(v, 0, index);
    Val g = guard;
    for (size_t i = 0; i < at.size(); ++i) {
      g = within(at[i], v->input()->shape[i], g);
      at[i] = inside(at[i], v->input()->shape[i]);
    }
    Val x = value(v->input(), at, g);
    if (g.id == guard.id) return x;
    // A load whose guard fails gives 0 already.
    const atlas::Instr& made = b_.body().instrs[x.id];
    if (v->attrs.bits == 0 && made.code == atlas::Code::load && made.args[0] == g.id) return x;
    return b_.select(g, x, b_.constant(v->dtype, v->attrs.bits));
  }
  if (v->is(Op::concat)) {
    auto axis = static_cast<size_t>(v->attrs.ints[0]);
    if (auto whole = one_operand(v, index)) return value(whole->first, whole->second, guard);
    Val out;
    for (size_t k = v->inputs.size(); k-- > 0;) {
      Index at = input_index(v, k, index);
      const Expr& size = v->input(k)->shape[axis];
      const bool elsewhere =
          provably_less(at[axis], Expr(0)) || provably_nonnegative(at[axis] - size);
      if (elsewhere && (k > 0 || out.id != atlas::no_value)) continue;
      Val g = within(at[axis], size, guard);
      at[axis] = inside(at[axis], size);
      Val x = value(v->input(k), at, g);
      if (out.id == atlas::no_value) {
        out = x;
        continue;
      }
      Expr next = concat_start(v, k + 1);
      out = b_.select(b_.lt(b_.index(index[axis].unbounded()), b_.index(next)), x, out);
    }
    return out;
  }
  if (v->is(Op::dot_general)) return sum(v, index, guard);
  if (ir::is_movement(v->op)) return value(v->input(), moved(v, index), guard);
  if (!ir::is_elementwise(v->op))
    fail(ErrorCode::internal, "schedule: {} reached where an expression is expected",
         ir::name_of(v->op));
  Val out = elementwise(v, index, guard);
  if (on_compute) on_compute(v, unbounded(index), out);
  return out;
}

// A concatenation whose parts are cut from one tensor, as a padding's that repeats or mirrors its
// edges, is that tensor at a place that is computed, where this takes no time of the innermost
// loop: not along the lanes, but along an axis around others whose parts would each be written out
// for every part of this one.
std::optional<std::pair<Value, Index>> Emitter::one_operand(Value v, const Index& index) const {
  const auto axis = static_cast<size_t>(v->attrs.ints[0]);
  auto last = [](const Expr& e) {
    int n = -1;
    e.any_atom([&](const Atom& a) {
      if (a.kind == Atom::Kind::axis) n = std::max(n, a.id);
      return false;
    });
    return n;
  };
  int innermost = -1;
  for (const Expr& e : index) innermost = std::max(innermost, last(e));
  const int own = last(index[axis]);
  if (own < 0 || own == innermost) return std::nullopt;
  const auto pieces = pieces_of(v, is_buffered_);
  if (!pieces || !(pieces->of->is(Op::concat) || pieces->of->is(Op::pad)) ||
      is_buffered_(pieces->of))
    return std::nullopt;
  Index at = index;
  const auto place = place_of(*pieces, index[axis].unbounded());
  if (!place) return std::nullopt;
  at[axis] = inside(*place, pieces->of->shape[axis]);
  return std::pair(pieces->of, at);
}

Index Emitter::moved(Value v, const Index& index) {
  if (!v->is(Op::reshape)) return input_index(v, 0, index);
  return reshapes_.try_emplace(v, v->input()->shape, v->shape).first->second(index);
}

Val Emitter::sum(Value dot, const Index& index, Val guard) {
  Value lhs = dot->input(0), rhs = dot->input(1);
  const DType acc = is_int(dot->dtype) ? dot->dtype : compute_type(lhs->dtype);
  Val chain = b_.constant(acc, 0);
  for (int64_t k = 0; k < lhs->shape.back().constant_value(); ++k) {
    auto [left, right] = factors_of(dot, index, k);
    Val x = convert(value(lhs, left, guard), acc), y = convert(value(rhs, right, guard), acc);
    chain = is_float(acc) ? b_.fma(x, y, chain) : b_.add(b_.mul(x, y), chain);
  }
  return convert(chain, dot->dtype);
}

Val Emitter::next_half(Val x, Val y) {
  const DType type = x.type;
  auto bits = [&](int64_t n) { return b_.integer(DType::i16, n); };
  Val a = widen(x), b = widen(y), zero = b_.number(DType::f32, 0),
      number = b_.bitcast(x, DType::i16);
  Val grows = b_.eq(b_.lt(a, b), b_.lt(zero, a));
  Val next = b_.add(number, b_.select(grows, bits(1), bits(-1)));
  Val least = b_.select(b_.lt(b, zero), bits(-0x7fff), bits(1));
  next = b_.select(b_.eq(a, zero), least, next);
  Val out = b_.select(b_.eq(a, b), y, b_.bitcast(next, type));
  return b_.select(b_.ne(a, a), x, b_.select(b_.ne(b, b), y, out));
}

Val Emitter::elementwise(Value v, const Index& index, Val guard) {
  if (ir::info(v->op).kind == OpKind::cast)
    return convert(value(v->input(), index, guard), v->dtype, v->op);
  if (v->is(Op::select))
    return b_.select(value(v->input(0), index, guard), value(v->input(1), index, guard),
                     value(v->input(2), index, guard));
  if (v->is(Op::nextafter) && compute_type(v->dtype) != v->dtype)
    return next_half(value(v->input(0), index, guard), value(v->input(1), index, guard));
  Val x[3];
  for (size_t i = 0; i < v->inputs.size(); ++i) x[i] = widen(value(v->input(i), index, guard));
  if (guard.id != atlas::no_value && (v->is(Op::div) || v->is(Op::rem)) && is_int(x[1].type))
    x[1] = b_.select(guard, x[1],
                     b_.integer(x[1].type, 1));  // unread divisors must not raise the error
  Val out = v->inputs.size() == 1   ? b_.op(v->op, x[0])
            : v->inputs.size() == 2 ? b_.op(v->op, x[0], x[1])
                                    : b_.op(v->op, x[0], x[1], x[2]);
  return ir::info(v->op).kind == OpKind::compare ? out : convert(out, v->dtype);
}

}  // namespace hologram::schedule

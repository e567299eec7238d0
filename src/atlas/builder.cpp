// atlas/builder.cpp: hash-consing and constant folding of bodies.
#include "atlas/builder.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "ir/scalar.h"

namespace hologram::atlas {
namespace {

uint64_t mix(uint64_t h, uint64_t v) {
  h ^= v + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2);
  return h * 0xff51afd7ed558ccdull;
}

uint64_t hash_of(const Instr& i) {
  uint64_t h = mix(static_cast<uint64_t>(i.code), static_cast<uint64_t>(i.op));
  h = mix(h, static_cast<uint64_t>(i.type) << 8 | static_cast<uint64_t>(i.from));
  for (ValueId a : i.args) h = mix(h, a);
  h = mix(mix(h, i.bits), static_cast<uint64_t>(i.buffer));
  for (uint64_t entry : i.table) h = mix(h, entry);
  return mix(h, i.expr.hash());
}

bool reusable(const Instr& i) { return i.code != Code::store && i.code != Code::accumulate; }

// Operands of operands are looked at down to `depth` more instructions.
bool narrow_within(const Body& body, ValueId id, DType narrow, int depth) {
  const Instr& i = body.instrs[id];
  if (i.code == Code::constant) {
    const std::array<uint64_t, 1> wide{i.bits};
    const std::array<uint64_t, 1> bits{ir::eval_scalar(ir::Op::cast, DType::f32, wide, narrow)};
    return ir::eval_scalar(ir::Op::cast, narrow, bits, DType::f32) == i.bits;
  }
  if (i.code != Code::arithmetic || depth == 0) return false;
  const size_t condition = i.op == ir::Op::select,
               arity = static_cast<size_t>(ir::info(i.op).arity);
  switch (i.op) {
    case ir::Op::cast:
      return i.from == narrow || (!is_float(i.from) && size_of(i.from) == 1);
    case ir::Op::neg:
    case ir::Op::abs:
    case ir::Op::floor:
    case ir::Op::ceil:
    case ir::Op::trunc:
    case ir::Op::round:
    case ir::Op::sign:  // of NaN, NaN with its bits
    case ir::Op::min:
    case ir::Op::max:
    case ir::Op::minnum:
    case ir::Op::maxnum:
    case ir::Op::select:
      return std::ranges::all_of(std::span(i.args).first(arity).subspan(condition), [&](ValueId x) {
        return narrow_within(body, x, narrow, depth - 1);
      });
    default:
      return false;
  }
}

}  // namespace

DType result_type(const Instr& i) {
  switch (i.code) {
    case Code::index:
    case Code::clamp_index:
      return DType::i64;
    case Code::arithmetic:
      return ir::info(i.op).kind == ir::OpKind::compare ? DType::b8 : i.type;
    default:
      return i.type;
  }
}

bool may_compute(ir::Op op, DType type) {
  using K = ir::OpKind;
  if (type == DType::host) return false;
  K kind = ir::info(op).kind;
  if (kind == K::select) return true;
  if (compute_type(type) != type) return false;
  switch (kind) {
    case K::unary:
      return type != DType::b8;
    case K::unary_float:
    case K::binary_float:
    case K::ternary_float:
      return is_float(type);
    case K::unary_bits:
    case K::binary_bits:
      return is_int(type) || type == DType::b8;
    case K::binary_int:
      return is_int(type);
    case K::binary:
      return type != DType::b8 || op == ir::Op::add || op == ir::Op::mul || op == ir::Op::min ||
             op == ir::Op::max || op == ir::Op::minnum || op == ir::Op::maxnum;
    case K::compare:
      return true;
    default:
      return false;
  }
}

bool may_cast(ir::Op how, DType from, DType to) {
  if (ir::info(how).kind != ir::OpKind::cast || from == DType::host || to == DType::host)
    return false;
  if (how != ir::Op::bitcast) return true;
  return size_of(from) == size_of(to) && (to != DType::b8 || from == DType::b8);
}

bool may_look_up(DType type, size_t entries) {
  return (type == DType::f32 || type == DType::i32) && entries >= 2 && entries <= 16 &&
         (entries & (entries - 1)) == 0;
}

bool is_narrow(const Body& body, ValueId id, DType narrow) {
  return narrow_within(body, id, narrow, 12);
}

BodyBuilder::BodyBuilder(Body& body) : body_(body) {
  for (ValueId id = 0; id < body.instrs.size(); ++id) remember(id);
}

void BodyBuilder::remember(ValueId id) {
  const Instr& i = body_.instrs[id];
  if (i.code == Code::store) stored_[i.buffer] = id;
  if (reusable(i)) seen_.emplace(hash_of(i), id);
}

Val BodyBuilder::emit(Instr i) {
  DType type = result_type(i);
  if (reusable(i)) {
    auto [begin, end] = seen_.equal_range(hash_of(i));
    for (auto it = begin; it != end; ++it) {
      if (!(body_.instrs[it->second] == i)) continue;
      auto store = i.code == Code::load ? stored_.find(i.buffer) : stored_.end();
      if (store == stored_.end() || store->second < it->second) return {it->second, type};
    }
  }
  ValueId id = body_.add(std::move(i));
  remember(id);
  return {id, type};
}

Val BodyBuilder::constant(DType type, uint64_t bits) {
  return emit({.code = Code::constant, .type = type, .bits = bits, .expr = {}});
}

Val BodyBuilder::number(DType type, double value) {
  return constant(type, ir::bits_of(type, value));
}

Val BodyBuilder::integer(DType type, int64_t value) {
  return constant(type, ir::bits_of_integer(type, value));
}

Val BodyBuilder::index(const Expr& e) {
  if (e.is_const()) return integer(DType::i64, e.constant_value());
  return emit({.code = Code::index, .type = DType::i64, .expr = e});
}

Val BodyBuilder::clamp_index(Val i, const Expr& extent) {
  check(i.type == DType::i64, "BodyBuilder::clamp_index: the index is not an i64");
  Instr instr{.code = Code::clamp_index, .type = DType::i64, .expr = extent};
  instr.args[0] = i.id;
  return emit(std::move(instr));
}

Val BodyBuilder::load(int buffer, DType type, const Expr& offset, Val guard) {
  check(guard.id == no_value || guard.type == DType::b8, "BodyBuilder::load: the guard is not b8");
  Instr instr{.code = Code::load, .type = type, .buffer = buffer, .expr = offset};
  instr.args[0] = guard.id;
  return emit(std::move(instr));
}

void BodyBuilder::store(int buffer, const Expr& offset, Val value, Val guard) {
  check(guard.id == no_value || guard.type == DType::b8, "BodyBuilder::store: the guard is not b8");
  check(value.id != no_value, "BodyBuilder::store: no value");
  Instr instr{.code = Code::store, .type = value.type, .buffer = buffer, .expr = offset};
  instr.args = {value.id, guard.id, no_value};
  emit(std::move(instr));
}

Val BodyBuilder::accumulator(int number, DType type) {
  return emit({.code = Code::accumulator, .type = type, .buffer = number, .expr = {}});
}

Val BodyBuilder::accumulate(ir::Op reduce, int number, Val value) {
  check(ir::info(reduce).kind == ir::OpKind::reduce, "BodyBuilder::accumulate: not a reduction");
  Instr instr{
      .code = Code::accumulate, .op = reduce, .type = value.type, .buffer = number, .expr = {}};
  instr.args[0] = value.id;
  return emit(std::move(instr));
}

Val BodyBuilder::lookup(DType type, Val i, std::vector<uint64_t> table) {
  check(i.type == DType::i32, "BodyBuilder::lookup: the index is not an i32");
  check(may_look_up(type, table.size()), "BodyBuilder::lookup: no such table");
  const Instr& operand = body_.instrs[i.id];
  if (operand.code == Code::constant)
    return constant(type, table[operand.bits & (table.size() - 1)]);
  Instr instr{.code = Code::lookup, .type = type, .expr = {}, .table = std::move(table)};
  instr.args[0] = i.id;
  return emit(std::move(instr));
}

Val BodyBuilder::op(ir::Op op, Val x) { return arithmetic(op, std::array{x}); }
Val BodyBuilder::op(ir::Op op, Val x, Val y) { return arithmetic(op, std::array{x, y}); }
Val BodyBuilder::op(ir::Op op, Val x, Val y, Val z) { return arithmetic(op, std::array{x, y, z}); }

Val BodyBuilder::arithmetic(ir::Op op, std::span<const Val> args) {
  const ir::OpInfo& row = ir::info(op);
  check(ir::is_elementwise(op) && row.kind != ir::OpKind::cast, "BodyBuilder::op: not arithmetic");
  check(static_cast<size_t>(row.arity) == args.size(), "BodyBuilder::op: wrong operand count");
  DType type = args.back().type;
  check(may_compute(op, type), "BodyBuilder::op: the op has no such operand type");
  Instr instr{.code = Code::arithmetic, .op = op, .type = type, .expr = {}};
  bool constants = true;
  std::array<uint64_t, 3> bits{};
  for (size_t k = 0; k < args.size(); ++k) {
    bool condition = k == 0 && row.kind == ir::OpKind::select;
    check(args[k].id < body_.instrs.size(), "BodyBuilder::op: an operand of another body");
    check(args[k].type == (condition ? DType::b8 : type), "BodyBuilder::op: operand types differ");
    instr.args[k] = args[k].id;
    const Instr& operand = body_.instrs[args[k].id];
    constants = constants && operand.code == Code::constant;
    bits[k] = operand.bits;
  }
  if (row.kind == ir::OpKind::select) {
    if (instr.args[1] == instr.args[2]) return args[1];
    const Instr& condition = body_.instrs[instr.args[0]];
    if (condition.code == Code::constant) return condition.bits ? args[1] : args[2];
  }
  if (constants && (row.flags & ir::exact)) {
    bool error = false;
    DType to = row.kind == ir::OpKind::compare ? DType::b8 : type;
    uint64_t value = ir::eval_scalar(op, type, std::span(bits).first(args.size()), to, &error);
    if (!error) return constant(to, value);
  }
  return emit(std::move(instr));
}

Val BodyBuilder::cast(Val x, DType to, ir::Op how) {
  if (x.type == to) return x;
  check(may_cast(how, x.type, to), "BodyBuilder::cast: no such conversion");
  check(x.id < body_.instrs.size(), "BodyBuilder::cast: an operand of another body");
  const Instr& operand = body_.instrs[x.id];
  if (operand.code == Code::constant) {
    std::array<uint64_t, 1> bits{operand.bits};
    return constant(to, ir::eval_scalar(how, x.type, bits, to));
  }
  if (to == DType::f32 && compute_type(x.type) != x.type && operand.code == Code::arithmetic &&
      operand.op == ir::Op::cast && operand.from == to && is_narrow(body_, operand.args[0], x.type))
    return {operand.args[0], to};
  Instr instr{.code = Code::arithmetic, .op = how, .type = to, .from = x.type, .expr = {}};
  instr.args[0] = x.id;
  return emit(std::move(instr));
}

void BodyBuilder::finish(Val v) {
  check(v.id < body_.instrs.size(), "BodyBuilder::finish: a value of another body");
  if (v.id + 1 == body_.instrs.size()) return;
  Instr again = body_.instrs[v.id];
  check(reusable(again), "BodyBuilder::finish: not a value");
  remember(body_.add(std::move(again)));
}

}  // namespace hologram::atlas

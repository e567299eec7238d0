// ir/fold.cpp: constant folding and the identities of the op table.
#include "ir/fold.h"

#include <algorithm>
#include <limits>

#include "ir/scalar.h"

namespace hologram::ir {
namespace {

uint64_t all_ones(DType t) {
  if (t == DType::b8) return 1;
  return ~uint64_t{0} >> (64 - 8 * size_of(t));
}

uint64_t least(DType t) {
  if (is_float(t)) return bits_of(t, -std::numeric_limits<double>::infinity());
  return is_signed_int(t) ? bits_of_integer(t, std::numeric_limits<int64_t>::min()) : 0;
}

uint64_t greatest(DType t) {
  if (is_float(t)) return bits_of(t, std::numeric_limits<double>::infinity());
  return is_signed_int(t) ? all_ones(t) >> 1 : all_ones(t);
}

// Order of the operands of a commutative operation: constants last, what is repeated before them,
// otherwise creation order. So mul(x, expand(w)) looks the same in each layer of a model though the
// layers share w.
bool comes_first(Value x, Value y) {
  auto rank = [](Value v) { return v->is_constant() ? 2 : v->is(Op::expand) ? 1 : 0; };
  return rank(x) != rank(y) ? rank(x) < rank(y) : x->id < y->id;
}

Value fold_constants(Graph& graph, Op op, const std::vector<Value>& inputs, const Type& type) {
  if (!(info(op).flags & exact)) return nullptr;
  std::vector<uint64_t> args;
  for (Value v : inputs) {
    if (!v->is_constant()) return nullptr;
    args.push_back(v->attrs.bits);
  }
  bool error = false;
  DType from = inputs[op == Op::select ? 1 : 0]->dtype;
  uint64_t bits = eval_scalar(op, from, args, type.dtype, &error);
  return error ? nullptr : graph.constant(type.dtype, bits, type.shape);
}

Value fold_movement(Graph& graph, Op op, const std::vector<Value>& inputs, const Attrs& attrs,
                    const Type& type) {
  Value x = inputs[0];
  if (op == Op::concat) {
    if (inputs.size() == 1) return x;
    bool equal = std::all_of(inputs.begin(), inputs.end(), [&](Value v) {
      return v->is_constant() && v->attrs.bits == x->attrs.bits;
    });
    return equal ? graph.constant(type.dtype, x->attrs.bits, type.shape) : nullptr;
  }
  if (x->is_constant() && (op != Op::pad || x->attrs.bits == attrs.bits))
    return graph.constant(type.dtype, x->attrs.bits, type.shape);
  auto zero = [](const Expr& e) { return e.is(0); };
  auto one = [](int64_t step) { return step == 1; };
  switch (op) {
    case Op::reshape:
    case Op::expand:
      return x->shape == type.shape ? x : nullptr;
    case Op::permute:
      return std::is_sorted(attrs.ints.begin(), attrs.ints.end()) ? x : nullptr;
    case Op::flip:
      return attrs.ints.empty() ? x : nullptr;
    case Op::slice:
      if (!std::all_of(attrs.ints.begin(), attrs.ints.end(), one)) return nullptr;
      [[fallthrough]];
    default:  // slice and pad
      return x->shape == type.shape && std::all_of(attrs.exprs.begin(), attrs.exprs.end(), zero)
                 ? x
                 : nullptr;
  }
}

Value fold_cast(Op& op, Value x, DType to) {
  if (x->dtype == to) return x;
  if (op == Op::cast_wrap && !(is_float(x->dtype) && is_int(to))) op = Op::cast;
  return nullptr;
}

}  // namespace

std::optional<uint64_t> right_identity(Op op, DType t) {
  switch (op) {
    case Op::add:
      return is_float(t) ? bits_of(t, -0.0) : 0;
    case Op::sub:
    case Op::bit_or:
    case Op::bit_xor:
    case Op::shl:
    case Op::shr:
      return 0;
    case Op::mul:
    case Op::div:
      return bits_of_integer(t, 1);
    case Op::bit_and:
      return all_ones(t);
    case Op::min:
      return greatest(t);
    case Op::max:
      return least(t);
    case Op::minnum:
      return is_float(t) ? std::optional<uint64_t>() : greatest(t);
    case Op::maxnum:
      return is_float(t) ? std::optional<uint64_t>() : least(t);
    default:
      return std::nullopt;
  }
}

std::optional<uint64_t> right_zero(Op op, DType t) {
  if (is_float(t)) return std::nullopt;
  switch (op) {
    case Op::mul:
    case Op::bit_and:
      return 0;
    case Op::bit_or:
      return all_ones(t);
    case Op::add:
      return t == DType::b8 ? std::optional<uint64_t>(1) : std::nullopt;
    case Op::min:
    case Op::minnum:
      return least(t);
    case Op::max:
    case Op::maxnum:
      return greatest(t);
    default:
      return std::nullopt;
  }
}

std::optional<uint64_t> reduction_identity(Op op, DType t) {
  switch (op) {
    case Op::reduce_sum:
    case Op::cumsum:
      return 0;
    case Op::reduce_prod:
    case Op::cumprod:
      return right_identity(Op::mul, t);
    case Op::reduce_max:
    case Op::cummax:
      return least(t);
    case Op::reduce_min:
    case Op::cummin:
      return greatest(t);
    default:
      return std::nullopt;
  }
}

Value fold(Graph& graph, Op& op, std::vector<Value>& inputs, Attrs& attrs, const Type& type) {
  const OpInfo& row = info(op);
  switch (row.kind) {
    case OpKind::leaf:
      if (op == Op::iota && type.shape[static_cast<size_t>(attrs.ints[0])].is(1))
        return graph.constant(type.dtype, 0, type.shape);
      return nullptr;
    case OpKind::movement:
      return fold_movement(graph, op, inputs, attrs, type);
    case OpKind::cast:
      if (Value v = fold_cast(op, inputs[0], type.dtype)) return v;
      break;
    case OpKind::select:
      if (inputs[0]->is_constant()) return inputs[inputs[0]->attrs.bits ? 1 : 2];
      if (inputs[1] == inputs[2]) return inputs[1];
      break;
    case OpKind::reduce:
      if (!attrs.ints.empty()) return nullptr;
      if (op != Op::reduce_sum || !is_float(type.dtype)) return inputs[0];
      return graph.binary(Op::add, inputs[0],
                          graph.constant(type.dtype, 0, type.shape));  // +0 + -0
    case OpKind::reduce_index:
      return attrs.ints.empty() ? graph.constant(type.dtype, 0, type.shape) : nullptr;
    default:
      break;
  }
  if (!is_elementwise(op)) return nullptr;
  if (Value v = fold_constants(graph, op, inputs, type)) return v;
  bool same_op = inputs[0]->op == op;
  // The truth values are no numbers to bodies (atlas::may_compute).
  if (type.dtype == DType::b8 && (op == Op::abs || op == Op::sign)) return inputs[0];
  if (inputs.size() == 1 && row.kind != OpKind::cast && same_op) {
    if (row.flags & involution) return inputs[0]->input();
    if (row.flags & idempotent) return inputs[0];
  }
  if (inputs.size() != 2) return nullptr;
  if ((row.flags & idempotent) && inputs[0] == inputs[1]) return inputs[0];
  if ((row.flags & commutative) && comes_first(inputs[1], inputs[0]))
    std::swap(inputs[0], inputs[1]);
  auto unit = right_identity(op, type.dtype);
  if (unit && inputs[1]->is_constant() && inputs[1]->attrs.bits == *unit) return inputs[0];
  return nullptr;
}

}  // namespace hologram::ir

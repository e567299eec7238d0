// canon/terms.cpp: tensor graphs as a language of the rewrite engine.
#include "canon/terms.h"

#include <algorithm>
#include <cmath>

#include "ir/scalar.h"

namespace hologram::canon {
namespace {

constexpr uint64_t limit = uint64_t{1} << 48;

// cost = factor * (sum of the operands' costs) + offset.
struct Weight {
  uint64_t factor, offset;
};

// The weights decide which way rules may point: of two operations of one factor the one with the
// larger offset moves outwards, and lighter factors move out of heavier ones. So negation ends up
// outermost, then expand, permute, flip and reshape, then element-wise work, then reductions;
// slices move inwards. Cheaper arithmetic replaces dearer one, and functions replace compositions.
// A reduction is the heavier the more axes it has.
Weight weight_of(Op op) {
  switch (op) {
    case Op::neg:
      return {1, 2};
    case Op::reshape:
      return {2, 3};
    case Op::flip:
      return {2, 4};
    case Op::permute:
      return {2, 5};
    case Op::expand:
      return {2, 6};
    case Op::slice:
    case Op::window:
      return {4, 2};
    case Op::pad:
      return {6, 3};
    case Op::concat:
      return {2, 2};
    case Op::bit_not:
      return {8, 2};
    case Op::bit_and:
    case Op::bit_or:
    case Op::bit_xor:
    case Op::cast:
    case Op::cast_wrap:
    case Op::bitcast:
      return {8, 3};
    case Op::sub:
    case Op::minnum:
    case Op::maxnum:
      return {8, 5};
    case Op::div:
    case Op::rem:
      return {8, 6};
    case Op::pow:
      return {256, 64};
    default:
      break;
  }
  switch (ir::info(op).kind) {
    case ir::OpKind::reduce:
    case ir::OpKind::reduce_index:
    case ir::OpKind::scan:
    case ir::OpKind::sort:
      return {32, 24};
    case ir::OpKind::dot:
    case ir::OpKind::attention:
    case ir::OpKind::attention_grad:
    case ir::OpKind::take:
    case ir::OpKind::scatter:
      return {24, 16};
    default:
      return ir::info(op).flags & ir::exact ? Weight{8, 4} : Weight{16, 8};
  }
}

}  // namespace

bool Terms::is(Value v, const Number& n) {
  if (!v->is_constant()) return false;
  uint64_t bits = v->attrs.bits, wanted = ir::bits_of(v->dtype, n.value);
  if (bits == wanted) return ir::as_double(v->dtype, bits) == n.value || is_float(v->dtype);
  if (!n.loose || !is_float(v->dtype)) return false;
  uint64_t apart = std::max(bits, wanted) - std::min(bits, wanted);
  // Eight units of the last place, or of float32's in a double that was computed in float32.
  return apart <= 8 || (v->dtype == DType::f64 && std::abs(ir::as_double(v->dtype, bits) -
                                                           n.value) <= 1e-7 * std::abs(n.value));
}

Value Terms::rebuild(Value v, std::vector<Value> operands) {
  std::optional<Shape> shape;
  ir::OpKind kind = ir::info(v->op).kind;
  bool given = kind == ir::OpKind::movement || kind == ir::OpKind::external_result;
  if (given && v->op != Op::concat) shape = v->shape;
  // The operands may have changed their type (a movement hoisted over a cast); where the op's rule
  // gives it, let it.
  bool typed =
      kind == ir::OpKind::cast || kind == ir::OpKind::external_result || v->is(Op::dot_general);
  return graph.make(v->op, std::move(operands), v->attrs,
                    typed ? std::optional(v->dtype) : std::nullopt, shape);
}

uint64_t Terms::weigh(Value v, std::span<const uint64_t> operand_costs) {
  if (ir::info(v->op).kind == ir::OpKind::leaf) return v->is_constant() ? 1 : rewrite::least_cost;
  uint64_t sum = 0;
  for (uint64_t c : operand_costs) sum = std::min(sum + c, limit);
  Weight w = weight_of(v->op);
  if (ir::info(v->op).kind == ir::OpKind::reduce ||
      ir::info(v->op).kind == ir::OpKind::reduce_index)
    for (size_t i = 1; i < std::min<size_t>(v->attrs.ints.size(), 8); ++i) w.factor *= 3;
  return std::min(w.factor * sum + w.offset, limit);
}

}  // namespace hologram::canon

// atlas/blocks/attention_grad.h: gradients of attention.
#pragma once

#include "atlas/blocks/form.h"

namespace hologram::atlas {

/// Gradients of an attention block's operands. Axes: batch_rank parallel ones, then member (row:
/// the query heads that share keys and values), query, key, depth, value depth. With x = scale * q
/// k^T by the chains of products, y = score(x), -inf behind the diagonal if causal:
///   p = exp(y - lse), 0 in rows whose lse is -inf,
///   s = ((g v^T - delta) * p) * slope(x) * scale  (slope empty: 1),
///   dv = sum of p g, dk = sum of s q over members, then queries; dq = sum of s k over keys.
/// These sums are each one chain of multiply-adds in ascending order from 0; terms with y = -inf
/// may be left out. Unless reproducible, 16-bit operands may make p and s their type for sums of
/// any order, bfloat16 ones products' subnormals 0. q sees batch, member, query and depth; k batch,
/// key and depth; v batch, key and value depth; g (the result's gradient) batch, member, query and
/// value depth; lse and delta (of the compute type) batch, member and query; score and slope batch,
/// member, query and key, with accumulator 0 = x. dq, dk and dv see the axes of q, k and v and
/// store accumulator 0; an empty one is not computed.
struct AttentionGradBlock {
  std::vector<Axis> axes;
  int batch_rank = 0;
  Body q, k, v, g, lse, delta, score, slope, dq, dk, dv;
  DType operand_type = DType::f32;
  double scale = 1.0;
  bool causal = false;  ///< key axis <= query axis, besides `score`
  bool reproducible = false;

  bool operator==(const AttentionGradBlock&) const = default;
};

template <>
struct Form<AttentionGradBlock> {
  using B = AttentionGradBlock;
  static constexpr std::string_view name = "attention_grad";
  static int own_axes(const B&) { return 5; }  // member, query, key, depth, value depth

  static constexpr Field<B> fields[] = {
      {.word = "batch", .member = &B::batch_rank, .limit = limits::axes, .leads = true},
      {.word = "operand", .member = &B::operand_type},
      {.word = "scale", .member = &B::scale},
      {.word = "causal", .member = &B::causal},
      {.word = "reproducible", .member = &B::reproducible, .added = 1},
  };

  template <int... axes>
  static BodyRole operand(const B& b) {
    return {.axes = {axes...}, .value = b.operand_type};
  }
  static BodyRole row(const B& b) {
    return {.axes = {0, 1}, .value = compute_type(b.operand_type)};
  }
  static BodyRole score(const B& b) {
    DType type = compute_type(b.operand_type);
    return {.axes = {0, 1, 2}, .value = type, .accumulators = {type}, .optional = true};
  }
  template <int... axes>
  static BodyRole result(const B& b) {
    return {.axes = {axes...}, .accumulators = {compute_type(b.operand_type)}};
  }
  static constexpr BodyField<B> bodies[] = {
      {.name = "q", .body = &B::q, .role = operand<0, 1, 3>},
      {.name = "k", .body = &B::k, .role = operand<2, 3>},
      {.name = "v", .body = &B::v, .role = operand<2, 4>},
      {.name = "g", .body = &B::g, .role = operand<0, 1, 4>},
      {.name = "lse", .body = &B::lse, .role = row},
      {.name = "delta", .body = &B::delta, .role = row},
      {.name = "score", .body = &B::score, .role = score},
      {.name = "slope", .body = &B::slope, .role = score},
      {.name = "dq", .body = &B::dq, .role = result<0, 1, 3>},
      {.name = "dk", .body = &B::dk, .role = result<2, 3>},
      {.name = "dv", .body = &B::dv, .role = result<2, 4>},
  };
};

void verify_block(const AttentionGradBlock& b, Verifier& v);

}  // namespace hologram::atlas

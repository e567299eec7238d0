// atlas/blocks/attention.h: attention, online over keys.
#pragma once

#include "atlas/blocks/form.h"

namespace hologram::atlas {

/// softmax(scale * q k^T + bias) v for each batch point, online over keys. Axes: batch_rank
/// parallel ones, then query, key, depth (of q and k), value depth. The bodies end with their
/// element; `score` (may be empty) maps accumulator 0, the scaled score, to the final score and
/// sees batch, query and key axes (-inf masks out); `epilogue` sees batch, query and value depth
/// and stores accumulator 0. Rows whose scores are all -inf give 0; values of keys whose score is
/// -inf may be read. Unless reproducible, operands of 16 bits may make exponentials their type once
/// they are summed, and bfloat16 ones products' subnormals 0. `lse` (may be empty) sees batch and
/// query axes and stores accumulator 0, the row's maximum + log(sum of exponentials), -inf where
/// all scores are.
struct AttentionBlock {
  std::vector<Axis> axes;
  int batch_rank = 0;
  Body q, k, v, score, epilogue, lse;
  DType operand_type = DType::f32;
  double scale = 1.0;
  bool causal = false;  ///< key axis <= query axis, besides `score`
  bool reproducible = false;

  bool operator==(const AttentionBlock&) const = default;
};

template <>
struct Form<AttentionBlock> {
  using B = AttentionBlock;
  static constexpr std::string_view name = "attention";
  static int own_axes(const B&) { return 4; }  // query, key, depth, value depth

  static constexpr Field<B> fields[] = {
      {.word = "batch", .member = &B::batch_rank, .limit = limits::axes, .leads = true},
      {.word = "operand", .member = &B::operand_type},
      {.word = "scale", .member = &B::scale},
      {.word = "causal", .member = &B::causal},
      {.word = "reproducible", .member = &B::reproducible},
  };

  template <int x, int y>
  static BodyRole operand(const B& b) {
    return {.axes = {x, y}, .value = b.operand_type};
  }
  static BodyRole score(const B& b) {
    DType type = compute_type(b.operand_type);
    return {.axes = {0, 1}, .value = type, .accumulators = {type}, .optional = true};
  }
  static BodyRole epilogue(const B& b) {
    return {.axes = {0, 3}, .accumulators = {compute_type(b.operand_type)}};
  }
  static BodyRole lse(const B& b) {
    return {.axes = {0}, .accumulators = {compute_type(b.operand_type)}};
  }
  static constexpr BodyField<B> bodies[] = {
      {.name = "q", .body = &B::q, .role = operand<0, 2>},
      {.name = "k", .body = &B::k, .role = operand<1, 2>},
      {.name = "v", .body = &B::v, .role = operand<1, 3>},
      {.name = "score", .body = &B::score, .role = score},
      {.name = "epilogue", .body = &B::epilogue, .role = epilogue},
      {.name = "lse", .body = &B::lse, .role = lse, .optional = true},
  };
};

void verify_block(const AttentionBlock& b, Verifier& v);

}  // namespace hologram::atlas

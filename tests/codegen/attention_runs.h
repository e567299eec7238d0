// tests/codegen/attention_runs.h: the probabilities of attention in double precision.
#pragma once

#include "codegen/attentions.h"
#include "codegen/run_kernel.h"

namespace hologram::test {

/// Element i of memory of this type.
inline double value(DType t, const Memory& m, int64_t i) {
  const auto size = static_cast<size_t>(size_of(t));
  uint64_t bits = 0;
  std::memcpy(&bits, const_cast<Memory&>(m).data() + static_cast<size_t>(i) * size, size);
  return ir::as_double(t, bits);
}

namespace attentions {

inline int64_t place(const Case& c, int64_t b, int64_t h, int64_t s, int64_t d, int64_t heads, int64_t sequence, int64_t depth) {
  return c.heads_inside ? ((b * sequence + s) * heads + h) * depth + d : ((b * heads + h) * sequence + s) * depth + d;
}

/// The probabilities of query i of head h, and what float32 terms may be off by, in parts of them.
struct Row {
  std::vector<double> p;
  double slack = 0;
};
inline Row row_of(const Case& c, const std::vector<Memory>& m, int64_t b, int64_t h, int64_t i) {
  constexpr double u = 0x1p-24;
  const int64_t kv = h / (c.heads / c.kv_heads), bias = (b * c.queries + i) * c.keys;
  const double scale = 1 / std::sqrt(static_cast<double>(c.depth));
  Row row;
  double max = -INFINITY, sum = 0, off = 0;
  for (int64_t j = 0; j < c.keys; ++j) {
    double x = 0, size = 0;
    for (int64_t d = 0; d < c.depth; ++d) {
      const double one = value(c.dtype, m[q_buffer], place(c, b, h, i, d, c.heads, c.queries, c.depth)) *
                         value(c.dtype, m[k_buffer], place(c, b, kv, j, d, c.kv_heads, c.keys, c.depth));
      x += one, size += std::abs(one);
    }
    x *= scale;
    if (c.score == Score::key_bias) x += value(DType::f32, m[bias_buffer], b * c.queries * c.keys + j);
    if (c.score == Score::full_bias) x += value(DType::f32, m[bias_buffer], bias + j);
    if (c.score == Score::keep_mask && value(DType::b8, m[bias_buffer], bias + j) == 0) x = -INFINITY;
    if (c.causal && j > i) x = -INFINITY;
    row.p.push_back(x);
    max = std::max(max, x);
    const auto steps = static_cast<double>((c.depth + 31) / 32);
    // Terms, then the roundings of the scale, a bias and the difference to the maximum.
    if (x != -INFINITY) off = std::max(off, ((17 + 6 * steps) * size * scale + 3 * std::abs(x)) * u);
  }
  for (double& p : row.p) sum += p = max == -INFINITY ? 0 : std::exp(p - max);
  for (double& p : row.p) p = sum > 0 ? p / sum : 0;
  row.slack = 2 * off;
  return row;
}

/// Of a row and column e of values: what the result is, and the sum of its terms' sizes.
inline std::pair<double, double> weighted(const Case& c, const std::vector<Memory>& m, const Row& row, int64_t b, int64_t h, int64_t e) {
  double y = 0, size = 0;
  for (int64_t j = 0; j < c.keys; ++j) {
    const int64_t at = place(c, b, h / (c.heads / c.kv_heads), j, e, c.kv_heads, c.keys, c.values);
    const double term = row.p[static_cast<size_t>(j)] * value(c.dtype, m[v_buffer], at);
    y += term, size += std::abs(term);
  }
  return {y, std::max(size, 1e-30)};
}

}  // namespace attentions
}  // namespace hologram::test

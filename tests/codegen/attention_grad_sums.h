// tests/codegen/attention_grad_sums.h: gradients of attention in double precision.
#pragma once

#include <cmath>
#include <functional>

#include "codegen/attention_grads.h"

namespace hologram::test::attention_grads {

// A gradient and the sum of the sizes of its terms.
struct Sum {
  double value = 0, size = 0;
  void add(double term, double other, double slack) {
    value += term * other;
    size += (std::abs(term) + 1e-3 * slack) * std::abs(other);
  }
};

// Element `index` of a buffer, which has this type.
using Reader = std::function<double(int buffer, DType type, int64_t index)>;

// dq, dk and dv as the buffers have them.
inline std::vector<std::vector<Sum>> gradients(const Case& c, const Reader& read) {
  const int64_t heads = kv_heads * c.members;
  std::vector<Sum> dq(static_cast<size_t>(c.batch * heads * c.queries * c.depth));
  std::vector<Sum> dk(static_cast<size_t>(c.batch * kv_heads * c.keys * c.depth));
  std::vector<Sum> dv(static_cast<size_t>(c.batch * kv_heads * c.keys * c.width));
  auto place = [&](int64_t b, int64_t h, int64_t s, int64_t all, int64_t length, int64_t size) {
    return (c.heads_inside ? (b * length + s) * all + h : (b * all + h) * length + s) * size;
  };
  const double scale = 1 / std::sqrt(static_cast<double>(c.depth));
  auto of = [&](int buffer, int64_t i) { return read(buffer, c.dtype, i); };
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < c.queries; ++i)
        for (int64_t j = 0; j < c.keys; ++j) {
          const int64_t kv = h / c.members, row = (b * heads + h) * c.queries + i;
          const int64_t q = place(b, h, i, heads, c.queries, c.depth), g = place(b, h, i, heads, c.queries, c.width),
                        k = place(b, kv, j, kv_heads, c.keys, c.depth), v = place(b, kv, j, kv_heads, c.keys, c.width);
          double x = 0, gv = 0, size = 0;
          for (int64_t d = 0; d < c.depth; ++d) x += of(0, q + d) * of(1, k + d);
          for (int64_t e = 0; e < c.width; ++e) {
            gv += of(3, g + e) * of(2, v + e);
            size += std::abs(of(3, g + e) * of(2, v + e));
          }
          double y = x *= scale, slope = 1;
          const int64_t bias = (b * c.queries + i) * c.keys + j;
          if (c.score == Score::bias) y += read(bias_buffer, DType::f32, bias);
          if (c.score == Score::keep && read(bias_buffer, DType::b8, bias) == 0) y = -INFINITY;
          if (c.score == Score::window && (j > i + 10 || j <= i - 40)) y = -INFINITY;
          if (c.score == Score::cap) {
            y = 2 * std::tanh(x / 2);
            slope = 1 - std::tanh(x / 2) * std::tanh(x / 2);
          }
          if (c.causal && j > i) y = -INFINITY;
          const double lse = read(lse_buffer, DType::f32, row), delta = read(lse_buffer + 1, DType::f32, row);
          const double p = lse == -INFINITY ? 0 : std::exp(y - lse);
          const double s = (gv - delta) * p * slope * scale;
          const double slack = (size + std::abs(delta)) * p * std::abs(slope) * scale;
          for (int64_t d = 0; d < c.depth; ++d) {
            dq[static_cast<size_t>(q + d)].add(s, of(1, k + d), slack);
            dk[static_cast<size_t>(k + d)].add(s, of(0, q + d), slack);
          }
          for (int64_t e = 0; e < c.width; ++e) dv[static_cast<size_t>(v + e)].add(p, of(3, g + e), p);
        }
  return {dq, dk, dv};
}

}  // namespace hologram::test::attention_grads

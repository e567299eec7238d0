// tests/unit/reference.h: a slow evaluator of graphs on small concrete shapes; the oracle of the tests here.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "ir/graph.h"

namespace hologram::test {

/// Elements as zero-extended bit patterns, row-major.
struct Tensor {
  DType dtype;
  std::vector<int64_t> shape;
  std::vector<uint64_t> bits;

  size_t size() const { return bits.size(); }
};

/// Equal bits, any NaN being as good as another.
bool same(const Tensor& a, const Tensor& b);
/// Equal up to `tolerance` relative to the larger magnitude (or absolutely below 1); NaN and infinities must agree.
bool close(const Tensor& a, const Tensor& b, double tolerance);
std::string text(const Tensor& t);

/// A tensor of `shape` with every element `bits`.
Tensor filled(DType dtype, std::vector<int64_t> shape, uint64_t bits);

/// One operation. `shape` is the result's, with `symbols` put in. Functions that are not exact are computed in double and rounded.
Tensor evaluate(ir::Op op, const ir::Attrs& attrs, DType dtype, const Shape& shape, const std::vector<const Tensor*>& inputs,
                std::span<const int64_t> symbols);

/// The graph's outputs for these parameters.
std::vector<Tensor> evaluate(const ir::Graph& graph, const std::map<int, Tensor>& parameters, std::span<const int64_t> symbols);

}  // namespace hologram::test

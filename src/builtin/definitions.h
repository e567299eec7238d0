// builtin/definitions.h: the operations of executors, as graphs; their kernels are compiled when
// the library is built.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace hologram::builtin {

/// An element-wise operation on buffers: a row of the op table or one of a few compositions.
struct Elementwise {
  uint32_t id;
  std::string_view name;
  int arity;    ///< buffers read
  int scalars;  ///< further operands that are one number each
};

/// Compositions beside the op table; their ids follow its ids.
enum Composition : uint32_t {
  relu = static_cast<uint32_t>(ir::num_ops),  ///< max(x, 0)
  gelu_tanh,
  clip,        ///< min(max(x, low), high)
  scalar_add,  ///< x + s
  scalar_mul,  ///< x * s
  end_of_ids,
};

/// By name; nothing for what is not element-wise. Conversions are not in here.
std::optional<Elementwise> find_elementwise(std::string_view name);
/// By id; nothing for a number that is none.
std::optional<Elementwise> elementwise(uint32_t id);

/// Each fills an empty graph. Sizes are symbols: s0 elements where nothing else is said; parameters
/// are row-major and come in the order of the operation's operands.

void build_elementwise(ir::Graph& g, uint32_t id, DType dtype);
void build_convert(ir::Graph& g, DType from, DType to);

enum class Flat : uint8_t { sum, min, max, mse, cross_entropy, binary_cross_entropy, softmax };
/// Over the whole vector. Losses give the sum over all elements, without its sign and the division
/// by their number.
void build_flat(ir::Graph& g, Flat what);

/// Bytes with bit 0 cleared; whether it is set in any of them: a byte of 0 or 1.
void build_canonical(ir::Graph& g);
void build_any_odd(ir::Graph& g);

/// Parameter 0, a number, divided by parameter 1, an f64.
void build_mean(ir::Graph& g);

/// `op` (a reduce_* row), or softmax when it is Op::exp, along the middle axis of [s0, s1, s2], or
/// the last one of [s0, s1] when `last`.
void build_along_axis(ir::Graph& g, ir::Op op, bool last);

/// [s0, s2] x [s2, s1], row-major or transposed in memory with leading dimensions s3 and s4.
void build_gemm(ir::Graph& g, DType dtype, bool transpose_a, bool transpose_b);
/// Parameter 2, rows s5 apart, becomes alpha * (the product above) + beta * itself; alpha and beta
/// are parameters 3 and 4, numbers of the dtype's compute type. Without `accumulate` there is no
/// beta and what was there is not read.
void build_gemm_update(ir::Graph& g, DType dtype, bool transpose_a, bool transpose_b,
                       bool accumulate);
/// [s0, s2] x [s2, s1], everything row-major.
void build_gemm(ir::Graph& g, DType dtype);
/// [s0, s1] x [s1]: one chain per row, or, for `long_rows`, the order of a sum, which reads a row
/// with whole vectors.
void build_matvec(ir::Graph& g, DType dtype, bool long_rows);

/// Row-major copy of a tensor with dimensions s0 … and strides after them. With `last_contiguous`
/// the last stride is 1. Bit i of `flips`: dimension i runs backwards.
void build_copy(ir::Graph& g, int bytes, int rank, bool last_contiguous, uint64_t flips = 0);

/// A kernel that comes with the library: a name of its own, and what builds its graph.
struct Definition {
  std::string name;
  std::function<void(ir::Graph&)> build;
};
/// What is compiled for every instruction set when the library is built.
std::vector<Definition> precompiled();

}  // namespace hologram::builtin

// backend/cuda/products/planes.h: right factors that another kernel computes into the workspace,
// for tensor maps to find them there.
#pragma once

#include "backend/cuda/mapped.h"

namespace hologram::cuda {

/// A right factor as its body's values, of float32 as three planes of bfloat16 terms, which lie as
/// what the body reads: a matrix for each place along some batch axes together, and behind these
/// one for each term.
struct Planes {
  MappedFactor factor;
  std::vector<int> axes;  ///< along which it differs
};

/// A copy takes `run` neighbours, `count` columns or `step` values of k, and all terms.
Planes planes_of(const atlas::ProductBlock& block, int run, int count, int step);

/// Eights of its numbers.
Expr pieces_of(const atlas::ProductBlock& block);

/// Adds @hologram_split to the product's module: a thread computes eight neighbours.
void add_planes(Facts& facts, llvm::Module& module, const atlas::Program& program);

}  // namespace hologram::cuda

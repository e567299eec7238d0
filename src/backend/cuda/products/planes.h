// backend/cuda/products/planes.h: factors that another kernel computes into the workspace, for
// tensor maps to find them there.
#pragma once

#include "backend/cuda/mapped.h"

namespace hologram::cuda {

/// The factors of a product as tensor maps bring them.
struct WideFactors {
  MappedFactor left, right;
  bool computed() const { return left.planes || right.planes; }
};

/// Factors whose bodies only load, where they are; else as planes of their bodies' values, which
/// lie as what the body reads. Of float32 the right factor is three planes of bfloat16 terms,
/// whatever its body does. Boxes are to be set.
WideFactors find_factors(const atlas::Program& program);

/// Adds @hologram_split to the product's module, which computes those that are planes: a thread
/// eight neighbours.
void add_planes(Facts& facts, llvm::Module& module, const atlas::Program& program,
                const WideFactors& factors);

}  // namespace hologram::cuda

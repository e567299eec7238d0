// backend/cuda/target.h: for which GPUs, and by which sources, kernels are made. No LLVM in here.
#pragma once

#include <string_view>

#include "backend/cuda/facts.h"
#include "codegen/target.h"

namespace hologram::cuda {

/// The least GPU that kernels are made for, and the version of PTX that drivers from CUDA 12.0 on
/// read.
const codegen::TargetTraits& target(int capability = least_capability);
/// A hash over the generator's sources: part of every cache key.
std::string_view version();

}  // namespace hologram::cuda

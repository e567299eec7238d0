// backend/cuda/compiler.h: what of this backend works through LLVM, in a library of its own. No
// LLVM in here.
#pragma once

#include "backend/cuda/compile.h"

namespace hologram::cuda {

/// The functions of these names.
struct Compiler {
  decltype(&cuda::unrendered) unrendered;
  decltype(&cuda::is_special) is_special;
  decltype(&cuda::compile) compile;
  decltype(&cuda::dump_llvm) dump_llvm;
  decltype(&cuda::dump_ptx) dump_ptx;
};

/// As cpu::compiler() (backend/cpu/compiler.h).
const Compiler& compiler();

}  // namespace hologram::cuda

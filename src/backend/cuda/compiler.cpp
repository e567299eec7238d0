// backend/cuda/compiler.cpp: the table of what works through LLVM.
#include "backend/cuda/compiler.h"

namespace hologram::cuda {

const Compiler& compiler() {
  static constexpr Compiler functions{unrendered, is_special, compile, dump_llvm, dump_ptx};
  return functions;
}

}  // namespace hologram::cuda

// backend/cpu/compiler.cpp: the table of what works through LLVM.
#include "backend/cpu/compiler.h"

namespace hologram::cpu {

const Compiler& compiler() {
  static constexpr Compiler functions{compile,   compile_entry, compile_lanes, lay_out_module,
                                      dump_llvm, dump_asm,      measure_limits};
  return functions;
}

}  // namespace hologram::cpu

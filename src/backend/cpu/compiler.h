// backend/cpu/compiler.h: what of this backend works through LLVM, in a library of its own. No LLVM
// in here.
#pragma once

#include "backend/cpu/compile.h"
#include "backend/cpu/entry.h"
#include "backend/cpu/lanes/compile.h"
#include "backend/cpu/limits.h"
#include "backend/cpu/wasm_image.h"

namespace hologram::cpu {

/// The functions of these names.
struct Compiler {
  decltype(&cpu::compile) compile;
  decltype(&cpu::compile_entry) compile_entry;
  decltype(&cpu::compile_lanes) compile_lanes;
  decltype(&cpu::lay_out_module) lay_out_module;
  decltype(&cpu::dump_llvm) dump_llvm;
  decltype(&cpu::dump_asm) dump_asm;
  decltype(&cpu::measure_limits) measure_limits;
};

/// Thread-safe. In libhologram the first call opens libhologram_compiler (compiler/open.cpp), and
/// throws Error(unavailable) where that cannot be.
const Compiler& compiler();

}  // namespace hologram::cpu

// backend/cpu/compile.h: Atlas programs → native object code, through LLVM.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "atlas/program.h"
#include "backend/cpu/target.h"
#include "backend/cpu/units.h"

namespace hologram::cpu {

/// What one compile took: milliseconds of its stages, and how much code they worked on.
struct Timing {
  double setup = 0;  ///< TargetMachine, module
  double emit = 0;   ///< Atlas → LLVM IR
  double passes = 0;
  double translate = 0;      ///< LLVM IR → object
  int64_t instructions = 0;  ///< of the LLVM IR, before its passes
  int64_t optimised = 0;     ///< behind them
  int64_t longest = 0;       ///< of the basic blocks then
};

/// Generates machine code. Thread-safe: each call uses its own LLVMContext and TargetMachine.
/// `symbol` names the function. `effort`: how much of
/// LLVM. Throws Error(unsupported) for what the generator does not render,
/// Error(internal) if LLVM fails.
Object compile(const atlas::Program& program, const Target& target, Timing* timing = nullptr,
               const char* symbol = kernel_symbol, codegen::Effort effort = codegen::Effort::full);

/// Launch facts alone, without compiling.
Launch launch_of(const atlas::Program& program, const Target& target);

/// LLVM IR before or after optimisation, or assembly, for HOLOGRAM_DUMP.
std::string dump_llvm(const atlas::Program& program, const Target& target);
std::string dump_asm(const atlas::Program& program, const Target& target);

}  // namespace hologram::cpu

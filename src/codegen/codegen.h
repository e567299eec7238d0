// codegen/codegen.h: Atlas programs → native object code, through LLVM.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "atlas/abi.h"
#include "atlas/program.h"

namespace hologram::codegen {

/// Instruction-set levels that the CPU code generator renders.
enum class Isa : uint8_t { sse42, avx2, avx512, neon };

std::string_view name_of(Isa isa);

struct Target {
  Isa isa;
  std::string cpu;         ///< LLVM's CPU name, for scheduling
  std::string features;    ///< LLVM's feature string; part of the cache key
  int vector_bytes;        ///< 16, 32 or 64
  bool bf16_dots = false;  ///< AVX512_BF16: sums of pairs of bfloat16 products
  bool i8_dots = false;    ///< AVX512_VNNI, AVX_VNNI: sums of four products of bytes
  bool tiles = false;      ///< AMX: products of tiles of bfloat16 numbers and bytes
};

/// The best target this machine runs, or the one that HOLOGRAM_CPU_ISA asks for: Error(unavailable)
/// if the machine lacks it, Error(invalid_argument) for an unknown name. "amx" is avx512 with
/// tiles, "avx512" is without.
Target host_target();
/// The instruction set as HOLOGRAM_CPU_ISA names it.
std::string_view level_of(const Target& target);
/// A target of AVX-512 with tiles, whether or not this machine has them.
Target with_tiles(Target target);
/// Whether this process may use tiles: the processor has them, and the operating system saves them
/// and, asked once, permits them.
bool tiles_here();
/// A fixed target for an instruction set, the same on every machine.
Target generic_target(Isa isa);
/// The target with the dot products of narrow types that this machine has.
Target with_dots_of_host(Target target);

/// How the runtime splits a kernel's work.
struct Launch {
  Expr total;      ///< parallel units
  Expr grain;      ///< chunk boundaries fall on multiples of this (in units)
  Expr unit_work;  ///< rough cost of one unit on one core with its data in cache, in picoseconds
};

struct Object {
  std::string code;  ///< relocatable ELF object with one function, no undefined symbols
  Launch launch;
};

/// The name of the function in an Object.
inline constexpr const char* kernel_symbol = "hologram_kernel";

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
/// `symbol` names the function. Throws Error(unsupported) for what the generator does not render,
/// Error(internal) if LLVM fails.
Object compile(const atlas::Program& program, const Target& target, Timing* timing = nullptr,
               const char* symbol = kernel_symbol);

/// Launch facts alone, without compiling (for cached objects).
Launch launch_of(const atlas::Program& program, const Target& target);

/// LLVM IR before or after optimisation, or assembly, for HOLOGRAM_DUMP.
std::string dump_llvm(const atlas::Program& program, const Target& target);
std::string dump_asm(const atlas::Program& program, const Target& target);

/// A hash over the generator's sources: part of every cache key.
std::string_view version();

/// How many bfloat16 terms per number a product of these operands and extents is to use on this
/// target: ProductBlock::terms. 0: none. `packed_once`: its right operand keeps its content.
int terms_for(const Target& target, const atlas::ProductBlock& product, bool packed_once);

/// Columns per packed panel of a product's right operand on this target.
int panel_width(const Target& target, DType operand_type);
/// Values of k that lie side by side in such a panel.
int panel_group(const Target& target, DType operand_type, DType acc_type);

/// An object loaded into executable memory. Frees it when destroyed.
class LoadedKernel {
 public:
  virtual ~LoadedKernel() = default;
  atlas::KernelFn function = nullptr;
};

/// Links an object into this process (JITLink; no EH frames, a resource tracker per kernel).
/// Throws Error(corrupt) when the object is not what it should be.
std::shared_ptr<LoadedKernel> load(std::string_view object);

}  // namespace hologram::codegen

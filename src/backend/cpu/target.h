// backend/cpu/target.h: the instruction-set levels and what this machine runs. No LLVM in here.
#pragma once

#include <cstdint>
#include <string_view>

#include "backend/cpu/processor.h"
#include "codegen/target.h"

namespace hologram::cpu {

using namespace codegen;  // the kit's names are this backend's

/// Instruction-set levels that the CPU code generator renders.
enum class Isa : uint8_t { sse42, avx2, avx512, neon, wasm };

std::string_view name_of(Isa isa);

/// Which float32 products may be sums of bfloat16 terms on tiles.
enum class Terms : uint8_t {
  measured,  ///< those that were measured to be faster on this processor
  model,     ///< those that a model of the time says are
  never,
};

struct Target : codegen::TargetTraits {
  Isa isa = Isa::sse42;
  bool bf16_dots = false;      ///< AVX512_BF16: sums of pairs of bfloat16 products, where they pay
  bool bf16_rounding = false;  ///< AVX512_BF16: float32 to bfloat16, subnormal numbers as 0
  bool i8_dots = false;        ///< AVX512_VNNI, AVX_VNNI: sums of four products of bytes
  bool tiles = false;          ///< AMX: products of tiles of bfloat16 numbers and bytes
  Terms terms = Terms::measured;
  bool tile_attention = false;  ///< ours on tiles takes the place of what was measured
  bool tile_prefetch = true;    ///< tile kernels fetch operands to the first level ahead of use
  int threads = 2;              ///< that units are cut for: threads_class() of a number
  const Processor* processor = find_processor("unknown");
};

/// The best target this machine runs, or the one that HOLOGRAM_CPU_ISA asks for: Error(unavailable)
/// if the machine lacks it, Error(invalid_argument) for an unknown name. "amx" is avx512 with
/// tiles, "avx512" is without. HOLOGRAM_CPU_MODEL,
/// HOLOGRAM_CPU_TERMS, HOLOGRAM_CPU_ATTENTION and HOLOGRAM_CPU_TILE_PREFETCH (0: none) are read
/// too.
Target host_target();
/// The instruction set as HOLOGRAM_CPU_ISA names it.
std::string_view level_of(const Target& target);
/// The number of threads that work for `threads` is cut for: 2, 4, 8, …, 64. Machines of a class
/// share kernels.
int threads_class(int threads);
/// A target of AVX-512 with tiles, and with the rounding of AVX512_BF16, which each processor with
/// tiles has; whether or not this machine has them.
Target with_tiles(Target target);
/// Whether this process may use tiles: the processor has them and AVX512_BF16, and the operating
/// system saves them and, asked once, permits them.
bool tiles_here();
/// A fixed target for an instruction set, the same on every machine.
Target generic_target(Isa isa);
/// Whether stores may go to memory without a place in the caches, until a fence.
bool writes_around_caches(const Target& target);
/// The target with the dot products of narrow types that this machine has and that pay on its
/// processor.
Target with_dots_of_host(Target target);

}  // namespace hologram::cpu

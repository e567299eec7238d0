// tests/support/tiles.h: targets with AMX tiles for tests that run their code on any x86-64 machine.
#pragma once

#include <optional>

#include "backend/cpu/variants.h"
#include "emulator/amx.h"

#if defined(__x86_64__) && defined(__linux__)

namespace hologram::test {

/// AVX-512 with tiles where this machine has AVX-512 and its bfloat16. Elsewhere the same vectors of 64 bytes, each in two registers of
/// AVX2: plans and emitters see lanes and panels of AVX-512, and the machine code differs in what LLVM makes of a vector.
inline cpu::Target tile_target() {
  using cpu::Isa;
  if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bf16"))
    return with_tiles(with_dots(generic_target(Isa::avx512), false, true));
  cpu::Target target = generic_target(Isa::avx2);
  target.vector_bytes = 64;
  target.masks = true;
  return with_tiles(target);
}

inline bool runs_tile_targets() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

/// While it lives, tiles are emulated where this machine lacks them, for the calling thread: those of a pool block signals.
class TileMachine {
 public:
  TileMachine() {
    if (!cpu::tiles_here()) emulator_.emplace();
  }
  bool emulates() const { return emulator_.has_value(); }

 private:
  std::optional<amx::Emulator> emulator_;
};

}  // namespace hologram::test

#endif

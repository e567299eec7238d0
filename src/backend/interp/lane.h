// backend/interp/lane.h: executes lane programs over a launch grid.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "atlas/class_graph.h"
#include "atlas/lane.h"

namespace hologram::interp {

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
};

/// The shape of a launch, and its limits.
struct LaneLaunch {
  Dim3 grid, block;
  uint64_t shared_bytes = 0;               ///< per block
  uint32_t first_phase = 0;                ///< phase of every lane at its start, below 768
  uint64_t max_steps = uint64_t{1} << 36;  ///< instructions and starts of all lanes together
  uint64_t max_memory =
      uint64_t{1} << 30;  ///< bytes of registers and shared memory of one block; bytes of pools

  /// ceil(total / block) blocks of `block` lanes in a row.
  static LaneLaunch linear(uint64_t total, uint32_t block);
};

/// What a launch reads and writes.
struct LaneMemory {
  std::vector<std::span<std::byte>> buffers;  ///< handle 1 is buffers[0]
  std::span<std::byte>
      boundary;  ///< atlas::boundary_bytes, or empty if the launch has no boundary pool
  std::array<double, atlas::num_classes> resonance{};  ///< res.accum adds here
};

/// Runs every lane to its end. Blocks run one after the other in row-major order of (z, y, x); the
/// lanes of a block run in order from barrier to barrier. A lane that ends counts as arrived at
/// every barrier. Memory keeps what was written before a fault. Throws atlas::LaneError.
void run(const atlas::LaneProgram& program, const LaneLaunch& launch, LaneMemory& memory);

}  // namespace hologram::interp

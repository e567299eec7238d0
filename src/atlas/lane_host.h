// atlas/lane_host.h: one launch of a lane program: what its lanes share, whichever backend runs
// them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "atlas/class_graph.h"
#include "atlas/lane.h"

namespace hologram::atlas {

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
  std::span<std::byte> boundary;  ///< boundary_bytes, or empty if the launch has no boundary pool
  std::array<double, num_classes> resonance{};  ///< res.accum adds here
};

/// The registers that a program names (and r252…r255), numbered without gaps.
struct LaneSlots {
  static constexpr uint16_t none = 0xffff;
  std::array<uint16_t, lane_registers> of{};  ///< none where the program names no such register
  size_t count = 0;

  explicit LaneSlots(const LaneProgram& program);
};

/// Blocks run one after the other in row-major order of (z, y, x); the lanes of a block run in
/// order from barrier to barrier, and one that ends counts as arrived at every barrier. A backend
/// derives from this class and runs the lanes; everything that lanes share, and every fault's
/// message, is here. `at` is the number of the instruction that asks. Throws LaneError.
class LaneHost {
 public:
  /// All must outlive the host. Throws for a launch that is impossible or above its limits.
  LaneHost(const LaneProgram& program, const LaneLaunch& launch, LaneMemory& memory);
  virtual ~LaneHost() = default;
  LaneHost(const LaneHost&) = delete;
  LaneHost& operator=(const LaneHost&) = delete;

  /// Runs every lane to its end.
  void run();

  /// Counts instructions against the launch's limit.
  void count_steps(uint64_t n) {
    if (n > launch_.max_steps - steps_) too_many_steps();
    steps_ += n;
  }
  [[noreturn]] void too_many_steps() const;
  uint64_t steps_left() const { return launch_.max_steps - steps_; }

  /// Where the instruction's load or store of `handle` and `offset` goes.
  std::byte* address(uint32_t at, uint64_t handle, uint64_t offset);
  /// The result of an instruction of classes (but for phases) or pools with these operands, in text
  /// order without the written one. Stores and frees give 0.
  uint64_t operate(uint32_t at, uint64_t a, uint64_t b, uint64_t c);
  /// "instruction 3 (add.i32 r0, r1, r2)"
  std::string place(uint32_t at) const;
  [[noreturn]] void division_by_zero(uint32_t at) const;
  /// Register `reg` holds a `found` (host: nothing), not a `want`.
  [[noreturn]] void wrong_register(uint32_t at, int reg, DType found, DType want) const;
  [[noreturn]] void overflow(uint32_t at) const;   ///< a call too deep
  [[noreturn]] void underflow(uint32_t at) const;  ///< a return without a call

 protected:
  struct Stop {
    bool done = false;
    int barrier = -1;  ///< the barrier that the lane waits at
  };
  /// A fresh lane `l` of the current block: its x, and its number in the launch.
  virtual void start(size_t l, uint32_t x, uint64_t number) = 0;
  /// Runs lane `l` until it waits or ends.
  virtual Stop resume(size_t l) = 0;

  const LaneProgram& program() const { return program_; }
  const LaneLaunch& launch() const { return launch_; }
  const LaneSlots& slots() const { return slots_; }
  size_t lanes() const { return stops_.size(); }  ///< per block
  uint32_t block_x() const { return block_x_; }
  std::span<const std::span<std::byte>> buffers() const { return memory_.buffers; }

 private:
  using Pools = std::unordered_map<uint64_t, std::vector<std::byte>>;

  void run_block(uint64_t block);
  void release();
  int checked_class(uint32_t at, uint64_t value) const;
  std::span<std::byte> memory_of(uint32_t at, uint64_t handle, bool shared);
  std::byte* checked(uint32_t at, std::span<std::byte> memory, uint64_t offset, LaneFault fault);
  Pools::iterator find_pool(uint32_t at, uint64_t handle);
  uint64_t allocate(uint32_t at, uint64_t bytes);

  const LaneProgram& program_;
  const LaneLaunch& launch_;
  LaneMemory& memory_;
  LaneSlots slots_;
  uint64_t blocks_ = 0;
  std::vector<Stop> stops_;
  std::vector<std::byte> shared_;
  Pools pools_;
  uint64_t last_pool_ = 0, pool_bytes_ = 0, steps_ = 0;
  uint32_t block_x_ = 0;
};

}  // namespace hologram::atlas

// tests/support/ptx/machine.h: runs PTX kernels, and finds what they must not do.
//
// Threads run warp by warp, the lanes at the lowest place of the code first; CTAs and the turns of
// warps are in an order left to chance. A kernel faults that reads a register, or a byte of shared
// or local memory, which nobody has written; touches memory outside of a live block, or not aligned
// to the access; races: two threads touch a byte, one writes, and no barrier orders them; waits for
// a barrier that others have left; or runs an instruction that is not known here.
#pragma once

#include <memory>
#include <unordered_map>

#include "support/ptx/module.h"

namespace ptx {

/// What is known of a byte: who wrote and read it last, and before which barriers.
struct Shadow {
  uint64_t run = 0;  ///< number of the launch; other launches' accesses are forgotten
  uint32_t writer = 0, write_bar = 0, write_warp = 0;  ///< thread + 1; barriers passed
  uint32_t reader = 0, read_bar = 0, read_warp = 0;
  bool many_readers = false;  ///< of other warps or CTAs than `reader`'s
};

/// Finds bytes of global memory for the machine.
class Blocks {
 public:
  virtual ~Blocks() = default;
  /// Where [address, address + bytes) is, if it lies in one live block; else null.
  virtual uint8_t* find(uint64_t address, size_t bytes) = 0;
};

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
  uint64_t count() const { return uint64_t{x} * y * z; }
};

struct Launch {
  const Kernel& kernel;
  Dim3 grid, block;
  std::vector<uint8_t> parameters;  ///< as the parameter space
};

/// A machine over some memory. One launch at a time.
class Machine {
 public:
  Machine(Blocks& blocks, uint64_t seed);
  ~Machine();
  /// Runs a launch to its end. Throws Fault saying what, where and in which thread.
  void run(const Launch& launch);
  /// Instructions that warps have executed.
  uint64_t executed() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ptx

// emulator/machine.h: runs PTX kernels, and finds what they must not do.
//
// Threads run warp by warp, the lanes at the lowest place of the code first; CTAs and the turns of
// warps are in an order left to chance. A kernel faults that reads a register, or a byte of shared
// or local memory, which nobody has written; touches memory outside of a live block, or not aligned
// to the access; races: two threads touch a byte, one writes, and no barrier orders them; waits for
// a barrier that others have left; or runs an instruction that is not known here.
//
// Copies by tensor maps and products of warpgroups (wgmma) are done later, in an order left to
// chance: those of a group one after the other. A kernel faults whose copies or products touch what
// nobody knows to be free or ready: by an mbarrier's phase, by wgmma.wait_group of each warp that
// has a part in a product, or by fence.proxy.async for what threads wrote; that uses registers of a
// product under way or has not fenced them; or that waits for what never comes.
#pragma once

#include <memory>
#include <unordered_map>

#include "emulator/clocks.h"
#include "emulator/module.h"

namespace ptx {

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
  int64_t shared_bytes = 0;         ///< that come with the launch
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

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace ptx

// backend/cuda/faults.h: words that kernels store faults into and the host sees.
#pragma once

#include <atomic>
#include <memory>

#include "backend/cuda/driver.h"

namespace hologram::cuda {

/// The words of one call: pinned memory of the host that kernels write to, one word a fault.
/// Behind the call's last kernel they are added to the call's sticky bits, and serve others, unless
/// the call was captured: its kernels store to them at every replay.
class Faults {
 public:
  static constexpr int words = 2;  ///< by atlas::StickyError: bit - 1

  /// Pins memory for later words, if there is none: in a capture that is forbidden. Throws
  /// Error(out_of_memory).
  static void stock(const DeviceContext& device);
  /// Takes words, all 0. Throws Error(out_of_memory).
  explicit Faults(const DeviceContext& device);
  /// Where kernels find them.
  CuPointer address() const;
  /// Puts on the stream what reads them into *sticky; the words are then the stream's. `captured`:
  /// that will be done again and again.
  void collect(CuStream stream, std::atomic<int32_t>* sticky, bool captured);
  /// What kernels have stored so far, as sticky bits; the words are 0 again.
  int32_t take();
  ~Faults();
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;

 private:
  struct Words;
  struct Pool;
  static Pool& pool();
  static void read(void* words);
  static int32_t bits_of(const Words& words);

  const DeviceContext& device_;
  Words* words_ = nullptr;
};

}  // namespace hologram::cuda

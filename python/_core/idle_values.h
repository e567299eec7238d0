// python/_core/idle_values.h: gives back what graphs that nobody calls keep of weights.
#pragma once

#include <mutex>
#include <vector>

#include "host/ticker.h"
#include "runtime/executable.h"

namespace hologram::python {

/// Executables whose kept values can be computed again, and take much memory beside the framework's
/// own weights: once no call has come for one to two periods of the memory pool, and for as many
/// more as `per_period` bytes go into them, the pool gets back all but `rest` bytes. Computing them
/// again then takes a few percent of the time that has passed. Thread-safe.
class IdleValues {
 public:
  static constexpr size_t rest = size_t{8} << 20;
  static constexpr size_t per_period = size_t{256} << 20;

  static IdleValues& of_process();
  /// From now on until its values have been given back. The executable lives until forget().
  void watch(runtime::Executable& executable);
  void forget(runtime::Executable& executable);

 private:
  struct Watched {
    runtime::Executable* executable;
    size_t patience;  // periods that are left
    size_t full;      // and were at the last call
  };
  explicit IdleValues(std::chrono::milliseconds period)
      : ticker_(period, [this] { return look(); }) {}
  bool look() noexcept;

  std::mutex mutex_;
  std::vector<Watched> watched_;
  host::Ticker ticker_;
};

}  // namespace hologram::python

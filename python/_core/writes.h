// python/_core/writes.h: which memory kept values were computed from, and writes into it that no
// version counter shows.
#pragma once

#include <cstdint>
#include <map>

namespace hologram::python {

/// The addresses that the stamps of this process remember, and the epoch: whatever is kept by
/// identity, address and version holds only while the epoch stays the same. Used under the GIL.
class Writes {
 public:
  static Writes& of_process() {
    static Writes writes;
    return writes;
  }

  int64_t epoch() const { return epoch_; }
  void next_epoch() { ++epoch_; }
  void watch(const void* address) { ++watched_[reinterpret_cast<uintptr_t>(address)]; }
  void forget(const void* address) {
    auto it = watched_.find(reinterpret_cast<uintptr_t>(address));
    if (it != watched_.end() && --it->second == 0) watched_.erase(it);
  }
  /// Begins another epoch if a watched address lies in these bytes.
  void written(const void* address, size_t bytes) {
    auto begin = reinterpret_cast<uintptr_t>(address);
    auto it = watched_.lower_bound(begin);
    if (it != watched_.end() && it->first - begin < bytes) next_epoch();
  }

 private:
  int64_t epoch_ = 0;
  std::map<uintptr_t, int> watched_;  // with how many stamps remember each
};

}  // namespace hologram::python

// base/free_ranges.h: which parts of a range of addresses nobody has.
#pragma once

#include <cstddef>
#include <iterator>
#include <map>
#include <optional>

namespace hologram {

/// What is added is free, and taken where it first fits; neighbours that are free are one. Not
/// thread-safe.
class FreeRanges {
 public:
  void add(size_t first, size_t size) {
    auto next = free_.lower_bound(first);
    if (next != free_.end() && next->first == first + size) {
      size += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == first) {
        before->second += size;
        return;
      }
    }
    free_[first] = size;
  }

  /// Where the part begins; nothing where none is large enough.
  std::optional<size_t> take(size_t size) {
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      if (it->second < size) continue;
      const auto [first, room] = *it;
      free_.erase(it);
      if (room > size) free_[first + size] = room - size;
      return first;
    }
    return std::nullopt;
  }

 private:
  std::map<size_t, size_t> free_;  // first → size
};

}  // namespace hologram

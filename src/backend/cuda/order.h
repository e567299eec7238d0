// backend/cuda/order.h: which launches of a run wait for which others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hologram::cuda {

struct Launch;

/// Memory that a launch reads or writes: so many bytes from the address on that a word of its
/// parameters is.
struct Touch {
  size_t word = 0;
  uint64_t bytes = 0;
  bool writes = false;
};
struct Touches {
  std::vector<Touch> memory;
  size_t workspace_at = 0, workspace_bytes = 0;  ///< of the call's, which is read and written
};

/// Of launches in the order in which a stream would run them: of two that touch the same memory,
/// one of them writing, the later one waits for the earlier one.
class LaunchOrder {
 public:
  LaunchOrder() = default;
  explicit LaunchOrder(std::span<const Launch> launches);

  /// The launches that this one waits for, without those that another one of them waits for.
  std::span<const size_t> before(size_t launch) const { return edges_[launch]; }

  /// Whether launches with the same touches, at other addresses, share memory where those of the
  /// order did; then the order is theirs.
  bool holds(std::span<const Launch> launches) const;
  bool has_edges_of(const LaunchOrder& other) const { return edges_ == other.edges_; }

 private:
  // Memory that touches share pairwise, directly or by others, and that no other one has a part of.
  struct Region {
    size_t launch, word;  // which have its address
    uint64_t bytes;
  };
  // A touch in its region.
  struct Place {
    size_t launch, word, region;
    uint64_t offset;
  };

  void find_edges(std::span<const Launch> launches);
  void find_regions(std::span<const Launch> launches);

  std::vector<std::vector<size_t>> edges_;
  std::vector<Region> regions_;
  std::vector<Place> places_;
};

}  // namespace hologram::cuda

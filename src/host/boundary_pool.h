// host/boundary_pool.h: 96 classes of 12,288 bytes in one cache-resident block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "atlas/class_graph.h"

namespace hologram::host {

inline constexpr int boundary_classes = atlas::num_classes;
inline constexpr int boundary_pages = atlas::class_pages;
inline constexpr int boundary_page_bytes = atlas::page_bytes;
inline constexpr size_t boundary_class_bytes = size_t{boundary_pages} * boundary_page_bytes;
inline constexpr size_t boundary_bytes = boundary_classes * boundary_class_bytes;
static_assert(boundary_class_bytes == atlas::class_bytes);
static_assert(boundary_bytes == 1'179'648, "1.125 MiB");
static_assert(boundary_class_bytes % 64 == 0, "every class starts on a cache line");

/// A byte of the pool by its coordinates.
struct BoundaryAddress {
  int cls = 0;   ///< 0…95
  int page = 0;  ///< 0…47
  int byte = 0;  ///< 0…255
  bool operator==(const BoundaryAddress&) const = default;
};

/// Offset of an address from the start of the pool. Throws Error(invalid_argument) out of range.
size_t boundary_offset(BoundaryAddress address);
/// The inverse of boundary_offset, for offset < boundary_bytes.
BoundaryAddress boundary_address(size_t offset);

/// Contiguous storage of 1.125 MiB (aligned to 2 MiB and on a huge page where the system allows, at
/// least to 64 bytes) and the set of its busy classes. Thread-safe, lock-free. A class is busy
/// while anybody holds it: the owner, and every exported view. Views keep the storage alive after
/// the pool.
class BoundaryPool {
 public:
  /// Throws Error(out_of_memory).
  BoundaryPool();
  BoundaryPool(const BoundaryPool&) = delete;
  BoundaryPool& operator=(const BoundaryPool&) = delete;
  ~BoundaryPool();

  /// Takes the lowest run of `count` neighbouring free classes; its first class, or nothing when no
  /// such run is free. Throws Error(invalid_argument) unless 1 ≤ count ≤ 96.
  std::optional<int> allocate(int count = 1);
  /// Takes this class; false when it is busy. Throws Error(invalid_argument) outside 0…95.
  bool allocate_class(int cls);
  /// Drops the owner's hold on a run. Throws Error(invalid_argument) for a class out of range or
  /// not owned; then nothing changes.
  void free(int first, int count = 1);

  bool busy(int cls) const;
  /// Whether an exported view of the class lives (its owner must not resize it then).
  bool exported(int cls) const;
  int free_classes() const noexcept;

  /// The storage of a class, valid while the pool or a view lives.
  std::byte* data(int cls) const;
  std::byte* base() const noexcept;
  /// Where a pointer into the storage points, or nothing when it lies outside.
  std::optional<BoundaryAddress> locate(const void* pointer) const noexcept;

  /// A view of an owned class: keeps the class busy and the storage alive until its last copy dies,
  /// on any thread. Throws Error(invalid_argument) when the class has no owner.
  std::shared_ptr<std::byte> export_class(int cls);

  struct State;  // internal: shared with the views

 private:
  std::shared_ptr<State> state_;
};

}  // namespace hologram::host

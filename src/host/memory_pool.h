// host/memory_pool.h: the caching pool behind outputs and large intermediates.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/error.h"

namespace hologram::host {

/// A number of bytes as this process addresses memory. Throws Error(out_of_memory) beyond that,
/// which is 4 GiB in WebAssembly.
template <class Integer>
size_t addressable(Integer bytes) {
  if (bytes > static_cast<Integer>(SIZE_MAX / 2))
    fail(ErrorCode::out_of_memory, "no memory for {} bytes", static_cast<uint64_t>(bytes));
  return static_cast<size_t>(bytes);
}

/// Caching allocator. Freed blocks stay mapped, so that the next result of the same size costs no
/// page faults. Lock-free: any thread may allocate and free at any time, a forked child included.
/// Blocks may outlive the pool; the last one to die returns the remaining memory.
///
/// Sizes are rounded up to one of eight classes per doubling, and a request may reuse a cached
/// block of up to twice its size. A request that finds none first gives back cached blocks of the
/// sizes below its own, so that slowly growing sizes (a sequence getting longer) do not pile up
/// memory. Cached blocks of sizes that nobody asked for during one to two seconds
/// (HOLOGRAM_POOL_IDLE) are given back by a thread that runs while a MiB or more is cached.
class MemoryPool {
 public:
  static constexpr size_t alignment = 64;
  /// Blocks from this size on are aligned to it and ask for huge pages.
  static constexpr size_t huge_page = size_t{2} << 20;

  struct Stats {
    size_t in_use = 0;    ///< Bytes of live blocks, rounding included.
    size_t peak = 0;      ///< Largest in_use since construction or reset_peak().
    size_t cached = 0;    ///< Bytes kept for reuse.
    size_t limit = 0;     ///< Bound of `cached`.
    uint64_t hits = 0;    ///< Allocations served from the cache.
    uint64_t misses = 0;  ///< Allocations that mapped fresh memory.
  };

  /// `limit` bounds the cached bytes, not the live ones; 0 caches nothing.
  explicit MemoryPool(size_t limit = default_limit());
  /// Gives the cached memory back; live blocks stay valid.
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  /// A block of at least `bytes` bytes, contents undefined, aligned to alignment (to huge_page
  /// when bytes ≥ huge_page). Zero bytes give a valid block too. When the system refuses, the cache
  /// is given back and the request repeated; then throws Error(out_of_memory), with all live blocks
  /// and counters as they were. *zeroed (may be null) says whether all of it is 0,
  /// as the system gives new memory: nobody has touched it yet.
  void* allocate(size_t bytes, bool* zeroed = nullptr);

  /// Frees a block of any pool, from any thread; nullptr is ignored. Never throws.
  static void deallocate(void* block) noexcept;
  /// The bytes that a live block takes: those asked for, rounded up.
  static size_t capacity(const void* block) noexcept;

  /// Gives all cached memory back to the system; returns the bytes.
  size_t release() noexcept;
  /// Gives back those of its blocks that nobody asked for since it, or the pool's own thread, was
  /// here last.
  void release_idle() noexcept;
  /// Changes the bound and trims the cache to it.
  void set_limit(size_t bytes) noexcept;
  void reset_peak() noexcept;
  /// A snapshot; fields may be a few operations apart while other threads allocate.
  Stats stats() const noexcept;

  /// Bytes of memory that this process may use: the machine's, or its control group's bound.
  static size_t usable_memory();
  /// HOLOGRAM_POOL_LIMIT (bytes, optional suffix K, M or G) if set and well-formed, else a quarter
  /// of the memory this process may use.
  static size_t default_limit();
  /// HOLOGRAM_POOL_IDLE: for how long cached blocks may be unused; 0: for ever.
  static std::chrono::milliseconds idle_period();

  struct State;  // internal: shared with the blocks

 private:
  State* state_;
};

}  // namespace hologram::host

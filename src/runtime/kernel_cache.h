// runtime/kernel_cache.h: compiled kernels by content, in memory and on disk.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "backend/backend.h"
#include "base/fingerprint.h"
#include "base/single_flight.h"
#include "runtime/disk_cache.h"

namespace hologram::runtime {

/// Where a kernel came from.
enum class KernelSource : uint8_t { memory, builtin, disk, compiled };

/// Which kernel will do; every one computes the same bits.
enum class Quality : uint8_t {
  best,
  any,  ///< one that has to be compiled may be Backend::quick_kernel, which is not put on disk
};

/// Thread-safe; nothing is compiled under a lock, and what several threads need at once is compiled
/// by one of them. Kernels stay while someone uses them; others
/// until clear(), or until a thousand more have been made.
class KernelCache {
 public:
  KernelCache(const Backend& backend, std::filesystem::path folder, uint64_t limit)
      : backend_(backend), disk_(std::move(folder), limit) {}

  /// The kernel for a program (before expand_math), compiled if nobody has it. `source` (may be
  /// null) tells where it came from.
  std::shared_ptr<const Kernel> get(const atlas::Program& program, KernelSource* source = nullptr) {
    return get(program, atlas::fingerprint(program), source);
  }
  /// The same for a program whose fingerprint is known.
  std::shared_ptr<const Kernel> get(const atlas::Program& program, const Fingerprint& content,
                                    KernelSource* source, Quality quality = Quality::best);

  /// The lane kernel for a program, compiled if nobody has it. Throws atlas::LaneError.
  std::shared_ptr<const LaneKernel> get_lanes(const atlas::LaneProgram& program,
                                              KernelSource* source = nullptr);

  struct Stats {
    uint64_t memory_hits = 0, disk_hits = 0, misses = 0;
    uint64_t builtin = 0;                     ///< kernels taken from the library itself
    size_t kernels = 0;                       ///< in memory now
    size_t code_in_use = 0, code_cached = 0;  ///< bytes of code of those in use, and of the others
  };
  Stats stats() const;
  /// Forgets every kernel that is not in use. Those on disk stay.
  void clear();
  DiskCache& disk() { return disk_; }

 private:
  template <class K>
  struct Table {
    std::unordered_map<Fingerprint, std::shared_ptr<const K>> made;
    SingleFlight<std::shared_ptr<const K>> in_progress;
  };
  template <class K, class Make>
  std::shared_ptr<const K> get_from(Table<K>& table, const Fingerprint& key, KernelSource* source,
                                    const Make& make);
  std::shared_ptr<const LaneKernel> make_lanes(const atlas::LaneProgram& program,
                                               const Fingerprint& key, KernelSource& source);
  bool is_made(const Fingerprint& key) const;
  std::shared_ptr<const Kernel> make(const atlas::Program& program, const Fingerprint& content,
                                     const Fingerprint& key, bool quickly, KernelSource& source);

  const Backend& backend_;
  DiskCache disk_;
  mutable std::mutex mutex_;  // guards what is made
  Table<Kernel> kernels_;
  Table<LaneKernel> lanes_;
  std::atomic<uint64_t> memory_hits_{0}, disk_hits_{0}, misses_{0}, builtin_{0};
};

}  // namespace hologram::runtime

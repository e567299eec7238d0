// runtime/packed_files.h: packed weights in files that processes share.
#pragma once

#include <optional>
#include <span>

#include "runtime/executable.h"

namespace hologram::runtime {

/// The values that an executable computes from static parameters alone, as entries of the disk
/// cache: named by what they are computed from and how, mapped by every process that runs it.
/// Values below 64 KiB, of sizes that calls choose and of devices stay in memory of the process.
/// Thread-safe.
class PackedFiles {
 public:
  /// Parameters are named by `contents`: hashes of their bytes, by number; nothing: not known.
  /// `executable` outlives this.
  PackedFiles(const Executable& executable, std::span<const std::optional<Fingerprint>> contents);

  /// Takes what is null in `kept`, and there, from the disk.
  void take(Kept& kept) const;
  /// Those of `kept` that are not mapped and have a name; empty where they are too many for the
  /// cache.
  std::vector<size_t> unshared(const Kept& kept) const;
  /// Writes these and puts mappings into their places. What they were computed from must have been
  /// compared with its hashes: others rely on the name.
  void share(Kept& kept, std::span<const size_t> which) const;

 private:
  struct Value {
    Fingerprint key;
    uint64_t bytes = 0;  ///< 0: it has no file
  };

  DiskCache& cache_;
  std::vector<Value> values_;  // by cache entry of the plan
};

}  // namespace hologram::runtime

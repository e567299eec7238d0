// runtime/packed_files.h: packed weights in files that processes share.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "runtime/executable.h"

namespace hologram::runtime {

/// Such values that executables of one process have in common, by the names of their files, while
/// one of them keeps them. Thread-safe.
class PackedTable {
 public:
  std::shared_ptr<void> find(const Runtime& runtime, const Fingerprint& name);
  /// What is there under this name; `value` from now on, if nothing is.
  std::shared_ptr<void> unite(const Runtime& runtime, const Fingerprint& name,
                              std::shared_ptr<void> value);

 private:
  std::mutex mutex_;
  std::map<std::pair<const Runtime*, Fingerprint>, std::weak_ptr<void>> values_;
};

/// The values that an executable computes from static parameters alone, as entries of the disk
/// cache: named by what they are computed from and how, mapped by every process that runs it.
/// Values below 64 KiB, of sizes that calls choose and of devices stay in memory of the process.
/// Thread-safe.
class PackedFiles {
 public:
  /// Parameters are named by `contents`: hashes of their bytes, by number; nothing: not known.
  /// `executable` outlives this. `table`: of those that read the very same parameters.
  PackedFiles(const Executable& executable, std::span<const std::optional<Fingerprint>> contents,
              PackedTable& table);

  /// Takes what is null in `kept`, and there, from the table or the disk.
  void take(Kept& kept) const;
  /// Puts what `kept` has into the table; what is there already takes its place.
  void unite(Kept& kept) const;
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

  const Runtime& runtime_;
  DiskCache& cache_;
  PackedTable& table_;
  std::vector<Value> values_;  // by cache entry of the plan
};

}  // namespace hologram::runtime

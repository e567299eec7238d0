// runtime/packed_files.h: packed weights that executables share, and in files, processes.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "runtime/executable.h"

namespace hologram::runtime {

/// Values that executables of one process compute from static parameters alone and have in common,
/// by their names, while one of them keeps them. Thread-safe.
class PackedTable {
 public:
  std::shared_ptr<void> find(const Runtime& runtime, const Fingerprint& name);
  /// What is there under this name; `value` from now on, if nothing is.
  std::shared_ptr<void> unite(const Runtime& runtime, const Fingerprint& name,
                              std::shared_ptr<void> value);

 private:
  std::mutex mutex_;
  std::map<std::pair<const Runtime*, Fingerprint>, std::weak_ptr<void>> values_;
  size_t most_ = 1024;  // entries before those of values that are gone are dropped
};

/// Such values of one executable, named by what they are computed from and how. Values below 64
/// KiB, of sizes that calls choose and of devices belong to their executable alone. Thread-safe.
class PackedValues {
 public:
  /// Parameters are named by `contents`, by number, as hashes of their bytes, or of what tells them
  /// from all others; nothing: not known. `executable` and `table` outlive this.
  PackedValues(const Executable& executable, std::span<const std::optional<Fingerprint>> contents,
               PackedTable& table);

  /// Takes what is null in `kept`, and there, from the table.
  void take(Kept& kept) const;
  /// Puts what `kept` has into the table; what is there already takes its place.
  void unite(Kept& kept) const;

 protected:
  struct Value {
    Fingerprint key;
    uint64_t bytes = 0;  ///< 0: it has no name
  };
  const std::vector<Value>& values() const { return values_; }  ///< by cache entry of the plan

 private:
  const Runtime& runtime_;
  PackedTable& table_;
  std::vector<Value> values_;
};

/// The same as entries of the disk cache, mapped by every process that runs the executable; names
/// are made of the parameters' bytes.
class PackedFiles : public PackedValues {
 public:
  PackedFiles(const Executable& executable, std::span<const std::optional<Fingerprint>> contents,
              PackedTable& table);

  /// Takes what is null in `kept`, and there, from the table or the disk.
  void take(Kept& kept) const;
  /// Those of `kept` that are not mapped and have a name; empty where they are too many for the
  /// cache.
  std::vector<size_t> unshared(const Kept& kept) const;
  /// Writes these and puts mappings into their places. What they were computed from must have been
  /// compared with its hashes: others rely on the name.
  void share(Kept& kept, std::span<const size_t> which) const;

 private:
  DiskCache& cache_;
};

}  // namespace hologram::runtime

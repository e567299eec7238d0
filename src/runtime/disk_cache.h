// runtime/disk_cache.h: machine code and packed weights by content on disk, shared by processes.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "base/fingerprint.h"

namespace hologram::runtime {

/// A folder of checksummed entries, written by atomic rename. It holds machine code, so it must
/// belong to this user and be writable by nobody else; otherwise it is not used. Thread-safe and
/// safe beside other processes. No method throws: a cache that does not work is as good as an empty
/// one, and a notice says why.
class DiskCache final : public CodeStore {
 public:
  /// `folder` is created (mode 0700) at the first put. Empty: the cache is off. `limit` bounds the
  /// bytes of all entries.
  DiskCache(std::filesystem::path folder, uint64_t limit);

  /// HOLOGRAM_CACHE_DIR if set (empty: the cache is off), else hologram under XDG_CACHE_HOME or
  /// ~/.cache.
  static std::filesystem::path default_folder();
  /// HOLOGRAM_CACHE_LIMIT (bytes, suffix K, M or G) or 1 GiB.
  static uint64_t default_limit();

  /// The entry's content; nothing if there is none. An entry that fails its checks is removed.
  std::optional<std::string> get(const Fingerprint& key) noexcept override;
  /// Stores an entry; the oldest ones go when the folder outgrows its limit.
  void put(const Fingerprint& key, std::string_view content) noexcept override;

  /// An entry that another machine's cache had, as take_recorded() tells them: stored like put()'s
  /// or, where the folder is not used, kept in memory.
  void give(const Fingerprint& key, std::string_view content) noexcept;

  /// Between these two, which may nest and overlap, entries that are used are noted: found, put or,
  /// by note(), in use already. stop_recording() tells those since the first start, in order.
  void start_recording() noexcept;
  std::vector<std::pair<Fingerprint, std::string>> stop_recording();
  void note(const Fingerprint& key) noexcept;

  /// Content that put_mapped() stored, read-only at an address divisible by 4096; all processes
  /// that map it share its memory. Null if there is none of this size; an entry that fails its
  /// checks is removed.
  std::shared_ptr<void> map(const Fingerprint& key, uint64_t bytes) noexcept;
  /// Stores an entry for map(), of at most half of the limit. Such entries go before machine code
  /// when the folder outgrows its limit.
  void put_mapped(const Fingerprint& key, std::span<const std::byte> content) noexcept;
  uint64_t limit() const { return limit_; }

  /// Where the archive of this key is, or where a writer of archives may put it (`make`: the folder
  /// is there then); nothing where the cache is not used. Such files go as those of put_mapped() do.
  std::optional<std::filesystem::path> place_of_archive(const Fingerprint& key, bool make) noexcept;
  /// So many bytes were written there.
  void placed(uint64_t bytes) noexcept;

  struct Info {
    std::filesystem::path folder;
    uint64_t entries = 0, bytes = 0, limit = 0;
    std::string problem;  ///< why the cache is not used; empty if it is
  };
  Info info() const noexcept;
  /// Removes every entry; returns how many.
  uint64_t clear() noexcept;

 private:
  bool usable() noexcept;
  std::optional<std::string> read(const Fingerprint& key) noexcept;
  void store(const Fingerprint& key, std::string_view content) noexcept;
  void record(const Fingerprint& key, std::string_view content) noexcept;
  void prune() noexcept;
  /// The folder is not used any more, which is said once.
  void do_without(std::string_view problem);
  /// The folders above `path`, or false.
  bool make_room(const std::filesystem::path& path);
  std::filesystem::path path_of(const Fingerprint& key, std::string_view suffix) const;
  /// `head` and `content` as a file of this name, or none.
  void write(const std::filesystem::path& path, std::string_view head,
             std::span<const std::byte> content);

  std::filesystem::path folder_;
  uint64_t limit_;
  std::atomic<int> state_{0};  // 0 unknown, 1 usable, -1 not
  std::atomic<uint64_t> written_{0};

  std::atomic<int> recording_{0};
  std::mutex mutex_;  // of what follows
  std::vector<std::pair<Fingerprint, std::string>> recorded_;
  std::unordered_set<Fingerprint> known_;                   // of recorded_
  std::unordered_map<Fingerprint, std::string> in_memory_;  // given
  uint64_t bytes_in_memory_ = 0;
};

}  // namespace hologram::runtime

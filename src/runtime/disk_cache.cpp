// runtime/disk_cache.cpp: machine code and packed weights by content on disk.
#include "runtime/disk_cache.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/checksum.h"
#include "base/error.h"
#include "base/notices.h"
#include "base/settings.h"

namespace hologram::runtime {
namespace fs = std::filesystem;
namespace {

constexpr char magic[8] = {'H', 'O', 'L', 'O', 'K', 'R', 'N', '1'};
constexpr std::string_view kernel_suffix = ".kernel", mapped_suffix = ".packed",
                           archive_suffix = ".holo";
constexpr uint64_t max_entry = uint64_t{64} << 20;

struct Header {
  char magic[8];
  uint64_t size;
  std::array<uint8_t, 32> key;
  std::array<uint8_t, 32> checksum;
};
static_assert(sizeof(Header) == 80);

/// Bytes before a mapped entry's content: a header whose checksum is a 64-bit one, and zeros.
constexpr size_t mapped_head = 4096;

std::string head_of_mapped(const Fingerprint& key, std::span<const std::byte> content) {
  Header h{{'H', 'O', 'L', 'O', 'P', 'C', 'K', '1'}, content.size(), key.bytes, {}};
  const uint64_t sum = checksum(content);
  std::memcpy(h.checksum.data(), &sum, sizeof sum);
  std::string head(mapped_head, '\0');
  std::memcpy(head.data(), &h, sizeof h);
  return head;
}

class File {
 public:
  File(const fs::path& path, int flags, int mode = 0)
      : fd_(::open(path.c_str(), flags | O_CLOEXEC, mode)) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  bool open() const { return fd_ >= 0; }
  int fd() const { return fd_; }

  bool read(void* to, size_t n) {
    auto* p = static_cast<char*>(to);
    while (n > 0) {
      ssize_t k = ::read(fd_, p, n);
      if (k < 0 && errno == EINTR) continue;
      if (k <= 0) return false;
      p += k;
      n -= static_cast<size_t>(k);
    }
    return true;
  }
  bool write(const void* from, size_t n) {
    const auto* p = static_cast<const char*>(from);
    while (n > 0) {
      ssize_t k = ::write(fd_, p, n);
      if (k < 0 && errno == EINTR) continue;
      if (k <= 0) return false;
      p += k;
      n -= static_cast<size_t>(k);
    }
    return true;
  }

 private:
  int fd_;
};

// Why this folder must not be trusted with machine code; empty if it may.
std::string distrust(const fs::path& folder) {
  struct stat s;
  if (::lstat(folder.c_str(), &s) != 0) return errno == ENOENT ? "" : std::strerror(errno);
  if (!S_ISDIR(s.st_mode)) return "it is not a folder";
  if (s.st_uid != ::geteuid()) return "it belongs to another user";
  if (s.st_mode & (S_IWGRP | S_IWOTH)) return "others may write to it";
  return "";
}

struct Entry {
  fs::path path;
  uint64_t bytes;
  fs::file_time_type time;
  bool mapped;
};

// Those that are being written, or were when their process ended, too.
std::vector<Entry> entries_of(const fs::path& folder) {
  std::vector<Entry> out;
  std::error_code ec;
  for (fs::recursive_directory_iterator it(folder, ec), end; !ec && it != end; it.increment(ec)) {
    std::error_code e;
    const std::string name = it->path().filename().string();
    const bool mapped =
        name.find(mapped_suffix) != name.npos || name.find(archive_suffix) != name.npos;
    if (!it->is_regular_file(e) || (!mapped && name.find(kernel_suffix) == name.npos)) continue;
    uint64_t bytes = it->file_size(e);
    auto time = it->last_write_time(e);
    if (!e) out.push_back({it->path(), bytes, time, mapped});
  }
  return out;
}

}  // namespace

DiskCache::DiskCache(fs::path folder, uint64_t limit) : folder_(std::move(folder)), limit_(limit) {}

fs::path DiskCache::default_folder() {
  if (const auto named = settings::text("HOLOGRAM_CACHE_DIR")) return *named;
  if (const std::string base = settings::foreign("XDG_CACHE_HOME"); base.starts_with('/'))
    return fs::path(base) / "hologram";
  if (const std::string home = settings::foreign("HOME"); home.starts_with('/'))
    return fs::path(home) / ".cache" / "hologram";
  return "";
}

uint64_t DiskCache::default_limit() {
  return settings::number("HOLOGRAM_CACHE_LIMIT").value_or(uint64_t{1} << 30);
}

fs::path DiskCache::path_of(const Fingerprint& key, std::string_view suffix) const {
  std::string hex = key.hex();
  return folder_ / hex.substr(0, 2) / hex.substr(2).append(suffix);
}

bool DiskCache::usable() noexcept {
  int state = state_.load();
  if (state == 0) {
    try {
      const std::string problem = folder_.empty() ? "" : distrust(folder_);
      state = !folder_.empty() && problem.empty() ? 1 : -1;
      if (!problem.empty()) do_without(problem);
    } catch (...) {
      state = -1;
    }
    state_ = state;
  }
  return state > 0;
}

std::optional<std::string> DiskCache::get(const Fingerprint& key) noexcept {
  std::optional<std::string> content = read(key);
  if (content) record(key, *content);
  return content;
}

void DiskCache::give(const Fingerprint& key, std::string_view content) noexcept {
  try {
    if (usable()) {
      std::error_code ec;
      if (!fs::exists(path_of(key, kernel_suffix), ec)) store(key, content);
      return;
    }
    std::lock_guard lock(mutex_);
    if (bytes_in_memory_ + content.size() > limit_ || content.size() > max_entry) return;
    if (in_memory_.emplace(key, content).second) bytes_in_memory_ += content.size();
  } catch (...) {
  }
}

void DiskCache::start_recording() noexcept { ++recording_; }

std::vector<std::pair<Fingerprint, std::string>> DiskCache::stop_recording() {
  std::lock_guard lock(mutex_);
  if (--recording_ > 0) return recorded_;
  known_.clear();
  return std::exchange(recorded_, {});
}

void DiskCache::note(const Fingerprint& key) noexcept {
  if (recording_ == 0) return;
  if (const std::optional<std::string> content = read(key)) record(key, *content);
}

void DiskCache::record(const Fingerprint& key, std::string_view content) noexcept {
  if (recording_ == 0) return;
  try {
    std::lock_guard lock(mutex_);
    if (known_.insert(key).second) recorded_.emplace_back(key, content);
  } catch (...) {
  }
}

std::optional<std::string> DiskCache::read(const Fingerprint& key) noexcept {
  if (!usable()) try {
      std::lock_guard lock(mutex_);
      const auto given = in_memory_.find(key);
      return given == in_memory_.end() ? std::nullopt : std::optional(given->second);
    } catch (...) {
      return std::nullopt;
    }
  try {
    fs::path path = path_of(key, kernel_suffix);
    std::string content;
    {
      File file(path, O_RDONLY | O_NOFOLLOW);
      Header h;
      struct stat s;
      if (!file.open()) return std::nullopt;
      bool whole = ::fstat(file.fd(), &s) == 0 && file.read(&h, sizeof h) &&
                   std::memcmp(h.magic, magic, 8) == 0 && h.key == key.bytes &&
                   h.size <= max_entry && static_cast<uint64_t>(s.st_size) == sizeof h + h.size;
      if (whole) {
        content.resize(h.size);
        whole =
            file.read(content.data(), content.size()) && fingerprint(content).bytes == h.checksum;
      }
      if (whole) {
        ::futimens(file.fd(), nullptr);  // recently used
        return content;
      }
    }
    ::unlink(path.c_str());
  } catch (...) {
  }
  return std::nullopt;
}

void DiskCache::put(const Fingerprint& key, std::string_view content) noexcept {
  record(key, content);
  store(key, content);
}

void DiskCache::store(const Fingerprint& key, std::string_view content) noexcept {
  if (!usable() || content.size() > max_entry) return;
  try {
    Header h{{}, content.size(), key.bytes, fingerprint(content).bytes};
    std::memcpy(h.magic, magic, sizeof magic);
    write(path_of(key, kernel_suffix), {reinterpret_cast<const char*>(&h), sizeof h},
          std::as_bytes(std::span(content)));
  } catch (...) {
  }
}

std::shared_ptr<void> DiskCache::map(const Fingerprint& key, uint64_t bytes) noexcept {
  if (!usable() || bytes == 0) return nullptr;
  try {
    const fs::path path = path_of(key, mapped_suffix);
    File file(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    struct stat s;
    if (!file.open() || ::fstat(file.fd(), &s) != 0) return nullptr;
    const size_t size = mapped_head + bytes;
    if (S_ISREG(s.st_mode) && s.st_uid == ::geteuid() && static_cast<uint64_t>(s.st_size) == size) {
      void* memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED | MAP_POPULATE, file.fd(), 0);
      if (memory == MAP_FAILED) return nullptr;
      std::shared_ptr<void> owner(memory, [size](void* m) { ::munmap(m, size); });
      const std::span<const std::byte> all(static_cast<const std::byte*>(memory), size);
      const std::string head = head_of_mapped(key, all.subspan(mapped_head));
      if (std::memcmp(memory, head.data(), mapped_head) == 0) {
        ::futimens(file.fd(), nullptr);  // recently used
        return {owner, static_cast<std::byte*>(memory) + mapped_head};
      }
    }
    ::unlink(path.c_str());
  } catch (...) {
  }
  return nullptr;
}

void DiskCache::put_mapped(const Fingerprint& key, std::span<const std::byte> content) noexcept {
  if (!usable() || content.empty() || content.size() > limit_ / 2) return;
  try {
    write(path_of(key, mapped_suffix), head_of_mapped(key, content), content);
  } catch (...) {
  }
}

std::optional<fs::path> DiskCache::place_of_archive(const Fingerprint& key, bool make) noexcept {
  if (!usable()) return std::nullopt;
  try {
    fs::path path = path_of(key, archive_suffix);
    if (make && !make_room(path)) return std::nullopt;
    return path;
  } catch (...) {
    return std::nullopt;
  }
}

void DiskCache::placed(uint64_t bytes) noexcept {
  // Looking at the whole folder costs; do it once for every sixteenth of the limit written.
  if ((written_ += bytes) <= limit_ / 16) return;
  written_ = 0;
  prune();
}

bool DiskCache::make_room(const fs::path& path) {
  std::error_code ec;
  fs::create_directories(folder_.parent_path(), ec);
  const bool there = ::mkdir(folder_.c_str(), 0700) == 0 || errno == EEXIST;
  const std::string problem = there ? distrust(folder_) : std::strerror(errno);
  if (!problem.empty()) {
    do_without(problem);
    return false;
  }
  ::mkdir(path.parent_path().c_str(), 0700);
  return true;
}

void DiskCache::write(const fs::path& path, std::string_view head,
                      std::span<const std::byte> content) {
  if (!make_room(path)) return;
  static std::atomic<uint64_t> serial{0};
  fs::path temporary = path;
  temporary += fmt::format(".{}.{}", ::getpid(), serial++);
  bool ok = false;
  {
    File file(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    ok = file.open() && file.write(head.data(), head.size()) &&
         file.write(content.data(), content.size());
    if (!ok)
      notice(fmt::format("{}: kernels cannot be kept there: {}", folder_.string(),
                         std::strerror(errno)));
  }
  if (!ok || ::rename(temporary.c_str(), path.c_str()) != 0) {
    ::unlink(temporary.c_str());
    return;
  }
  placed(head.size() + content.size());
}

void DiskCache::do_without(std::string_view problem) {
  state_ = -1;
  notice(fmt::format("the folder {} keeps no kernels: {}; HOLOGRAM_CACHE_DIR names another, or off",
                     folder_.string(), problem));
}

void DiskCache::prune() noexcept {
  try {
    std::vector<Entry> all = entries_of(folder_);
    uint64_t total = 0;
    for (const Entry& e : all) total += e.bytes;
    if (total <= limit_) return;
    std::sort(all.begin(), all.end(), [](const Entry& a, const Entry& b) {
      return a.mapped != b.mapped ? a.mapped : a.time < b.time;
    });
    for (const Entry& e : all) {
      if (total <= limit_ - limit_ / 4) break;
      if (::unlink(e.path.c_str()) == 0) total -= e.bytes;
    }
  } catch (...) {
  }
}

DiskCache::Info DiskCache::info() const noexcept {
  Info out;
  try {
    out.folder = folder_;
    out.limit = limit_;
    out.problem = folder_.empty() ? "it is switched off" : distrust(folder_);
    if (!out.problem.empty()) return out;
    for (const Entry& e : entries_of(folder_)) {
      ++out.entries;
      out.bytes += e.bytes;
    }
  } catch (...) {
    out.problem = "it cannot be read";
  }
  return out;
}

uint64_t DiskCache::clear() noexcept {
  uint64_t n = 0;
  try {
    if (!folder_.empty() && distrust(folder_).empty())
      for (const Entry& e : entries_of(folder_)) n += ::unlink(e.path.c_str()) == 0;
  } catch (...) {
  }
  return n;
}

}  // namespace hologram::runtime

// archive/file.h: files that are mapped, and files that appear whole or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace hologram::archive {

/// A regular file mapped for reading. It shows the file that was opened, also when another one
/// takes its name; who cuts it shorter in place takes its pages away.
class MappedFile {
 public:
  /// Throws Error(not_found) or Error(io).
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view bytes() const { return {data_, size_}; }

 private:
  char* data_ = nullptr;
  size_t size_ = 0;
};

/// A file that takes its name when it is finished: until then, and after a crash, the name means
/// what it meant before.
class NewFile {
 public:
  /// Throws Error(io) where the folder cannot be written.
  explicit NewFile(std::filesystem::path path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  uint64_t size() const { return size_; }
  /// Throws Error(io), "no space left" say.
  void append(std::span<const std::byte> bytes);
  void append(std::string_view bytes) { append(std::as_bytes(std::span(bytes))); }
  /// Zeros up to a multiple of `alignment`.
  void align(uint64_t alignment);
  void overwrite(uint64_t offset, std::string_view bytes);
  /// Writes everything to the disk and gives the file its name.
  void finish();

 private:
  [[noreturn]] void failed(std::string_view what) const;
  void write(uint64_t offset, const std::byte* from, size_t n);

  std::filesystem::path path_, temporary_;
  int fd_ = -1;
  uint64_t size_ = 0;
};

}  // namespace hologram::archive

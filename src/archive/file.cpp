// archive/file.cpp: files that are mapped, and files that appear whole or not at all.
#include "archive/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>

#include "base/error.h"

namespace hologram::archive {
namespace {

[[noreturn]] void io_error(const std::filesystem::path& path, std::string_view what, int error) {
  fail(error == ENOENT ? ErrorCode::not_found : ErrorCode::io, "{}: {}: {}", path.string(), what,
       std::strerror(error));
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  // Not blocking: a pipe in the file's place must not stop us.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) io_error(path, "cannot be opened", errno);
  struct stat s {};
  int error = ::fstat(fd, &s) != 0 ? errno : 0;
  const bool regular = error == 0 && S_ISREG(s.st_mode);
  if (regular && s.st_size > 0) {
    void* memory = ::mmap(nullptr, static_cast<size_t>(s.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
    if (memory == MAP_FAILED) {
      error = errno;
    } else {
      data_ = static_cast<char*>(memory);
      size_ = static_cast<size_t>(s.st_size);
    }
  }
  ::close(fd);
  if (error != 0) io_error(path, "cannot be mapped", error);
  if (!regular) fail(ErrorCode::io, "{}: it is no regular file", path.string());
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(data_, size_);
}

NewFile::NewFile(std::filesystem::path path) : path_(std::move(path)) {
  struct stat s {};  // a device, as /dev/null, must not make way for a file
  if (::stat(path_.c_str(), &s) == 0 && !S_ISREG(s.st_mode))
    fail(ErrorCode::io, "{}: it is no regular file", path_.string());
  std::random_device random;
  for (int attempt = 0; fd_ < 0 && attempt < 16; ++attempt) {
    temporary_ = path_;
    temporary_ += fmt::format(".{:08x}{:08x}.part", random(), random());
    fd_ = ::open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ < 0 && errno != EEXIST) break;
  }
  if (fd_ < 0) failed("cannot be written");
}

NewFile::~NewFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

// A folder that is not there is no file that was not found.
void NewFile::failed(std::string_view what) const {
  fail(ErrorCode::io, "{}: {}: {}", path_.string(), what, std::strerror(errno));
}

void NewFile::write(uint64_t offset, const std::byte* from, size_t n) {
  while (n > 0) {
    const ssize_t k = ::pwrite(fd_, from, n, static_cast<off_t>(offset));
    if (k < 0 && errno == EINTR) continue;
    if (k == 0) errno = ENOSPC;
    if (k <= 0) failed("cannot be written");
    from += k;
    offset += static_cast<uint64_t>(k);
    n -= static_cast<size_t>(k);
  }
}

void NewFile::append(std::span<const std::byte> bytes) {
  write(size_, bytes.data(), bytes.size());
  size_ += bytes.size();
}

void NewFile::align(uint64_t alignment) {
  append(std::string((alignment - size_ % alignment) % alignment, '\0'));
}

void NewFile::overwrite(uint64_t offset, std::string_view bytes) {
  check(offset <= size_ && bytes.size() <= size_ - offset, "archive::NewFile");
  write(offset, reinterpret_cast<const std::byte*>(bytes.data()), bytes.size());
}

void NewFile::finish() {
  if (::fsync(fd_) != 0) failed("cannot be written");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) failed("cannot be replaced");
  ::close(fd_);
  fd_ = -1;
  // The new name itself, where the system lets a folder be synchronised.
  const std::filesystem::path folder = path_.has_parent_path() ? path_.parent_path() : ".";
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) {
    ::fsync(fd);
    ::close(fd);
  }
}

}  // namespace hologram::archive

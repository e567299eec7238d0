// archive/trust.cpp: the archives whose machine code this user runs.
#include "archive/trust.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "archive/file.h"
#include "base/error.h"
#include "base/settings.h"

namespace hologram::archive {
namespace fs = std::filesystem;
namespace {

// Its own user's, and nobody else may write to it.
bool is_private(const fs::path& path, mode_t kind) {
  struct stat s {};
  return ::lstat(path.c_str(), &s) == 0 && (s.st_mode & S_IFMT) == kind &&
         s.st_uid == ::geteuid() && !(s.st_mode & (S_IWGRP | S_IWOTH));
}

}  // namespace

fs::path trust_list() {
  if (const auto named = settings::text("HOLOGRAM_TRUSTED"))
    return named->empty() ? fs::path() : fs::absolute(*named);
  if (const std::string base = settings::foreign("XDG_CONFIG_HOME"); base.starts_with('/'))
    return fs::path(base) / "hologram" / "trusted";
  if (const std::string home = settings::foreign("HOME"); home.starts_with('/'))
    return fs::path(home) / ".config" / "hologram" / "trusted";
  return "";
}

bool is_trusted(const Fingerprint& fingerprint) noexcept {
  try {
    const fs::path path = trust_list();
    if (path.empty() || !is_private(path, S_IFREG) || !is_private(path.parent_path(), S_IFDIR))
      return false;
    const MappedFile file(path);
    const std::string wanted = fingerprint.hex();
    for (std::string_view rest = file.bytes(); !rest.empty();) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      const std::string_view line = rest.substr(0, end);
      if (line.starts_with(wanted) && (line.size() == wanted.size() || line[wanted.size()] == ' '))
        return true;
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  } catch (...) {
  }
  return false;
}

void trust(const Fingerprint& fingerprint, std::string_view note) {
  if (is_trusted(fingerprint)) return;
  const fs::path path = trust_list();
  if (path.empty()) fail(ErrorCode::unavailable, "there is no list of trusted archives");
  std::error_code ec;
  fs::create_directories(path.parent_path().parent_path(), ec);
  ::mkdir(path.parent_path().c_str(), 0700);
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) fail(ErrorCode::io, "{}: cannot be written: {}", path.string(), std::strerror(errno));
  std::string line = fingerprint.hex() + " " + std::string(note);
  for (char& c : line)
    if (c == '\n') c = ' ';
  line += '\n';
  const ssize_t written = ::write(fd, line.data(), line.size());  // in one piece
  ::close(fd);
  if (written != static_cast<ssize_t>(line.size()))
    fail(ErrorCode::io, "{}: cannot be written", path.string());
  if (!is_trusted(fingerprint))
    fail(ErrorCode::io, "{}: others may write to it or to its folder", path.string());
}

Fingerprint parse_fingerprint(std::string_view hex) {
  Fingerprint f;
  const auto digit = [&](char c) {
    const size_t n = std::string_view("0123456789abcdef").find(c);
    require(n != std::string_view::npos, "\"{}\" is no fingerprint: 64 digits of 0-9 and a-f", hex);
    return static_cast<uint8_t>(n);
  };
  require(hex.size() == 2 * f.bytes.size(), "\"{}\" is no fingerprint: 64 digits of 0-9 and a-f",
          hex);
  for (size_t i = 0; i < f.bytes.size(); ++i)
    f.bytes[i] = static_cast<uint8_t>(digit(hex[2 * i]) << 4 | digit(hex[2 * i + 1]));
  return f;
}

}  // namespace hologram::archive

// tests/support/paths.h: files that tests read, found from where their program lies
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace hologram::test {

/// A file in the program's folder. A build that is moved as a whole, with the sources that its tests read, finds all it needs.
inline std::string beside_program(const char* name) {
  std::error_code missing;  // where there is no /proc, a path from the current folder
  return (std::filesystem::read_symlink("/proc/self/exe", missing).parent_path() / name).string();
}

/// A file of the source tree, by its path there. HOLOGRAM_SOURCE names another tree.
inline std::string source_file(const std::string& path) {
  const char* named = std::getenv("HOLOGRAM_SOURCE");
  const std::string root = named ? named : beside_program(HOLOGRAM_SOURCE_FROM_PROGRAM);
  return (std::filesystem::path(root) / path).lexically_normal().string();
}

}  // namespace hologram::test

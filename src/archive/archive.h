// archive/archive.h: reading .holo archives.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "archive/file.h"
#include "archive/index.h"

namespace hologram::archive {

/// How much of a file is compared with its hashes when it is opened.
enum class Verify : uint8_t {
  index,  ///< header, index and graphs: what is parsed
  full,   ///< all tensors and sections: reads the whole file
};

/// An open archive: immutable, mapped into memory. Nothing in it is trusted: offsets, sizes and
/// graphs are checked before they are used.
class Archive {
 public:
  /// Throws Error(not_found), Error(io), Error(corrupt) and Error(unsupported), each with the path.
  static std::shared_ptr<const Archive> open(const std::filesystem::path& path,
                                             Verify verify = Verify::index);
  /// The same for the bytes of a file, which it keeps.
  static std::shared_ptr<const Archive> from_bytes(std::string bytes,
                                                   Verify verify = Verify::index);

  const Index& index() const { return index_; }
  /// Names the whole content: BLAKE2b-256 of the header, which holds the index's hash.
  const Fingerprint& fingerprint() const { return fingerprint_; }
  /// The path, or "archive" for bytes.
  const std::string& name() const { return name_; }
  uint64_t size() const { return bytes_.size(); }

  std::string_view section(uint32_t number) const;
  /// A private copy of a section, which agrees with its hash whatever happens to the file. Throws
  /// Error(corrupt).
  std::string checked_section(uint32_t number) const;
  const std::byte* data(const Tensor& tensor) const;
  /// The method of this name. Throws Error(not_found) naming those that there are.
  const Method& method(std::string_view name) const;
  /// Whether a tensor agrees with its hashes.
  bool agrees(const Tensor& tensor) const;
  /// Compares all tensors and sections with their hashes; throws Error(corrupt) naming the first
  /// that differs.
  void verify_all() const;

 private:
  Archive() = default;
  void parse(Verify verify);
  void compare_all() const;
  void compare_section(std::string_view content, uint32_t number) const;
  size_t first_difference(const Tensor& tensor) const;

  std::string name_;
  std::string held_;                  // from_bytes
  std::optional<MappedFile> mapped_;  // open
  std::string_view bytes_;
  Index index_;
  Fingerprint fingerprint_;
};

}  // namespace hologram::archive

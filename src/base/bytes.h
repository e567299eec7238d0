// base/bytes.h: writes and reads numbers and strings as bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace hologram {

/// Appends integers (LEB128, signed ones zigzag) and strings.
class ByteWriter {
 public:
  void byte(uint8_t b) { out_ += static_cast<char>(b); }
  void uint(uint64_t n);
  void sint(int64_t n);
  void word(uint64_t n);  ///< eight bytes, little-endian
  void string(std::string_view s);
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

/// Reads what ByteWriter writes. Throws Error(corrupt), naming `what` the bytes are, at their end and
/// beyond limits.
class ByteReader {
 public:
  ByteReader(std::string_view bytes, std::string_view what) : bytes_(bytes), what_(what) {}

  uint8_t byte();
  uint64_t uint(uint64_t limit = ~uint64_t{0});
  int64_t sint();
  uint64_t word();
  std::string_view string(size_t limit);
  /// A number of elements to follow, each of at least one byte: never more than the bytes left.
  size_t count(size_t limit);
  bool at_end() const { return at_ == bytes_.size(); }
  [[noreturn]] void error(std::string_view what) const;

 private:
  std::string_view take(size_t n);

  std::string_view bytes_, what_;
  size_t at_ = 0;
};

/// The number in the first eight bytes, as ByteWriter::word writes it.
uint64_t little_endian(std::string_view bytes);

}  // namespace hologram

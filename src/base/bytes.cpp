// base/bytes.cpp: numbers and strings as bytes.
#include "base/bytes.h"

#include "base/error.h"

namespace hologram {

uint64_t little_endian(std::string_view bytes) {
  uint64_t n = 0;
  for (size_t k = 0; k < 8; ++k) n |= uint64_t{static_cast<uint8_t>(bytes[k])} << (8 * k);
  return n;
}

void ByteWriter::uint(uint64_t n) {
  for (; n >= 0x80; n >>= 7) byte(static_cast<uint8_t>(n | 0x80));
  byte(static_cast<uint8_t>(n));
}

void ByteWriter::sint(int64_t n) {
  uint(static_cast<uint64_t>(n) << 1 ^ (n < 0 ? ~uint64_t{0} : 0));
}

void ByteWriter::word(uint64_t n) {
  for (int k = 0; k < 8; ++k) byte(static_cast<uint8_t>(n >> (8 * k)));
}

void ByteWriter::string(std::string_view s) {
  uint(s.size());
  out_ += s;
}

void ByteReader::error(std::string_view what) const {
  fail(ErrorCode::corrupt, "{}: {} at payload byte {}", what_, what, at_);
}

std::string_view ByteReader::take(size_t n) {
  if (n > bytes_.size() - at_) error("the payload ends early");
  std::string_view s = bytes_.substr(at_, n);
  at_ += n;
  return s;
}

uint8_t ByteReader::byte() { return static_cast<uint8_t>(take(1)[0]); }

uint64_t ByteReader::uint(uint64_t limit) {
  uint64_t n = 0;
  for (int shift = 0;; shift += 7) {
    uint64_t b = byte();
    if (shift == 63 && b > 1) error("a number beyond 64 bits");
    n |= (b & 0x7f) << shift;
    if (b < 0x80) {
      if (b == 0 && shift > 0) error("a number with leading zeros");
      break;
    }
  }
  if (n > limit) error("a number out of range");
  return n;
}

int64_t ByteReader::sint() {
  uint64_t n = uint();
  return static_cast<int64_t>(n >> 1 ^ (n & 1 ? ~uint64_t{0} : 0));
}

uint64_t ByteReader::word() { return little_endian(take(8)); }

std::string_view ByteReader::string(size_t limit) { return take(uint(limit)); }

size_t ByteReader::count(size_t limit) {
  uint64_t n = uint(limit);
  if (n > bytes_.size() - at_) error("more elements than bytes");
  return n;
}

}  // namespace hologram

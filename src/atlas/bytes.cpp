// atlas/bytes.cpp: the binary container of programs.
#include "atlas/bytes.h"

#include "base/error.h"
#include "base/fingerprint.h"

namespace hologram::atlas {
namespace {

// Magic (with the version in its last byte), layer, three zero bytes, payload size (8), checksum
// (16), payload.
constexpr std::string_view magic("ATLAS\r\n\5", 8);
constexpr size_t checksum_bytes = 16, header_bytes = 8 + 4 + 8 + checksum_bytes;

std::string checksum(Layer layer, std::string_view payload) {
  std::string data(1, static_cast<char>(layer));
  data += payload;
  Fingerprint f = fingerprint(std::string_view(data));
  return std::string(reinterpret_cast<const char*>(f.bytes.data()), checksum_bytes);
}

uint64_t little_endian(std::string_view bytes) {
  uint64_t n = 0;
  for (size_t k = 0; k < 8; ++k) n |= uint64_t{static_cast<uint8_t>(bytes[k])} << (8 * k);
  return n;
}

}  // namespace

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

std::string seal(Layer layer, std::string_view payload) {
  ByteWriter w;
  w.word(payload.size());
  std::string out(magic);
  out += static_cast<char>(layer);
  out.append(3, '\0');
  out += w.take();
  out += checksum(layer, payload);
  out += payload;
  return out;
}

Layer layer_of(std::string_view bytes) {
  if (bytes.size() < header_bytes || bytes.substr(0, 7) != magic.substr(0, 7))
    fail(ErrorCode::corrupt, "program bytes: not an Atlas program");
  if (bytes[7] != magic[7])
    fail(ErrorCode::corrupt, "program bytes: version {}; this build reads version {}",
         static_cast<int>(static_cast<uint8_t>(bytes[7])), static_cast<int>(magic[7]));
  auto layer = static_cast<uint8_t>(bytes[8]);
  if (layer != 1 && layer != 2) fail(ErrorCode::corrupt, "program bytes: unknown layer {}", layer);
  return static_cast<Layer>(layer);
}

std::string_view unseal(Layer layer, std::string_view bytes) {
  Layer found = layer_of(bytes);
  if (found != layer)
    fail(ErrorCode::corrupt, "program bytes: a {} program; expected a {} program",
         found == Layer::lane ? "lane" : "block", layer == Layer::lane ? "lane" : "block");
  std::string_view payload = bytes.substr(header_bytes);
  if (bytes.substr(9, 3) != std::string_view("\0\0\0", 3) ||
      little_endian(bytes.substr(12)) != payload.size())
    fail(ErrorCode::corrupt, "program bytes: {} bytes of payload do not agree with the header",
         payload.size());
  if (bytes.substr(20, checksum_bytes) != checksum(layer, payload))
    fail(ErrorCode::corrupt, "program bytes: the checksum does not agree");
  return payload;
}

}  // namespace hologram::atlas

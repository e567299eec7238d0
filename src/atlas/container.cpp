// atlas/container.cpp: the binary container of programs.
#include "atlas/container.h"

#include "base/bytes.h"
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

}  // namespace

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

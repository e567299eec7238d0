// base/fingerprint.h: content fingerprints (BLAKE2b-256, RFC 7693).
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace hologram {

/// 256-bit content fingerprint; names kernels, plans and archives.
struct Fingerprint {
  std::array<uint8_t, 32> bytes{};

  auto operator<=>(const Fingerprint&) const = default;
  /// 64 lower-case hexadecimal digits.
  std::string hex() const;
};

/// BLAKE2b-256 of `data`.
Fingerprint fingerprint(std::span<const std::byte> data);
Fingerprint fingerprint(std::string_view data);

}  // namespace hologram

template <>
struct std::hash<hologram::Fingerprint> {
  size_t operator()(const hologram::Fingerprint& f) const noexcept {
    size_t h;
    std::memcpy(&h, f.bytes.data(), sizeof h);
    return h;
  }
};

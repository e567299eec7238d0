// base/fingerprint.cpp: content fingerprints through libb2.
#include "base/fingerprint.h"

#include <blake2.h>

#include "base/error.h"

namespace hologram {

std::string Fingerprint::hex() const {
  std::string out;
  for (uint8_t b : bytes) fmt::format_to(std::back_inserter(out), "{:02x}", b);
  return out;
}

Fingerprint fingerprint(std::span<const std::byte> data) {
  Fingerprint f;
  blake2b_state state;
  check(blake2b_init(&state, f.bytes.size()) == 0, "fingerprint: blake2b_init");
  blake2b_update(&state, reinterpret_cast<const uint8_t*>(data.data()), data.size());
  check(blake2b_final(&state, f.bytes.data(), f.bytes.size()) == 0, "fingerprint: blake2b_final");
  return f;
}

Fingerprint fingerprint(std::string_view data) {
  return fingerprint(std::as_bytes(std::span(data.data(), data.size())));
}

}  // namespace hologram

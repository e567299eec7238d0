// tests/fuzz/json.cpp: any text is an array of numbers or an Error; what parses is written back the same.
#include "capi/json.h"

#include <cstring>

#include "fuzz/input.h"

HOLOGRAM_FUZZ(input) {
  using namespace hologram;
  if (input.size() < 2) return;
  const auto dtype = static_cast<DType>(static_cast<uint8_t>(input[0]) % (num_dtypes - 1));  // host is the last
  if (dtype == DType::host) return;
  const uint64_t length = static_cast<uint8_t>(input[1]) % 32;
  const std::string_view text = input.substr(2);
  const size_t bytes = static_cast<size_t>(length) * static_cast<size_t>(size_of(dtype));
  std::vector<std::byte> first(bytes), second(bytes);
  test::read_or(ErrorCode::invalid_argument, [&] { return capi::parse_integers(text, 8); });
  auto elements = [&] { return capi::parse_elements(text, dtype, length, first.data()), true; };
  if (!test::read_or(ErrorCode::invalid_argument, elements)) return;
  const std::string written = capi::write_elements(dtype, length, first.data());
  capi::parse_elements(written, dtype, length, second.data());
  if (capi::write_elements(dtype, length, second.data()) != written) std::abort();
  if (written.find("NaN") == std::string::npos && (bytes != 0 && std::memcmp(first.data(), second.data(), bytes) != 0)) std::abort();
}

// tests/fuzz/json.cpp: any text is an array of numbers or an Error; what parses is written back the same.
#include "capi/json.h"

#include <cstdlib>
#include <cstring>

#include "base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hologram;
  if (size < 2) return 0;
  const auto dtype = static_cast<DType>(data[0] % (num_dtypes - 1));  // host is the last
  if (dtype == DType::host) return 0;
  const uint64_t length = data[1] % 32;
  const std::string_view text(reinterpret_cast<const char*>(data + 2), size - 2);
  const size_t bytes = static_cast<size_t>(length) * static_cast<size_t>(size_of(dtype));
  std::vector<std::byte> first(bytes), second(bytes);
  try {
    (void)capi::parse_integers(text, 8);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::invalid_argument) std::abort();
  }
  try {
    capi::parse_elements(text, dtype, length, first.data());
  } catch (const Error& e) {
    if (e.code() != ErrorCode::invalid_argument) std::abort();
    return 0;
  }
  const std::string written = capi::write_elements(dtype, length, first.data());
  capi::parse_elements(written, dtype, length, second.data());
  if (capi::write_elements(dtype, length, second.data()) != written) std::abort();
  if (written.find("NaN") == std::string::npos && (bytes != 0 && std::memcmp(first.data(), second.data(), bytes) != 0)) std::abort();
  return 0;
}

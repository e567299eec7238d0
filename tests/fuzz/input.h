// tests/fuzz/input.h: the input of a fuzzer as text, and reading it.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "base/error.h"

namespace hologram::test {

/// What `read` makes of the input, or nothing where it refuses it; any other error than of this code is a fault.
template <class Read>
auto read_or(ErrorCode code, const Read& read) -> std::optional<decltype(read())> {
  try {
    return read();
  } catch (const Error& e) {
    if (e.code() != code) std::abort();
    return std::nullopt;
  }
}

}  // namespace hologram::test

/// The body of a fuzzer, behind this: what it does with an input named `text`.
#define HOLOGRAM_FUZZ(text)                                                 \
  static void fuzz(std::string_view text);                                  \
  extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) { \
    fuzz({reinterpret_cast<const char*>(data), size});                      \
    return 0;                                                               \
  }                                                                         \
  static void fuzz(std::string_view text)

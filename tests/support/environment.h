// tests/support/environment.h: numbers that variables of the environment name
#pragma once

#include <cstdint>
#include <cstdlib>

namespace hologram::test {

inline uint64_t number(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace hologram::test

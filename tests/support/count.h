// tests/support/count.h: how often words stand in a text, a listing of instructions mostly.
#pragma once

#include <string_view>

namespace hologram::test {

inline int count_of(std::string_view text, std::string_view word) {
  int n = 0;
  for (size_t at = 0; (at = text.find(word, at)) != std::string_view::npos; at += word.size()) ++n;
  return n;
}

}  // namespace hologram::test

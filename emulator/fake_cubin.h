// emulator/fake_cubin.h: PTX in an envelope, as machine code of the fake driver's devices.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ptx {

inline constexpr std::string_view fake_cubin_mark =
    "\x7f"
    "FAKECUBIN ";

inline std::string fake_cubin_sum(std::string_view text) {
  uint64_t h = 14695981039346656037u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return std::to_string(h);
}

/// mark, GPU, bytes of the PTX, sum, newline, the PTX.
inline std::string to_fake_cubin(std::string_view gpu, std::string_view text) {
  return std::string(fake_cubin_mark) + std::string(gpu) + " " + std::to_string(text.size()) + " " +
         fake_cubin_sum(text) + "\n" + std::string(text);
}

/// The PTX of a cubin for this GPU; nothing for what is none, of another GPU or damaged.
inline std::optional<std::string> from_fake_cubin(const char* image, std::string_view gpu) {
  if (std::string_view(image, fake_cubin_mark.size()) != fake_cubin_mark) return std::nullopt;
  std::string head;
  for (const char* c = image + fake_cubin_mark.size(); *c != '\n'; ++c) {
    if (head.size() > 100 || *c == 0) return std::nullopt;
    head += *c;
  }
  const size_t first = head.find(' '), second = head.rfind(' ');
  if (first == head.npos || second == first || head.substr(0, first) != gpu) return std::nullopt;
  const size_t bytes = std::strtoull(head.c_str() + first, nullptr, 10);
  std::string text(image + fake_cubin_mark.size() + head.size() + 1, bytes);
  if (fake_cubin_sum(text) != head.substr(second + 1)) return std::nullopt;
  return text;
}

}  // namespace ptx

// backend/cuda/settings.cpp: reading the environment.
#include "backend/cuda/settings.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "base/error.h"

namespace hologram::cuda {
namespace {

std::string_view variable(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

int read_block() {
  const std::string_view text = variable("HOLOGRAM_CUDA_BLOCK");
  if (text.empty()) return usual_block;
  int block = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), block);
  require(error == std::errc{} && end == text.data() + text.size() && block % 32 == 0 &&
              block >= 32 && block <= 1024,
          "HOLOGRAM_CUDA_BLOCK is \"{}\"; expected a multiple of 32 from 32 to 1024", text);
  return block;
}

}  // namespace

Settings read_settings() {
  const std::string_view sync = variable("HOLOGRAM_CUDA_SYNC");
  return {!sync.empty() && sync != "0", read_block()};
}

}  // namespace hologram::cuda

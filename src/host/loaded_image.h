// host/loaded_image.h: machine code of a stored plan, in this process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hologram::host {

/// A private copy of code: what was compared with its hash is what runs, whoever writes to the
/// file meanwhile.
class LoadedImage {
 public:
  /// Throws Error(out_of_memory), Error(unavailable) where memory may not be made executable.
  explicit LoadedImage(std::string_view code);
  ~LoadedImage();
  LoadedImage(const LoadedImage&) = delete;
  LoadedImage& operator=(const LoadedImage&) = delete;

  /// The code at an offset below the size, or the function of that number (CodeImage).
  const void* at(uint64_t offset) const;

 private:
  size_t first_ = 0, count_ = 0;  ///< address and bytes; in WebAssembly numbers of functions
};

}  // namespace hologram::host

// rt/wasm/image.cpp: code of a plan as a module that the host language puts beside this one.
#include "host/loaded_image.h"

#include "base/error.h"

// Makes an instance of the module with our memory and table; returns the first of the numbers that
// its functions, as many as *count will say, have in the table, or 0 where it is no such module.
extern "C" [[clang::import_module("hologram"), clang::import_name("load")]] uint32_t hologram_load(
    const void* code, uint32_t bytes, uint32_t* count);

namespace hologram::host {

LoadedImage::LoadedImage(std::string_view code) {
  uint32_t count = 0;
  first_ = hologram_load(code.data(), code.size(), &count);
  if (first_ == 0) fail(ErrorCode::corrupt, "its code is no module of kernels");
  count_ = count;
}

LoadedImage::~LoadedImage() = default;

const void* LoadedImage::at(uint64_t number) const {
  if (number >= count_) fail(ErrorCode::corrupt, "its code has no function {}", number);
  return reinterpret_cast<const void*>(first_ + static_cast<size_t>(number));
}

}  // namespace hologram::host

// host/loaded_image.cpp: machine code of a stored plan, in executable memory.
#include "host/loaded_image.h"

#include <sys/mman.h>

#include <cstring>

#include "base/error.h"

namespace hologram::host {

LoadedImage::LoadedImage(std::string_view code) : count_(code.size()) {
  void* memory =
      ::mmap(nullptr, count_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    fail(ErrorCode::out_of_memory, "no memory for {} bytes of code", count_);
  auto* to = static_cast<char*>(memory);
  std::memcpy(to, code.data(), count_);
  __builtin___clear_cache(to, to + count_);  // AArch64 caches instructions apart
  if (::mprotect(memory, count_, PROT_READ | PROT_EXEC) != 0) {
    ::munmap(memory, count_);
    fail(ErrorCode::unavailable, "this process may not make memory executable");
  }
  first_ = reinterpret_cast<size_t>(memory);
}

LoadedImage::~LoadedImage() { ::munmap(reinterpret_cast<void*>(first_), count_); }

const void* LoadedImage::at(uint64_t offset) const {
  return reinterpret_cast<const std::byte*>(first_) + offset;
}

}  // namespace hologram::host

// backend/cpu/load.cpp: objects into executable memory.
#include "backend/cpu/load.h"

#include "backend/cpu/link.h"
#include "host/pages.h"

namespace hologram::cpu {

LoadedKernel::LoadedKernel(std::string_view code, uint64_t offset)
    : image(code),
      function(reinterpret_cast<atlas::KernelFn>(const_cast<void*>(image.at(offset)))),
      bytes((code.size() + host::small_page_bytes - 1) / host::small_page_bytes *
            host::small_page_bytes) {}

std::shared_ptr<LoadedKernel> load(std::string_view object) {
  std::string code;
  const uint64_t function = link(code, object);
  return std::make_shared<LoadedKernel>(code, function);
}

}  // namespace hologram::cpu

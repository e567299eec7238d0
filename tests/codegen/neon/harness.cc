// tests/codegen/neon/harness.cc: runs a kernel object for AArch64 on data from a file; built and run by neon_test.cpp.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "atlas/abi.h"

extern "C" int32_t hologram_kernel(const hologram::atlas::Context*, void* const*, const int64_t*, int64_t, int64_t);

namespace {
void* scratch(const hologram::atlas::Context*, int64_t bytes) {
  return std::aligned_alloc(64, static_cast<size_t>(bytes + 63) / 64 * 64);
}
}  // namespace

// Input: number of buffers, each one's byte count and bytes; number of symbols and they; units; chunk. Output: the sticky
// errors as an int64, then the buffers.
int main(int, char** argv) {
  std::FILE* in = std::fopen(argv[1], "rb");
  std::FILE* out = std::fopen(argv[2], "wb");
  auto number = [&] {
    int64_t n = 0;
    if (std::fread(&n, 8, 1, in) != 1) std::exit(3);
    return n;
  };
  std::vector<void*> bufs;
  std::vector<size_t> sizes;
  for (int64_t k = number(); k > 0; --k) {
    sizes.push_back(static_cast<size_t>(number()));
    bufs.push_back(std::aligned_alloc(64, (sizes.back() + 64) / 64 * 64));
    if (std::fread(bufs.back(), 1, sizes.back(), in) != sizes.back()) return 3;
  }
  std::vector<int64_t> symbols(static_cast<size_t>(number()));
  for (int64_t& s : symbols) s = number();
  int64_t total = number(), chunk = number();
  std::atomic<int32_t> sticky{0};
  hologram::atlas::Context context{};
  context.scratch = scratch;
  context.sticky_error = &sticky;
  for (int64_t begin = 0; begin < total; begin += chunk)
    if (hologram_kernel(&context, bufs.data(), symbols.data(), begin, begin + chunk < total ? begin + chunk : total)) return 4;
  int64_t errors = sticky.load();
  std::fwrite(&errors, 8, 1, out);
  for (size_t k = 0; k < bufs.size(); ++k) std::fwrite(bufs[k], 1, sizes[k], out);
  return std::fclose(out);
}

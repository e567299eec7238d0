// backend/cuda/builtin.cpp: finding kernels that came with the library.
#include "backend/cuda/builtin.h"

#include <zstd.h>

#include <algorithm>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"

namespace hologram::cuda {
namespace {

constexpr std::string_view what = "GPU kernels of the library";
constexpr int level = 19;  // written once

struct Unpacked {
  std::string bytes;
  std::vector<BuiltinKernel> kernels;

  explicit Unpacked(std::string_view packed) {
    if (packed.empty()) return;
    bytes.resize(ZSTD_getFrameContentSize(packed.data(), packed.size()));
    const size_t n = ZSTD_decompress(bytes.data(), bytes.size(), packed.data(), packed.size());
    check(n == bytes.size(), "GPU kernels of the library cannot be unpacked");
    ByteReader in(bytes, what);
    kernels.resize(in.count(bytes.size()));
    for (BuiltinKernel& k : kernels) {
      k.key = in.string(bytes.size());
      k.stored = in.string(bytes.size());
      for (std::string_view& cubin : k.cubins) cubin = in.string(bytes.size());
    }
  }
};

}  // namespace

std::string pack(std::span<const BuiltinKernel> kernels) {
  ByteWriter out;
  out.uint(kernels.size());
  for (const BuiltinKernel& k : kernels) {
    out.string(k.key);
    out.string(k.stored);
    for (const std::string_view cubin : k.cubins) out.string(cubin);
  }
  const std::string bytes = out.take();
  std::string packed(ZSTD_compressBound(bytes.size()), '\0');
  const size_t n = ZSTD_compress(packed.data(), packed.size(), bytes.data(), bytes.size(), level);
  check(!ZSTD_isError(n), "GPU kernels of the library cannot be packed");
  packed.resize(n);
  return packed;
}

std::span<const BuiltinKernel> builtin_kernels() {
  static const Unpacked all(packed_kernels());
  return all.kernels;
}

const BuiltinKernel* find_builtin(std::string_view key) {
  const std::span<const BuiltinKernel> all = builtin_kernels();
  const auto it = std::ranges::lower_bound(all, key, {}, &BuiltinKernel::key);
  return it != all.end() && it->key == key ? &*it : nullptr;
}

}  // namespace hologram::cuda

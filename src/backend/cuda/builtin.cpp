// backend/cuda/builtin.cpp: finding kernels that came with the library.
#include "backend/cuda/builtin.h"

#include <algorithm>

namespace hologram::cuda {

const BuiltinKernel* find_builtin(std::string_view key) {
  const std::span<const BuiltinKernel> all = builtin_kernels();
  const auto it = std::ranges::lower_bound(all, key, {}, &BuiltinKernel::key);
  return it != all.end() && it->key == key ? &*it : nullptr;
}

}  // namespace hologram::cuda

// runtime/kernel_cache.cpp: compiled kernels by content.
#include "runtime/kernel_cache.h"

namespace hologram::runtime {

std::shared_ptr<const CompiledKernel> KernelCache::get(const atlas::Program& program, KernelSource* source) {
  Fingerprint key = fingerprint(atlas::fingerprint(program).hex() + backend_.code_key());
  {
    std::lock_guard lock(mutex_);
    if (auto it = kernels_.find(key); it != kernels_.end()) {
      ++memory_hits_;
      if (source) *source = KernelSource::memory;
      return it->second;
    }
  }
  atlas::Program expanded = program;
  atlas::expand_math(expanded);
  auto kernel = std::make_shared<CompiledKernel>(backend_.load(expanded, backend_.compile(expanded)));
  ++misses_;
  if (source) *source = KernelSource::compiled;
  std::lock_guard lock(mutex_);
  return kernels_.emplace(key, std::move(kernel)).first->second;
}

KernelCache::Stats KernelCache::stats() const {
  std::lock_guard lock(mutex_);
  return {memory_hits_, disk_hits_, misses_, kernels_.size()};
}

void KernelCache::clear() {
  std::lock_guard lock(mutex_);
  std::erase_if(kernels_, [](const auto& entry) { return entry.second.use_count() == 1; });
}

}  // namespace hologram::runtime

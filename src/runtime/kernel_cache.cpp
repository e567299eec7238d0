// runtime/kernel_cache.cpp: compiled kernels by content.
#include "runtime/kernel_cache.h"

#include "base/error.h"

namespace hologram::runtime {

// From the library or from disk, or compiled and then put there.
std::shared_ptr<const Kernel> KernelCache::make(const atlas::Program& program,
                                                const Fingerprint& content, const Fingerprint& key,
                                                KernelSource& source) {
  if (auto kernel = backend_.builtin(program, content)) {
    source = KernelSource::builtin;
    ++builtin_;
    return std::make_shared<Kernel>(std::move(*kernel));
  }
  if (auto code = disk_.get(key)) try {
      auto kernel = std::make_shared<Kernel>(backend_.load(program, *code));
      source = KernelSource::disk;
      ++disk_hits_;
      return kernel;
    } catch (const Error&) {  // not code that this backend loads: compile it anew
    }
  std::string code = backend_.compile(program);
  auto kernel = std::make_shared<Kernel>(backend_.load(program, code));
  source = KernelSource::compiled;
  ++misses_;
  disk_.put(key, code);
  return kernel;
}

std::shared_ptr<const Kernel> KernelCache::get(const atlas::Program& program,
                                               KernelSource* source) {
  const Fingerprint content = atlas::fingerprint(program);
  Fingerprint key = fingerprint(content.hex() + backend_.code_key());
  KernelSource from = KernelSource::memory;
  std::shared_ptr<const Kernel> kernel;
  {
    std::lock_guard lock(mutex_);
    if (auto it = kernels_.find(key); it != kernels_.end()) kernel = it->second;
  }
  if (kernel) {
    ++memory_hits_;
  } else {
    kernel = make(program, content, key, from);
    std::lock_guard lock(mutex_);
    kernel = kernels_.emplace(key, kernel).first->second;
  }
  if (source) *source = from;
  return kernel;
}

std::shared_ptr<const LaneKernel> KernelCache::make_lanes(const atlas::LaneProgram& program,
                                                          const Fingerprint& key,
                                                          KernelSource& source) {
  if (auto code = disk_.get(key)) try {
      std::shared_ptr<const LaneKernel> kernel = backend_.load_lanes(program, *code);
      source = KernelSource::disk;
      ++disk_hits_;
      return kernel;
    } catch (const Error&) {  // not code that this backend loads: compile it anew
    }
  source = KernelSource::compiled;
  ++misses_;
  auto code = backend_.lane_code(program);
  if (!code) return backend_.compile_lanes(program);
  std::shared_ptr<const LaneKernel> kernel = backend_.load_lanes(program, *code);
  disk_.put(key, *code);
  return kernel;
}

std::shared_ptr<const LaneKernel> KernelCache::get_lanes(const atlas::LaneProgram& program,
                                                         KernelSource* source) {
  const Fingerprint key =
      fingerprint("lanes " + atlas::fingerprint(program).hex() + backend_.code_key());
  KernelSource from = KernelSource::memory;
  std::shared_ptr<const LaneKernel> kernel;
  {
    std::lock_guard lock(mutex_);
    if (auto it = lanes_.find(key); it != lanes_.end()) kernel = it->second;
  }
  if (kernel) {
    ++memory_hits_;
  } else {
    kernel = make_lanes(program, key, from);
    std::lock_guard lock(mutex_);
    kernel = lanes_.emplace(key, kernel).first->second;
  }
  if (source) *source = from;
  return kernel;
}

KernelCache::Stats KernelCache::stats() const {
  std::lock_guard lock(mutex_);
  return {memory_hits_, disk_hits_, misses_, builtin_, kernels_.size()};
}

void KernelCache::clear() {
  std::lock_guard lock(mutex_);
  std::erase_if(kernels_, [](const auto& entry) { return entry.second.use_count() == 1; });
  std::erase_if(lanes_, [](const auto& entry) { return entry.second.use_count() == 1; });
}

}  // namespace hologram::runtime

// runtime/runtime.cpp: what compiled graphs share.
#include "runtime/runtime.h"

#include "backend/registry.h"
#include "base/settings.h"

namespace hologram::runtime {
Runtime::Runtime(std::string_view backend) : Runtime(make_backend(backend)) {}

Runtime::Runtime(std::unique_ptr<Backend> backend)
    : backend_(std::move(backend)),
      kernels_(*backend_, DiskCache::default_folder(), DiskCache::default_limit()) {
  settings::check();
}

CompiledBytes Runtime::compiled_bytes() const {
  const KernelCache::Stats kernels = kernels_.stats();
  return {kernels.code_in_use + executables_.code, kernels.code_cached, executables_.plans};
}

}  // namespace hologram::runtime

// backend/cuda/kernel.cpp: PTX and machine code into the driver.
#include "backend/cuda/kernel.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "base/error.h"
#include "codegen/target.h"

namespace hologram::cuda {

namespace {

// Modules that go while calls of their kernels may be under way. Where one is loaded, which no
// capture allows either, the device is waited for and they are unloaded.
class Leaving {
 public:
  void add(const DeviceContext& device, CuModule module) {
    std::lock_guard lock(mutex_);
    modules_.emplace(&device, module);
  }
  // The device is the current one.
  void unload(const DeviceContext& device) {
    std::lock_guard lock(mutex_);
    const auto [first, last] = modules_.equal_range(&device);
    if (first == last || device.driver.synchronize_all() != cu_success) return;
    for (auto it = first; it != last; ++it) device.driver.unload_module(it->second);
    modules_.erase(first, last);
  }

 private:
  std::mutex mutex_;
  std::multimap<const DeviceContext*, CuModule> modules_;
};
Leaving& leaving() {
  static auto* const all = new Leaving;
  return *all;
}

}  // namespace

LoadedKernel::~LoadedKernel() {
  if (module) leaving().add(*device, module);
}

std::string name_of(const atlas::Program& program) {
  return atlas::fingerprint(program).hex().substr(0, 12);
}

bool refuses(CuResult result) {
  return std::ranges::find(cu_refusals, result) != std::end(cu_refusals);
}

std::optional<std::string> refusal(const DeviceContext& device, const std::string& cubin) {
  const Current here(device);
  CuModule module = nullptr;
  const CuResult result = device.driver.load_module(&module, cubin.data());
  if (refuses(result)) return device.driver.words_of(result);
  device.driver.require(result, "loading a kernel");
  device.driver.unload_module(module);
  return std::nullopt;
}

std::shared_ptr<const LoadedKernel> load_module(const DeviceContext& device,
                                                const atlas::Program& program, Stored stored) {
  auto kernel = std::make_shared<LoadedKernel>();
  kernel->name = name_of(program);
  kernel->facts = std::move(stored.facts);
  kernel->device = &device;
  for (const atlas::Buffer& b : program.buffers)
    if (b.access != atlas::Access::scratch) kernel->buffers.push_back(b);
  const Current here(device);
  leaving().unload(device);
  const std::string& image = stored.cubin.empty() ? stored.code : stored.cubin;
  const CuResult result = device.driver.load_module(&kernel->module, image.c_str());
  if (refuses(result) && !stored.cubin.empty())
    fail(ErrorCode::corrupt, "cuda: stored machine code: {}", device.driver.words_of(result));
  device.driver.require(result, "loading a kernel");
  auto find = [&](CuFunction& function, const char* name) {
    device.driver.require(device.driver.function(&function, kernel->module, name),
                          "finding a kernel in its module");
  };
  find(kernel->function, codegen::kernel_symbol);
  const auto& wide = kernel->facts.wide;
  if (kernel->facts.merges > 0 || (wide && wide->merges > 0)) find(kernel->merge, merge_symbol);
  if (const auto& thin = kernel->facts.thin) {
    find(kernel->thin, thin_symbol);
    if (!thin->parts.is(0)) find(kernel->thin_merge, thin_merge_symbol);
  }
  if (wide) {
    for (const MappedMatrix& m : wide->matrices)
      if (m.buffer != in_workspace && static_cast<size_t>(m.buffer) >= kernel->buffers.size())
        fail(ErrorCode::corrupt, "stored CUDA kernel: a matrix in a buffer that there is not");
    find(kernel->wide, wide_symbol);
    if (wide->computed()) find(kernel->split, split_symbol);
    device.driver.require(
        device.driver.set_attribute(kernel->wide, cu_most_dynamic_shared, wide->shared_bytes),
        "asking for shared memory");
  }
  return kernel;
}

}  // namespace hologram::cuda

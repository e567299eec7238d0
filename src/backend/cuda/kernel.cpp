// backend/cuda/kernel.cpp: PTX into the driver.
#include "backend/cuda/kernel.h"

#include "codegen/target.h"

namespace hologram::cuda {

LoadedKernel::~LoadedKernel() {
  if (module && device->driver.set_context(device->context) == cu_success)
    device->driver.unload_module(module);
}

std::shared_ptr<const LoadedKernel> load_ptx(const DeviceContext& device,
                                             const atlas::Program& program, Stored stored) {
  auto kernel = std::make_shared<LoadedKernel>();
  kernel->name = atlas::fingerprint(program).hex().substr(0, 12);
  kernel->facts = std::move(stored.facts);
  kernel->device = &device;
  for (const atlas::Buffer& b : program.buffers)
    if (b.access != atlas::Access::scratch) kernel->buffers.push_back(b);
  device.bind();
  device.driver.require(device.driver.load_module(&kernel->module, stored.code.c_str()),
                        "loading a kernel");
  auto find = [&](CuFunction& function, const char* name) {
    device.driver.require(device.driver.function(&function, kernel->module, name),
                          "finding a kernel in its module");
  };
  find(kernel->function, codegen::kernel_symbol);
  if (!kernel->facts.parts.is(0)) find(kernel->merge, merge_symbol);
  return kernel;
}

}  // namespace hologram::cuda

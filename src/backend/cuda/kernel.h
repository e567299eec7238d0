// backend/cuda/kernel.h: kernels ready to be launched.
#pragma once

#include <memory>

#include "atlas/program.h"
#include "backend/backend.h"
#include "backend/cuda/driver.h"
#include "backend/cuda/facts.h"

namespace hologram::cuda {

/// What Kernel::code points to: a module of the driver or, for a program that is not rendered, a
/// kernel of the host.
struct LoadedKernel {
  std::string name;  ///< in messages: the fingerprint of its program
  Facts facts;
  const DeviceContext* device = nullptr;
  CuModule module = nullptr;
  CuFunction function = nullptr;
  CuFunction merge = nullptr;          ///< where the facts have parts
  CuFunction wide = nullptr;           ///< where they have a wide kernel
  CuFunction split = nullptr;          ///< where that needs it
  CuFunction thin = nullptr;           ///< where the facts have a thin kernel
  CuFunction thin_merge = nullptr;     ///< where that has parts
  std::vector<atlas::Buffer> buffers;  ///< that are not scratch
  Kernel host;                         ///< of host_function; code is null where the GPU runs it
  atlas::KernelFn host_function = nullptr;

  LoadedKernel() = default;
  ~LoadedKernel();
  LoadedKernel(const LoadedKernel&) = delete;
  LoadedKernel& operator=(const LoadedKernel&) = delete;
};

/// Whether the device's driver takes this machine code. Throws Error(out_of_memory).
bool loads(const DeviceContext& device, const std::string& cubin);
/// Loads machine code or, where there is none, PTX. Throws Error(corrupt) with the driver's words
/// for machine code that it does not take, Error(internal) for such PTX.
std::shared_ptr<const LoadedKernel> load_module(const DeviceContext& device,
                                                const atlas::Program& program, Stored stored);

}  // namespace hologram::cuda

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
  std::vector<atlas::Buffer> buffers;  ///< that are not scratch
  Kernel host;                         ///< of host_function; code is null where the GPU runs it
  atlas::KernelFn host_function = nullptr;

  LoadedKernel() = default;
  ~LoadedKernel();
  LoadedKernel(const LoadedKernel&) = delete;
  LoadedKernel& operator=(const LoadedKernel&) = delete;
};

/// Loads PTX. Throws Error(internal) with the driver's words where it takes it not.
std::shared_ptr<const LoadedKernel> load_ptx(const DeviceContext& device,
                                             const atlas::Program& program, Stored stored);

}  // namespace hologram::cuda

// backend/cuda/kernel.h: kernels ready to be launched.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "atlas/program.h"
#include "backend/cuda/driver.h"
#include "backend/cuda/facts.h"
#include "backend/on_host.h"

namespace hologram::cuda {

/// What Kernel::code points to: a module of the driver or, for a program that is not rendered, a
/// kernel of the host.
struct LoadedKernel {
  std::string name;  ///< as name_of()
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
  HostKernel host;

  LoadedKernel() = default;
  ~LoadedKernel();
  LoadedKernel(const LoadedKernel&) = delete;
  LoadedKernel& operator=(const LoadedKernel&) = delete;
};

/// In messages: the beginning of the program's fingerprint.
std::string name_of(const atlas::Program& program);

/// Whether the driver says that an image is none, or none for this device. All else is about
/// something else: memory, or a kernel that failed before.
bool refuses(CuResult result);
/// Why the device's driver refuses this machine code; nothing where it takes it. Throws for what
/// else goes wrong, in the driver's words.
std::optional<std::string> refusal(const DeviceContext& device, const std::string& cubin);
/// Loads machine code or, where there is none, PTX. Throws Error(corrupt) with the driver's words
/// for machine code that it refuses, Error(internal) for all else.
std::shared_ptr<const LoadedKernel> load_module(const DeviceContext& device,
                                                const atlas::Program& program, Stored stored);

}  // namespace hologram::cuda

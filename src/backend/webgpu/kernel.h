// backend/webgpu/kernel.h: kernels ready to be launched.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/on_host.h"
#include "backend/webgpu/batch.h"
#include "backend/webgpu/device.h"
#include "backend/webgpu/wgsl/module.h"

namespace hologram::webgpu {

/// The pipelines of one module, by dispatch.
class Pipelines {
 public:
  /// Throws Error(internal) with the library's words where it refuses the text.
  /// `fused`: whether the device's fma() is (probe.h).
  Pipelines(const DeviceContext& device, const wgsl::Module& module, bool fused);
  ~Pipelines();
  Pipelines(const Pipelines&) = delete;
  Pipelines& operator=(const Pipelines&) = delete;

  struct Each {
    Pipeline pipeline = nullptr;
    Layout layout = nullptr;
  };
  std::vector<Each> each;

 private:
  const DeviceContext& device_;
  Shader shader_ = nullptr;
};

/// Those of a module on a device, which kernels of the same text share.
std::shared_ptr<const Pipelines> pipelines_of(const DeviceContext& device,
                                              const wgsl::Module& module, bool fused);

/// The host's kernel for sizes that exceed what a device runs; made when it is first asked for.
class Substitute {
 public:
  std::function<HostKernel()> make;  ///< null: there is none
  const HostKernel* get() const {
    if (!make) return nullptr;
    std::call_once(once_, [&] { made_ = make(); });
    return &made_;
  }

 private:
  mutable std::once_flag once_;
  mutable HostKernel made_;
};

/// What Kernel::code points to: pipelines or, for a program that is not rendered, a kernel of the
/// host.
struct LoadedKernel : RenderedKernel {
  std::shared_ptr<const Pipelines> pipelines;
  HostKernel host;
  Substitute substitute;

  bool faults() const { return !host && module.faults; }
};

}  // namespace hologram::webgpu

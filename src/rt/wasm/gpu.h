// rt/wasm/gpu.h: kernels in WGSL, run by the host language's WebGPU (js/gpu.js).
#pragma once

#include <memory>

#include "backend/backend.h"
#include "backend/webgpu/batch.h"

namespace hologram::wasm {

/// What the device of the host language is like.
struct Gpu : webgpu::Bounds {
  uint64_t buffer_bytes = 0;     ///< maxBufferSize
  uint32_t storage_buffers = 0;  ///< maxStorageBuffersPerShaderStage
};

/// Runs stored kernels alone (backend/webgpu/stored.h), and no steps on the host. Nothing can be
/// waited for: bytes that are copied to the host are there when the host language says so, and
/// faults with them (take_faults()).
std::unique_ptr<Backend> make_gpu_backend(Gpu gpu);

/// Whether copies to the host are begun. Otherwise they are left out: who ends a call, or goes back
/// to an earlier state, needs none.
void set_gpu_reads(bool on);
/// StickyError bits of the calls that the host language has waited for since the last time.
int32_t take_gpu_faults();

}  // namespace hologram::wasm

// backend/webgpu/wgsl/prelude.h: functions that rendered kernels call.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace hologram::webgpu::wgsl {

/// The text of a helper. An unknown name is an internal error.
std::string_view source_of(std::string_view name);
/// Helpers that its text calls.
std::span<const std::string_view> needs_of(std::string_view name);
/// Whether it is "fault", or calls it.
bool reaches_fault(std::string_view name);

}  // namespace hologram::webgpu::wgsl

// backend/webgpu/stored.h: kernels as archives hold them, and who makes them without a device.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "backend/backend.h"
#include "backend/webgpu/wgsl/module.h"

namespace hologram::webgpu {

/// Backend::target() of every device: the text is the same for all.
inline constexpr std::string_view stored_target = "webgpu wgsl";
/// What the text of a kernel begins with.
inline constexpr std::string_view text_mark = "//!";
/// What Backend::compile() returns begins with one of these.
inline constexpr std::string_view rendered = "wgsl\n", on_host = "host\n";

/// Of this build.
std::string_view version();

/// The module of a program whose dispatches bind at most so many buffers; nothing where it is left
/// to the host.
std::optional<wgsl::Module> render_within(const atlas::Program& program, uint32_t storage_buffers);

/// As Backend::image(): a line "wgsl " of JSON, which says how many kernels there are and by number
/// why some are left to the host; then, one behind the other, the text of each kernel or, for those
/// of the host, its program as bytes. `run_all` is where the last one ends.
CodeImage lay_out(std::span<const atlas::Program> programs, std::span<const std::string> codes);

/// A backend that compiles and runs nothing here. It keeps to what every device of WebGPU has.
std::unique_ptr<Backend> make_writer();

}  // namespace hologram::webgpu

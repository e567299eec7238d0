// backend/webgpu/wgsl/render.cpp: a program to a module.
#include "backend/webgpu/wgsl/blocks.h"
#include "base/error.h"

namespace hologram::webgpu::wgsl {

Module render(const atlas::Program& program) {
  atlas::Program expanded = program;
  atlas::expand_math(expanded);
  Unit unit(expanded);
  std::visit([&](const auto& block) { write_block(unit, block); }, expanded.block);
  return unit.finish();
}

std::optional<std::string> why_unrendered(const atlas::Program& program) {
  try {
    render(program);
    return std::nullopt;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    return error.what();
  }
}

}  // namespace hologram::webgpu::wgsl

// backend/webgpu/wgsl/blocks.h: a writer for each kind of block.
#pragma once

#include "backend/webgpu/wgsl/body.h"
#include "gpu/points.h"

namespace hologram::webgpu::wgsl {

// Each writes the entry points of one block. Throws Error(unsupported) for what it leaves out.
void write_block(Unit& unit, const atlas::LoopBlock& b);
void write_block(Unit& unit, const atlas::ProductBlock& b);
void write_block(Unit& unit, const atlas::AttentionBlock& b);
void write_block(Unit& unit, const atlas::AttentionGradBlock& b);
void write_block(Unit& unit, const atlas::SortBlock& b);

/// Axes [first, last) of `axes` from the row-major number of a point of theirs, an i32.
void write_coordinates(Unit& unit, Scope& scope, const std::vector<atlas::Axis>& axes, size_t first,
                       size_t last, const std::string& number);

}  // namespace hologram::webgpu::wgsl

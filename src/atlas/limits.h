// atlas/limits.h: how large a program may be; readers of text and bytes stop there.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hologram::atlas::limits {

inline constexpr size_t buffers = 1024;
inline constexpr size_t axes = 64;
inline constexpr size_t stages = 1024;
inline constexpr size_t instructions = 65535;  ///< per body; expressions name values by 16 bits
inline constexpr size_t accumulators = 4096;
inline constexpr size_t table_entries = 16;
inline constexpr int symbols = 4096;
inline constexpr int panel_width = 4096;
inline constexpr int product_parts = 8;
inline constexpr int64_t tail_scratch_bytes = 64 << 10;  ///< of a product's tail
inline constexpr size_t expression_bytes = 8192;
inline constexpr size_t text_bytes = size_t{64} << 20;

inline constexpr size_t lane_instructions = 1 << 18;
inline constexpr size_t labels = 1 << 16;
inline constexpr size_t label_length = 255;

}  // namespace hologram::atlas::limits

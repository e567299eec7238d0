// atlas/order.h: the numbers that fix the order of sums and scans, and so their bits.
//
// Every backend keeps to them (atlas/program.h says how; tile products: atlas/tile_math.h), and
// none may be changed without changing results.
#pragma once

#include <cstdint>

namespace hologram::atlas {

/// Elements of a reduction's block, and the strided partials inside it.
inline constexpr int64_t sum_block = 4096;
inline constexpr int sum_partials = 64;
/// Values of k that one chain of multiply-adds takes.
inline constexpr int64_t product_block = 384;
/// Elements of a scan's block.
inline constexpr int scan_block = 16;

}  // namespace hologram::atlas

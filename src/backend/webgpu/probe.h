// backend/webgpu/probe.h: what an adapter's floats are like, by a kernel that asks it.
#pragma once

#include <string>

#include "backend/webgpu/memory.h"

namespace hologram::webgpu {

/// WGSL leaves all of these to the implementation.
struct Facts {
  bool fused = false;         ///< fma() rounds once
  bool contracts = false;     ///< a * b - c does, too
  bool subnormals = false;    ///< results below 2^-126 are not 0
  bool nan_differs = false;   ///< NaN != NaN
  bool nan_stays = false;     ///< NaN + 1 is NaN
  bool nan_wins = false;      ///< max(NaN, 1) is NaN
  bool infinities = false;    ///< infinity - infinity is NaN
  bool reassociates = false;  ///< (a + b) - a is b
  bool divides = false;       ///< 1 / 3 is the nearest float
  /// How far exp() is off at most, in units of the nearest float's last place.
  int64_t exp_ulps = 0;
};

/// Runs the kernel once.
Facts probe(DeviceMemory& memory);
/// In words for people: "fma() fused: no; …".
std::string words_of(const Facts& facts);

}  // namespace hologram::webgpu

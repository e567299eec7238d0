// backend/cuda/warpgroups.h: a CTA of which one warpgroup brings what the others take
#pragma once

#include <functional>

#include "backend/cuda/async.h"

namespace hologram::cuda {

/// What the warpgroups do. `bring` is done by one thread of the first one, `take` by the others,
/// number `group` (i32) from 0 on.
struct Warpgroups {
  std::function<void()> make_barriers;  ///< by one thread, before anyone uses them
  std::function<void()> prepare;        ///< by all
  int kept, taken;                      ///< registers of a thread of the first, and of the others
  std::function<void(Scope& one)> bring;
  std::function<void(Scope& consumer, Value* group)> take;
};

/// The whole kernel, to its end.
void emit_warpgroups(CudaFunction& k, Async& async, const Warpgroups& parts);

/// How many CTAs there are, i32: from one tile of a CTA to its next.
Value* number_of_ctas(CudaFunction& k);

}  // namespace hologram::cuda

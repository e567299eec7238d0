// schedule/estimate.h: what a kernel costs, for explain() and pictures.
#pragma once

#include "atlas/program.h"

namespace hologram::schedule {

struct Estimate {
  Expr
      flop;  ///< arithmetic operations; a transcendental counts as one, a fused multiply-add as two
  Expr bytes;  ///< of every distinct element that it reads or writes, once (scratch apart)
  std::vector<Expr> moved;  ///< those of each buffer (scratch apart)
};

Estimate estimate(const atlas::Program& program);

}  // namespace hologram::schedule

// sigmatics/effects.h: what a circuit does to class memory: ranges expanded, quotes carried out.
#pragma once

#include <span>
#include <vector>

#include "sigmatics/circuit.h"

namespace hologram::sigmatics {

struct Effects {
  /// copy, swap, merge and split calls without ranges, in the order in which they act; the operands
  /// of a call have a page either all or none.
  std::vector<Call> steps;
  std::vector<int> unevaluated;  ///< classes whose quote was never evaluated, ascending
  std::vector<Call> recorded;    ///< what was recorded for them and did not run
};

/// quote(c) makes later calls on c be recorded instead of run. evaluate(c) ends that: it runs the
/// recorded calls on c in order, and before each what was recorded earlier on any of its classes.
/// evaluate without quote does nothing; mark has no effect on memory. Throws
/// Error(invalid_argument) for a call that check_call refuses.
Effects effects_of(std::span<const Call> calls);

}  // namespace hologram::sigmatics

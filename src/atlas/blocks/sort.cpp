// atlas/blocks/sort.cpp: what holds for sorted rows.
#include "atlas/verifier.h"

namespace hologram::atlas {

void verify_block(const SortBlock& b, Verifier&) {
  require(compute_type(b.key_type) == b.key_type, "sort: keys of {}", name_of(b.key_type));
  size_t n = b.axes.size();
  require(b.first >= 0, "sort: places from {} on", b.first);
  require(!provably_less(b.axes[n - 2].extent, b.axes[n - 1].extent + Expr(b.first)),
          "sort: {} places from {} on for {} elements", b.axes[n - 1].extent, b.first,
          b.axes[n - 2].extent);
}

}  // namespace hologram::atlas

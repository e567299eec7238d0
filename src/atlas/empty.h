// atlas/empty.h: programs that have nothing to store.
#pragma once

#include "atlas/program.h"

namespace hologram::atlas {

/// Whether an extent that is known to be 0 leaves every store of a verified program without points.
/// Such a program is neither planned nor emitted: its launch has no units. One whose extents are
/// run-time sizes is not empty; its launch has no units where they turn out to be 0.
bool is_empty(const Program& program);

/// Makes a product with a tail that is known to have no columns a loop, the tail: it runs for every
/// row.
void drop_columnless_product(Program& program);

}  // namespace hologram::atlas

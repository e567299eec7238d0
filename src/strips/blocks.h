// strips/blocks.h: the routines of each kind of block.
#pragma once

#include "strips/routine.h"

namespace hologram::strips {

/// `program`: one behind expand_math.
std::shared_ptr<const Routine> loop_routine(const atlas::Program& program, const Vectors& vectors);
std::shared_ptr<const Routine> product_routine(const atlas::Program& program,
                                               const Vectors& vectors);
/// Of a product by Winograd's algorithm.
std::shared_ptr<const Routine> winograd_routine(const atlas::Program& program,
                                                const Vectors& vectors);

}  // namespace hologram::strips

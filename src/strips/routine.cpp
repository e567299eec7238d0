// strips/routine.cpp: the routine of a program.
#include "strips/routine.h"

#include "strips/blocks.h"

namespace hologram::strips {

std::shared_ptr<const Routine> routine_of(const atlas::Program& original, const Vectors& vectors) {
  atlas::Program program = original;
  atlas::expand_math(program);
  if (program.kind() == atlas::BlockKind::loop) return loop_routine(program, vectors);
  if (program.kind() == atlas::BlockKind::product)
    return program.product().winograd ? winograd_routine(program, vectors)
                                      : product_routine(program, vectors);
  return nullptr;
}

}  // namespace hologram::strips

// strips/routine.h: block programs that run at once, by loops that came with the library.
//
// Where a kernel is wanted before a compiler could have made it: each instruction of a body is one
// call of a precompiled loop over a strip of up to most_lanes lanes, a product one of a
// precompiled tile. The bits are those of every backend, since the order of sums is the program's
// and every other operation rounds for itself.
#pragma once

#include <memory>

#include "atlas/abi.h"
#include "atlas/program.h"
#include "strips/vectors.h"

namespace hologram::strips {

/// What runs a program's units. Thread-safe.
class Routine {
 public:
  virtual ~Routine() = default;
  /// As an atlas::KernelFn does.
  virtual int32_t run(const atlas::Context& context, void* const* buffers, const int64_t* symbols,
                      int64_t begin, int64_t end) const = 0;

  Expr total;      ///< units
  Expr unit_work;  ///< rough cost of one, in picoseconds
};

/// The routine of a verified program (before expand_math); null where it has what is not rendered.
std::shared_ptr<const Routine> routine_of(const atlas::Program& program, const Vectors& vectors);

}  // namespace hologram::strips

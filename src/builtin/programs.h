// builtin/programs.h: the kernels of an operation, as a machine plans them.
#pragma once

#include <vector>

#include "builtin/definitions.h"
#include "canon/canon.h"
#include "schedule/plan.h"

namespace hologram::builtin {

/// The programs of `definition` when it is compiled for `machine`.
inline std::vector<atlas::Program> programs_of(const Definition& definition,
                                               const schedule::Machine& machine) {
  ir::Graph graph, canonical;
  definition.build(graph);
  canon::Report report;
  canon::canonicalize(graph, canonical, report);
  schedule::Options options;
  options.machine = &machine;
  return schedule::make_plan(canonical, options).programs;
}

}  // namespace hologram::builtin

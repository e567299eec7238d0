// runtime/planning.h: graphs to plans, without kernels.
#pragma once

#include "backend/backend.h"
#include "ir/graph.h"
#include "runtime/executable.h"
#include "schedule/plan.h"

namespace hologram::runtime {

/// Canonical form and plan for a backend; `report` gets what they did. Throws as
/// Executable::compile.
schedule::Plan plan_for(const ir::Graph& graph, const CompileOptions& options,
                        const Backend& backend, CompileReport& report);

/// Whether this library compiles graphs; libhologram_rt runs stored plans alone.
bool can_compile();

/// The steps as the entry function sees them: buffers and symbols side by side.
std::vector<atlas::EntryStep> entry_steps(const schedule::Plan& plan);

}  // namespace hologram::runtime

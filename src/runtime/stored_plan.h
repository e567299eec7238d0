// runtime/stored_plan.h: plans with their machine code, made in one process and run in another.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runtime/executable.h"

namespace hologram::runtime {

/// Changes with atlas/abi.h, atlas/entry.h and the bytes of a stored plan: code of another number
/// is not run.
inline constexpr uint32_t stored_abi = 1;

struct StoredPlan {
  std::string plan;  ///< steps, slots, launches; places in the code
  std::string code;  ///< backend/code_image.h
};

/// Compiles a graph for a backend's target, whatever this machine is. Kernels come from `cache` and
/// go there; null: all are compiled. Throws as Executable::compile, and Error(unsupported) where
/// code cannot leave the process.
StoredPlan compile_for(const ir::Graph& graph, const CompileOptions& options,
                       const Backend& backend, CodeStore* cache);

/// Makes a stored plan executable. Whoever made it is trusted: its code runs with all rights of
/// this process. `runtime` must be of the target that it was compiled for. Throws Error(corrupt)
/// for plans that contradict themselves.
std::shared_ptr<Executable> load_stored(const StoredPlan& stored, std::shared_ptr<Runtime> runtime);

}  // namespace hologram::runtime

// archive/method_graph.h: the graph of a method, and how it is compiled.
#pragma once

#include <memory>
#include <string_view>

#include "archive/index.h"
#include "ir/graph.h"
#include "runtime/executable.h"

namespace hologram::archive {

/// A method's graph, verified. Throws Error(invalid_argument).
std::unique_ptr<const ir::Graph> parsed(std::string_view graph);
/// How a method's graph is compiled: its tensors that are no state keep their content.
runtime::CompileOptions options_of(const Index& index, const Method& method);
/// How the graph of a loop's step is compiled: its fixed operands keep their content.
runtime::CompileOptions options_of(const Index& index, const Loop& loop);
/// Numbers of a method's loops.
std::vector<uint32_t> loops_of(const Index& index, uint32_t method);

}  // namespace hologram::archive

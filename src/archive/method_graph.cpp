// archive/method_graph.cpp: the graph of a method, and how it is compiled.
#include "archive/method_graph.h"

#include <algorithm>

#include "base/error.h"

namespace hologram::archive {

std::unique_ptr<const ir::Graph> parsed(std::string_view text) {
  // Errors repeat it.
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    require(is_plain_text(text.substr(at, end - at)), "its graph is no plain text");
    at = end + 1;
  }
  auto graph = std::make_unique<ir::Graph>();
  ir::parse(text, *graph);
  ir::verify(*graph);
  return graph;
}

runtime::CompileOptions options_of(const Index& index, const Method& method) {
  runtime::CompileOptions options;
  options.reproducible = method.reproducible;
  options.fast = method.fast;
  for (const Source& s : method.parameters)
    options.static_parameters.push_back(s.kind == Source::Kind::tensor &&
                                        !index.tensors[s.number].state);
  return options;
}

runtime::CompileOptions options_of(const Index& index, const Loop& loop) {
  runtime::CompileOptions options;
  options.reproducible = index.methods[loop.method].reproducible;
  options.fast = index.methods[loop.method].fast;
  for (const runtime::LoopOperand& o : loop.operands)
    options.static_parameters.push_back(o.role == runtime::LoopOperand::Role::fixed);
  return options;
}

std::vector<uint32_t> loops_of(const Index& index, uint32_t method) {
  std::vector<uint32_t> out;
  for (uint32_t i = 0; i < index.loops.size(); ++i)
    if (index.loops[i].method == method) out.push_back(i);
  return out;
}

}  // namespace hologram::archive

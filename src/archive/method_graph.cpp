// archive/method_graph.cpp: the graph of a method, and how it is compiled.
#include "archive/method_graph.h"

namespace hologram::archive {

std::unique_ptr<const ir::Graph> parsed(std::string_view text) {
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

}  // namespace hologram::archive

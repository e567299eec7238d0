// capi/graphs.h: graphs and executables behind handles.
#pragma once

#include <optional>

#include "archive/function.h"
#include "capi/objects.h"
#include "capi/tensors.h"
#include "ir/sizes.h"

namespace hologram::capi {

struct GraphObject {
  std::mutex mutex;  ///< one builder at a time
  ir::Graph graph;
  std::vector<ir::Value> nodes;  ///< by the number that the interface gave out
};

/// What an executable's parameter or result looks like.
struct Signature {
  DType dtype = DType::f32;
  Shape shape, strides;
  bool used = false;     ///< parameters: read or written by the graph
  bool mutated = false;  ///< parameters: written in place
};

struct ExecutableObject : Member {
  std::shared_ptr<ExecutorState> executor;
  /// What runs: a graph's, or a method of an archive with its session, if it has one.
  std::shared_ptr<runtime::Executable> executable;
  std::shared_ptr<archive::Function> function;
  std::shared_ptr<archive::Session> session;
  std::vector<Signature> parameters;
  std::vector<Signature> results;     ///< those that are returned
  std::vector<int> result_of_output;  ///< by output of the graph: its result, -1: written in place
  int num_symbols = 0;
  std::unique_ptr<const ir::SizeCheck> sizes;  ///< of a graph; a method checks its own
  ExecutableObject() = default;
  ExecutableObject(const ExecutableObject&) = delete;
  ExecutableObject& operator=(const ExecutableObject&) = delete;
  ~ExecutableObject() {
    if (executor) executor->leave(*this);
  }
};

inline Pin<GraphObject> need_graph(hologram_handle handle) {
  return need<GraphObject>(graphs, handle, "graph");
}
inline Pin<ExecutableObject> need_executable(hologram_handle handle) {
  return need<ExecutableObject>(executables, handle, "executable");
}

/// "[s0, 384]" over s0 … s<num_symbols - 1>.
Shape parse_shape(const char* text, int num_symbols);
/// "f32[s0, 4]", "f32" or "[s0, 4]".
void parse_type(std::string_view text, int num_symbols, std::optional<DType>& dtype,
                std::optional<Shape>& shape);
/// "axes=[1] value=0.5": the attributes of the op's row, all of them, in any order. Numbers of
/// `bits` attributes have the dtype `scalars`.
ir::Attrs parse_attributes(ir::Op op, std::string_view text, DType scalars, int num_symbols);

}  // namespace hologram::capi

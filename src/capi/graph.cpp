// capi/graph.cpp: graphs: text form and builder.
#include "capi/graphs.h"

using namespace hologram;
using namespace hologram::capi;

namespace {

uint32_t append(GraphObject& g, ir::Value value) {
  g.nodes.push_back(value);
  return static_cast<uint32_t>(g.nodes.size() - 1);
}

ir::Value node_of(const GraphObject& g, uint32_t node) {
  require(node < g.nodes.size(), "there is no node {}; the graph has {}", node, g.nodes.size());
  return g.nodes[node];
}

/// NumPy's rule on symbolic shapes.
Shape common_shape(const std::vector<ir::Value>& values) {
  Shape result;
  for (ir::Value v : values) {
    const Shape& s = v->shape;
    if (s.size() > result.size()) result.insert(result.begin(), s.size() - result.size(), Expr(1));
    const size_t lead = result.size() - s.size();
    for (size_t i = 0; i < s.size(); ++i) {
      if (s[i] == result[lead + i] || s[i].is(1)) continue;
      require(result[lead + i].is(1), "the shapes {} and {} do not go together", str(result),
              str(s));
      result[lead + i] = s[i];
    }
  }
  return result;
}

}  // namespace

extern "C" {

hologram_status hologram_graph_create(uint32_t num_symbols, hologram_handle* graph) {
  return guarded(__func__, [&] {
    require_out(graph, "graph");
    require(num_symbols <= 0xffff, "at most 65,535 symbols, got {}", num_symbols);
    auto object = std::make_unique<GraphObject>();
    object->graph.num_symbols = static_cast<int>(num_symbols);
    *graph = insert(graphs, std::move(object));
  });
}

hologram_status hologram_graph_parse(const char* text, hologram_handle* graph) {
  return guarded(__func__, [&] {
    require_out(graph, "graph");
    require(text != nullptr, "text must not be NULL");
    auto object = std::make_unique<GraphObject>();
    ir::parse(text, object->graph);
    for (const ir::Node& n : object->graph.nodes()) object->nodes.push_back(&n);
    *graph = insert(graphs, std::move(object));
  });
}

hologram_status hologram_graph_print(hologram_handle graph, char* text, size_t capacity,
                                     size_t* needed) {
  return guarded(__func__, [&] {
    auto g = need_graph(graph);
    std::lock_guard lock(g->mutex);
    give_text(ir::print(g->graph), text, capacity, needed);
  });
}

hologram_status hologram_graph_parameter(hologram_handle graph, hologram_dtype dtype,
                                         const char* shape, uint32_t* node) {
  return guarded(__func__, [&] {
    require_out(node, "node");
    auto g = need_graph(graph);
    std::lock_guard lock(g->mutex);
    const Shape dims = parse_shape(shape, g->graph.num_symbols);
    *node = append(*g, g->graph.parameter(g->graph.num_parameters, checked_dtype(dtype), dims,
                                          contiguous_strides(dims)));
  });
}

hologram_status hologram_graph_constant(hologram_handle graph, hologram_dtype dtype, double value,
                                        const char* shape, uint32_t* node) {
  return guarded(__func__, [&] {
    require_out(node, "node");
    auto g = need_graph(graph);
    std::lock_guard lock(g->mutex);
    const Shape dims = shape ? parse_shape(shape, g->graph.num_symbols) : Shape{};
    *node = append(*g, g->graph.number(checked_dtype(dtype), value, dims));
  });
}

hologram_status hologram_graph_apply(hologram_handle graph, const char* operation,
                                     const uint32_t* inputs, size_t num_inputs,
                                     const char* attributes, const char* result, uint32_t* node) {
  return guarded(__func__, [&] {
    require_out(node, "node");
    require(operation != nullptr, "operation must not be NULL");
    require(num_inputs == 0 || inputs != nullptr, "inputs must not be NULL");
    require(num_inputs <= 1024, "at most 1,024 inputs, got {}", num_inputs);
    auto g = need_graph(graph);
    std::lock_guard lock(g->mutex);
    const auto op = ir::op_from_name(operation);
    require(op.has_value(), "there is no operation \"{:.40}\"", operation);
    const ir::OpInfo& info = ir::info(*op);
    require(info.kind != ir::OpKind::external && info.kind != ir::OpKind::external_result &&
                *op != ir::Op::parameter && *op != ir::Op::constant,
            "{} is not added with this function", info.name);
    require(info.arity < 0 || num_inputs == static_cast<size_t>(info.arity),
            "{} takes {} inputs, got {}", info.name, info.arity, num_inputs);
    std::vector<ir::Value> values;
    for (size_t i = 0; i < num_inputs; ++i) values.push_back(node_of(*g, inputs[i]));
    if (ir::is_elementwise(*op)) {
      const Shape shape = common_shape(values);
      for (ir::Value& v : values) v = g->graph.broadcast(v, shape);
    }
    std::optional<DType> dtype;
    std::optional<Shape> shape;
    if (result) parse_type(result, g->graph.num_symbols, dtype, shape);
    const DType scalars = ir::info(*op).kind == ir::OpKind::attention ||
                                  ir::info(*op).kind == ir::OpKind::attention_grad
                              ? DType::f64
                          : values.empty() ? dtype.value_or(DType::f32)
                                           : values[0]->dtype;
    ir::Attrs attrs =
        parse_attributes(*op, attributes ? attributes : "", scalars, g->graph.num_symbols);
    *node = append(*g, g->graph.make(*op, std::move(values), std::move(attrs), dtype, shape));
  });
}

hologram_status hologram_graph_output(hologram_handle graph, uint32_t node) {
  return guarded(__func__, [&] {
    auto g = need_graph(graph);
    std::lock_guard lock(g->mutex);
    ir::Value v = node_of(*g, node);
    g->graph.outputs.push_back({v, contiguous_strides(v->shape), -1});
  });
}

hologram_status hologram_graph_type(hologram_handle graph, uint32_t node, char* text,
                                    size_t capacity, size_t* needed) {
  return guarded(__func__, [&] {
    auto g = need_graph(graph);
    std::lock_guard lock(g->mutex);
    ir::Value v = node_of(*g, node);
    give_text(fmt::format("{}{}", name_of(v->dtype), str(v->shape)), text, capacity, needed);
  });
}

hologram_status hologram_graph_cleanup(hologram_handle graph) {
  return guarded(__func__, [&] {
    if (!graphs.remove(graph)) report_handle(graphs, graph, "graph");
  });
}

}  // extern "C"

// ir/verify.cpp: checks of whole graphs.
#include <set>

#include "base/expr_format.h"
#include "ir/graph.h"
#include "ir/infer.h"

namespace hologram::ir {
namespace {

void verify_symbols(const Graph& graph, const std::vector<Expr>& exprs, std::string_view where) {
  for (const Expr& e : exprs) {
    bool bad = e.any_atom([&](const Atom& a) {
      bool symbol = a.kind == Atom::Kind::symbol;
      return a.kind == Atom::Kind::axis || a.kind == Atom::Kind::value ||
             (symbol && (a.id < 0 || a.id >= graph.num_symbols));
    });
    require(!bad, "{}: {} needs more than the graph's {} symbols", where, e, graph.num_symbols);
  }
}

void verify_node(const Graph& graph, const Node& n) {
  std::string where = fmt::format("node %{} ({})", n.id, name_of(n.op));
  for (Value v : n.inputs)
    require(v && v->id < n.id && &graph.nodes()[v->id] == v,
            "{}: an operand is not an earlier node of this graph", where);
  Attrs attrs = n.attrs;
  infer(n.op, n.inputs, attrs, n.dtype, n.shape);
  require(attrs == n.attrs, "{}: attributes are not in normal form", where);
  verify_symbols(graph, n.shape, where);
  verify_symbols(graph, n.attrs.exprs, where);
  if (n.is(Op::parameter))
    require(n.attrs.ints[0] < graph.num_parameters,
            "{}: index {} is not below the graph's {} parameters", where, n.attrs.ints[0],
            graph.num_parameters);
}

void verify_output(const Graph& graph, size_t i) {
  const Output& o = graph.outputs[i];
  std::string where = fmt::format("output {}", i);
  require(o.value && o.value->id < graph.nodes().size() && &graph.nodes()[o.value->id] == o.value,
          "{}: its value is not a node of this graph", where);
  verify_symbols(graph, o.strides, where);
  if (o.parameter < 0) {
    size_t rank = o.value->dtype == DType::host ? 0 : o.value->shape.size();
    require(o.strides.size() == rank, "{}: {} strides for a value of rank {}", where,
            o.strides.size(), rank);
    return;
  }
  require(o.strides.empty(), "{}: written into parameter {}, so it has no strides of its own",
          where, o.parameter);
  Value target = find_parameter(graph, o.parameter);
  require(target != nullptr, "{}: there is no parameter {}", where, o.parameter);
  require(target->dtype == o.value->dtype && target->shape == o.value->shape,
          "{}: parameter {} is {}{}, the value is {}{}", where, o.parameter, name_of(target->dtype),
          str(target->shape), name_of(o.value->dtype), str(o.value->shape));
}

}  // namespace

void verify(const Graph& graph) {
  std::set<int64_t> parameters;
  for (const Node& n : graph.nodes()) {
    verify_node(graph, n);
    require(!n.is(Op::parameter) || parameters.insert(n.attrs.ints[0]).second,
            "node %{}: a second parameter {} of another type", n.id,
            n.attrs.ints.empty() ? 0 : n.attrs.ints[0]);
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i) verify_output(graph, i);
}

}  // namespace hologram::ir

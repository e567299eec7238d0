// ir/graph.cpp: hash-consed nodes and the builders.
#include "ir/graph.h"

#include <algorithm>

#include "base/expr_format.h"
#include "ir/fold.h"
#include "ir/infer.h"
#include "ir/scalar.h"

namespace hologram::ir {
namespace {

uint64_t mix(uint64_t h, uint64_t v) {
  h ^= v + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2);
  return h * 0xff51afd7ed558ccdull;
}

uint64_t hash_of(const Node& n) {
  uint64_t h = mix(static_cast<uint64_t>(n.op) + 1, static_cast<uint64_t>(n.dtype));
  h = mix(h, n.shape.size());
  for (const Expr& d : n.shape) h = mix(h, d.hash());
  for (Value v : n.inputs) h = mix(h, v->hash);
  for (int64_t i : n.attrs.ints) h = mix(h, static_cast<uint64_t>(i));
  for (const Expr& e : n.attrs.exprs) h = mix(h, e.hash());
  h = mix(h, n.attrs.bits);
  return mix(h, std::hash<std::string>{}(n.attrs.text));
}

bool same_fields(const Node& x, const Node& y) {
  return x.op == y.op && x.dtype == y.dtype && x.inputs == y.inputs && x.shape == y.shape &&
         x.attrs == y.attrs;
}

// 1 + the largest symbol in the expressions, or 0.
int symbols_in(const std::vector<Expr>& exprs) {
  int n = 0;
  for (const Expr& e : exprs) {
    if (e.is_const()) continue;
    e.any_atom([&n](const Atom& a) {
      if (a.kind == Atom::Kind::symbol) n = std::max(n, a.id + 1);
      return false;
    });
  }
  return n;
}

}  // namespace

Graph::Graph() = default;
Graph::~Graph() = default;

Graph::Graph(const Graph& other)
    : outputs(other.outputs),
      num_symbols(other.num_symbols),
      num_parameters(other.num_parameters),
      nodes_(other.nodes_) {
  auto own = [&](Value v) { return &nodes_[v->id]; };
  for (Node& n : nodes_) {
    for (Value& v : n.inputs) v = own(v);
    index_.emplace(n.hash, &n);
  }
  for (Output& o : outputs) o.value = own(o.value);
}

Value Graph::intern(Node node) {
  node.hash = hash_of(node);
  auto [first, last] = index_.equal_range(node.hash);
  for (auto it = first; it != last; ++it)
    if (same_fields(*it->second, node)) return it->second;
  node.id = static_cast<uint32_t>(nodes_.size());
  num_symbols = std::max({num_symbols, symbols_in(node.shape), symbols_in(node.attrs.exprs)});
  if (node.is(Op::parameter))
    num_parameters = std::max(num_parameters, static_cast<int>(node.attrs.ints[0]) + 1);
  Value v = &nodes_.emplace_back(std::move(node));
  index_.emplace(v->hash, v);
  return v;
}

Value Graph::make(Op op, std::vector<Value> inputs, Attrs attrs, std::optional<DType> dtype,
                  std::optional<Shape> shape) {
  Type type = infer(op, inputs, attrs, dtype, shape);
  if (Value v = fold(*this, op, inputs, attrs, type)) return v;
  Node node{op, type.dtype, 0, std::move(type.shape), std::move(inputs), std::move(attrs), 0};
  return intern(std::move(node));
}

Value Graph::parameter(int index, DType dtype, Shape shape, Shape strides) {
  return make(Op::parameter, {}, {.ints = {index}, .exprs = std::move(strides)}, dtype,
              std::move(shape));
}

Value Graph::constant(DType dtype, uint64_t bits, Shape shape) {
  return make(Op::constant, {}, {.bits = bits}, dtype, std::move(shape));
}

Value Graph::number(DType dtype, double value, Shape shape) {
  return constant(dtype, bits_of(dtype, value), std::move(shape));
}

Value Graph::integer(DType dtype, int64_t value, Shape shape) {
  return constant(dtype, bits_of_integer(dtype, value), std::move(shape));
}

Value Graph::iota(DType dtype, Shape shape, int axis) {
  return make(Op::iota, {}, {.ints = {axis}}, dtype, std::move(shape));
}

Value Graph::cast(Value x, DType dtype, Op how) { return make(how, {x}, {}, dtype); }

Value Graph::reshape(Value x, Shape shape) {
  return make(Op::reshape, {x}, {}, {}, std::move(shape));
}

Value Graph::permute(Value x, std::vector<int64_t> axes) {
  return make(Op::permute, {x}, {.ints = std::move(axes)});
}

Value Graph::expand(Value x, Shape shape) {
  return make(Op::expand, {x}, {}, {}, std::move(shape));
}

Value Graph::slice(Value x, Shape starts, Shape sizes, std::vector<int64_t> steps) {
  return make(Op::slice, {x}, {.ints = std::move(steps), .exprs = std::move(starts)}, {},
              std::move(sizes));
}

Value Graph::flip(Value x, std::vector<int64_t> axes) {
  return make(Op::flip, {x}, {.ints = std::move(axes)});
}

Value Graph::pad(Value x, Shape low, Shape shape, uint64_t value_bits) {
  return make(Op::pad, {x}, {.exprs = std::move(low), .bits = value_bits}, {}, std::move(shape));
}

Value Graph::concat(std::vector<Value> xs, int axis) {
  return make(Op::concat, std::move(xs), {.ints = {axis}});
}

Value Graph::reduce(Op op, Value x, std::vector<int64_t> axes) {
  return make(op, {x}, {.ints = std::move(axes)});
}

Value Graph::broadcast(Value x, const Shape& shape) {
  require(x != nullptr && x->shape.size() <= shape.size(),
          "broadcast: rank {} does not fit shape {}", x ? x->rank() : 0, shape);
  Shape padded(shape.size() - x->shape.size(), Expr(1));
  padded.insert(padded.end(), x->shape.begin(), x->shape.end());
  return expand(reshape(x, std::move(padded)), shape);
}

Value find_parameter(const Graph& graph, int index) {
  for (const Node& n : graph.nodes())
    if (n.is(Op::parameter) && n.attrs.ints[0] == index) return &n;
  return nullptr;
}

std::vector<Value> live_nodes(const Graph& graph) {
  std::vector<bool> live(graph.nodes().size());
  for (const Output& o : graph.outputs) {
    live[o.value->id] = true;
    Value target = o.parameter < 0 ? nullptr : find_parameter(graph, o.parameter);
    if (target) live[target->id] = true;
  }
  std::vector<Value> out;
  for (size_t i = graph.nodes().size(); i-- > 0;) {
    if (!live[i]) continue;
    const Node& n = graph.nodes()[i];
    for (Value v : n.inputs) live[v->id] = true;
    out.push_back(&n);
  }
  std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace hologram::ir

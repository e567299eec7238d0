// python/_core/graph.cpp: Python names for expressions, graphs and their builders.
#include <nanobind/nanobind.h>
#include <nanobind/operators.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "ir/graph.h"
#include "ir/scalar.h"

namespace nb = nanobind;

namespace hologram::python {
namespace {

using ir::Graph;
using ir::Value;

/// A node as Python sees it: it keeps the graph alive through nanobind's reference_internal policy.
struct Node {
  Value value;
};

DType named_dtype(std::string_view name) {
  auto t = dtype_from_name(name);
  require(t.has_value(), "dtype \"{}\" is unknown", name);
  return *t;
}

ir::Op op_of(std::string_view name) {
  auto op = ir::op_from_name(name);
  require(op.has_value(), "operation \"{}\" is unknown", name);
  return *op;
}

Expr to_expr(nb::handle h) {
  if (PyLong_Check(h.ptr())) return Expr(nb::cast<int64_t>(h));
  return nb::cast<Expr>(h);
}

nb::object from_expr(const Expr& e) {
  return e.is_const() ? nb::cast(e.constant_value()) : nb::cast(e);
}

nb::list from_shape(const Shape& shape) {
  nb::list out;
  for (const Expr& e : shape) out.append(from_expr(e));
  return out;
}

std::vector<Value> to_values(const std::vector<Node>& nodes) {
  std::vector<Value> out;
  for (const Node& n : nodes) out.push_back(n.value);
  return out;
}

// The NumPy broadcast of two shapes; sizes that cannot be told apart from 1 must be equal.
Shape broadcast_shapes(const Shape& a, const Shape& b) {
  const Shape &big = a.size() >= b.size() ? a : b, &small = a.size() >= b.size() ? b : a;
  Shape out = big;
  size_t lead = big.size() - small.size();
  for (size_t i = 0; i < small.size(); ++i) {
    Expr& d = out[lead + i];
    if (d.is(1))
      d = small[i];
    else
      require(small[i].is(1) || small[i] == d, "broadcast: {} against {}", str(a), str(b));
  }
  return out;
}

// An element-wise operation on operands of one dtype, broadcast against one another.
Value elementwise(Graph& g, std::string_view name, const std::vector<Node>& operands) {
  Shape shape;
  for (const Node& n : operands) shape = broadcast_shapes(shape, n.value->shape);
  std::vector<Value> xs;
  for (const Node& n : operands) xs.push_back(g.broadcast(n.value, shape));
  return g.make(op_of(name), std::move(xs));
}

// The rows of ir/ops.def.
nb::list op_table() {
  constexpr std::pair<uint8_t, const char*> names[] = {{ir::commutative, "commutative"},
                                                       {ir::idempotent, "idempotent"},
                                                       {ir::involution, "involution"},
                                                       {ir::exact, "exact"},
                                                       {ir::odd, "odd"},
                                                       {ir::even, "even"}};
  nb::list rows;
  for (int k = 0; k < ir::num_ops; ++k) {
    const ir::OpInfo& info = ir::info(static_cast<ir::Op>(k));
    nb::list flags;
    for (auto [flag, name] : names)
      if (info.flags & flag) flags.append(name);
    nb::dict row;
    row["name"] = std::string(info.name);
    row["arity"] = info.arity;
    row["elementwise"] = ir::is_elementwise(static_cast<ir::Op>(k));
    row["flags"] = flags;
    row["function"] = info.ulp32 > 0;
    row["ulp32"] = info.ulp32;
    row["ulp64"] = info.ulp64;
    row["doc"] = std::string(info.doc);
    rows.append(row);
  }
  return rows;
}

void bind_expr(nb::module_& m) {
  nb::class_<Expr>(m, "Expr", "An integer expression over run-time sizes.")
      .def_static("symbol", &Expr::symbol, nb::arg("id"))
      .def("__add__", [](const Expr& a, const nb::object& b) { return from_expr(a + to_expr(b)); })
      .def("__radd__", [](const Expr& a, const nb::object& b) { return from_expr(to_expr(b) + a); })
      .def("__sub__", [](const Expr& a, const nb::object& b) { return from_expr(a - to_expr(b)); })
      .def("__rsub__", [](const Expr& a, const nb::object& b) { return from_expr(to_expr(b) - a); })
      .def("__mul__", [](const Expr& a, const nb::object& b) { return from_expr(a * to_expr(b)); })
      .def("__rmul__", [](const Expr& a, const nb::object& b) { return from_expr(to_expr(b) * a); })
      .def("__floordiv__",
           [](const Expr& a, const nb::object& b) { return from_expr(floor_div(a, to_expr(b))); })
      .def("__mod__",
           [](const Expr& a, const nb::object& b) { return from_expr(mod(a, to_expr(b))); })
      .def(
          "evaluate",
          [](const Expr& a, const std::vector<int64_t>& symbols) { return a.eval(symbols); },
          nb::arg("symbols"))
      .def_prop_ro(
          "nonnegative", [](const Expr& a) { return provably_nonnegative(a); },
          "Whether no size makes it negative.")
      .def("__neg__", [](const Expr& a) { return from_expr(-a); })
      .def("__eq__",
           [](const Expr& a, const nb::object& b) {
             if (!nb::isinstance<Expr>(b) && !PyLong_Check(b.ptr())) return false;
             return a == to_expr(b);
           })
      .def("__hash__", [](const Expr& a) { return static_cast<int64_t>(a.hash() >> 1); })
      .def_static(
          "parse", [](std::string_view text) { return parse_expr(text); }, nb::arg("text"),
          "The expression that repr() wrote.")
      .def("__repr__", [](const Expr& a) { return a.str(); });
  m.def("expr_min", [](const nb::object& a, const nb::object& b) {
    return from_expr(min(to_expr(a), to_expr(b)));
  });
  m.def("expr_max", [](const nb::object& a, const nb::object& b) {
    return from_expr(max(to_expr(a), to_expr(b)));
  });
  m.def("floor_div", [](const nb::object& a, const nb::object& b) {
    return from_expr(floor_div(to_expr(a), to_expr(b)));
  });
  m.def("mod", [](const nb::object& a, const nb::object& b) {
    return from_expr(mod(to_expr(a), to_expr(b)));
  });
  m.def("provably_equal",
        [](const nb::object& a, const nb::object& b) { return to_expr(a) == to_expr(b); });
}

void bind_node(nb::module_& m) {
  nb::class_<Node>(m, "Value", "The result of a graph operation.")
      .def_prop_ro("shape", [](const Node& n) { return from_shape(n.value->shape); })
      .def_prop_ro("dtype", [](const Node& n) { return std::string(name_of(n.value->dtype)); })
      .def_prop_ro("op", [](const Node& n) { return std::string(ir::name_of(n.value->op)); })
      .def_prop_ro("id", [](const Node& n) { return n.value->id; })
      .def_prop_ro("inputs",
                   [](const Node& n) {
                     std::vector<Node> out;
                     for (Value v : n.value->inputs) out.push_back({v});
                     return out;
                   })
      .def("__eq__", [](const Node& a, const Node& b) { return a.value == b.value; })
      .def("__hash__", [](const Node& n) { return static_cast<int64_t>(n.value->id); })
      .def("__repr__", [](const Node& n) {
        return fmt::format("<{} {}{}>", ir::name_of(n.value->op), name_of(n.value->dtype),
                           str(n.value->shape));
      });
}

}  // namespace

Shape to_shape(nb::handle list) {
  Shape out;
  for (nb::handle h : list) out.push_back(to_expr(h));
  return out;
}

void bind_graph(nb::module_& m) {
  bind_expr(m);
  bind_node(m);
  m.def("op_table", op_table,
        "The operations of graphs: name, arity (-1 where it varies), whether element-wise, flags, "
        "whether a function of floats "
        "by a sequence of exact operations, bounds of its error in float32 and float64 (units in "
        "the last place), doc.");
  auto keep = nb::rv_policy::move;
  nb::class_<Graph>(m, "Graph", "A tensor graph under construction.")
      .def(nb::init<>())
      .def("new_symbol", [](Graph& g) { return Expr::symbol(g.num_symbols++); })
      .def(
          "make",
          [](Graph& g, std::string_view op, const std::vector<Node>& inputs,
             std::vector<int64_t> ints, const nb::object& exprs, uint64_t bits, std::string text,
             std::optional<std::string> dtype, std::optional<nb::object> shape) {
            ir::Attrs attrs{std::move(ints), exprs.is_none() ? Shape() : to_shape(exprs), bits,
                            std::move(text)};
            return Node{g.make(op_of(op), to_values(inputs), std::move(attrs),
                               dtype ? std::optional(named_dtype(*dtype)) : std::nullopt,
                               shape ? std::optional(to_shape(*shape)) : std::nullopt)};
          },
          nb::arg("op"), nb::arg("inputs"), nb::arg("ints") = std::vector<int64_t>(),
          nb::arg("exprs") = nb::none(), nb::arg("bits") = 0, nb::arg("text") = "",
          nb::arg("dtype") = nb::none(), nb::arg("shape") = nb::none(), keep,
          nb::keep_alive<0, 1>(), "The node for one row of ops.def.")
      .def(
          "elementwise",
          [](Graph& g, std::string_view op, const std::vector<Node>& xs) {
            return Node{elementwise(g, op, xs)};
          },
          nb::arg("op"), nb::arg("operands"), nb::keep_alive<0, 1>(),
          "Element-wise operation with NumPy broadcasting; operands of one dtype.")
      .def(
          "parameter",
          [](Graph& g, int index, std::string_view dtype, const nb::object& shape,
             nb::object strides) {
            return Node{g.parameter(index, named_dtype(dtype), to_shape(shape), to_shape(strides))};
          },
          nb::arg("index"), nb::arg("dtype"), nb::arg("shape"), nb::arg("strides"),
          nb::keep_alive<0, 1>())
      .def(
          "number",
          [](Graph& g, std::string_view dtype, const nb::object& value, const nb::object& shape) {
            DType t = named_dtype(dtype);
            Shape s = to_shape(shape);
            if (PyLong_Check(value.ptr()) && !is_float(t)) {
              int overflow = 0;
              long long n = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
              if (overflow) n = static_cast<long long>(PyLong_AsUnsignedLongLongMask(value.ptr()));
              return Node{g.integer(t, n, std::move(s))};
            }
            return Node{g.number(t, nb::cast<double>(value), std::move(s))};
          },
          nb::arg("dtype"), nb::arg("value"), nb::arg("shape") = nb::list(), nb::keep_alive<0, 1>())
      .def(
          "iota",
          [](Graph& g, std::string_view dtype, const nb::object& shape, int axis) {
            return Node{g.iota(named_dtype(dtype), to_shape(shape), axis)};
          },
          nb::arg("dtype"), nb::arg("shape"), nb::arg("axis"), nb::keep_alive<0, 1>())
      .def(
          "cast",
          [](Graph& g, Node x, std::string_view dtype, std::string_view how) {
            return Node{g.cast(x.value, named_dtype(dtype), op_of(how))};
          },
          nb::arg("x"), nb::arg("dtype"), nb::arg("how") = "cast", nb::keep_alive<0, 1>())
      .def(
          "reshape",
          [](Graph& g, Node x, const nb::object& shape) {
            return Node{g.reshape(x.value, to_shape(shape))};
          },
          nb::keep_alive<0, 1>())
      .def(
          "permute",
          [](Graph& g, Node x, std::vector<int64_t> axes) {
            return Node{g.permute(x.value, std::move(axes))};
          },
          nb::keep_alive<0, 1>())
      .def(
          "expand",
          [](Graph& g, Node x, const nb::object& shape) {
            return Node{g.expand(x.value, to_shape(shape))};
          },
          nb::keep_alive<0, 1>())
      .def(
          "broadcast",
          [](Graph& g, Node x, const nb::object& shape) {
            return Node{g.broadcast(x.value, to_shape(shape))};
          },
          nb::keep_alive<0, 1>())
      .def(
          "slice",
          [](Graph& g, Node x, const nb::object& starts, const nb::object& sizes,
             std::vector<int64_t> steps) {
            return Node{g.slice(x.value, to_shape(starts), to_shape(sizes), std::move(steps))};
          },
          nb::keep_alive<0, 1>())
      .def(
          "flip",
          [](Graph& g, Node x, std::vector<int64_t> axes) {
            return Node{g.flip(x.value, std::move(axes))};
          },
          nb::keep_alive<0, 1>())
      .def(
          "pad",
          [](Graph& g, Node x, const nb::object& low, const nb::object& shape,
             const nb::object& value) {
            DType t = x.value->dtype;
            uint64_t bits = is_float(t)
                                ? ir::bits_of(t, nb::cast<double>(value))
                                : ir::bits_of_integer(t, nb::cast<int64_t>(nb::int_(value)));
            return Node{g.pad(x.value, to_shape(low), to_shape(shape), bits)};
          },
          nb::keep_alive<0, 1>())
      .def(
          "concat",
          [](Graph& g, const std::vector<Node>& xs, int axis) {
            return Node{g.concat(to_values(xs), axis)};
          },
          nb::keep_alive<0, 1>())
      .def(
          "reduce",
          [](Graph& g, std::string_view op, Node x, std::vector<int64_t> axes) {
            return Node{g.reduce(op_of(op), x.value, std::move(axes))};
          },
          nb::keep_alive<0, 1>())
      .def(
          "output",
          [](Graph& g, Node x, const nb::object& strides, int parameter) {
            g.outputs.push_back({x.value, to_shape(strides), parameter});
          },
          nb::arg("value"), nb::arg("strides") = nb::list(), nb::arg("parameter") = -1)
      .def_prop_ro("num_nodes", [](const Graph& g) { return g.nodes().size(); })
      .def("verify", [](const Graph& g) { ir::verify(g); })
      .def("fingerprint", [](const Graph& g) { return ir::fingerprint(g).hex(); })
      .def_static(
          "parse",
          [](std::string_view text) {
            auto g = std::make_unique<Graph>();
            ir::parse(text, *g);
            return g;
          },
          nb::arg("text"), "The graph that str() wrote; RuntimeError with the place of a mistake.")
      .def("__str__", [](const Graph& g) { return ir::print(g); });
  m.def(
      "ops",
      [] {
        nb::list out;
        for (int i = 0; i < ir::num_ops; ++i)
          out.append(std::string(ir::name_of(static_cast<ir::Op>(i))));
        return out;
      },
      "Names of all graph operations.");
}

}  // namespace hologram::python

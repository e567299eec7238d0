// ir/graph.h: the tensor graph: immutable, hash-consed nodes.
#pragma once

#include <deque>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"
#include "base/expr.h"
#include "base/fingerprint.h"
#include "ir/op.h"

namespace hologram::ir {

/// Attribute values of a node; which of them an operation uses, and their names, stands in ops.def.
struct Attrs {
  std::vector<int64_t> ints = {};
  std::vector<Expr> exprs = {};
  uint64_t bits = 0;
  std::string text = {};

  bool operator==(const Attrs&) const = default;
};

struct Node;
/// A node with its one result. Owned by its Graph; equal values of one graph are the same pointer.
using Value = const Node*;

struct Node {
  Op op;
  DType dtype;
  uint32_t id;  ///< position in creation order: operands have smaller ids
  Shape shape;
  std::vector<Value> inputs;
  Attrs attrs;
  uint64_t hash;

  int rank() const { return static_cast<int>(shape.size()); }
  Value input(size_t i = 0) const { return inputs[i]; }
  bool is(Op o) const { return op == o; }
  bool is_constant() const { return op == Op::constant; }
};

/// A result of the graph: `value` written with element `strides` to a new tensor, or, when
/// `parameter` >= 0, into that parameter (through its own strides; `strides` is then empty). Values
/// of dtype host need no strides.
struct Output {
  Value value;
  Shape strides;
  int parameter = -1;
};

/// Owns nodes. Not safe for concurrent building; immutable graphs may be read from anywhere.
class Graph {
 public:
  Graph();
  ~Graph();
  /// Nodes of its own, by the same numbers; outputs and counts are the other's.
  explicit Graph(const Graph& other);
  Graph& operator=(const Graph&) = delete;

  /// The node with these fields, made on first use. Folds constants, applies the identities of the
  /// op table, and verifies: throws Error(invalid_argument) naming the op, the operand and the
  /// expectation. `shape` and `dtype` may be left out (empty / nullopt) where the op's rule
  /// determines them; where they are given they are checked.
  Value make(Op op, std::vector<Value> inputs, Attrs attrs = {}, std::optional<DType> dtype = {},
             std::optional<Shape> shape = {});

  // --- the common builders; each is make() with inferred attributes
  Value parameter(int index, DType dtype, Shape shape, Shape strides);
  /// Splat of the scalar whose bit pattern (in `dtype`, zero-extended) is `bits`.
  Value constant(DType dtype, uint64_t bits, Shape shape = {});
  /// Splat of a number converted to `dtype` (round to nearest even).
  Value number(DType dtype, double value, Shape shape = {});
  Value integer(DType dtype, int64_t value, Shape shape = {});
  Value iota(DType dtype, Shape shape, int axis);
  Value unary(Op op, Value x) { return make(op, {x}); }
  /// Operands must agree in shape and dtype; broadcast() first where they do not.
  Value binary(Op op, Value x, Value y) { return make(op, {x, y}); }
  Value select(Value condition, Value x, Value y) { return make(Op::select, {condition, x, y}); }
  Value cast(Value x, DType dtype, Op how = Op::cast);
  Value reshape(Value x, Shape shape);
  Value permute(Value x, std::vector<int64_t> axes);
  Value expand(Value x, Shape shape);
  Value slice(Value x, Shape starts, Shape sizes, std::vector<int64_t> steps);
  Value flip(Value x, std::vector<int64_t> axes);
  Value pad(Value x, Shape low, Shape shape, uint64_t value_bits);
  Value concat(std::vector<Value> xs, int axis);
  Value reduce(Op op, Value x, std::vector<int64_t> axes);
  /// Right-aligned NumPy broadcasting of x to `shape` (reshape, then expand).
  Value broadcast(Value x, const Shape& shape);

  /// All nodes in creation order (operands first).
  const std::deque<Node>& nodes() const { return nodes_; }

  std::vector<Output> outputs;
  int num_symbols = 0;     ///< symbols s0 … s<num_symbols-1> may appear in shapes
  int num_parameters = 0;  ///< 1 + the largest parameter index

 private:
  Value intern(Node node);

  std::deque<Node> nodes_;
  std::unordered_multimap<uint64_t, Value> index_;
};

/// Checks every node and output against the rules of ops.def. Throws Error(invalid_argument).
void verify(const Graph& graph);

/// Text form, one node a line; parse() reads it back to an equal graph.
std::string print(const Graph& graph);
/// Throws Error(invalid_argument) with line and column.
void parse(std::string_view text, Graph& into);

/// Content fingerprint of the graph's outputs and everything below them.
Fingerprint fingerprint(const Graph& graph);

/// Operands before users; only what the outputs need (with the parameters that outputs are written
/// into).
std::vector<Value> live_nodes(const Graph& graph);

/// The node of parameter `index`, or nullptr.
Value find_parameter(const Graph& graph, int index);

}  // namespace hologram::ir

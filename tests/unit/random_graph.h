// tests/unit/random_graph.h: random graphs with the values that their nodes must have.
#pragma once

#include <map>
#include <random>

#include "ir/graph.h"
#include "unit/reference.h"

namespace hologram::test {

struct RandomGraphOptions {
  bool exact = false;       ///< no sums of floats, whose order shows
  bool host_calls = false;  ///< copies by the host among the operations
  bool mutations = false;   ///< outputs may be written into parameters
  bool wide = false;        ///< axes of vectors and more; functions that are not exact too
};

/// Builds a graph of exact operations and evaluates each node as it was asked for, before anything is folded.
class RandomGraph {
 public:
  explicit RandomGraph(uint64_t seed, int nodes = 30, RandomGraphOptions options = {});

  ir::Graph graph;
  std::map<int, Tensor> parameters;
  std::vector<int64_t> symbols;
  std::vector<Tensor> expected;  ///< one per output

 private:
  struct Item {
    ir::Value value;
    Tensor tensor;
  };

  int pick(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  template <class C>
  const auto& any(const C& from) {
    return from[static_cast<size_t>(pick(static_cast<int>(from.size())))];
  }
  uint64_t value(DType t);
  Expr dimension();
  Shape shape();
  int64_t number(const Expr& e) { return e.eval(symbols); }

  void add(ir::Op op, const std::vector<Item>& inputs, ir::Attrs attrs = {}, std::optional<DType> dtype = {},
           std::optional<Shape> shape = {});
  void add_parameter(DType t, Shape s);
  void add_constant(DType t, Shape s);
  Item like(const Item& x);
  Item indices(const Expr& n);
  Item random_indices(DType t, const Expr& n, Shape s);
  void step();
  void elementwise();
  void movement();
  void slice(const Item& x);
  void window(const Item& x);
  void pad(const Item& x);
  void reshape(const Item& x);
  void reduction();
  void indexing();
  void product();
  void host_copy();
  void make_outputs();

  RandomGraphOptions options_;
  std::mt19937_64 random_;
  bool some_empty_ = false;  // dimensions of 0 are among the others
  std::vector<Item> items_;
  int next_parameter_ = 0;
};

}  // namespace hologram::test

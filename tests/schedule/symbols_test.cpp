// tests/schedule/symbols_test.cpp: every kind of block over symbols in any order of first use
#include <algorithm>
#include <bit>
#include <numeric>

#include "schedule/run_plan.h"

namespace hologram::schedule {
namespace {

using ir::Graph;
using ir::Op;
using ir::Value;

using Sizes = std::vector<Expr>;

Value input(Graph& g, int number, const Shape& shape, DType t = DType::f32) {
  return g.parameter(number, t, shape, contiguous_strides(shape));
}

void output(Graph& g, Value v) { g.outputs.push_back({v, contiguous_strides(v->shape), -1}); }

struct SymbolicGraph {
  const char* name;
  atlas::BlockKind kind;  ///< that some program of the plan has
  int symbols;
  void (*build)(Graph&, const Sizes&);
};

void loop(Graph& g, const Sizes& s) {
  Value x = input(g, 0, {s[0], s[1], s[2]}), y = input(g, 1, {s[2]});
  Value z = g.binary(Op::add, g.permute(x, {1, 0, 2}), g.broadcast(y, {s[1], s[0], s[2]}));
  output(g, g.reduce(Op::reduce_max, z, {1}));
  output(g, g.unary(Op::exp, z));
}

void gather(Graph& g, const Sizes& s) {
  Value x = input(g, 0, {s[0], s[1]}), at = input(g, 1, {s[2]}, DType::i64);
  output(g, g.make(Op::take, {x, at}, {.ints = {1, 0}}));
}

void product(Graph& g, const Sizes& s) {
  Value x = input(g, 0, {s[0], s[1], s[3]}), y = input(g, 1, {s[0], s[3], s[2]}), bias = input(g, 2, {s[2]});
  Value z = g.make(Op::dot_general, {x, y}, {.ints = {0}});
  output(g, g.binary(Op::add, z, g.broadcast(bias, z->shape)));
}

void sort(Graph& g, const Sizes& s) {
  Value x = input(g, 0, {s[0], s[1]}), y = input(g, 1, {s[2]});
  output(g, g.binary(Op::mul, y, y));
  output(g, g.make(Op::argsort, {x}, {.ints = {1, 0}, .exprs = {s[1]}}));
}

std::vector<Value> operands(Graph& g, const Sizes& s) {
  return {input(g, 0, {s[0], 2, s[1], 8}), input(g, 1, {s[0], 1, s[2], 8}), input(g, 2, {s[0], 1, s[2], s[3]}), input(g, 3, {s[1], s[2]})};
}

ir::Attrs scaled(std::vector<int64_t> ints) { return {.ints = std::move(ints), .bits = std::bit_cast<uint64_t>(0.5)}; }

void attention(Graph& g, const Sizes& s) { output(g, g.make(Op::attention, operands(g, s), scaled({0, 0}))); }

void attention_grad(Graph& g, const Sizes& s) {
  std::vector<Value> in = operands(g, s);
  in.insert(in.begin() + 3, {input(g, 4, {s[0], 2, s[1], s[3]}), input(g, 5, {s[0], 2, s[1]}), input(g, 6, {s[0], 2, s[1]})});
  for (int64_t operand = 0; operand < 3; ++operand) output(g, g.make(Op::attention_grad, in, scaled({operand, 0, 0})));
}

const SymbolicGraph cases[] = {{"loop", atlas::BlockKind::loop, 3, loop},
                               {"gather", atlas::BlockKind::loop, 3, gather},
                               {"product", atlas::BlockKind::product, 4, product},
                               {"attention", atlas::BlockKind::attention, 4, attention},
                               {"attention_grad", atlas::BlockKind::attention_grad, 4, attention_grad},
                               {"sort", atlas::BlockKind::sort, 3, sort}};

class Symbols : public testing::TestWithParam<SymbolicGraph> {
 protected:
  // The results with symbol number[k] in the place of symbol k.
  static std::vector<std::vector<uint64_t>> results(const std::vector<int>& number) {
    Graph g;
    g.num_symbols = GetParam().symbols;
    Sizes sizes;
    std::vector<int64_t> values(number.size());
    for (size_t k = 0; k < number.size(); ++k) {
      sizes.push_back(Expr::symbol(number[k]));
      values[static_cast<size_t>(number[k])] = static_cast<int64_t>(3 + 4 * k);
    }
    GetParam().build(g, sizes);
    Plan plan = test::verified_plan(g);
    EXPECT_TRUE(std::ranges::count(plan.programs, GetParam().kind, &atlas::Program::kind));
    return test::run_plan(plan, values);
  }
};

TEST_P(Symbols, MayBeUsedInAnyOrder) {
  std::vector<int> number(static_cast<size_t>(GetParam().symbols));
  std::iota(number.begin(), number.end(), 0);
  auto first = results(number);
  while (std::ranges::next_permutation(number).found) {
    SCOPED_TRACE(testing::PrintToString(number));
    EXPECT_EQ(results(number), first);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Symbols, testing::ValuesIn(cases), [](const auto& i) { return std::string(i.param.name); });

}  // namespace
}  // namespace hologram::schedule

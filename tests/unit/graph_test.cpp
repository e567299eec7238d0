// tests/unit/graph_test.cpp: building, verifying and printing graphs.
#include "ir/graph.h"

#include "ir/scalar.h"
#include "support/refusal.h"
#include "support/test.h"

namespace hologram::ir {
namespace {

class GraphTest : public testing::Test {
 protected:
  Graph g;
  Expr s0 = Expr::symbol(0);
  Value p(int index, Shape shape, DType t = DType::f32) {
    Shape strides = contiguous_strides(shape);
    return g.parameter(index, t, std::move(shape), std::move(strides));
  }
};

TEST_F(GraphTest, EqualExpressionsAreOneNode) {
  Value x = p(0, {s0, 4}), y = p(1, {s0, 4});
  EXPECT_EQ(g.binary(Op::add, x, y), g.binary(Op::add, y, x));
  EXPECT_NE(g.binary(Op::sub, x, y), g.binary(Op::sub, y, x));
  EXPECT_EQ(p(0, {s0, 4}), x);
  EXPECT_EQ(g.num_symbols, 1);
  EXPECT_EQ(g.num_parameters, 2);
}

TEST_F(GraphTest, ACopyIsEqualAndOutlivesWhatItWasMadeOf) {
  auto original = std::make_unique<Graph>();
  Value x = original->parameter(0, DType::f32, {s0, 4}, {4, 1});
  Value y = original->unary(Op::exp, original->binary(Op::add, x, x));
  original->outputs = {{y, {4, 1}, -1}, {original->unary(Op::neg, x), {}, 0}};
  original->num_parameters = 3;  // two of which nothing uses
  Graph copy(*original);
  std::string text = print(*original);
  Fingerprint content = fingerprint(*original);
  size_t nodes = original->nodes().size();
  original->outputs.clear();
  original.reset();
  EXPECT_EQ(print(copy), text);
  EXPECT_EQ(fingerprint(copy), content);
  EXPECT_EQ(copy.nodes().size(), nodes);
  verify(copy);
  // Its nodes are found again, and new ones are the copy's alone.
  Value again = copy.parameter(0, DType::f32, {s0, 4}, {4, 1});
  EXPECT_EQ(again, &copy.nodes()[0]);
  EXPECT_EQ(copy.unary(Op::exp, copy.binary(Op::add, again, again)), copy.outputs[0].value);
  EXPECT_EQ(copy.nodes().size(), nodes);
}

TEST_F(GraphTest, ShapesAndTypesAreInferred) {
  Value x = p(0, {2, s0, 8}), w = p(1, {2, 8, 5}), d = g.make(Op::dot_general, {x, w});
  EXPECT_EQ(d->shape, (Shape{2, s0, 5}));
  EXPECT_EQ(g.reduce(Op::reduce_sum, x, {2, 0})->shape, Shape{s0});
  EXPECT_EQ(g.reduce(Op::reduce_argmax, x, {1})->dtype, DType::i64);
  EXPECT_EQ(g.permute(x, {2, 0, 1})->shape, (Shape{8, 2, s0}));
  EXPECT_EQ(g.concat({x, x}, 1)->shape, (Shape{2, s0 * 2, 8}));
  EXPECT_EQ(g.binary(Op::lt, x, x)->dtype, DType::b8);
  EXPECT_EQ(g.broadcast(p(2, {8}), {2, s0, 8})->shape, x->shape);
  Value indices = p(3, {3, s0}, DType::i64);
  EXPECT_EQ(g.make(Op::take, {x, indices}, {.ints = {1}})->shape, (Shape{2, 3, s0, 8}));
  Value own = g.parameter(8, DType::i64, {2, 5}, {5, 1});
  EXPECT_EQ(g.make(Op::take, {x, own}, {.ints = {1, 1}})->shape, (Shape{2, 5, 8}));
  EXPECT_EQ(test::refusal([&] {
              g.make(Op::take, {x, indices}, {.ints = {1, 1}});
            }),
            "take: the first 1 dimensions of the indices [3, s0] are not those of [2, s0, 8]");
  EXPECT_EQ(test::refusal([&] { g.make(Op::take, {x, own}, {.ints = {0, 1}}); }), "take: batch 1 is outside [0, 0]");
}

TEST_F(GraphTest, ErrorsNameTheOpAndTheExpectation) {
  Value x = p(0, {2, 3}), y = p(1, {3, 2}), i = p(2, {2, 3}, DType::i32);
  EXPECT_EQ(test::refusal([&] { g.binary(Op::add, x, y); }), "add: operand 1 is f32[3, 2], expected f32[2, 3] like operand 0");
  EXPECT_EQ(test::refusal([&] { g.unary(Op::exp, i); }), "exp: is not defined on i32");
  EXPECT_EQ(test::refusal([&] { g.reshape(x, {7}); }), "reshape: cannot turn f32[2, 3] (6 elements) into [7] (7)");
  EXPECT_EQ(test::refusal([&] { g.reduce(Op::reduce_sum, x, {2}); }), "reduce_sum: axis 2 is outside [0, 2)");
  EXPECT_EQ(test::refusal([&] { g.make(Op::add, {x}); }), "add: takes 2 operands, got 1");
  EXPECT_EQ(test::refusal([&] { g.slice(x, {0, 2}, {2, 2}, {}); }), "slice: elements 2 to 3 along axis 1 of f32[2, 3] are out of bounds");
  EXPECT_EQ(test::refusal([&] { g.make(Op::neg, {x}, {.ints = {1}}); }), "neg: has no integer attributes, got 1");
  EXPECT_EQ(test::refusal([&] { g.make(Op::dot_general, {x, x}); }), "dot_general: inner dimensions of f32[2, 3] and f32[2, 3] differ");
  EXPECT_EQ(test::refusal([&] { g.make(Op::neg, {x}, {}, DType::f64); }), "neg: the result is f32, not f64");
  EXPECT_EQ(test::refusal([&] { g.constant(DType::b8, 2); }), "constant: value 0x2 is not a truth value");
  EXPECT_EQ(test::refusal([&] { g.make(Op::neg, {nullptr}); }), "neg: operand 0 is null");
}

TEST_F(GraphTest, OperandsHaveOneOrder) {
  Value w = g.expand(p(0, {1, 4}), {s0, 4}), x = p(1, {s0, 4}), y = p(2, {s0, 4});
  Value c = g.number(DType::f32, 2, {s0, 4});
  EXPECT_EQ(g.binary(Op::mul, y, x)->inputs, (std::vector<Value>{x, y}));
  EXPECT_EQ(g.binary(Op::mul, w, x)->inputs, (std::vector<Value>{x, w}));
  EXPECT_EQ(g.binary(Op::mul, c, w)->inputs, (std::vector<Value>{w, c}));
  EXPECT_EQ(g.binary(Op::sub, c, w)->inputs, (std::vector<Value>{c, w}));
}

TEST_F(GraphTest, ConstantsFold) {
  Value a = g.number(DType::f32, 1.5, {s0}), b = g.number(DType::f32, -2, {s0});
  EXPECT_EQ(g.binary(Op::mul, a, b), g.number(DType::f32, -3, {s0}));
  EXPECT_EQ(g.cast(a, DType::i8), g.integer(DType::i8, 1, {s0}));
  EXPECT_EQ(g.expand(g.number(DType::f32, 1.5, {1}), {s0}), a);
  Value zero = g.integer(DType::i32, 0), one = g.integer(DType::i32, 1);
  EXPECT_TRUE(g.binary(Op::div, one, zero)->is(Op::div)) << "the sticky error must survive";
}

TEST_F(GraphTest, IdentitiesOfTheTable) {
  Value x = p(0, {4}), i = p(1, {4}, DType::i32), c = p(2, {4}, DType::b8);
  auto f = [&](double v) { return g.number(DType::f32, v, {4}); };
  EXPECT_EQ(g.binary(Op::add, x, f(-0.0)), x);
  EXPECT_NE(g.binary(Op::add, x, f(0.0)), x);
  EXPECT_EQ(g.binary(Op::sub, x, f(0.0)), x);
  EXPECT_EQ(g.binary(Op::mul, f(1), x), x);
  EXPECT_EQ(g.binary(Op::div, x, f(1)), x);
  EXPECT_NE(g.binary(Op::div, f(1), x), x);
  EXPECT_NE(g.binary(Op::mul, x, f(0)), f(0));
  EXPECT_EQ(g.binary(Op::add, i, g.integer(DType::i32, 0, {4})), i);
  EXPECT_EQ(g.unary(Op::neg, g.unary(Op::neg, x)), x);
  EXPECT_EQ(g.binary(Op::max, x, x), x);
  EXPECT_EQ(g.select(c, x, x), x);
  EXPECT_EQ(g.select(g.constant(DType::b8, 0, {4}), x, f(2)), f(2));
  EXPECT_EQ(g.cast(x, DType::f32), x);
  EXPECT_EQ(g.cast(i, DType::i64, Op::cast_wrap), g.cast(i, DType::i64));
  EXPECT_EQ(g.permute(x, {0}), x);
  EXPECT_EQ(g.slice(x, {0}, {4}, {}), x);
  EXPECT_EQ(g.concat({x}, 0), x);
  EXPECT_EQ(g.reduce(Op::reduce_max, x, {}), x);
  EXPECT_EQ(g.reduce(Op::reduce_sum, x, {}), g.binary(Op::add, x, f(0))) << "a sum of -0 is +0";
}

TEST_F(GraphTest, TextRoundTrip) {
  Value x = p(0, {2, s0}), i = p(1, {3}, DType::i64), t = g.make(Op::take, {x, i}, {.ints = {0}});
  Value call = g.make(Op::host_call, {x}, {.ints = {7}, .exprs = {s0 + Expr(1)}, .text = "aten::\"odd\"\n"});
  Value r = g.make(Op::host_result, {call}, {.ints = {0}, .exprs = {floor_div(s0, 2), 1}}, DType::f32, Shape{3, s0});
  Value sum = g.binary(Op::add, t, g.binary(Op::mul, r, g.number(DType::f32, 0.1, {3, s0})));
  g.outputs.push_back({sum, contiguous_strides(sum->shape)});
  Value y = p(2, {3, s0});
  g.outputs.push_back({g.unary(Op::exp, sum), {}, 2});
  g.outputs.push_back({g.binary(Op::max, y, sum), {1, 3}});
  g.outputs.push_back({g.number(DType::f16, -0.0), {}});
  verify(g);
  std::string text = print(g);
  Graph back;
  parse(text, back);
  EXPECT_EQ(print(back).size(), text.size());
  EXPECT_EQ(fingerprint(back), fingerprint(g));
  EXPECT_EQ(back.outputs.size(), 4u);
}

}  // namespace
}  // namespace hologram::ir

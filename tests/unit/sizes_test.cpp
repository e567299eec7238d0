// tests/unit/sizes_test.cpp: graphs that are right for some sizes only.
#include "ir/sizes.h"

#include "canon/canon.h"
#include "support/machine.h"
#include "support/refusal.h"
#include "support/test.h"
#include "unit/plan_run.h"
#include "unit/random_graph.h"

namespace hologram::test {
namespace {

bool admits(const ir::Graph& graph, const std::vector<int64_t>& sizes) {
  return refusal([&] { ir::check_sizes(graph, sizes); }).empty();
}

std::map<int, Tensor> parameters_of(const ir::Graph& graph, const std::vector<int64_t>& sizes) {
  std::map<int, Tensor> out;
  for (const ir::Node& n : graph.nodes()) {
    if (!n.is(ir::Op::parameter)) continue;
    std::vector<int64_t> shape;
    for (const Expr& e : n.shape) shape.push_back(e.eval(sizes));
    Tensor& t = out[static_cast<int>(n.attrs.ints[0])] = filled(n.dtype, shape, 0);
    // Integers may be indices: 0 is in range wherever something is.
    if (!is_int(n.dtype))
      for (size_t i = 0; i < t.bits.size(); ++i) t.bits[i] = i & 1;
  }
  return out;
}

bool some_negative(const ir::Graph& graph, const std::vector<int64_t>& sizes) {
  for (const ir::Node& n : graph.nodes())
    for (const Expr& e : n.shape)
      if (e.eval(sizes) < 0) return true;
  return false;
}

// Replaces outputs by slices of them that lie inside for some sizes.
void cut(ir::Graph& graph, std::mt19937_64& random) {
  auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  auto number = [&] {
    const Expr s = Expr::symbol(static_cast<int>(below(graph.num_symbols)));
    const Expr all[] = {Expr(below(3)), s, s - Expr(below(3)), s * s - Expr(below(4))};
    return all[below(4)];
  };
  for (ir::Output& o : graph.outputs) {
    Shape starts, sizes;
    for (int d = 0; d < o.value->rank(); ++d) {
      starts.push_back(number());
      sizes.push_back(number());
    }
    try {
      const std::vector<int64_t> steps(starts.size(), 1 + below(2));
      o.value = graph.slice(o.value, starts, sizes, steps);
      o.strides = contiguous_strides(o.value->shape);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::invalid_argument) << e.what();  // wrong for every size
    }
  }
}

struct SizesTally {
  int admitted = 0, refused = 0, wild = 0, never = 0;
};

void check_sizes(uint64_t seed, SizesTally& tally) {
  RandomGraph r(seed, 16, {.exact = true});
  std::mt19937_64 random(seed);
  if (r.graph.num_symbols > 0) cut(r.graph, random);
  ir::Graph canonical;
  canon::Report report;
  canonicalize(r.graph, canonical, report);
  schedule::Plan plan;
  try {
    plan = schedule::make_plan(canonical, {});
  } catch (const Error& e) {
    if (e.code() == ErrorCode::unsupported) return;
    // Programs that leave an array for every size from 1 on are refused whole.
    EXPECT_NE(std::string_view(e.what()).find("outside buffer"), std::string::npos) << e.what();
    EXPECT_THROW(ir::require_right_sizes(r.graph), Error) << print(r.graph) << e.what();
    ++tally.never;
    return;
  }
  for (int call = 0; call < 4; ++call) {
    std::vector<int64_t> sizes;
    for (size_t s = 0; s < r.symbols.size(); ++s) sizes.push_back(static_cast<int64_t>(random() % 6));
    SCOPED_TRACE(fmt::format("seed {}, sizes {}\n{}{}", seed, testing::PrintToString(sizes), print(r.graph), print(plan)));
    if (!admits(r.graph, sizes)) {
      ++tally.refused;
      if (some_negative(r.graph, sizes)) continue;
      try {
        PlanRunner(plan).run(parameters_of(r.graph, sizes), sizes);
      } catch (const Error&) {
        ++tally.wild;  // the interpreter looks at every access
      }
      continue;
    }
    ++tally.admitted;
    const std::map<int, Tensor> parameters = parameters_of(r.graph, sizes);
    const std::vector<Tensor> got = PlanRunner(plan).run(parameters, sizes), expected = evaluate(r.graph, parameters, sizes);
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_TRUE(same(got[i], expected[i])) << "output " << i << " is " << text(got[i]) << ", expected " << text(expected[i]);
  }
}

// Without the check, some of what it refuses would read or write outside of arrays.
TEST(Sizes, WhatIsAdmittedStaysInsideItsArraysAndHasItsValues) {
  SizesTally tally;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    try {
      check_sizes(seed, tally);
    } catch (const Error& e) {
      FAIL() << "seed " << seed << ": " << e.what();
    }
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(tally.admitted, 100);
  EXPECT_GT(tally.refused, 100);
  EXPECT_GT(tally.wild, 10);
  EXPECT_GT(tally.never, 0);
}

TEST(Sizes, OneCheckServesAllCallsOfTheSameSizes) {
  ir::Graph g;
  const Expr s0 = Expr::symbol(0);
  ir::Value x = g.parameter(0, DType::f32, {s0}, {1});
  g.outputs.push_back({g.slice(x, {s0 - 3}, {2}, {1}), {1}});
  const ir::SizeCheck check(g, "it");
  auto refused = [&](int64_t size) {
    return refusal([&] { check.check(std::array{size, int64_t{7}}); });  // more sizes than the graph has
  };
  for (int round = 0; round < 3; ++round)
    for (int64_t size : {3, 4, 2, 3, 1}) {
      const std::string message = refused(size);
      EXPECT_EQ(message.starts_with("it is not for these sizes: slice"), size < 3) << message;
    }
  for (int64_t size = 3; size < 10000; ++size) ASSERT_EQ(refused(size), "");  // some are forgotten
  EXPECT_EQ(refused(3), "");
  EXPECT_NE(refused(0), "");
}

TEST(Sizes, WhatNoSizeChangesIsCheckedAtOnce) {
  ir::Graph g;
  ir::Value x = g.parameter(0, DType::f32, {1}, {1});
  g.outputs.push_back({g.expand(x, {int64_t{1} << 50}), {1}});
  EXPECT_THROW(ir::SizeCheck(g, "it"), Error);
}

}  // namespace
}  // namespace hologram::test

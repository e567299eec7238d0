// tests/unit/plan_fuzz_test.cpp: plans of random graphs: their properties, and the values that they compute.
#include "canon/canon.h"
#include "ir/sizes.h"
#include "support/environment.h"
#include "support/machine.h"
#include "support/test.h"
#include "unit/plan_run.h"
#include "unit/random_graph.h"

namespace hologram::test {
namespace {

schedule::Options options_of(std::mt19937_64& random, bool poor) {
  schedule::Options o;
  static const PanelMachine panels(16);
  static const PoorMachine without;
  if (random() % 2) o.machine = &panels;
  if (poor) o.machine = &without;
  uint64_t fixed = random() % 3 ? 0 : random();
  o.is_static = [fixed](int i) { return (fixed >> (i % 64) & 1) != 0; };
  return o;
}

struct PlanTally {
  int plans = 0, refused = 0, mutations = 0, host_calls = 0, cached = 0;
};

void check_plan(uint64_t seed, bool poor, PlanTally& tally) {
  SCOPED_TRACE(fmt::format("seed {}{}", seed, poor ? ", a poor machine" : ""));
  RandomGraph r(seed, 24, {.exact = true, .host_calls = true, .mutations = true});
  verify(r.graph);
  ir::Graph canonical;
  canon::Report report;
  canonicalize(r.graph, canonical, report);
  std::mt19937_64 random(seed);
  schedule::Options options = options_of(random, poor);
  schedule::Plan plan;
  try {
    plan = schedule::make_plan(canonical, options);
  } catch (const Error& e) {
    ASSERT_EQ(e.code(), ErrorCode::unsupported) << e.what() << "\n" << print(r.graph);
    ++tally.refused;
    return;
  }
  ++tally.plans;
  tally.cached += static_cast<int>(plan.cache.size());
  for (const auto& s : plan.steps) tally.host_calls += s.kind == schedule::StepKind::host_call;
  for (const auto& o : plan.outputs) tally.mutations += o.mutation;
  std::string described = print(r.graph) + print(plan);
  std::vector<std::vector<int64_t>> sizes{r.symbols};
  for (int64_t n : {0, 1, 2, 1000}) sizes.emplace_back(r.symbols.size(), n);
  for (const auto& s : sizes) {
    std::string faults = faults_of(plan, s);
    if (!faults.empty()) {
      ASSERT_THROW(ir::check_sizes(r.graph, s), Error) << faults << "for sizes " << testing::PrintToString(s) << "\n" << described;
    }
  }
  PlanRunner runner(plan);
  for (int call = 0; call < 2; ++call) {
    std::vector<Tensor> got = runner.run(r.parameters, r.symbols);
    ASSERT_EQ(got.size(), r.expected.size());
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_TRUE(same(got[i], r.expected[i])) << "call " << call << ", output " << i << " is " << text(got[i]) << ", expected "
                                               << text(r.expected[i]) << "\n"
                                               << described;
  }
}

TEST(PlanFuzz, PlansOfRandomGraphsKeepToTheRulesAndTheirValues) {
  uint64_t n = number("HOLOGRAM_FUZZ_GRAPHS", 1500), first = number("HOLOGRAM_FUZZ_FIRST", 1);
  PlanTally tally;
  for (uint64_t seed = first; seed < first + n; ++seed) {
    try {
      check_plan(seed, false, tally);
      if (!testing::Test::HasFatalFailure()) check_plan(seed, true, tally);
    } catch (const Error& e) {
      FAIL() << "seed " << seed << ": " << e.what();
    }
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GE(tally.plans, static_cast<int>(n) * 2 * 9 / 10) << tally.refused << " were refused";
  if (n < 100) return;
  EXPECT_GT(tally.mutations, 0);
  EXPECT_GT(tally.host_calls, 0);
  EXPECT_GT(tally.cached, 0);
}

// A plan of two products whose operands are computed before.
schedule::Plan sound_plan(const Expr& n) {
  ir::Graph g;
  Shape s{n, Expr(40)}, w{Expr(40), Expr(40)};
  auto input = [&](int k, const Shape& shape) { return g.parameter(k, DType::f32, shape, contiguous_strides(shape)); };
  auto product = [&](ir::Value x, int k) { return g.make(ir::Op::dot_general, {g.unary(ir::Op::exp, x), input(k, w)}); };
  ir::Value a = product(input(0, s), 1), b = product(a, 2);
  ir::Value sum = g.reduce(ir::Op::reduce_sum, g.binary(ir::Op::mul, a, b), {0});
  g.outputs.push_back({g.make(ir::Op::argsort, {sum}, {.ints = {0, 0}, .exprs = {Expr(40)}}), {1}});
  return schedule::make_plan(g, {});
}

TEST(PlanFuzz, FaultsOfPlansAreFound) {
  using schedule::Plan;
  struct Fault {
    const char* found;
    void (*plant)(Plan&);
  };
  auto of_arena = [](Plan& p, int number) -> schedule::Slot& {
    for (schedule::Slot& s : p.slots)
      if (s.kind == schedule::SlotKind::arena && number-- == 0) return s;
    throw std::logic_error("no such slot");
  };
  static auto slot = of_arena;
  const Fault faults[] = {
      {"overlap", [](Plan& p) { slot(p, 1).offset = slot(p, 0).offset; }},
      {"the arena at", [](Plan& p) { p.arena_bytes = Expr(64); }},
      {"lies at", [](Plan& p) { slot(p, 0).offset += Expr(4); }},
      {"before it is written", [](Plan& p) { std::swap(p.steps.front(), p.steps.back()); }},
      {"does not come after it", [](Plan& p) { p.steps.back().after.clear(); }},
      {"is not written", [](Plan& p) { p.steps.pop_back(); }},
      {"of another kind", [](Plan& p) { slot(p, 0).kind = schedule::SlotKind::cached; }},
      {"is not valid",
       [](Plan& p) {
         p.programs.back().num_symbols = -1;
         p.programs.back().buffers.clear();
       }},
  };
  for (const Expr& n : {Expr(64), Expr::symbol(0)}) {
    EXPECT_EQ(faults_of(sound_plan(n), {64}), "");
    for (const Fault& f : faults) {
      Plan plan = sound_plan(n);
      f.plant(plan);
      std::string text = faults_of(plan, {64});
      EXPECT_NE(text.find(f.found), std::string::npos) << f.found << " was not found: " << text;
    }
  }
}

}  // namespace
}  // namespace hologram::test

// tests/unit/canon_fuzz_test.cpp: canonical forms of random graphs keep their values and are fixed points.
#include "canon/canon.h"
#include "support/environment.h"
#include "support/test.h"
#include "unit/random_graph.h"

namespace hologram::test {
namespace {

void expect_equal(const std::vector<Tensor>& got, const std::vector<Tensor>& want, const std::string& graph) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_TRUE(same(got[i], want[i])) << "output " << i << " is " << text(got[i]) << ", expected " << text(want[i]) << "\n" << graph;
}

void check(uint64_t seed) {
  SCOPED_TRACE(fmt::format("seed {}", seed));
  RandomGraph r(seed);
  verify(r.graph);
  std::string before = print(r.graph);
  expect_equal(evaluate(r.graph, r.parameters, r.symbols), r.expected, "folded:\n" + before);
  ir::Graph parsed;
  ir::parse(before, parsed);
  ASSERT_EQ(fingerprint(parsed), fingerprint(r.graph)) << before;

  ir::Graph out, again;
  canon::Report report, second;
  canonicalize(r.graph, out, report);
  verify(out);
  std::string after = print(out);
  ASSERT_TRUE(report.refused.empty()) << "rule " << report.refused.begin()->first << "\n" << before;
  expect_equal(evaluate(out, r.parameters, r.symbols), r.expected, "before:\n" + before + "after:\n" + after);
  canonicalize(out, again, second);
  ASSERT_TRUE(second.fired.empty()) << "again: " << second.fired.begin()->first << "\n" << before << after;
  ASSERT_EQ(print(again), after);
  ASSERT_EQ(fingerprint(again), fingerprint(out));
}

TEST(CanonFuzz, RandomGraphsKeepTheirValues) {
  const uint64_t n = number("HOLOGRAM_FUZZ_GRAPHS", 3000);
  for (uint64_t seed = 1; seed <= n; ++seed) {
    check(seed);
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace hologram::test

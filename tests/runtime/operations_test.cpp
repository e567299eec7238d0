// tests/runtime/operations_test.cpp: operations under keys: found again, and forgotten
#include "runtime/operations.h"

#include "base/recent.h"
#include "support/test.h"

namespace hologram::runtime {
namespace {

TEST(Recent, ForgetsWhatWasUsedLongestAgo) {
  Recent<std::string, int> values(2);
  EXPECT_EQ(values.insert("a", 1), 1);
  EXPECT_EQ(values.insert("b", 2), 2);
  EXPECT_EQ(values.insert("a", 7), 1) << "the first one stays";
  EXPECT_EQ(values.insert("c", 3), 3);
  EXPECT_EQ(values.find("b"), nullptr);
  ASSERT_NE(values.find("a"), nullptr);
  values.insert("d", 4);
  EXPECT_EQ(values.find("c"), nullptr);
  EXPECT_EQ(*values.find("a"), 1);
  EXPECT_EQ(values.size(), 2u);
}

TEST(Operations, KeepThoseUsedLast) {
  auto runtime = std::make_shared<Runtime>("interp");
  Operations operations(runtime);
  int builds = 0;
  auto add = [&](int n) {
    return operations.executable(std::to_string(n), [&](ir::Graph& g) {
      ++builds;
      const ir::Value x = g.parameter(0, DType::f32, {4}, {1});
      g.outputs.push_back({g.binary(ir::Op::add, x, g.number(DType::f32, n, {4})), {1}});
    });
  };
  const std::shared_ptr<Executable> first = add(0);
  const size_t one = runtime->compiled_bytes().plans;
  for (int n = 1; n < 300; ++n) {
    add(n);
    EXPECT_EQ(add(0), first) << "it is used again and again";
  }
  EXPECT_EQ(builds, 300);
  EXPECT_LE(runtime->compiled_bytes().plans, 256 * one);
  const std::shared_ptr<Executable> again = add(1);
  EXPECT_EQ(builds, 301) << "it was forgotten";
  float x[4] = {1, 2, 3, 4}, y[4] = {};
  void *in[] = {x}, *out[] = {y};
  for (int n = 300; n < 600; ++n) add(n);
  operations.run(*again, in, nullptr, out);  // forgotten once more, and still there
  EXPECT_EQ(y[3], 5);
}

}  // namespace
}  // namespace hologram::runtime

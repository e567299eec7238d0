// tests/runtime/executable_test.cpp: compiled graphs: sizes, caches, overlapping calls, errors
#include "runtime/executable.h"

#include <atomic>
#include <thread>

#include "runtime/results.h"
#include "support/refusal.h"
#include "support/test.h"
#include "support/threads.h"

namespace hologram::runtime {
namespace {

using ir::Graph;
using ir::Op;
using ir::Value;

using Vectors = Results<float>;

/// Doubles its one operand.
class Doubler : public Host {
 public:
  int32_t call(const schedule::Step& step, Frame& frame) override {
    ++calls;
    if (fails) return 77;
    if (throws) throw std::runtime_error("the host gave up");
    const auto* x = static_cast<const float*>(frame.slots[static_cast<size_t>(step.arguments[0])]);
    for (size_t i = 0; i < 8; ++i) result[i] = 2 * x[i];
    frame.slots[static_cast<size_t>(step.results[0])] = result;
    return 0;
  }
  int calls = 0;
  bool fails = false, throws = false;
  float result[8];
};

std::vector<float> ramp(size_t n, float first = 0) {
  std::vector<float> x(n);
  std::iota(x.begin(), x.end(), first);
  return x;
}

class ExecutableTest : public testing::TestWithParam<const char*> {
 protected:
  void output(Value v) { g.outputs.push_back({v, contiguous_strides(v->shape), -1}); }
  std::shared_ptr<Executable> compile(std::vector<bool> statics = {}) {
    return Executable::compile(g, {false, false, std::move(statics)}, runtime);
  }
  int32_t run(Executable& e, std::vector<void*> inputs, std::vector<int64_t> symbols, Vectors& out, Host* host = nullptr,
              Kept* kept = nullptr) {
    return call(e, std::move(inputs), std::move(symbols), out, host, kept).status;
  }

  /// Three of four numbers.
  std::shared_ptr<Executable> compile_take() {
    Value t = g.parameter(0, DType::f32, {4}, {1}), i = g.parameter(1, DType::i64, {3}, {1});
    output(g.make(Op::take, {t, i}, {{0}, {}, 0, ""}));
    return compile();
  }
  /// What the host makes of 8 numbers.
  Value doubled(Value x) {
    Value call = g.make(Op::host_call, {x}, {{0}, {}, 0, "double"}, DType::host, Shape{});
    return g.make(Op::host_result, {call}, {{0}, {1}, 0, ""}, DType::f32, Shape{8});
  }

  Graph g;
  std::shared_ptr<Runtime> runtime = std::make_shared<Runtime>(GetParam());
};

TEST_P(ExecutableTest, PlansAreCountedWhileTheyLive) {
  Value x = g.parameter(0, DType::f32, {5, 7}, {7, 1});
  output(g.binary(Op::sub, x, g.number(DType::f32, 0.375, {5, 7})));
  auto e = compile();
  const size_t one = runtime->compiled_bytes().plans;
  EXPECT_GT(one, sizeof(Executable) + sizeof(schedule::Plan));
  auto again = compile();
  EXPECT_EQ(runtime->compiled_bytes().plans, 2 * one);
  EXPECT_EQ(runtime->compiled_bytes().code > 0, !runtime->backend().interprets());
  e.reset();
  again.reset();
  EXPECT_EQ(runtime->compiled_bytes().plans, 0u);
  EXPECT_EQ(runtime->compiled_bytes().code, 0u);
}

TEST_P(ExecutableTest, StaticParametersAreReadAgainOnlyWhereNothingIsKept) {
  Value x = g.parameter(0, DType::f32, {16, 8}, {8, 1}), w = g.parameter(1, DType::f32, {8, 4}, {4, 1});
  output(g.make(Op::dot_general, {x, w}, {{0}, {}, 0, ""}));
  auto e = compile({false, true});
  if (e->plan().cache.empty()) GTEST_SKIP() << "this backend packs nothing";
  std::vector<float> a(128, 1), b(32, 1);
  Vectors out;
  Kept kept;
  ASSERT_EQ(run(*e, {a.data(), b.data()}, {}, out, nullptr, &kept), 0);
  EXPECT_EQ(out.data[0][0], 8);
  EXPECT_EQ(e->cached_bytes(), 0u);
  e->keep(kept);
  EXPECT_GT(e->cached_bytes(), 0u);
  std::fill(b.begin(), b.end(), 2.0f);
  kept = e->kept();
  ASSERT_EQ(run(*e, {a.data(), b.data()}, {}, out, nullptr, &kept), 0);
  EXPECT_EQ(out.data[0][0], 8) << "was given, so it must not have been packed again";
  kept.set(0, nullptr);
  ASSERT_EQ(run(*e, {a.data(), b.data()}, {}, out, nullptr, &kept), 0);
  EXPECT_EQ(out.data[0][0], 16);
}

TEST_P(ExecutableTest, HostCallsRunBetweenKernels) {
  Value x = g.parameter(0, DType::f32, {8}, {1});
  output(g.binary(Op::add, doubled(g.unary(Op::neg, x)), x));
  auto e = compile();
  auto in = ramp(8, 1);
  Vectors out;
  Doubler host;
  ASSERT_EQ(run(*e, {in.data()}, {}, out, &host), 0);
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(out.data[0][i], -in[i]);
  host.fails = true;
  EXPECT_EQ(run(*e, {in.data()}, {}, out, &host), 77);
  host.fails = false;
  host.throws = true;
  EXPECT_THROW(run(*e, {in.data()}, {}, out, &host), std::runtime_error);
  EXPECT_EQ(host.calls, 3);
  EXPECT_THROW(run(*e, {in.data()}, {}, out), Error);  // no host at all
}

TEST_P(ExecutableTest, AHostsResultGivenTwiceIsTwoTensors) {
  Value x = g.parameter(0, DType::f32, {8}, {1});
  Value r = doubled(x);
  output(r);
  output(r);
  auto e = compile();
  EXPECT_NE(e->plan().outputs[0].slot, e->plan().outputs[1].slot);
  auto in = ramp(8, 1);
  Vectors out;
  Doubler host;
  ASSERT_EQ(run(*e, {in.data()}, {}, out, &host), 0);
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(out.data[1][i], 2 * in[i]);
}

TEST_P(ExecutableTest, AnIndexOutOfRangeIsReportedAndTouchesNothing) {
  auto e = compile_take();
  auto table = ramp(4, 10);
  std::vector<int64_t> index{1, -1, 3};
  Vectors out;
  EXPECT_EQ(call(*e, {table.data(), index.data()}, {}, out).faults, 0);
  EXPECT_EQ(out.data[0], (std::vector<float>{11, 13, 13}));
  index[1] = 1'000'000'000'000;
  Outcome bad = call(*e, {table.data(), index.data()}, {}, out);
  EXPECT_EQ(bad.status, 0);
  EXPECT_EQ(bad.faults, atlas::index_out_of_range);
  index[1] = 0;
  EXPECT_EQ(call(*e, {table.data(), index.data()}, {}, out).faults, 0) << "of the call before";
}

// What a call was given stays as long as the call, whoever keeps something else meanwhile; a call
// that its host fails leaves the others alone.
TEST_P(ExecutableTest, CallsOverlapWithOthersThatKeepAndFail) {
  Value x = g.parameter(0, DType::f32, {16, 8}, {8, 1}), w = g.parameter(1, DType::f32, {8, 8}, {8, 1});
  Value y = g.make(Op::dot_general, {x, w}, {{0}, {}, 0, ""});
  Value twice = doubled(g.reduce(Op::reduce_sum, y, {0}));
  output(g.binary(Op::add, twice, twice));
  auto e = compile({false, true});
  std::vector<float> in(128, 1);
  std::atomic<int> wrong{0};
  test::on_threads(4, [&](int t) {
    std::vector<float> weight(64, static_cast<float>(t + 1));
    Kept own;  // of this thread's weight
    for (int n = 0; n < 60; ++n) {
      Doubler host;
      host.fails = n % 5 == 2;
      host.throws = n % 5 == 4;
      Vectors out;
      Kept kept = n % 3 ? own : Kept{};
      int32_t status = -1;
      try {
        status = run(*e, {in.data(), weight.data()}, {}, out, &host, &kept);
      } catch (const std::runtime_error&) {
        wrong += !host.throws;
        continue;
      }
      wrong += status != (host.fails ? 77 : 0);
      if (status != 0) continue;
      wrong += out.data[0][3] != 4 * 16 * 8 * static_cast<float>(t + 1);
      own = kept;
      e->keep(std::move(kept));
      (void)e->cached_bytes();
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST_P(ExecutableTest, MemoryGoesBackToThePool) {
  Value x = g.parameter(0, DType::f32, {256, 256}, {256, 1});
  Value y = g.make(Op::dot_general, {x, x}, {{0}, {}, 0, ""});
  output(g.reduce(Op::reduce_sum, g.make(Op::dot_general, {y, x}, {{0}, {}, 0, ""}), {0, 1}));
  auto e = compile();
  std::vector<float> in(256 * 256, 0.5f);
  Vectors out;
  size_t before = runtime->memory().stats().in_use;
  int classes = runtime->boundary().free_classes();
  for (int i = 0; i < 20; ++i) ASSERT_EQ(run(*e, {in.data()}, {}, out), 0);
  EXPECT_EQ(runtime->memory().stats().in_use, before);
  EXPECT_EQ(runtime->boundary().free_classes(), classes);
}

INSTANTIATE_TEST_SUITE_P(Backends, ExecutableTest, testing::Values("interp", "cpu", "null"),
                         [](const auto& i) { return std::string(i.param); });

TEST(RuntimeTest, AnUnknownBackendIsNamed) {
  EXPECT_NE(test::refusal([] { Runtime r("abacus"); }).find("abacus"), std::string::npos);
}

}  // namespace
}  // namespace hologram::runtime

// tests/capi/graph_test.cpp: graphs by text and by builder, compiled and run on tensors and buffers.
#include <fmt/format.h>

#include "support.h"

namespace hologram::test {
namespace {

class Graphs : public DeviceTest {
 protected:
  hologram_handle tensor(const std::vector<float>& v, const char* shape) {
    hologram_handle t = made(hologram_tensor_from_buffer, buffer(v), shape);
    return t;
  }
  std::string shape(hologram_handle t) {
    return text([&](auto... a) { return hologram_tensor_shape(t, a...); });
  }
};

HOLOGRAM_ON_EVERY_DEVICE(Graphs);

constexpr const char* row_sums =
    "graph(symbols=2, parameters=2)\n"
    "%0: f32[s0, s1] = parameter index=0 strides=[s1, 1]\n"
    "%1: f32[s0, s1] = parameter index=1 strides=[s1, 1]\n"
    "%2: f32[s0, s1] = mul %0, %1\n"
    "%3: f32[s0] = reduce_sum %2 axes=[1]\n"
    "return %3 strides=[1]\n"
    "return %2 strides=[s1, 1]\n";

TEST(GraphMemory, IsCountedWhileExecutablesLive) {
  hologram_handle exec = made(hologram_new_executor_with_backend, "cpu");
  const hologram_statistics before = statistics(exec);
  std::string own = row_sums;  // that no other test has compiled
  own.replace(own.find("mul"), 3, "atan2");
  hologram_handle graph = made(hologram_graph_parse, own.c_str());
  hologram_handle e = made(hologram_graph_compile, exec, graph, 0);
  const hologram_statistics live = statistics(exec);
  EXPECT_GE(live.code_bytes, before.code_bytes + 2 * 4096) << "a kernel and what runs it";
  EXPECT_GT(live.plan_bytes, before.plan_bytes + 1000);
  ASSERT_OK(hologram_executable_cleanup(e));
  const hologram_statistics after = statistics(exec);
  EXPECT_EQ(after.code_bytes, before.code_bytes);
  EXPECT_EQ(after.plan_bytes, before.plan_bytes);
  EXPECT_GE(after.code_cached, before.code_cached + 4096);
  EXPECT_OK(hologram_graph_cleanup(graph));
  EXPECT_OK(hologram_executor_cleanup(exec));
}

// Along each axis alone the slice is right for some sizes.
constexpr const char* beyond =
    "graph(symbols=2, parameters=1)\n"
    "%0: f32[s0, s1] = parameter index=0 strides=[s1, 1]\n"
    "%1: f32[s0, s0] = slice %0 starts=[s1 - 1, s0] steps=[2, 2]\n"
    "return %1 strides=[s0, 1]\n";

TEST_P(Graphs, ThatLeaveTheirArraysForEverySizeAreRefused) {
  hologram_handle g = 0, e = 0;
  ASSERT_OK(hologram_graph_parse(beyond, &g));
  EXPECT_REFUSED(hologram_graph_compile(exec, g, 0, &e), HOLOGRAM_INVALID_ARGUMENT, "right for no sizes: slice");
  EXPECT_FALSE(message_has("internal")) << hologram_last_error();
  EXPECT_OK(hologram_graph_cleanup(g));
}

TEST_P(Graphs, TextCompilesOnceForEverySize) {
  hologram_handle e = compile(row_sums);
  EXPECT_EQ(made(hologram_executable_num_inputs, e), 2u);
  EXPECT_EQ(made(hologram_executable_num_outputs, e), 2u);
  for (const char* dims : {"[2, 3]", "[3, 2]", "[1, 6]"}) {
    hologram_handle in[] = {tensor({1, 2, 3, 4, 5, 6}, dims), tensor({1, 1, 1, 2, 2, 2}, dims)};
    hologram_handle out[2] = {0, 0};
    ASSERT_OK(hologram_executable_run(e, in, 2, out, 2));
    EXPECT_EQ(shape(out[1]), dims);
    const auto sums = elements(out[0]);
    EXPECT_EQ(std::accumulate(sums.begin(), sums.end(), 0.0f), 36);
    EXPECT_EQ(elements(out[1]), (std::vector<float>{1, 2, 3, 8, 10, 12}));
  }
  const std::string report = text([&](auto... a) { return hologram_executable_report(e, a...); });
  EXPECT_NE(report.find("\"ops_before\": 2"), std::string::npos) << report;
}

TEST_P(Graphs, ViewsAreMadeContiguousAndGivenOutputsAreWritten) {
  hologram_handle e = compile(row_sums);
  hologram_handle a = tensor({1, 2, 3, 4, 5, 6}, "[3, 2]"), at = made(hologram_tensor_transpose, a);
  hologram_handle sums = buffer(2), product = tensor(std::vector<float>(6), "[2, 3]");
  hologram_handle in[] = {at, at}, out[] = {sums, product};
  ASSERT_OK(hologram_executable_run(e, in, 2, out, 2));
  EXPECT_EQ(values(sums), (std::vector<float>{1 + 9 + 25, 4 + 16 + 36}));
  EXPECT_EQ(elements(product), (std::vector<float>{1, 9, 25, 4, 16, 36}));
  EXPECT_EQ(out[0], sums);
  hologram_handle bad[] = {sums, at};
  EXPECT_EQ(hologram_executable_run(e, in, 2, bad, 2), HOLOGRAM_INVALID_ARGUMENT);
  hologram_handle over[] = {0, a};
  hologram_handle plain[] = {a, a};
  EXPECT_EQ(hologram_executable_run(e, plain, 2, over, 2), HOLOGRAM_INVALID_ARGUMENT) << "overlaps";
  EXPECT_EQ(over[0], 0u);
}

TEST_P(Graphs, MistakesAreNamed) {
  hologram_handle e = compile(row_sums);
  hologram_handle out[2] = {0, 0};
  hologram_handle in[] = {tensor({1, 2, 3, 4, 5, 6}, "[2, 3]"), tensor({1, 2, 3, 4}, "[2, 2]")};
  EXPECT_REFUSED(hologram_executable_run(e, in, 2, out, 2), HOLOGRAM_INVALID_ARGUMENT, "s1 is 2 here and 3 elsewhere");
  EXPECT_EQ(hologram_executable_run(e, in, 1, out, 2), HOLOGRAM_INVALID_ARGUMENT);
  hologram_handle flat[] = {buffer(std::vector<float>{1, 2, 3, 4}), buffer(4)};
  EXPECT_REFUSED(hologram_executable_run(e, flat, 2, out, 2), HOLOGRAM_INVALID_ARGUMENT, "run_with_symbols");
  const int64_t sizes[] = {2, 2, -1}, wrong[] = {3, 2};  // the third is not read
  EXPECT_EQ(hologram_executable_run_with_symbols(e, flat, 2, wrong, 2, out, 2), HOLOGRAM_INVALID_ARGUMENT);
  ASSERT_OK(hologram_executable_run_with_symbols(e, flat, 2, sizes, 2, out, 2));
  EXPECT_EQ(shape(out[1]), "[2, 2]");
  hologram_handle g = 0;
  EXPECT_REFUSED(hologram_graph_parse("graph(symbols=0, parameters=0)\n%0: f32 = what", &g), HOLOGRAM_INVALID_ARGUMENT, "line 2");
}

TEST_P(Graphs, BuilderInfersAndBroadcasts) {
  hologram_handle g = 0, e = 0;
  uint32_t x = 0, bias = 0, sum = 0, act = 0, half = 0, scaled = 0, rows = 0, ignored = 0;
  ASSERT_OK(hologram_graph_create(1, &g));
  ASSERT_OK(hologram_graph_parameter(g, HOLOGRAM_F32, "[s0, 3]", &x));
  ASSERT_OK(hologram_graph_parameter(g, HOLOGRAM_F32, "[3]", &bias));
  const uint32_t two[] = {x, bias};
  ASSERT_OK(hologram_graph_apply(g, "add", two, 2, nullptr, nullptr, &sum));
  ASSERT_OK(hologram_graph_apply(g, "abs", &sum, 1, nullptr, nullptr, &act));
  ASSERT_OK(hologram_graph_constant(g, HOLOGRAM_F32, 0.5, nullptr, &half));
  const uint32_t times[] = {act, half};
  ASSERT_OK(hologram_graph_apply(g, "mul", times, 2, "", nullptr, &scaled));
  EXPECT_EQ(text([&](auto... a) { return hologram_graph_type(g, scaled, a...); }), "f32[s0, 3]");
  ASSERT_OK(hologram_graph_apply(g, "reduce_max", &scaled, 1, "axes=[1]", nullptr, &rows));
  ASSERT_OK(hologram_graph_output(g, rows));
  EXPECT_REFUSED(hologram_graph_apply(g, "reduce_max", &scaled, 1, "", nullptr, &ignored), HOLOGRAM_INVALID_ARGUMENT, "axes is missing");
  EXPECT_EQ(hologram_graph_apply(g, "add", &x, 1, nullptr, nullptr, &ignored), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_EQ(hologram_graph_parameter(g, HOLOGRAM_F32, "[s1]", &ignored), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_EQ(hologram_graph_parameter(g, HOLOGRAM_F32, "nonsense", &ignored), HOLOGRAM_INVALID_ARGUMENT);
  if (std::string_view(backend()) == "webgpu") {
    EXPECT_REFUSED(hologram_graph_compile(exec, g, HOLOGRAM_REPRODUCIBLE, &e), HOLOGRAM_UNSUPPORTED, "reassociate sums");
    ASSERT_OK(hologram_graph_compile(exec, g, 0, &e));
  } else {
    ASSERT_OK(hologram_graph_compile(exec, g, HOLOGRAM_REPRODUCIBLE, &e));
  }
  hologram_handle in[] = {tensor({1, -2, 3, -10, 5, 6}, "[2, 3]"), tensor({1, 1, 1}, "[3]")};
  hologram_handle out = 0;
  ASSERT_OK(hologram_executable_run(e, in, 2, &out, 1));
  EXPECT_EQ(elements(out), (std::vector<float>{2, 4.5f}));
  const std::string printed = text([&](auto... a) { return hologram_graph_print(g, a...); });
  // Nodes are numbered anew when they are read, and then stay so.
  hologram_handle again = made(hologram_graph_parse, printed.c_str());
  const std::string fresh = text([&](auto... a) { return hologram_graph_print(again, a...); });
  hologram_handle third = made(hologram_graph_parse, fresh.c_str());
  EXPECT_EQ(text([&](auto... a) { return hologram_graph_print(third, a...); }), fresh);
  uint32_t cast = 0;
  ASSERT_OK(hologram_graph_apply(g, "cast", &x, 1, nullptr, "i32", &cast));
  EXPECT_EQ(text([&](auto... a) { return hologram_graph_type(g, cast, a...); }), "i32[s0, 3]");
  ASSERT_OK(hologram_graph_apply(g, "reshape", &x, 1, nullptr, "[3, s0]", &cast));
  ASSERT_OK(hologram_graph_apply(g, "slice", &x, 1, "starts=[0, 1] steps=[1, 1]", "[s0, 2]", &cast));
}

}  // namespace
}  // namespace hologram::test

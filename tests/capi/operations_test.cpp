// tests/capi/operations_test.cpp: operations on buffers; tests/python/test_sdk.py holds their values.
#include "support.h"

namespace hologram::test {
namespace {

using HostOperations = CapiTest;
using Operations = DeviceTest;
HOLOGRAM_ON_EVERY_DEVICE(Operations);

std::vector<float> random_values(size_t n, unsigned seed) {
  std::mt19937 rng(seed);
  std::uniform_real_distribution<float> draw(-4, 4);
  std::vector<float> v(n);
  for (float& x : v) x = draw(rng);
  return v;
}

TEST_P(Operations, AlongAnAxis) {
  const uint64_t outer = 3, length = 101;
  for (uint64_t inner : {1u, 5u, 64u}) {
    const auto x = random_values(outer * length * inner, 9);
    hologram_handle a = buffer(x), c = buffer(outer * inner), s = buffer(x.size());
    ASSERT_OK(hologram_along_axis_f32(exec, "reduce_max", a, c, outer, length, inner));
    const auto z = values(c);
    ASSERT_OK(hologram_along_axis_f32(exec, "softmax", a, s, outer, length, inner));
    const auto soft = values(s);
    for (uint64_t o = 0; o < outer; ++o)
      for (uint64_t i = 0; i < inner; ++i) {
        float most = -INFINITY;
        double sum = 0;
        for (uint64_t k = 0; k < length; ++k) {
          most = std::max(most, x[(o * length + k) * inner + i]);
          sum += soft[(o * length + k) * inner + i];
        }
        EXPECT_EQ(z[o * inner + i], most);
        EXPECT_NEAR(sum, 1, 1e-6);
      }
  }
  hologram_handle a = buffer(4);
  EXPECT_EQ(hologram_along_axis_f32(exec, "cumsum", a, a, 1, 1, 1), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_EQ(hologram_along_axis_f32(exec, "reduce_sum", a, a, UINT64_MAX, 2, 2), HOLOGRAM_INVALID_ARGUMENT);
}

TEST_P(Operations, OthersByNameAndDtype) {
  hologram_handle a = buffer(std::vector<float>{1, 4, 9, 0.25f}), c = buffer(4);
  ASSERT_OK(hologram_elementwise(exec, "sqrt", &a, 1, c, 4));
  EXPECT_EQ(values(c), (std::vector<float>{1, 2, 3, 0.5f}));
  hologram_handle i = buffer(std::vector<int32_t>{7, -7, 5, 1}, HOLOGRAM_I32), d = buffer(std::vector<int32_t>{2, 2, 0, 1}, HOLOGRAM_I32),
                  q = buffer(4, HOLOGRAM_I32), less = buffer(4, HOLOGRAM_B8);
  const hologram_handle both[] = {i, d};
  EXPECT_EQ(hologram_elementwise(exec, "div", both, 2, q, 4), HOLOGRAM_DIVISION_BY_ZERO);
  EXPECT_EQ(values<int32_t>(q), (std::vector<int32_t>{3, -3, 0, 1}));
  ASSERT_OK(hologram_elementwise(exec, "lt", both, 2, less, 4));
  EXPECT_EQ(values<uint8_t>(less), (std::vector<uint8_t>{0, 1, 0, 0}));
  EXPECT_EQ(hologram_elementwise(exec, "lt", both, 2, q, 4), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_EQ(hologram_elementwise(exec, "no such thing", both, 2, q, 4), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_EQ(hologram_elementwise(exec, "clip", &a, 1, c, 4), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_EQ(hologram_elementwise(exec, "exp", &i, 1, q, 4), HOLOGRAM_INVALID_ARGUMENT) << "exp takes floats";
  ASSERT_OK(hologram_convert(exec, a, q, 4));
  EXPECT_EQ(values<int32_t>(q), (std::vector<int32_t>{1, 4, 9, 0}));
  uint32_t id = 0;
  ASSERT_OK(hologram_operation_id("exp2", &id));
  ASSERT_OK(hologram_elementwise_by_id(exec, id, &c, 1, c, 4));
  EXPECT_EQ(values(c)[2], 8);
  EXPECT_EQ(hologram_elementwise_by_id(exec, 100'000, &c, 1, c, 4), HOLOGRAM_INVALID_ARGUMENT);
}

TEST_F(HostOperations, NothingIsCompiledForTheListedOnes) {
  hologram_statistics s = statistics(exec);
  const uint64_t compiled = s.compiled_kernels, calls = s.kernel_calls;
  hologram_handle a = buffer(random_values(600, 13)), b = buffer(random_values(600, 14)), c = buffer(600);
  float r = 0;
  ASSERT_OK(hologram_vector_add_f32(exec, a, b, c, 600));
  ASSERT_OK(hologram_gelu_f32(exec, a, c, 600));
  ASSERT_OK(hologram_softmax_f32(exec, a, c, 600));
  ASSERT_OK(hologram_reduce_sum_f32(exec, a, c, 600, &r));
  ASSERT_OK(hologram_mse_loss_f32(exec, a, b, c, 600, &r));
  ASSERT_OK(hologram_gemm_f32(exec, a, b, c, 20, 30, 20));
  ASSERT_OK(hologram_matvec_f32(exec, a, b, c, 20, 30));
  for (const char* name : {"exp", "log", "sqrt", "pow", "sin", "lt"}) {
    const hologram_handle in[] = {a, b};
    hologram_handle out = std::string_view(name) == "lt" ? buffer(600, HOLOGRAM_B8) : c;
    const bool two = std::string_view(name) == "pow" || std::string_view(name) == "lt";
    ASSERT_OK(hologram_elementwise(exec, name, in, two ? 2 : 1, out, 600));
  }
  s = statistics(exec);
  EXPECT_EQ(s.compiled_kernels, compiled) << "an operation of the list needed the compiler";
  EXPECT_GE(s.kernel_calls, calls + 13);
  EXPECT_EQ(s.interpreted_calls, 0u);
}

TEST_P(Operations, MistakesAreNamed) {
  hologram_handle a = buffer(8), b = buffer(4), other = 0, foreign = 0;
  EXPECT_REFUSED(hologram_vector_add_f32(exec, a, b, a, 8), HOLOGRAM_INVALID_ARGUMENT,
                 "hologram_vector_add_f32: input 1: the buffer has 4 elements");
  ASSERT_OK(new_executor(&other));
  ASSERT_OK(hologram_executor_allocate_buffer(other, 8, &foreign));
  EXPECT_REFUSED(hologram_vector_add_f32(exec, a, foreign, a, 8), HOLOGRAM_INVALID_ARGUMENT, "another executor");
  EXPECT_EQ(hologram_vector_abs_f32(exec, a, 0, 8), HOLOGRAM_NOT_FOUND);
  EXPECT_REFUSED(hologram_vector_abs_f32(a, a, a, 8), HOLOGRAM_INVALID_ARGUMENT, "kind executor");
  hologram_handle ints = buffer(8, HOLOGRAM_I32), part = 0;
  EXPECT_EQ(hologram_vector_abs_f32(exec, ints, a, 8), HOLOGRAM_INVALID_ARGUMENT);
  ASSERT_OK(hologram_buffer_slice(exec, a, 1, 6, &part));
  EXPECT_REFUSED(hologram_vector_neg_f32(exec, a, part, 6), HOLOGRAM_INVALID_ARGUMENT, "overlaps");
  EXPECT_OK(hologram_vector_neg_f32(exec, a, part, 1)) << "one element apart";
  EXPECT_EQ(hologram_softmax_f32(exec, a, part, 6), HOLOGRAM_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace hologram::test

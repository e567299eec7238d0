// tests/capi/stream_operations_test.cpp: single operations with a stream in the executor's place
#include "support.h"

namespace hologram::test {
namespace {

class StreamOperations : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_OK(hologram_stream_create(exec, &s));
    std::vector<float> v(n);
    for (size_t k = 0; k < n; ++k) v[k] = 0.01f + static_cast<float>(k % 37) / 40;
    x = buffer(v);
    for (float& e : v) e = 1 - e / 2;
    y = buffer(v);
  }
  // `call(place, out)` gives the same elements on the stream as on the executor, and what it was given may go at once.
  template <class Call>
  void expect_same(const char* what, size_t length, const Call& call) {
    const hologram_handle here = buffer(length), there = buffer(length), old = buffer(values(x));
    ASSERT_OK(call(exec, x, here)) << what;
    std::vector<float> result(length);
    ASSERT_OK(call(s, old, there)) << what;
    ASSERT_OK(hologram_stream_copy_to_bytes(s, there, result.data(), length * sizeof(float)));
    ASSERT_OK(hologram_buffer_cleanup(old));
    ASSERT_OK(hologram_buffer_cleanup(there));
    ASSERT_OK(hologram_stream_synchronize(s)) << what;
    EXPECT_EQ(result, values(here)) << what;
  }

  static constexpr size_t n = 120;
  hologram_handle s = 0, x = 0, y = 0;
};

HOLOGRAM_ON_EVERY_DEVICE(StreamOperations);

using Handle = hologram_handle;

TEST_P(StreamOperations, GiveTheResultsOfTheExecutors) {
  expect_same("add", n, [&](Handle p, Handle a, Handle c) { return hologram_vector_add_f32_u64(p, a, y, c, n); });
  expect_same("gelu", n, [&](Handle p, Handle a, Handle c) { return hologram_gelu_f32(p, a, c, static_cast<uint32_t>(n)); });
  expect_same("clip", n, [&](Handle p, Handle a, Handle c) { return hologram_vector_clip_f32_u64(p, a, c, n, 0.2f, 0.5f); });
  expect_same("scalar_mul", n, [&](Handle p, Handle a, Handle c) { return hologram_scalar_mul_f32_u64(p, a, c, n, 3.5f); });
  expect_same("exp", n, [&](Handle p, Handle a, Handle c) { return hologram_elementwise(p, "exp", &a, 1, c, n); });
  expect_same("softmax", n, [&](Handle p, Handle a, Handle c) { return hologram_softmax_f32_u64(p, a, c, n); });
  expect_same("sum", 1, [&](Handle p, Handle a, Handle c) { return hologram_reduce_sum_f32_u64(p, a, c, n, nullptr); });
  expect_same("sum of nothing", 1, [&](Handle p, Handle a, Handle c) { return hologram_reduce_sum_f32_u64(p, a, c, 0, nullptr); });
  expect_same("mse", 1, [&](Handle p, Handle a, Handle c) { return hologram_mse_loss_f32_u64(p, a, y, c, n, nullptr); });
  expect_same("cross entropy", 1,
              [&](Handle p, Handle a, Handle c) { return hologram_cross_entropy_loss_f32_u64(p, a, y, c, n, nullptr); });
  for (const char* operation : {"softmax", "reduce_max"})
    expect_same(operation, n, [&](Handle p, Handle a, Handle c) { return hologram_along_axis_f32(p, operation, a, c, 3, 10, 4); });
  expect_same("product of nothing", 12,
              [&](Handle p, Handle a, Handle c) { return hologram_along_axis_f32(p, "reduce_prod", a, c, 3, 0, 4); });
  expect_same("gemm", 24, [&](Handle p, Handle a, Handle c) { return hologram_gemm_f32_u64(p, a, y, c, 4, 6, 20); });
  expect_same("matvec", 3, [&](Handle p, Handle a, Handle c) { return hologram_matvec_f32_u64(p, a, y, c, 3, 40); });
}

TEST_P(StreamOperations, TellFaultsWhereTheStreamIsWaitedFor) {
  const Handle a = buffer<int32_t>({7, 8}, HOLOGRAM_I32), b = buffer<int32_t>({2, 0}, HOLOGRAM_I32), c = buffer(2, HOLOGRAM_I32),
               f = buffer(2);
  const Handle operands[] = {a, b};
  EXPECT_EQ(hologram_elementwise(exec, "div", operands, 2, c, 2), HOLOGRAM_DIVISION_BY_ZERO);
  ASSERT_OK(hologram_elementwise(s, "div", operands, 2, c, 2));
  ASSERT_OK(hologram_convert(s, c, f, 2));
  EXPECT_EQ(hologram_stream_synchronize(s), HOLOGRAM_DIVISION_BY_ZERO);
  EXPECT_OK(hologram_stream_synchronize(s));  // once
  EXPECT_EQ(values(f), (std::vector<float>{3, 0}));
}

TEST_P(StreamOperations, RefuseWrongArgumentsAtOnce) {
  hologram_handle theirs = made(hologram_new_executor_with_backend, backend());
  hologram_handle strange = made(hologram_stream_create, theirs);
  float number = 0;
  const Handle c = buffer(n), one = buffer(1);
  EXPECT_REFUSED(hologram_vector_add_f32_u64(strange, x, y, c, n), HOLOGRAM_INVALID_ARGUMENT, "belongs to another executor");
  EXPECT_EQ(hologram_gemm_f32_u64(strange, x, y, c, 2, 2, 2), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_EQ(hologram_vector_add_f32_u64(s, x, y, c, n + 1), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_REFUSED(hologram_reduce_sum_f32_u64(s, x, one, n, &number), HOLOGRAM_INVALID_ARGUMENT, "result must be NULL on a stream");
  EXPECT_EQ(hologram_buffer_fill(s, c, 1, 1),
            HOLOGRAM_INVALID_ARGUMENT);  // takes an executor alone
  EXPECT_OK(hologram_executor_cleanup(theirs));
  ASSERT_OK(hologram_stream_cleanup(s));
  EXPECT_EQ(hologram_vector_add_f32_u64(s, x, y, c, n), HOLOGRAM_NOT_FOUND);
}

}  // namespace
}  // namespace hologram::test

// tests/capi/operations_test.cpp: every operation on buffers against double precision.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>
#include <random>

#include "support.h"

namespace hologram::test {
namespace {

using HostOperations = CapiTest;
class Operations : public DeviceTest {
 protected:
  std::vector<size_t> sizes() const {
    return {1, 2, 7, 31, 64, 1023, 1024, 1025, 3072, 3073, slow() ? 20'003u : 1'000'003u};
  }
};
HOLOGRAM_ON_EVERY_DEVICE(Operations);
const float inf = INFINITY, nan = NAN;

std::vector<float> random_values(size_t n, unsigned seed, float low = -4, float high = 4) {
  std::mt19937 rng(seed);
  std::uniform_real_distribution<float> draw(low, high);
  std::vector<float> v(n);
  for (float& x : v) x = draw(rng);
  return v;
}

using Binary = hologram_status (*)(hologram_handle, hologram_handle, hologram_handle,
                                   hologram_handle, uint32_t);
using Unary = hologram_status (*)(hologram_handle, hologram_handle, hologram_handle, uint32_t);

bool same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, 4) == 0;
}

TEST_P(Operations, BinaryOnesAreExactAtEverySize) {
  const struct {
    Binary call;
    float (*reference)(float, float);
  } cases[] = {
      {hologram_vector_add_f32, [](float x, float y) { return x + y; }},
      {hologram_vector_sub_f32, [](float x, float y) { return x - y; }},
      {hologram_vector_mul_f32, [](float x, float y) { return x * y; }},
      {hologram_vector_div_f32, [](float x, float y) { return x / y; }},
      {hologram_vector_min_f32,
       [](float x, float y) { return std::isnan(x) || std::isnan(y) ? nan : std::min(x, y); }},
      {hologram_vector_max_f32,
       [](float x, float y) { return std::isnan(x) || std::isnan(y) ? nan : std::max(x, y); }}};
  for (size_t n : sizes()) {
    auto x = random_values(n, 1), y = random_values(n, 2);
    if (n >= 7) {
      x[0] = nan;
      y[1] = nan;
      x[2] = inf;
      y[3] = 0;
    }
    hologram_handle a = buffer(x), b = buffer(y), c = buffer(n);
    for (const auto& op : cases) {
      ASSERT_OK(op.call(exec, a, b, c, static_cast<uint32_t>(n)));
      const auto z = values(c);
      for (size_t i = 0; i < n; ++i)
        ASSERT_TRUE(same(z[i], op.reference(x[i], y[i]))) << n << " element " << i;
    }
    // In place.
    ASSERT_OK(hologram_vector_add_f32(exec, a, b, a, static_cast<uint32_t>(n)));
    const auto z = values(a);
    for (size_t i = 0; i < n; ++i) ASSERT_TRUE(same(z[i], x[i] + y[i])) << n << " element " << i;
    for (hologram_handle h : {a, b, c}) EXPECT_OK(hologram_buffer_cleanup(h));
  }
}

TEST_P(Operations, UnaryOnesAgreeWithDoublePrecision) {
  const struct {
    Unary call;
    double (*reference)(double);
    double ulps;
    double absolute = 0;
  } cases[] = {
      {hologram_vector_abs_f32, [](double x) { return std::fabs(x); }, 0},
      {hologram_vector_neg_f32, [](double x) { return -x; }, 0},
      {hologram_vector_relu_f32, [](double x) { return std::isnan(x) ? x : std::max(x, 0.0); }, 0},
      {hologram_sigmoid_f32, [](double x) { return 1 / (1 + std::exp(-x)); }, 1},
      {hologram_tanh_f32, [](double x) { return std::tanh(x); }, 1},
      {hologram_gelu_f32, [](double x) { return x / 2 * (1 + std::erf(x / std::numbers::sqrt2)); },
       4},
      {hologram_gelu_tanh_f32,
       [](double x) {
         return x / 2 *
                (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
       },
       1, 5e-7}};
  for (size_t n : sizes()) {
    auto x = random_values(n, 3);
    if (n >= 7) {
      x[0] = nan;
      x[1] = 1e4f;
      x[2] = -1e4f;
    }
    hologram_handle a = buffer(x), c = buffer(n);
    for (const auto& op : cases) {
      ASSERT_OK(op.call(exec, a, c, static_cast<uint32_t>(n)));
      const auto z = values(c);
      for (size_t i = 0; i < n; ++i) {
        const double want = op.reference(x[i]);
        if (std::isnan(want)) {
          ASSERT_TRUE(std::isnan(z[i])) << i;
          continue;
        }
        const auto rounded = static_cast<float>(want);
        const double ulp = std::max(
            1e-45, double{std::nextafter(std::fabs(rounded), inf)} - std::fabs(double{rounded}));
        ASSERT_LE(std::fabs(z[i] - want), std::max(op.absolute, (op.ulps + 0.51) * ulp))
            << "operation " << &op - cases << ", x = " << x[i] << ", size " << n;
      }
    }
    for (hologram_handle h : {a, c}) EXPECT_OK(hologram_buffer_cleanup(h));
  }
}

TEST_P(Operations, ScalarsAndClip) {
  const auto x = random_values(5000, 4);
  hologram_handle a = buffer(x), c = buffer(5000);
  ASSERT_OK(hologram_scalar_add_f32(exec, a, c, 5000, 1.5f));
  EXPECT_EQ(values(c)[4999], x[4999] + 1.5f);
  ASSERT_OK(hologram_scalar_mul_f32(exec, a, c, 5000, -3.0f));
  EXPECT_EQ(values(c)[4998], x[4998] * -3.0f);
  ASSERT_OK(hologram_vector_clip_f32(exec, a, c, 5000, -1.0f, 2.0f));
  const auto z = values(c);
  for (size_t i = 0; i < z.size(); ++i) ASSERT_EQ(z[i], std::clamp(x[i], -1.0f, 2.0f));
  EXPECT_EQ(hologram_vector_clip_f32(exec, a, c, 5000, 2.0f, -1.0f), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_EQ(hologram_vector_clip_f32(exec, a, c, 5000, nan, 1.0f), HOLOGRAM_INVALID_ARGUMENT);
}

TEST_P(Operations, SoftmaxSumsToOne) {
  for (size_t n : sizes()) {
    const auto x = random_values(n, 5, -10, 10);
    hologram_handle a = buffer(x), c = buffer(n);
    ASSERT_OK(hologram_softmax_f32(exec, a, c, static_cast<uint32_t>(n)));
    const auto z = values(c);
    double sum = 0, total = 0;
    for (float v : z) sum += v;
    EXPECT_NEAR(sum, 1, 1e-6) << n;
    for (float v : x) total += std::exp(double{v});
    EXPECT_NEAR(z[n / 2], std::exp(double{x[n / 2]}) / total, 2e-6 * z[n / 2]);
    ASSERT_OK(hologram_softmax_f32(exec, a, a, static_cast<uint32_t>(n)));
    EXPECT_EQ(values(a), z) << "in place";
  }
  hologram_handle a = buffer(std::vector<float>{1e4f, 1e4f});
  ASSERT_OK(hologram_softmax_f32(exec, a, a, 2));
  EXPECT_EQ(values(a), (std::vector<float>{0.5f, 0.5f}));
}

TEST_P(Operations, ReductionsReturnAndStore) {
  for (size_t n : sizes()) {
    auto x = random_values(n, 6);
    hologram_handle a = buffer(x), out = buffer(3);
    double sum = 0, size = 0;
    for (float v : x) {
      sum += v;
      size += std::fabs(v);
    }
    float r = 0;
    ASSERT_OK(hologram_reduce_sum_f32(exec, a, out, static_cast<uint32_t>(n), &r));
    EXPECT_NEAR(r, sum, 1e-7 * size + 1e-7) << n;
    EXPECT_EQ(values(out)[0], r);
    ASSERT_OK(hologram_reduce_min_f32(exec, a, out, static_cast<uint32_t>(n), &r));
    EXPECT_EQ(r, *std::min_element(x.begin(), x.end()));
    ASSERT_OK(hologram_reduce_max_f32(exec, a, out, static_cast<uint32_t>(n), nullptr));
    EXPECT_EQ(values(out)[0], *std::max_element(x.begin(), x.end()));
  }
  hologram_handle a = buffer(std::vector<float>{1, nan, 3}), out = buffer(1);
  float r = 0;
  ASSERT_OK(hologram_reduce_max_f32(exec, a, out, 3, &r));
  EXPECT_TRUE(std::isnan(r));
  ASSERT_OK(hologram_reduce_sum_f32(exec, a, out, 0, &r));
  EXPECT_EQ(r, 0);
  EXPECT_EQ(hologram_reduce_min_f32(exec, a, out, 0, &r), HOLOGRAM_INVALID_ARGUMENT);
}

TEST_P(Operations, LossesFollowTheirDefinitions) {
  const size_t n = 10'000;
  const auto p = random_values(n, 7, 0.01f, 0.99f), t = random_values(n, 8, 0, 1);
  hologram_handle a = buffer(p), b = buffer(t), out = buffer(1);
  double mse = 0, ce = 0, bce = 0;
  for (size_t i = 0; i < n; ++i) {
    const double x = p[i], y = t[i];
    mse += (x - y) * (x - y);
    ce -= y * std::log(x);
    bce -= y * std::log(x) + (1 - y) * std::log(1 - x);
  }
  float r = 0;
  ASSERT_OK(hologram_mse_loss_f32(exec, a, b, out, n, &r));
  EXPECT_NEAR(r, mse / n, 1e-6 * mse / n);
  ASSERT_OK(hologram_cross_entropy_loss_f32(exec, a, b, out, n, &r));
  EXPECT_NEAR(r, ce / n, 1e-6 * ce / n);
  ASSERT_OK(hologram_binary_cross_entropy_loss_f32(exec, a, b, out, n, &r));
  EXPECT_NEAR(r, bce / n, 1e-6 * bce / n);
  EXPECT_EQ(values(out)[0], r);
  // Certain predictions: logarithms stop at -100, and 0 log 0 counts as 0.
  hologram_handle q = buffer(std::vector<float>{0, 1}), u = buffer(std::vector<float>{1, 1});
  ASSERT_OK(hologram_binary_cross_entropy_loss_f32(exec, q, u, out, 2, &r));
  EXPECT_EQ(r, 50);
  ASSERT_OK(hologram_cross_entropy_loss_f32(exec, q, q, out, 2, &r));
  EXPECT_EQ(r, 0);
  EXPECT_EQ(hologram_mse_loss_f32(exec, a, b, out, 0, &r), HOLOGRAM_INVALID_ARGUMENT);
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
        float most = -inf;
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
  EXPECT_EQ(hologram_along_axis_f32(exec, "reduce_sum", a, a, UINT64_MAX, 2, 2),
            HOLOGRAM_INVALID_ARGUMENT);
}

TEST_P(Operations, GemmTakesRectangularSizes) {
  const uint32_t shapes[][3] = {{2, 3, 5},    {7, 1, 9}, {1, 8, 3},
                                {33, 17, 65}, {1, 1, 1}, {128, 96, 400}};
  for (const auto& [m, n, k] : shapes) {
    const auto x = random_values(m * k, 10), y = random_values(k * n, 11);
    hologram_handle a = buffer(x), b = buffer(y), c = buffer(m * n);
    ASSERT_OK(hologram_gemm_f32(exec, a, b, c, m, n, k));
    const auto z = values(c);
    for (uint32_t i = 0; i < m; ++i)
      for (uint32_t j = 0; j < n; ++j) {
        double want = 0, size = 0;
        for (uint32_t l = 0; l < k; ++l) {
          want += double{x[i * k + l]} * y[l * n + j];
          size += std::fabs(double{x[i * k + l]} * y[l * n + j]);
        }
        ASSERT_NEAR(z[i * n + j], want, 1e-6 * size) << m << " " << n << " " << k;
      }
    hologram_handle v = buffer(random_values(k, 12)), r = buffer(m);
    const auto w = values(v);
    ASSERT_OK(hologram_matvec_f32(exec, a, v, r, m, k));
    double want = 0;
    for (uint32_t l = 0; l < k; ++l) want += double{x[(m - 1) * k + l]} * w[l];
    EXPECT_NEAR(values(r)[m - 1], want, 1e-4);
  }
  hologram_handle a = buffer(6), c = buffer(4);
  EXPECT_EQ(hologram_gemm_f32(exec, a, a, c, 2, 2, 4), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_EQ(hologram_gemm_f32(exec, a, a, c, 0, 2, 2), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_EQ(hologram_gemm_f32(exec, a, a, a, 2, 2, 3), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_EQ(hologram_gemm_f32(exec, a, a, c, 65536, 65536, 65536), HOLOGRAM_INVALID_ARGUMENT);
}

TEST_P(Operations, OthersByNameAndDtype) {
  hologram_handle a = buffer(std::vector<float>{1, 4, 9, 0.25f}), c = buffer(4);
  ASSERT_OK(hologram_elementwise(exec, "sqrt", &a, 1, c, 4));
  EXPECT_EQ(values(c), (std::vector<float>{1, 2, 3, 0.5f}));
  hologram_handle i = buffer(std::vector<int32_t>{7, -7, 5, 1}, HOLOGRAM_I32),
                  d = buffer(std::vector<int32_t>{2, 2, 0, 1}, HOLOGRAM_I32),
                  q = buffer(4, HOLOGRAM_I32), less = buffer(4, HOLOGRAM_B8);
  const hologram_handle both[] = {i, d};
  EXPECT_EQ(hologram_elementwise(exec, "div", both, 2, q, 4), HOLOGRAM_DIVISION_BY_ZERO);
  EXPECT_EQ(values<int32_t>(q), (std::vector<int32_t>{3, -3, 0, 1}));
  ASSERT_OK(hologram_elementwise(exec, "lt", both, 2, less, 4));
  EXPECT_EQ(values<uint8_t>(less), (std::vector<uint8_t>{0, 1, 0, 0}));
  EXPECT_EQ(hologram_elementwise(exec, "lt", both, 2, q, 4), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_EQ(hologram_elementwise(exec, "no such thing", both, 2, q, 4), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_EQ(hologram_elementwise(exec, "clip", &a, 1, c, 4), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_EQ(hologram_elementwise(exec, "exp", &i, 1, q, 4), HOLOGRAM_INVALID_ARGUMENT)
      << "exp takes floats";
  ASSERT_OK(hologram_convert(exec, a, q, 4));
  EXPECT_EQ(values<int32_t>(q), (std::vector<int32_t>{1, 4, 9, 0}));
  uint32_t id = 0;
  ASSERT_OK(hologram_operation_id("exp2", &id));
  ASSERT_OK(hologram_elementwise_by_id(exec, id, &c, 1, c, 4));
  EXPECT_EQ(values(c)[2], 8);
  EXPECT_EQ(hologram_elementwise_by_id(exec, 100'000, &c, 1, c, 4), HOLOGRAM_INVALID_ARGUMENT);
}

TEST_P(Operations, HalfPrecisionRoundsEachResult) {
  const struct {
    hologram_dtype dtype;
    float step;  // between 1 and the next number
  } types[] = {{HOLOGRAM_F16, 1.0f / 1024}, {HOLOGRAM_BF16, 1.0f / 128}};
  for (const auto& t : types) {
    hologram_handle a = buffer(std::vector<float>{1, 2, 3, 1}),
                    b = buffer(std::vector<float>{t.step, 0.5f, 0.25f, t.step / 4});
    hologram_handle x = buffer(4, t.dtype), y = buffer(4, t.dtype), back = buffer(4);
    ASSERT_OK(hologram_convert(exec, a, x, 4));
    ASSERT_OK(hologram_convert(exec, b, y, 4));
    const hologram_handle both[] = {x, y};
    ASSERT_OK(hologram_elementwise(exec, "add", both, 2, x, 4));
    ASSERT_OK(hologram_convert(exec, x, back, 4));
    EXPECT_EQ(values(back), (std::vector<float>{1 + t.step, 2.5f, 3.25f, 1}));
    hologram_handle m = 0, p = 0, r = 0;
    ASSERT_OK(hologram_tensor_from_buffer(x, "[2, 2]", &m));
    ASSERT_OK(hologram_tensor_matmul(exec, m, m, &p));
    ASSERT_OK(hologram_tensor_buffer(p, &r));
    ASSERT_OK(hologram_convert(exec, r, back, 4));
    EXPECT_NEAR(values(back)[0], 1 + 2.5 * 3.25, 0.05);
  }
}

TEST_F(HostOperations, NothingIsCompiledForTheListedOnes) {
  hologram_statistics s{};
  s.struct_size = sizeof s;
  ASSERT_OK(hologram_stats(exec, &s));
  const uint64_t compiled = s.compiled_kernels, calls = s.kernel_calls;
  hologram_handle a = buffer(random_values(600, 13)), b = buffer(random_values(600, 14)),
                  c = buffer(600);
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
  ASSERT_OK(hologram_stats(exec, &s));
  EXPECT_EQ(s.compiled_kernels, compiled) << "an operation of the list needed the compiler";
  EXPECT_GE(s.kernel_calls, calls + 13);
  EXPECT_EQ(s.interpreted_calls, 0u);
}

TEST_F(HostOperations, AnInterpretedExecutorSaysSoAndLeavesTheSameBits) {
  std::vector<float> x(600), results[3];
  std::iota(x.begin(), x.end(), -300.0f);
  const char* const backends[] = {"cpu", "interp", "null"};
  for (int i = 0; i < 3; ++i) {
    hologram_handle e = 0;
    ASSERT_OK(hologram_new_executor_with_backend(backends[i], &e));
    hologram_handle in = 0, out = 0;
    ASSERT_OK(hologram_executor_allocate(e, HOLOGRAM_F32, 600, 0, &in));
    ASSERT_OK(hologram_executor_allocate(e, HOLOGRAM_F32, 600, 0, &out));
    ASSERT_OK(hologram_buffer_copy_from_bytes(e, in, x.data(), 2400));
    ASSERT_OK(hologram_vector_add_f32(e, in, in, out, 600));
    ASSERT_OK(hologram_softmax_f32(e, out, out, 600));
    results[i].resize(600);
    ASSERT_OK(hologram_buffer_to_bytes(e, out, results[i].data(), 2400, nullptr));
    hologram_statistics s{};
    s.struct_size = sizeof s;
    ASSERT_OK(hologram_stats(e, &s));
    EXPECT_GE(s.kernel_calls, 2u);
    EXPECT_EQ(s.interpreted_calls, i ? s.kernel_calls : 0u);
    EXPECT_EQ(results[i], results[0]) << backends[i];
    EXPECT_OK(hologram_executor_cleanup(e));
  }
}

TEST_P(Operations, MistakesAreNamed) {
  hologram_handle a = buffer(8), b = buffer(4), other = 0, foreign = 0;
  EXPECT_EQ(hologram_vector_add_f32(exec, a, b, a, 8), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_TRUE(message_has("hologram_vector_add_f32: input 1: the buffer has 4 elements"))
      << hologram_last_error();
  ASSERT_OK(new_executor(&other));
  ASSERT_OK(hologram_executor_allocate_buffer(other, 8, &foreign));
  EXPECT_EQ(hologram_vector_add_f32(exec, a, foreign, a, 8), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_TRUE(message_has("another executor")) << hologram_last_error();
  EXPECT_EQ(hologram_vector_abs_f32(exec, a, 0, 8), HOLOGRAM_NOT_FOUND);
  EXPECT_EQ(hologram_vector_abs_f32(a, a, a, 8), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_TRUE(message_has("kind executor")) << hologram_last_error();
  hologram_handle ints = buffer(8, HOLOGRAM_I32), part = 0;
  EXPECT_EQ(hologram_vector_abs_f32(exec, ints, a, 8), HOLOGRAM_INVALID_ARGUMENT);
  ASSERT_OK(hologram_buffer_slice(exec, a, 1, 6, &part));
  EXPECT_EQ(hologram_vector_neg_f32(exec, a, part, 6), HOLOGRAM_INVALID_ARGUMENT);
  EXPECT_TRUE(message_has("overlaps")) << hologram_last_error();
  EXPECT_OK(hologram_vector_neg_f32(exec, a, part, 1)) << "one element apart";
  EXPECT_EQ(hologram_softmax_f32(exec, a, part, 6), HOLOGRAM_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace hologram::test

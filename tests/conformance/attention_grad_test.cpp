// tests/conformance/attention_grad_test.cpp: gradients of 16-bit attention by bounds, on every backend
#include "codegen/attention_grad_sums.h"
#include "codegen/run_kernel.h"
#include "conformance/support.h"
#include "support/test.h"

namespace hologram::test {
namespace {

namespace grads = attention_grads;

double value_at(DType t, const std::vector<std::byte>& from, int64_t i) {
  const auto size = static_cast<size_t>(size_of(t));
  uint64_t bits = 0;
  std::memcpy(&bits, from.data() + static_cast<size_t>(i) * size, size);
  return ir::as_double(t, bits);
}

// Weights are rounded once, and each result.
void check_gradients(const grads::Case& c) {
  atlas::Program p = make_program(c);
  atlas::expand_math(p);
  Buffers data;
  for (Memory& m : random_operands(p, c.symbols())) {
    const auto* bytes = reinterpret_cast<const std::byte*>(m.data());
    data.emplace_back(bytes, bytes + m.size());
  }
  const float lowest = -INFINITY;  // the second row sees no key
  if (c.queries > 1) std::memcpy(data[grads::lse_buffer].data() + sizeof lowest, &lowest, sizeof lowest);
  const auto wanted =
      grads::gradients(c, [&](int buffer, DType t, int64_t i) { return value_at(t, data[static_cast<size_t>(buffer)], i); });
  const double bound = c.dtype == DType::bf16 ? 1.01 / 128 : 1.02 / 1024;
  const bool has[] = {c.dq, c.dk, c.dv};
  for (const std::string& backend : tried_backends()) {
    SCOPED_TRACE(testing::Message() << c << " on " << backend);
    std::string error;
    const Buffers got = run_on(*runtime_of(backend), p, c.symbols(), data, error);
    EXPECT_EQ(error, "");
    for (size_t r = 0; r < 3; ++r) {
      if (!has[r]) continue;
      double worst = 0;
      for (size_t i = 0; i < wanted[r].size(); ++i) {
        const grads::Sum& sum = wanted[r][i];
        const double found = value_at(c.dtype, got[grads::dq_buffer + r], static_cast<int64_t>(i));
        const double e = std::abs(found - sum.value) / std::max(sum.size, 1e-6);
        worst = std::max(worst, std::isnan(e) ? INFINITY : e);
      }
      EXPECT_LE(worst, bound) << r;
    }
  }
}

TEST(AttentionGradHalves, Sizes) {
  for (DType t : {DType::bf16, DType::f16}) {
    check_gradients({1, 1, 1, 1, 1, 1, false, grads::Score::plain, t});
    check_gradients({2, 1, 70, 40, 64, 64, false, grads::Score::plain, t});
    check_gradients({1, 1, 20, 130, 128, 128, false, grads::Score::plain, t});
    check_gradients({1, 1, 30, 33, 40, 20, false, grads::Score::plain, t});
    check_gradients({1, 1, 20, 20, 136, 16, false, grads::Score::plain, t});
  }
}

TEST(AttentionGradHalves, MasksMembersAndLayouts) {
  for (grads::Score score : {grads::Score::bias, grads::Score::keep, grads::Score::window, grads::Score::cap})
    check_gradients({1, 1, 100, 90, 16, 16, false, score, DType::bf16});
  check_gradients({1, 3, 70, 90, 32, 16, true, grads::Score::plain, DType::bf16});
  check_gradients({2, 2, 40, 50, 32, 32, false, grads::Score::plain, DType::bf16, false, true});
  check_gradients({1, 2, 33, 65, 16, 16, false, grads::Score::plain, DType::bf16, true});
}

TEST(AttentionGradHalves, SomeOfThem) {
  for (bool queries : {false, true})
    check_gradients({1, 2, 70, 40, 16, 16, false, grads::Score::plain, DType::bf16, false, false, queries, !queries, false});
}

}  // namespace
}  // namespace hologram::test

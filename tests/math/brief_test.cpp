// tests/math/brief_test.cpp: functions of bfloat16 numbers whose results are rounded to bfloat16, over all inputs.
#include "atlas/builder.h"
#include "run_body.h"
#include "support/test.h"

namespace hologram::atlas {
namespace {

// A function of a bfloat16, stored rounded; with `twice` as f32 too.
Program program_of(ir::Op op, bool twice) {
  Program p;
  p.block.emplace<LoopBlock>();
  p.buffers = {{DType::bf16, Access::read, Expr(8)}, {DType::bf16, Access::write, Expr(8)}, {DType::f32, Access::write, Expr(8)}};
  p.loop().axes = {{AxisKind::parallel, Expr(8)}};
  p.loop().parallel_rank = 1;
  p.loop().stages.push_back({StageKind::point, {}, {}, {}});
  BodyBuilder b(p.loop().stages[0].body);
  Val x = b.cast(b.load(0, DType::bf16, Expr::axis(0, 8)), DType::f32);
  Val y = b.op(op, x);
  b.store(1, Expr::axis(0, 8), b.cast(y, DType::bf16));
  if (twice) b.store(2, Expr::axis(0, 8), y);
  verify(p);
  expand_math(p);
  return p;
}

int arithmetic(const Program& p) {
  return static_cast<int>(std::ranges::count_if(p.loop().stages[0].body.instrs,
                                                [](const Instr& i) { return i.code == Code::arithmetic || i.code == Code::lookup; }));
}

// The f32 that the body stores after rounding, and before.
struct Results {
  float exact, rounded;
};
Results run(const Body& body, uint32_t bf16) {
  const std::vector<uint64_t> values = math::values_of(body, [&](int) { return uint64_t{bf16}; });
  Results results{};
  for (size_t id = 0; id < values.size(); ++id) {
    const Instr& i = body.instrs[id];
    if (i.code != Code::arithmetic || i.type != DType::bf16) continue;
    results.exact = std::bit_cast<float>(static_cast<uint32_t>(values[i.args[0]]));
    results.rounded = std::bit_cast<float>(static_cast<uint32_t>(values[id]) << 16);
  }
  return results;
}

// In units of the last place of a bfloat16.
double error_of(float got, double want) {
  int exponent = std::max(std::ilogb(want), -126);
  return std::abs(double{got} - want) / std::ldexp(1.0, exponent - 7);
}

TEST(BriefMath, IsShorterOnlyWhereTheResultIsRounded) {
  for (ir::Op op : {ir::Op::gelu, ir::Op::sin, ir::Op::cos}) {
    int brief = arithmetic(program_of(op, false)), whole = arithmetic(program_of(op, true));
    EXPECT_LT(brief + 5, whole) << ir::name_of(op);
  }
  EXPECT_LE(arithmetic(program_of(ir::Op::gelu, false)), 27);
}

// What a function makes of every bfloat16; before it is rounded, its error is at most `bound` for those up to `most`.
void expect_errors_within(ir::Op op, double bound, double (*function)(double), double most = INFINITY) {
  Program p = program_of(op, false);
  double worst = 0, at = 0;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float x = std::bit_cast<float>(bits << 16);
    const Results y = run(p.loop().stages[0].body, bits);
    const double want = function(x);
    if (!std::isfinite(want)) {
      EXPECT_TRUE(std::isnan(want) ? std::isnan(y.rounded) : y.rounded == want) << x;
    } else if (want == 0) {
      EXPECT_EQ(y.rounded, 0) << x;
      EXPECT_TRUE(x != 0 || std::signbit(y.rounded) == std::signbit(x)) << x;
    } else {
      const double error = error_of(y.exact, want);
      if (std::abs(x) <= most && error > worst) worst = error, at = x;
      EXPECT_LE(error_of(y.rounded, want), 0.55) << x;
    }
  }
  EXPECT_LE(worst, bound) << "at " << at;
}

TEST(BriefMath, AreExactOverAllInputs) {
  expect_errors_within(ir::Op::sin, 0.02, [](double x) { return std::sin(x); });
  expect_errors_within(ir::Op::cos, 0.02, [](double x) { return std::cos(x); });
  expect_errors_within(
      ir::Op::gelu, 0.06, [](double x) { return x == INFINITY ? x : 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }, 13.625);
}

}  // namespace
}  // namespace hologram::atlas

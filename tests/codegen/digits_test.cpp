// tests/codegen/digits_test.cpp: rows of float32 times scaled bytes and halves of bytes.
#include "atlas/builder.h"
#include "backend/cpu/compile.h"
#include "backend/cpu/products/plan.h"
#include "codegen/run_kernel.h"
#include "host/context.h"
#include "support/count.h"
#include "support/test.h"

namespace hologram::test::digits {
namespace {

using atlas::Access;
using atlas::AxisKind;
using atlas::BodyBuilder;
using atlas::Val;

enum class Point { none, of_floats, of_integers };
// Weights [k, n], bytes of two neighbours along k, or words of four bytes (Machine::word_columns); for each column and `group` of k a
// scale, and a number that is added behind it or taken from the bytes.
struct DigitCase {
  int64_t m, n, k, group;
  int bits = 8;
  bool zeros = false, symbolic = false, prologue = false, unsigned_bytes = false, high_first = false;
  Point point = Point::none;
  int64_t block = 0;  // columns that lie side by side in padded blocks; 0: all of them
  int precision = 0;
  bool words = false;
};

atlas::Program make_program(const DigitCase& c) {
  const Expr m = c.symbolic ? Expr::symbol(0) : Expr(c.m), n(c.n), k(c.k), groups(c.k / c.group);
  const DType stored = c.bits == 4 || c.unsigned_bytes ? DType::u8 : DType::i8;
  const int64_t block = c.words ? 32 : c.block, steps = c.k * c.bits / 8, of_byte = 8 / c.bits;
  atlas::Program p;
  p.num_symbols = c.symbolic ? 1 : 0;
  p.buffers = {{DType::f32, Access::read, m * k},
               {stored, Access::read, (block ? ceil_div(n, block) * Expr(block) : n) * Expr(steps)},
               {DType::f32, Access::read, groups * n},
               {DType::f32, Access::read, groups * n},
               {DType::f32, Access::write, m * n}};
  atlas::ProductBlock& b = p.block.emplace<atlas::ProductBlock>();
  b.axes = {{AxisKind::parallel, m}, {AxisKind::parallel, n}, {AxisKind::row, k}};
  b.operand_type = b.acc_type = DType::f32;
  b.precision = c.precision;
  const Expr im = Expr::axis(0, m), in = Expr::axis(1, n), ik = Expr::axis(2, k);
  BodyBuilder lhs(b.lhs);
  Val x = lhs.load(0, DType::f32, im * k + ik);
  lhs.finish(c.prologue ? lhs.add(x, x) : x);
  BodyBuilder rhs(b.rhs);
  const Expr row = floor_div(ik, Expr(of_byte)), inside = block ? mod(in, Expr(block)) : in, part = floor_div(inside, Expr(16));
  Expr place = block ? (floor_div(in, Expr(block)) * Expr(steps) + row) * Expr(block) + inside : row * n + in;
  if (c.words)
    place = floor_div(in, Expr(block)) * Expr(steps * block) + (part * Expr(steps / 4) + floor_div(row, Expr(4))) * Expr(64) +
            (inside - part * Expr(16)) * Expr(4) + floor_div(mod(ik, Expr(4 * of_byte)), Expr(of_byte));
  Val w, byte = rhs.load(1, stored, place);
  if (c.bits == 4) {
    Val low = rhs.op(ir::Op::bit_and, byte, rhs.integer(stored, 15));
    Val high = rhs.op(ir::Op::shr, byte, rhs.integer(stored, 4));
    if (c.high_first) std::swap(low, high);
    Val first = rhs.lt(rhs.index(mod(ik, Expr(2))), rhs.integer(DType::i64, 1));
    w = rhs.select(first, low, high);
  } else {
    w = byte;
  }
  const Expr at = floor_div(ik, Expr(c.group)) * n + in;
  const DType type = c.point == Point::of_integers ? DType::i32 : DType::f32;
  w = rhs.cast(w, type);
  if (c.point == Point::of_floats) w = rhs.sub(w, rhs.load(3, DType::f32, at));
  if (c.point == Point::of_integers) w = rhs.cast(rhs.sub(w, rhs.cast(rhs.load(3, DType::f32, at), type)), DType::f32);
  if (c.point == Point::none && c.bits == 4) w = rhs.sub(w, rhs.number(DType::f32, 8));
  w = rhs.mul(w, rhs.load(2, DType::f32, at));
  if (c.zeros) w = rhs.add(w, rhs.load(3, DType::f32, at));
  rhs.finish(w);
  BodyBuilder e(b.epilogue);
  e.store(4, im * n + in, e.accumulator(0, DType::f32));
  return p;
}

class Digits : public testing::TestWithParam<std::tuple<cpu::Isa, bool>> {
 protected:
  void SetUp() override {
    const auto [isa, dots] = GetParam();
    target_ = cpu::generic_target(isa);
    if (dots) target_ = cpu::with_dots_of_host(target_);
    if (dots ? !target_.i8_dots : isa != cpu::Isa::avx2) GTEST_SKIP() << "no such instructions";
  }

  // Whether such products are sums of digits here: without dot instructions, few rows by halves of bytes, or by bytes if of two digits.
  bool serves(const DigitCase& c) const {
    return target_.i8_dots || (c.m <= (c.precision ? 8 : 3) && !c.symbolic && (c.bits == 4 || c.precision));
  }
  atlas::Program program(DigitCase c) const {
    c.words = !target_.i8_dots;
    return make_program(c);
  }

  // The rows as `edit` leaves whole ones from -99 to 99, and what compiled code and the interpreter make of them. Scales are whole too.
  void run(const DigitCase& c, const std::function<void(float*)>& edit = nullptr) {
    const atlas::Program p = program(c);
    ASSERT_EQ(cpu::plan_digit_product(p, target_).has_value(), serves(c));
    std::vector<int64_t> syms;
    if (c.symbolic) syms = {c.m};
    std::mt19937_64 random(5);
    memory_.clear();
    for (const atlas::Buffer& b : p.buffers) memory_.emplace_back(static_cast<size_t>(b.extent.eval(syms) * size_of(b.dtype)));
    auto draw = [&](float* to, size_t count, int low, int high) {
      for (size_t i = 0; i < count; ++i) to[i] = static_cast<float>(std::uniform_int_distribution<int>(low, high)(random));
    };
    for (size_t i : {0, 2, 3}) draw(memory_[i].as<float>(), memory_[i].size() / 4, i == 0 ? -99 : 1, i == 0 ? 99 : 3);
    for (size_t i = 0; i < memory_[1].size(); ++i) memory_[1].data()[i] = static_cast<char>(random());
    if (edit) edit(memory_[0].as<float>());
    Memory wanted = interpreted(p, memory_, syms);
    expected_.assign(wanted.as<float>(), wanted.as<float>() + wanted.size() / 4);
    expect_run(Compiled(p, target_), memory_, syms, 1);
    got_ = memory_[4].as<float>();
  }

  // The largest difference of a row's results, in sums of |x w|.
  double apart(const DigitCase& c, int64_t row) {
    double largest = 0, scale = 0;
    for (int64_t n = 0; n < c.n; ++n) {
      const auto at = static_cast<size_t>(row * c.n + n);
      largest = std::max(largest, std::abs(double{got_[at]} - expected_[at]));
      scale = std::max(scale, std::abs(double{expected_[at]}));
    }
    return largest / scale;
  }

  cpu::Target target_;
  std::vector<Memory> memory_;
  std::vector<float> expected_;
  float* got_ = nullptr;
};

const std::vector<DigitCase> digit_cases{{1, 64, 64, 64},
                                         {2, 192, 400, 400, 8, true},
                                         {3, 64, 96, 32, 8, false, false, true},
                                         {5, 128, 36, 36, 8, false, false, false, true},
                                         {1, 64, 392, 392, 4},
                                         {2, 64, 128, 32, 4, true},
                                         {7, 64, 128, 64, 4, false, false, false, false, true},
                                         {16, 64, 72, 24, 4, true, false, true},
                                         {70, 64, 64, 64, 4, false, true},
                                         {67, 128, 768, 256, 8, true, true},
                                         {2, 64, 128, 32, 4, false, false, false, false, false, Point::of_floats},
                                         {1, 64, 96, 96, 8, true, false, false, true, false, Point::of_integers},
                                         {1, 139, 64, 64, 4},
                                         {1, 139, 120, 24, 4, true, false, false, false, false, Point::none, 64},
                                         {9, 30, 48, 16, 8, true},
                                         {8, 139, 120, 24, 4, true, false, false, false, false, Point::none, 64, 1},
                                         {9, 64, 128, 64, 8, true, false, false, false, false, Point::none, 0, 2},
                                         {8, 139, 120, 24, 8, true, false, false, false, false, Point::none, 0, 1},
                                         {5, 70, 384, 384, 8, false, false, true, true, false, Point::of_integers, 0, 1},
                                         {3, 96, 128, 32, 4, false, false, true, false, true, Point::of_floats, 0, 1}};

// Whole numbers have the interpreter's bits: nothing of them is rounded.
TEST_P(Digits, whole_numbers_are_exact) {
  for (const DigitCase& c : digit_cases) {
    if (!serves(c)) continue;
    SCOPED_TRACE(testing::Message() << c.m << 'x' << c.n << 'x' << c.k << " bits " << c.bits);
    run(c);
    for (size_t i = 0; i < expected_.size(); ++i) ASSERT_EQ(got_[i], expected_[i]) << i;
  }
}

TEST_P(Digits, a_row_keeps_22_bits_below_its_largest_value_or_14) {
  for (int precision : {0, 1}) {
    const DigitCase c{.m = target_.i8_dots ? 6 : 3, .n = 128, .k = 128, .group = 64, .bits = 4, .zeros = true, .precision = precision};
    run(c, [&](float* x) {
      std::mt19937_64 random(3);
      std::normal_distribution<float> normal;
      const float sizes[] = {1, 1e30F, 1e-30F, 1e-38F, 1, 1};
      for (int64_t i = 0; i < c.m * c.k; ++i) x[i] = normal(random) * sizes[i / c.k];
      if (c.m == 3) return;
      x[4 * c.k + 3] = 1000;  // beside others of about 1
      for (int64_t i = 0; i < c.k; ++i) x[5 * c.k + i] = 0;
      x[5 * c.k] = 0x1p-149F;
    });
    for (int64_t r = 0; r < c.m; ++r) {
      EXPECT_LT(apart(c, r), precision ? 3e-4 : 1e-6) << r;
      EXPECT_EQ(r < 3 && apart(c, r) > 2e-6, precision > 0 && r < 3) << r;
    }
  }
}

// Such a row is computed as the expression says, and no other.
TEST_P(Digits, infinities_and_overflow) {
  const DigitCase c{target_.i8_dots ? 5 : 3, 64, 128, 32, target_.i8_dots ? 8 : 4};
  constexpr float infinity = std::numeric_limits<float>::infinity();
  run(c, [&](float* x) {
    x[3] = infinity;
    x[c.k + 100] = std::numeric_limits<float>::quiet_NaN();
    if (c.m == 3) return;
    x[3 * c.k + 5] = -infinity;
    x[3 * c.k + 70] = infinity;
    for (int64_t i = 0; i < c.k; ++i) x[4 * c.k + i] = 3e38F;
  });
  for (size_t i = 0; i < expected_.size(); ++i) {
    const bool both = std::isnan(got_[i]) && std::isnan(expected_[i]);
    ASSERT_TRUE(both || got_[i] == expected_[i]) << i << ": " << got_[i] << ", " << expected_[i];
  }
}

TEST_P(Digits, two_threads_have_as_many_units) {
  const cpu::Launch l = cpu::launch_of(program({1, 768, 768, 64, 4}), target_);
  EXPECT_EQ(2 * host::chunk_of(l.total.eval({}), l.grain.eval({}), l.unit_work.eval({}), 2), l.total.eval({}));
}

// Weights by four loads, scales and what the epilogue reads of four lines each at AVX-512.
TEST_P(Digits, few_rows_fetch_scales_and_weights_ahead_unless_hardware_alone_is_faster) {
  auto fetches = [&](int64_t m) { return count_of(cpu::dump_asm(program({m, 128, 128, 64, 4}), target_), "prefetcht0"); };
  EXPECT_GE(fetches(1), 4 + target_.vector_bytes / 16);
  EXPECT_EQ(fetches(70), 0);
  target_.processor = cpu::find_processor("zen4");
  EXPECT_EQ(fetches(1), 0);
}

// Two rows' sums, and what they are multiplied by, are as many vectors as AVX-512 has registers.
TEST_P(Digits, sums_of_many_rows_stay_in_registers) {
  if (target_.vector_bytes != 64) GTEST_SKIP() << "one row at a time";
  std::istringstream text(cpu::dump_asm(make_program({70, 64, 128, 64, 4}), target_));
  int dots = 0, most = 0, in_memory = 0, worst = 0;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with(".L")) dots = in_memory = 0;  // a loop begins
    dots += line.find("vpdpbusd") != std::string::npos;
    in_memory += line.find("(%rsp)") != std::string::npos;
    if (!line.starts_with("\tj") || dots < 24) continue;
    most = std::max(most, dots);
    worst = std::max(worst, in_memory);
    dots = in_memory = 0;
  }
  EXPECT_EQ(most, 48);  // 8 vectors of weights, three digits, two rows
  EXPECT_EQ(worst, 0);
}

TEST_P(Digits, other_products_keep_their_order) {
  auto digits = [&](const DigitCase& c, bool reproducible, bool dots) {
    atlas::Program p = make_program(c);
    p.product().reproducible = reproducible;
    cpu::Target target = target_;
    target.i8_dots = dots;
    return cpu::plan_digit_product(p, target).has_value();
  };
  EXPECT_EQ(digits({1, 64, 64, 64}, false, target_.i8_dots), target_.i8_dots);
  EXPECT_FALSE(digits({1, 64, 64, 64, 4}, true, target_.i8_dots));
  EXPECT_EQ(digits({9, 64, 64, 64, 4}, false, target_.i8_dots), target_.i8_dots);
  EXPECT_FALSE(digits({1, 64, 64, 64}, false, false));
  EXPECT_FALSE(digits({1, 64, 60, 60, 4}, false, target_.i8_dots));  // no whole words
}

INSTANTIATE_TEST_SUITE_P(isa, Digits, testing::Combine(testing::ValuesIn(runnable_isas()), testing::Bool()), [](const auto& info) {
  return fmt::format("{}{}", cpu::name_of(std::get<0>(info.param)), std::get<1>(info.param) ? "_dots" : "");
});

}  // namespace
}  // namespace hologram::test::digits

// tests/atlas/lane_test.cpp: what each instruction of lane programs does.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "atlas/lanes.h"
#include "ir/scalar.h"
#include "same.h"

namespace hologram::test {
namespace {

uint64_t mask(DType t) { return ~uint64_t{0} >> (64 - 8 * size_of(t)); }

std::vector<uint64_t> boundary_values(DType t) {
  if (is_float(t)) {
    std::vector<uint64_t> v;
    double inf = std::numeric_limits<double>::infinity();
    for (double x : {0.0, -0.0, 1.0, -2.5, inf, -inf, double(NAN), 1e-40, 65504.0, -3e38, 1e19}) v.push_back(ir::bits_of(t, x));
    return v;
  }
  uint64_t top = (mask(t) >> 1) + 1;
  return {0, 1, mask(t), top, top - 1, 3, 100};
}

TEST(LaneConformance, EveryInstructionWithEveryType) {
  int legal = 0, illegal = 0;
  for (int k = 0; k < num_lane_ops; ++k) {
    auto op = static_cast<LaneOp>(k);
    if (info(op).types == LaneTypes::none) continue;
    for (DType t : all12) {
      std::string variant = op == LaneOp::set ? "lt" : "";
      LaneProgram p = lane(instruction_text(op, t, variant) + "\nend:\n");
      std::string found = fault([&] { check_structure(p); });
      EXPECT_EQ(found, has_type(info(op).types, t) ? "" : "UnsupportedOperation") << disassemble(p.instrs[0], p);
      (found.empty() ? legal : illegal)++;
    }
  }
  EXPECT_EQ(num_lane_ops, 60);
  EXPECT_EQ(legal + illegal, 42 * 12);
  EXPECT_EQ(legal, 8 * 12 + 9 * 10 + 6 * 8 + 2 * 6 + 5 * 4 + 12 * 2);
}

TEST(LaneConformance, EachReadOperandMustBeInitialisedAndOfItsType) {
  int reads = 0;
  for (int k = 0; k < num_lane_ops; ++k) {
    auto op = static_cast<LaneOp>(k);
    const LaneOpInfo& row = info(op);
    DType t = row.types == LaneTypes::none ? DType::host : has_type(row.types, DType::i32) ? DType::i32 : DType::f64;
    std::string text = instruction_text(op, t, op == LaneOp::set ? "eq" : op == LaneOp::memfence ? ".block" : "");
    std::string body = text + "\nend:\n";
    // What each register must hold.
    std::vector<std::string> setup;
    int reg = 1;
    for (const LaneOperand& o : row.operands) {
      using Role = LaneOperand::Role;
      if (o.role == Role::range) {
        for (int n : {1, 2}) setup.push_back(fmt::format("mov_imm.{} r{}, 0", hologram::name_of(t), n));
      } else if (o.role == Role::read || o.role == Role::modified || o.role == Role::optional) {
        if (o.of == LaneOperand::Of::predicate) {
          setup.push_back("seteq.u32 p0, r252, r252");
        } else {
          DType type = o.of == LaneOperand::Of::fixed ? o.fixed : t;
          setup.push_back(fmt::format("mov_imm.{} r{}, 1", hologram::name_of(type), reg++));
        }
      }
    }
    for (size_t missing = 0; missing < setup.size(); ++missing) {
      std::string without, wrong;
      bool predicate = setup[missing].starts_with("set");
      for (size_t j = 0; j < setup.size(); ++j) {
        std::string line = setup[j];
        if (j != missing) without += line + "\n";
        if (j == missing && !predicate) {
          size_t dot = line.find('.'), space = line.find(' ');
          line.replace(dot + 1, space - dot - 1, "u16");
        }
        wrong += line + "\n";
      }
      ++reads;
      bool unread = op == LaneOp::sel && missing == 2;  // the predicate is true
      std::string what = predicate ? "UninitializedPredicate" : "UninitializedRegister";
      EXPECT_EQ(run_fault(without + body), unread ? "" : what) << without + body;
      // sel's sides may be uninitialised as far as the verifier knows: only one of them is read.
      bool optional = op == LaneOp::sel && missing > 0;
      EXPECT_EQ(verify_fault(without + body), optional ? "" : what) << without + body;
      if (predicate) continue;
      EXPECT_EQ(run_fault(wrong + body), unread ? "" : "TypeMismatch") << wrong + body;
      EXPECT_EQ(verify_fault(wrong + body), "TypeMismatch") << wrong + body;
    }
    // Complete, it verifies.
    std::string all;
    for (const std::string& s : setup) all += s + "\n";
    EXPECT_EQ(verify_fault(all + body), "") << all + body;
  }
  EXPECT_GT(reads, 70);
}

TEST(LaneConformance, ArithmeticIsThatOfBodies) {
  struct Case {
    std::string text;
    LaneOp op;
    ir::Op scalar;
    int operands;
  };
  std::vector<Case> cases = {
      {"add", LaneOp::add, ir::Op::add, 2},    {"sub", LaneOp::sub, ir::Op::sub, 2},      {"mul", LaneOp::mul, ir::Op::mul, 2},
      {"div", LaneOp::div, ir::Op::div, 2},    {"min", LaneOp::min, ir::Op::minnum, 2},   {"max", LaneOp::max, ir::Op::maxnum, 2},
      {"abs", LaneOp::abs, ir::Op::abs, 1},    {"neg", LaneOp::neg, ir::Op::neg, 1},      {"and", LaneOp::and_, ir::Op::bit_and, 2},
      {"or", LaneOp::or_, ir::Op::bit_or, 2},  {"xor", LaneOp::xor_, ir::Op::bit_xor, 2}, {"not", LaneOp::not_, ir::Op::bit_not, 1},
      {"sqrt", LaneOp::sqrt, ir::Op::sqrt, 1},
  };
  for (const Case& c : cases)
    for (DType t : all12) {
      if (!has_type(info(c.op).types, t)) continue;
      std::string type(hologram::name_of(t));
      std::string text = fmt::format(
          "ldg.{0} r1, [buf1 + 0]\nldg.{0} r2, [buf1 + 8]\n{1}.{0} r0, r1{2}\nstg.{0} [buf1 + 16], "
          "r0\n",
          type, c.text, c.operands == 2 ? ", r2" : "");
      for (uint64_t x : boundary_values(t))
        for (uint64_t y : boundary_values(t)) {
          bool error = false;
          std::array<uint64_t, 2> args{x, y};
          uint64_t want = ir::eval_scalar(c.scalar, t, std::span(args).first(static_cast<size_t>(c.operands)), t, &error);
          if (error) {
            EXPECT_EQ(run_fault(text, {x, y, 0}), "DivisionByZero");
            continue;
          }
          ASSERT_TRUE(same(t, run_words(text, {x, y, 0})[2], want)) << text << x << " " << y;
        }
    }
}

TEST(LaneConformance, Comparisons) {
  auto holds = [](std::string_view cc, DType t, uint64_t x, uint64_t y) {
    std::string type(hologram::name_of(t));
    return run_words(fmt::format("ldg.{0} r1, [buf1 + 0]\nldg.{0} r2, [buf1 + 8]\nset{1}.{0} p3, r1, r2\n"
                                 "mov_imm.u64 r3, 1\nmov_imm.u64 r4, 0\nsel.u64 r5, p3, r3, r4\nstg.u64 "
                                 "[buf1 + 16], r5\n",
                                 type, cc),
                     {x, y, 7})[2] == 1;
  };
  for (DType t : all12) {
    if (!has_type(LaneTypes::all10, t)) continue;
    for (uint64_t x : boundary_values(t))
      for (uint64_t y : boundary_values(t)) {
        double a = ir::as_double(t, x), b = ir::as_double(t, y);
        if (t == DType::i64 || t == DType::u64) continue;  // doubles do not hold them: below
        EXPECT_EQ(holds("eq", t, x, y), a == b);
        EXPECT_EQ(holds("ne", t, x, y), a != b);
        EXPECT_EQ(holds("lt", t, x, y), a < b);
        EXPECT_EQ(holds("le", t, x, y), a <= b);
        EXPECT_EQ(holds("gt", t, x, y), a > b);
        EXPECT_EQ(holds("ge", t, x, y), a >= b);
        if (is_float(t)) continue;
        EXPECT_EQ(holds("ltu", t, x, y), x < y);
        EXPECT_EQ(holds("leu", t, x, y), x <= y);
        EXPECT_EQ(holds("gtu", t, x, y), x > y);
        EXPECT_EQ(holds("geu", t, x, y), x >= y);
      }
  }
  EXPECT_TRUE(holds("lt", DType::i64, ~uint64_t{0}, 0));
  EXPECT_TRUE(holds("gtu", DType::i64, ~uint64_t{0}, 0));
  EXPECT_TRUE(holds("gt", DType::u64, ~uint64_t{0}, 0));
  EXPECT_EQ(verify_fault("ldg.f32 r0, [buf1]\nsetltu.f32 p0, r0, r0\n"), "UnsupportedOperation");
}

TEST(LaneConformance, ConversionsBetweenAllPairs) {
  for (DType from : all12)
    for (DType to : all12)
      for (uint64_t x : boundary_values(from)) {
        std::string text =
            fmt::format("ldg.{0} r1, [buf1]\ncvt.{1}.{0} r2, r1\nstg.{1} [buf1 + 8], r2\n", hologram::name_of(from), hologram::name_of(to));
        uint64_t want = from == to ? x : ir::eval_scalar(ir::Op::cast, from, std::array{x}, to);
        ASSERT_TRUE(same(to, run_words(text, {x, 0})[1], want)) << text << x;
      }
  // Saturation, NaN and wrapping in plain numbers.
  auto f32 = [](float x) { return uint64_t{std::bit_cast<uint32_t>(x)}; };
  auto convert = [](std::string_view types, uint64_t x, std::string_view from, std::string_view to) {
    return run_words(fmt::format("ldg.{1} r1, [buf1]\ncvt.{0} r2, r1\nstg.{2} [buf1 + 8], r2\n", types, from, to), {x, 0})[1];
  };
  EXPECT_EQ(convert("i32.f32", f32(3e9f), "f32", "i32"), 0x7fffffffu);
  EXPECT_EQ(convert("u8.f32", f32(-5.0f), "f32", "u8"), 0u);
  EXPECT_EQ(convert("i64.f32", f32(NAN), "f32", "i64"), 0u);
  EXPECT_EQ(convert("i8.i32", 0x1ff, "i32", "i8"), 0xffu);
  EXPECT_EQ(convert("u32.i32", 0xffffffff, "i32", "u32"), 0xffffffffu);
  EXPECT_EQ(convert("bf16.f32", f32(1.00390625f), "f32", "bf16"), 0x3f80u);  // a tie goes to even
}

TEST(LaneConformance, MadRoundsTwiceAndFmaOnce) {
  float x = 1.0f + 0x1p-23f, c = -1.0f - 0x1p-22f;
  auto word = [](float f) { return uint64_t{std::bit_cast<uint32_t>(f)}; };
  std::string text =
      "ldg.f32 r1, [buf1]\nldg.f32 r2, [buf1 + 8]\nmad.f32 r3, r1, r1, r2\nfma.f32 r4, r1, r1, r2\n"
      "stg.f32 [buf1 + 16], r3\nstg.f32 [buf1 + 24], r4\n";
  auto out = run_words(text, {word(x), word(c), 0, 0});
  EXPECT_EQ(out[2], word(0.0f));
  EXPECT_EQ(out[3], word(0x1p-46f));
  EXPECT_EQ(run_words("ldg.i32 r1, [buf1]\nmad.i32 r2, r1, r1, r1\nstg.i32 [buf1 + 8], r2\n", {0x7fffffff, 0})[1], 0x80000000u);
}

TEST(LaneConformance, ShiftsTakeTheAmountModuloTheWidth) {
  auto shift = [](std::string_view op, uint64_t x, uint64_t amount, std::string_view type) {
    return run_words(fmt::format("ldg.{0} r1, [buf1]\nldg.u32 r2, [buf1 + 8]\n{1}.{0} r3, r1, "
                                 "r2\nstg.{0} [buf1 + 16], r3\n",
                                 type, op),
                     {x, amount, 0})[2];
  };
  EXPECT_EQ(shift("shl", 1, 9, "u8"), 2u);
  EXPECT_EQ(shift("shl", 1, 64, "i64"), 1u);
  EXPECT_EQ(shift("shr", 0x80, 7, "i8"), 0xffu);
  EXPECT_EQ(shift("shr", 0x80, 7, "u8"), 1u);
  EXPECT_EQ(shift("shr", 0x8000, 31, "i16"), 0xffffu);
}

TEST(LaneConformance, RegisterReductions) {
  std::string fill = "mov_imm.i32 r10, 5\nmov_imm.i32 r11, -3\nmov_imm.i32 r12, 4\n";
  auto reduce = [&](std::string_view op, int count) {
    return static_cast<int32_t>(run_words(fill + fmt::format("reduce.{}.i32 r0, r10, {}\nstg.i32 [buf1], r0\n", op, count), {0})[0]);
  };
  EXPECT_EQ(reduce("add", 3), 6);
  EXPECT_EQ(reduce("mul", 3), -60);
  EXPECT_EQ(reduce("min", 3), -3);
  EXPECT_EQ(reduce("max", 3), 5);
  EXPECT_EQ(reduce("add", 0), 0);
  EXPECT_EQ(reduce("mul", 0), 1);
  EXPECT_EQ(reduce("min", 0), std::numeric_limits<int32_t>::max());
  EXPECT_EQ(reduce("max", 0), std::numeric_limits<int32_t>::min());
  auto neutral = run_words(
      "reduce.min.f64 r0, r0, 0\nreduce.max.f64 r1, r0, 0\nstg.f64 [buf1], r0\nstg.f64 [buf1 + 8], "
      "r1\n");
  EXPECT_EQ(std::bit_cast<double>(neutral[0]), INFINITY);
  EXPECT_EQ(std::bit_cast<double>(neutral[1]), -INFINITY);
  EXPECT_EQ(verify_fault("reduce.add.i32 r0, r255, 2\n"), "InvalidRegister");
  EXPECT_EQ(verify_fault("reduce.add.i64 r0, r255, 1\n"), "TypeMismatch");  // r255 is u64
}

TEST(LaneConformance, TranscendentalsAreNearTheLibrary) {
  struct Case {
    const char* name;
    double (*f)(double);
  };
  std::vector<Case> cases = {{"exp", std::exp},
                             {"log", std::log},
                             {"log2", std::log2},
                             {"log10", std::log10},
                             {"sqrt", std::sqrt},
                             {"sin", std::sin},
                             {"cos", std::cos},
                             {"tan", std::tan},
                             {"tanh", std::tanh},
                             {"rsqrt", [](double x) { return 1 / std::sqrt(x); }},
                             {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }}};
  for (const Case& c : cases)
    for (double x : {0.25, 1.0, 2.5, 7.0}) {
      auto out = run_words(fmt::format("ldg.f64 r1, [buf1]\n{0}.f64 r2, r1\nstg.f64 [buf1 + 8], r2\n"
                                       "cvt.f32.f64 r3, r1\n{0}.f32 r4, r3\nstg.f32 [buf1 + 16], r4\n",
                                       c.name),
                           {std::bit_cast<uint64_t>(x), 0, 0});
      EXPECT_NEAR(std::bit_cast<double>(out[1]), c.f(x), 1e-14 * (1 + std::fabs(c.f(x)))) << c.name << x;
      EXPECT_NEAR(std::bit_cast<float>(static_cast<uint32_t>(out[2])), c.f(x), 3e-7 * (1 + std::fabs(c.f(x)))) << c.name << x;
    }
}

}  // namespace
}  // namespace hologram::test

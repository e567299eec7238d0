// tests/atlas/lane_test.cpp: lane programs: forms, verifier, and what instructions do.
#include "backend/interp/lane.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include "atlas/container.h"
#include "ir/scalar.h"
#include "same.h"

namespace hologram::test {
namespace {

using namespace atlas;
using interp::LaneLaunch;
using interp::LaneMemory;

constexpr DType all12[] = {DType::i8,  DType::i16, DType::i32, DType::i64,  DType::u8,  DType::u16,
                           DType::u32, DType::u64, DType::f16, DType::bf16, DType::f32, DType::f64};

LaneProgram lane(const std::string& text) { return assemble_lane("atlas lane 1\n" + text); }

template <class T>
std::span<std::byte> bytes(std::vector<T>& v) {
  return std::as_writable_bytes(std::span(v));
}

// The fault's name, or "" if `f` throws none.
template <class F>
std::string fault(F f) {
  try {
    f();
    return "";
  } catch (const LaneError& e) {
    EXPECT_TRUE(std::string_view(e.what()).starts_with(name_of(e.fault()))) << e.what();
    return std::string(name_of(e.fault()));
  }
}

std::string verify_fault(const std::string& text) {
  LaneProgram p = lane(text);
  return fault([&] { verify(p); });
}

std::string run_fault(const std::string& text,
                      std::vector<uint64_t> words = std::vector<uint64_t>(16),
                      LaneLaunch launch = {}) {
  LaneProgram p = lane(text);
  return fault([&] {
    LaneMemory m;
    m.buffers = {bytes(words)};
    interp::run(p, launch, m);
  });
}

// Runs verified text with one lane; buffer 1 is `words`, which it returns.
std::vector<uint64_t> run_words(const std::string& text,
                                std::vector<uint64_t> words = std::vector<uint64_t>(16),
                                LaneLaunch launch = {}) {
  LaneProgram p = lane(text);
  verify(p);
  LaneMemory m;
  m.buffers = {bytes(words)};
  interp::run(p, launch, m);
  return words;
}

uint64_t mask(DType t) { return ~uint64_t{0} >> (64 - 8 * size_of(t)); }

std::vector<uint64_t> boundary_values(DType t) {
  if (is_float(t)) {
    std::vector<uint64_t> v;
    double inf = std::numeric_limits<double>::infinity();
    for (double x : {0.0, -0.0, 1.0, -2.5, inf, -inf, double(NAN), 1e-40, 65504.0, -3e38, 1e19})
      v.push_back(ir::bits_of(t, x));
    return v;
  }
  uint64_t top = (mask(t) >> 1) + 1;
  return {0, 1, mask(t), top, top - 1, 3, 100};
}

// --- every instruction × every type

// The operands of `op` in text, with registers r0 (written), r1, r2, r3 (read); "" for what has no
// such form.
std::string instruction_text(LaneOp op, DType type, std::string_view variant = "") {
  const LaneOpInfo& row = info(op);
  std::string out(row.mnemonic);
  out += variant;
  if (row.types != LaneTypes::none) out += fmt::format(".{}", hologram::name_of(type));
  if (op == LaneOp::cvt) out += fmt::format(".{}", hologram::name_of(type));
  int read = 1;
  bool first = true;
  for (const LaneOperand& o : row.operands) {
    out += first ? " " : ", ";
    first = false;
    switch (o.role) {
      case LaneOperand::Role::address:
        out += op == LaneOp::lds || op == LaneOp::sts ? "[buf0 + 0]" : "[buf1 + 0]";
        break;
      case LaneOperand::Role::immediate:
        out += "1";
        break;
      case LaneOperand::Role::label:
        out += "@end";
        break;
      case LaneOperand::Role::range:
        out += "r1, 2";
        break;
      case LaneOperand::Role::written:
        out += o.of == LaneOperand::Of::predicate ? "p0" : "r0";
        break;
      default:
        out += o.of == LaneOperand::Of::predicate ? "p0" : fmt::format("r{}", read++);
    }
  }
  return out;
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
      EXPECT_EQ(found, has_type(info(op).types, t) ? "" : "UnsupportedOperation")
          << disassemble(p.instrs[0], p);
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
    DType t = row.types == LaneTypes::none      ? DType::host
              : has_type(row.types, DType::i32) ? DType::i32
                                                : DType::f64;
    std::string text = instruction_text(op, t,
                                        op == LaneOp::set        ? "eq"
                                        : op == LaneOp::memfence ? ".block"
                                                                 : "");
    std::string body = text + "\nend:\n";
    // What each register must hold.
    std::vector<std::string> setup;
    int reg = 1;
    for (const LaneOperand& o : row.operands) {
      using Role = LaneOperand::Role;
      if (o.role == Role::range) {
        for (int n : {1, 2})
          setup.push_back(fmt::format("mov_imm.{} r{}, 0", hologram::name_of(t), n));
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
      {"add", LaneOp::add, ir::Op::add, 2},      {"sub", LaneOp::sub, ir::Op::sub, 2},
      {"mul", LaneOp::mul, ir::Op::mul, 2},      {"div", LaneOp::div, ir::Op::div, 2},
      {"min", LaneOp::min, ir::Op::minnum, 2},   {"max", LaneOp::max, ir::Op::maxnum, 2},
      {"abs", LaneOp::abs, ir::Op::abs, 1},      {"neg", LaneOp::neg, ir::Op::neg, 1},
      {"and", LaneOp::and_, ir::Op::bit_and, 2}, {"or", LaneOp::or_, ir::Op::bit_or, 2},
      {"xor", LaneOp::xor_, ir::Op::bit_xor, 2}, {"not", LaneOp::not_, ir::Op::bit_not, 1},
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
          uint64_t want = ir::eval_scalar(
              c.scalar, t, std::span(args).first(static_cast<size_t>(c.operands)), t, &error);
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
    return run_words(
               fmt::format("ldg.{0} r1, [buf1 + 0]\nldg.{0} r2, [buf1 + 8]\nset{1}.{0} p3, r1, r2\n"
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
            fmt::format("ldg.{0} r1, [buf1]\ncvt.{1}.{0} r2, r1\nstg.{1} [buf1 + 8], r2\n",
                        hologram::name_of(from), hologram::name_of(to));
        uint64_t want = from == to ? x : ir::eval_scalar(ir::Op::cast, from, std::array{x}, to);
        ASSERT_TRUE(same(to, run_words(text, {x, 0})[1], want)) << text << x;
      }
  // Saturation, NaN and wrapping in plain numbers.
  auto f32 = [](float x) { return uint64_t{std::bit_cast<uint32_t>(x)}; };
  auto convert = [](std::string_view types, uint64_t x, std::string_view from,
                    std::string_view to) {
    return run_words(fmt::format("ldg.{1} r1, [buf1]\ncvt.{0} r2, r1\nstg.{2} [buf1 + 8], r2\n",
                                 types, from, to),
                     {x, 0})[1];
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
  EXPECT_EQ(run_words("ldg.i32 r1, [buf1]\nmad.i32 r2, r1, r1, r1\nstg.i32 [buf1 + 8], r2\n",
                      {0x7fffffff, 0})[1],
            0x80000000u);
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
    return static_cast<int32_t>(run_words(
        fill + fmt::format("reduce.{}.i32 r0, r10, {}\nstg.i32 [buf1], r0\n", op, count), {0})[0]);
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
      auto out =
          run_words(fmt::format("ldg.f64 r1, [buf1]\n{0}.f64 r2, r1\nstg.f64 [buf1 + 8], r2\n"
                                "cvt.f32.f64 r3, r1\n{0}.f32 r4, r3\nstg.f32 [buf1 + 16], r4\n",
                                c.name),
                    {std::bit_cast<uint64_t>(x), 0, 0});
      EXPECT_NEAR(std::bit_cast<double>(out[1]), c.f(x), 1e-14 * (1 + std::fabs(c.f(x))))
          << c.name << x;
      EXPECT_NEAR(std::bit_cast<float>(static_cast<uint32_t>(out[2])), c.f(x),
                  3e-7 * (1 + std::fabs(c.f(x))))
          << c.name << x;
    }
}

// --- control

// Counts the passes of a body that `loop` closes.
uint64_t passes(uint32_t n) {
  return run_words(fmt::format(
      "mov_imm.u32 r0, {}\nmov_imm.u64 r1, 0\nmov_imm.u64 r2, 1\nagain:\nadd.u64 r1, r1, r2\n"
      "loop r0, @again\nstg.u64 [buf1], r1\n",
      n))[0];
}

TEST(LaneControl, LoopJumpsWhileTheCounterIsAboveZero) {
  EXPECT_EQ(passes(0), 1u);
  EXPECT_EQ(passes(1), 2u);
  EXPECT_EQ(passes(2), 3u);
  EXPECT_EQ(passes(1000000), 1000001u);
}

TEST(LaneControl, NestedLoops) {
  EXPECT_EQ(
      run_words(
          "mov_imm.u32 r0, 4\nmov_imm.u64 r1, 0\nmov_imm.u64 r2, 1\n"
          "outer: mov_imm.u32 r3, 6\ninner: add.u64 r1, r1, r2\nloop r3, @inner\nloop r0, @outer\n"
          "stg.u64 [buf1], r1\n")[0],
      35u);
}

TEST(LaneControl, ConditionalBranches) {
  std::string text =
      "ldg.i32 r0, [buf1]\nmov_imm.i32 r1, 0\nsetlt.i32 p7, r0, r1\nbra.p7 @negative\n"
      "mov_imm.i32 r2, 1\nbra @store\nnegative: mov_imm.i32 r2, 2\nstore: stg.i32 [buf1 + 8], r2\n";
  EXPECT_EQ(run_words(text, {5, 0})[1], 1u);
  EXPECT_EQ(run_words(text, {0xffffffff, 0})[1], 2u);
}

TEST(LaneControl, CallsNestTo256) {
  // r0 calls deep: each level calls the next until the counter is 0.
  std::string text =
      "ldg.u32 r0, [buf1]\nmov_imm.u32 r1, 0\nmov_imm.u32 r2, 1\nmov_imm.u64 r3, 0\nmov_imm.u64 "
      "r4, 1\n"
      "call @f\nstg.u64 [buf1 + 8], r3\nexit\n"
      "f: sub.u32 r0, r0, r2\nadd.u64 r3, r3, r4\nseteq.u32 p0, r0, r1\nbra.p0 @done\ncall "
      "@f\ndone: ret\n";
  EXPECT_EQ(run_words(text, {1, 0})[1], 1u);
  EXPECT_EQ(run_words(text, {256, 0})[1], 256u);
  EXPECT_EQ(run_fault(text, {257, 0}), "CallStackOverflow");
  EXPECT_EQ(run_fault("ret\n"), "CallStackUnderflow");
}

TEST(LaneControl, SelfBranchMeetsTheStepLimit) {
  LaneLaunch limited;
  limited.max_steps = 1000;
  EXPECT_EQ(run_fault("here: bra @here\n", {0}, limited), "ExecutionError");
  EXPECT_EQ(run_fault("end:\n", {0}, limited), "");
  limited.grid = {1000, 1000, 1000};
  EXPECT_EQ(run_fault("", {0}, limited), "ExecutionError");
}

TEST(LaneControl, Labels) {
  EXPECT_EQ(verify_fault("bra @end\nend:\n"), "");
  EXPECT_EQ(verify_fault("bra @nowhere\n"), "UndefinedLabel");
  LaneProgram p = lane("bra @end\nend:\n");
  p.labels[0].target = 2;
  EXPECT_EQ(fault([&] { verify(p); }), "InvalidLabelTarget");
  p.labels = {{"end", 1}, {"end", 0}};
  EXPECT_EQ(fault([&] { verify(p); }), "DuplicateLabel");
  LaneProgram built;
  built.place("top");
  EXPECT_EQ(fault([&] { built.place("top"); }), "DuplicateLabel");
  try {
    lane("a:\nb:\na:\n");
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "line 4, column 3: DuplicateLabel: \"a\" stands at 0 already");
  }
}

// --- the verifier's paths

TEST(LaneVerify, InitialisationOnEveryPath) {
  std::string split = "seteq.u32 p0, r252, r253\nbra.p0 @b\nmov_imm.i32 r0, 1\nbra @join\n";
  EXPECT_EQ(verify_fault(split + "b: mov_imm.i32 r0, 2\njoin: add.i32 r1, r0, r0\n"), "");
  EXPECT_EQ(verify_fault(split + "b:\njoin: add.i32 r1, r0, r0\n"), "UninitializedRegister");
  EXPECT_EQ(verify_fault(split + "b: mov_imm.f32 r0, 2\njoin: add.i32 r1, r0, r0\n"),
            "UninitializedRegister");
  EXPECT_EQ(verify_fault(split + "b: exit\njoin: add.i32 r1, r0, r0\n"), "");
  // A loop's first pass counts.
  EXPECT_EQ(verify_fault(
                "mov_imm.u32 r0, 3\ntop: add.i32 r1, r2, r2\nmov_imm.i32 r2, 1\nloop r0, @top\n"),
            "UninitializedRegister");
  // Code that nothing reaches is not looked at.
  EXPECT_EQ(verify_fault("exit\nadd.i32 r0, r1, r2\n"), "");
}

TEST(LaneVerify, CallsWriteForTheirCallers) {
  std::string f = "f: mov_imm.i32 r5, 1\nret\n";
  EXPECT_EQ(verify_fault("call @f\nadd.i32 r6, r5, r5\nexit\n" + f), "");
  EXPECT_EQ(verify_fault("add.i32 r6, r5, r5\ncall @f\nexit\n" + f), "UninitializedRegister");
  // Registers that a function does not touch stay each caller's own.
  EXPECT_EQ(
      verify_fault("mov_imm.i32 r1, 1\ncall @f\nadd.i32 r6, r1, r5\nmov_imm.f32 r1, 1\ncall @f\n"
                   "add.f32 r7, r1, r1\nexit\n" +
                   f),
      "");
  // A function that changes a type changes it for every caller.
  EXPECT_EQ(verify_fault("mov_imm.f32 r5, 0\ncall @f\nadd.f32 r6, r5, r5\nexit\n" + f),
            "TypeMismatch");
  // A path through the function that leaves the register alone.
  EXPECT_EQ(
      verify_fault("call @g\nadd.i32 r6, r5, r5\nexit\ng: seteq.u32 p0, r252, r253\nbra.p0 @out\n"
                   "mov_imm.i32 r5, 1\nout: ret\n"),
      "UninitializedRegister");
  // What comes after a call that never returns is not reached.
  EXPECT_EQ(verify_fault("call @h\nadd.i32 r6, r5, r5\nh: exit\n"), "");
  // Through two levels.
  EXPECT_EQ(verify_fault("call @k\nadd.i32 r6, r5, r5\nexit\nk: call @f\nret\n" + f), "");
}

// --- memory

TEST(LaneMemoryForms, LastValidByteAndOneBeyond) {
  for (DType t : all12) {
    uint64_t size = static_cast<uint64_t>(size_of(t));
    std::string type(hologram::name_of(t));
    auto load = [&](uint64_t offset) {
      return run_fault(fmt::format("ldg.{} r0, [buf1 + {}]\n", type, offset));
    };
    auto store = [&](uint64_t offset) {
      return run_fault(fmt::format("mov_imm.{0} r0, 1\nstg.{0} [buf1 + {1}], r0\n", type, offset));
    };
    EXPECT_EQ(load(128 - size), "");
    EXPECT_EQ(load(128 - size + 1), "BufferOutOfBounds");
    EXPECT_EQ(load(~uint64_t{0}), "BufferOutOfBounds");
    EXPECT_EQ(store(128 - size), "");
    EXPECT_EQ(store(128 - size + 1), "BufferOutOfBounds");
  }
  EXPECT_EQ(run_fault("ldg.u8 r0, [buf2]\n"), "InvalidBufferHandle");
  EXPECT_EQ(run_fault("ldg.u8 r0, [buf0]\n"),
            "InvalidBufferHandle");  // no boundary pool in this launch
}

TEST(LaneMemoryForms, RegistersHoldHandlesAndOffsets) {
  std::vector<uint64_t> words = {11, 22, 33, 0};
  std::string head = "mov_imm.u64 r10, 1\nmov_imm.u64 r11, 16\n";
  EXPECT_EQ(run_words(head + "ldg.u64 r0, [r10 + 8]\nstg.u64 [buf1 + 24], r0\n", words)[3], 22u);
  EXPECT_EQ(run_words(head + "ldg.u64 r0, [r10 + r11]\nstg.u64 [buf1 + 24], r0\n", words)[3], 33u);
  EXPECT_EQ(run_fault(head + "ldg.u64 r0, [r10 - 8]\n", words), "BufferOutOfBounds");
  EXPECT_EQ(run_fault("ldg.u64 r0, [r10 + 8]\n", words), "UninitializedRegister");
  EXPECT_EQ(run_fault("mov_imm.u32 r10, 1\nldg.u64 r0, [r10 + 8]\n", words), "TypeMismatch");
  EXPECT_EQ(run_fault(head + "mov_imm.i64 r12, 0\nldg.u64 r0, [r10 + r12]\n", words),
            "TypeMismatch");
  EXPECT_EQ(verify_fault("mov_imm.u32 r10, 1\nldg.u64 r0, [r10 + 8]\n"), "TypeMismatch");
  EXPECT_EQ(verify_fault(head + "ldg.u64 r0, [r10 + r12]\n"), "UninitializedRegister");
}

std::string boundary_fault(const std::string& text, std::vector<std::byte>& pool) {
  LaneProgram p = lane(text);
  return fault([&] {
    verify(p);
    LaneMemory m;
    m.boundary = pool;
    interp::run(p, {}, m);
  });
}

TEST(LaneMemoryForms, BoundaryPoolCorners) {
  std::vector<std::byte> pool(boundary_bytes);
  std::string one = "mov_imm.u8 r0, 7\n", word = "mov_imm.u64 r0, 7\n";
  EXPECT_EQ(boundary_fault(one + "stg.u8 [Φ(0, 0, 0)], r0\nstg.u8 [phi(95, 47, 255)], r0\n", pool),
            "");
  EXPECT_EQ(pool.front(), std::byte{7});
  EXPECT_EQ(pool[1179647], std::byte{7});
  EXPECT_EQ(boundary_fault(one + "stg.u8 [Φ(96, 0, 0)], r0\n", pool), "InvalidClassIndex");
  EXPECT_EQ(boundary_fault(one + "stg.u8 [Φ(0, 48, 0)], r0\n", pool), "InvalidBoundaryCoordinates");
  EXPECT_EQ(boundary_fault(word + "stg.u64 [Φ(95, 47, 248)], r0\n", pool), "");
  EXPECT_EQ(boundary_fault(word + "stg.u64 [Φ(95, 47, 249)], r0\n", pool), "BufferOutOfBounds");
  EXPECT_EQ(boundary_fault(one + "stg.u8 [buf0 + 1179647], r0\n", pool), "");
  EXPECT_EQ(boundary_fault(one + "stg.u8 [buf0 + 1179648], r0\n", pool), "BufferOutOfBounds");
}

TEST(LaneMemoryForms, ClassHandles) {
  std::vector<std::byte> pool(boundary_bytes);
  EXPECT_EQ(class_handle(95), ~uint64_t{0});
  for (int c : {0, 1, 95}) {
    std::string store = "mov_imm.u8 r0, 9\nstg.u8 [buf{} + {}], r0\n";
    EXPECT_EQ(boundary_fault(fmt::format(fmt::runtime(store), class_handle(c), 12287), pool), "");
    EXPECT_EQ(pool[static_cast<size_t>(c) * 12288 + 12287], std::byte{9});
    EXPECT_EQ(boundary_fault(fmt::format(fmt::runtime(store), class_handle(c), 12288), pool),
              "BufferOutOfBounds");
  }
  EXPECT_EQ(boundary_fault(fmt::format("ldg.u8 r0, [buf{}]\n", class_handle(0) - 1), pool),
            "InvalidBufferHandle");
}

TEST(LaneMemoryForms, BoundMap) {
  auto map = [](int c, int page, int byte) {
    return fmt::format(
        "mov_imm.u8 r1, {}\nmov_imm.u8 r2, {}\nmov_imm.u8 r3, {}\nbound.map r0, r1, r2, "
        "r3\nstg.u64 [buf1], r0\n",
        c, page, byte);
  };
  EXPECT_EQ(run_words(map(0, 0, 0))[0], 0u);
  EXPECT_EQ(run_words(map(95, 47, 255))[0], 1179647u);
  EXPECT_EQ(run_words(map(5, 12, 200))[0], 5u * 12288 + 12 * 256 + 200);
  EXPECT_EQ(run_fault(map(96, 0, 0)), "InvalidClassIndex");
  EXPECT_EQ(run_fault(map(0, 48, 0)), "InvalidBoundaryCoordinates");
}

TEST(LaneMemoryForms, SharedMemoryIsTheBlocksOwn) {
  LaneLaunch launch;
  launch.shared_bytes = 16;
  EXPECT_EQ(run_fault("lds.u64 r0, [buf0 + 8]\n", {0}, launch), "");
  EXPECT_EQ(run_fault("lds.u64 r0, [buf0 + 9]\n", {0}, launch), "BufferOutOfBounds");
  EXPECT_EQ(verify_fault("lds.u64 r0, [buf1 + 8]\n"), "InvalidBufferHandle");
  EXPECT_EQ(verify_fault("lds.u64 r0, [Φ(0, 0, 0)]\n"), "InvalidMemoryAddress");
  // Zeroed for each block: every block adds 1 to what it finds, and finds 0.
  launch.grid.x = 3;
  auto out = run_words(
      "lds.u64 r0, [buf0]\nmov_imm.u64 r1, 1\nadd.u64 r0, r0, r1\nsts.u64 [buf0], r0\n"
      "mov_imm.u64 r5, 8\nmul.u64 r6, r255, r5\nmov_imm.u64 r7, 1\nstg.u64 [r7 + r6], r0\n",
      {0, 0, 0}, launch);
  EXPECT_EQ(out, (std::vector<uint64_t>{1, 1, 1}));
}

TEST(LanePools, AllocateUseAndFree) {
  EXPECT_EQ(
      run_words(
          "pool.alloc r0, 16\nmov_imm.u64 r1, 8\nmov_imm.i32 r2, -5\npool.store.i32 r0, r1, r2\n"
          "pool.load.i32 r3, r0, r1\nstg.i32 [buf1], r3\npool.free r0\n")[0],
      0xfffffffbu);
  std::string head = "pool.alloc r0, 16\nmov_imm.u64 r1, {}\n";
  auto at = [&](int offset) { return fmt::format(fmt::runtime(head), offset); };
  EXPECT_EQ(run_fault(at(8) + "pool.load.f64 r2, r0, r1\n"), "");
  EXPECT_EQ(run_fault(at(9) + "pool.load.f64 r2, r0, r1\n"), "PoolOutOfBounds");
  EXPECT_EQ(run_fault(at(16) + "mov_imm.u8 r2, 0\npool.store.u8 r0, r1, r2\n"), "PoolOutOfBounds");
  EXPECT_EQ(run_fault(at(0) + "pool.free r0\npool.load.u8 r2, r0, r1\n"), "InvalidPoolHandle");
  EXPECT_EQ(run_fault(at(0) + "pool.free r0\npool.free r0\n"), "InvalidPoolHandle");
  EXPECT_EQ(run_fault("mov_imm.u64 r0, 77\npool.free r0\n"), "InvalidPoolHandle");
  EXPECT_EQ(run_fault("pool.alloc r0, 18446744073709551615\n"), "OutOfMemory");
  LaneLaunch small;
  small.max_memory = 1 << 20;
  EXPECT_EQ(
      run_fault("mov_imm.u32 r1, 1000000\ntop: pool.alloc r0, 0\nloop r1, @top\n", {0}, small),
      "OutOfMemory");
}

// --- many lanes

TEST(LaneLaunches, PresetRegisters) {
  LaneLaunch launch;
  launch.grid = {2, 2, 1};
  launch.block = {3, 2, 1};
  std::vector<uint64_t> out(24 * 4);
  LaneProgram p = lane(
      "mov_imm.u64 r0, 32\nmul.u64 r1, r255, r0\nmov_imm.u64 r2, 1\nmov_imm.u64 r3, 8\n"
      "stg.u64 [r2 + r1], r255\nadd.u64 r1, r1, r3\nstg.u32 [r2 + r1], r252\nadd.u64 r1, r1, r3\n"
      "stg.u32 [r2 + r1], r253\nadd.u64 r1, r1, r3\nstg.u32 [r2 + r1], r254\n");
  verify(p);
  LaneMemory m;
  m.buffers = {bytes(out)};
  interp::run(p, launch, m);
  for (uint64_t k = 0; k < 24; ++k) {
    EXPECT_EQ(out[k * 4], k);
    EXPECT_EQ(out[k * 4 + 1], k % 6 % 3);
    EXPECT_EQ(out[k * 4 + 2], k / 6 % 2);
    EXPECT_EQ(out[k * 4 + 3], 3u);
  }
}

// out[i] = a[i] + b[i] with `global id < n` tested by the program.
TEST(LaneLaunches, NotAMultipleOfTheBlock) {
  std::string text =
      "mov_imm.u64 r0, 1000\nsetge.u64 p0, r255, r0\nbra.p0 @end\nmov_imm.u64 r1, 4\nmul.u64 r2, "
      "r255, r1\n"
      "mov_imm.u64 r3, 1\nmov_imm.u64 r4, 2\nldg.f32 r5, [r3 + r2]\nldg.f32 r6, [r4 + r2]\n"
      "add.f32 r7, r5, r6\nmov_imm.u64 r8, 3\nstg.f32 [r8 + r2], r7\nend:\n";
  LaneProgram p = lane(text);
  verify(p);
  std::vector<float> a(1000), b(1000), out(1000);
  for (size_t k = 0; k < 1000; ++k) a[k] = static_cast<float>(k), b[k] = 0.5f;
  LaneMemory m;
  m.buffers = {bytes(a), bytes(b), bytes(out)};
  LaneLaunch launch = LaneLaunch::linear(1000, 256);
  EXPECT_EQ(launch.grid.x, 4u);
  interp::run(p, launch, m);
  for (size_t k = 0; k < 1000; ++k) ASSERT_EQ(out[k], a[k] + 0.5f);
  EXPECT_EQ(fault([] { LaneLaunch::linear(0, 256); }), "InvalidLaunchConfig");
  EXPECT_EQ(fault([] { LaneLaunch::linear(5, 0); }), "InvalidLaunchConfig");
}

class Barrier : public testing::TestWithParam<uint32_t> {};

TEST_P(Barrier, BlockReversalThroughSharedMemory) {
  uint32_t n = GetParam();
  LaneProgram p = lane(
      "mov_imm.u64 r0, 8\ncvt.u64.u32 r1, r252\nmul.u64 r2, r1, r0\nmov_imm.u64 r3, 0\nsts.u64 [r3 "
      "+ r2], r255\n"
      "bar.sync 0\ncvt.u64.u32 r4, r254\nmov_imm.u64 r5, 1\nsub.u64 r4, r4, r5\nsub.u64 r4, r4, "
      "r1\nmul.u64 r4, r4, r0\n"
      "lds.u64 r6, [r3 + r4]\nmul.u64 r7, r255, r0\nstg.u64 [r5 + r7], r6\n");
  verify(p);
  std::vector<uint64_t> out(n * 3);
  LaneMemory m;
  m.buffers = {bytes(out)};
  LaneLaunch launch;
  launch.grid.x = 3;
  launch.block.x = n;
  launch.shared_bytes = uint64_t{n} * 8;
  interp::run(p, launch, m);
  for (uint64_t b = 0; b < 3; ++b)
    for (uint64_t k = 0; k < n; ++k) ASSERT_EQ(out[b * n + k], b * n + n - 1 - k);
}

INSTANTIATE_TEST_SUITE_P(Lanes, Barrier, testing::Values(1, 2, 32, 1024));

TEST(LaneLaunches, ALaneThatEndsCountsAsArrived) {
  LaneLaunch launch;
  launch.block.x = 4;
  // Lane 0 leaves; the others sum over two barriers.
  EXPECT_EQ(
      run_fault(
          "mov_imm.u32 r0, 0\nseteq.u32 p0, r252, r0\nbra.p0 @end\nbar.sync 0\nbar.sync 1\nend:\n",
          {0}, launch),
      "");
  EXPECT_EQ(
      run_fault(
          "mov_imm.u32 r0, 0\nseteq.u32 p0, r252, r0\nbra.p0 @b\nbar.sync 0\nexit\nb: bar.sync 1\n",
          {0}, launch),
      "ExecutionError");
}

TEST(LaneLaunches, InvalidConfigurations) {
  LaneLaunch launch;
  launch.grid.y = 0;
  EXPECT_EQ(run_fault("", {0}, launch), "InvalidLaunchConfig");
  launch = {};
  launch.block = {1 << 20, 1 << 20, 1};
  EXPECT_EQ(run_fault("", {0}, launch), "OutOfMemory");
  launch = {};
  launch.shared_bytes = ~uint64_t{0};
  EXPECT_EQ(run_fault("", {0}, launch), "OutOfMemory");
  launch = {};
  launch.first_phase = 768;
  EXPECT_EQ(run_fault("", {0}, launch), "InvalidLaunchConfig");
}

// --- classes and phases

TEST(LaneClasses, CurrentClassMirrorAndUnity) {
  LaneProgram p = lane(
      "cls.get r0\nmirror r1, r0\nmov_imm.u64 r2, 2\nmul.u64 r3, r255, r2\nmov_imm.u64 r4, 1\n"
      "stg.u8 [r4 + r3], r1\nunity.test p0, 0x3eb0c6f7a0b5ed8d\nmov_imm.u8 r5, 1\nmov_imm.u8 r6, "
      "0\n"
      "sel.u8 r7, p0, r5, r6\nadd.u64 r3, r3, r4\nstg.u8 [r4 + r3], r7\n");
  verify(p);
  std::vector<uint8_t> out(200 * 2);
  LaneMemory m;
  m.buffers = {bytes(out)};
  LaneLaunch launch;
  launch.grid.x = 200;
  interp::run(p, launch, m);
  for (size_t k = 0; k < 200; ++k) {
    int c = static_cast<int>(k % 96);
    EXPECT_EQ(out[2 * k], class_mirror(c));
    EXPECT_EQ(out[2 * k + 1], c == 1 || c == 4);
  }
  EXPECT_EQ(run_fault("mov_imm.u8 r0, 96\nmirror r1, r0\n"), "InvalidClassIndex");
}

TEST(LaneClasses, Neighbours) {
  for (int c = 0; c < num_classes; ++c) {
    std::string text = fmt::format("mov_imm.u8 r0, {}\nnbr.count r1, r0\nstg.u32 [buf1], r1\n", c);
    for (int k = 0; k < 7; ++k)
      text += fmt::format("nbr.get r2, r0, {}\nstg.u8 [buf1 + {}], r2\n", k, 8 + k);
    auto out = run_words(text);
    auto list = class_neighbours(c);
    ASSERT_EQ(out[0], list.size());
    for (size_t k = 0; k < 7; ++k)
      ASSERT_EQ(out[1] >> (8 * k) & 0xff, k < list.size() ? list[k] : 0u);
  }
  EXPECT_EQ(run_fault("mov_imm.u8 r0, 200\nnbr.count r1, r0\n"), "InvalidClassIndex");
  EXPECT_EQ(run_fault("mov_imm.u8 r0, 96\nnbr.get r1, r0, 0\n"), "InvalidClassIndex");
}

TEST(LaneClasses, ResonanceSumsExactlyOverManyLanes) {
  LaneProgram p = lane("cls.get r0\ncvt.f64.u64 r1, r255\nres.accum r0, r1\n");
  verify(p);
  LaneMemory m;
  LaneLaunch launch;
  launch.grid.x = 100;
  launch.block.x = 100;
  interp::run(p, launch, m);
  double all = 0;
  for (double r : m.resonance) all += r;
  EXPECT_EQ(all, 9999.0 * 10000 / 2);
  EXPECT_EQ(m.resonance[0], 99.0 * 100 / 2 + (9600 + 9699) * 50);
  EXPECT_EQ(run_fault("mov_imm.u8 r0, 96\nmov_imm.f64 r1, 0\nres.accum r0, r1\n"),
            "InvalidClassIndex");
}

TEST(LaneClasses, PhaseWraps) {
  auto phase = [](std::string_view advances, uint32_t first = 0) {
    LaneLaunch launch;
    launch.first_phase = first;
    return run_words(std::string(advances) + "phase.get r0\nstg.u32 [buf1], r0\n", {0}, launch)[0];
  };
  EXPECT_EQ(phase(""), 0u);
  EXPECT_EQ(phase("phase.adv 767\n"), 767u);
  EXPECT_EQ(phase("phase.adv 767\nphase.adv 1\n"), 0u);
  EXPECT_EQ(phase("phase.adv 65535\n"), 65535u % 768);
  EXPECT_EQ(phase("phase.adv 2\n", 767), 1u);
}

// --- forms

// One program with every instruction, address form and suffix.
std::string everything() {
  std::string text = "start:\n";
  for (int k = 0; k < num_lane_ops; ++k) {
    auto op = static_cast<LaneOp>(k);
    for (DType t : all12) {
      if (info(op).types != LaneTypes::none && !has_type(info(op).types, t)) continue;
      if (op == LaneOp::set) {
        for (int c = 0; c < (is_float(t) ? 6 : num_compares); ++c)
          text += instruction_text(op, t, name_of(static_cast<Compare>(c))) + "\n";
      } else if (op == LaneOp::memfence) {
        for (int s = 0; s < num_fence_scopes; ++s)
          text += instruction_text(op, t, fmt::format(".{}", name_of(static_cast<FenceScope>(s)))) +
                  "\n";
      } else {
        text += instruction_text(op, t) + "\n";
      }
      if (info(op).types == LaneTypes::none) break;
    }
  }
  return text +
         "bra.p15 @start\nldg.f16 r1, [Φ(5, 12, 200)]\nldg.f16 r1, [r10 - 4]\nldg.f16 r1, [r10 + "
         "64]\n"
         "stg.f16 [r1 + r2], r3\ncvt.bf16.f64 r1, r2\nloop r9, @end\nmov_imm.f64 r1, "
         "0x3ff8000000000000\n"
         "mov_imm.i8 r1, -1\nend:\nagain:\n";
}

TEST(LaneForms, LabelsAtOnePlaceArePrintedByName) {
  const char* text = "atlas lane 1\n  call @b\n  call @a\na:\nb:\n  ret\n";
  EXPECT_EQ(disassemble(assemble_lane(text)), text);
}

TEST(LaneForms, TextAndBytesRoundTrip) {
  LaneProgram p = lane(everything());
  std::string text = disassemble(p);
  EXPECT_EQ(assemble_lane(text), p) << text;
  EXPECT_EQ(disassemble(assemble_lane(text)), text);
  std::string bytes_of_p = encode(p);
  EXPECT_EQ(decode_lane(bytes_of_p), p);
  EXPECT_EQ(encode(decode_lane(bytes_of_p)), bytes_of_p);
  EXPECT_EQ(fingerprint(p), fingerprint(decode_lane(bytes_of_p)));
  EXPECT_NE(text.find("[Φ(5, 12, 200)]"), std::string::npos);
  EXPECT_NE(text.find("[r10 - 4]"), std::string::npos);
}

TEST(LaneForms, OneContainerForBothLayers) {
  LaneProgram p = lane("exit\n");
  EXPECT_EQ(std::get<LaneProgram>(assemble_any(disassemble(p))), p);
  EXPECT_EQ(std::get<LaneProgram>(decode_any(encode(p))), p);
  EXPECT_TRUE(is_binary(encode(p)));
  EXPECT_FALSE(is_binary(disassemble(p)));
  Program block;
  EXPECT_EQ(std::get<Program>(assemble_any(disassemble(block))), block);
  EXPECT_EQ(std::get<Program>(decode_any(encode(block))), block);
  EXPECT_THROW(decode(encode(p)), Error);
  EXPECT_THROW(decode_lane(encode(block)), Error);
}

// The programs in docs/atlas.md assemble and verify.
TEST(LaneForms, DocumentedProgramsAreReal) {
  auto path = std::filesystem::path(HOLOGRAM_SOURCE_DIR) / "docs/atlas.md";
  std::ifstream file(path);
  ASSERT_TRUE(file) << path;
  std::string line, text;
  bool inside = false;
  int programs = 0;
  while (std::getline(file, line)) {
    if (line != "```") {
      if (inside) text += line + "\n";
      continue;
    }
    inside = !inside;
    if (inside) continue;
    std::visit([](const auto& p) { verify(p); }, assemble_any(std::exchange(text, "")));
    ++programs;
  }
  EXPECT_EQ(programs, 2);
}

TEST(LaneForms, AssemblerSaysWhere) {
  auto message = [](const std::string& text) {
    try {
      lane(text);
      return std::string();
    } catch (const Error& e) {
      return std::string(e.what());
    }
  };
  EXPECT_EQ(message("ad.f32 r0, r1, r2\n"), "line 2, column 1: unknown instruction \"ad.f32\"");
  EXPECT_EQ(message("add.f33 r0, r1, r2\n"), "line 2, column 1: unknown type \"f33\"");
  EXPECT_EQ(message("add r0, r1, r2\n"), "line 2, column 1: expected a type");
  EXPECT_EQ(message("add.f32 r0, r1\n"), "line 2, column 15: expected ','");
  EXPECT_EQ(message("add.f32 r0, r1, r256\n"),
            "line 2, column 18: expected a number of at most 255");
  EXPECT_EQ(message("setzz.f32 p0, r1, r2\n"), "line 2, column 1: unknown comparison \"zz\"");
  EXPECT_EQ(message("seteq.f32 p16, r1, r2\n"),
            "line 2, column 12: expected a number of at most 15");
  EXPECT_EQ(message("bra.p16 @x\n"), "line 2, column 1: expected p0 to p15");
  EXPECT_EQ(message("phase.adv 65536\n"), "line 2, column 11: expected a number of at most 65535");
  EXPECT_EQ(message("exit.f32\n"), "line 2, column 1: unexpected suffix \"f32\"");
  EXPECT_EQ(message("exit exit\n"), "line 2, column 6: expected the end of the line");
  EXPECT_EQ(message("ldg.u8 r0, [q]\n"), "line 2, column 13: expected r and a number");
  EXPECT_EQ(message("// a comment\nexit ; and another\n"), "");
}

TEST(LaneForms, DamagedPayloadsAreReadOrCorrupt) {
  std::string sealed = encode(lane(everything()));
  std::string payload(unseal(Layer::lane, sealed));
  std::mt19937 gen(3);
  int read = 0, refused = 0;
  for (int k = 0; k < 3000; ++k) {
    std::string bad = payload;
    for (int j = 0; j < 1 + k % 3; ++j) bad[gen() % bad.size()] = static_cast<char>(gen());
    try {
      LaneProgram p = decode_lane(seal(Layer::lane, bad));
      ++read;
      check_structure(p);
      EXPECT_EQ(decode_lane(encode(p)), p);
    } catch (const Error& e) {
      ++refused;
    }
  }
  EXPECT_GT(read, 100);
  EXPECT_GT(refused, 100);
}

// Any program the verifier accepts runs without a type or initialisation fault, whatever its data.
TEST(LaneForms, VerifiedRandomProgramsKeepTheirTypes) {
  std::mt19937 gen(17);
  auto pick = [&](int n) { return static_cast<int>(gen() % static_cast<unsigned>(n)); };
  int accepted = 0;
  for (int k = 0; k < 4000; ++k) {
    std::string text;
    int length = 3 + pick(8);
    for (int j = 0; j < length; ++j) {
      text += fmt::format("l{}:\n", j);
      const char* type = pick(2) ? "i32" : "u32";
      int r = pick(3), s = pick(3), d = pick(3), l = pick(length + 1);
      switch (pick(8)) {
        case 0:
        case 1:
          text += fmt::format("mov_imm.{} r{}, {}\n", type, d, pick(3));
          break;
        case 2:
          text += fmt::format("add.{} r{}, r{}, r{}\n", type, d, r, s);
          break;
        case 3:
          text += fmt::format("setlt.{} p{}, r{}, r{}\n", type, pick(2), r, s);
          break;
        case 4:
          text += fmt::format("bra.p{} @l{}\n", pick(2), l);
          break;
        case 5:
          text += fmt::format("call @l{}\n", l);
          break;
        case 6:
          text += "ret\n";
          break;
        default:
          text += fmt::format("loop r{}, @l{}\n", r, l);
      }
    }
    text += fmt::format("l{}:\n", length);
    if (!verify_fault(text).empty()) continue;
    ++accepted;
    LaneLaunch launch;
    launch.max_steps = 2000;
    std::string found = run_fault(text, {0}, launch);
    ASSERT_TRUE(found == "" || found == "ExecutionError" || found.starts_with("CallStack"))
        << found << "\n"
        << text;
  }
  EXPECT_GT(accepted, 200);
}

}  // namespace
}  // namespace hologram::test

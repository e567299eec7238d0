// tests/atlas/lane_test.cpp: which lane programs are sound; what they compute is compared in tests/conformance
#include "atlas/lanes.h"
#include "support/refusal.h"

namespace hologram::test {
namespace {

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
  EXPECT_EQ(refusal([] { lane("a:\nb:\na:\n"); }), "line 4, column 3: DuplicateLabel: \"a\" stands at 0 already");
}

// --- the verifier's paths

TEST(LaneVerify, InitialisationOnEveryPath) {
  std::string split = "seteq.u32 p0, r252, r253\nbra.p0 @b\nmov_imm.i32 r0, 1\nbra @join\n";
  EXPECT_EQ(verify_fault(split + "b: mov_imm.i32 r0, 2\njoin: add.i32 r1, r0, r0\n"), "");
  EXPECT_EQ(verify_fault(split + "b:\njoin: add.i32 r1, r0, r0\n"), "UninitializedRegister");
  EXPECT_EQ(verify_fault(split + "b: mov_imm.f32 r0, 2\njoin: add.i32 r1, r0, r0\n"), "UninitializedRegister");
  EXPECT_EQ(verify_fault(split + "b: exit\njoin: add.i32 r1, r0, r0\n"), "");
  // A loop's first pass counts.
  EXPECT_EQ(verify_fault("mov_imm.u32 r0, 3\ntop: add.i32 r1, r2, r2\nmov_imm.i32 r2, 1\nloop r0, @top\n"), "UninitializedRegister");
  // Code that nothing reaches is not looked at.
  EXPECT_EQ(verify_fault("exit\nadd.i32 r0, r1, r2\n"), "");
}

TEST(LaneVerify, CallsWriteForTheirCallers) {
  std::string f = "f: mov_imm.i32 r5, 1\nret\n";
  EXPECT_EQ(verify_fault("call @f\nadd.i32 r6, r5, r5\nexit\n" + f), "");
  EXPECT_EQ(verify_fault("add.i32 r6, r5, r5\ncall @f\nexit\n" + f), "UninitializedRegister");
  // Registers that a function does not touch stay each caller's own.
  EXPECT_EQ(verify_fault("mov_imm.i32 r1, 1\ncall @f\nadd.i32 r6, r1, r5\nmov_imm.f32 r1, 1\ncall @f\n"
                         "add.f32 r7, r1, r1\nexit\n" +
                         f),
            "");
  // A function that changes a type changes it for every caller.
  EXPECT_EQ(verify_fault("mov_imm.f32 r5, 0\ncall @f\nadd.f32 r6, r5, r5\nexit\n" + f), "TypeMismatch");
  // A path through the function that leaves the register alone.
  EXPECT_EQ(verify_fault("call @g\nadd.i32 r6, r5, r5\nexit\ng: seteq.u32 p0, r252, r253\nbra.p0 @out\n"
                         "mov_imm.i32 r5, 1\nout: ret\n"),
            "UninitializedRegister");
  // What comes after a call that never returns is not reached.
  EXPECT_EQ(verify_fault("call @h\nadd.i32 r6, r5, r5\nh: exit\n"), "");
  // Through two levels.
  EXPECT_EQ(verify_fault("call @k\nadd.i32 r6, r5, r5\nexit\nk: call @f\nret\n" + f), "");
}

// What no fault of a run shows.
TEST(LaneVerify, OperandsAreOfTheirKinds) {
  for (const auto& [text, wanted] :
       std::vector<std::pair<std::string, std::string>>{{"ldg.f32 r0, [buf1]\nsetltu.f32 p0, r0, r0\n", "UnsupportedOperation"},
                                                        {"reduce.add.i32 r0, r255, 2\n", "InvalidRegister"},
                                                        {"reduce.add.i64 r0, r255, 1\n", "TypeMismatch"},  // r255 is u64
                                                        {"mov_imm.u32 r10, 1\nldg.u64 r0, [r10 + 8]\n", "TypeMismatch"},
                                                        {"mov_imm.u64 r10, 1\nldg.u64 r0, [r10 + r12]\n", "UninitializedRegister"},
                                                        {"lds.u64 r0, [buf1 + 8]\n", "InvalidBufferHandle"},
                                                        {"lds.u64 r0, [Φ(0, 0, 0)]\n", "InvalidMemoryAddress"}})
    EXPECT_EQ(verify_fault(text), wanted) << text;
}

TEST(LaneLaunches, InvalidConfigurations) {
  using Edit = void (*)(LaneLaunch&);
  for (auto [edit, wanted] : {std::pair<Edit, const char*>{[](LaneLaunch& l) { l.grid.y = 0; }, "InvalidLaunchConfig"},
                              {[](LaneLaunch& l) {
                                 l.block = {1 << 20, 1 << 20, 1};
                               },
                               "OutOfMemory"},
                              {[](LaneLaunch& l) { l.shared_bytes = ~uint64_t{0}; }, "OutOfMemory"},
                              {[](LaneLaunch& l) { l.first_phase = 768; }, "InvalidLaunchConfig"},
                              {[](LaneLaunch& l) {
                                 l.grid = {1000, 1000, 1000}, l.max_steps = 1000;
                               },
                               "ExecutionError"}}) {
    LaneLaunch launch;
    edit(launch);
    EXPECT_EQ(run_fault("", {0}, launch), wanted);
  }
  EXPECT_EQ(fault([] { LaneLaunch::linear(0, 256); }), "InvalidLaunchConfig");
  EXPECT_EQ(fault([] { LaneLaunch::linear(5, 0); }), "InvalidLaunchConfig");
}

}  // namespace
}  // namespace hologram::test

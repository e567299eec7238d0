// tests/atlas/lane_forms_test.cpp: lane programs as text and as bytes, and random ones.
#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "atlas/lanes.h"
#include "ir/scalar.h"
#include "support/paths.h"
#include "support/refusal.h"

namespace hologram::test {
namespace {

// One program with every instruction, address form and suffix.
std::string everything() {
  std::string text = "start:\n";
  for (int k = 0; k < num_lane_ops; ++k) {
    auto op = static_cast<LaneOp>(k);
    for (DType t : all12) {
      if (info(op).types != LaneTypes::none && !has_type(info(op).types, t)) continue;
      if (op == LaneOp::set) {
        for (int c = 0; c < (is_float(t) ? 6 : num_compares); ++c) text += instruction_text(op, t, name_of(static_cast<Compare>(c))) + "\n";
      } else if (op == LaneOp::memfence) {
        for (int s = 0; s < num_fence_scopes; ++s)
          text += instruction_text(op, t, fmt::format(".{}", name_of(static_cast<FenceScope>(s)))) + "\n";
      } else {
        text += instruction_text(op, t) + "\n";
      }
      if (info(op).types == LaneTypes::none) break;
    }
  }
  return text +
         "bra.p15 @start\nldg.f16 r1, [Φ(5, 12, 200)]\nldg.f16 r1, [r10 - 4]\nldg.f16 r1, [r10 + 64]\n"
         "stg.f16 [r1 + r2], r3\ncvt.bf16.f64 r1, r2\nloop r9, @end\nmov_imm.f64 r1, 0x3ff8000000000000\n"
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
  EXPECT_NE(text.find("mov_imm.f64 r1, 0x3ff8000000000000 ; 1.5\n"), std::string::npos);
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
  const std::string path = source_file("docs/atlas.md");
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
  auto message = [](const std::string& text) { return refusal([&] { lane(text); }); };
  EXPECT_EQ(message("ad.f32 r0, r1, r2\n"), "line 2, column 1: unknown instruction \"ad.f32\"");
  EXPECT_EQ(message("add.f33 r0, r1, r2\n"), "line 2, column 1: unknown type \"f33\"");
  EXPECT_EQ(message("add r0, r1, r2\n"), "line 2, column 1: expected a type");
  EXPECT_EQ(message("add.f32 r0, r1\n"), "line 2, column 15: expected ','");
  EXPECT_EQ(message("add.f32 r0, r1, r256\n"), "line 2, column 18: expected a number of at most 255");
  EXPECT_EQ(message("setzz.f32 p0, r1, r2\n"), "line 2, column 1: unknown comparison \"zz\"");
  EXPECT_EQ(message("seteq.f32 p16, r1, r2\n"), "line 2, column 12: expected a number of at most 15");
  EXPECT_EQ(message("bra.p16 @x\n"), "line 2, column 1: expected p0 to p15");
  EXPECT_EQ(message("phase.adv 65536\n"), "line 2, column 11: expected a number of at most 65535");
  EXPECT_EQ(message("exit.f32\n"), "line 2, column 1: unexpected suffix \"f32\"");
  EXPECT_EQ(message("exit exit\n"), "line 2, column 6: expected the end of the line");
  EXPECT_EQ(message("ldg.u8 r0, [q]\n"), "line 2, column 13: expected r and a number");
  EXPECT_EQ(message("// a comment\nexit ; and another\n"), "");
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
    ASSERT_TRUE(found == "" || found == "ExecutionError" || found.starts_with("CallStack")) << found << "\n" << text;
  }
  EXPECT_GT(accepted, 200);
}

}  // namespace
}  // namespace hologram::test

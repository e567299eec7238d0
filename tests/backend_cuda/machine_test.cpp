// tests/backend_cuda/machine_test.cpp: the PTX machine finds what kernels must not do
//
// Each fault is planted in a kernel that runs without it.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "emulator/machine.h"
#include "emulator/values.h"

namespace ptx {
namespace {

constexpr uint64_t start = 0x7000000000;

// One block of 4,096 bytes.
class OneBlock final : public Blocks {
 public:
  uint8_t* find(uint64_t address, size_t bytes) override {
    return address >= start && address + bytes <= start + sizeof memory ? memory + (address - start) : nullptr;
  }
  alignas(64) uint8_t memory[4096] = {};
};

std::string kernel(const std::string& body, const std::string& variables = "") {
  return R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 k_param_0)
.maxntid 64, 1, 1
{
  .reg .pred %p<9>;
  .reg .b16 %rs<9>;
  .reg .b32 %r<9>;
  .reg .f32 %f<9>;
  .reg .b64 %rd<9>;
)" + variables +
         R"(
  ld.param.u64 %rd1, [k_param_0];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
)" + body +
         "  ret;\n}\n";
}

// What the machine says to it, on CTAs of 64 threads; "" if nothing.
std::string run(const std::string& text, OneBlock& memory, uint32_t ctas = 1, uint64_t seed = 1) {
  Module module = read(text, start);
  for (Instr& i : module.kernels.at("k").code) i.code = code_of(i);
  std::vector<uint8_t> parameters(8);
  std::memcpy(parameters.data(), &start, 8);
  try {
    Machine(memory, seed).run({module.kernels.at("k"), {ctas}, {64}, parameters});
  } catch (const Fault& fault) {
    return fault.what();
  }
  return "";
}

std::string said(const std::string& body, const std::string& variables = "", uint32_t ctas = 1) {
  OneBlock memory;
  return run(kernel(body, variables), memory, ctas);
}

constexpr const char* shared_words = "  .shared .align 16 .b8 words[256];\n";

TEST(PtxMachine, RoundsPairs) {
  // Of two numbers in the middle, the even one; 65,520 is infinite as an f16.
  const std::array<std::pair<const char*, uint32_t>, 3> cases{{
      {"0f3F808000, 0fBF818000; cvt.rn.bf16x2.f32", 0x3f80bf82},
      {"0f3F801000, 0f477FF000; cvt.rn.f16x2.f32", 0x3c007c00},
      {"0f7FC00000, 0fFF800000; cvt.rn.bf16x2.f32", 0x7fffff80},
  }};
  for (const auto& [text, wanted] : cases) {
    const std::string_view all = text;
    const size_t comma = all.find(','), end = all.find(';');
    OneBlock memory;
    const std::string body = "  mov.f32 %f1, " + std::string(all.substr(0, comma)) + ";\n  mov.f32 %f2, " +
                             std::string(all.substr(comma + 2, end - comma - 2)) + ";\n " + std::string(all.substr(end + 1)) +
                             " %r2, %f1, %f2;\n  st.global.u32 [%rd3], %r2;\n";
    ASSERT_EQ(run(kernel(body), memory), "");
    uint32_t x;
    std::memcpy(&x, memory.memory, 4);
    EXPECT_EQ(x, wanted) << text;
  }
}

TEST(PtxMachine, RunsEveryThreadOnce) {
  OneBlock memory;
  ASSERT_EQ(run(kernel("  add.s32 %r2, %r1, 5;\n  st.global.u32 [%rd3], %r2;\n"), memory), "");
  for (uint32_t t = 0; t < 64; ++t) {
    uint32_t x;
    std::memcpy(&x, memory.memory + 4 * t, 4);
    EXPECT_EQ(x, t + 5);
  }
}

TEST(PtxMachine, FindsRegistersThatNobodyWrote) {
  const std::string text = "  setp.lt.u32 %p1, %r1, 40;\n  @%p1 mov.u32 %r2, 7;\n";
  EXPECT_EQ(said(text + "  @%p1 st.global.u32 [%rd3], %r2;\n"), "");
  EXPECT_NE(said(text + "  st.global.u32 [%rd3], %r2;\n").find("%r2 is read before it is written"), std::string::npos);
}

TEST(PtxMachine, FindsAccessesOutsideOfBlocks) {
  EXPECT_EQ(said("  st.global.u32 [%rd3+3840], %r1;\n"), "");
  for (const char* text : {"  st.global.u32 [%rd3+3844], %r1;\n", "  ld.global.u32 %r2, [%rd3+-4];\n"})
    EXPECT_NE(said(text).find("outside of global memory"), std::string::npos) << text;
  EXPECT_NE(said("  st.shared.u32 [words+256], %r1;\n", shared_words).find("outside of shared"), std::string::npos);
}

TEST(PtxMachine, FindsMisalignedVectors) {
  const std::string store = "  mov.f32 %f1, 0f3F800000;\n  setp.eq.u32 %p1, %r1, 0;\n  @%p1 ";
  EXPECT_EQ(said(store + "st.global.v4.f32 [%rd1+16], {%f1, %f1, %f1, %f1};\n"), "");
  EXPECT_NE(said(store + "st.global.v4.f32 [%rd1+8], {%f1, %f1, %f1, %f1};\n").find("misaligned"), std::string::npos);
  EXPECT_NE(said(store + "ld.global.v2.f32 {%f2, %f3}, [%rd1+4];\n").find("misaligned"), std::string::npos);
}

// Thread t writes word t of shared memory and reads word 63 - t.
constexpr const char* exchange_head =
    "  mov.u32 %r2, words;\n  shl.b32 %r3, %r1, 2;\n  add.s32 %r4, %r2, %r3;\n"
    "  st.shared.u32 [%r4], %r1;\n";
constexpr const char* exchange_tail = "  sub.s32 %r5, %r2, %r3;\n  ld.shared.u32 %r6, [%r5+252];\n  st.global.u32 [%rd3], %r6;\n";

TEST(PtxMachine, FindsRacesInSharedMemory) {
  OneBlock memory;
  const std::string good = std::string(exchange_head) + "  bar.sync 0;\n" + exchange_tail;
  ASSERT_EQ(run(kernel(good, shared_words), memory), "");
  uint32_t first;
  std::memcpy(&first, memory.memory, 4);
  EXPECT_EQ(first, 63u);
  // Without the barrier the read comes first, or it does not: both are found.
  for (uint64_t seed = 1; seed < 9; ++seed) {
    const std::string why = run(kernel(std::string(exchange_head) + exchange_tail, shared_words), memory, 1, seed);
    EXPECT_TRUE(why.find("a race in shared memory") != why.npos || why.find("shared memory is read before it is written") != why.npos)
        << why;
  }
  // The second round writes what others may still read.
  const std::string again = "  st.shared.u32 [%r4], %r6;\n";
  EXPECT_NE(said(good + again, shared_words).find("a race in shared memory"), std::string::npos);
  EXPECT_EQ(said(good + "  bar.sync 0;\n" + again, shared_words), "");
}

TEST(PtxMachine, ABarrierOfAWarpOrdersItsOwnLanesAlone) {
  // Within a warp: lane l reads word l ^ 31.
  const std::string mine = std::string(exchange_head) + "  xor.b32 %r5, %r3, 124;\n  add.s32 %r5, %r5, %r2;\n";
  const std::string read = "  ld.shared.u32 %r6, [%r5];\n";
  EXPECT_EQ(said(mine + "  bar.warp.sync -1;\n" + read, shared_words), "");
  EXPECT_NE(said(mine + read, shared_words).find("a race in shared"), std::string::npos);
  const std::string across = said(std::string(exchange_head) + "  bar.warp.sync -1;\n" + exchange_tail, shared_words);
  EXPECT_TRUE(across.find("a race in shared memory") != across.npos || across.find("read before it is written") != across.npos) << across;
}

TEST(PtxMachine, FindsRacesInGlobalMemory) {
  EXPECT_NE(said("  st.global.u32 [%rd1], %r1;\n").find("a race in global"), std::string::npos);
  EXPECT_EQ(said("  st.volatile.global.u32 [%rd1], %r1;\n"), "");  // meant for all
  EXPECT_EQ(said("  ld.global.u32 %r2, [%rd1];\n"), "");
  // Of CTAs, whatever barriers stand between.
  EXPECT_EQ(said("  st.global.u32 [%rd3], %r1;\n  bar.sync 0;\n"), "");
  EXPECT_NE(said("  st.global.u32 [%rd3], %r1;\n  bar.sync 0;\n", "", 2).find("a race in global"), std::string::npos);
  EXPECT_NE(said("  ld.global.u32 %r2, [%rd1];\n  bar.sync 0;\n  setp.eq.u32 %p1, %r1, 0;\n"
                 "  @%p1 st.global.u32 [%rd1], %r2;\n",
                 "", 2)
                .find("a race in global"),
            std::string::npos);
}

TEST(PtxMachine, FindsMemoryThatNobodyWrote) {
  EXPECT_NE(said("  ld.shared.u32 %r2, [words];\n", shared_words).find("shared memory is read before"), std::string::npos);
  const char* depot = "  .local .align 8 .b8 depot[8];\n";
  EXPECT_NE(said("  mov.u64 %rd4, depot;\n  ld.local.u32 %r2, [%rd4];\n", depot).find("local memory is read before"), std::string::npos);
  EXPECT_EQ(said("  mov.u64 %rd4, depot;\n  st.local.u32 [%rd4], %r1;\n  ld.local.u32 %r2, [%rd4];\n", depot), "");
}

TEST(PtxMachine, FindsBarriersThatOthersNeverReach) {
  const std::string some = "  setp.lt.u32 %p1, %r1, 32;\n";
  EXPECT_NE(said(some + "  @%p1 ret;\n  bar.sync 0;\n").find("they have ended"), std::string::npos);
  EXPECT_NE(said(some + "  @%p1 bra $A;\n  bar.sync 0;\n  bra $B;\n$A:\n  bar.sync 0;\n$B:\n").find("different barriers"),
            std::string::npos);
  EXPECT_NE(said("  setp.lt.u32 %p1, %r1, 5;\n  @%p1 ret;\n  bar.warp.sync -1;\n").find("lanes that have ended"), std::string::npos);
  // Lanes that part and come together again may exchange values.
  EXPECT_EQ(said("  and.b32 %r2, %r1, 1;\n  setp.eq.s32 %p1, %r2, 0;\n  @%p1 bra $A;\n"
                 "  mov.u32 %r2, 9;\n$A:\n  shfl.sync.bfly.b32 %r3, %r2, 1, 31, -1;\n"),
            "");
}

TEST(PtxMachine, RefusesWhatIsNotExact) {
  const std::string head = "  mov.f32 %f1, 0f3F800000;\n";
  EXPECT_EQ(said(head + "  add.rn.f32 %f2, %f1, %f1;\n"), "");
  for (const char* text : {"add.f32 %f2, %f1, %f1", "add.rn.ftz.f32 %f2, %f1, %f1", "div.full.f32 %f2, %f1, %f1",
                           "sqrt.approx.f32 %f2, %f1", "ex2.approx.f32 %f2, %f1", "atom.global.add.f32 %f2, [%rd3], %f1"})
    EXPECT_NE(said(head + "  " + text + ";\n"), "") << text;
  EXPECT_THROW(read(kernel("  mov.u32 %r77, 1;\n"), start), Fault);
}

TEST(PtxMachine, HalvesRoundToNearestEven) {
  Instr to;
  to.code = code_cvt;
  to.mods = {"rn", "f16", "f32"};
  to.type = {Type::f, 16}, to.from = {Type::f, 32};
  Instr from = to;
  from.mods = {"f32", "f16"};
  from.type = {Type::f, 32}, from.from = {Type::f, 16};
  for (uint32_t h = 0; h < 65536; ++h) {
    const uint64_t half = h;
    uint64_t wide = 0, back = 0;
    const uint64_t *a[] = {&half}, *b[] = {&wide};
    ASSERT_TRUE(compute(from, a, 1, &wide));
    ASSERT_TRUE(compute(to, b, 1, &back));
    const bool nan = (h & 0x7fff) > 0x7c00;
    ASSERT_EQ(back, nan ? 0x7fff : h);
    if (nan || (h & 0x7fff) >= 0x7c00) continue;
    const float mine = static_cast<float>(std::bit_cast<_Float16>(static_cast<uint16_t>(h)));
    ASSERT_EQ(wide, std::bit_cast<uint32_t>(mine));
    for (int ulps : {-1, 1, 0x1000, 0x1001, 0xfff}) {  // around halves of its units
      const uint64_t near = static_cast<uint32_t>(wide + static_cast<uint32_t>(ulps));
      const uint64_t* c[] = {&near};
      uint64_t got = 0;
      ASSERT_TRUE(compute(to, c, 1, &got));
      const float x = std::bit_cast<float>(static_cast<uint32_t>(near));
      if (x != x) continue;
      ASSERT_EQ(got, std::bit_cast<uint16_t>(static_cast<_Float16>(x))) << x;
    }
  }
}

TEST(PtxMachine, TensorSumsAreCutAsTensorCoresDo) {
  const double one[] = {1, 0x1p-25, 0x1p-26};
  EXPECT_EQ(tensor_sum(one, 3, 0), 1);  // 2^-25 is kept while adding and cut at the end
  const double cancelled[] = {1, 0x1p-25, -1};
  EXPECT_EQ(tensor_sum(cancelled, 3, 0), 0x1p-25f);
  const double lost[] = {1, 0x1p-26, -1};
  EXPECT_EQ(tensor_sum(lost, 3, 0), 0);
  const double up[] = {3, 5};
  EXPECT_EQ(tensor_sum(up, 2, -2.5f), 5.5f);
  const double below[] = {-1, -0x1p-24};  // towards zero, not to nearest
  EXPECT_EQ(tensor_sum(below, 2, 0), -1);
  const double infinite[] = {INFINITY, 1}, both[] = {INFINITY, -INFINITY};
  EXPECT_EQ(tensor_sum(infinite, 2, 0), INFINITY);
  EXPECT_TRUE(std::isnan(tensor_sum(both, 2, 0)));
}

// A row-major 16 x 16 matrix of bfloat16 numbers at words, times itself turned over, plus 0.
constexpr const char* matrix_words = "  .shared .align 16 .b8 words[512];\n";
std::string product_of(const std::string& load_right) {
  return R"(  .reg .b32 %a<9>;
  .reg .f32 %c<9>;
  mov.u32 %r2, words;
  setp.gt.u32 %p1, %r1, 31;
  @%p1 bra $done;
  // thread t writes halves 8 t to 8 t + 7, half h being h % 16 where h / 16 is 1, else 2
  shl.b32 %r3, %r1, 4;
  add.s32 %r3, %r2, %r3;
  and.b32 %r4, %r1, 1;
  setp.eq.u32 %p2, %r4, 0;
  shr.u32 %r5, %r1, 1;
  setp.eq.u32 %p3, %r5, 1;
  @%p3 mov.u32 %a1, 0x3f800000;
  @%p3 mov.u32 %a2, 0x40404000;
  @!%p3 mov.u32 %a1, 0x40004000;
  @!%p3 mov.u32 %a2, 0x40004000;
  st.shared.v4.b32 [%r3], {%a1, %a2, %a2, %a1};
  bar.warp.sync -1;
  and.b32 %r4, %r1, 15;
  shl.b32 %r4, %r4, 5;
  and.b32 %r5, %r1, 16;
  add.s32 %r4, %r4, %r5;
  add.s32 %r4, %r2, %r4;
  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%a3, %a4, %a5, %a6}, [%r4];
)" + load_right +
         R"(  mov.f32 %c1, 0f00000000;
  mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%c2, %c3, %c4, %c5}, {%a3, %a4, %a5, %a6}, {%a7, %a8}, {%c1, %c1, %c1, %c1};
  st.global.v4.f32 [%rd4], {%c2, %c3, %c4, %c5};
$done:
)";
}

// The rows of the matrix: row 1 is 0 1 2 3 2 3 0 1 twice, each other one has 2 everywhere.
TEST(PtxMachine, MultipliesMatrices) {
  const std::string address = "  mul.wide.u32 %rd2, %r1, 16;\n  add.s64 %rd4, %rd1, %rd2;\n";
  // Columns of the right factor are the matrix' first 8 rows: matrices (row % 8, k / 8).
  const std::string right =
      "  and.b32 %r4, %r1, 7;\n  shl.b32 %r4, %r4, 5;\n  and.b32 %r5, %r1, 8;\n"
      "  shl.b32 %r5, %r5, 1;\n  add.s32 %r4, %r4, %r5;\n  add.s32 %r4, %r2, %r4;\n"
      "  ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%a7, %a8}, [%r4];\n";
  OneBlock memory;
  ASSERT_EQ(run(kernel(address + product_of(right), matrix_words), memory), "");
  float row1[16];
  for (int k = 0; k < 16; ++k) row1[k] = std::array{0.f, 1.f, 2.f, 3.f, 2.f, 3.f, 0.f, 1.f}[static_cast<size_t>(k % 8)];
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column) {
      float wanted = 0, found;
      for (int k = 0; k < 16; ++k) wanted += (row == 1 ? row1[k] : 2) * (column == 1 ? row1[k] : 2);
      const int lane = row % 8 * 4 + column / 2, number = row / 8 * 2 + column % 2;
      std::memcpy(&found, memory.memory + 16 * lane + 4 * number, 4);
      EXPECT_EQ(found, wanted) << row << ' ' << column;
    }
}

}  // namespace
}  // namespace ptx

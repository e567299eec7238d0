// tests/backend_cuda/machine_test.cpp: the PTX machine finds what kernels must not do
//
// Each fault is planted in a kernel that runs without it.
#include "emulator/machine.h"
#include "emulator/values.h"
#include "support/test.h"

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
constexpr const char* depot = "  .local .align 8 .b8 depot[8];\n";

// Thread t writes word t of shared memory and reads word 63 - t.
constexpr const char* exchange_head =
    "  mov.u32 %r2, words;\n  shl.b32 %r3, %r1, 2;\n  add.s32 %r4, %r2, %r3;\n"
    "  st.shared.u32 [%r4], %r1;\n";
constexpr const char* exchange_tail = "  sub.s32 %r5, %r2, %r3;\n  ld.shared.u32 %r6, [%r5+252];\n  st.global.u32 [%rd3], %r6;\n";

// Kernels, each beside others that have a fault.
struct Row {
  std::string body;
  std::vector<const char*> words = {};  ///< of which one is said; none: nothing is
  const char* variables = "";
  uint32_t ctas = 1;
};

TEST(PtxMachine, FindsFaults) {
  const std::string head = exchange_head, tail = exchange_tail, some = "  setp.lt.u32 %p1, %r1, 40;\n  @%p1 mov.u32 %r2, 7;\n";
  const std::string vector = "  mov.f32 %f1, 0f3F800000;\n  setp.eq.u32 %p1, %r1, 0;\n  @%p1 ";
  // Lane l reads word l ^ 31; threads below 32 hand words over to those above, which wait alone.
  const std::string lanes = head + "  xor.b32 %r5, %r3, 124;\n  add.s32 %r5, %r5, %r2;\n", read = "  ld.shared.u32 %r6, [%r5];\n";
  const std::string handed =
      "  shl.b32 %r2, %r1, 2;\n  setp.ge.u32 %p1, %r1, 32;\n  @%p1 bra $A;\n  st.shared.u32 [%r2], %r1;\n"
      "  bar.arrive 1, 64;\n  ret;\n$A:\n";
  const std::string taken = "  sub.u32 %r2, %r2, 128;\n  ld.shared.u32 %r3, [%r2];\n", half = "  setp.lt.u32 %p1, %r1, 32;\n";
  const std::string own = "  st.global.u32 [%rd3], %r1;\n  bar.sync 0;\n", local = "  mov.u64 %rd4, depot;\n";
  const std::vector<const char*> unordered{"a race in shared memory", "shared memory is read before it is written"};
  const Row rows[] = {
      {some + "  @%p1 st.global.u32 [%rd3], %r2;\n"},
      {some + "  st.global.u32 [%rd3], %r2;\n", {"%r2 is read before it is written"}},
      {"  st.global.u32 [%rd3+3840], %r1;\n"},
      {"  st.global.u32 [%rd3+3844], %r1;\n", {"outside of global memory"}},
      {"  ld.global.u32 %r2, [%rd3+-4];\n", {"outside of global memory"}},
      {"  st.shared.u32 [words+256], %r1;\n", {"outside of shared"}, shared_words},
      {vector + "st.global.v4.f32 [%rd1+16], {%f1, %f1, %f1, %f1};\n"},
      {vector + "st.global.v4.f32 [%rd1+8], {%f1, %f1, %f1, %f1};\n", {"misaligned"}},
      {vector + "ld.global.v2.f32 {%f2, %f3}, [%rd1+4];\n", {"misaligned"}},
      {lanes + "  bar.warp.sync -1;\n" + read, {}, shared_words},
      {lanes + read, {"a race in shared"}, shared_words},
      {head + "  bar.warp.sync -1;\n" + tail, unordered, shared_words},
      {"  st.global.u32 [%rd1], %r1;\n", {"a race in global"}},
      {"  st.volatile.global.u32 [%rd1], %r1;\n"},  // meant for all
      {"  ld.global.u32 %r2, [%rd1];\n"},
      {own},
      {own, {"a race in global"}, "", 2},  // of CTAs, whatever barriers stand between
      {"  ld.global.u32 %r2, [%rd1];\n  bar.sync 0;\n  setp.eq.u32 %p1, %r1, 0;\n  @%p1 st.global.u32 [%rd1], %r2;\n",
       {"a race in global"},
       "",
       2},
      {"  ld.shared.u32 %r2, [words];\n", {"shared memory is read before"}, shared_words},
      {local + "  ld.local.u32 %r2, [%rd4];\n", {"local memory is read before"}, depot},
      {local + "  st.local.u32 [%rd4], %r1;\n  ld.local.u32 %r2, [%rd4];\n", {}, depot},
      {half + "  @%p1 ret;\n  bar.sync 0;\n", {"they have ended"}},
      {half + "  @%p1 bra $A;\n  bar.sync 0;\n  bra $B;\n$A:\n  bar.sync 0;\n$B:\n", {"different barriers"}},
      {"  setp.lt.u32 %p1, %r1, 5;\n  @%p1 ret;\n  bar.warp.sync -1;\n", {"lanes that have ended"}},
      // Lanes that part and come together again may exchange values.
      {"  and.b32 %r2, %r1, 1;\n  setp.eq.s32 %p1, %r2, 0;\n  @%p1 bra $A;\n"
       "  mov.u32 %r2, 9;\n$A:\n  shfl.sync.bfly.b32 %r3, %r2, 1, 31, -1;\n"},
      {handed + "  bar.sync 1, 64;\n" + taken, {}, shared_words},
      {handed + "  bar.sync 2, 64;\n" + taken, {"never comes"}, shared_words},
      {handed + taken, unordered, shared_words},
  };
  for (const Row& row : rows) {
    const std::string words = said(row.body, row.variables, row.ctas);
    EXPECT_EQ(words.empty(), row.words.empty()) << words << "\n" << row.body;
    EXPECT_TRUE(row.words.empty() || std::ranges::any_of(row.words, [&](const char* w) { return words.find(w) != words.npos; }))
        << words << "\n"
        << row.body;
  }
}

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

TEST(PtxMachine, RefusesWhatIsNotExact) {
  const std::string head = "  mov.f32 %f1, 0f3F800000;\n";
  EXPECT_EQ(said(head + "  add.rn.f32 %f2, %f1, %f1;\n"), "");
  for (const char* text : {"add.f32 %f2, %f1, %f1", "add.rn.ftz.f32 %f2, %f1, %f1", "div.full.f32 %f2, %f1, %f1",
                           "sqrt.approx.f32 %f2, %f1", "ex2.approx.f32 %f2, %f1", "atom.global.add.f32 %f2, [%rd3], %f1"})
    EXPECT_NE(said(head + "  " + text + ";\n"), "") << text;
  EXPECT_THROW(read(kernel("  mov.u32 %r77, 1;\n"), start), Fault);
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

}  // namespace
}  // namespace ptx

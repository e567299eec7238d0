// tests/atlas/lane_run_test.cpp: lane programs' control, memory, launches and classes, and the
// verifier's paths.
#include <cstring>
#include <limits>
#include <random>

#include "atlas/lanes.h"
#include "ir/scalar.h"
#include "same.h"

namespace hologram::test {
namespace {

// Counts the passes of a body that `loop` closes.
uint64_t passes(uint32_t n) {
  return run_words(
      fmt::format("mov_imm.u32 r0, {}\nmov_imm.u64 r1, 0\nmov_imm.u64 r2, 1\nagain:\nadd.u64 r1, r1, r2\n"
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
  EXPECT_EQ(run_words("mov_imm.u32 r0, 4\nmov_imm.u64 r1, 0\nmov_imm.u64 r2, 1\n"
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

// --- memory

TEST(LaneMemoryForms, LastValidByteAndOneBeyond) {
  for (DType t : all12) {
    uint64_t size = static_cast<uint64_t>(size_of(t));
    std::string type(hologram::name_of(t));
    auto load = [&](uint64_t offset) { return run_fault(fmt::format("ldg.{} r0, [buf1 + {}]\n", type, offset)); };
    auto store = [&](uint64_t offset) { return run_fault(fmt::format("mov_imm.{0} r0, 1\nstg.{0} [buf1 + {1}], r0\n", type, offset)); };
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
  EXPECT_EQ(run_fault(head + "mov_imm.i64 r12, 0\nldg.u64 r0, [r10 + r12]\n", words), "TypeMismatch");
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
  EXPECT_EQ(boundary_fault(one + "stg.u8 [Φ(0, 0, 0)], r0\nstg.u8 [phi(95, 47, 255)], r0\n", pool), "");
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
    EXPECT_EQ(boundary_fault(fmt::format(fmt::runtime(store), class_handle(c), 12288), pool), "BufferOutOfBounds");
  }
  EXPECT_EQ(boundary_fault(fmt::format("ldg.u8 r0, [buf{}]\n", class_handle(0) - 1), pool), "InvalidBufferHandle");
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
  EXPECT_EQ(run_words("pool.alloc r0, 16\nmov_imm.u64 r1, 8\nmov_imm.i32 r2, -5\npool.store.i32 r0, r1, r2\n"
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
  EXPECT_EQ(run_fault("mov_imm.u32 r1, 1000000\ntop: pool.alloc r0, 0\nloop r1, @top\n", {0}, small), "OutOfMemory");
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
  EXPECT_EQ(run_fault("mov_imm.u32 r0, 0\nseteq.u32 p0, r252, r0\nbra.p0 @end\nbar.sync 0\nbar.sync 1\nend:\n", {0}, launch), "");
  EXPECT_EQ(run_fault("mov_imm.u32 r0, 0\nseteq.u32 p0, r252, r0\nbra.p0 @b\nbar.sync 0\nexit\nb: bar.sync 1\n", {0}, launch),
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
    for (int k = 0; k < 7; ++k) text += fmt::format("nbr.get r2, r0, {}\nstg.u8 [buf1 + {}], r2\n", k, 8 + k);
    auto out = run_words(text);
    auto list = class_neighbours(c);
    ASSERT_EQ(out[0], list.size());
    for (size_t k = 0; k < 7; ++k) ASSERT_EQ(out[1] >> (8 * k) & 0xff, k < list.size() ? list[k] : 0u);
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
  EXPECT_EQ(run_fault("mov_imm.u8 r0, 96\nmov_imm.f64 r1, 0\nres.accum r0, r1\n"), "InvalidClassIndex");
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

}  // namespace
}  // namespace hologram::test

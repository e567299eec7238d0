// tests/backend_cuda/async_test.cpp: the PTX machine at copies, mbarriers and products of
// warpgroups
//
// Each fault is planted in a kernel that runs without it.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "emulator/machine.h"
#include "emulator/tensor_map.h"
#include "emulator/values.h"

namespace ptx {
namespace {

constexpr uint64_t blocks_begin = 0x7000000000;

class Bytes final : public Blocks {
 public:
  uint8_t* find(uint64_t address, size_t bytes) override {
    return address >= blocks_begin && address + bytes <= blocks_begin + memory.size() ? memory.data() + (address - blocks_begin) : nullptr;
  }
  std::vector<uint8_t> memory;
};

// A product of 64 x depth by depth x 8 numbers along k. Thread 0 brings 64 values of k at a time
// to two slots, threads from 128 to 255 multiply them.
const std::string product = R"(.version 8.0
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry k(
  .param .align 64 .b8 left[128], .param .align 64 .b8 right[128], .param .u64 out, .param .u32 steps)
.maxntid 384, 1, 1
{
  .reg .pred %p<9>;
  .reg .b32 %r<40>;
  .reg .f32 %f<9>;
  .reg .b64 %rd<20>;
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, smem;
  add.u32 %r3, %r2, 18432;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra GO;
  mov.u32 %r4, 1;
  mbarrier.init.shared.b64 [%r3], %r4;
  mbarrier.init.shared.b64 [%r3+8], %r4;
  mov.u32 %r29, 4;
  mbarrier.init.shared.b64 [%r3+16], %r29;
  mbarrier.init.shared.b64 [%r3+24], %r29;
  fence.mbarrier_init.release.cluster;
GO:
  bar.sync 0;
  ld.param.u32 %r5, [steps];
  mov.u32 %r6, 0;
  setp.ge.u32 %p2, %r1, 128;
  @%p2 bra CONSUMER;
  setmaxnreg.dec.sync.aligned.u32 40;
  @%p1 bra END;
  mov.b64 %rd1, left;
  cvta.param.u64 %rd1, %rd1;
  mov.b64 %rd2, right;
  cvta.param.u64 %rd2, %rd2;
PRODUCE:
  and.b32 %r7, %r6, 1;
  shr.u32 %r8, %r6, 1;
  and.b32 %r8, %r8, 1;
  xor.b32 %r8, %r8, 1;
  shl.b32 %r9, %r7, 3;
  add.u32 %r9, %r9, %r3;
EMPTY:
  mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r9+16], %r8;
  @!%p3 bra EMPTY;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r9], 9216;
  mul.lo.u32 %r10, %r7, 9216;
  add.u32 %r10, %r10, %r2;
  add.u32 %r11, %r10, 8192;
  shl.b32 %r12, %r6, 6;
  mov.u32 %r13, 0;
  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r10], [%rd1, {%r12, %r13}], [%r9];
  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r11], [%rd2, {%r12, %r13}], [%r9];
  add.u32 %r6, %r6, 1;
  setp.lt.u32 %p4, %r6, %r5;
  @%p4 bra PRODUCE;
  bra END;
CONSUMER:
  setp.ge.u32 %p8, %r1, 256;
  @%p8 bra END;
  setmaxnreg.inc.sync.aligned.u32 232;
  mov.f32 %f1, 0f00000000;
  mov.f32 %f2, 0f00000000;
  mov.f32 %f3, 0f00000000;
  mov.f32 %f4, 0f00000000;
  setp.eq.u32 %p5, %r1, %r1;
  and.b32 %r31, %r1, 31;
  setp.ne.u32 %p6, %r31, 0;
CONSUME:
  and.b32 %r7, %r6, 1;
  shr.u32 %r8, %r6, 1;
  and.b32 %r8, %r8, 1;
  shl.b32 %r9, %r7, 3;
  add.u32 %r9, %r9, %r3;
FULL:
  mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r9], %r8;
  @!%p3 bra FULL;
  mul.lo.u32 %r10, %r7, 9216;
  add.u32 %r10, %r10, %r2;
  shr.u32 %r14, %r10, 4;
  cvt.u64.u32 %rd3, %r14;
  or.b64 %rd3, %rd3, 4611686293305360384;
  add.s64 %rd4, %rd3, 512;
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1, %f2, %f3, %f4}, %rd3, %rd4, %p5, 1, 1, 0, 0;
  add.s64 %rd3, %rd3, 2;
  add.s64 %rd4, %rd4, 2;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1, %f2, %f3, %f4}, %rd3, %rd4, %p5, 1, 1, 0, 0;
  add.s64 %rd3, %rd3, 2;
  add.s64 %rd4, %rd4, 2;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1, %f2, %f3, %f4}, %rd3, %rd4, %p5, 1, 1, 0, 0;
  add.s64 %rd3, %rd3, 2;
  add.s64 %rd4, %rd4, 2;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1, %f2, %f3, %f4}, %rd3, %rd4, %p5, 1, 1, 0, 0;
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
  @%p6 bra NEXT;
  mbarrier.arrive.shared::cta.b64 _, [%r9+16];
NEXT:
  add.u32 %r6, %r6, 1;
  setp.lt.u32 %p4, %r6, %r5;
  @%p4 bra CONSUME;
  ld.param.u64 %rd5, [out];
  sub.u32 %r20, %r1, 128;
  shr.u32 %r21, %r20, 5;
  shl.b32 %r21, %r21, 4;
  and.b32 %r22, %r20, 31;
  shr.u32 %r23, %r22, 2;
  add.u32 %r21, %r21, %r23;
  and.b32 %r22, %r22, 3;
  mul.lo.u32 %r21, %r21, 32;
  mad.lo.u32 %r21, %r22, 8, %r21;
  cvt.u64.u32 %rd6, %r21;
  add.s64 %rd5, %rd5, %rd6;
  st.global.f32 [%rd5], %f1;
  st.global.f32 [%rd5+4], %f2;
  st.global.f32 [%rd5+256], %f3;
  st.global.f32 [%rd5+260], %f4;
END:
  ret;
}
)";

constexpr int rows = 64, columns = 8, depth = 328;  // the last step has 8 values of k
float number(int i, int k) { return static_cast<float>((7 * i + 5 * k) % 9 - 4); }

struct Result {
  std::string words;
  int wrong = 0;  ///< results
};

Result products_of(const std::string& text, uint64_t seed = 1) {
  Module module = read(text, blocks_begin);
  Kernel& kernel = module.kernels.at("k");
  for (Instr& i : kernel.code) i.code = code_of(i);
  Bytes bytes;
  const size_t right = rows * depth * 2, out = right + columns * depth * 2;
  bytes.memory.resize(out + rows * columns * 4);
  auto put = [&](size_t at, int i, int k) {
    const auto x = static_cast<uint16_t>(std::bit_cast<uint32_t>(number(i, k)) >> 16);
    std::memcpy(&bytes.memory[at], &x, 2);
  };
  for (int k = 0; k < depth; ++k) {
    for (int i = 0; i < rows; ++i) put(static_cast<size_t>(i * depth + k) * 2, i, k);
    for (int j = 0; j < columns; ++j) put(right + static_cast<size_t>(j * depth + k) * 2, 3 * j + 1, k);
  }
  std::vector<uint8_t> parameters(static_cast<size_t>(kernel.parameter_bytes));
  auto pass = [&](size_t number, const auto& value) { std::memcpy(parameters.data() + kernel.places[number], &value, sizeof value); };
  TensorMap map;
  map.rank = 2, map.element = 2, map.swizzle = 128;
  map.last[0] = depth - 1, map.box[0] = 64, map.low[0] = depth * 2 / 16;
  map.address = blocks_begin, map.last[1] = rows - 1, map.box[1] = rows;
  pass(0, map);
  map.address = blocks_begin + right, map.last[1] = columns - 1, map.box[1] = columns;
  pass(1, map);
  pass(2, blocks_begin + out);
  pass(3, uint32_t{(depth + 63) / 64});
  Result result;
  try {
    Machine(bytes, seed).run({kernel, {1}, {384}, parameters, 18432 + 32});
  } catch (const Fault& fault) {
    result.words = fault.what();
  }
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) {
      float wanted = 0, x;
      for (int k = 0; k < depth; ++k) wanted += number(i, k) * number(3 * j + 1, k);
      std::memcpy(&x, &bytes.memory[out + static_cast<size_t>(i * columns + j) * 4], 4);
      result.wrong += x != wanted;
    }
  return result;
}

std::string changed(const std::string& from, const std::string& to) {
  std::string text = product;
  const size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  EXPECT_EQ(text.find(from, at + 1), text.npos) << from;
  return text.replace(at, from.size(), to);
}

// That one of these faults comes, whatever the order of what is left to chance.
void expect_fault(const std::string& text, const std::vector<std::string>& words) {
  SCOPED_TRACE(words[0]);
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const std::string said = products_of(text, seed).words;
    bool found = false;
    for (const std::string& w : words) found = found || said.find(w) != said.npos;
    EXPECT_TRUE(found) << seed << ": " << (said.empty() ? "nothing" : said);
  }
}

TEST(PtxMachine, MultipliesByWarpgroups) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Result r = products_of(product, seed);
    EXPECT_EQ(r.words, "") << seed;
    EXPECT_EQ(r.wrong, 0) << seed;
  }
}

TEST(PtxMachine, FindsWaitsForCopiesThatAreMissing) {
  const std::string early = "shared memory is read before it is written", race = "a race";
  expect_fault(changed("  @!%p3 bra FULL;\n", ""), {early, race});
  expect_fault(changed("  shr.u32 %r8, %r6, 1;\n  and.b32 %r8, %r8, 1;\n  shl",
                       "  shr.u32 %r8, %r6, 1;\n  and.b32 %r8, %r8, 1;\n"
                       "  xor.b32 %r8, %r8, 1;\n  shl"),
               {early, race, "never comes"});
  expect_fault(changed("_, [%r9], 9216", "_, [%r9], 8192"), {early, race, "never comes"});
  expect_fault(changed("_, [%r9], 9216", "_, [%r9], 9217"), {"never comes"});
}

TEST(PtxMachine, FindsSlotsThatAreTakenTooEarly) {
  // Who is late sees the barrier two phases on, and takes it for none.
  const std::string race = "a race in shared memory", late = "never comes";
  expect_fault(changed("  @!%p3 bra EMPTY;\n", ""), {race, "more arrivals"});
  // Free before the products have read it.
  std::string text = changed("  wgmma.wait_group.sync.aligned 0;\n", "");
  const std::string arrive = "[%r9+16];\nNEXT:\n";
  text.replace(text.find(arrive), arrive.size(), arrive + "  wgmma.wait_group.sync.aligned 0;\n");
  expect_fault(text, {race, late});
  // By one warp of the group, of which the others may not be that far.
  text = changed("  setp.ne.u32 %p6, %r31, 0;\n", "  setp.ne.u32 %p6, %r1, 128;\n");
  text.replace(text.find("%r29, 4;"), 8, "%r29, 1;");
  expect_fault(text, {race + ": a product of warpgroup 1"});
  // Two steps behind, of two slots.
  expect_fault(changed("  xor.b32 %r8, %r8, 1;\n", ""), {late});
}

TEST(PtxMachine, FindsMbarriersThatAreNotReady) {
  expect_fault(changed("  fence.mbarrier_init.release.cluster;\n", ""), {"made without a fence"});
  expect_fault(changed("  bar.sync 0;\n", ""), {"no mbarrier", "may not be made yet"});
  expect_fault(changed("  @%p6 bra NEXT;\n", ""), {"more arrivals", "never comes"});
  expect_fault(changed("NEXT:\n", "NEXT:\n  ld.shared.u32 %r30, [%r3];\n"), {"mbarrier's bytes"});
}

TEST(PtxMachine, FindsProductsThatNobodyFencesOrWaitsFor) {
  expect_fault(changed("  wgmma.fence.sync.aligned;\n", ""), {"without wgmma.fence"});
  expect_fault(changed("  wgmma.commit_group.sync.aligned;\n", "  add.f32 %f1, %f1, %f1;\n"), {"under way"});
  expect_fault(changed("  wgmma.commit_group.sync.aligned;\n", ""), {"under way", "a race"});
  expect_fault(changed("group.sync.aligned 0;\n", "group.sync.aligned 1;\n"), {"under way", "a race"});
  // The first step alone is fenced.
  expect_fault(changed("  wgmma.fence.sync.aligned;\n",
                       "  setp.ne.u32 %p7, %r6, 0;\n  @%p7 bra ON;\n  wgmma.fence.sync.aligned;\n"
                       "ON:\n  mov.f32 %f1, 0f00000000;\n"),
               {"written since wgmma.fence"});
  // A warp leaves the others alone.
  expect_fault(changed("  mov.f32 %f4, 0f00000000;\n",
                       "  mov.f32 %f4, 0f00000000;\n  setp.ge.u32 %p7, %r1, 224;\n"
                       "  @%p7 bra END;\n"),
               {"never comes"});
}

// The left factor in registers, ones: products under way may share them, and nobody else.
TEST(PtxMachine, FactorsInRegistersStayWhileProductsAreUnderWay) {
  std::string text = product;
  const std::string from = "%rd3, %rd4, %p5, 1, 1, 0, 0;";
  const std::string to = "{%r25, %r26, %r27, %r28}, %rd4, %p5, 1, 1, 0;";
  for (size_t at; (at = text.find(from)) != text.npos;) text.replace(at, from.size(), to);
  std::string ones;
  for (int r = 25; r <= 28; ++r) ones += "  mov.u32 %r" + std::to_string(r) + ", 1065369472;\n";
  const std::string begin = "CONSUME:\n", wait = "  wgmma.wait_group.sync.aligned 0;\n";
  text.insert(text.find(begin), ones);
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    EXPECT_EQ(products_of(text, seed).words, "");
    std::string other = text;
    EXPECT_NE(products_of(other.insert(other.find(wait), "  mov.u32 %r27, 0;\n"), seed).words.find("under way"), std::string::npos);
    other = text;  // behind the wait, but the next products have no fence
    other.insert(other.find("  wgmma.mma_async"), "  mov.u32 %r27, 0;\n");
    EXPECT_NE(products_of(other, seed).words.find("written since wgmma.fence"), std::string::npos);
  }
}

TEST(PtxMachine, FindsWritesThatCopiesDoNotSee) {
  const std::string write = "  st.shared.u32 [%r2+64], %r4;\n", barrier = "  bar.sync 0;\n";
  const std::string place = "  fence.mbarrier_init.release.cluster;\n";
  expect_fault(changed(place, place + write), {"without fence.proxy.async"});
  for (uint64_t seed = 1; seed <= 8; ++seed)
    EXPECT_EQ(products_of(changed(place, place + write + "  fence.proxy.async.shared::cta;\n"), seed).words, "");
}

TEST(PtxMachine, FindsRegistersThatNobodyGave) {
  expect_fault(changed("  setmaxnreg.dec.sync.aligned.u32 40;\n", ""), {"never comes"});
  expect_fault(changed("dec.sync.aligned.u32 40", "dec.sync.aligned.u32 240"), {"other way round"});
}

TEST(PtxMachine, NamedBarriersOrderThoseWhoCome) {
  // Threads below 64 hand words over to those above, which wait alone.
  const std::string text = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out)
.maxntid 128, 1, 1
{
  .reg .pred %p<9>;
  .reg .b32 %r<9>;
  .shared .align 16 .b8 words[256];
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  setp.ge.u32 %p1, %r1, 64;
  @%p1 bra UPPER;
  st.shared.u32 [%r2], %r1;
  bar.arrive 1, 128;
  bra END;
UPPER:
  bar.sync 1, 128;
  sub.u32 %r2, %r2, 256;
  ld.shared.u32 %r3, [%r2];
END:
  ret;
}
)";
  auto said = [](const std::string& kernel_text, uint64_t seed) -> std::string {
    Module module = read(kernel_text, blocks_begin);
    Kernel& kernel = module.kernels.at("k");
    for (Instr& i : kernel.code) i.code = code_of(i);
    Bytes bytes;
    try {
      Machine(bytes, seed).run({kernel, {1}, {128}, std::vector<uint8_t>(8)});
    } catch (const Fault& fault) {
      return fault.what();
    }
    return "";
  };
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    EXPECT_EQ(said(text, seed), "");
    std::string other = text;
    other.replace(other.find("bar.sync 1"), 10, "bar.sync 2");
    EXPECT_NE(said(other, seed).find("never comes"), std::string::npos);
    std::string without = text;
    without.replace(without.find("  bar.sync 1, 128;\n"), 19, "");
    const std::string words = said(without, seed);
    EXPECT_TRUE(words.find("race") != words.npos || words.find("before it") != words.npos) << words;
  }
}

}  // namespace
}  // namespace ptx

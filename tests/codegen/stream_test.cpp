// tests/codegen/stream_test.cpp: large buffers: stores past the caches, fetches ahead, directions.
#include "atlas/programs.h"
#include "backend/cpu/loops/plan.h"
#include "codegen/differential.h"
#include "support/count.h"

namespace hologram::test {
namespace {

/// y = gelu(x) or -x over `n` points of buffers of `extent` elements.
Program unary(Op op, const Expr& n, const Expr& extent, int symbols) {
  Program p = elementwise(op, DType::f32, 1, DType::f32, n);
  for (atlas::Buffer& b : p.buffers) b.extent = extent;
  p.num_symbols = symbols;
  return p;
}

// The buffers are said to be larger than what the points touch.
TEST(Stream, LargeBuffersHoldTheSame) {
  constexpr int64_t points = 5003, middling = int64_t{1} << 21, large = int64_t{1} << 24;
  for (Op op : {Op::gelu, Op::neg})
    for (cpu::Isa isa : runnable_isas()) {
      SCOPED_TRACE(name_of(isa));
      Compiled kernel(unary(op, Expr::symbol(0), Expr::symbol(1), 2), cpu::generic_target(isa));
      std::mt19937_64 random(3);
      Memory x(points * 4);
      fill(x.data(), DType::f32, points, random, 2);
      std::vector<std::vector<char>> results;
      for (int64_t extent : {points, middling, middling, large})
        for (int64_t chunk : {int64_t{0}, int64_t{640}, int64_t{13}}) {
          Memory y(points * 4);
          ASSERT_EQ(kernel.run({x.data(), y.data()}, {points, extent}, chunk), 0);
          EXPECT_TRUE(y.intact());
          results.emplace_back(y.data(), y.data() + y.size());
          EXPECT_EQ(results.back(), results.front()) << extent << " in chunks of " << chunk;
        }
    }
}

#if defined(__x86_64__)
// Input and output overlap, which shows who was first: forwards, what was written is read again.
TEST(Stream, EveryOtherPassGoesBackwards) {
  constexpr int64_t points = 1024, shift = 256, middling = int64_t{1} << 21;
  Compiled kernel(unary(Op::neg, Expr::symbol(0), Expr::symbol(1), 2), cpu::generic_target(cpu::Isa::sse42));
  int backwards = 0;
  for (int pass = 0; pass < 4; ++pass) {
    for (int64_t extent : {points, middling}) {
      std::vector<float> x(points + shift, 1.0F);
      ASSERT_EQ(kernel.run({x.data(), x.data() + shift}, {points, extent}), 0);
      // -1 everywhere, or 1 again in the second and fourth piece
      const bool backward = x.back() == -1.0F;
      EXPECT_EQ(x[size_t{2 * shift}], backward ? -1.0F : 1.0F);
      EXPECT_FALSE(backward && extent == points);
      backwards += backward;
    }
    Memory x(4);
    ASSERT_EQ(kernel.run({x.data(), x.data()}, {1, points}), 0);  // an odd number in each pass
  }
  EXPECT_EQ(backwards, 2);
}

TEST(Stream, LongArithmeticStreamsInItsOwnLoop) {
  const cpu::Target widest = cpu::generic_target(cpu::Isa::avx512);
  auto assembly = [&](const Expr& n, int symbols) { return cpu::dump_asm(unary(Op::gelu, n, n, symbols), widest); };
  std::string small = assembly(Expr(100000), 0), large = assembly(Expr(10000000), 0), any = assembly(Expr::symbol(0), 1);
  EXPECT_EQ(count_of(small, "vmovntps") + count_of(small, "prefetch"), 0);
  for (const std::string* text : {&large, &any}) {
    EXPECT_EQ(count_of(*text, "vmovntps"), 2);
    EXPECT_EQ(count_of(*text, "prefetcht0"), 2);
    EXPECT_EQ(count_of(*text, "sfence"), 1);
    // the functions appear once in pairs and once for the tail, as without streams
    EXPECT_EQ(count_of(*text, "vpermd") + count_of(*text, "vpermps"), count_of(small, "vpermd") + count_of(small, "vpermps"));
  }
  // Where stores would wait for lines of results, these are fetched by the loop that may turn round.
  for (int64_t n : {100'000, 2'000'000})
    EXPECT_EQ(count_of(cpu::dump_asm(unary(Op::neg, n, n, 0), cpu::generic_target(cpu::Isa::avx2)), "prefetcht0"), n > 1'000'000 ? 2 : 0);
  for (int64_t n : {4'000'000, 5'000'000})
    EXPECT_EQ(count_of(cpu::dump_asm(unary(Op::neg, n, n, 0), cpu::generic_target(cpu::Isa::avx2)), "vmovntps") > 0, n == 5'000'000);
}

// Rows that find their places are written whole or not at all, and threads share no line.
TEST(Scatter, Avx2WritesRowsBehindJumps) {
  for (auto [batch, width, grain] : {std::tuple{1, 8, 16}, {1, 64, 32}, {3, 64, 96}, {1, 1000, 512}, {1, 100'000, 1024}}) {
    const Program p = scattered(DType::f32, Op::add, Expr(width));
    const cpu::Target target = cpu::generic_target(cpu::Isa::avx2);
    EXPECT_EQ(cpu::launch_of(p, target).grain.eval(std::vector<int64_t>{batch, 500, 90, width}), grain);
    EXPECT_EQ(count_of(cpu::dump_asm(p, target), "vmaskmov"), 0);
  }
}

TEST(Columns, Avx2KeepsPartialsOfShortOnes) {
  Program p = row_reduction(Op::reduce_sum, DType::f32);
  p.loop().axes = {{atlas::AxisKind::parallel, Expr(256)}, {atlas::AxisKind::row, Expr(32)}};
  p.loop().lane_axis = 0;
  EXPECT_GT(cpu::plan_loop(p, cpu::generic_target(cpu::Isa::avx2)).columns, 0);
}

// A permutation takes twice as long with a table in memory.
TEST(Lookup, Avx2PermutesTablesInRegisters) {
  for (Op op : {Op::gelu, Op::tanh}) {
    std::string text = cpu::dump_asm(unary(op, Expr(1000), Expr(1000), 0), cpu::generic_target(cpu::Isa::avx2));
    EXPECT_GT(count_of(text, "vpermd\t%ymm") + count_of(text, "vpermps\t%ymm"), 0);
    EXPECT_EQ(count_of(text, "vpermd\t%ymm") + count_of(text, "vpermps\t%ymm"), count_of(text, "vperm"));
  }
}

// AVX2 converts no vectors to 64 bits; what converts to 32 gives the least integer for NaN and what does not fit.
TEST(Casts, WrapByVectorsAlone) {
  for (auto [from, to] : {std::pair{DType::f32, DType::u8}, std::pair{DType::f64, DType::i16}}) {
    Points t({Expr(64)});
    t.p.buffers = {{from, Access::read, Expr(64)}, {to, Access::write, Expr(64)}};
    BodyBuilder b = t.body();
    b.store(1, t.i[0], b.cast(b.load(0, from, t.i[0]), to, Op::cast_wrap));
    for (cpu::Isa isa : {cpu::Isa::avx2, cpu::Isa::avx512}) {
      std::string text = cpu::dump_asm(t.p, cpu::generic_target(isa));
      EXPECT_TRUE(count_of(text, "vcvttp") > 0 && count_of(text, "vcmpltp") == 0 && cpu::lane_bytes(t.p) == 4) << text;
    }
  }
}

// Each wait empties the processor's buffers: lines of 64 elements must not wait one by one.
TEST(Stream, ShortLinesWaitForTheirStoresOnce) {
  Points t({Expr(200'000), Expr(64)});
  Expr i = t.i[0] * Expr(64) + t.i[1], all(200'000 * 64);
  t.p.buffers = {{DType::f32, Access::read, all}, {DType::f32, Access::read, Expr(64)}, {DType::f32, Access::write, all}};
  BodyBuilder b = t.body();
  b.store(2, i, b.mul(b.load(0, DType::f32, i), b.load(1, DType::f32, t.i[1])));
  std::string text = cpu::dump_llvm(t.p, cpu::generic_target(cpu::Isa::avx512));
  size_t wait = text.find("sfence()");
  ASSERT_NE(wait, std::string::npos);
  size_t name = text.find("br label %", wait) + 10;
  size_t block = std::min(text.find("\n" + text.substr(name, text.find('\n', name) - name) + ":"), text.size());
  EXPECT_LT(text.find("ret i32", block), text.find("\n\n", block)) << "the wait is inside of a loop";
}
#endif

}  // namespace
}  // namespace hologram::test

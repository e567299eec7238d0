// tests/codegen/attention_grad_tiles_test.cpp: gradients of bfloat16 attention on tiles, against a
// reference in double precision and against today's path.
#include "codegen/attention_grad_sums.h"
#include "codegen/attention_runs.h"
#include "support/test.h"
#include "support/tiles.h"

#if defined(__linux__) && defined(__x86_64__)

namespace hologram::test {
namespace {

using namespace attention_grads;

class AttentionGradTiles : public testing::Test {
 protected:
  void SetUp() override {
    if (!runs_tile_targets()) GTEST_SKIP() << "no AVX2";
  }

  void check(Case c, int64_t chunk = 0) {
    c.dtype = DType::bf16;
    SCOPED_TRACE(testing::Message() << c);
    atlas::Program p = make_program(c);
    atlas::expand_math(p);
    const std::vector<int64_t> syms = c.symbols();
    std::vector<Memory> memory = random_operands(p, syms), today = random_operands(p, syms);
    for (auto* m : {&memory, &today})
      if (c.queries > 1) (*m)[lse_buffer].as<float>()[1] = -INFINITY;  // sees no key
    const int64_t before = amx::state().executed;
    cpu::Target target = tile_target();
    target.tile_attention = true;
    expect_run(Compiled(p, target), memory, syms, chunk);
    if (machine_.emulates() && c.queries > 0 && c.keys > 0) {
      EXPECT_GT(amx::state().executed, before);
    }
    EXPECT_EQ(amx::state().config[0], 0) << "tiles are still configured";
    target.tiles = false;
    expect_run(Compiled(p, target), today, syms, chunk);
    const bool wanted[] = {c.dq, c.dk, c.dv};
    const std::vector<std::vector<Sum>> reference =
        gradients(c, [&](int buffer, DType t, int64_t i) { return value(t, memory[static_cast<size_t>(buffer)], i); });
    for (int r = 0; r < 3; ++r) {
      if (!wanted[r]) continue;
      const auto buffer = static_cast<size_t>(dq_buffer + r);
      double worst = 0, farthest = 0;
      for (size_t i = 0; i < reference[static_cast<size_t>(r)].size(); ++i) {
        const Sum& sum = reference[static_cast<size_t>(r)][i];
        const double got = value(DType::bf16, memory[buffer], static_cast<int64_t>(i)),
                     there = value(DType::bf16, today[buffer], static_cast<int64_t>(i));
        auto apart = [&](double x, double y) {
          const double e = std::abs(x - y) / std::max(sum.size, 1e-30);
          return std::isnan(e) ? INFINITY : e;
        };
        worst = std::max(worst, apart(got, sum.value));
        farthest = std::max(farthest, apart(got, there));
      }
      EXPECT_LE(worst, 1.01 / 128) << r;  // once p or s, once the result
      EXPECT_LE(farthest, 1.01 / 128 + 1.01 / 256) << r;
    }
  }

  TileMachine machine_;
};

TEST_F(AttentionGradTiles, sizes_and_layouts) {
  for (const Case& c :
       {Case{1, 1, 1, 1, 1, 1}, {2, 1, 7, 9, 16, 16}, {1, 1, 64, 128, 32, 32}, {1, 1, 50, 131, 40, 33}, {1, 1, 65, 144, 72, 128}})
    check(c);
  check({1, 1, 130, 260, 128, 64}, 1);
  check({1, 3, 50, 131, 64, 24});  // heads that share keys
  check({2, 2, 20, 30, 16, 16, true});
  check({2, 1, 40, 50, 32, 32, false, Score::plain, DType::f32, false, true});
}

TEST_F(AttentionGradTiles, scores) {
  for (Score s : {Score::bias, Score::keep, Score::window, Score::cap, Score::plain}) check({1, 1, 150, 140, 16, 16, s == Score::plain, s});
}

// One kernel shares out the keys, the other the queries.
TEST_F(AttentionGradTiles, keys_and_queries_apart) {
  for (int64_t members : {1, 2})
    for (bool queries : {false, true})
      check({1, members, 300, 140, 16, 40, true, Score::plain, DType::f32, false, false, queries, !queries, !queries}, queries ? 1 : 0);
}

TEST_F(AttentionGradTiles, symbolic_sizes) {
  for (auto [m, n] : {std::pair<int64_t, int64_t>{0, 3}, {3, 0}, {1, 1}, {49, 150}, {64, 17}})
    for (int64_t members : {1, 2}) check({1, members, m, n, 16, 16, false, Score::bias, DType::f32, true});
}

// 64 queries, 128 keys and 64 numbers: 4 x 8 sums by two steps, twice, then 8 x 4 by two steps, twice, and 4 x 4 by four.
TEST_F(AttentionGradTiles, work) {
  if (!machine_.emulates()) GTEST_SKIP() << "only the emulator counts";
  const int64_t before = amx::state().products;
  check({1, 1, 64, 128, 64, 64});
  EXPECT_EQ(amx::state().products - before, kv_heads * 5 * 64);
}

}  // namespace
}  // namespace hologram::test

#endif

// tests/codegen/attention_test.cpp: attention of bfloat16 by dots and on tiles against a reference
// in double precision, and what of attention's code cannot be seen in results.
#include "codegen/attention_runs.h"
#include "support/count.h"
#include "support/test.h"
#include "support/tiles.h"

namespace hologram::test {
namespace {

using namespace attentions;

// bfloat16 whose probabilities are rounded, by whatever instructions.
class BriefAttention : public testing::TestWithParam<cpu::Isa> {
 protected:
  virtual cpu::Target target() const { return cpu::generic_target(GetParam()); }
  /// Whose results are compared with those of target(), too.
  virtual std::optional<cpu::Target> other_target() const { return std::nullopt; }

  virtual void check(const Case& c, int64_t chunk = 0) {
    SCOPED_TRACE(testing::Message() << c);
    atlas::Program p = make_program(c);
    const std::vector<int64_t> syms = c.symbols();
    std::vector<Memory> memory = random_operands(p, syms);
    if (c.score == Score::keep_mask)  // the first row keeps nothing
      std::memset(memory[bias_buffer].data(), 0, static_cast<size_t>(c.keys));
    Memory other(memory[out_buffer].size());
    if (other_target()) {
      expect_run(Compiled(p, *other_target()), memory, syms, chunk);
      std::memcpy(other.data(), memory[out_buffer].data(), other.size());
    }
    expect_run(Compiled(p, target()), memory, syms, chunk);
    compare(c, memory, other_target() ? &other : nullptr);
  }

  void compare(const Case& c, const std::vector<Memory>& m, const Memory* other = nullptr) {
    double worst = 0, farthest = 0;
    auto apart = [](double x, double y, double size) {
      const double error = std::abs(x - y) / size;
      return std::isnan(error) ? INFINITY : error;
    };
    for (int64_t b = 0; b < c.batch; ++b)
      for (int64_t h = 0; h < c.heads; ++h)
        for (int64_t i = 0; i < c.queries; ++i) {
          const Row row = row_of(c, m, b, h, i);
          for (int64_t e = 0; e < c.values; ++e) {
            const auto [y, size] = weighted(c, m, row, b, h, e);
            const int64_t at = place(c, b, h, i, e, c.heads, c.queries, c.values);
            const double got = value(c.dtype, m[out_buffer], at);
            worst = std::max(worst, apart(got, y, size));
            if (other) farthest = std::max(farthest, apart(got, value(c.dtype, *other, at), size));
          }
        }
    EXPECT_LE(farthest, 1.01 / 128 + 1.01 / 256);  // and once the other's result
    EXPECT_LE(worst, 1.01 / 128);                  // once a probability, once the result
  }

  void check_causal_and_symbolic() {
    for (bool symbolic : {false, true})
      for (int64_t queries : {5, 40, 150})
        check({1, 2, 2, queries, 151, 32, 32, true, Score::plain, DType::bf16, symbolic}, symbolic ? 1 : 0);
  }
};

std::vector<char> bits_on(cpu::Isa isa, const atlas::Program& p, std::vector<Memory> memory) {
  expect_run(Compiled(p, cpu::generic_target(isa)), memory, {});
  const char* out = memory[out_buffer].data();
  return {out, out + memory[out_buffer].size()};
}

// Sums with lanes along the depth, of few queries, have as many partials everywhere, so no bit depends on the ISA; nor do those
// of queries in lanes on the panels and tiles that it has.
TEST(AttentionBits, are_the_same_on_every_instruction_set) {
  for (const Case& c :
       {Case{1, 3, 3, 2, 333, 96, 96}, {1, 2, 2, 70, 333, 64, 64}, {1, 2, 2, 70, 333, 80, 80}, {1, 2, 2, 70, 333, 24, 40}}) {
    const atlas::Program p = make_program(c);
    const std::vector<char> first = bits_on(runnable_isas().front(), p, random_operands(p, {}));
    for (cpu::Isa isa : runnable_isas()) EXPECT_EQ(bits_on(isa, p, random_operands(p, {})), first) << name_of(isa) << ' ' << c;
  }
}

// Of a cache that a mask hides the end of, with NaN there or without, the bits of the results.
std::vector<char> bits_of_cache(cpu::Isa isa, const Case& c, int64_t seen, bool poisoned) {
  const atlas::Program p = make_program(c);
  std::vector<Memory> memory = random_operands(p, {});
  const auto size = static_cast<size_t>(size_of(c.dtype));
  const uint64_t nan = ir::bits_of(c.dtype, NAN);
  for (size_t b : {k_buffer, v_buffer})
    for (size_t i = 0; poisoned && i < memory[b].size() / size; ++i)
      if (static_cast<int64_t>(i) / c.depth % c.keys >= (seen + 15) / 16 * 16) std::memcpy(memory[b].data() + i * size, &nan, size);
  // The last row sees all of them, those before it fewer.
  for (int64_t i = 0; i < c.queries * c.keys; ++i) memory[bias_buffer].data()[i] = i % c.keys < seen - 20 * (c.queries - 1 - i / c.keys);
  return bits_on(isa, p, std::move(memory));
}

TEST(AttentionBits, keys_that_a_mask_hides_from_few_queries_are_not_read) {
  for (cpu::Isa isa : runnable_isas())
    for (DType dtype : {DType::f32, DType::bf16})
      for (int64_t seen : {0, 1, 64, 129, 333}) {
        Case c{1, 4, 2, seen % 2 + 1, 333, 64, 64, false, Score::keep_mask, dtype};
        EXPECT_EQ(bits_of_cache(isa, c, seen, true), bits_of_cache(isa, c, seen, false))
            << name_of(isa) << ' ' << c << ", " << seen << " seen";
      }
}

// Both products of bfloat16 by the dot instruction, where this machine has it.
class AttentionDots : public BriefAttention {
 protected:
  void SetUp() override {
    if (!target().bf16_dots) GTEST_SKIP() << "no bfloat16 dot instructions";
  }
  cpu::Target target() const override { return cpu::with_dots_of_host(BriefAttention::target()); }
};

TEST_P(AttentionDots, sizes_masks_and_layouts) {
  const std::array<int64_t, 4> sizes[] = {{32, 128, 32, 32}, {7, 9, 16, 16},    {33, 130, 64, 64},
                                          {70, 299, 24, 40}, {17, 129, 80, 33}, {5, 1, 2, 1}};
  for (bool inside : {false, true})
    for (Score score : {Score::plain, Score::key_bias, Score::full_bias, Score::keep_mask})
      for (auto [queries, keys, depth, values] : sizes)
        check({2, 2, 1, queries, keys, depth, values, false, score, DType::bf16, false, inside});
}

TEST_P(AttentionDots, causal_and_symbolic) { check_causal_and_symbolic(); }

// A row of odd depth is no whole number of words; the bits of `reproducible` are the multiply-adds'.
TEST_P(AttentionDots, where_the_instruction_is_used) {
  Case c{1, 2, 2, 40, 50, 32, 32, false, Score::plain, DType::bf16};
  auto uses = [&](const atlas::Program& p) { return cpu::dump_asm(p, target()).find("vdpbf16ps") != std::string::npos; };
  atlas::Program p = make_program(c);
  EXPECT_TRUE(uses(p));
  p.attention().reproducible = true;
  EXPECT_FALSE(uses(p));
  c.depth = 31;
  EXPECT_FALSE(uses(make_program(c)));
  check(c);
}

#if defined(__linux__) && defined(__x86_64__)
// Both products of bfloat16 on tiles.
class AttentionTiles : public BriefAttention {
 protected:
  void SetUp() override {
    if (!runs_tile_targets()) GTEST_SKIP() << "no AVX2";
  }
  cpu::Target target() const override { return tile_target(); }
  virtual bool takes_tiles(const Case& c) const { return c.queries > 4; }
  void check(const Case& c, int64_t chunk = 0) override {
    const amx::State before = amx::state();
    BriefAttention::check(c, chunk);
    executed_ = amx::state().executed - before.executed;
    products_ = amx::state().products - before.products;
    product_rows_ = amx::state().product_rows - before.product_rows;
    if (machine_.emulates() && takes_tiles(c)) {
      EXPECT_GT(executed_, 0) << c;
    }
    EXPECT_EQ(amx::state().config[0], 0) << "tiles are still configured";
  }
  TileMachine machine_;
  int64_t executed_ = 0, products_ = 0, product_rows_ = 0;  // of the last check
};

TEST_P(AttentionTiles, sizes_masks_and_layouts) {
  int number = 0;
  const std::array<int64_t, 4> sizes[] = {{32, 128, 32, 32}, {7, 9, 16, 16},    {33, 144, 64, 64},
                                          {70, 299, 24, 40}, {17, 129, 81, 33}, {5, 1, 1, 1}};
  for (auto [queries, keys, depth, values] : sizes)
    for (bool inside : {false, true})
      check({2, 2, 1, queries, keys, depth, values, false, static_cast<Score>(number++ % 4), DType::bf16, false, inside});
}

// 16 units of up to four panels of queries, the last one of fewer.
TEST_P(AttentionTiles, units_of_several_panels) {
  for (bool causal : {false, true})
    for (int64_t queries : {128, 150})
      check({2, 4, 4, queries, causal ? queries : 200, 32, 48, causal, queries == 150 ? Score::full_bias : Score::plain, DType::bf16},
            queries == 150 ? 3 : 0);
}

TEST_P(AttentionTiles, causal_and_symbolic) { check_causal_and_symbolic(); }

TEST_P(AttentionTiles, random_shapes) {
  std::mt19937 random(5);
  auto draw = [&](int64_t least, int64_t most) { return least + static_cast<int64_t>(random() % static_cast<unsigned>(most - least + 1)); };
  for (int i = 0; i < 10; ++i) {
    Case c{draw(1, 3), 2, draw(1, 2), draw(5, 140), draw(1, 290), draw(1, 100), draw(1, 100)};
    if (i % 2) c.keys = (c.keys + 15) / 16 * 16, c.depth = (c.depth + 31) / 32 * 32;
    c.causal = draw(0, 1);
    c.score = static_cast<Score>(draw(0, 3));
    c.dtype = DType::bf16;
    c.symbolic = draw(0, 4) == 0;
    c.heads_inside = draw(0, 1);
    check(c, draw(0, 2));
  }
}

// Keys in place, without copies of them, and as many tile products as there must be.
TEST_P(AttentionTiles, instructions) {
  const cpu::Target real = cpu::with_tiles(cpu::generic_target(cpu::Isa::avx512));
  auto count = [&](const Case& c, const char* word, bool reproducible = false) {
    atlas::Program p = make_program(c);
    p.attention().reproducible = reproducible;
    return count_of(cpu::dump_asm(p, real), word);
  };
  Case c{2, 4, 4, 128, 128, 64, 64, false, Score::plain, DType::bf16};
  EXPECT_EQ(count(c, "tdpbf16ps"), 2 * (4 + 2));  // a kernel each of one tile of rows and of two
  EXPECT_GE(count(c, "vcvtne2ps2bf16"), 2);
  EXPECT_EQ(count(c, "tdpbf16ps", true), 0);
  EXPECT_GE(count(c, "prefetcht0"), 2 * (32 + 16));  // of each step, its rows
  c.queries = 4;
  EXPECT_EQ(count(c, "tdpbf16ps"), 0);
}

// Few queries, and those of heads that share keys, as rows of a tile: where that is asked for.
class AttentionFewOnTiles : public AttentionTiles {
 protected:
  cpu::Target target() const override {
    cpu::Target t = tile_target();
    t.tile_attention = true;
    return t;
  }
  std::optional<cpu::Target> other_target() const override {
    cpu::Target today = target();
    today.tiles = false;
    return today;
  }
  bool takes_tiles(const Case& c) const override { return c.keys > 0; }
};

// Four heads of one, then sixteen of each of two: 4 and 16 rows a unit.
TEST_P(AttentionFewOnTiles, heads_that_share_keys) {
  for (auto [depth, values] : {std::pair<int64_t, int64_t>{64, 64}, {40, 40}, {72, 128}, {128, 72}})
    for (int64_t keys : {1, 16, 33, 300})
      check({16, 4, 1, 1, keys, depth, values, false, static_cast<Score>((keys + values) % 4), DType::bf16, false, keys % 2 == 1});
  check({8, 32, 2, 1, 144, 64, 64, false, Score::full_bias, DType::bf16});
}

// The cache grows: nothing is read behind its last key, and there may be none.
TEST_P(AttentionFewOnTiles, caches_of_any_size) {
  for (int64_t keys : {0, 1, 15, 16, 17, 31, 32, 47, 128, 129, 160, 300})
    for (int64_t depth : {64, 40})
      check({16, 4, 2, 1 + keys % 3, keys, depth, depth, false, keys % 2 ? Score::keep_mask : Score::plain, DType::bf16, false,
             keys % 3 == 0, true},
            keys % 2 ? 3 : 0);
}

TEST_P(AttentionFewOnTiles, rows_of_one_head) {
  for (int64_t queries = 2; queries <= 16; ++queries)
    check({2, 3, queries % 2 ? 3 : 1, queries, 20 * queries - 3, queries % 3 ? 64 : 33, queries % 4 ? 33 : 64, queries % 5 == 0,
           static_cast<Score>(queries % 4), DType::bf16});
}

// A step of values is as many cycles as there are rows, and v is not turned over.
TEST_P(AttentionFewOnTiles, work) {
  if (!machine_.emulates()) GTEST_SKIP() << "only the emulator counts";
  const Case c{16, 4, 1, 1, 128, 64, 64, false, Score::plain, DType::bf16};
  check(c);
  // Of a batch point: 8 tiles of keys by two steps; two panels of two tiles by four steps.
  EXPECT_EQ(products_, 16 * (16 + 16));
  EXPECT_EQ(product_rows_, 16 * (16 * 16 + 16 * 4));
  Case one = c;
  one.kv_heads = 4;  // a row a unit: multiply-adds
  BriefAttention::check(one);
  EXPECT_EQ(cpu::dump_asm(make_program(one), target()).find("tdpbf16ps"), std::string::npos);
}

// By default these run as without tiles, and always where the bits are promised.
TEST_P(AttentionFewOnTiles, where_it_is_asked_for) {
  cpu::Target real = cpu::with_tiles(cpu::generic_target(cpu::Isa::avx512));
  const Case c{16, 4, 1, 1, 128, 64, 64, false, Score::plain, DType::bf16};
  auto on_tiles = [&](bool reproducible = false) {
    atlas::Program p = make_program(c);
    p.attention().reproducible = reproducible;
    return cpu::dump_asm(p, real).find("tdpbf16ps") != std::string::npos;
  };
  EXPECT_FALSE(on_tiles());
  real.tile_attention = true;
  EXPECT_TRUE(on_tiles());
  EXPECT_FALSE(on_tiles(true));
  real.tile_attention = false;
  cpu::Processor measured = *cpu::find_processor("emerald-rapids");
  measured.few_queries_gain = 1.3;
  real.processor = &measured;
  EXPECT_TRUE(on_tiles());
}
#endif

#if defined(__x86_64__)
// What makes it fast cannot be seen in its results.
TEST(AttentionCode, exponentials_are_scaled_and_masks_read_in_vectors) {
  auto assembly = [](Score score) {
    return cpu::dump_asm(make_program({2, 4, 4, 128, 128, 32, 32, false, score}), cpu::generic_target(cpu::Isa::avx512));
  };
  auto count = [](const std::string& text, std::initializer_list<const char*> words) {
    int n = 0;
    for (const char* word : words) n += count_of(text, word);
    return n;
  };
  auto shuffles = [&](const std::string& text) { return count(text, {"vshuf", "vpermt2", "vpermi2", "vpunpck", "vunpck"}); };
  const std::string plain = assembly(Score::plain);
  EXPECT_GT(count(plain, {"vscalefps"}), 0);
  for (Score score : {Score::full_bias, Score::keep_mask}) {
    SCOPED_TRACE(static_cast<int>(score));
    const std::string text = assembly(score);
    EXPECT_GT(count(text, {"vscalefps"}), 0);
    EXPECT_EQ(count(text, {"gather", "vpinsr", "vinsertps"}), 0);
    EXPECT_GE(shuffles(text), shuffles(plain) + 32);  // a square of 16 lines
  }
}

// 80 columns are two panels and one vector, for which 32 queries are two tiles of 16.
TEST(AttentionCode, tiles_are_no_wider_than_the_columns) {
  std::string text = cpu::dump_asm(make_program({1, 2, 2, 64, 128, 80, 80}), cpu::generic_target(cpu::Isa::avx512));
  EXPECT_NE(text.find("tile_16x1:"), std::string::npos);
}
#endif

#if defined(__x86_64__)
std::string isa_name(const testing::TestParamInfo<cpu::Isa>& info) { return std::string(cpu::name_of(info.param)); }
INSTANTIATE_TEST_SUITE_P(isa, AttentionDots, testing::Values(cpu::Isa::avx512), isa_name);
#if defined(__linux__)
INSTANTIATE_TEST_SUITE_P(isa, AttentionTiles, testing::Values(cpu::Isa::avx512), isa_name);
INSTANTIATE_TEST_SUITE_P(isa, AttentionFewOnTiles, testing::Values(cpu::Isa::avx512), isa_name);
#endif
#endif

// Those of one head at a time are fetched while the head before is at work, if both fit the second-level cache.
TEST(AttentionBits, rows_of_the_next_head_are_fetched) {
#if defined(__x86_64__)
  auto fetches = [](const Case& c) {
    return cpu::dump_asm(make_program(c), cpu::generic_target(cpu::Isa::avx512)).find("prefetcht1") != std::string::npos;
  };
  EXPECT_TRUE(fetches({2, 3, 3, 64, 128, 32, 32}));
  EXPECT_FALSE(fetches({2, 3, 3, 64, 1024, 64, 64}));  // too many keys
  EXPECT_FALSE(fetches({.batch = 2, .heads = 3, .kv_heads = 3, .queries = 64, .keys = 128, .depth = 32, .values = 32, .symbolic = true}));
#endif
}

}  // namespace
}  // namespace hologram::test

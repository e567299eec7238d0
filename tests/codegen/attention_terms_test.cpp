// tests/codegen/attention_terms_test.cpp: float32 attention by bfloat16 terms on tiles, against a
// reference in double precision and against multiply-adds.
#include "codegen/attention_runs.h"
#include "support/test.h"
#include "support/tiles.h"

#if defined(__linux__) && defined(__x86_64__)

namespace hologram::test {
namespace {

using namespace attentions;

constexpr double u = 0x1p-24;

cpu::Target by_terms(int threads = 2) {
  cpu::Target t = tile_target();
  t.tile_attention = true;
  t.threads = threads;
  return t;
}

cpu::Target without_tiles() {
  cpu::Target t = by_terms();
  t.tiles = false;
  return t;
}

class AttentionTerms : public testing::Test {
 protected:
  void SetUp() override {
    if (!runs_tile_targets()) GTEST_SKIP() << "no AVX2";
  }

  static std::vector<Memory> operands(const Case& c) { return random_operands(make_program(c), c.symbols()); }

  // The results of one target, all memory around them untouched.
  std::vector<float> run(const Case& c, const cpu::Target& on, std::vector<Memory>& memory, int64_t chunk = 0) {
    return run(c, Compiled(make_program(c), on), memory, chunk);
  }
  std::vector<float> run(const Case& c, const Compiled& compiled, std::vector<Memory>& memory, int64_t chunk = 0) {
    const amx::State before = amx::state();
    expect_run(compiled, memory, c.symbols(), chunk);
    products_ = amx::state().products - before.products;
    EXPECT_EQ(amx::state().config[0], 0) << "tiles are still configured";
    Memory& out = memory[out_buffer];
    return {out.as<float>(), out.as<float>() + out.size() / sizeof(float)};
  }

  // Errors in parts of sum |p v|, the largest of all results of `got`.
  struct Errors {
    double worst = 0, of_bound = 0;
  };
  Errors errors(const Case& c, std::vector<Memory>& m, const std::vector<float>& got) {
    Errors found;
    for (int64_t b = 0; b < c.batch; ++b)
      for (int64_t h = 0; h < c.heads; ++h)
        for (int64_t i = 0; i < c.queries; ++i) {
          const Row row = row_of(c, m, b, h, i);
          for (int64_t e = 0; e < c.values; ++e) {
            const auto [y, size] = weighted(c, m, row, b, h, e);
            const double x = got[static_cast<size_t>(place(c, b, h, i, e, c.heads, c.queries, c.values))];
            const double error = std::abs(x - y) / size;
            const double blocks = static_cast<double>((c.keys + 127) / 128);
            // Exponentials and their sum, the values' sum of a block, blocks, the division.
            const double bound = row.slack + (4 + static_cast<double>(c.keys) + 41 + 2 * blocks + 2) * u;
            found.worst = std::max(found.worst, std::isnan(error) ? INFINITY : error);
            found.of_bound = std::max(found.of_bound, error / bound);
          }
        }
    return found;
  }

  void check(const Case& c, int64_t chunk = 0) {
    SCOPED_TRACE(testing::Message() << c);
    std::vector<Memory> memory = operands(c);
    const Errors before = errors(c, memory, run(c, without_tiles(), memory, chunk));
    const Errors after = errors(c, memory, run(c, by_terms(), memory, chunk));
    if (machine_.emulates()) {
      EXPECT_GT(products_, 0);
    }
    EXPECT_LE(after.of_bound, 1);
    EXPECT_LE(after.worst, 1.5 * before.worst + 4 * u) << before.worst / u << " by multiply-adds";
  }

  // Where operands are extraordinary, results are what multiply-adds give.
  struct Both {
    explicit Both(const Case& c) : terms(make_program(c), by_terms()), chains(make_program(c), without_tiles()) {}
    Compiled terms, chains;
  };
  void check_special(const Case& c, const Both& compiled, std::vector<Memory>& memory) {
    const std::vector<float> chains = run(c, compiled.chains, memory), terms = run(c, compiled.terms, memory);
    if (machine_.emulates()) {
      EXPECT_GT(products_, 0);
    }
    // Of a head's column.
    std::vector<float> largest(static_cast<size_t>(c.batch * c.heads * c.values));
    auto column = [&](size_t i) {
      const auto width = static_cast<size_t>(c.values);
      return i / (static_cast<size_t>(c.queries) * width) * width + i % width;
    };
    for (size_t i = 0; i < chains.size(); ++i) {
      SCOPED_TRACE(i);
      ASSERT_EQ(std::isnan(terms[i]), std::isnan(chains[i])) << terms[i] << ' ' << chains[i];
      if (std::isnan(chains[i])) continue;
      if (std::isinf(chains[i]) || std::isinf(terms[i])) {
        ASSERT_EQ(terms[i], chains[i]);
        continue;
      }
      largest[column(i)] = std::max(largest[column(i)], std::abs(chains[i]));
    }
    for (size_t i = 0; i < chains.size(); ++i)
      if (std::isfinite(chains[i])) {
        ASSERT_NEAR(terms[i], chains[i], 1e-5 * static_cast<double>(largest[column(i)]) + 0x1p-146) << i;
      }
  }

  TileMachine machine_;
  int64_t products_ = 0;  // of the last run
};

// Of two heads; units have three panels of queries or more where there are as many.
Case sized(int64_t queries, int64_t keys, int64_t depth, int64_t values) { return {1, 2, 1, queries, keys, depth, values}; }

TEST_F(AttentionTerms, sizes_masks_and_layouts) {
  int number = 0;
  const std::array<int64_t, 4> sizes[] = {{96, 128, 32, 32},  {97, 31, 33, 16}, {70, 144, 64, 64},
                                          {129, 299, 40, 24}, {80, 1, 96, 33},  {280, 33, 48, 48}};
  for (auto [queries, keys, depth, values] : sizes)
    for (bool inside : {false, true}) {
      Case c = sized(queries, keys, depth, values);
      c.score = static_cast<Score>(number++ % 4);
      c.heads_inside = inside;
      check(c, number % 3);
    }
}

TEST_F(AttentionTerms, causal_and_symbolic) {
  for (bool symbolic : {false, true})
    for (int64_t queries : {100, 150}) {
      Case c = sized(queries, queries + 1, 64, 64);
      c.causal = true;
      c.symbolic = symbolic;
      check(c, symbolic ? 1 : 0);
    }
}

// Depths beyond one block of the chain's sums.
TEST_F(AttentionTerms, long_rows) { check(sized(33, 40, 400, 8)); }

// Everything that is no ordinary number, in one place or another.
TEST_F(AttentionTerms, numbers_that_terms_cannot_hold) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const Case c = sized(40, 140, 40, 33);
  const Both compiled(c);
  for (float x : {infinity, -infinity, std::bit_cast<float>(0x7fffffffu), 3.3e38f, 1e30f, 0x1p-100f, 1e-41f})
    for (int buffer : {q_buffer, k_buffer, v_buffer}) {
      SCOPED_TRACE(std::to_string(x) + " in " + std::to_string(buffer));
      std::vector<Memory> memory = operands(c);
      const int64_t row = buffer == v_buffer ? c.values : c.depth;
      memory[static_cast<size_t>(buffer)].as<float>()[3 * row + 5] = x;
      memory[static_cast<size_t>(buffer)].as<float>()[77 * row + 9] = x;
      check_special(c, compiled, memory);
    }
}

// Scales at which the low terms are subnormal or sums overflow; products of both are ordinary.
TEST_F(AttentionTerms, operands_of_any_magnitude) {
  const Case c = sized(40, 140, 40, 33);
  const Both compiled(c);
  const std::array<int, 3> sizes[] = {{-120, 118, 0}, {110, -112, 0}, {-20, 18, -100}, {0, 0, -130},
                                      {0, 0, 120},    {-60, 60, 60},  {-70, -70, 0}};
  for (auto [q, k, v] : sizes) {
    SCOPED_TRACE(q);
    std::vector<Memory> memory = operands(c);
    auto scale = [&](int buffer, int by) {
      Memory& m = memory[static_cast<size_t>(buffer)];
      for (size_t i = 0; i < m.size() / sizeof(float); ++i) m.as<float>()[i] = std::ldexp(m.as<float>()[i], by);
    };
    scale(q_buffer, q);
    scale(k_buffer, k);
    scale(v_buffer, v);
    check_special(c, compiled, memory);
  }
}

// Probabilities of any size: what tiles take for 0 is nothing beside the row's largest value.
TEST_F(AttentionTerms, sharp_rows) {
  const Case c = sized(40, 256, 64, 48);
  const Both compiled(c);
  std::vector<Memory> memory = operands(c);
  for (size_t i = 0; i < memory[q_buffer].size() / sizeof(float); ++i) memory[q_buffer].as<float>()[i] *= 20;
  check_special(c, compiled, memory);
}

TEST_F(AttentionTerms, units_change_no_bits) {
  const Case c = sized(260, 70, 32, 16);
  std::vector<Memory> memory = operands(c);
  const std::vector<float> one = run(c, by_terms(1), memory);  // units of eight panels
  for (auto [threads, chunk] : {std::pair{2, 1}, {64, 0}}) {   // of three
    const std::vector<float> other = run(c, by_terms(threads), memory, chunk);
    EXPECT_EQ(std::memcmp(one.data(), other.data(), one.size() * sizeof(float)), 0) << threads;
  }
}

// Two steps of depth and four of keys, 24 products of 32 × 32 sums each.
TEST_F(AttentionTerms, work) {
  if (!machine_.emulates()) GTEST_SKIP() << "only the emulator counts";
  const Case c = sized(96, 128, 64, 64);
  std::vector<Memory> memory = operands(c);
  run(c, by_terms(), memory);
  const int64_t panels = c.batch * c.heads * 3;
  EXPECT_EQ(products_, panels * (4 * 2 * 24 + 2 * 4 * 24));
}

}  // namespace
}  // namespace hologram::test

#endif

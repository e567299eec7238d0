// tests/codegen/tiles_test.cpp: products on AMX tiles, their instructions emulated, against the interpreter, bit by bit.
#include "support/tiles.h"
#include "backend/cpu/products/plan.h"
#include "base/error.h"
#include "codegen/run_kernel.h"
#include "support/count.h"
#include "support/refusal.h"
#include "support/test.h"
#include "support/tile_products.h"

#if defined(__x86_64__) && defined(__linux__)

namespace hologram::test {
namespace {

using namespace tile_products;

class Tiles : public testing::Test {
 protected:
  using Edit = std::function<void(Memory& lhs, Memory& rhs)>;

  cpu::Target target_ = tile_target();
  void SetUp() override {
    if (!runs_tile_targets()) GTEST_SKIP() << "no AVX2";
  }

  void check(const Case& c, int64_t chunk = 0, const Edit& edit = {}) {
    SCOPED_TRACE(testing::Message() << c);
    atlas::Program p = make_program(c);
    const std::vector<int64_t> syms = symbols_of(c);
    std::vector<Memory> memory = random_operands(p, syms, 11);
    ASSERT_EQ(memory[packed_buffer].size(), static_cast<size_t>(packed_words(c)) * 4);
    if (edit) edit(memory[lhs_buffer], memory[rhs_buffer]);
    pack(c, memory[rhs_buffer].data(), memory[packed_buffer].data());
    Memory expected = interpreted(p, memory, syms);
    int64_t before = amx::state().executed;
    expect_run(Compiled(p, target_), memory, syms, chunk);
    if (machine_.emulates() && c.m * c.n * c.k > 0) {
      EXPECT_GT(amx::state().executed, before);
    }
    EXPECT_EQ(amx::state().config[0], 0) << "tiles are still configured";
    size_t wrong = 0, first = 0;
    auto *got = memory.back().as<uint32_t>(), *want = expected.as<uint32_t>();
    for (size_t i = 0; i < expected.size() / 4; ++i) {
      bool nans = c.terms && std::isnan(std::bit_cast<float>(got[i])) && std::isnan(std::bit_cast<float>(want[i]));
      if (got[i] != want[i] && !nans && wrong++ == 0) first = i;
    }
    EXPECT_EQ(wrong, 0u) << "of " << expected.size() / 4 << ", the first at " << first << ": " << std::bit_cast<float>(got[first])
                         << ", expected " << std::bit_cast<float>(want[first]);
  }

  TileMachine machine_;
};

DType operand_of(int terms) { return terms == 0 ? DType::i8 : terms == 1 ? DType::bf16 : DType::f32; }

using Sizes = std::array<int64_t, 3>;
const Sizes tails[] = {{1, 1, 1}, {1, 40, 33}, {33, 1, 70}, {16, 32, 32}, {32, 64, 64}, {17, 31, 65}, {48, 100, 96}, {65, 33, 31}};

TEST_F(Tiles, bfloat16_with_tails_in_every_dimension) {
  for (auto [m, n, k] : tails) {
    check({.m = m, .n = n, .k = k});
    check({.m = m, .n = n, .k = k, .batch = 2, .symbolic = true}, 1);
  }
}

TEST_F(Tiles, bfloat16_blocks_of_k) {
  for (int64_t k : {511, 512, 513, 1088}) check({.m = 20, .n = 40, .k = k});
  check({.m = 40, .n = 70, .k = 600, .batch = 2, .symbolic = true}, 1);
  check({.m = 300, .n = 40, .k = 520});
}

TEST_F(Tiles, parts_of_the_columns_are_finished_together) {
  for (int terms : {0, 1, 3}) {
    const DType operand = operand_of(terms);
    for (auto [m, part, k] : {Sizes{7, 20, 40}, {40, 33, 64}, {70, 64, 520}})
      for (int64_t parts : {2, 3, 4})
        check({.m = m, .n = parts * part, .k = k, .batch = 2, .operand = operand, .terms = terms, .parts = parts}, 1);
    check({.m = 40, .n = 150, .k = 40, .operand = operand, .terms = terms, .symbolic = true, .parts = 3});
  }
  // Elements that terms cannot give, in a part behind the first.
  check({.m = 20, .n = 120, .k = 40, .operand = DType::f32, .terms = 3, .parts = 3}, 0, [](Memory& lhs, Memory& rhs) {
    lhs.as<float>()[3 * 40 + 5] = 1e-40f;
    rhs.as<float>()[5 * 120 + 47] = 1e38f;
    rhs.as<float>()[9 * 120 + 85] = INFINITY;
  });
}

TEST_F(Tiles, no_sum_is_0) {
  for (int terms : {1, 3}) {
    DType operand = terms == 1 ? DType::bf16 : DType::f32;
    check({.m = 20, .n = 40, .k = 0, .operand = operand, .terms = terms});
    check({.m = 20, .n = 40, .k = 0, .operand = operand, .terms = terms, .symbolic = true});
    check({.m = 0, .n = 40, .k = 8, .operand = operand, .terms = terms, .symbolic = true});
  }
}

// Rows that lie along m are turned over in registers: none of their elements is read by itself.
TEST_F(Tiles, left_operands_along_m) {
  for (int terms : {0, 1, 2, 3}) {
    const DType operand = operand_of(terms);
    for (auto [m, k] : {std::pair<int64_t, int64_t>{37, 70}, {80, 128}, {5, 33}})
      check({.m = m, .n = 40, .k = k, .batch = 2, .operand = operand, .terms = terms, .lhs_transposed = true, .symbolic = m == 37}, 1);
    const Case c{.m = 64, .n = 64, .k = 128, .operand = operand, .terms = terms, .lhs_transposed = true};
    auto target = cpu::with_tiles(cpu::generic_target(cpu::Isa::avx512));
    const std::string text = cpu::dump_asm(make_program(c), target);
    for (const char* slow : {"vpinsr", "gather", "vinsertps"}) EXPECT_EQ(text.find(slow), std::string::npos) << terms << ' ' << slow;
  }
  // Classes of rows: elements that terms cannot give.
  check({.m = 40, .n = 40, .k = 40, .operand = DType::f32, .terms = 3, .lhs_transposed = true}, 0, [](Memory& lhs, Memory& rhs) {
    lhs.as<float>()[3 * 40 + 5] = 1e-40f;
    lhs.as<float>()[7 * 40 + 35] = INFINITY;
    rhs.as<float>()[5 * 40 + 7] = 1e38f;
  });
}

TEST_F(Tiles, bfloat16_special_numbers) {
  Case c{.m = 40, .n = 64, .k = 50};
  check(c, 0, [](Memory& lhs, Memory& rhs) {
    lhs.as<uint16_t>()[5 * 50 + 3] = 0x7f80;
    lhs.as<uint16_t>()[9 * 50 + 7] = 0x7fc0;
    rhs.as<uint16_t>()[7 * 64 + 5] = 0xff80;
    rhs.as<uint16_t>()[8 * 64 + 6] = 0x0041;
  });
  check(c, 0, [](Memory& lhs, Memory& rhs) {  // products and sums that are subnormal
    for (size_t i = 0; i < 40 * 50; ++i) lhs.as<uint16_t>()[i] = static_cast<uint16_t>(0x2000 + (i % 2 << 15) + i % 97);
    for (size_t i = 0; i < 64 * 50; ++i) rhs.as<uint16_t>()[i] = static_cast<uint16_t>(0x1f00 + i % 89);
  });
}

TEST_F(Tiles, float32_as_one_two_and_three_terms) {
  for (int terms : {1, 2, 3}) {
    for (auto [m, n, k] : tails) check({.m = m, .n = n, .k = k, .operand = DType::f32, .terms = terms});
    check({.m = 40, .n = 70, .k = 600, .batch = 2, .operand = DType::f32, .terms = terms, .symbolic = true}, 1);
    check({.m = 70, .n = 40, .k = 1030, .operand = DType::f32, .terms = terms});
  }
}

TEST_F(Tiles, float32_that_terms_cannot_hold) {
  float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  for (bool symbolic : {false, true}) {
    Case c{.m = 40, .n = 70, .k = 530, .operand = DType::f32, .terms = 3, .symbolic = symbolic};
    auto set = [](Memory& m, int64_t row, int64_t columns, int64_t column, float x) { m.as<float>()[row * columns + column] = x; };
    for (float x : {inf, -inf, nan, 3.4e38f, 1e-45f, 1e-40f, 0x1p-110f, 1e-20f, 1e20f}) {
      SCOPED_TRACE(x);
      check(c, 0, [&](Memory& lhs, Memory& rhs) {
        set(lhs, 7, 530, 3, x);
        set(lhs, 39, 530, 529, -x);
        set(rhs, 3, 70, 5, x);
        set(rhs, 520, 70, 69, x);
      });
    }
    check(c, 0, [&](Memory& lhs, Memory& rhs) {  // sums too small to trust, and zeros
      for (int64_t k = 0; k < 530; ++k) set(lhs, 3, 530, k, k % 7 ? 0 : 0x1p-60f);
      for (int64_t k = 0; k < 530; ++k) set(lhs, 4, 530, k, 0);
      for (int64_t k = 0; k < 530; ++k) set(rhs, k, 70, 11, 0x1p-50f);
      for (int64_t k = 0; k < 530; ++k) set(rhs, k, 70, 12, k == 4 ? 0x1p-45f : 0);
    });
  }
}

TEST_F(Tiles, bytes) {
  for (auto [m, n, k] : tails)
    for (DType operand : {DType::i8, DType::u8})
      for (bool mixed : {false, true}) check({.m = m, .n = n, .k = k, .operand = operand, .terms = 0, .mixed = mixed});
  for (bool mixed : {false, true}) check({.m = 40, .n = 70, .k = 130, .operand = DType::i8, .terms = 0, .mixed = mixed, .words = true});
  for (auto [m, n, k] : {Sizes{40, 70, 130}, Sizes{20, 33, 1100}, Sizes{20, 33, 1024}})
    check({.m = m, .n = n, .k = k, .batch = 2, .operand = DType::i8, .terms = 0, .symbolic = true}, 1);
}

TEST_F(Tiles, rows_are_tiles_of_one_height) {
  if (!machine_.emulates()) GTEST_SKIP() << "tiles of its own";
  const std::array<int64_t, 3> sizes[] = {{5, 1, 5},   {16, 1, 16}, {17, 2, 9},  {20, 2, 10}, {31, 2, 16},
                                          {33, 3, 11}, {40, 3, 14}, {64, 4, 16}, {100, 7, 15}};
  for (auto [m, tiles, rows] : sizes)
    for (int terms : {0, 2}) {
      SCOPED_TRACE(m);
      amx::state().products = amx::state().product_rows = 0;
      check({.m = m, .n = 70, .k = 100, .operand = terms ? DType::f32 : DType::u8, .terms = terms, .lhs_transposed = m == 20});
      const int64_t each = terms ? 3 * 4 * 6 : 2 * 6;  // products for 100 values of k, 70 columns
      EXPECT_EQ(amx::state().products, tiles * each);
      EXPECT_EQ(amx::state().product_rows, tiles * each * rows);
    }
}

TEST_F(Tiles, rows_of_one_and_two_tiles) {
  for (int64_t m = 15; m <= 34; ++m)
    for (int terms : {0, 1, 3})
      check({.m = m, .n = 33, .k = 70, .operand = operand_of(terms), .terms = terms, .lhs_transposed = m % 2 == 1});
  for (int64_t m : {17, 50, 100}) {  // several blocks of k, parts
    check({.m = m, .n = 40, .k = 1100, .operand = DType::f32, .terms = 2});
    check({.m = m, .n = 40, .k = 600, .lhs_transposed = true, .parts = 2}, 1);
  }
}

// docs/products.md states these.
TEST(TileTargets, instructions_of_a_step) {
  auto target = cpu::with_tiles(cpu::generic_target(cpu::Isa::avx512));
  struct {
    DType operand;
    int terms, loads, products;
    const char* product;
  } wanted[] = {{DType::bf16, 1, 4, 4, "tdpbf16ps"}, {DType::f32, 1, 4, 4, "tdpbf16ps"},
                {DType::f32, 2, 8, 12, "tdpbf16ps"}, {DType::f32, 3, 14, 24, "tdpbf16ps"},
                {DType::i8, 0, 8, 8, "tdpbssd"},     {DType::u8, 0, 8, 8, "tdpbuud"}};  // twice: a tail of k has its own copy
  for (const auto& w : wanted) {
    SCOPED_TRACE(std::string(name_of(w.operand)) + " " + std::to_string(w.terms));
    std::string text = cpu::dump_asm(make_program({.m = 64, .n = 64, .k = 128, .operand = w.operand, .terms = w.terms}), target);
    for (auto [word, times] : std::vector<std::pair<const char*, int>>{
             {"tileloadd", w.loads}, {w.product, w.products}, {"tilezero", 4}, {"tilestored", 4}, {"ldtilecfg", 1}, {"tilerelease", 1}})
      EXPECT_EQ(count_of(text, word), times) << word;
  }
}

// How many lines the first level is asked for behind each tile product, and how far ahead.
TEST(TileTargets, prefetches_are_spread_over_the_products_of_a_step) {
  auto target = cpu::with_tiles(cpu::generic_target(cpu::Isa::avx512));
  struct {
    DType operand;
    int terms;
    int64_t k;
    int products, lines;  // of a step
    bool in_place;
  } wanted[] = {{DType::f32, 3, 640, 24, 192, false}, {DType::f32, 2, 640, 12, 128, false}, {DType::f32, 1, 640, 4, 32, false},
                {DType::bf16, 1, 640, 4, 32, true},   {DType::bf16, 1, 650, 4, 32, false},  {DType::i8, 0, 640, 4, 32, false}};
  for (const auto& w : wanted) {
    SCOPED_TRACE(std::string(name_of(w.operand)) + " " + std::to_string(w.terms));
    const Case c{.m = 64, .n = 64, .k = w.k, .operand = w.operand, .terms = w.terms};
    std::vector<std::string> tiles[2];  // the instructions on tiles, without their addresses
    for (bool on : {true, false}) {
      target.tile_prefetch = on;
      std::istringstream text(cpu::dump_asm(make_program(c), target));
      std::vector<int> behind;  // lines behind each product
      int64_t farthest = 0;
      for (std::string line; std::getline(text, line);) {
        if (line.find("tdp") != std::string::npos) behind.push_back(0);
        if (line.find("%tmm") != std::string::npos) {
          std::string& name = tiles[on].emplace_back(line.substr(1, line.find('\t', 1)));
          for (size_t t = 0; (t = line.find("%tmm", t)) != std::string::npos; ++t) name += line.substr(t, 5);
        }
        const size_t at = line.find("prefetcht0");
        if (at == std::string::npos) continue;
        ASSERT_FALSE(behind.empty()) << "a line ahead of the first product";
        ++behind.back();
        farthest = std::max<int64_t>(farthest, std::atoll(line.c_str() + at + 10));
      }
      ASSERT_GE(behind.size(), static_cast<size_t>(w.products));
      behind.resize(static_cast<size_t>(w.products));  // a tail has its own copy, without
      const int all = std::accumulate(behind.begin(), behind.end(), 0);
      EXPECT_EQ(all, on ? w.lines : 0);
      const auto [least, most] = std::ranges::minmax(behind);
      EXPECT_LE(most - least, 1);
      if (!on) {
        EXPECT_EQ(tiles[true], tiles[false]);
      }
      // The last line of the step but one: packed operands lie step behind step.
      if (on && !w.in_place) {
        EXPECT_EQ(farthest % 2048, 2048 - 64) << farthest;
      }
    }
  }
}

// A block of k of the rows, of two panels, and the sums: at most 7/8 of the cache.
TEST(TileTargets, units_leave_room_in_the_second_level) {
  auto target = cpu::with_tiles(cpu::generic_target(cpu::Isa::avx512));
  auto unit = [&](int64_t second_level, int terms) {
    cpu::Processor p = *cpu::find_processor("emerald-rapids");
    p.second_level = second_level;
    target.processor = &p;
    const DType operand = terms == 1 ? DType::bf16 : DType::f32;
    const Case c{.m = 4096, .n = 4096, .k = 4096, .operand = operand, .terms = terms};
    auto plan = cpu::plan_tile_product(make_program(c), target);
    EXPECT_TRUE(plan && plan->blocked());
    const int64_t bytes = (plan->block_groups + 2) * 16 * 2048 * terms + plan->block_groups * plan->block_panels * 4096;
    EXPECT_LE(bytes, second_level / 8 * 7) << terms;
    return std::pair(plan->block_groups, plan->block_panels);
  };
  EXPECT_EQ(unit(2 << 20, 3), std::pair(int64_t{8}, int64_t{8}));
  EXPECT_EQ(unit(2 << 20, 1), std::pair(int64_t{8}, int64_t{16}));
  EXPECT_EQ(unit(1 << 20, 3), std::pair(int64_t{4}, int64_t{8}));
  EXPECT_EQ(unit(1 << 20, 1), std::pair(int64_t{8}, int64_t{16}));
}

TEST(TileTargets, products_of_terms_need_tiles) {
  atlas::Program p = make_program({.m = 16, .n = 32, .k = 32});
  EXPECT_NE(refusal([&] { cpu::compile(p, cpu::generic_target(cpu::Isa::avx512)); }, ErrorCode::unsupported), "");
}

}  // namespace
}  // namespace hologram::test

#endif

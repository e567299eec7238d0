// tests/codegen/product_test.cpp: compiled products against the interpreter, bit by bit.
#include "backend/cpu/products/plan.h"
#include "codegen/in_turn.h"
#include "codegen/products.h"
#include "codegen/run_kernel.h"
#include "support/count.h"
#include "support/test.h"

namespace hologram::test {
namespace {

using namespace products;

// Runs a program natively and in the interpreter on the same data; the last buffer must agree in
// every bit, or within `bound` times its largest number.
void expect_same(const atlas::Program& p, const cpu::Target& target, const std::vector<int64_t>& syms, int64_t chunk,
                 void (*edit)(std::vector<Memory>&) = nullptr, double bound = 0) {
  std::vector<Memory> memory = random_operands(p, syms, 7);
  if (edit) edit(memory);
  Memory expected = interpreted(p, memory, syms);
  expect_run(Compiled(p, target), memory, syms, chunk);
  const size_t out_bytes = expected.size();
  DType t = p.buffers.back().dtype;
  auto size = static_cast<size_t>(size_of(t));
  size_t wrong = 0, first = 0;
  double largest = 0;
  for (size_t i = 0; bound > 0 && i < out_bytes / size; ++i) {
    uint64_t y = 0;
    std::memcpy(&y, expected.data() + i * size, size);
    largest = std::max(largest, std::abs(ir::as_double(t, y)));
  }
  for (size_t i = 0; i < out_bytes / size; ++i) {
    uint64_t x = 0, y = 0;
    std::memcpy(&x, memory.back().data() + i * size, size);
    std::memcpy(&y, expected.data() + i * size, size);
    bool both_nan = is_float(t) && std::isnan(ir::as_double(t, x)) && std::isnan(ir::as_double(t, y));
    bool near = bound > 0 && std::abs(ir::as_double(t, x) - ir::as_double(t, y)) <= bound * largest;
    if (x != y && !both_nan && !near && wrong++ == 0) first = i;
  }
  EXPECT_EQ(wrong, 0u) << "of " << out_bytes / size << ", the first at " << first;
}

class Product : public testing::TestWithParam<cpu::Isa> {
 protected:
  cpu::Target target() const { return cpu::generic_target(GetParam()); }
  void check(const Case& c, int64_t chunk = 0) {
    const testing::Message about = testing::Message() << c;
    if (!in_turn(GetParam(), about.GetString())) return;
    SCOPED_TRACE(about);
    std::vector<int64_t> syms;
    if (c.symbolic) syms = {c.m, c.n / c.parts, c.k};
    expect_same(make_program(c, cpu::panel_width(target(), c.operand)), target(), syms, chunk);
  }
};

TEST_P(Product, packed_shapes_with_tails) {
  const std::array<int64_t, 3> sizes[] = {{1, 1, 1},   {1, 100, 20}, {1, 300, 7},  {2, 130, 9},  {3, 70, 33},  {5, 64, 16},
                                          {12, 32, 8}, {13, 33, 9},  {25, 96, 40}, {31, 61, 17}, {100, 40, 11}};
  for (auto [m, n, k] : sizes)
    for (int64_t more : {0, 384})  // the second is too deep to run without panels in scratch
      check({.m = m, .n = n, .k = k + more, .packed = true});
}

// All columns in one panel that ends in the middle of a vector: that half is a vector of its own.
TEST_P(Product, columns_that_end_in_half_a_vector) {
  const cpu::TileModel tile = cpu::tile_model(target(), DType::f32);
  const int64_t n = tile.panel - tile.lanes / 2;
  for (int64_t m : {1, 5, 13, 200})
    for (int64_t k : {5, 389})
      for (Tail tail : {Tail::store, Tail::bias, Tail::gelu_residual, Tail::narrow})
        for (bool packed : {false, true}) check({.m = m, .n = n, .k = k, .packed = packed, .tail = tail});
  for (bool transposed : {false, true}) check({.m = 300, .n = n, .k = 150, .lhs_transposed = transposed, .packed = true});
}

TEST(ProductCode, half_a_vector_takes_half_of_the_multiply_adders) {
  auto narrow = [](int64_t n) {  // multiply-adds of 8 lanes
    std::string text =
        cpu::dump_asm(make_program({.m = 1200, .n = n, .k = 144, .packed = true}, 32), cpu::generic_target(cpu::Isa::avx512));
    int found = 0;
    for (size_t at = 0; (at = text.find("vfmadd", at)) != std::string::npos; ++at)
      found += count_of(text.substr(at, text.find('\n', at) - at), "ymm") > 0;
    // One register holds an element of the left operand for both.
    EXPECT_EQ(text.find("vbroadcastss\t%xmm"), std::string::npos);
    return found;
  };
  EXPECT_GE(narrow(24), 8);
  EXPECT_EQ(narrow(32), 0);
}

TEST(ProductCode, four_steps_of_avx2_are_a_round_where_they_divide_the_depth) {
  auto multiply_adds = [](int64_t k) {  // of two tiles of six rows
    return count_of(cpu::dump_asm(make_program({.m = 12, .n = 32, .k = k, .packed = true}, 16), cpu::generic_target(cpu::Isa::avx2)),
                    "vfmadd");
  };
  EXPECT_EQ(multiply_adds(512), 4 * multiply_adds(513));
}

TEST(ProductCode, what_an_epilogue_reads_of_each_row_is_fetched_before_the_sums) {
  auto fetches = [](Tail tail, int64_t k) {
    const cpu::Target target = cpu::generic_target(cpu::Isa::avx512);
    return count_of(cpu::dump_asm(make_program({.m = 300, .n = 96, .k = k, .packed = true, .tail = tail}, 32), target), "prefetcht1");
  };
  for (int64_t k : {64, 13'200}) EXPECT_GT(fetches(Tail::gelu_residual, k), fetches(Tail::bias, k));
}

TEST_P(Product, every_small_row_count) {
  for (int64_t m = 1; m <= 26; ++m)
    for (int64_t k : {5, 389}) check({.m = m, .n = 37, .k = k, .packed = true});
}

TEST_P(Product, small_ones_of_every_width) {
  for (int64_t n = 1; n <= 70; n += n < 20 ? 1 : 7)
    for (bool rhs_t : {false, true}) check({.m = 3 + n % 11, .n = n, .k = 1 + n % 13, .batch = 3, .rhs_transposed = rhs_t});
}

TEST_P(Product, small_ones_of_every_kind) {
  const std::array<int64_t, 3> sizes[] = {{1, 1, 1}, {64, 64, 64}, {25, 24, 9}, {7, 100, 16}, {48, 17, 384}, {1, 33, 200}, {200, 5, 7}};
  for (auto [m, n, k] : sizes)
    for (bool lhs_t : {false, true})
      for (Tail tail : {Tail::bias, Tail::gelu_residual, Tail::narrow})
        check({.m = m, .n = n, .k = k, .batch = 2, .lhs_transposed = lhs_t, .tail = tail}, 1);
  for (auto [operand, acc] : {std::pair{DType::f64, DType::f64}, {DType::i32, DType::i32}, {DType::i64, DType::i64}})
    for (bool rhs_t : {false, true}) check({.m = 9, .n = 21, .k = 30, .batch = 2, .operand = operand, .acc = acc, .rhs_transposed = rhs_t});
}

TEST_P(Product, parts_of_the_columns_are_finished_together) {
  for (int64_t parts : {2, 3, 4, 7})
    for (int64_t m : {1, 3, 12, 30})
      for (int64_t part : {5, 64, 75}) check({.m = m, .n = parts * part, .k = 40, .packed = true, .parts = parts});
  for (int64_t m : {1, 50, 170})  // many units, and more rows than are finished at a time
    check({.m = m, .n = 4 * 165, .k = 390, .batch = 2, .packed = true, .tail = Tail::gelu_residual, .parts = 4}, 1);
}

TEST_P(Product, parts_of_operands_of_every_kind) {
  for (bool rhs_t : {false, true})
    for (int64_t m : {1, 14, 90})
      for (int64_t part : {32, 50, 128})
        check({.m = m, .n = 3 * part, .k = 33, .lhs_transposed = true, .rhs_transposed = rhs_t, .tail = Tail::bias, .parts = 3});
  for (bool packed : {false, true})
    for (int64_t m : {1, 20}) check({.m = m, .n = 80, .k = 20, .packed = packed, .symbolic = true, .parts = 2}, 1);
  for (auto [from, to] : {std::pair{DType::bf16, DType::f32}, {DType::f64, DType::f64}, {DType::i8, DType::i32}})
    check({.m = 14, .n = 132, .k = 50, .operand = from, .acc = to, .packed = true, .parts = 4});
}

TEST_P(Product, depth_beyond_a_block_adds_blocks_in_order) {
  for (int64_t k : {383, 384, 385, 768, 1000}) check({.m = 7, .n = 40, .k = k, .packed = true, .tail = Tail::bias});
}

// What a unit would copy of a long k leaves the cache: units walk k in blocks, with sums of all
// their tiles in memory, among them those of a last tile that reaches back.
TEST_P(Product, sums_too_long_for_a_copy_are_walked_in_blocks) {
  const std::array<int64_t, 3> sizes[] = {{14, 20, 13'000}, {37, 70, 384 * 20}, {2, 40, 30'000}};
  for (bool lhs_t : {false, true})
    for (bool rhs_t : {false, true})
      for (auto [m, n, k] : sizes) check({.m = m, .n = n, .k = k, .lhs_transposed = lhs_t, .rhs_transposed = rhs_t});
  for (int64_t run : {50, 600})  // of k, whose ends are not the blocks'
    check({.m = 13, .n = 40, .k = 13'200, .tail = Tail::gelu_residual, .run = run});
  for (auto [from, to] : {std::pair{DType::f16, DType::f32}, {DType::i32, DType::i32}})
    check({.m = 15, .n = 33, .k = 12'000, .batch = 2, .operand = from, .acc = to}, 1);
}

TEST_P(Product, unpacked_operands) {
  const std::array<int64_t, 3> sizes[] = {{1, 50, 19}, {40, 50, 19}, {64, 64, 64}, {30, 17, 400}, {100, 130, 33}};
  for (bool lhs_t : {false, true})
    for (bool rhs_t : {false, true})
      for (auto [m, n, k] : sizes)
        for (int64_t more : {0, 384}) check({.m = m, .n = n, .k = k + more, .lhs_transposed = lhs_t, .rhs_transposed = rhs_t});
}

TEST_P(Product, epilogues_and_prologues) {
  for (Tail tail : {Tail::bias, Tail::gelu_residual, Tail::narrow})
    for (bool prologue : {false, true}) check({.m = 29, .n = 75, .k = 50, .packed = true, .prologue = prologue, .tail = tail});
}

TEST_P(Product, few_rows_and_a_large_matrix_in_place) {
  const std::array<int64_t, 3> sizes[] = {{1, 1030, 40}, {2, 90, 800}, {3, 200, 391}, {4, 2100, 33}, {1, 70, 1200}};
  for (auto [m, n, k] : sizes)
    for (Tail tail : {Tail::store, Tail::gelu_residual})
      for (bool rhs_t : {false, true})
        check({.m = m, .n = n, .k = k, .batch = 2, .lhs_transposed = tail == Tail::store, .rhs_transposed = rhs_t, .tail = tail}, 1);
  check({.m = 1, .n = 50, .k = 1152, .rhs_transposed = true});
  for (auto [n, k] : {std::pair{5, 3}, {1030, 390}, {17, 0}})
    check({.m = 2, .n = n, .k = k, .symbolic = true, .known_rows = true, .tail = Tail::bias});
  for (auto [m, n, k] : {std::array<int64_t, 3>{1, 5, 3}, {1, 70, 385}, {3, 33, 768}, {4, 20, 15}, {2, 17, 0}})
    for (DType t : {DType::f32, DType::f64})
      check({.m = m, .n = n, .k = k, .operand = t, .acc = t, .rhs_transposed = true, .symbolic = true, .known_rows = true});
  for (DType t : {DType::f64, DType::i32}) check({.m = 2, .n = 300, .k = 390, .operand = t, .acc = t});
}

TEST_P(Product, symbolic_sizes) {
  for (bool packed : {false, true})
    for (auto [m, n, k] : {std::array<int64_t, 3>{1, 70, 12}, {2, 140, 3}, {11, 31, 400}, {200, 65, 24}})
      check({.m = m, .n = n, .k = k, .batch = 2, .packed = packed, .symbolic = true, .tail = Tail::bias}, 1);
}

TEST_P(Product, symbolic_transposed) {
  for (auto [m, n, k] : {std::array<int64_t, 3>{1, 70, 12}, {15, 31, 37}, {3, 5, 1160}, {2, 0, 5}})
    for (bool rhs_t : {false, true}) check({.m = m, .n = n, .k = k, .lhs_transposed = true, .rhs_transposed = rhs_t, .symbolic = true});
  check({.m = 4, .n = 40, .k = 800, .operand = DType::f64, .acc = DType::f64, .symbolic = true});
}

TEST_P(Product, element_types) {
  for (bool packed : {false, true}) {
    check({.m = 17, .n = 45, .k = 390, .operand = DType::f64, .acc = DType::f64, .packed = packed});
    for (DType t : {DType::bf16, DType::f16})
      check({.m = 17, .n = 45, .k = 39, .operand = t, .acc = DType::f32, .packed = packed, .tail = Tail::narrow});
    for (auto [from, to] : {std::pair{DType::i8, DType::i32},
                            {DType::u8, DType::i32},
                            {DType::i8, DType::i8},
                            {DType::u8, DType::u8},
                            {DType::i16, DType::i16},
                            {DType::i32, DType::i32},
                            {DType::i64, DType::i64}})
      if (!packed || cpu::panel_width(target(), from) == cpu::panel_width(target(), to))
        check({.m = 14, .n = 45, .k = 50, .operand = from, .acc = to, .packed = packed});
    for (DType from : {DType::i8, DType::u8})
      for (int64_t m : {1, 3, 14})
        for (int64_t n : {45, 48}) check({.m = m, .n = n, .k = 50, .operand = from, .acc = DType::i32, .packed = packed, .mixed = true});
  }
}

TEST_P(Product, nothing_to_add_gives_zero_and_no_rows_do_nothing) {
  for (bool symbolic : {false, true}) {
    check({.m = 5, .n = 40, .k = 0, .packed = true, .symbolic = symbolic, .tail = Tail::bias});
    check({.m = 5, .n = 40, .k = 0, .symbolic = symbolic});
  }
  EXPECT_EQ(cpu::launch_of(make_program({.m = 0, .n = 40, .k = 3}, 32), target()).total.eval({}), 0);
  EXPECT_EQ(cpu::launch_of(make_program({.m = 4, .n = 0, .k = 3}, 32), target()).total.eval({}), 0);
}

// Few rows times a matrix that stays in the caches: units that threads share, however little.
TEST(ProductUnits, few_rows_with_a_small_matrix_are_shared) {
  cpu::Target target = cpu::generic_target(cpu::Isa::avx512);
  auto chunks = [&](const Case& c) {
    cpu::Launch l = cpu::launch_of(make_program(c, cpu::panel_width(target, c.operand)), target);
    return ceil_div(l.total, l.grain).eval({});
  };
  EXPECT_GE(chunks({.m = 1, .n = 512, .k = 512, .packed = true}), 4);
  EXPECT_EQ(chunks({.m = 16, .n = 64, .k = 384, .packed = true}), 1);
}

TEST_P(Product, few_rows_of_what_no_core_keeps_go_panel_by_panel_where_that_is_faster) {
  cpu::Target streams = target();
  streams.processor = cpu::find_processor("zen4");
  const auto side_by_side = [&](const cpu::Target& target, const Case& c) {
    return cpu::plan_product(make_program(c, cpu::panel_width(target, c.operand)), target).panels_for(1);
  };
  for (int64_t m : {1, 3}) {
    const Case c{.m = m, .n = 2'600, .k = 210, .packed = true, .tail = Tail::bias};
    EXPECT_EQ(side_by_side(streams, c), 1);
    EXPECT_GT(side_by_side(target(), c), 1);
    expect_same(make_program(c, cpu::panel_width(streams, c.operand)), streams, {}, 0);
  }
  EXPECT_GT(side_by_side(streams, {.m = 1, .n = 2'400, .k = 210, .packed = true}), 1);
  EXPECT_GT(side_by_side(streams, {.m = 1, .n = 2'600, .k = 210}), 1);
}

// 512 KiB of second-level cache, 16 registers: rows of a unit stay there, none is computed twice, six or five at a time.
TEST(ProductUnits, rows_of_avx2_stay_in_the_second_level) {
  cpu::Target target = cpu::generic_target(cpu::Isa::avx2);
  for (auto [m, n, k] : {std::array<int64_t, 3>{1024, 1536, 384}, {1024, 384, 1536}, {128, 3072, 768}, {256, 256, 256}}) {
    const cpu::ProductPlan p = cpu::plan_product(make_program({.m = m, .n = n, .k = k, .packed = true}, 16), target);
    EXPECT_LE(std::min(p.block_rows, m) * k * 4, 448 << 10) << m;
    EXPECT_GE(p.block_rows, 64) << m;  // four tiles of a panel fetch the next one
    EXPECT_EQ(p.heights(), (std::vector<int>{5, 6})) << m;
    for (int64_t rows : p.row_counts()) EXPECT_EQ(cpu::covered_rows(p.tile, rows), rows);
  }
}

// Nine units of 14 x 14 pixels would leave one of two threads a fifth less to do.
TEST(ProductUnits, few_units_are_shared_evenly) {
  cpu::Target target = cpu::generic_target(cpu::Isa::avx512);
  for (auto [n, k] : {std::array<int64_t, 2>{64, 384}, {96, 576}, {576, 96}}) {
    Case c{.m = 196, .n = n, .k = k, .packed = true};
    cpu::Launch l = cpu::launch_of(make_program(c, 32), target);
    EXPECT_EQ(l.total.eval({}) % 2, 0) << c;
    EXPECT_GE(l.total.eval({}), 8) << c;
    EXPECT_TRUE(l.grain.is(1)) << c;
  }
}

// Sums over 100,352 pixels: a thread's unit each, which reads each operand once.
TEST(ProductUnits, long_sums_are_shared_by_rows_or_columns) {
  cpu::Target target = cpu::generic_target(cpu::Isa::avx512);
  target.threads = 2;
  for (auto [m, n] : {std::array<int64_t, 2>{96, 16}, {16, 128}}) {
    Case c{.m = m, .n = n, .k = 100'352, .lhs_transposed = true};
    EXPECT_EQ(cpu::launch_of(make_program(c, 32), target).total.eval({}), 2) << c;
  }
}

// Six rows of a step are three eighths of a line: copied as they lie, long sums would leave the first-level cache between tiles.
TEST(ProductUnits, long_columns_are_turned_over_for_low_tiles) {
  auto path = [](cpu::Isa isa, const Case& c) { return cpu::plan_product(make_program(c, 0), cpu::generic_target(isa)).lhs; };
  const Case c{.m = 512, .n = 128, .k = 1024, .lhs_transposed = true};
  EXPECT_EQ(path(cpu::Isa::avx2, c), cpu::LhsPath::turned);
  EXPECT_EQ(path(cpu::Isa::avx512, c), cpu::LhsPath::columns);
  EXPECT_EQ(path(cpu::Isa::avx2, {.m = 512, .n = 128, .k = 256, .lhs_transposed = true}), cpu::LhsPath::columns);
  EXPECT_EQ(path(cpu::Isa::avx2, {.m = 512, .n = 16, .k = 1024, .lhs_transposed = true}), cpu::LhsPath::columns);
}

TEST_P(Product, infinities_and_nan_stay_in_their_rows_and_columns) {
  expect_same(make_program({.m = 20, .n = 40, .k = 9}, 0), target(), {}, 0, [](std::vector<Memory>& m) {
    m[lhs_buffer].as<float>()[3 * 9 + 2] = INFINITY;
    m[lhs_buffer].as<float>()[7 * 9 + 1] = NAN;
    m[rhs_buffer].as<float>()[4 * 40 + 39] = -INFINITY;
    m[rhs_buffer].as<float>()[2 * 40 + 5] = 0;
  });
}

// Weights of 8 bits, or of 4 in the halves of a byte, with a scale per column and group of k;
// blocks of `block` columns, or rows of all of them.
atlas::Program narrow_program(int64_t m, int64_t n, int64_t k, int64_t group, bool halves, int64_t block, DType operand = DType::f32,
                              bool zeros = false) {
  atlas::Program p;
  int64_t padded = (n + block - 1) / block * block, groups = (k + group - 1) / group;
  p.buffers = {{operand, Access::read, m * k},
               {halves ? DType::u8 : DType::i8, Access::read, padded * (halves ? (k + 1) / 2 : k)},
               {DType::f32, Access::read, groups * n},
               {DType::f32, Access::write, m * n}};
  atlas::ProductBlock& b = p.block.emplace<atlas::ProductBlock>();
  b.axes = {{AxisKind::parallel, m}, {AxisKind::parallel, n}, {AxisKind::row, k}};
  b.operand_type = operand;
  b.acc_type = DType::f32;
  Expr im = Expr::axis(0, m), in = Expr::axis(1, n), ik = Expr::axis(2, k);
  BodyBuilder lhs(b.lhs), rhs(b.rhs), e(b.epilogue);
  lhs.finish(lhs.load(0, operand, im * k + ik));
  Expr rows = halves ? Expr((k + 1) / 2) : Expr(k), row = halves ? floor_div(ik, 2) : ik;
  Expr at = (floor_div(in, block) * rows + row) * Expr(block) + mod(in, block);
  Val w = rhs.load(1, halves ? DType::u8 : DType::i8, at);
  if (halves) {
    Val low = rhs.op(ir::Op::bit_and, w, rhs.integer(DType::u8, 15)), high = rhs.op(ir::Op::shr, w, rhs.integer(DType::u8, 4));
    w = rhs.select(rhs.lt(rhs.index(mod(ik, 2)), rhs.integer(DType::i64, 1)), low, high);
  }
  w = rhs.cast(w, DType::f32);
  if (halves) w = rhs.sub(w, rhs.number(DType::f32, 8));
  Val scale = rhs.load(2, DType::f32, floor_div(ik, group) * n + in);
  w = rhs.mul(w, scale);
  if (zeros) w = rhs.add(rhs.mul(scale, rhs.number(DType::f32, 3)), w);
  rhs.finish(rhs.cast(w, operand));
  e.store(3, im * n + in, e.accumulator(0, DType::f32));
  atlas::expand_math(p);
  return p;
}

TEST_P(Product, weights_of_few_bits) {
  const std::array<int64_t, 4> sizes[] = {{1, 256, 64, 32}, {1, 144, 801, 128}, {2, 80, 1152, 256}, {3, 48, 385, 385},
                                          {5, 100, 50, 25}, {8, 16, 96, 16},    {9, 64, 70, 10},    {1, 139, 70, 70}};
  for (bool halves : {false, true})
    for (auto [m, n, k, group] : sizes)
      for (int64_t block : {int64_t{64}, int64_t{16}, n}) {
        SCOPED_TRACE(testing::Message() << m << 'x' << n << 'x' << k << " groups of " << group << (halves ? " halves" : "") << " blocks of "
                                        << block);
        atlas::Program p = narrow_program(m, n, k, group, halves, block, DType::f32, halves);
        EXPECT_EQ(cpu::plan_narrow_product(p, target()).has_value(), m <= 8 && target().vector_bytes >= 32);
        if (block == 64) expect_same(p, target(), {}, 1, nullptr, 1e-5);
        p.product().reproducible = true;
        expect_same(p, target(), {}, 1);
      }
  for (DType t : {DType::f16, DType::bf16}) expect_same(narrow_program(2, 96, 400, 32, true, 64, t), target(), {}, 0);
  const cpu::Target avx2 = cpu::generic_target(cpu::Isa::avx2);  // a line of each stream is fetched for four values of k
  EXPECT_EQ(count_of(cpu::dump_asm(narrow_program(1, 256, 64, 64, false, cpu::byte_columns(avx2)), avx2), "prefetcht0"), 4);
}

// Scales are applied to sums of groups only where that gives the chain's infinities and NaN.
TEST_P(Product, weights_of_few_bits_times_infinities) {
  for (float special : {INFINITY, NAN, 3e38f}) {
    static float put;
    put = special;
    expect_same(narrow_program(2, 128, 200, 32, true, 64, DType::f32, true), target(), {}, 1, [](std::vector<Memory>& m) {
      for (int64_t i : {int64_t{5}, int64_t{270}, int64_t{271}}) std::memcpy(m[0].data() + i * 4, &put, 4);
    });
  }
}

TEST_P(Product, halves_that_columns_choose) {  // PyTorch's layout: columns n and n + 32 in a byte
  for (int64_t n : {int64_t{256}, int64_t{192}}) {
    int64_t k = 40;
    atlas::Program p = narrow_program(1, n, k, 8, true, 64);
    BodyBuilder rhs(p.product().rhs = {});
    Expr in = Expr::axis(1, n), ik = Expr::axis(2, k);
    Val w = rhs.load(1, DType::u8, floor_div(in, 64) * Expr(32 * k) + ik * Expr(32) + mod(in, 32));
    Val low = rhs.op(ir::Op::bit_and, w, rhs.integer(DType::u8, 15)), high = rhs.op(ir::Op::shr, w, rhs.integer(DType::u8, 4));
    w = rhs.select(rhs.lt(rhs.index(mod(floor_div(in, 32), 2)), rhs.integer(DType::i64, 1)), low, high);
    w = rhs.mul(rhs.cast(w, DType::f32), rhs.load(2, DType::f32, floor_div(ik, 8) * n + in));
    rhs.finish(w);
    expect_same(p, target(), {}, 1, nullptr, 1e-5);
    p.product().reproducible = true;
    expect_same(p, target(), {}, 1);
  }
}

class Dots : public testing::Test {
 protected:
  void check(const Case& c, int64_t chunk = 0, void (*edit)(std::vector<Memory>&) = nullptr) {
    SCOPED_TRACE(testing::Message() << c);
    std::vector<int64_t> syms;
    if (c.symbolic) syms = {c.m, c.n, c.k};
    int group = cpu::panel_group(target_, c.operand, c.acc);
    ASSERT_EQ(group, c.operand == DType::bf16 || !target_.i8_dots ? 2 : 4);
    int width = cpu::panel_width(target_, c.operand);
    expect_same(make_program(c, width, c.packed ? group : 1), target_, syms, chunk, edit);
  }
  cpu::Target target_;
};

// The dot instructions for bfloat16 and bytes, where this machine has them.
class Dots512 : public Dots {
 protected:
  void SetUp() override {
    auto isas = runnable_isas();
    if (std::find(isas.begin(), isas.end(), cpu::Isa::avx512) == isas.end()) GTEST_SKIP() << "no AVX-512";
    target_ = cpu::with_dots_of_host(cpu::generic_target(cpu::Isa::avx512));
    if (!target_.bf16_dots || !target_.i8_dots) GTEST_SKIP() << "no dot instructions";
  }
};

struct DotTypes {
  DType operand, acc;
  bool mixed;
};
constexpr DotTypes dot_types[] = {{DType::bf16, DType::f32, false},
                                  {DType::i8, DType::i32, false},
                                  {DType::u8, DType::i32, false},
                                  {DType::i8, DType::i32, true},
                                  {DType::u8, DType::i32, true}};

Case of(Case c, const DotTypes& types) {
  c.operand = types.operand, c.acc = types.acc, c.mixed = types.mixed;
  return c;
}

TEST_F(Dots512, give_the_bits_of_multiply_adds) {
  const std::array<int64_t, 3> sizes[] = {{1, 70, 33}, {3, 200, 64}, {13, 33, 7}, {40, 96, 385}, {100, 75, 1000}, {30, 64, 8}};
  for (const DotTypes& type : dot_types)
    for (auto [m, n, k] : sizes)
      for (bool packed : {false, true})
        for (bool rhs_t : {false, true})
          check(of({.m = m, .n = n, .k = k, .batch = 2, .rhs_transposed = rhs_t && !packed, .packed = packed, .tail = Tail::bias}, type),
                1);
}

TEST_F(Dots512, take_any_operands) {
  for (const DotTypes& type : dot_types)
    for (bool lhs_t : {false, true}) {
      check(of({.m = 29, .n = 50, .k = 45, .lhs_transposed = lhs_t, .packed = true, .prologue = true}, type));
      for (auto [m, n, k] : {std::array<int64_t, 3>{2, 33, 5}, {29, 50, 46}, {50, 31, 0}})
        check(of({.m = m, .n = n, .k = k, .lhs_transposed = lhs_t, .packed = lhs_t, .symbolic = true}, type));
    }
}

// Rows of windows are copied run by run: none of their elements is read by itself.
TEST_F(Dots512, windows) {
  for (const DotTypes& type : dot_types)
    for (auto [run, runs] : {std::pair<int64_t, int64_t>{64, 9}, {3, 9}, {21, 7}, {48, 3}, {200, 4}, {4, 25}, {6, 4}})
      for (auto [reproducible, outside] : {std::pair<bool, int64_t>{false, runs / 2}, {false, 0}, {true, runs / 2}, {true, 0}}) {
        const Case c = of(
            {.m = 29, .n = 50, .k = run * runs, .batch = 2, .packed = true, .reproducible = reproducible, .run = run, .outside = outside},
            type);
        check(c, 1);
        if ((run < 64 && outside) || reproducible) continue;
        const int group = cpu::panel_group(target_, c.operand, c.acc);
        const std::string text = cpu::dump_asm(make_program(c, 32, group), target_);
        for (const char* slow : {"vpinsr", "gather"}) EXPECT_EQ(text.find(slow), std::string::npos) << slow;
      }
}

TEST_F(Dots, bytes_on_avx2) {
  std::vector<cpu::Target> targets{cpu::generic_target(cpu::Isa::avx2)};
  cpu::Target best = cpu::with_dots_of_host(targets[0]);
  if (best.i8_dots) targets.push_back(best);
  for (const cpu::Target& target : targets) {
    target_ = target;
    const Case packed{.m = 24, .n = 64, .k = 64, .operand = DType::i8, .acc = DType::i32, .packed = true};
    const std::string text = cpu::dump_asm(make_program(packed, 16, target.i8_dots ? 4 : 2), target);
    EXPECT_NE(text.find(target.i8_dots ? "vpdpbusd" : "vpmovsxbw"), std::string::npos);
    EXPECT_EQ(text.find("vpsraw"), std::string::npos);  // each load widens, and nothing else
    for (int64_t run : {3, 24, 70})
      for (const DotTypes& type : std::span(dot_types).subspan(1))
        check(of({.m = 29, .n = 50, .k = 9 * run, .packed = true, .run = run}, type));
    for (const DotTypes& type : std::span(dot_types).subspan(1))
      for (bool packed : {false, true})
        for (auto [m, n, k] : {std::array<int64_t, 3>{1, 70, 33}, {13, 33, 8}, {40, 96, 385}, {29, 50, 0}})
          for (bool symbolic : {false, true}) {
            Case c = of({.m = m, .n = n, .k = k, .packed = packed, .symbolic = symbolic, .tail = Tail::bias}, type);
            c.batch = symbolic ? 0 : 2;
            c.rhs_transposed = !packed && !c.mixed;
            c.lhs_transposed = packed && k == 385;
            check(c, 1);
          }
  }
}

TEST_F(Dots512, tiny_numbers_infinities_and_nan) {
  Case c{.m = 40, .n = 64, .k = 50, .operand = DType::bf16, .reproducible = true};
  check(c, 0, [](std::vector<Memory>& m) {
    m[lhs_buffer].as<uint16_t>()[5 * 50 + 3] = 0x7f80;
    m[lhs_buffer].as<uint16_t>()[9 * 50 + 7] = 0x7fc0;
    m[rhs_buffer].as<uint16_t>()[7 * 64 + 5] = 0xff80;
  });
  check(c, 0, [](std::vector<Memory>& m) {  // a subnormal times a large number counts
    for (size_t k = 0; k < 50; ++k) m[lhs_buffer].as<uint16_t>()[9 * 50 + k] = 0x0041;
    for (size_t k = 0; k < 50; ++k) m[rhs_buffer].as<uint16_t>()[k * 64 + 5] = 0x7e00;
  });
  check(c, 0, [](std::vector<Memory>& m) {  // and so does the other way round
    for (size_t k = 0; k < 50; ++k) m[lhs_buffer].as<uint16_t>()[9 * 50 + k] = 0x7e00;
    for (size_t k = 0; k < 50; ++k) m[rhs_buffer].as<uint16_t>()[k * 64 + 5] = 0x0041;
  });
  check(c, 0, [](std::vector<Memory>& m) {  // products that are subnormal
    for (size_t i = 0; i < 40 * 50; ++i) m[lhs_buffer].as<uint16_t>()[i] = static_cast<uint16_t>(0x2000 + i % 97);
    for (size_t i = 0; i < 64 * 50; ++i) m[rhs_buffer].as<uint16_t>()[i] = static_cast<uint16_t>(0x1f00 + i % 89);
  });
  Case wide{.m = 40, .n = 600, .k = 1000, .operand = DType::bf16, .reproducible = true};
  check(wide, 1,
        [](std::vector<Memory>& m) {  // what one chunk found holds for those that share its rows
          for (size_t k = 0; k < 1000; ++k) m[lhs_buffer].as<uint16_t>()[9 * 1000 + k] = 0x0041;
          for (size_t k = 0; k < 1000; ++k) m[rhs_buffer].as<uint16_t>()[k * 600 + 595] = 0x7e00;
        });
  c.reproducible = false;
  check(c, 0, [](std::vector<Memory>& m) {  // tiny, but nothing that arises is subnormal
    for (size_t i = 0; i < 40 * 50; ++i) m[lhs_buffer].as<uint16_t>()[i] = static_cast<uint16_t>(0x0f00 + i % 97);
  });
}

// Where bits are not promised, dots need no multiply-adds for subnormal numbers.
TEST_F(Dots512, only_reproducible_products_look_for_tiny_numbers) {
  auto text = [&](bool reproducible) {
    Case c{.m = 40, .n = 64, .k = 50, .operand = DType::bf16, .reproducible = reproducible};
    return cpu::dump_asm(make_program(c, 32), target_);
  };
  EXPECT_EQ(text(false).find("vfmadd"), std::string::npos);
  EXPECT_NE(text(true).find("vfmadd"), std::string::npos);
}

// Results that are rounded to bfloat16: by the instruction for it where the bits of subnormal numbers are not promised.
TEST_F(Dots512, round_their_results) {
  for (bool reproducible : {false, true}) {
    Case c{.m = 41, .n = 96, .k = 50, .operand = DType::bf16, .reproducible = reproducible, .tail = Tail::narrow};
    for (int64_t n : {96, 75}) {
      c.n = n;
      check(c);
      check(c, 0, [](std::vector<Memory>& m) {
        m[lhs_buffer].as<uint16_t>()[5 * 50 + 3] = 0x7f80;
        m[lhs_buffer].as<uint16_t>()[40 * 50 + 7] = 0x7fc0;
        m[rhs_buffer].as<uint16_t>()[2] = 0xff80;
      });
    }
    c.n = 96;
    bool instruction = cpu::dump_asm(make_program(c, 32), target_).find("vcvtne2ps2bf16") != std::string::npos;
    EXPECT_NE(instruction, reproducible);
  }
  Case c{.m = 41, .n = 96, .k = 50, .operand = DType::bf16, .tail = Tail::narrow};
  Case exact = c;
  exact.reproducible = true;
  check(exact, 0, [](std::vector<Memory>& m) {  // subnormal results
    for (size_t i = 0; i < 41 * 50; ++i) m[lhs_buffer].as<uint16_t>()[i] = 0x2000;
    for (size_t i = 0; i < 96 * 50; ++i) m[rhs_buffer].as<uint16_t>()[i] = 0x1f00;
    for (size_t i = 0; i < 96; ++i) m[bias_buffer].as<float>()[i] = 0;
  });
}

std::string isa_name(const testing::TestParamInfo<cpu::Isa>& info) { return std::string(cpu::name_of(info.param)); }
INSTANTIATE_TEST_SUITE_P(isa, Product, testing::ValuesIn(runnable_isas()), isa_name);

}  // namespace
}  // namespace hologram::test

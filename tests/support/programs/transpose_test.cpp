// tests/support/programs/transpose_test.cpp: points whose loads run across the lanes, against the interpreter.
#include "codegen/differential.h"

namespace hologram::test {
namespace {

using ir::Op;

/// out[p, i, j] = x[p, j, i] + y[p, i, j], or as a copy x alone; offset and directions of x (bits: of j, of i) vary.
atlas::Program transposed(const std::vector<Expr>& n, DType type, bool copy, int64_t shift, int backwards) {
  Points points(n);
  const std::vector<Expr>& at = points.i;
  Expr size = n[0] * n[1] * n[2];
  points.p.buffers = {{type, Access::read, size + Expr(shift)}, {type, Access::read, size}, {type, Access::write, size}};
  BodyBuilder body = points.body();
  Expr row = backwards & 1 ? n[2] - Expr(1) - at[2] : at[2], column = backwards & 2 ? n[1] - Expr(1) - at[1] : at[1];
  Expr straight = (at[0] * n[1] + at[1]) * n[2] + at[2];
  Val x = body.load(0, type, (at[0] * n[2] + row) * n[1] + column + Expr(shift));
  if (!copy) x = body.op(type == DType::b8 ? Op::bit_xor : Op::add, x, body.load(1, type, straight));
  body.store(2, straight, x);
  return points.p;
}

TEST(Transpose, ShapesTypesAndDirections) {
  std::vector<std::vector<int64_t>> shapes{{1, 16, 16}, {2, 17, 33}, {3, 40, 16}, {1, 64, 100}, {2, 100, 31}, {1, 5, 200}};
  for (const auto& shape : shapes)
    for (DType type : {DType::f32, DType::f64, DType::bf16, DType::i8, DType::b8, DType::i64})
      for (bool copy : {true, false}) {
        if (!copy && compute_type(type) != type) continue;
        SCOPED_TRACE(testing::PrintToString(shape) + " " + std::string(name_of(type)));
        std::vector<Expr> n{Expr(shape[0]), Expr(shape[1]), Expr(shape[2])};
        for (int backwards : {0, copy ? 2 : 3}) expect_same(transposed(n, type, copy, copy ? 3 : 0, backwards), {.chunks = {0, 1}});
      }
}

/// out[p, i, j] = what `count` neighbours x[p, j, count i …] are together: words of bytes and halves, a sum of floats.
atlas::Program neighbours(const std::vector<int64_t>& n, DType type, int count) {
  Points points({Expr(n[0]), Expr(n[1]), Expr(n[2])});
  const std::vector<Expr>& at = points.i;
  const DType out = type == DType::f32 ? DType::f32 : DType::u32;
  const DType bits = type == DType::i8 ? DType::u8 : DType::u16;
  const Expr size(n[0] * n[1] * n[2]);
  points.p.buffers = {{type, Access::read, size * Expr(count)}, {out, Access::write, size}};
  BodyBuilder body = points.body();
  Val sum;
  for (int t = 0; t < count; ++t) {
    const Expr from = ((at[0] * Expr(n[2]) + at[2]) * Expr(n[1]) + at[1]) * Expr(count) + Expr(t);
    Val x = body.load(0, type, from);
    if (type != DType::f32) x = body.cast(body.bitcast(x, bits), DType::u32);
    Val two = out == DType::f32 ? body.number(out, 2) : body.constant(out, 1 << 5);
    sum = t == 0 ? x : body.add(body.mul(sum, two), x);
  }
  body.store(1, (at[0] * Expr(n[1]) + at[1]) * Expr(n[2]) + at[2], sum);
  return points.p;
}

TEST(Transpose, NeighboursShareSquares) {
  const std::vector<std::vector<int64_t>> shapes{{2, 16, 32}, {1, 17, 33}, {1, 7, 100}};
  const std::pair<DType, int> more_sizes[] = {{DType::i8, 4},   {DType::i8, 3},  {DType::i8, 2},
                                              {DType::bf16, 2}, {DType::f32, 2}, {DType::f32, 4}};
  for (const auto& shape : shapes)
    for (auto [type, count] : more_sizes) {
      SCOPED_TRACE(testing::PrintToString(shape) + " " + std::string(name_of(type)) + " " + std::to_string(count));
      expect_same(neighbours(shape, type, count), {.chunks = {0, 1}});
    }
  // Four bytes are a word: 16 x 16 of them take 48 exchanges of two vectors and 16 loads of halves,
  // where picking single bytes took 400; the square stays in registers.
  std::istringstream text(cpu::dump_asm(neighbours({4, 64, 64}, DType::i8, 4), cpu::generic_target(cpu::Isa::avx512)));
  int shuffles = 0, halves = 0, on_stack = 0;
  for (std::string line; std::getline(text, line);) {
    for (const char* name : {"\tvperm", "\tvpunpck", "\tvunpck", "\tvshuf", "\tvpshufd", "\tvinsert"}) shuffles += line.starts_with(name);
    halves += line.starts_with("\tvinserti64x4\t$1, ") && line.find('(') != line.npos;
    on_stack += line.find("zmm") != line.npos && line.find("(%rsp)") != line.npos;
  }
  EXPECT_EQ(halves, 16);
  EXPECT_EQ(on_stack, 0);
  EXPECT_LE(shuffles, 72);
  EXPECT_GE(shuffles, 32);
}

TEST(Transpose, SymbolicSizes) {
  std::vector<Expr> n{Expr::symbol(0), Expr::symbol(1), Expr::symbol(2)};
  atlas::Program p = transposed(n, DType::f32, false, 0, 0);
  p.num_symbols = 3;
  for (std::vector<int64_t> sizes : {std::vector<int64_t>{2, 3, 4}, {1, 16, 17}, {3, 50, 64}}) expect_same(p, {.symbols = sizes});
}

TEST(Transpose, SquaresAreUsed) {
  std::vector<Expr> n{Expr(2), Expr(64), Expr(48)};
  auto target = cpu::generic_target(cpu::Isa::avx2);
  auto launch = cpu::launch_of(transposed(n, DType::f32, true, 0, 0), target);
  EXPECT_EQ(launch.total.constant_value(), 2 * 64 / 16);  // two squares fill a line of memory
}

/// out[p, x, c] = y[c, p, x - border] where that exists, else 0: an image's planes as pixels; those of i32 from the last one on.
atlas::Program pixels(int64_t lines, const Expr& length, int64_t run, int64_t border, DType type) {
  Points points({Expr(lines), length, Expr(run)}, !length.is_const());
  const std::vector<Expr>& at = points.i;
  Expr width = length - Expr(2 * border);
  points.p.buffers = {{type, Access::read, Expr(run * lines) * width}, {type, Access::write, Expr(lines * run) * length}};
  BodyBuilder body = points.body();
  Expr x = at[1] - Expr(border);
  Val guard;
  if (border > 0)
    guard = body.op(Op::bit_and, body.op(Op::le, body.integer(DType::i64, 0), body.index(x)),
                    body.op(Op::lt, body.index(x), body.index(width)));
  Expr from = (at[2] * Expr(lines) + at[0]) * width + (type == DType::i32 ? width - Expr(1) - x : x);
  body.store(1, (at[0] * length + at[1]) * Expr(run) + at[2], body.load(0, type, from, guard));
  return points.p;
}

using Sizes = std::initializer_list<int64_t>;
void expect_same_pixels(Sizes runs, Sizes lengths, Sizes borders, std::initializer_list<DType> types) {
  for (int64_t run : runs)
    for (int64_t length : lengths)
      for (int64_t border : borders)
        for (DType type : types) {
          SCOPED_TRACE(testing::PrintToString(std::vector{length, run, border}) + " " + std::string(name_of(type)));
          expect_same(pixels(3, length, run, border, type), {.chunks = {0, 1}});
        }
}

TEST(Transpose, ShortRunsAreInterleaved) {
  expect_same_pixels({2, 3, 4}, {16, 37, 66}, {0, 3}, {DType::f32, DType::f64, DType::bf16, DType::i32, DType::u8, DType::b8});
  for (int64_t run : {2, 3, 4})
    for (int64_t length : {7, 4100}) {
      SCOPED_TRACE(testing::PrintToString(std::vector{length, run}));
      expect_same(pixels(2, Expr::symbol(0), run, 1, DType::f64), {.symbols = {length}, .chunks = {0, 1}});
    }
  auto target = cpu::generic_target(cpu::Isa::avx2);
  for (auto [length, pieces] : {std::pair{40, 1}, {10000, 3}}) {
    auto launch = cpu::launch_of(pixels(5, length, 3, 1, DType::f32), target);
    EXPECT_EQ(launch.total.constant_value(), 5 * pieces);
  }
}

TEST(Transpose, SquaresWithABorder) {
  expect_same_pixels({9, 16, 40}, {8, 16, 37}, {1, 3}, {DType::f32, DType::f64, DType::bf16, DType::b8});
  auto target = cpu::generic_target(cpu::Isa::avx512);
  auto launch = cpu::launch_of(pixels(5, 40, 32, 1, DType::f32), target);
  EXPECT_EQ(launch.total.constant_value(), 5 * 3);  // squares of 16 lines each
}

}  // namespace
}  // namespace hologram::test

// tests/atlas/interp_test.cpp: the meaning of block programs against straightforward loops.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "atlas/abi.h"
#include "atlas/programs.h"
#include "backend/interp/backend.h"
#include "base/error.h"
#include "ir/scalar.h"
#include "same.h"

namespace hologram::test {
namespace {

std::vector<float> random_floats(size_t n, unsigned seed) {
  std::mt19937 gen(seed);
  std::normal_distribution<float> d;
  std::vector<float> v(n);
  for (float& x : v) x = d(gen);
  return v;
}

// Bit patterns of `type`, special ones first.
std::vector<uint64_t> patterns(DType type, size_t n, unsigned seed) {
  std::vector<uint64_t> v;
  if (is_float(type)) {
    double inf = std::numeric_limits<double>::infinity();
    for (double x : {0.0, -0.0, 1.0, -1.0, inf, -inf, double(NAN), 1e-40, 0.5, 3e38, -2.5}) v.push_back(ir::bits_of(type, x));
  } else {
    for (int64_t x : {0, 1, -1, 2, 127, -128, 63}) v.push_back(type == DType::b8 ? (x & 1) : ir::bits_of_integer(type, x));
    int width = size_of(type) * 8;
    if (is_signed_int(type)) v.push_back(uint64_t{1} << (width - 1));
  }
  std::mt19937_64 gen(seed);
  uint64_t mask = type == DType::b8 ? 1 : ~uint64_t{0} >> (64 - 8 * size_of(type));
  while (v.size() < n) v.push_back(gen() & mask);
  std::shuffle(v.begin(), v.end(), gen);
  return v;
}

std::vector<char> pack(DType type, const std::vector<uint64_t>& bits) {
  auto size = static_cast<size_t>(size_of(type));
  std::vector<char> out(bits.size() * size);
  for (size_t k = 0; k < bits.size(); ++k) std::memcpy(out.data() + k * size, &bits[k], size);
  return out;
}

uint64_t unpack(DType type, const std::vector<char>& bytes, size_t k) {
  uint64_t bits = 0;
  auto size = static_cast<size_t>(size_of(type));
  std::memcpy(&bits, bytes.data() + k * size, size);
  return bits;
}

// The interpreter's own loops give what ir::eval_scalar gives, for each exact op and type.
TEST(Interp, ExactOpsEqualEvalScalar) {
  constexpr size_t n = 300;
  for (int o = 0; o < ir::num_ops; ++o) {
    auto op = static_cast<Op>(o);
    const ir::OpInfo& row = ir::info(op);
    if (!ir::is_elementwise(op) || !(row.flags & ir::exact) || row.kind == ir::OpKind::cast || row.kind == ir::OpKind::select) continue;
    for (int t = 0; t < num_dtypes; ++t) {
      auto type = static_cast<DType>(t);
      if (!atlas::may_compute(op, type)) continue;
      DType to = row.kind == ir::OpKind::compare ? DType::b8 : type;
      std::vector<std::vector<uint64_t>> in;
      std::vector<std::vector<char>> bytes;
      std::vector<void*> bufs;
      for (int k = 0; k < row.arity; ++k) {
        in.push_back(patterns(type, n, static_cast<unsigned>(7 * o + k)));
        bytes.push_back(pack(type, in.back()));
      }
      std::vector<char> out(n * static_cast<size_t>(size_of(to)));
      for (auto& b : bytes) bufs.push_back(b.data());
      bufs.push_back(out.data());
      int32_t sticky = run(elementwise(op, type, row.arity, to), bufs, {n});
      bool error = false;
      for (size_t k = 0; k < n; ++k) {
        std::array<uint64_t, 3> args{};
        for (size_t j = 0; j < in.size(); ++j) args[j] = in[j][k];
        uint64_t want = ir::eval_scalar(op, type, std::span(args).first(in.size()), to, &error);
        ASSERT_TRUE(same(to, want, unpack(to, out, k)))
            << row.name << "." << name_of(type) << " of " << args[0] << ", " << args[1] << ", " << args[2];
      }
      EXPECT_EQ(sticky, error ? atlas::integer_division_by_zero : 0) << row.name;
    }
  }
}

TEST(Interp, CastsBetweenAllTypes) {
  constexpr size_t n = 64;
  for (Op how : {Op::cast, Op::cast_wrap, Op::bitcast})
    for (int f = 0; f < num_dtypes; ++f)
      for (int t = 0; t < num_dtypes; ++t) {
        auto from = static_cast<DType>(f), to = static_cast<DType>(t);
        if (!atlas::may_cast(how, from, to) || from == to) continue;
        Program p = elementwise(Op::select, DType::b8, 3, DType::b8);
        p.buffers = {{from, atlas::Access::read, sym(0)}, {to, atlas::Access::write, sym(0)}};
        atlas::Body& body = p.loop().stages[0].body;
        body = {};
        BodyBuilder b(body);
        Expr i = Expr::axis(0, sym(0));
        b.store(1, i, b.cast(b.load(0, from, i), to, how));
        std::vector<uint64_t> in = patterns(from, n, 5);
        std::vector<char> x = pack(from, in), out(n * static_cast<size_t>(size_of(to)));
        run(p, {x.data(), out.data()}, {n});
        for (size_t k = 0; k < n; ++k)
          ASSERT_TRUE(same(to, ir::eval_scalar(how, from, std::array{in[k]}, to), unpack(to, out, k)))
              << ir::name_of(how) << " " << name_of(from) << " to " << name_of(to) << " of " << in[k];
      }
}

// The stated order, written out.
float reference_sum(const std::vector<float>& x) {
  std::vector<std::pair<int, float>> counter;
  for (size_t at = 0; at < x.size(); at += 4096) {
    float p[64] = {};
    for (size_t k = 0; k < 4096; ++k) p[k % 64] += at + k < x.size() ? x[at + k] : 0.0f;
    for (int half = 32; half; half /= 2)
      for (int k = 0; k < half; ++k) p[k] += p[k + half];
    float block = p[0];
    int level = 0;
    for (; !counter.empty() && counter.back().first == level; ++level) {
      block = counter.back().second + block;
      counter.pop_back();
    }
    counter.emplace_back(level, block);
  }
  if (counter.empty()) return 0;
  float sum = counter.back().second;
  for (size_t k = counter.size() - 1; k-- > 0;) sum = counter[k].second + sum;
  return sum;
}

class SumOrder : public testing::TestWithParam<int64_t> {};

TEST_P(SumOrder, IsTheStatedOne) {
  int64_t n = GetParam();
  std::vector<float> x = random_floats(static_cast<size_t>(n), 3);
  float out = -1;
  run(row_reduction(Op::reduce_sum, DType::f32), {x.data(), &out}, {1, n});
  EXPECT_EQ(std::bit_cast<uint32_t>(out), std::bit_cast<uint32_t>(reference_sum(x)));
}

INSTANTIATE_TEST_SUITE_P(Sizes, SumOrder,
                         testing::Values(0, 1, 2, 63, 64, 65, 4095, 4096, 4097, 8192, 12288, 3 * 4096 + 5, 7 * 4096 + 1, 100000));

TEST(Interp, TreeReductionIsTheCounterAlone) {
  std::vector<float> x = random_floats(7, 4);
  float out = 0;
  run(row_reduction(Op::reduce_sum, DType::f32, true), {x.data(), &out}, {1, 7});
  EXPECT_EQ(out, ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + x[6]));
}

TEST(Interp, ArgReductionsTakeTheFirst) {
  float nan = NAN;
  std::vector<float> x = {1, 5, 5, -2, /**/ nan, 9, nan, 0, /**/ -1, -1, -3, -3};
  int64_t out[3];
  run(row_reduction(Op::reduce_argmax, DType::f32), {x.data(), out}, {3, 4});
  EXPECT_EQ(std::vector<int64_t>(out, out + 3), (std::vector<int64_t>{1, 0, 0}));
  run(row_reduction(Op::reduce_argmin, DType::f32), {x.data(), out}, {3, 4});
  EXPECT_EQ(std::vector<int64_t>(out, out + 3), (std::vector<int64_t>{3, 0, 2}));
}

TEST(Interp, ReductionsOfNothingGiveTheIdentity) {
  std::vector<std::pair<Op, float>> cases = {
      {Op::reduce_sum, 0.0f}, {Op::reduce_prod, 1.0f}, {Op::reduce_max, -INFINITY}, {Op::reduce_min, INFINITY}};
  for (auto [op, want] : cases) {
    float out = 42, none = 0;
    run(row_reduction(op, DType::f32), {&none, &out}, {1, 0});
    EXPECT_EQ(out, want) << ir::name_of(op);
  }
  int8_t least = 0, none = 0;
  run(row_reduction(Op::reduce_max, DType::i8), {&none, &least}, {1, 0});
  EXPECT_EQ(least, -128);
}

TEST(Interp, SerialRowsAccumulateInOrder) {
  Program p = row_reduction(Op::reduce_sum, DType::f32);
  p.buffers[1] = {DType::f32, atlas::Access::write, sym(0) * sym(1)};
  p.loop().stages.resize(1);
  atlas::Stage& s = p.loop().stages[0];
  s = {};
  s.kind = atlas::StageKind::serial_row;
  s.running = {{Op::reduce_sum, DType::f32}};
  BodyBuilder b(s.body);
  Expr at = Expr::axis(0, sym(0)) * sym(1) + Expr::axis(1, sym(1));
  b.store(1, at, b.accumulate(Op::reduce_sum, 0, b.load(0, DType::f32, at)));
  std::vector<float> x = random_floats(2 * 300, 9), y(600);
  run(p, {x.data(), y.data()}, {2, 300});
  for (size_t r = 0; r < 2; ++r) {
    float sum = 0;
    for (size_t k = 0; k < 300; ++k) ASSERT_EQ(y[r * 300 + k], sum += x[r * 300 + k]) << k;
  }
}

TEST(Interp, SerialScatterSeesItsOwnStores) {
  // out[index[j]] += x[j] in order, with repeated indices.
  Program p;
  p.num_symbols = 2;
  p.buffers = {{DType::f32, atlas::Access::read, sym(0)},
               {DType::i64, atlas::Access::read, sym(0)},
               {DType::f32, atlas::Access::read_write, sym(1)}};
  p.loop().axes = {{atlas::AxisKind::row, sym(0)}};
  p.loop().stages.resize(1);
  p.loop().stages[0].kind = atlas::StageKind::serial_row;
  BodyBuilder b(p.loop().stages[0].body);
  Expr j = Expr::axis(0, sym(0));
  Val k = b.clamp_index(b.load(1, DType::i64, j), sym(1));
  Expr at = Expr::value(static_cast<int>(k.id), sym(1));
  b.store(2, at, b.add(b.load(2, DType::f32, at), b.load(0, DType::f32, j)));
  std::vector<float> x = {1, 2, 4, 8, 16}, out(3, 0);
  std::vector<int64_t> index = {0, 2, 0, 2, 1};
  EXPECT_EQ(run(p, {x.data(), index.data(), out.data()}, {5, 3}), 0);
  EXPECT_EQ(out, (std::vector<float>{5, 16, 10}));
  index = {0, 3, 0, 1, -1};
  EXPECT_EQ(run(p, {x.data(), index.data(), out.data()}, {5, 3}), atlas::index_out_of_range);
  EXPECT_EQ(out, (std::vector<float>{5 + 1 + 2 + 4 + 16, 16 + 8, 10}));
}

TEST(Interp, GuardsKeepMemoryUntouched) {
  Program p = elementwise(Op::neg, DType::f32, 1, DType::f32);
  Expr i = Expr::axis(0, sym(0)), outside = i + Expr(100) * sym(0);
  atlas::Body& body = p.loop().stages[0].body;
  body = {};
  BodyBuilder b(body);
  Val never = b.lt(b.index(i), b.integer(DType::i64, 0)), one = b.integer(DType::i64, 1);
  Val odd = b.eq(b.op(Op::bit_and, b.index(i), one), one);
  Val zero = b.load(0, DType::f32, outside, never);
  b.store(1, i, b.add(zero, b.number(DType::f32, 1)), odd);
  b.store(1, outside, zero, never);
  std::vector<float> in(4, 7), out(4, 3);
  run(p, {in.data(), out.data()}, {4});
  EXPECT_EQ(out, (std::vector<float>{3, 1, 3, 1}));
}

TEST(Interp, SoftmaxThroughScratch) {
  Program p = row_reduction(Op::reduce_max, DType::f32);
  p.buffers[1] = {DType::f32, atlas::Access::write, sym(0) * sym(1)};
  p.buffers.push_back({DType::f32, atlas::Access::scratch, sym(1)});
  Expr i = Expr::axis(0, sym(0)), j = Expr::axis(1, sym(1)), at = i * sym(1) + j;
  p.loop().stages.resize(3);
  atlas::Stage& exps = p.loop().stages[1];
  exps = {};
  exps.kind = atlas::StageKind::row;
  BodyBuilder b(exps.body);
  Val e = b.op(Op::exp, b.sub(b.load(0, DType::f32, at), b.accumulator(0, DType::f32)));
  b.store(2, j, e);
  exps.reductions.push_back({.op = Op::reduce_sum, .type = DType::f32, .value = e.id});
  atlas::Stage& out = p.loop().stages[2];
  out.kind = atlas::StageKind::row;
  BodyBuilder c(out.body);
  c.store(1, at, c.div(c.load(2, DType::f32, j), c.accumulator(1, DType::f32)));
  std::vector<float> x = random_floats(3 * 200, 21), y(600);
  run(p, {x.data(), y.data()}, {3, 200});
  for (size_t r = 0; r < 3; ++r) {
    double max = -INFINITY, sum = 0;
    for (size_t k = 0; k < 200; ++k) max = std::max(max, double(x[r * 200 + k]));
    for (size_t k = 0; k < 200; ++k) sum += std::exp(x[r * 200 + k] - max);
    for (size_t k = 0; k < 200; ++k) ASSERT_NEAR(y[r * 200 + k], std::exp(x[r * 200 + k] - max) / sum, 1e-6);
  }
}

TEST(Interp, TriangularRows) {
  // Row extents that depend on the parallel axis: out[i] = sum of x[0..i].
  Program p = row_reduction(Op::reduce_sum, DType::i32);
  Expr i = Expr::axis(0, sym(0));
  p.loop().axes[1].extent = i + Expr(1);
  p.buffers[0].extent = sym(0);
  p.loop().stages[0].body = {};
  BodyBuilder b(p.loop().stages[0].body);
  b.load(0, DType::i32, Expr::axis(1, i + Expr(1)));
  std::vector<int32_t> x(200), out(200);
  for (size_t k = 0; k < 200; ++k) x[k] = static_cast<int32_t>(k);
  run(p, {x.data(), out.data()}, {200, 1});
  for (int k = 0; k < 200; ++k) ASSERT_EQ(out[static_cast<size_t>(k)], k * (k + 1) / 2);
}

class ProductDepth : public testing::TestWithParam<int64_t> {};

TEST_P(ProductDepth, IsAChainOfFmaPerBlock) {
  int64_t B = 2, M = 3, N = 150, K = GetParam();
  auto at = [](int64_t k) { return static_cast<size_t>(k); };
  std::vector<float> x = random_floats(at(B * M * K), 1), y = random_floats(at(B * K * N), 2), out(at(B * M * N), -1);
  run(batched_product(DType::f32, DType::f32, DType::f32), {x.data(), y.data(), out.data()}, {B, M, N, K});
  for (int64_t b = 0; b < B; ++b)
    for (int64_t m = 0; m < M; ++m)
      for (int64_t n = 0; n < N; ++n) {
        float sum = 0;
        for (int64_t begin = 0; begin < K; begin += 384) {
          float chain = 0;
          for (int64_t k = begin; k < std::min(K, begin + 384); ++k)
            chain = std::fma(x[at((b * M + m) * K + k)], y[at((b * K + k) * N + n)], chain);
          sum = begin ? sum + chain : chain;
        }
        ASSERT_EQ(out[at((b * M + m) * N + n)], sum) << b << " " << m << " " << n;
      }
}

INSTANTIATE_TEST_SUITE_P(Depths, ProductDepth, testing::Values(0, 1, 7, 383, 384, 385, 900));

TEST(Interp, IntegerProductsWrap) {
  std::vector<int8_t> x(300, -128), y(300, -128);
  int32_t out = 0;
  run(batched_product(DType::i8, DType::i32, DType::i32), {x.data(), y.data(), &out}, {1, 1, 1, 300});
  EXPECT_EQ(out, 300 * 16384);
  std::vector<int64_t> a(3, INT64_MAX), b(3, 3);
  int64_t wide = 0;
  run(batched_product(DType::i64, DType::i64, DType::i64), {a.data(), b.data(), &wide}, {1, 1, 1, 3});
  EXPECT_EQ(wide, static_cast<int64_t>(uint64_t{9} * INT64_MAX));
}

TEST(Interp, HalfProductsAccumulateInFloat) {
  std::vector<uint16_t> x(64, ir::f32_to_bf16(1.0f)), y(64, ir::f32_to_bf16(0.0078125f));
  x[0] = ir::f32_to_bf16(256.0f);
  y[0] = ir::f32_to_bf16(1.0f);
  uint16_t out = 0;
  run(batched_product(DType::bf16, DType::f32, DType::bf16), {x.data(), y.data(), &out}, {1, 1, 1, 64});
  EXPECT_EQ(ir::bf16_to_f32(out), ir::bf16_to_f32(ir::f32_to_bf16(256.0f + 63 * 0.0078125f)));
}

TEST(Interp, PackedOperandGivesTheSameBits) {
  int64_t B = 2, M = 5, N = 37, K = 20, width = 16, panels = 3;
  auto at = [](int64_t k) { return static_cast<size_t>(k); };
  std::vector<float> x = random_floats(at(B * M * K), 1), y = random_floats(at(B * K * N), 2), plain(at(B * M * N)),
                     packed_out(at(B * M * N)), panel(at(B * panels * K * width), 0);
  for (int64_t b = 0; b < B; ++b)
    for (int64_t k = 0; k < K; ++k)
      for (int64_t n = 0; n < N; ++n) panel[at(((b * panels + n / width) * K + k) * width + n % width)] = y[at((b * K + k) * N + n)];
  Program p = batched_product(DType::f32, DType::f32, DType::f32);
  run(p, {x.data(), y.data(), plain.data()}, {B, M, N, K});
  p.product().packed_rhs = 1;
  p.product().panel_width = 16;
  p.product().rhs = {};
  p.buffers[1].extent = Expr(B * panels * K * width);
  run(p, {x.data(), panel.data(), packed_out.data()}, {B, M, N, K});
  EXPECT_EQ(plain, packed_out);

  int64_t group = 4, steps = K / group;
  std::vector<float> grouped(panel.size(), 0);
  for (int64_t row = 0; row < B * panels * K; ++row)
    for (int64_t n = 0; n < width; ++n) {
      int64_t k = row % K, to = row / K * steps + k / group;
      grouped[at((to * width + n) * group + group - 1 - k % group)] = panel[at(row * width + n)];
    }
  p.product().panel_group = static_cast<int>(group);
  std::fill(packed_out.begin(), packed_out.end(), 0.0f);
  run(p, {x.data(), grouped.data(), packed_out.data()}, {B, M, N, K});
  EXPECT_EQ(plain, packed_out);
}

TEST(Interp, PartsOfAProductMeetInItsEpilogue) {
  int64_t M = 5, H = 21, K = 20, parts = 3, width = 16, blocks = 2;
  auto at = [](int64_t k) { return static_cast<size_t>(k); };
  int64_t N = parts * H;
  std::vector<float> x = random_floats(at(M * K), 1), y = random_floats(at(K * N), 2), plain(at(M * N)), want(at(M * H)), got(at(M * H)),
                     panel(at(blocks * parts * K * width), 0);
  Program p = batched_product(DType::f32, DType::f32, DType::f32);
  run(p, {x.data(), y.data(), plain.data()}, {1, M, N, K});
  for (int64_t m = 0; m < M; ++m)
    for (int64_t h = 0; h < H; ++h) {
      const float* row = plain.data() + m * N + h;
      want[at(m * H + h)] = row[0] * row[2 * H] - row[H];
    }
  p.product().parts = 3;
  p.product().axes[2].extent = Expr(parts) * sym(2);
  p.product().axes.push_back({atlas::AxisKind::parallel, sym(2)});
  p.product().rhs = p.product().epilogue = {};
  Expr n = Expr::axis(2, Expr(parts) * sym(2)), k = Expr::axis(3, sym(3));
  BodyBuilder(p.product().rhs).load(1, DType::f32, k * Expr(parts) * sym(2) + n);
  p.buffers[1].extent = Expr(K * N);
  BodyBuilder e(p.product().epilogue);
  auto sum = [&](int part) { return e.accumulator(part, DType::f32); };
  e.store(2, Expr::axis(1, sym(1)) * sym(2) + Expr::axis(4, sym(2)), e.sub(e.mul(sum(0), sum(2)), sum(1)));
  run(p, {x.data(), y.data(), got.data()}, {1, M, H, K});
  EXPECT_EQ(got, want);

  for (int64_t k0 = 0; k0 < K; ++k0)
    for (int64_t c = 0; c < N; ++c) panel[at((((c % H / width) * parts + c / H) * K + k0) * width + c % H % width)] = y[at(k0 * N + c)];
  p.product().packed_rhs = 1;
  p.product().panel_width = 16;
  p.product().rhs = {};
  p.buffers[1].extent = Expr(blocks * parts * K * width);
  std::fill(got.begin(), got.end(), 0.0f);
  run(p, {x.data(), panel.data(), got.data()}, {1, M, H, K});
  EXPECT_EQ(got, want);
}

TEST(Interp, ATailFollowsTheRowsOfAProduct) {
  int64_t B = 2, M = 5, N = 70, K = 9;
  auto at = [](int64_t k) { return static_cast<size_t>(k); };
  std::vector<float> x = random_floats(at(B * M * K), 1), y = random_floats(at(B * K * N), 2), plain(at(B * M * N)), kept = plain,
                     got = plain;
  run(batched_product(DType::f32, DType::f32, DType::f32), {x.data(), y.data(), plain.data()}, {B, M, N, K});
  run(product_with_tail(), {x.data(), y.data(), kept.data(), got.data()}, {B, M, N, K});
  EXPECT_EQ(kept, plain);
  for (int64_t m = 0; m < B * M; ++m) {
    float largest = *std::max_element(plain.data() + m * N, plain.data() + (m + 1) * N);
    for (int64_t n = 0; n < N; ++n) ASSERT_EQ(got[at(m * N + n)], largest - plain[at(m * N + n)]);
  }
}

TEST(Interp, AttentionAgainstDoubles) {
  int64_t B = 2, M = 5, N = 140, D = 16, E = 9;
  auto at = [](int64_t k) { return static_cast<size_t>(k); };
  for (bool causal : {false, true}) {
    auto q = random_floats(at(B * M * D), 1), k = random_floats(at(B * N * D), 2), v = random_floats(at(B * N * E), 3),
         bias = random_floats(at(M * N), 4);
    for (int64_t n = 0; n < N; ++n) bias[at(2 * N + n)] = -INFINITY;  // a row that is masked out
    std::vector<float> out(at(B * M * E), 42);
    run(biased_attention(DType::f32, causal), {q.data(), k.data(), v.data(), bias.data(), out.data()}, {B, M, N, D, E});
    for (int64_t b = 0; b < B; ++b)
      for (int64_t m = 0; m < M; ++m)
        for (int64_t e = 0; e < E; ++e) {
          double max = -INFINITY, sum = 0, acc = 0;
          std::vector<double> s(at(N), -INFINITY);
          for (int64_t n = 0; n < (causal ? m + 1 : N); ++n) {
            double dot = 0;
            for (int64_t d = 0; d < D; ++d) dot += double(q[at((b * M + m) * D + d)]) * k[at((b * N + n) * D + d)];
            s[at(n)] = dot * 0.125 + bias[at(m * N + n)];
            max = std::max(max, s[at(n)]);
          }
          for (int64_t n = 0; n < N && max > -INFINITY; ++n) {
            sum += std::exp(s[at(n)] - max);
            acc += std::exp(s[at(n)] - max) * v[at((b * N + n) * E + e)];
          }
          double want = m == 2 ? 0.0 : acc / sum;
          ASSERT_NEAR(out[at((b * M + m) * E + e)], want, 2e-6) << causal << b << m << e;
        }
  }
}

TEST(Interp, NamesTheAccessThatLeavesItsBuffer) {
  Program p = elementwise(Op::neg, DType::f32, 1, DType::f32);
  p.num_symbols = 2;
  p.buffers[0].extent = sym(1);
  std::vector<float> x(8), y(8);
  try {
    run(p, {x.data(), y.data()}, {8, 7});
    FAIL() << "expected an error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::internal);
    EXPECT_STREQ(e.what(), "interp: element 7 of buffer b0, which has 7");
  }
}

// What is stored on disk must not hold a function as some version of the library computed it.
TEST(Interp, StoresProgramsBeforeTheirFunctionsAreTakenApart) {
  Program p = elementwise(Op::gelu, DType::f32, 1, DType::f32);
  EXPECT_EQ(atlas::decode(interp::make_backend()->compile(p)), p);
}

}  // namespace
}  // namespace hologram::test

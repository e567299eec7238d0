// tests/runtime/tiles_test.cpp: whole graphs on a processor with AMX, which is emulated elsewhere.
#include <fmt/format.h>

#include "backend/cpu/backend.h"
#include "backend/cpu/compile.h"
#include "runtime/results.h"
#include "support/test.h"
#include "support/tiles.h"

#if defined(__x86_64__) && defined(__linux__)

namespace hologram::runtime {
namespace {

using ir::Graph;
using ir::Op;
using ir::Value;

std::vector<float> normal(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw;
  std::vector<float> x(n);
  for (float& v : x) v = draw(random);
  return x;
}

class TileGraph : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::runs_tile_targets()) GTEST_SKIP() << "no AVX2";
    // Pool threads block signals, the emulator's too: the calling thread does the work.
    runtime_ = runtime_of(cpu::Terms::model);
    runtime_->threads().set_num_threads(1);
  }

  static std::shared_ptr<Runtime> runtime_of(cpu::Terms terms) {
    cpu::Target target = test::tile_target();
    target.terms = terms;
    return std::make_shared<Runtime>(cpu::make_backend(target));
  }

  // x · w with a [m, k] and w [k, n]; w as it lies in memory, or transposed.
  std::shared_ptr<Executable> product(Expr m, int64_t k, int64_t n, int precision, bool w_static, bool w_transposed = false,
                                      DType type = DType::f32, bool reproducible = false) {
    Graph g;
    g.num_symbols = m.is_const() ? 0 : 1;
    Value x = g.parameter(0, DType::f32, {m, k}, {k, 1});
    Value w = w_transposed ? g.parameter(1, DType::f32, {n, k}, {k, 1}) : g.parameter(1, DType::f32, {k, n}, {n, 1});
    if (w_transposed) w = g.permute(w, {1, 0});
    if (type != DType::f32) x = g.cast(x, type), w = g.cast(w, type);
    Value y = g.make(Op::dot_general, {x, w}, {{precision}, {}, 0, ""});
    return finished(g, type == DType::f32 ? y : g.cast(y, DType::f32), {reproducible, false, {false, w_static}});
  }

  std::shared_ptr<Executable> finished(Graph& g, Value y, const CompileOptions& options = {}) {
    g.outputs.push_back({y, contiguous_strides(y->shape), -1});
    return Executable::compile(g, options, runtime_);
  }

  // One call, on tiles.
  template <class T>
  std::vector<T> run(Executable& e, std::vector<void*> inputs, std::vector<int64_t> symbols = {}) {
    Results<T> out;
    const int64_t before = test::amx::state().executed;
    EXPECT_EQ(call(e, std::move(inputs), std::move(symbols), out).status, 0);
    if (machine_.emulates() && tile_product(e)) {
      EXPECT_GT(test::amx::state().executed, before);
    }
    return out.data.at(0);
  }

  static const atlas::Program* tile_product(const Executable& e) {
    for (const atlas::Program& p : e.plan().programs)
      if (p.kind() == atlas::BlockKind::product && p.product().packed_rhs >= 0 && p.product().panel_group > 1) return &p;
    return nullptr;
  }

  static int terms_of(const Executable& e) {
    int terms = 0;
    for (const atlas::Program& p : e.plan().programs)
      if (p.kind() == atlas::BlockKind::product) terms = std::max(terms, p.product().terms);
    return terms;
  }

  // The largest error in units of 2^-24 sum |x||w|.
  double error(Executable& e, int64_t m, int64_t k, int64_t n, bool w_transposed = false) {
    auto x = normal(static_cast<size_t>(m * k), 1), w = normal(static_cast<size_t>(k * n), 2);
    const auto out = run<float>(e, {x.data(), w.data()}, {m});
    EXPECT_EQ(out.size(), static_cast<size_t>(m * n));
    double worst = 0;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0, size = 0;
        for (int64_t p = 0; p < k; ++p) {
          double t = double{x[static_cast<size_t>(i * k + p)]} * w[static_cast<size_t>(w_transposed ? j * k + p : p * n + j)];
          sum += t;
          size += std::abs(t);
        }
        worst = std::max(worst, std::abs(out[static_cast<size_t>(i * n + j)] - sum) / size);
      }
    return worst * 0x1p24;
  }

  test::TileMachine machine_;
  std::shared_ptr<Runtime> runtime_;
};

TEST_F(TileGraph, weights_of_three_terms_are_packed_once) {
  auto e = product(Expr(100), 160, 200, 0, true);
  EXPECT_EQ(terms_of(*e), 3);
  ASSERT_EQ(e->plan().cache.size(), 1u);
  EXPECT_LT(error(*e, 100, 160, 200), 3);
}

TEST_F(TileGraph, others_are_packed_for_each_call) {
  auto e = product(Expr::symbol(0), 96, 222, 0, false, true);
  EXPECT_EQ(terms_of(*e), 3);
  EXPECT_EQ(e->plan().cache.size(), 0u);
  EXPECT_LT(error(*e, 70, 96, 222, true), 3);
  EXPECT_LT(error(*e, 1, 96, 222, true), 3);
}

TEST_F(TileGraph, precision_high_is_two_terms_and_medium_one) {
  auto high = product(Expr(100), 160, 200, 1, true);
  EXPECT_EQ(terms_of(*high), 2);
  double e2 = error(*high, 100, 160, 200);
  EXPECT_LT(e2, 200);
  auto medium = product(Expr(100), 160, 200, 2, true);
  EXPECT_EQ(terms_of(*medium), 1);
  double e1 = error(*medium, 100, 160, 200);
  EXPECT_LT(e1, 0x1p16);
  EXPECT_GT(e1, 10 * e2);
}

TEST_F(TileGraph, float32_is_chains_where_terms_were_not_measured_to_be_faster) {
  runtime_ = runtime_of(cpu::Terms::measured);
  runtime_->threads().set_num_threads(1);
  for (int precision : {0, 1, 2}) {
    auto e = product(Expr(100), 160, 200, precision, true);
    EXPECT_EQ(terms_of(*e), 0);
    EXPECT_LT(error(*e, 100, 160, 200), 200);
  }
  auto e = product(Expr(40), 96, 64, 0, true, false, DType::bf16);
  EXPECT_EQ(terms_of(*e), 1);
}

TEST_F(TileGraph, bfloat16) {
  auto e = product(Expr(40), 96, 64, 0, true, false, DType::bf16);
  EXPECT_EQ(terms_of(*e), 1);
  EXPECT_LT(error(*e, 40, 96, 64), 0x1p18);  // operands and result are rounded to 8 bits
}

TEST_F(TileGraph, small_and_reproducible_products_are_chains) {
  EXPECT_EQ(terms_of(*product(Expr(16), 16, 64, 0, true)), 0);
  EXPECT_EQ(terms_of(*product(Expr(3), 256, 256, 0, true)), 0);
  EXPECT_EQ(terms_of(*product(Expr(256), 256, 256, 0, true, false, DType::f32, true)), 0);
}

std::vector<int8_t> random_bytes(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int8_t> x(n);
  for (int8_t& v : x) v = static_cast<int8_t>(random() >> 24);
  return x;
}

// Packed for the call by a kernel of its own, as words; few rows are not worth that.
TEST_F(TileGraph, bytes_that_are_new_in_each_call) {
  for (auto [m, k, n] : {std::array<int64_t, 3>{70, 130, 50}, {64, 64, 32}, {100, 1030, 33}}) {
    for (DType right : {DType::i8, DType::u8}) {
      Graph g;
      Value x = g.parameter(0, DType::i8, {m, k}, {k, 1}), w = g.parameter(1, right, {k, n}, {n, 1});
      auto e = finished(g, g.make(Op::dot_general, {x, w}, {{0}, {}, 0, ""}, DType::i32));
      const atlas::Program* p = tile_product(*e);
      ASSERT_TRUE(p);
      EXPECT_EQ(p->buffers[static_cast<size_t>(p->product().packed_rhs)].dtype, DType::u32);
      auto a = random_bytes(static_cast<size_t>(m * k), 1), b = random_bytes(static_cast<size_t>(k * n), 2);
      const auto out = run<int32_t>(*e, {a.data(), b.data()});
      int64_t wrong = 0;
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          int32_t sum = 0;
          for (int64_t t = 0; t < k; ++t) {
            const int8_t v = b[static_cast<size_t>(t * n + j)];
            sum += a[static_cast<size_t>(i * k + t)] * (right == DType::u8 ? static_cast<uint8_t>(v) : v);
          }
          wrong += out[static_cast<size_t>(i * n + j)] != sum;
        }
      EXPECT_EQ(wrong, 0) << m << ' ' << k << ' ' << n;
    }
  }
}

// Kernels that pack a right operand which is new in each call, along n or, `turned`, along k.
class TilePacking : public testing::Test {
 protected:
  TilePacking() {
    target_.terms = cpu::Terms::model;
    runtime_ = std::make_shared<Runtime>(cpu::make_backend(target_));
  }

  std::string packing(DType type, bool turned) {
    Graph g;
    Value x = g.parameter(0, type, {1024, 256}, {256, 1});
    Value w = turned ? g.permute(g.parameter(1, type, {192, 256}, {256, 1}), {1, 0}) : g.parameter(1, type, {256, 192}, {192, 1});
    Value y = g.make(Op::dot_general, {x, w}, {{0}, {}, 0, ""}, type == DType::i8 ? DType::i32 : type);
    g.outputs.push_back({y, contiguous_strides(y->shape), -1});
    auto e = Executable::compile(g, {}, runtime_);
    const auto& programs = e->plan().programs;
    EXPECT_EQ(programs.size(), 2u);
    EXPECT_EQ(programs[0].kind(), atlas::BlockKind::loop);
    return cpu::dump_asm(programs[0], target_);
  }

  // None of the elements is read by itself.
  static void expect_vectors(const std::string& text) {
    for (const char* slow : {"vpinsr", "vpextr", "gather"}) EXPECT_EQ(text.find(slow), std::string::npos) << slow;
  }

  cpu::Target target_ = cpu::with_tiles(cpu::with_dots(cpu::generic_target(cpu::Isa::avx512), false, true));
  std::shared_ptr<Runtime> runtime_;
};

// Rows of words become words vector by vector.
TEST_F(TilePacking, for_the_call_takes_whole_vectors) {
  for (DType type : {DType::bf16, DType::i8}) {
    SCOPED_TRACE(name_of(type));
    const std::string code = packing(type, false);
    expect_vectors(code);
    std::istringstream text(code);
    int stores = 0, loads = 0;
    for (std::string line; std::getline(text, line);) {
      stores += line.find("vmov") != std::string::npos && line.find("\t%zmm") != std::string::npos && line.find("(%") != std::string::npos;
      loads += line.find("vpmovzx") != std::string::npos;
      EXPECT_EQ(line.find("vpshufb"), std::string::npos) << line;
    }
    // Each row is read once; a last vector may be masked, and read in another way.
    const int rows = type == DType::i8 ? 4 : 2;
    EXPECT_GT(stores, 1);
    EXPECT_LE(loads, rows * stores) << code;
    EXPECT_GE(loads, rows * (stores - 1)) << code;
  }
}

// The longest run of instructions without a label: two vectors of words for each of three terms.
TEST_F(TilePacking, terms_are_one_pass) {
  const std::string code = packing(DType::f32, false);
  expect_vectors(code);
  std::istringstream text(code);
  struct {
    int all = 0, loads = 0, stores = 0;
  } now, longest;
  for (std::string line; std::getline(text, line);) {
    if (line.empty() || line[0] != '\t' || line.starts_with("\t.")) {
      if (line.starts_with(".LBB")) now = {};
      continue;
    }
    ++now.all;
    const bool moves = line.starts_with("\tvmovdqu64\t") || line.starts_with("\tvmovups\t");
    now.stores += moves && line.find("\t%zmm") != std::string::npos;
    now.loads += moves && line.find("\t%zmm") == std::string::npos;
    if (line.starts_with("\tj") && now.stores > longest.stores) longest = now;
  }
  EXPECT_EQ(longest.loads, 4);
  EXPECT_EQ(longest.stores, 6);
  EXPECT_LE(longest.all, 60);  // schedule/lower/weights.cpp
}

// Pairs and fours along k are picked from vectors of them and turned over in squares.
TEST_F(TilePacking, along_k_takes_squares) {
  for (DType type : {DType::f32, DType::bf16, DType::i8}) {
    SCOPED_TRACE(name_of(type));
    expect_vectors(packing(type, true));
  }
}

// A convolution's windows of an image, channels last: [pixels, taps * channels].
Value windows(Graph& g, Value x, int64_t size) {
  const int64_t out = x->shape[0].constant_value() - size + 1;
  const Expr channels = x->shape[2];
  x = g.make(Op::window, {x}, {{0, 1, 1}, {}, 0, ""}, {}, Shape{Expr(out), x->shape[1], channels, Expr(size)});
  x = g.make(Op::window, {x}, {{1, 1, 1}, {}, 0, ""}, {}, Shape{Expr(out), Expr(out), channels, Expr(size), Expr(size)});
  x = g.permute(x, {0, 1, 3, 4, 2});
  return g.reshape(x, {Expr(out * out), Expr(size * size) * channels});
}

TEST_F(TileGraph, convolutions_of_bfloat16_and_bytes_are_tile_products) {
  const int64_t side = 12, channels = 16, results = 40;
  for (int64_t size : {1, 3})
    for (DType type : {DType::i8, DType::bf16}) {
      SCOPED_TRACE(fmt::format("{} x {} {}", size, size, name_of(type)));
      const bool bytes = type == DType::i8;
      const DType given = bytes ? DType::i8 : DType::f32;
      const int64_t out = side - size + 1, deep = size == 1 ? 4 * channels : channels, k = size * size * deep;  // 64 values of k at least
      Graph g;
      Value x = g.parameter(0, given, {side, side, deep}, {side * deep, deep, 1}), w = g.parameter(1, given, {k, results}, {results, 1});
      if (!bytes) x = g.cast(x, type), w = g.cast(w, type);
      Value y = g.make(Op::dot_general, {windows(g, x, size), w}, {{0}, {}, 0, ""}, bytes ? DType::i32 : DType::bf16);
      auto e = finished(g, bytes ? y : g.cast(y, DType::f32), {false, false, {false, true}});
      const atlas::Program* p = tile_product(*e);
      ASSERT_TRUE(p);
      EXPECT_EQ(p->product().terms, bytes ? 0 : 1);
      auto image = random_bytes(static_cast<size_t>(side * side * deep), 3), weight = random_bytes(static_cast<size_t>(k * results), 4);
      std::vector<float> wide_image(image.begin(), image.end()), wide_weight(weight.begin(), weight.end());
      std::vector<int32_t> ints;
      std::vector<float> floats;
      if (bytes)
        ints = run<int32_t>(*e, {image.data(), weight.data()});
      else
        floats = run<float>(*e, {wide_image.data(), wide_weight.data()});
      int64_t wrong = 0;
      for (int64_t i = 0; i < out * out; ++i)
        for (int64_t j = 0; j < results; ++j) {
          double sum = 0, magnitude = 0;
          for (int64_t t = 0; t < k; ++t) {
            const int64_t tap = t / deep, row = i / out + tap / size, column = i % out + tap % size;
            const double term = double{wide_image[static_cast<size_t>((row * side + column) * deep + t % deep)]} *
                                wide_weight[static_cast<size_t>(t * results + j)];
            sum += term;
            magnitude += std::abs(term);
          }
          const auto at = static_cast<size_t>(i * results + j);
          wrong += bytes ? ints[at] != sum : !(std::abs(floats[at] - sum) <= 0x1p-8 * magnitude);
        }
      EXPECT_EQ(wrong, 0);
    }
}

}  // namespace
}  // namespace hologram::runtime

#endif

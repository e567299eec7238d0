// tests/runtime/tiles_test.cpp: whole graphs on a processor with AMX, which is emulated elsewhere.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "backend/cpu/backend.h"
#include "runtime/executable.h"
#include "support/tiles.h"

#if defined(__x86_64__) && defined(__linux__)

namespace hologram::runtime {
namespace {

using ir::Graph;
using ir::Op;
using ir::Value;

class Floats : public Outputs {
 public:
  void* allocate(int, size_t bytes, Frame&) override {
    data.resize(bytes / sizeof(float));
    return data.data();
  }
  std::vector<float> data;
};

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
  std::shared_ptr<Executable> product(Expr m, int64_t k, int64_t n, int precision, bool w_static,
                                      bool w_transposed = false, DType type = DType::f32) {
    graph_->num_symbols = m.is_const() ? 0 : 1;
    Value x = graph_->parameter(0, DType::f32, {m, k}, {k, 1});
    Value w = w_transposed ? graph_->parameter(1, DType::f32, {n, k}, {k, 1})
                           : graph_->parameter(1, DType::f32, {k, n}, {n, 1});
    if (w_transposed) w = graph_->permute(w, {1, 0});
    if (type != DType::f32) x = graph_->cast(x, type), w = graph_->cast(w, type);
    Value y = graph_->make(Op::dot_general, {x, w}, {{precision}, {}, 0, ""});
    if (type != DType::f32) y = graph_->cast(y, DType::f32);
    graph_->outputs.push_back({y, contiguous_strides(y->shape), -1});
    return Executable::compile(*graph_, {false, false, {false, w_static}}, runtime_);
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
    Floats out;
    auto frame = e.lease();
    void* inputs[] = {x.data(), w.data()};
    EXPECT_EQ(e.run({inputs, &m}, out, nullptr, *frame).status, 0);
    e.give_back(std::move(frame));
    EXPECT_EQ(out.data.size(), static_cast<size_t>(m * n));
    double worst = 0;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0, size = 0;
        for (int64_t p = 0; p < k; ++p) {
          double t = double{x[static_cast<size_t>(i * k + p)]} *
                     w[static_cast<size_t>(w_transposed ? j * k + p : p * n + j)];
          sum += t;
          size += std::abs(t);
        }
        worst = std::max(worst, std::abs(out.data[static_cast<size_t>(i * n + j)] - sum) / size);
      }
    return worst * 0x1p24;
  }

  test::TileMachine machine_;
  std::shared_ptr<Runtime> runtime_;
  std::optional<Graph> graph_{std::in_place};
};

TEST_F(TileGraph, weights_of_three_terms_are_packed_once) {
  auto e = product(Expr(100), 160, 200, 0, true);
  EXPECT_EQ(terms_of(*e), 3);
  ASSERT_EQ(e->plan().cache.size(), 1u);
  EXPECT_LT(error(*e, 100, 160, 200), 3);
}

TEST_F(TileGraph, others_are_packed_for_each_call) {
  auto e = product(Expr::symbol(0), 96, 130, 0, false, true);
  EXPECT_EQ(terms_of(*e), 3);
  EXPECT_EQ(e->plan().cache.size(), 0u);
  EXPECT_LT(error(*e, 70, 96, 130, true), 3);
  EXPECT_LT(error(*e, 1, 96, 130, true), 3);
}

TEST_F(TileGraph, precision_high_is_two_terms_and_medium_one) {
  auto high = product(Expr(100), 160, 200, 1, true);
  EXPECT_EQ(terms_of(*high), 2);
  double e2 = error(*high, 100, 160, 200);
  EXPECT_LT(e2, 200);
  graph_.emplace();
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
    graph_.emplace();
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
  graph_.emplace();
  EXPECT_EQ(terms_of(*product(Expr(3), 256, 256, 0, true)), 0);
  graph_.emplace();
  product(Expr(256), 256, 256, 0, true);
  auto e = Executable::compile(*graph_, {true, false, {false, true}}, runtime_);
  EXPECT_EQ(terms_of(*e), 0);
}

}  // namespace
}  // namespace hologram::runtime

#endif

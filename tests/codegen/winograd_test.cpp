// tests/codegen/winograd_test.cpp: 3 x 3 convolutions by Winograd's F(2x2, 3x3): the same bits as
// the interpreter, and errors within an FMA chain's bound.
#include "codegen/differential.h"
#include "codegen/winograd_runs.h"
#include "support/refusal.h"
#include "support/test.h"

namespace hologram::test {
namespace {

using namespace winograds;

class Winograd : public testing::TestWithParam<Convolution> {};

TEST_P(Winograd, EveryInstructionSetGivesTheInterpretersBits) {
  const Convolution& c = GetParam();
  Graph g;
  build(g, c);
  ir::verify(g);
  for (cpu::Isa isa : runnable_isas()) {
    schedule::Plan plan = plan_for(g, isa);
    const atlas::Program* winograd = winograd_of(plan);
    ASSERT_NE(winograd, nullptr);
    EXPECT_EQ(atlas::assemble(atlas::disassemble(*winograd)), *winograd);
    EXPECT_EQ(atlas::decode(atlas::encode(*winograd)), *winograd);
    for (const atlas::Program& p : plan.programs)
      for (int specials : {0, 1})
        expect_same_on(
            p, {{.symbols = std::vector<int64_t>(static_cast<size_t>(p.num_symbols), c.batch), .specials = specials, .chunks = {0, 1}},
                {isa}});
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Winograd,
                         testing::Values(Convolution{1, 32, 8, 8, 32, 1}, Convolution{1, 48, 14, 14, 40, 1, true},
                                         Convolution{2, 33, 9, 8, 35, 1}, Convolution{3, 20, 7, 11, 70, 0, true},
                                         Convolution{1, 400, 6, 6, 17, 1, true}, Convolution{2, 24, 12, 13, 24, 2, false, true}));

TEST(WinogradChoice, OnlyWhereItPaysAndNeverWhereAChainIsPromised) {
  auto chosen = [](const Convolution& c, bool reproducible = false) {
    Graph g;
    build(g, c);
    schedule::Plan plan = plan_for(g, cpu::Isa::avx512, reproducible);
    return winograd_of(plan) != nullptr;
  };
  EXPECT_TRUE(chosen({1, 64, 56, 56, 64, 1}));
  EXPECT_FALSE(chosen({1, 64, 56, 56, 64, 1}, true));
  EXPECT_FALSE(chosen({1, 3, 224, 224, 64, 1}));
  EXPECT_FALSE(chosen({1, 64, 56, 56, 2, 1}));
}

// A weight that is new in each call is transformed in each call, which many pixels pay for.
TEST(WinogradChoice, NewWeightsAreTransformedInEachCall) {
  auto packs = [](const Convolution& c) {
    Graph g;
    build(g, c);
    schedule::Plan plan = plan_for(g, cpu::Isa::avx512, false, false);
    EXPECT_TRUE(std::ranges::all_of(plan.steps, [](const auto& s) { return s.cached < 0; }));
    if (!winograd_of(plan)) return false;
    EXPECT_FALSE(product_reads_weight(plan));
    return true;
  };
  EXPECT_TRUE(packs({1, 64, 56, 56, 64, 1}));
  EXPECT_TRUE(packs({8, 512, 7, 7, 512, 1}));
  EXPECT_FALSE(packs({1, 512, 7, 7, 512, 1}));
}

TEST(WinogradChoice, MalformedProgramsAreRefused) {
  Graph g;
  build(g, {1, 32, 8, 8, 32, 1});
  schedule::Plan plan = plan_for(g, cpu::Isa::avx2);
  auto refuses = [&](auto change, const char* why) {
    atlas::Program p = *winograd_of(plan);
    change(p.product());
    EXPECT_NE(refusal([&] { atlas::verify(p); }).find(why), std::string::npos) << why;
  };
  refuses([](auto& p) { p.reproducible = true; }, "nothing reproducible");
  refuses([](auto& p) { p.axes[6].extent = Expr(31); }, "over 64 rows and a depth of 288");
  refuses([](auto& p) { p.axes.pop_back(); }, "expected 7 beside those");
  refuses([](auto& p) { p.image.instrs.clear(); }, "image: no value");
}

struct Sum {
  double value, magnitude;  ///< of x * w, and of |x * w|
  double tile = 0;          ///< of the largest |x| of the result's tile times |w|
};

Sum exact(const Convolution& c, const std::vector<float>& x, const std::vector<float>& w, int64_t b, int64_t i, int64_t j, int64_t o) {
  long double value = 0, magnitude = 0;
  for (int64_t u = 0; u < 3; ++u)
    for (int64_t v = 0; v < 3; ++v) {
      int64_t row = i + u - c.padding, column = j + v - c.padding;
      if (row < 0 || row >= c.height || column < 0 || column >= c.width) continue;
      for (int64_t k = 0; k < c.channels; ++k) {
        auto a = static_cast<size_t>(((b * c.height + row) * c.width + column) * c.channels + k);
        auto e = static_cast<size_t>(((o * c.channels + k) * 3 + u) * 3 + v);
        long double p = static_cast<long double>(x[a]) * w[e];
        value += p;
        magnitude += std::fabs(p);
      }
    }
  Sum out{static_cast<double>(value), static_cast<double>(magnitude)};
  for (int64_t k = 0; k < c.channels; ++k) {
    double largest = 0, weights = 0;
    for (int64_t q = 0; q < 16; ++q) {
      int64_t row = i / 2 * 2 + q / 4 - c.padding, column = j / 2 * 2 + q % 4 - c.padding;
      if (row < 0 || row >= c.height || column < 0 || column >= c.width) continue;
      auto a = static_cast<size_t>(((b * c.height + row) * c.width + column) * c.channels + k);
      largest = std::max(largest, std::fabs(static_cast<double>(x[a])));
    }
    for (int64_t t = 0; t < 9; ++t) weights += std::fabs(static_cast<double>(w[static_cast<size_t>((o * c.channels + k) * 9 + t)]));
    out.tile += largest * weights;
  }
  return out;
}

// Worst-case relative error of the direct path: chains of at most 384, then their sums.
double chain_error(const Convolution& c) {
  auto depth = static_cast<double>(9 * c.channels);
  return std::ldexp(std::min(depth, 384.0) + std::ceil(depth / 384), -24);
}

template <class F>
void for_results(const Convolution& c, F visit) {
  size_t at = 0;
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t i = 0; i < c.out_height(); ++i)
      for (int64_t j = 0; j < c.out_width(); ++j)
        for (int64_t o = 0; o < c.results; ++o) visit(b, i, j, o, at++);
}

using Draw = std::function<float(std::mt19937_64&)>;

TEST(WinogradError, StaysBelowAChainsBound) {
  // `even`: no pixel of a tile and no tap of a filter is negligible beside another one; then the
  // bound of each single sum holds, else that for pixels as large as the tile's largest.
  struct Kind {
    const char* name;
    Draw pixel, weight;
    bool even = true;
  };
  auto wide = [](int spread) {
    return
        [spread](std::mt19937_64& r) { return std::ldexp(normal(r), static_cast<int>(r() % static_cast<uint64_t>(spread)) - spread / 2); };
  };
  auto positive = [](std::mt19937_64& r) { return std::fabs(normal(r)); };
  std::vector<Kind> kinds{
      {"normal", normal, normal},
      {"positive", positive, positive},
      {"around 1000", [](auto& r) { return 1000 + normal(r); }, normal},
      {"constant", [](auto&) { return 0.1F; }, [](auto&) { return 0.3F; }},
      {"signs", [](auto& r) { return r() % 2 ? 1.0F : -1.0F; }, normal},
      {"few", [](auto& r) { return r() % 16 ? 0.0F : normal(r); }, normal},
      {"single pixels", [](auto& r) { return r() % 1024 ? 0.0F : normal(r); }, normal, false},
      {"wide pixels", wide(40), normal, false},
      {"wide weights", normal, wide(40), false},
      {"both wide", wide(40), wide(40), false},
      {"cancelling", [](auto& r) { return (r() % 2 ? 1e4F : -1e4F) + normal(r); }, [](auto& r) { return 1 + normal(r) / 1024; }},
      {"large", [](auto& r) { return std::ldexp(normal(r), 50); }, [](auto& r) { return std::ldexp(normal(r), 50); }},
      {"small", [](auto& r) { return std::ldexp(normal(r), -55); }, [](auto& r) { return std::ldexp(normal(r), -50); }},
  };
  for (const Convolution& c :
       {Convolution{1, 32, 9, 10, 32, 1, true}, Convolution{1, 160, 6, 6, 32, 1, true}, Convolution{1, 512, 4, 4, 32, 1, true}}) {
    Runner runner(c);
    for (const Kind& kind : kinds) {
      std::mt19937_64 random(7);
      std::vector<float> x(static_cast<size_t>(c.height * c.width * c.channels)), w(static_cast<size_t>(c.results * c.channels * 9));
      for (float& v : x) v = kind.pixel(random);
      for (float& v : w) v = kind.weight(random);
      std::vector<float> y = runner.run(x, w);
      double worst = 0;
      for_results(c, [&](auto b, auto i, auto j, auto o, size_t at) {
        Sum s = exact(c, x, w, b, i, j, o);
        double bound = chain_error(c) * (kind.even ? s.magnitude : s.tile);
        double error = std::fabs(y[at] - s.value);
        if (error > 0) worst = std::max(worst, error / bound);
      });
      EXPECT_LE(worst, 0.5) << kind.name << ", " << c;
      RecordProperty(fmt::format("{}, {} channels", kind.name, c.channels), fmt::format("{:.3f}", worst));
    }
  }
}

}  // namespace
}  // namespace hologram::test

// tests/codegen/threads_test.cpp: how kernels are cut for 1 to 64 threads, by the launches alone, and that the cuts change no bits.
#include "backend/cpu/compile.h"
#include "backend/cpu/cost.h"
#include "backend/cpu/products/plan.h"
#include "codegen/attentions.h"
#include "codegen/products.h"
#include "codegen/run_kernel.h"
#include "codegen/winograd_runs.h"
#include "host/context.h"
#include "support/test.h"
#include "support/tiles.h"

namespace hologram::test {
namespace {

// out[m, n] = a[m, k] · b[k, n]
atlas::Program product(int64_t m, int64_t n, int64_t k) { return products::make_program({.m = m, .n = n, .k = k}, 1); }

cpu::Target target_for(int threads, cpu::Isa isa = cpu::Isa::avx512) {
  cpu::Target t = cpu::generic_target(isa);
  t.threads = cpu::threads_class(threads);
  return t;
}

struct Schedule {
  int64_t units, chunks;
  double balance;      // work of the thread that has most, over the mean
  double picoseconds;  // that it takes, and what each thread costs that joins
};

// Chunks are taken in order by whoever is free.
Schedule schedule(const atlas::Program& p, int threads, const cpu::Target& target) {
  const cpu::Launch launch = cpu::launch_of(p, target);
  const int64_t total = launch.total.constant_value(), work = launch.unit_work.constant_value();
  const int64_t chunk = host::chunk_of(total, launch.grain.constant_value(), work, threads);
  const int64_t chunks = (total + chunk - 1) / chunk;
  std::vector<int64_t> busy(static_cast<size_t>(std::min<int64_t>(threads, chunks)));
  for (int64_t c = 0; c < chunks; ++c) *std::ranges::min_element(busy) += std::min(chunk, total - c * chunk);
  const auto most = static_cast<double>(std::ranges::max(busy));
  const auto threads_of_chunks = static_cast<int64_t>(busy.size());
  const int64_t rounds = (chunks + threads_of_chunks - 1) / threads_of_chunks;
  const int64_t needed = (chunks + rounds - 1) / rounds;  // for so many rounds
  const double mean = static_cast<double>(total) / threads;
  return {total, chunks, most / mean, most * static_cast<double>(work) + static_cast<double>(needed) * host::joining_work};
}

using Sizes = std::array<int64_t, 3>;
// Layers of MiniLM (8 × 128), of a GPT-2-like model (prefill of 128) and squares.
const Sizes layers[] = {{1024, 384, 384}, {1024, 1536, 384}, {1024, 384, 1536},  {128, 1536, 512},  {128, 512, 512},
                        {128, 2048, 512}, {128, 512, 2048},  {128, 2304, 768},   {128, 768, 768},   {128, 768, 3072},
                        {64, 512, 784},   {512, 512, 512},   {1024, 1024, 1024}, {2048, 2048, 2048}};

TEST(Threads, classes) {
  EXPECT_EQ(cpu::threads_class(1), 2);
  EXPECT_EQ(cpu::threads_class(2), 2);
  EXPECT_EQ(cpu::threads_class(3), 4);
  EXPECT_EQ(cpu::threads_class(16), 16);
  EXPECT_EQ(cpu::threads_class(17), 32);
  EXPECT_EQ(cpu::threads_class(1000), 64);
}

// ResNet-18's layers: of one image there are too few tiles for every number of threads.
TEST(Threads, winograd_products_are_balanced) {
  for (auto [channels, side] : {std::pair<int64_t, int64_t>{64, 56}, {128, 28}, {256, 14}, {512, 7}})
    for (int64_t images : {1, 8}) {
      ir::Graph g;
      winograds::build(g, {images, channels, side, side, channels, 1});
      const schedule::Plan plan = winograds::plan_for(g, cpu::Isa::avx512);
      const atlas::Program* p = winograds::winograd_of(plan);
      ASSERT_NE(p, nullptr);
      for (int threads : {2, 4, 8, 16})
        EXPECT_LE(schedule(*p, threads, target_for(threads)).balance, images == 1 ? 1.34 : 1.16)
            << images << 'x' << channels << 'x' << side << ", " << threads << " threads";
    }
}

// Each unit reads its panels once, wherever they lie: how often the right operand is read.
TEST(Threads, smaller_units_do_not_read_the_right_operand_much_more_often) {
  for (auto [m, n, k] : layers) {
    const atlas::Program p = product(m, n, k);
    const auto reads = [&](int threads) { return cpu::plan_product(p, target_for(threads)).m_units.constant_value(); };
    for (int threads : {4, 8, 16, 32, 64})
      EXPECT_LE(reads(threads), std::max<int64_t>(4 * reads(2), threads / 2)) << m << 'x' << n << 'x' << k << ", " << threads;
  }
}

// Attention of MiniLM (8 × 128), of prefills with heads of their own and shared, of a long sequence, and of decodes with one query.
const attentions::Case attention_cases[] = {
    {8, 12, 12, 128, 128, 32, 32},     {1, 12, 12, 512, 512, 64, 64, true}, {1, 32, 8, 512, 512, 128, 128, true},
    {4, 32, 32, 2048, 2048, 128, 128}, {16, 12, 12, 1, 1024, 64, 64},       {8, 32, 8, 1, 2048, 128, 128},
};

struct AttentionPath {
  const char* name;
  DType dtype;
  bool tiles;
};
const AttentionPath attention_paths[] = {
    {"multiply-adds", DType::f32, false}, {"terms", DType::f32, true}, {"dots", DType::bf16, false}, {"tiles", DType::bf16, true}};

// Every product and every attention, and how a number of threads shares it.
template <class F>
void for_each_program(F f) {
  for (auto [m, n, k] : layers) {
    SCOPED_TRACE(testing::Message() << m << 'x' << n << 'x' << k);
    const atlas::Program p = product(m, n, k);
    f(1.15, [&](int threads) { return schedule(p, threads, target_for(threads)); });
  }
  for (attentions::Case c : attention_cases)
    for (const AttentionPath& path : attention_paths) {
      c.dtype = path.dtype;
      cpu::Target t = cpu::with_dots(target_for(2), path.dtype == DType::bf16, false);
      if (path.tiles) t = cpu::with_tiles(t);
      t.tile_attention = path.tiles;
      SCOPED_TRACE(testing::Message() << c << " by " << path.name);
      const atlas::Program p = attentions::make_program(c);
      f(1.45, [&](int threads) {
        t.threads = cpu::threads_class(threads);
        return schedule(p, threads, t);
      });
    }
}

TEST(Threads, products_are_balanced) {
  for_each_program([](double, auto schedule_for) {
    for (int threads : {2, 4, 8, 16}) {
      const Schedule s = schedule_for(threads);
      EXPECT_LE(s.balance, 1.16) << threads << " threads: " << s.units << " units in " << s.chunks;
    }
  });
}

// The same bits from programs cut for few and for many threads; the last buffer is what they write.
void expect_one_result(const atlas::Program& p, const cpu::Target& target) {
  std::vector<Memory> memory = random_operands(p, {});
  Memory& out = memory.back();
  std::vector<char> first;
  for (int threads : {2, 16, 64}) {
    cpu::Target t = target;
    t.threads = cpu::threads_class(threads);
    std::memset(out.data(), 0, out.size());
    expect_run(Compiled(p, t), memory, {}, 1);
    std::vector<char> now(out.data(), out.data() + out.size());
    if (first.empty()) first = now;
    EXPECT_TRUE(first == now) << threads << " threads";
  }
}

TEST(Threads, cuts_change_no_bits) {
  for (auto [m, n, k] : {Sizes{128, 768, 520}, Sizes{3, 4096, 130}, Sizes{200, 300, 40}}) {
    SCOPED_TRACE(testing::Message() << m << 'x' << n << 'x' << k);
    expect_one_result(product(m, n, k), cpu::generic_target(runnable_isas().back()));
  }
}

TEST(Threads, cuts_of_attention_change_no_bits) {
  using attentions::Case;
  using enum attentions::Score;
  for (const Case& c :
       {Case{1, 4, 4, 140, 140, 64, 48, true, plain, DType::f32}, Case{2, 8, 2, 1, 300, 64, 64, false, key_bias, DType::f32},
        Case{1, 4, 2, 150, 300, 32, 32, false, keep_mask, DType::bf16}, Case{4, 8, 2, 2, 200, 64, 64, false, plain, DType::bf16}}) {
    SCOPED_TRACE(testing::Message() << c);
    const atlas::Program p = attentions::make_program(c);
    expect_one_result(p, cpu::generic_target(runnable_isas().back()));
#if defined(__linux__) && defined(__x86_64__)
    if (!runs_tile_targets()) continue;
    TileMachine machine;
    cpu::Target tiles = tile_target();
    tiles.tile_attention = true;
    expect_one_result(p, tiles);
#endif
  }
}

}  // namespace
}  // namespace hologram::test

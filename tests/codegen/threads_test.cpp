// tests/codegen/threads_test.cpp: how kernels are cut for 1 to 64 threads, by the launches alone,
// and that the cuts change no bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "atlas/builder.h"
#include "backend/cpu/compile.h"
#include "backend/cpu/cost.h"
#include "backend/cpu/products/plan.h"
#include "codegen/run_kernel.h"
#include "codegen/winograds.h"
#include "host/context.h"
#include "support/machine.h"

namespace hologram::test {
namespace {

using atlas::Access;
using atlas::AxisKind;
using atlas::BodyBuilder;

// out[m, n] = a[m, k] · b[k, n]
atlas::Program product(int64_t m, int64_t n, int64_t k) {
  atlas::Program p;
  p.buffers = {{DType::f32, Access::read, Expr(m * k)},
               {DType::f32, Access::read, Expr(k * n)},
               {DType::f32, Access::write, Expr(m * n)}};
  atlas::ProductBlock& b = p.block.emplace<atlas::ProductBlock>();
  b.axes = {{AxisKind::parallel, Expr(m)}, {AxisKind::parallel, Expr(n)}, {AxisKind::row, Expr(k)}};
  b.operand_type = b.acc_type = DType::f32;
  Expr im = Expr::axis(0, Expr(m)), in = Expr::axis(1, Expr(n)), ik = Expr::axis(2, Expr(k));
  BodyBuilder lhs(b.lhs), rhs(b.rhs), e(b.epilogue);
  lhs.finish(lhs.load(0, DType::f32, im * Expr(k) + ik));
  rhs.finish(rhs.load(1, DType::f32, ik * Expr(n) + in));
  e.store(2, im * Expr(n) + in, e.accumulator(0, DType::f32));
  atlas::verify(p);
  return p;
}

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
Schedule schedule(const atlas::Program& p, int threads) {
  const cpu::Launch launch = cpu::launch_of(p, target_for(threads));
  const int64_t total = launch.total.constant_value(), work = launch.unit_work.constant_value();
  const int64_t chunk = host::chunk_of(total, launch.grain.constant_value(), work, threads);
  const int64_t chunks = (total + chunk - 1) / chunk;
  std::vector<int64_t> busy(static_cast<size_t>(std::min<int64_t>(threads, chunks)));
  for (int64_t c = 0; c < chunks; ++c)
    *std::ranges::min_element(busy) += std::min(chunk, total - c * chunk);
  const auto most = static_cast<double>(std::ranges::max(busy));
  const auto threads_of_chunks = static_cast<int64_t>(busy.size());
  const int64_t rounds = (chunks + threads_of_chunks - 1) / threads_of_chunks;
  const int64_t needed = (chunks + rounds - 1) / rounds;  // for so many rounds
  const double mean = static_cast<double>(total) / threads;
  return {total, chunks, most / mean,
          most * static_cast<double>(work) + static_cast<double>(needed) * host::joining_work};
}

using Sizes = std::array<int64_t, 3>;
// Layers of MiniLM (8 × 128), of a GPT-2-like model (prefill of 128) and squares.
const Sizes layers[] = {{1024, 384, 384},   {1024, 1536, 384}, {1024, 384, 1536}, {128, 1536, 512},
                        {128, 512, 512},    {128, 2048, 512},  {128, 512, 2048},  {128, 2304, 768},
                        {128, 768, 768},    {128, 768, 3072},  {64, 512, 784},    {512, 512, 512},
                        {1024, 1024, 1024}, {2048, 2048, 2048}};

TEST(Threads, classes) {
  EXPECT_EQ(cpu::threads_class(1), 2);
  EXPECT_EQ(cpu::threads_class(2), 2);
  EXPECT_EQ(cpu::threads_class(3), 4);
  EXPECT_EQ(cpu::threads_class(16), 16);
  EXPECT_EQ(cpu::threads_class(17), 32);
  EXPECT_EQ(cpu::threads_class(1000), 64);
}

TEST(Threads, products_are_balanced) {
  for (auto [m, n, k] : layers) {
    const atlas::Program p = product(m, n, k);
    for (int threads : {2, 4, 8, 16}) {
      const Schedule s = schedule(p, threads);
      EXPECT_LE(s.balance, 1.16) << m << 'x' << n << 'x' << k << ", " << threads
                                 << " threads: " << s.units << " units in " << s.chunks;
    }
  }
}

TEST(Threads, more_of_them_are_never_slower_in_the_model) {
  for (auto [m, n, k] : layers) {
    const atlas::Program p = product(m, n, k);
    double best = schedule(p, 1).picoseconds;
    for (int threads = 2; threads <= 64; ++threads) {
      const Schedule s = schedule(p, threads);
      // A class is cut for its largest number; others may leave threads idle at the end.
      const double most = cpu::threads_class(threads) == threads ? 1.05 : 1.15;
      EXPECT_LE(s.picoseconds, most * best)
          << m << 'x' << n << 'x' << k << ", " << threads << " threads: " << s.units << " units";
      best = std::min(best, s.picoseconds);
    }
  }
}

// ResNet-18's layers: of one image there are too few tiles for every number of threads.
TEST(Threads, winograd_products_are_balanced) {
  for (auto [channels, side] :
       {std::pair<int64_t, int64_t>{64, 56}, {128, 28}, {256, 14}, {512, 7}})
    for (int64_t images : {1, 8}) {
      ir::Graph g;
      winograds::build(g, {images, channels, side, side, channels, 1});
      schedule::Options options;
      const PanelMachine machine(32);
      options.machine = &machine;
      options.is_static = [](int i) { return i == 1; };
      const schedule::Plan plan = schedule::make_plan(g, options);
      const auto p = std::ranges::find_if(plan.programs, [](const atlas::Program& program) {
        return program.kind() == atlas::BlockKind::product && program.product().winograd;
      });
      ASSERT_NE(p, plan.programs.end());
      for (int threads : {2, 4, 8, 16})
        EXPECT_LE(schedule(*p, threads).balance, images == 1 ? 1.34 : 1.16)
            << images << 'x' << channels << 'x' << side << ", " << threads << " threads";
    }
}

// Each unit reads its panels once, wherever they lie: how often the right operand is read.
TEST(Threads, smaller_units_do_not_read_the_right_operand_much_more_often) {
  for (auto [m, n, k] : layers) {
    const atlas::Program p = product(m, n, k);
    const auto reads = [&](int threads) {
      return cpu::plan_product(p, target_for(threads)).m_units.constant_value();
    };
    for (int threads : {4, 8, 16, 32, 64})
      EXPECT_LE(reads(threads), std::max<int64_t>(4 * reads(2), threads / 2))
          << m << 'x' << n << 'x' << k << ", " << threads;
  }
}

TEST(Threads, cuts_change_no_bits) {
  const auto isas = runnable_isas();
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (auto [m, n, k] : {Sizes{128, 768, 520}, Sizes{3, 4096, 130}, Sizes{200, 300, 40}}) {
    const atlas::Program p = product(m, n, k);
    std::vector<Memory> memory;
    std::vector<void*> bufs;
    for (const atlas::Buffer& b : p.buffers)
      memory.emplace_back(static_cast<size_t>(b.extent.constant_value()) * 4);
    for (size_t i = 0; i < 2; ++i)
      for (size_t j = 0; j < memory[i].size() / 4; ++j) memory[i].as<float>()[j] = normal(random);
    for (Memory& x : memory) bufs.push_back(x.data());
    std::vector<char> first;
    for (int threads : {2, 16, 64}) {
      Compiled compiled(p, target_for(threads, isas.back()));
      std::memset(memory[2].data(), 0, memory[2].size());
      ASSERT_EQ(compiled.run(bufs, {}, 1), 0);
      std::vector<char> now(memory[2].data(), memory[2].data() + memory[2].size());
      if (first.empty()) first = now;
      EXPECT_TRUE(first == now) << m << 'x' << n << 'x' << k << ", " << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace hologram::test

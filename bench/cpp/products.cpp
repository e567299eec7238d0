// bench/cpp/products.cpp: GF/s of compiled products and attention; values are checked before they
// are timed.
//
// product/<m>/<n>/<k>/<threads>/<operands>: operands 0 = right one packed ahead, 1 = both as they
// lie, row-major, 2 = the right one transposed, 3 = packed, with bias and gelu.
// attention/<batch>/<heads>/<queries>/<keys>/<depth>/<threads>. HOLOGRAM_CPU_ISA chooses the
// instruction set.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "atlas/builder.h"
#include "backend/cpu/compile.h"
#include "backend/cpu/load.h"
#include "backend/cpu/products/panels.h"
#include "host/thread_pool.h"

namespace {
using namespace hologram;
using atlas::Access;
using atlas::AxisKind;

void* scratch(const atlas::Context*, int64_t bytes) {
  thread_local std::unique_ptr<char, decltype(&std::free)> memory(nullptr, &std::free);
  thread_local int64_t size = 0;
  if (size < bytes) {
    size = (bytes + 63) / 64 * 64;
    memory.reset(static_cast<char*>(std::aligned_alloc(64, static_cast<size_t>(size))));
  }
  return memory.get();
}

class Kernel {
 public:
  Kernel(const atlas::Program& program, int threads)
      : object_(cpu::compile(program, cpu::host_target())),
        kernel_(cpu::load(object_.code)),
        pool_(threads) {
    context_.scratch = scratch;
    context_.sticky_error = &sticky_;
  }
  void operator()(void* const* bufs) {
    pool_.parallel_for(
        [](const void* c, void* const* b, const int64_t*, int64_t begin, int64_t end) {
          auto* self = static_cast<const Kernel*>(c);
          return self->kernel_->function(&self->context_, b, nullptr, begin, end);
        },
        this, bufs, nullptr, object_.launch.total.eval({}), object_.launch.grain.eval({}));
  }

 private:
  cpu::Object object_;
  std::shared_ptr<cpu::LoadedKernel> kernel_;
  host::ThreadPool pool_;
  atlas::Context context_{};
  std::atomic<int32_t> sticky_{0};
};

struct Free {
  void operator()(float* p) const { std::free(p); }
};
using Floats = std::unique_ptr<float, Free>;

Floats floats(int64_t count, unsigned seed) {
  size_t bytes = (static_cast<size_t>(count) * sizeof(float) + 127) / 64 * 64;
  Floats p(static_cast<float*>(std::aligned_alloc(64, bytes)));
  std::minstd_rand random(seed);
  for (int64_t i = 0; i < count; ++i)
    p.get()[i] = static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 1000;
  return p;
}

enum Operands : int64_t { packed, in_place, transposed, packed_gelu };

void product(benchmark::State& state) {
  int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  auto threads = static_cast<int>(state.range(3));
  int64_t operands = state.range(4);
  bool panels = operands == packed || operands == packed_gelu;
  int width = cpu::panel_width(cpu::host_target(), DType::f32);
  int64_t padded = (n + width - 1) / width * width;

  atlas::Program p;
  p.block.emplace<atlas::ProductBlock>();
  p.buffers = {{DType::f32, Access::read, m * k},
               {DType::f32, Access::read, panels ? padded * k : n * k},
               {DType::f32, Access::read, n},
               {DType::f32, Access::write, m * n}};
  p.product().axes = {{AxisKind::parallel, m}, {AxisKind::parallel, n}, {AxisKind::row, k}};
  Expr im = Expr::axis(0, m), in = Expr::axis(1, n), ik = Expr::axis(2, k);
  atlas::BodyBuilder lhs(p.product().lhs), rhs(p.product().rhs), epilogue(p.product().epilogue);
  lhs.finish(lhs.load(0, DType::f32, im * k + ik));
  if (panels) {
    p.product().packed_rhs = 1;
    p.product().panel_width = width;
  } else {
    rhs.finish(rhs.load(1, DType::f32, operands == transposed ? in * k + ik : ik * n + in));
  }
  atlas::Val v = epilogue.accumulator(0, DType::f32);
  if (operands == packed_gelu)
    v = epilogue.op(ir::Op::gelu, epilogue.add(v, epilogue.load(2, DType::f32, in)));
  epilogue.store(3, im * n + in, v);
  atlas::expand_math(p);

  Floats a = floats(m * k, 1), b = floats((panels ? padded : n) * k, 2), bias = floats(n, 3),
         c = floats(m * n, 4);
  auto b_at = [&](int64_t x, int64_t y) {
    if (panels) return b.get()[(y / width * k + x) * width + y % width];
    return operands == transposed ? b.get()[y * k + x] : b.get()[x * n + y];
  };
  Kernel kernel(p, threads);
  void* bufs[] = {a.get(), b.get(), bias.get(), c.get()};
  kernel(bufs);
  for (int64_t probe = 0; probe < 200; ++probe) {
    int64_t i = probe * 7919 % m, j = probe * 104729 % n;
    double sum = 0, scale = 1;
    for (int64_t x = 0; x < k; ++x) {
      sum += static_cast<double>(a.get()[i * k + x]) * b_at(x, j);
      scale += std::abs(a.get()[i * k + x] * b_at(x, j));
    }
    if (operands == packed_gelu) {
      sum += bias.get()[j];
      sum = sum * (1 + std::erf(sum / std::sqrt(2.0))) / 2;
    }
    if (!(std::abs(sum - c.get()[i * n + j]) <= 1e-6 * scale))
      return state.SkipWithError("wrong value");
  }
  for (auto _ : state) kernel(bufs);
  state.counters["GF/s"] = benchmark::Counter(2e-9 * static_cast<double>(m * n * k),
                                              benchmark::Counter::kIsIterationInvariantRate);
}

void attention(benchmark::State& state) {
  int64_t batch = state.range(0), heads = state.range(1), m = state.range(2), n = state.range(3),
          d = state.range(4);
  auto threads = static_cast<int>(state.range(5));
  int64_t bh = batch * heads;
  atlas::Program p;
  p.buffers = {{DType::f32, Access::read, bh * m * d},
               {DType::f32, Access::read, bh * n * d},
               {DType::f32, Access::read, bh * n * d},
               {DType::f32, Access::write, bh * m * d}};
  atlas::AttentionBlock& block = p.block.emplace<atlas::AttentionBlock>();
  block.batch_rank = 1;
  block.axes = {{AxisKind::parallel, bh},
                {AxisKind::parallel, m},
                {AxisKind::row, n},
                {AxisKind::row, d},
                {AxisKind::parallel, d}};
  block.scale = 1 / std::sqrt(static_cast<double>(d));
  Expr h = Expr::axis(0, bh), i = Expr::axis(1, m), j = Expr::axis(2, n), x = Expr::axis(3, d),
       e = Expr::axis(4, d);
  atlas::BodyBuilder bq(block.q), bk(block.k), bv(block.v), out(block.epilogue);
  bq.finish(bq.load(0, DType::f32, (h * m + i) * d + x));
  bk.finish(bk.load(1, DType::f32, (h * n + j) * d + x));
  bv.finish(bv.load(2, DType::f32, (h * n + j) * d + e));
  out.store(3, (h * m + i) * d + e, out.accumulator(0, DType::f32));
  atlas::expand_math(p);

  Floats q = floats(bh * m * d, 1), k = floats(bh * n * d, 2), v = floats(bh * n * d, 3),
         y = floats(bh * m * d, 4);
  Kernel kernel(p, threads);
  void* bufs[] = {q.get(), k.get(), v.get(), y.get()};
  kernel(bufs);
  for (int64_t probe = 0; probe < 20; ++probe) {
    int64_t head = probe * 31 % bh, row = probe * 7919 % m, column = probe * 13 % d;
    double sum = 0, value = 0;
    for (int64_t key = 0; key < n; ++key) {
      double s = 0;
      for (int64_t c = 0; c < d; ++c)
        s += static_cast<double>(q.get()[(head * m + row) * d + c]) *
             k.get()[(head * n + key) * d + c];
      double weight = std::exp(s * block.scale);
      sum += weight;
      value += weight * v.get()[(head * n + key) * d + column];
    }
    if (!(std::abs(value / sum - y.get()[(head * m + row) * d + column]) <= 1e-5))
      return state.SkipWithError("wrong value");
  }
  for (auto _ : state) kernel(bufs);
  state.counters["GF/s"] = benchmark::Counter(4e-9 * static_cast<double>(bh * m * n * d),
                                              benchmark::Counter::kIsIterationInvariantRate);
}

void product_cases(benchmark::internal::Benchmark* b) {
  for (int64_t threads : {1, 2})
    for (int64_t operands : {packed, in_place, transposed, packed_gelu})
      for (auto [m, n, k] : {std::array<int64_t, 3>{16, 16, 16},
                             {32, 32, 32},
                             {64, 64, 64},
                             {128, 128, 128},
                             {256, 256, 256},
                             {512, 512, 512},
                             {1024, 1024, 1024},
                             {2048, 2048, 2048},
                             {1024, 1536, 384},
                             {1024, 384, 1536},
                             {1024, 384, 384},
                             {128, 3072, 768},
                             {64, 512, 784},
                             {64, 512, 512},
                             {16, 384, 384},
                             {16, 1536, 384},
                             {1, 3072, 768},
                             {1, 384, 384},
                             {4, 384, 384}})
        b->Args({m, n, k, threads, operands});
}
BENCHMARK(product)->Apply(product_cases)->UseRealTime();

void attention_cases(benchmark::internal::Benchmark* b) {
  for (int64_t threads : {1, 2})
    for (auto [batch, heads, m, n, d] : {std::array<int64_t, 5>{8, 12, 128, 128, 32},
                                         {1, 12, 16, 16, 32},
                                         {1, 12, 1024, 1024, 64},
                                         {1, 12, 1, 1024, 64},
                                         {1, 12, 1, 128, 64}})
      b->Args({batch, heads, m, n, d, threads});
}
BENCHMARK(attention)->Apply(attention_cases)->UseRealTime();

}  // namespace

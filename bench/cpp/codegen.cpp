// bench/cpp/codegen.cpp: what compiling a loop kernel costs, by stage, and how fast the kernels run
// on one thread.
//
// compile/<kernel>: milliseconds for IR, passes, object and load. run/<kernel>/<elements>: time and
// bytes per second (bytes read and written once), beside copy/<elements>, the best of plain and
// non-temporal copy by AVX in C++. HOLOGRAM_CPU_ISA chooses the instruction set.
#include <benchmark/benchmark.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "atlas/builder.h"
#include "backend/cpu/compile.h"
#include "backend/cpu/load.h"

namespace {
using namespace hologram;
using atlas::Access;
using atlas::AxisKind;
using atlas::BodyBuilder;
using atlas::StageKind;
using atlas::Val;
using ir::Op;

struct Shape2 {
  int64_t points, row;
};

struct Maker {
  atlas::Program p;
  Expr i, j, m, n;

  Maker(int64_t points, int64_t row, int lane_axis) : m(points), n(row) {
    auto& b = p.loop();
    b.axes.push_back({AxisKind::parallel, m});
    i = Expr::axis(0, m);
    b.parallel_rank = 1;
    if (row) {
      b.axes.push_back({AxisKind::row, n});
      j = Expr::axis(1, n);
    }
    b.lane_axis = lane_axis;
    b.stages.reserve(8);
  }
  int buffer(DType t, Access a, const Expr& size) {
    p.buffers.push_back({t, a, size});
    return static_cast<int>(p.buffers.size()) - 1;
  }
  BodyBuilder stage(StageKind kind) {
    p.loop().stages.push_back({kind, {}, {}, {}});
    return BodyBuilder(p.loop().stages.back().body);
  }
  void reduce(Op op, Val v) {
    p.loop().stages.back().reductions.push_back({op, v.type, v.id, false});
  }
};

atlas::Program add(Shape2 s) {
  Maker k(s.points * s.row, 0, 0);
  int x = k.buffer(DType::f32, Access::read, k.m), y = k.buffer(DType::f32, Access::read, k.m),
      out = k.buffer(DType::f32, Access::write, k.m);
  auto b = k.stage(StageKind::point);
  b.store(out, k.i, b.add(b.load(x, DType::f32, k.i), b.load(y, DType::f32, k.i)));
  return k.p;
}

// gelu(x * w + b) * sigmoid(x)
atlas::Program chain(Shape2 s) {
  Maker k(s.points * s.row, 0, 0);
  int x = k.buffer(DType::f32, Access::read, k.m), w = k.buffer(DType::f32, Access::read, k.m),
      c = k.buffer(DType::f32, Access::read, k.m), out = k.buffer(DType::f32, Access::write, k.m);
  auto b = k.stage(StageKind::point);
  Val v = b.load(x, DType::f32, k.i);
  Val t = b.add(b.mul(v, b.load(w, DType::f32, k.i)), b.load(c, DType::f32, k.i));
  b.store(out, k.i, b.mul(b.op(Op::gelu, t), b.op(Op::sigmoid, v)));
  return k.p;
}

atlas::Program softmax(Shape2 s) {
  Maker k(s.points, s.row, 1);
  int x = k.buffer(DType::f32, Access::read, k.m * k.n),
      out = k.buffer(DType::f32, Access::write, k.m * k.n),
      e = k.buffer(DType::f32, Access::scratch, k.n);
  Expr at = k.i * k.n + k.j;
  auto a = k.stage(StageKind::row);
  k.reduce(Op::reduce_max, a.load(x, DType::f32, at));
  auto b = k.stage(StageKind::row);
  Val v = b.op(Op::exp, b.sub(b.load(x, DType::f32, at), b.accumulator(0, DType::f32)));
  b.store(e, k.j, v);
  k.reduce(Op::reduce_sum, v);
  auto c = k.stage(StageKind::row);
  c.store(out, at, c.div(c.load(e, DType::f32, k.j), c.accumulator(1, DType::f32)));
  return k.p;
}

atlas::Program layer_norm(Shape2 s) {
  Maker k(s.points, s.row, 1);
  int x = k.buffer(DType::f32, Access::read, k.m * k.n),
      g = k.buffer(DType::f32, Access::read, k.n), h = k.buffer(DType::f32, Access::read, k.n),
      out = k.buffer(DType::f32, Access::write, k.m * k.n);
  Expr at = k.i * k.n + k.j;
  auto a = k.stage(StageKind::row);
  k.reduce(Op::reduce_sum, a.load(x, DType::f32, at));
  auto b = k.stage(StageKind::row);
  auto mean = [&](BodyBuilder& q) {
    return q.div(q.accumulator(0, DType::f32), q.number(DType::f32, static_cast<double>(s.row)));
  };
  Val d = b.sub(b.load(x, DType::f32, at), mean(b));
  k.reduce(Op::reduce_sum, b.mul(d, d));
  auto c = k.stage(StageKind::row);
  Val variance =
      c.div(c.accumulator(1, DType::f32), c.number(DType::f32, static_cast<double>(s.row)));
  Val scale = c.op(Op::rsqrt, c.add(variance, c.number(DType::f32, 1e-5)));
  Val y = c.mul(c.sub(c.load(x, DType::f32, at), mean(c)), scale);
  c.store(out, at, c.add(c.mul(y, c.load(g, DType::f32, k.j)), c.load(h, DType::f32, k.j)));
  return k.p;
}

atlas::Program row_sum(Shape2 s) {
  Maker k(s.points, s.row, 1);
  int x = k.buffer(DType::f32, Access::read, k.m * k.n),
      out = k.buffer(DType::f32, Access::write, k.m);
  auto a = k.stage(StageKind::row);
  k.reduce(Op::reduce_sum, a.load(x, DType::f32, k.i * k.n + k.j));
  auto b = k.stage(StageKind::point);
  b.store(out, k.i, b.accumulator(0, DType::f32));
  return k.p;
}

atlas::Program column_sum(Shape2 s) {
  Maker k(s.row, s.points, 0);
  int x = k.buffer(DType::f32, Access::read, k.m * k.n),
      out = k.buffer(DType::f32, Access::write, k.m);
  auto a = k.stage(StageKind::row);
  k.reduce(Op::reduce_sum, a.load(x, DType::f32, k.j * k.m + k.i));
  auto b = k.stage(StageKind::point);
  b.store(out, k.i, b.accumulator(0, DType::f32));
  return k.p;
}

atlas::Program row_max(Shape2 s) {
  Maker k(s.points, s.row, 1);
  int x = k.buffer(DType::f32, Access::read, k.m * k.n),
      out = k.buffer(DType::f32, Access::write, k.m);
  auto a = k.stage(StageKind::row);
  k.reduce(Op::reduce_max, a.load(x, DType::f32, k.i * k.n + k.j));
  auto b = k.stage(StageKind::point);
  b.store(out, k.i, b.accumulator(0, DType::f32));
  return k.p;
}

using Make = atlas::Program (*)(Shape2);
const std::map<std::string, Make> kernels{{"add", add},         {"chain", chain},
                                          {"softmax", softmax}, {"layer_norm", layer_norm},
                                          {"row_sum", row_sum}, {"column_sum", column_sum},
                                          {"row_max", row_max}};

void compile(benchmark::State& state, Make make) {
  atlas::Program p = make({512, 768});
  cpu::Target target = cpu::host_target();
  cpu::Timing sum;
  double load = 0;
  for (auto _ : state) {
    cpu::Timing t;
    cpu::Object o = cpu::compile(p, target, &t);
    auto before = std::chrono::steady_clock::now();
    auto kernel = cpu::load(o.code);
    load += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - before)
                .count();
    sum.setup += t.setup;
    sum.emit += t.emit;
    sum.passes += t.passes;
    sum.translate += t.translate;
  }
  auto n = static_cast<double>(state.iterations());
  state.counters["setup_ms"] = sum.setup / n;
  state.counters["emit_ms"] = sum.emit / n;
  state.counters["passes_ms"] = sum.passes / n;
  state.counters["translate_ms"] = sum.translate / n;
  state.counters["load_ms"] = load / n;
}

char* allocate(size_t bytes) {
  auto* p = static_cast<char*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
  for (size_t i = 0; i + 4 <= bytes; i += 4) {
    float x = static_cast<float>(i % 1000) * 1e-3f - 0.4f;
    std::memcpy(p + i, &x, 4);
  }
  return p;
}

void run(benchmark::State& state, Make make) {
  Shape2 s{state.range(0), state.range(1)};
  atlas::Program p = make(s);
  cpu::Object o = cpu::compile(p, cpu::host_target());
  auto kernel = cpu::load(o.code);
  std::vector<void*> bufs;
  int64_t bytes = 0;
  for (const atlas::Buffer& b : p.buffers) {
    if (b.access == Access::scratch) continue;
    int64_t size = b.extent.constant_value() * size_of(b.dtype);
    bytes += size;
    bufs.push_back(allocate(static_cast<size_t>(size)));
  }
  atlas::Context context{};
  std::atomic<int32_t> sticky{0};
  context.sticky_error = &sticky;
  int64_t total = o.launch.total.constant_value();
  for (auto _ : state) {
    kernel->function(&context, bufs.data(), nullptr, 0, total);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * bytes);
  state.SetItemsProcessed(state.iterations() * s.points * s.row);
  for (void* b : bufs) std::free(b);
}

void copy(benchmark::State& state) {
  auto bytes = static_cast<size_t>(state.range(0) * state.range(1) * 4);
  char *from = allocate(bytes), *to = allocate(bytes);
  for (auto _ : state) {
    std::memcpy(to, from, bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes) * 2);
  std::free(from);
  std::free(to);
}

const bool registered = [] {
  for (const auto& [name, make] : kernels) {
    benchmark::RegisterBenchmark(("compile/" + name).c_str(), compile, make)
        ->Unit(benchmark::kMillisecond);
    auto* b = benchmark::RegisterBenchmark(("run/" + name).c_str(), run, make);
    for (auto [m, n] : std::vector<std::pair<int64_t, int64_t>>{
             {1, 1024}, {100, 1000}, {512, 768}, {1000, 1000}, {2500, 4000}})
      b->Args({m, n});
  }
  auto* c = benchmark::RegisterBenchmark("copy", copy);
  for (auto [m, n] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 1024}, {100, 1000}, {1000, 1000}, {2500, 4000}})
    c->Args({m, n});
  return true;
}();

}  // namespace

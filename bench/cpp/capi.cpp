// bench/cpp/capi.cpp: what a call of the C interface costs beside its bare kernel and a memory
// copy.
//
// Each operation is checked before it is timed. "call_*" is the function of hologram.h, "bare_*"
// the same kernel called with addresses in registers; "large_*" prints the bytes moved per second
// beside "copy_*", the best plain copy on the same threads.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "capi/objects.h"
#include "host/context.h"

namespace {

using namespace hologram;

void check_status(hologram_status status) {
  if (status == HOLOGRAM_OK) return;
  std::fprintf(stderr, "%s\n", hologram_last_error());
  std::exit(1);
}

/// Three buffers of one executor, in the boundary pool when they fit.
struct Fixture {
  hologram_handle executor = 0, a = 0, b = 0, c = 0;
  float *x = nullptr, *y = nullptr, *z = nullptr;

  explicit Fixture(uint64_t n) {
    check_status(hologram_new_executor(&executor));
    for (auto [handle, pointer] : {std::pair{&a, &x}, {&b, &y}, {&c, &z}}) {
      check_status(hologram_executor_allocate(executor, HOLOGRAM_F32, n, 0, handle));
      void* data = nullptr;
      check_status(hologram_buffer_as_mut_ptr(executor, *handle, &data));
      *pointer = static_cast<float*>(data);
    }
    for (uint64_t i = 0; i < n; ++i) {
      x[i] = 0.25f + static_cast<float>(i % 100) / 64;
      y[i] = 4 - static_cast<float>(i % 77) / 32;
    }
  }
  ~Fixture() { hologram_executor_cleanup(executor); }
};

using Binary = hologram_status (*)(hologram_handle, hologram_handle, hologram_handle,
                                   hologram_handle, uint64_t);
using Unary = hologram_status (*)(hologram_handle, hologram_handle, hologram_handle, uint64_t);

struct Operation {
  const char* name;
  uint32_t id;
  Binary binary;
  Unary unary;
  double (*reference)(double, double);
};

constexpr uint32_t id(ir::Op op) { return static_cast<uint32_t>(op); }

const Operation operations[] = {
    {"add", id(ir::Op::add), hologram_vector_add_f32_u64, nullptr,
     [](double x, double y) { return x + y; }},
    {"sub", id(ir::Op::sub), hologram_vector_sub_f32_u64, nullptr,
     [](double x, double y) { return x - y; }},
    {"mul", id(ir::Op::mul), hologram_vector_mul_f32_u64, nullptr,
     [](double x, double y) { return x * y; }},
    {"div", id(ir::Op::div), hologram_vector_div_f32_u64, nullptr,
     [](double x, double y) { return x / y; }},
    {"min", id(ir::Op::min), hologram_vector_min_f32_u64, nullptr,
     [](double x, double y) { return std::min(x, y); }},
    {"max", id(ir::Op::max), hologram_vector_max_f32_u64, nullptr,
     [](double x, double y) { return std::max(x, y); }},
    {"abs", id(ir::Op::abs), nullptr, hologram_vector_abs_f32_u64,
     [](double x, double) { return std::fabs(x); }},
    {"neg", id(ir::Op::neg), nullptr, hologram_vector_neg_f32_u64,
     [](double x, double) { return -x; }},
    {"relu", builtin::relu, nullptr, hologram_vector_relu_f32_u64,
     [](double x, double) { return std::max(x, 0.0); }},
    {"sigmoid", id(ir::Op::sigmoid), nullptr, hologram_sigmoid_f32_u64,
     [](double x, double) { return 1 / (1 + std::exp(-x)); }},
    {"tanh", id(ir::Op::tanh), nullptr, hologram_tanh_f32_u64,
     [](double x, double) { return std::tanh(x); }},
    {"gelu", id(ir::Op::gelu), nullptr, hologram_gelu_f32_u64,
     [](double x, double) { return x / 2 * (1 + std::erf(x / std::sqrt(2.0))); }},
};

hologram_status call(const Operation& op, const Fixture& f, uint64_t n) {
  return op.binary ? op.binary(f.executor, f.a, f.b, f.c, n) : op.unary(f.executor, f.a, f.c, n);
}

void check_result(const Operation& op, const Fixture& f, uint64_t n) {
  check_status(call(op, f, n));
  for (uint64_t i = 0; i < n; ++i)
    if (std::fabs(f.z[i] - op.reference(f.x[i], f.y[i])) > 1e-6) {
      std::fprintf(stderr, "%s: wrong result at %llu\n", op.name,
                   static_cast<unsigned long long>(i));
      std::exit(1);
    }
}

void call_operation(benchmark::State& state, const Operation& op, uint64_t n) {
  Fixture f(n);
  check_result(op, f, n);
  for (auto _ : state) {
    benchmark::DoNotOptimize(call(op, f, n));
    benchmark::ClobberMemory();
  }
  const auto bytes = static_cast<int64_t>((op.binary ? 3 : 2) * n * sizeof(float));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * bytes);
}

void bare_kernel(benchmark::State& state, const Operation& op, uint64_t n) {
  Fixture f(n);
  check_result(op, f, n);
  runtime::Operations& all = *capi::shared_operations();
  const runtime::DirectKernel& k = all.elementwise(op.id, DType::f32);
  void* arguments[] = {f.x, f.y, f.z};
  if (op.unary) arguments[1] = f.z;
  void* buffers[4] = {};
  for (int i = 0; i < k.count; ++i) buffers[i + 1] = arguments[k.sources[static_cast<size_t>(i)]];
  std::atomic<int32_t> sticky{0};
  const atlas::Context context = host::make_context(all.runtime().threads(), &sticky);
  const auto length = static_cast<int64_t>(n);
  for (auto _ : state) {
    benchmark::DoNotOptimize(k.function(&context, buffers + 1, &length, 0, length));
    benchmark::ClobberMemory();
  }
}

/// The best of a cached and a non-temporal copy on all threads; the non-temporal one is what the C
/// library's memcpy does beyond its own threshold.
void copy_memory(benchmark::State& state, uint64_t n) {
  Fixture f(n);
  host::ThreadPool& threads = capi::shared_operations()->runtime().threads();
  auto body = [&](int64_t begin, int64_t end) -> int32_t {
    std::memcpy(f.z + begin, f.x + begin, static_cast<size_t>(end - begin) * sizeof(float));
    return 0;
  };
  const auto total = static_cast<int64_t>(n);
  const int64_t share = (total + threads.num_threads() - 1) / threads.num_threads();
  for (auto _ : state) {
    threads.for_ranges(total, share, body);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * n * 2 * sizeof(float)));
}

/// A copy by our own kernels, cached or not by the same rule as the operations.
void copy_kernel(benchmark::State& state, uint64_t n) {
  Fixture f(n);
  check_status(hologram_convert(f.executor, f.a, f.c, n));
  for (auto _ : state) {
    benchmark::DoNotOptimize(hologram_convert(f.executor, f.a, f.c, n));
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * n * 2 * sizeof(float)));
}

void executor_create(benchmark::State& state) {
  for (auto _ : state) {
    hologram_handle e = 0;
    check_status(hologram_new_executor(&e));
    check_status(hologram_executor_cleanup(e));
  }
}
BENCHMARK(executor_create);

void buffer_allocate(benchmark::State& state) {
  hologram_handle e = 0, b = 0;
  check_status(hologram_new_executor(&e));
  const auto n = static_cast<uint64_t>(state.range(0));
  for (auto _ : state) {
    check_status(hologram_executor_allocate(e, HOLOGRAM_F32, n, HOLOGRAM_UNINITIALIZED, &b));
    check_status(hologram_buffer_cleanup(b));
  }
  hologram_executor_cleanup(e);
}
BENCHMARK(buffer_allocate)->Arg(1024)->Arg(100'000);

void write_and_read(benchmark::State& state) {
  Fixture f(1024);
  std::vector<float> values(1024, 1.5f);
  size_t needed = 0;
  for (auto _ : state) {
    check_status(hologram_buffer_copy_from_bytes(f.executor, f.a, values.data(), 4096));
    check_status(hologram_buffer_to_bytes(f.executor, f.a, values.data(), 4096, &needed));
  }
}
BENCHMARK(write_and_read);

void write_and_read_json(benchmark::State& state) {
  Fixture f(1024);
  std::vector<char> json(64 << 10);
  size_t needed = 0;
  for (auto _ : state) {
    check_status(hologram_buffer_to_vec(f.executor, f.a, json.data(), json.size(), &needed));
    check_status(hologram_buffer_copy_from_slice(f.executor, f.a, json.data()));
  }
}
BENCHMARK(write_and_read_json);

/// Calls of several threads on one executor, each on buffers of its own.
void shared_executor(benchmark::State& state) {
  static Fixture* f = nullptr;
  if (state.thread_index() == 0) f = new Fixture(1024);
  hologram_handle a = 0;
  bool ready = false;
  for (auto _ : state) {
    if (!ready) {
      check_status(hologram_executor_allocate_buffer(f->executor, 1024, &a));
      ready = true;
    }
    check_status(hologram_vector_add_f32(f->executor, a, a, a, 1024));
  }
  if (state.thread_index() == 0) delete f;
}
BENCHMARK(shared_executor)->ThreadRange(1, 8)->UseRealTime();

void gemm(benchmark::State& state) {
  const auto n = static_cast<uint64_t>(state.range(0));
  Fixture f(n * n);
  for (auto _ : state) check_status(hologram_gemm_f32_u64(f.executor, f.a, f.b, f.c, n, n, n));
  state.counters["GF/s"] = benchmark::Counter(2e-9 * static_cast<double>(n * n * n),
                                              benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(gemm)->Arg(64)->Arg(256)->Arg(1024)->UseRealTime();

void reduce_sum(benchmark::State& state) {
  const auto n = static_cast<uint64_t>(state.range(0));
  Fixture f(n);
  float r = 0;
  for (auto _ : state) check_status(hologram_reduce_sum_f32_u64(f.executor, f.a, f.c, n, &r));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * n * sizeof(float)));
}
BENCHMARK(reduce_sum)->Arg(1024)->Arg(100'000)->Arg(10'000'000)->UseRealTime();

const bool registered = [] {
  for (const Operation& op : operations) {
    const std::string name = op.name;
    benchmark::RegisterBenchmark(("call_" + name).c_str(),
                                 [&](benchmark::State& s) { call_operation(s, op, 1024); });
    benchmark::RegisterBenchmark(("bare_" + name).c_str(),
                                 [&](benchmark::State& s) { bare_kernel(s, op, 1024); });
  }
  for (uint64_t n : {1'000'000u, 10'000'000u}) {
    const std::string size = "/" + std::to_string(n);
    benchmark::RegisterBenchmark(("copy_memory" + size).c_str(), [n](benchmark::State& s) {
      copy_memory(s, n);
    })->UseRealTime();
    benchmark::RegisterBenchmark(("copy_kernel" + size).c_str(), [n](benchmark::State& s) {
      copy_kernel(s, n);
    })->UseRealTime();
    for (const Operation& op : std::span(operations).first(4))
      benchmark::RegisterBenchmark(("large_" + std::string(op.name) + size).c_str(),
                                   [&op, n](benchmark::State& s) { call_operation(s, op, n); })
          ->UseRealTime();
  }
  return true;
}();

}  // namespace

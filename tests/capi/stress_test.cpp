// tests/capi/stress_test.cpp: threads that share executors and executables on the host and on a device, with sizes, faults in the data,
// frees and compilations drawn at random; the status and the values of every call are those of the call alone.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "support.h"
#include "support/environment.h"

namespace hologram::test {
namespace {

using Random = std::mt19937_64;

struct Array {
  hologram_dtype dtype = HOLOGRAM_F32;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;

  Array() = default;
  template <class T>
  Array(hologram_dtype type, std::vector<int64_t> dims, const std::vector<T>& values)
      : dtype(type), shape(std::move(dims)), bytes(values.size() * sizeof(T)) {
    if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  }
  uint64_t length() const { return static_cast<uint64_t>(std::reduce(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>())); }
  std::string shape_text() const { return fmt::format("[{}]", fmt::join(shape, ", ")); }
};

/// One call of a program: what it is given, and what it answered alone.
struct Case {
  std::vector<Array> inputs, outputs;
  hologram_status status = HOLOGRAM_OK;
};
using Inputs = std::vector<Array>;

int64_t below(Random& random, int64_t end) { return static_cast<int64_t>(random() % static_cast<uint64_t>(end)); }

/// Integers, of which every sum here is exact.
std::vector<float> numbers(Random& random, int64_t count) {
  std::vector<float> v(static_cast<size_t>(count));
  for (float& x : v) x = static_cast<float>(below(random, 9) - 4);
  return v;
}

int64_t size(Random& random, int64_t most) {
  const uint64_t kind = random() % 8;
  return kind == 0 ? 0 : kind == 1 ? 1 : kind == 2 ? most : below(random, most + 1);
}

Array matrix(Random& random, int64_t rows, int64_t columns) { return {HOLOGRAM_F32, {rows, columns}, numbers(random, rows * columns)}; }

Inputs same_sizes(Random& random, int64_t most) {
  const int64_t rows = size(random, most), columns = size(random, 40);
  return {matrix(random, rows, columns), matrix(random, rows, columns + (random() % 8 == 0))};
}

Inputs dividends(Random& random, int64_t most) {
  const auto n = static_cast<size_t>(size(random, most));
  std::vector<int32_t> a(n), b(n);
  for (size_t i = 0; i < n; ++i) {
    a[i] = static_cast<int32_t>(random());
    b[i] = static_cast<int32_t>(below(random, 100) + 1);
  }
  if (n != 0 && random() % 3 == 0) b[random() % n] = 0;
  const std::vector<int64_t> shape{static_cast<int64_t>(n)};
  return {{HOLOGRAM_I32, shape, a}, {HOLOGRAM_I32, shape, b}};
}

Inputs places(Random& random, int64_t most) {
  const int64_t rows = size(random, 30), count = size(random, most / 4);
  std::vector<int64_t> indices(static_cast<size_t>(count));
  for (int64_t& i : indices) {
    i = rows == 0 ? 0 : below(random, rows);
    if (random() % 500 == 0) i = random() % 2 ? rows : int64_t{1} << 40;
  }
  return {matrix(random, rows, 4), {HOLOGRAM_I64, {count}, indices}};
}

Inputs factors(Random& random, int64_t most) {
  const int64_t m = size(random, most), k = size(random, 40);
  return {matrix(random, m, k), matrix(random, k, 8)};
}

struct Program {
  const char* source;
  Inputs (*draw)(Random& random, int64_t most);
  const char* faults[2] = {};  ///< of which each refusal names one
};

constexpr Program programs[] = {
    {"graph(symbols=2, parameters=2)\n"
     "%0: f32[s0, s1] = parameter index=0 strides=[s1, 1]\n"
     "%1: f32[s0, s1] = parameter index=1 strides=[s1, 1]\n"
     "%2: f32[s0, s1] = mul %0, %1\n"
     "%3: f32[s0] = reduce_sum %2 axes=[1]\n"
     "return %3 strides=[1]\n"
     "return %2 strides=[s1, 1]\n",
     same_sizes,
     {"elsewhere"}},
    {"graph(symbols=1, parameters=2)\n"
     "%0: i32[s0] = parameter index=0 strides=[1]\n"
     "%1: i32[s0] = parameter index=1 strides=[1]\n"
     "%2: i32[s0] = div %0, %1\n"
     "return %2 strides=[1]\n",
     dividends,
     {"division by zero"}},
    {"graph(symbols=2, parameters=2)\n"
     "%0: f32[s0, 4] = parameter index=0 strides=[4, 1]\n"
     "%1: i64[s1] = parameter index=1 strides=[1]\n"
     "%2: f32[s1, 4] = take %0, %1 axis=0 batch=0\n"
     "return %2 strides=[4, 1]\n",
     places,
     {"nothing to take", "an index was out of range"}},
    {"graph(symbols=2, parameters=2)\n"
     "%0: f32[s0, s1] = parameter index=0 strides=[s1, 1]\n"
     "%1: f32[s1, 8] = parameter index=1 strides=[8, 1]\n"
     "%2: f32[s0, 8] = dot_general %0, %1 precision=0\n"
     "return %2 strides=[8, 1]\n",
     factors},
};

constexpr int cases = 60;  // of each program and device

/// An executor with an executable of every program. Each handle may end while calls use it.
struct World {
  hologram_handle executor = 0;
  std::array<std::atomic<hologram_handle>, std::size(programs)> executables{};
  std::atomic<bool> ends{false};
  size_t device = 0;
};

class Stress : public testing::Test {
 protected:
  using Clock = std::chrono::steady_clock;

  static hologram_handle compile(hologram_handle executor, const Program& program, uint32_t flags) {
    hologram_handle graph = 0, executable = 0;
    EXPECT_OK(hologram_graph_parse(program.source, &graph));
    const hologram_status s = hologram_graph_compile(executor, graph, flags, &executable);
    EXPECT_TRUE(s == HOLOGRAM_OK || s == HOLOGRAM_NOT_FOUND) << hologram_last_error();
    EXPECT_OK(hologram_graph_cleanup(graph));
    return executable;
  }

  /// Elements along an axis.
  static int64_t most(size_t device) { return device == 0 ? 3000 : 40; }

  static std::shared_ptr<World> make_world(size_t device) {
    auto world = std::make_shared<World>();
    EXPECT_OK(hologram_new_executor_with_backend(device == 0 ? "cpu" : "null", &world->executor));
    world->device = device;
    for (size_t p = 0; p < std::size(programs); ++p)
      world->executables[p] = compile(world->executor, programs[p], p % 3 ? 0 : HOLOGRAM_REPRODUCIBLE);
    return world;
  }

  std::shared_ptr<World> world(size_t device) {
    std::lock_guard lock(mutex_);
    return worlds_[device];
  }

  /// Ends an executor with all that is in it, while others call.
  void replace_world(size_t device) {
    auto fresh = make_world(device);
    {
      std::lock_guard lock(mutex_);
      std::swap(worlds_[device], fresh);
    }
    fresh->ends = true;
    EXPECT_OK(hologram_executor_cleanup(fresh->executor));
  }

  void replace_executable(World& world, size_t p, Random& random) {
    const hologram_handle fresh = compile(world.executor, programs[p], static_cast<uint32_t>(random() % 4));
    const hologram_handle old = world.executables[p].exchange(fresh);
    const hologram_status s = hologram_executable_cleanup(old);
    EXPECT_TRUE(s == HOLOGRAM_OK || world.ends) << hologram_last_error();
  }

  /// What a call of a world may answer besides: when the executor ended meanwhile.
  static bool excused(const World& world, hologram_status status) { return status == HOLOGRAM_NOT_FOUND && world.ends; }

  static hologram_handle give(const World& world, const Array& a) {
    hologram_handle b = 0;
    hologram_status s = hologram_executor_allocate(world.executor, a.dtype, a.length(), HOLOGRAM_UNINITIALIZED, &b);
    if (s == HOLOGRAM_OK) s = hologram_buffer_copy_from_bytes(world.executor, b, a.bytes.data(), a.bytes.size());
    EXPECT_TRUE(s == HOLOGRAM_OK || excused(world, s)) << hologram_last_error();
    return b;
  }

  static void expect_elements(const World& world, hologram_handle tensor, const Array& expected) {
    std::vector<std::byte> bytes(expected.bytes.size());
    size_t needed = 0;
    const hologram_status s = hologram_tensor_to_bytes(world.executor, tensor, bytes.data(), bytes.size(), &needed);
    if (excused(world, s)) return;
    ASSERT_OK(s);
    EXPECT_TRUE(needed == bytes.size() && bytes == expected.bytes) << expected.shape_text();
  }

  /// Cases drawn and called one by one on the interpreter.
  void call_alone(uint64_t seed) {
    Random random(seed);
    World alone;
    ASSERT_OK(hologram_new_executor_with_backend("interp", &alone.executor));
    for (size_t p = 0; p < std::size(programs); ++p) {
      const hologram_handle executable = compile(alone.executor, programs[p], 0);
      uint32_t results = 0;
      ASSERT_OK(hologram_executable_num_outputs(executable, &results));
      for (size_t device : {0, 1})
        for (int n = 0; n < cases; ++n) {
          Case& c = alone_[device][p].emplace_back(Case{programs[p].draw(random, most(device)), {}});
          std::vector<hologram_handle> inputs, outputs(results);
          for (const Array& a : c.inputs)
            EXPECT_OK(hologram_tensor_from_buffer(give(alone, a), a.shape_text().c_str(), &inputs.emplace_back()));
          c.status = hologram_executable_run(executable, inputs.data(), inputs.size(), outputs.data(), outputs.size());
          EXPECT_TRUE(c.status == HOLOGRAM_OK || programs[p].faults[0]) << hologram_last_error();
          for (hologram_handle t : outputs) c.outputs.push_back(c.status == HOLOGRAM_OK ? read(alone, t) : Array());
        }
    }
    EXPECT_OK(hologram_executor_cleanup(alone.executor));
  }
  static Array read(const World& world, hologram_handle tensor) {
    Array a;
    size_t axes = 0, bytes = 0;
    EXPECT_OK(hologram_tensor_dtype(tensor, &a.dtype));
    hologram_tensor_dimensions(tensor, nullptr, nullptr, 0, &axes);
    a.shape.resize(axes);
    EXPECT_OK(hologram_tensor_dimensions(tensor, a.shape.data(), nullptr, axes, nullptr));
    EXPECT_OK(hologram_tensor_to_bytes(world.executor, tensor, nullptr, 0, &bytes));
    a.bytes.resize(bytes);
    EXPECT_OK(hologram_tensor_to_bytes(world.executor, tensor, a.bytes.data(), bytes, &bytes));
    return a;
  }

  void call(World& world, size_t p, Random& random) {
    const Case& c = alone_[world.device][p][random() % cases];
    std::vector<hologram_handle> buffers, inputs, outputs;
    for (const Array& a : c.inputs) {
      hologram_handle t = 0;
      buffers.push_back(give(world, a));
      hologram_tensor_from_buffer(buffers.back(), a.shape_text().c_str(), &t);
      inputs.push_back(t);
    }
    for (const Array& a : c.outputs) {
      hologram_handle t = 0;
      if (c.status == HOLOGRAM_OK && random() % 2) {
        hologram_handle b = 0;
        hologram_executor_allocate(world.executor, a.dtype, a.length(), HOLOGRAM_UNINITIALIZED, &b);
        hologram_tensor_from_buffer(b, a.shape_text().c_str(), &t);
        buffers.push_back(b);
      }
      outputs.push_back(t);
    }
    const auto given = outputs;
    const hologram_handle executable = world.executables[p];
    const hologram_status s = hologram_executable_run(executable, inputs.data(), inputs.size(), outputs.data(), outputs.size());
    const bool replaced = s == HOLOGRAM_NOT_FOUND && world.executables[p] != executable;
    if (!excused(world, s) && !replaced) {
      EXPECT_EQ(s, c.status) << hologram_last_error() << "\n" << programs[p].source;
      if (s == c.status && s != HOLOGRAM_OK) {
        const std::string_view said = hologram_last_error();
        EXPECT_TRUE(std::ranges::any_of(programs[p].faults, [&](const char* f) { return f && said.find(f) != said.npos; })) << said;
      }
      if (s == HOLOGRAM_OK)
        for (size_t i = 0; i < outputs.size(); ++i) expect_elements(world, outputs[i], c.outputs[i]);
      if (s != HOLOGRAM_OK) {
        EXPECT_EQ(outputs, given);
      }
      ++calls_[s == HOLOGRAM_OK ? 0 : 1];
    }
    for (hologram_handle t : inputs) hologram_tensor_cleanup(t);
    for (hologram_handle t : outputs) hologram_tensor_cleanup(t);
    for (hologram_handle b : buffers) hologram_buffer_cleanup(b);
  }

  /// Operations of the executor on buffers.
  void operate(World& world, Random& random) {
    const auto n = static_cast<uint32_t>(size(random, most(world.device))) + 1, half = n / 2;
    const std::vector<float> x = numbers(random, n);
    const hologram_handle a = give(world, {HOLOGRAM_F32, {n}, x}), e = world.executor;
    const float expected = 2 * std::reduce(x.begin() + (n - half), x.end());
    hologram_handle tail = 0, twice = 0;
    float sum = 0;
    hologram_status s = hologram_executor_allocate(e, HOLOGRAM_F32, half, 0, &twice);
    if (s == HOLOGRAM_OK) s = hologram_buffer_slice(e, a, n - half, half, &tail);
    if (s == HOLOGRAM_OK) s = hologram_vector_add_f32(e, tail, tail, twice, half);
    if (s == HOLOGRAM_OK) s = hologram_reduce_sum_f32(e, twice, a, half, &sum);
    EXPECT_TRUE(s != HOLOGRAM_OK || sum == expected) << sum;
    if (s == HOLOGRAM_OK) s = hologram_buffer_resize(e, a, n + 5) == HOLOGRAM_BUSY ? HOLOGRAM_OK : HOLOGRAM_NOT_FOUND;
    EXPECT_TRUE(s == HOLOGRAM_OK || excused(world, s)) << hologram_last_error();
    hologram_buffer_cleanup(tail);
    hologram_buffer_cleanup(twice);
    hologram_buffer_cleanup(a);
  }

  void work(size_t device, uint64_t seed, Clock::time_point end) {
    Random random(seed);
    while (Clock::now() < end && !HasFailure()) {
      auto w = world(device);
      const size_t p = random() % std::size(programs);
      const uint64_t what = random() % 1000;
      if (what < 800)
        call(*w, p, random);
      else if (what < 985)
        operate(*w, random);
      else if (what < 998)
        replace_executable(*w, p, random);
      else
        replace_world(device);
    }
  }

  std::mutex mutex_;
  std::shared_ptr<World> worlds_[2];
  std::vector<Case> alone_[2][std::size(programs)];  // by device
  std::atomic<uint64_t> calls_[2]{};
};

// HOLOGRAM_STRESS_SECONDS and HOLOGRAM_STRESS_SEED make it longer and another one.
TEST_F(Stress, CallsOnSharedHandlesAnswerAsIfAlone) {
  const uint64_t seconds = number("HOLOGRAM_STRESS_SECONDS", 4), seed = number("HOLOGRAM_STRESS_SEED", 1);
  SCOPED_TRACE(fmt::format("HOLOGRAM_STRESS_SEED={}", seed));
  call_alone(seed);
  for (size_t device : {0, 1}) worlds_[device] = make_world(device);
  const auto end = Clock::now() + std::chrono::seconds(seconds);
  {
    std::vector<std::jthread> threads;
    for (uint64_t t = 0; t < 6; ++t) threads.emplace_back([=, this] { work(t % 3 == 2, seed * 100 + t, end); });
  }
  EXPECT_GT(calls_[0], 10u);
  EXPECT_GT(calls_[1], 1u);
  RecordProperty("calls", std::to_string(calls_[0] + calls_[1]));
  EXPECT_OK(hologram_clear_all_registries());
  EXPECT_EQ(made(hologram_live_handles), 0u);
}

}  // namespace
}  // namespace hologram::test

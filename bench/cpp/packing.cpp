// bench/cpp/packing.cpp: right operands that are new in each call: what packing them takes beside a
// copy of as many bytes, in turns, on one thread.
//
//   bench_packing [words of the cases' names] [seconds per case]
//
// "tiles": the kernels that pack for AMX tiles, which need AVX-512 alone, beside a memcpy that
// reads and writes as many bytes in all. "units": what a product of 64 rows takes longer where its
// units pack the operand than where it was packed ahead, beside memcpy of the operand; on the
// machine's own instruction set. Printed are the fastest times, their ratio, and the median and
// quartiles of the turns' ratios.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/backend.h"
#include "backend/cpu/compile.h"
#include "backend/cpu/load.h"
#include "backend/cpu/variants.h"
#include "runtime/executable.h"

namespace {
using namespace hologram;
using ir::Graph;
using ir::Op;
using ir::Value;
using runtime::Executable;
using Clock = std::chrono::steady_clock;

struct Free {
  void operator()(char* p) const { std::free(p); }
};
using Memory = std::unique_ptr<char, Free>;

Memory memory(size_t bytes) {
  constexpr size_t page = 4096;
  Memory p(static_cast<char*>(std::aligned_alloc(page, (bytes + 2 * page) / page * page)));
  unsigned x = 1;  // bytes of small numbers of any type
  for (size_t i = 0; i < bytes; ++i)
    p.get()[i] = static_cast<char>((x = x * 1664525 + 1013904223) >> 26);
  return p;
}

struct Case {
  DType type;
  int64_t m, n, k;
  bool along_k;
  int precision;  ///< of float32: 0 for three terms, 2 for one
};

size_t bytes_of(const Case& c) { return static_cast<size_t>(c.n * c.k * size_of(c.type)); }

void make_product(const Case& c, Graph& g) {
  Value x = g.parameter(0, c.type, {c.m, c.k}, {c.k, 1});
  Value w = c.along_k ? g.permute(g.parameter(1, c.type, {c.n, c.k}, {c.k, 1}), {1, 0})
                      : g.parameter(1, c.type, {c.k, c.n}, {c.n, 1});
  Value y = g.make(Op::dot_general, {x, w}, {{c.precision}, {}, 0, ""},
                   c.type == DType::i8 ? DType::i32 : c.type);
  g.outputs.push_back({y, contiguous_strides(y->shape), -1});
}

std::shared_ptr<Executable> compiled(const Case& c, bool ahead,
                                     std::shared_ptr<runtime::Runtime> r) {
  Graph g;
  make_product(c, g);
  return Executable::compile(g, {false, false, {false, ahead}}, std::move(r));
}

/// Calls so many times that a turn takes a fifth of a millisecond: a round of turns then often fits
/// between two interruptions by other work.
class Timed {
 public:
  explicit Timed(std::function<void()> call) : call_(std::move(call)) {
    for (int i = 0; i < 3; ++i) once_ = seconds(1);
    count_ = std::max(1, static_cast<int>(2e-4 / std::max(once_, 1e-9)));
  }
  double turn() {
    call_();
    return seconds(count_);
  }

 private:
  double seconds(int count) const {
    const auto start = Clock::now();
    for (int i = 0; i < count; ++i) call_();
    return std::chrono::duration<double>(Clock::now() - start).count() / count;
  }
  std::function<void()> call_;
  double once_ = 0;
  int count_ = 1;
};

/// Prints the fastest time of `with` less that of `without`, if there is one, beside `copy`.
void compare(const std::string& name, double seconds, Timed with, Timed* without, Timed copy) {
  double least = 1e9, least_without = without ? 1e9 : 0, least_copy = 1e9;
  std::vector<double> ratios;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  do {
    const double one = with.turn(), other = without ? without->turn() : 0, of_copy = copy.turn();
    least = std::min(least, one), least_copy = std::min(least_copy, of_copy);
    if (without) least_without = std::min(least_without, other);
    ratios.push_back((one - other) / of_copy);
  } while (Clock::now() < end || ratios.size() < 5);
  std::ranges::sort(ratios);
  auto quantile = [&](size_t quarters) { return ratios[ratios.size() * quarters / 4]; };
  const double packing = least - least_without;
  std::printf("%-34s %9.1f us %9.1f us  %5.2f times  turns %.2f (%.2f…%.2f)\n", name.c_str(),
              packing * 1e6, least_copy * 1e6, packing / least_copy, quantile(2), quantile(1),
              quantile(3));
  std::fflush(stdout);
}

Timed copy_of(Memory& from, Memory& to, size_t bytes) {
  return Timed([&from, &to, bytes] {
    std::memcpy(to.get(), from.get(), bytes);
    asm volatile("" ::: "memory");
  });
}

void tiles(const std::string& name, const Case& c, double seconds) {
  cpu::Target target =
      cpu::with_tiles(cpu::with_dots(cpu::generic_target(cpu::Isa::avx512), false, true));
  target.terms = cpu::Terms::model;
  auto runtime = std::make_shared<runtime::Runtime>(cpu::make_backend(target));
  auto e = compiled(c, false, runtime);
  const atlas::Program& p = e->plan().programs[0];
  if (p.kind() != atlas::BlockKind::loop) {
    std::printf("%-34s is not packed ahead\n", name.c_str());
    return;
  }
  const cpu::Object object = cpu::compile(p, target);
  auto kernel = cpu::load(object.code);
  const int64_t total = object.launch.total.eval({});
  size_t moved = 0;
  std::vector<Memory> buffers;
  std::vector<void*> addresses;
  for (const atlas::Buffer& b : p.buffers) {
    const auto bytes = static_cast<size_t>(b.extent.eval({}) * size_of(b.dtype));
    moved += bytes;
    buffers.push_back(memory(bytes));
    addresses.push_back(buffers.back().get());
  }
  atlas::Context context{};
  Timed pack([&] { kernel->function(&context, addresses.data(), nullptr, 0, total); });
  Memory from = memory(moved / 2), to = memory(moved / 2);
  compare(name, seconds, std::move(pack), nullptr, copy_of(from, to, moved / 2));
}

class Results : public runtime::Outputs {
 public:
  void* allocate(int, size_t bytes, runtime::Frame&) override {
    if (!out_) out_ = memory(bytes);
    return out_.get();
  }

 private:
  Memory out_;
};

void units(const std::string& name, const Case& c, double seconds) {
  auto runtime = std::make_shared<runtime::Runtime>(cpu::make_backend());
  runtime->threads().set_num_threads(1);
  Memory x = memory(static_cast<size_t>(c.m * c.k * size_of(c.type)));
  Memory w = memory(bytes_of(c)), copy = memory(bytes_of(c));
  Results results;
  void* inputs[] = {x.get(), w.get()};
  auto call = [&](bool ahead) {
    auto e = compiled(c, ahead, runtime);
    auto kept = std::make_shared<runtime::Kept>(e->plan().cache.size());
    auto frame = std::shared_ptr<runtime::Frame>(e->lease());
    return Timed([&, e, kept, frame, ahead] {
      if (e->run({inputs, nullptr, ahead ? kept.get() : nullptr}, results, nullptr, *frame).status)
        std::abort();
    });
  };
  Timed given = call(false), packed = call(true);
  compare(name, seconds, std::move(given), &packed, copy_of(w, copy, bytes_of(c)));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string only = argc > 1 ? argv[1] : "";
  const double seconds = argc > 2 ? std::atof(argv[2]) : 0.5;
  std::printf("%-34s %12s %12s\n", "one thread", "packing", "memcpy");
  struct Kind {
    const char* name;
    DType type;
    int precision;
  };
  for (bool on_tiles : {true, false})
    for (Kind kind : {Kind{"float32", DType::f32, 0}, Kind{"float32 medium", DType::f32, 2},
                      Kind{"bfloat16", DType::bf16, 0}, Kind{"bytes", DType::i8, 0}})
      for (bool along_k : {false, true})
        for (int64_t n : {384, 1024, 2048}) {
          if (!on_tiles && kind.precision) continue;
          const Case c{kind.type, on_tiles ? 1024 : 64, n, n, along_k, kind.precision};
          const std::string name = std::string(on_tiles ? "tiles " : "units ") + kind.name +
                                   (along_k ? " along k " : " ") + std::to_string(n);
          if (name.find(only) != std::string::npos) (on_tiles ? tiles : units)(name, c, seconds);
        }
}

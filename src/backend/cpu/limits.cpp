// backend/cpu/limits.cpp: measures the limits: every thread runs the same loop, on memory of its
// own.
#include "backend/cpu/limits.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>

#include "backend/cpu/limit_loops.h"
#include "base/error.h"
#include "host/pages.h"

namespace hologram::cpu {
namespace {

constexpr double round_seconds = 1e-3;
constexpr int64_t least_memory = int64_t{64} << 20, most_memory = int64_t{1} << 30;

struct Unmap {
  size_t bytes = 0;
  void operator()(std::byte* p) const { host::unmap_huge(p, bytes); }
};

// On huge pages, as the memory of graphs is: page tables of small ones take part of what it gives.
class Meter {
 public:
  Meter(const Target& target, host::ThreadPool& pool, int rounds, int64_t bytes)
      : target_(target),
        pool_(pool),
        threads_(pool.num_threads()),
        rounds_(rounds),
        each_(bytes / threads_ / 4096 * 4096) {
    const auto all = static_cast<size_t>(each_ * threads_);
    memory_ = {host::map_huge(all), Unmap{all}};
    if (!memory_) fail(ErrorCode::out_of_memory, "limits: {} bytes of memory were refused", all);
    pool_.for_ranges(threads_, 1, [&](int64_t begin, int64_t end) {
      std::memset(memory_.get() + begin * each_, 0, static_cast<size_t>((end - begin) * each_));
      return 0;
    });
  }

  double operations(LimitLoop loop) {
    const int64_t operations = limit_round_operations(loop, target_);
    if (operations == 0) return 0;
    const auto kernel = compile_limit_loop(loop, target_);
    int64_t count = 1000;
    while (run(*kernel, count, 1, 0).longest < round_seconds && count < (int64_t{1} << 40))
      count *= 2;
    return static_cast<double>(count * operations) * most(*kernel, count, 1, 0, false);
  }

  // Bytes a second where each thread goes through `bytes` again and again: half of them to each
  // array if there are two. `shared`: by a level that all threads have in common.
  double bandwidth(LimitLoop loop, int64_t bytes, bool shared) {
    double best = bandwidth(loop, bytes, shared, target_);
    if (target_.processor->half_vectors && target_.isa == Isa::avx512) {
      Target half = target_;
      half.vector_bytes /= 2;
      best = std::max(best, bandwidth(loop, bytes, shared, half));
    }
    return best;
  }

 private:
  double bandwidth(LimitLoop loop, int64_t bytes, bool shared, const Target& target) {
    const bool both = loop == LimitLoop::copy || loop == LimitLoop::copy_around;
    const int64_t round = limit_round_bytes(target), count = bytes / (both ? 2 : 1) / round;
    const int64_t second = both ? count * round : 0;
    const auto kernel = compile_limit_loop(loop, target);
    int64_t passes = 1;
    while (run(*kernel, count, passes, second).longest < round_seconds &&
           passes < (int64_t{1} << 40))
      passes *= 2;
    return static_cast<double>(count * round * (both ? 2 : 1) * passes) *
           most(*kernel, count, passes, second, shared);
  }

  using Clock = std::chrono::steady_clock;
  // Of one round: times a second that each thread's work is done, all threads' together, by the
  // processor time of each, which other processes take nothing from; the same by the clock, from
  // the first thread's beginning to the last one's end; seconds of the longest.
  struct Rates {
    double own, together, longest;
  };

  // The most of the rounds. What threads share is measured by the clock, as only then all of them
  // use it; more rounds are taken until two agree.
  double most(const LoadedKernel& kernel, int64_t count, int64_t passes, int64_t second,
              bool shared) {
    double best = 0, next = 0;
    for (int k = 0; k < rounds_ || (shared && k < 4 * rounds_ && next < 0.97 * best); ++k) {
      const Rates r = run(kernel, count, passes, second);
      const double rate = shared ? r.together : r.own;
      next = std::max(next, std::min(best, rate));
      best = std::max(best, rate);
    }
    return best;
  }

  Rates run(const LoadedKernel& kernel, int64_t count, int64_t passes, int64_t second) {
    struct Span {
      Clock::time_point begin, end;
      double own;
    };
    std::vector<Span> spans(static_cast<size_t>(threads_));
    pool_.for_ranges(threads_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        std::byte* own = memory_.get() + k * each_;
        void* const arrays[] = {own, own + second};
        Span& span = spans[static_cast<size_t>(k)];
        span.begin = Clock::now();
        const double used = processor_seconds();
        for (int64_t pass = 0; pass < passes; ++pass)
          kernel.function(nullptr, arrays, nullptr, 0, count);
        span.own = processor_seconds() - used;
        span.end = Clock::now();
      }
      return 0;
    });
    auto first = spans[0].begin, last = spans[0].end;
    Rates out{};
    for (const Span& s : spans) {
      out.own += 1 / s.own;
      out.longest = std::max(out.longest, s.own);
      first = std::min(first, s.begin);
      last = std::max(last, s.end);
    }
    out.together =
        static_cast<double>(threads_) / std::chrono::duration<double>(last - first).count();
    return out;
  }

  static double processor_seconds() {
    timespec t{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  }

  const Target& target_;
  host::ThreadPool& pool_;
  int64_t threads_;
  int rounds_;
  int64_t each_;
  std::unique_ptr<std::byte, Unmap> memory_;
};

// What the system says of the data cache of this level beside a core; 0: nothing.
int64_t cache_bytes(int level) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", index);
    auto read = [&](const char* name) {
      std::string text;
      std::ifstream(folder + name) >> text;
      return text;
    };
    if (read("level") != std::to_string(level) || read("type") == "Instruction") continue;
    const std::string size = read("size");  // 32768K
    int64_t kibibytes = 0;
    std::from_chars(size.data(), size.data() + size.size(), kibibytes);
    return kibibytes << (size.ends_with('M') ? 20 : 10);
  }
  return 0;
}

int64_t or_else(int64_t found, int64_t otherwise) { return found > 0 ? found : otherwise; }

struct Size {
  const char* name;
  int64_t holds, used;  // by all threads together; in the measurement by each
  bool shared;
};

// Working sets that lie in one level and in none before it. Of four times the last cache some of
// each pass is still there from the one before (a fifth more a second, measured), of eight next to
// nothing.
std::vector<Size> sizes(const Target& target, int64_t threads) {
  std::vector<Size> found;
  const int64_t first = or_else(cache_bytes(1), target.processor->first_level);
  const int64_t second = or_else(cache_bytes(2), target.processor->second_level);
  const int64_t last = cache_bytes(3);
  if (first > 0) found.push_back({"L1", first * threads, first / 2, false});
  if (second > 0) found.push_back({"L2", second * threads, second / 2, false});
  if (const int64_t used = std::max(2 * second, last / 2 / threads);
      last > 0 && used * threads <= last)
    found.push_back({"L3", last, used, true});
  const int64_t all = std::clamp(8 * std::max(last, second * threads), least_memory, most_memory);
  found.push_back({"memory", 0, all / threads, true});
  return found;
}

}  // namespace

Limits measure_limits(const Target& target, host::ThreadPool& pool, int rounds, bool memory_reads) {
  require(rounds > 0, "limits: rounds is {}; expected 1 or more", rounds);
  Limits out;
  out.threads = pool.num_threads();
  const std::vector<Size> levels = sizes(target, out.threads);
  Meter meter(target, pool, rounds, levels.back().used * out.threads);
  if (memory_reads) {
    const Size& memory = levels.back();
    out.levels.push_back({.name = memory.name,
                          .read = meter.bandwidth(LimitLoop::read, memory.used, memory.shared)});
    return out;
  }
  out.f32 = meter.operations(LimitLoop::f32);
  out.f64 = meter.operations(LimitLoop::f64);
  out.bf16 = meter.operations(LimitLoop::bf16);
  out.i8 = meter.operations(LimitLoop::i8);
  for (const Size& s : levels) {
    LevelLimits level{s.name, s.holds};
    level.read = meter.bandwidth(LimitLoop::read, s.used, s.shared);
    level.write = meter.bandwidth(LimitLoop::write, s.used, s.shared);
    level.copy = meter.bandwidth(LimitLoop::copy, s.used, s.shared);
    if (s.holds == 0) {
      level.write = std::max(level.write, meter.bandwidth(LimitLoop::write_around, s.used, true));
      level.copy = std::max(level.copy, meter.bandwidth(LimitLoop::copy_around, s.used, true));
    }
    out.levels.push_back(level);
  }
  return out;
}

}  // namespace hologram::cpu

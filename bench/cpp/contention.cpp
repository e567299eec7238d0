// bench/cpp/contention.cpp: the mean time of a parallel call beside competing busy processes.
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "host/thread_pool.h"

namespace {
using Clock = std::chrono::steady_clock;
using hologram::host::ThreadPool;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// About `n` dependent multiply-adds: arithmetic only, so that only the scheduler matters.
float spin_arithmetic(int64_t n, float seed) {
  float a[16];
  for (int i = 0; i < 16; ++i) a[i] = seed + static_cast<float>(i);
  for (int64_t k = 0; k < n; ++k)
    for (float& x : a) x = x * 0.999f + 0.5f;
  float sum = 0;
  for (float x : a) sum += x;
  return sum;
}

struct Work {
  int64_t per_item;
  std::vector<float> out;
};

int32_t kernel(const void* ctx, void* const*, const int64_t*, int64_t begin, int64_t end) {
  auto* work = static_cast<Work*>(const_cast<void*>(ctx));
  for (int64_t i = begin; i < end; ++i)
    work->out[static_cast<size_t>(i)] = spin_arithmetic(work->per_item, static_cast<float>(i));
  return 0;
}

std::vector<pid_t> start_competitors(int count, int lifetime_s, bool own_session) {
  std::vector<pid_t> pids;
  for (int i = 0; i < count; ++i) {
    const pid_t pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      alarm(static_cast<unsigned>(lifetime_s));
      if (own_session) setsid();
      for (;;) asm volatile("");
    }
    pids.push_back(pid);
  }
  return pids;
}

void stop_competitors(const std::vector<pid_t>& pids) {
  for (pid_t pid : pids) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
}

/// CPU seconds that all processes of the machine have used, and those of one process.
double machine_cpu_seconds() {
  double user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0;
  if (FILE* f = std::fopen("/proc/stat", "r")) {
    if (std::fscanf(f, "cpu %lf %lf %lf %lf %lf %lf %lf", &user, &nice, &system, &idle, &iowait,
                    &irq, &softirq) != 7)
      user = 0;
    std::fclose(f);
  }
  return (user + nice + system + irq + softirq) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double process_cpu_seconds(pid_t pid) {
  clockid_t clock;
  timespec t{};
  if (clock_getcpuclockid(pid, &clock) == 0) clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// Milliseconds of each call over `seconds`, with `gap_us` of the caller's own work after each.
std::vector<double> time_calls(const std::function<void()>& call, double seconds, double gap_us) {
  std::vector<double> times;
  const auto start = Clock::now();
  while (seconds_since(start) < seconds) {
    const auto before = Clock::now();
    call();
    const auto after = Clock::now();
    times.push_back(std::chrono::duration<double, std::milli>(after - before).count());
    while (seconds_since(after) < gap_us * 1e-6) {
    }
  }
  return times;
}

double mean(const std::vector<double>& times) {
  return std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
}

double quantile(std::vector<double> times, double q) {
  const auto at = times.begin() + static_cast<ptrdiff_t>(q * static_cast<double>(times.size() - 1));
  std::nth_element(times.begin(), at, times.end());
  return *at;
}

struct Window {
  std::vector<double> times;
  double foreign =
      0;  // share of the machine that processes other than ours and the competitors used
};

struct Options {
  double seconds = 1, gap_us = 0;
  int64_t chunks = 96;
  int windows = 5, most_competitors = 2;
  bool openmp = true, own_session = false, verbose = false;
};

/// One window with fresh competitors, so that each window meets its own placement of threads.
Window measure(const std::function<void()>& call, const Options& options, int competitors) {
  const auto pids =
      start_competitors(competitors, static_cast<int>(options.seconds) + 20, options.own_session);
  time_calls(call, 0.25, options.gap_us);
  auto ours = [&] {
    double sum = process_cpu_seconds(getpid());
    for (pid_t pid : pids) sum += process_cpu_seconds(pid);
    return sum;
  };
  const auto start = Clock::now();
  const double others = machine_cpu_seconds() - ours();
  Window window{time_calls(call, options.seconds, options.gap_us), 0};
  window.foreign = (machine_cpu_seconds() - ours() - others) / seconds_since(start);
  stop_competitors(pids);
  return window;
}

/// Several windows in which nobody else used the machine; empty when it was never quiet.
std::vector<double> quiet_windows(const std::function<void()>& call, const Options& options,
                                  int competitors) {
  std::vector<double> times;
  int kept = 0;
  for (int attempt = 0; kept < options.windows && attempt < 4 * options.windows; ++attempt) {
    const Window window = measure(call, options, competitors);
    const bool disturbed = window.foreign > 0.04;
    if (options.verbose)
      std::printf("  window: mean %.3f ms, p99 %.3f, other processes %.0f %%%s\n",
                  mean(window.times), quantile(window.times, 0.99), 100 * window.foreign,
                  disturbed ? ": dropped" : "");
    if (disturbed) {
      sleep(1);
      continue;
    }
    times.insert(times.end(), window.times.begin(), window.times.end());
    ++kept;
  }
  return times;
}

void report(const char* name, const std::function<void()>& call, const Options& options, int cpus) {
  double quiet = 0;
  for (int competitors = 0; competitors <= options.most_competitors; ++competitors) {
    const std::vector<double> times = quiet_windows(call, options, competitors);
    if (times.empty()) {
      std::printf("%-8s %11d   not measured: other processes kept the machine busy\n", name,
                  competitors);
      if (competitors == 0) return;
      continue;
    }
    if (competitors == 0) quiet = quantile(times, 0.5);
    const double ideal = quiet * cpus / (cpus - 0.5 * std::min(competitors, cpus));
    std::printf("%-8s %11d %9.3f %9.3f %9.3f %9.3f %14.2fx\n", name, competitors, mean(times),
                quantile(times, 0.5), quantile(times, 0.99), quantile(times, 1),
                mean(times) / ideal);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (arg == "--seconds") options.seconds = std::atof(value);
    if (arg == "--windows") options.windows = std::atoi(value);
    if (arg == "--chunks") options.chunks = std::max(1, std::min(960, std::atoi(value)));
    if (arg == "--gap-us") options.gap_us = std::atof(value);
    if (arg == "--competitors") options.most_competitors = std::atoi(value);
    if (arg == "--no-openmp") options.openmp = false;
    if (arg == "--own-session") options.own_session = true;
    if (arg == "--verbose") options.verbose = true;
  }
  constexpr int64_t num_items = 960;
  constexpr double call_ms = 0.75;
  const int cpus = ThreadPool::default_threads();
  ThreadPool pool(cpus);
  Work work{1000, std::vector<float>(num_items)};
  // One call on all cores takes call_ms when nothing else runs.
  const auto serial = time_calls([&] { kernel(&work, nullptr, nullptr, 0, num_items); }, 0.5, 0);
  work.per_item = static_cast<int64_t>(static_cast<double>(work.per_item) * call_ms * cpus /
                                       quantile(serial, 0.1));

  std::printf("%d CPUs; ideal share: the quiet time x CPUs / (CPUs - competitors / 2)\n", cpus);
  std::printf("%-8s %11s %9s %9s %9s %9s %15s\n", "", "competitors", "mean ms", "p50", "p99", "max",
              "of ideal share");
  report(
      "pool",
      [&] {
        pool.parallel_for(kernel, &work, nullptr, nullptr, num_items, num_items / options.chunks);
      },
      options, cpus);
#ifdef _OPENMP
  if (options.openmp)
    report(
        "OpenMP",
        [&] {
#pragma omp parallel for schedule(static) num_threads(cpus)
          for (int64_t i = 0; i < num_items; ++i)
            work.out[static_cast<size_t>(i)] =
                spin_arithmetic(work.per_item, static_cast<float>(i));
        },
        options, cpus);
#endif
}

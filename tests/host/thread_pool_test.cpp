// tests/host/thread_pool_test.cpp: every chunk once, whoever sleeps, stops, forks or throws.
#include "host/thread_pool.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "support/environment.h"
#include "support/refusal.h"
#include "support/test.h"
#include "support/threads.h"

namespace {
using hologram::Error;
using hologram::host::ThreadPool;
using namespace std::chrono_literals;

/// Counts the runs of every item.
struct Counts {
  explicit Counts(int64_t n) : items(static_cast<size_t>(n)) {}
  void add(int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) items[static_cast<size_t>(i)].fetch_add(1, std::memory_order_relaxed);
  }
  bool each_once() const {
    return std::all_of(items.begin(), items.end(), [](auto& n) { return n.load() == 1; });
  }
  std::vector<std::atomic<int>> items;
};

/// for_ranges() of work that has no status.
template <class Work>
int32_t run(ThreadPool& pool, int64_t total, int64_t grain, const Work& work, hologram::host::RangeOptions options = {}) {
  return pool.for_ranges(
      total, grain, [&](int64_t begin, int64_t end) { return work(begin, end), 0; }, options);
}

void work_for(std::chrono::nanoseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

/// Waits until `condition` holds; false after a minute.
template <class Condition>
bool eventually(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + 60s;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

/// Whether `threads` threads come together in one call.
bool uses_threads(ThreadPool& pool, int threads) {
  std::atomic<int> inside{0};
  return pool.for_ranges(64, 1, [&](int64_t begin, int64_t) {
    if (begin >= threads) return 0;
    inside.fetch_add(1);
    return eventually([&] { return inside.load() >= threads; }) ? 0 : 1;
  }) == 0;
}

/// The most threads that were inside one call at one time.
int most_threads(ThreadPool& pool, int max_threads) {
  std::atomic<int> now{0}, most{0};
  run(pool, 64, 1,
      [&](int64_t, int64_t) {
        const int running = now.fetch_add(1) + 1;
        int seen = most.load();
        while (running > seen && !most.compare_exchange_weak(seen, running)) {
        }
        std::this_thread::sleep_for(100us);
        now.fetch_sub(1);
      },
      {.max_threads = max_threads});
  return most.load();
}

TEST(ThreadPool, RunsEveryItemOnce) {
  ThreadPool pool(4);
  for (const int64_t total : {1, 2, 3, 7, 64, 1000, 4097})
    for (const int64_t grain : {1, 3, 16, 1000}) {
      Counts counts(total);
      const int32_t status = run(pool, total, grain, [&](int64_t begin, int64_t end) {
        EXPECT_EQ(begin % grain, 0);
        EXPECT_LT(begin, end);
        EXPECT_TRUE(end % grain == 0 || end == total);
        counts.add(begin, end);
      });
      EXPECT_EQ(status, 0);
      EXPECT_TRUE(counts.each_once()) << total << " by " << grain;
    }
}

TEST(ThreadPool, ShortCallsOfChangingLength) {
  // A worker that is late by one call must not take the new call's length for the old one's.
  ThreadPool pool(4);
  std::atomic<int> wrong{0};
  hologram::test::on_threads(4, [&](int) {
    for (int call = 0; call < 20'000; ++call) {
      const int64_t total = call % 2 ? 2 : 40 + call % 7;
      std::atomic<int64_t> items{0};
      const int32_t status = pool.for_ranges(total, 1, [&](int64_t begin, int64_t end) {
        if (begin >= total) return 1;
        items.fetch_add(end - begin, std::memory_order_relaxed);
        return 0;
      });
      if (status != 0 || items.load() != total) wrong.fetch_add(1);
    }
  });
  EXPECT_EQ(wrong.load(), 0);
}

TEST(ThreadPool, EmptyAndOddRanges) {
  ThreadPool pool(3);
  auto never = [](int64_t, int64_t) { return 1; };
  EXPECT_EQ(pool.for_ranges(0, 8, never), 0);
  EXPECT_EQ(pool.for_ranges(-5, 8, never), 0);
  Counts counts(10);
  EXPECT_EQ(run(pool, 10, 0, [&](int64_t b, int64_t e) { counts.add(b, e); }), 0);
  EXPECT_TRUE(counts.each_once());
}

TEST(ThreadPool, MergesChunksBeyondItsCounter) {
  ThreadPool pool(2);
  for (auto [total, grain] : {std::pair{int64_t{5} << 20, int64_t{1}}, {INT64_MAX - 5, INT64_MAX / 3}}) {
    std::atomic<int64_t> items{0};
    EXPECT_EQ(run(pool, total, grain, [&](int64_t b, int64_t e) { items.fetch_add(e - b, std::memory_order_relaxed); }), 0);
    EXPECT_EQ(items.load(), total);
  }
}

TEST(ThreadPool, SmallWorkStaysOnTheCallingThread) {
  ThreadPool pool(4);
  const auto self = std::this_thread::get_id();
  int calls = 0;
  for (const int max_threads : {0, 1}) {
    const int64_t grain = max_threads == 1 ? 10 : 1000;
    auto whole = [&](int64_t begin, int64_t end) {
      EXPECT_EQ(std::this_thread::get_id(), self);
      EXPECT_EQ(begin, 0);
      EXPECT_EQ(end, 1000);
      ++calls;
    };
    EXPECT_EQ(run(pool, 1000, grain, whole, {.max_threads = max_threads}), 0);
  }
  EXPECT_EQ(calls, 2);
}

TEST(ThreadPool, CallsThatFollowCloselyWakeAWorker) {
  ThreadPool pool(2);
  pool.for_ranges(64, 1, [](int64_t, int64_t) { return 0; });
  std::this_thread::sleep_for(20ms);  // the worker goes to sleep
  const auto caller = std::this_thread::get_id();
  std::atomic<bool> helped{false};
  EXPECT_TRUE(eventually([&] {
    for (int call = 0; call < 1000; ++call)
      run(pool, 2, 1, [&](int64_t, int64_t) {
        if (std::this_thread::get_id() != caller) helped.store(true);
        work_for(2us);
      });
    return helped.load();
  }));
}

#ifdef __linux__
int64_t processor_ns(clockid_t clock) {
  timespec t{};
  EXPECT_EQ(clock_gettime(clock, &t), 0);
  return t.tv_sec * int64_t{1'000'000'000} + t.tv_nsec;
}

TEST(ThreadPool, AnIdleWorkerWaitsABriefTimeAwakeThenSleeps) {
  for (const auto chunk : {10us, 3000us}) {
    ThreadPool pool(2);
    const auto caller = std::this_thread::get_id();
    int64_t least = INT64_MAX, most = 0;
    for (int round = 0; round < 15; ++round) {
      std::atomic<clockid_t> clock{0};
      std::atomic<int64_t> before{0};
      ASSERT_TRUE(eventually([&] {
        pool.for_ranges(8, 1, [&](int64_t, int64_t) {
          work_for(chunk);
          clockid_t own;
          if (std::this_thread::get_id() != caller && pthread_getcpuclockid(pthread_self(), &own) == 0) {
            before = processor_ns(own);
            clock = own;
          }
          return 0;
        });
        return clock.load() != 0;
      }));
      std::this_thread::sleep_for(5ms);
      const int64_t awake = processor_ns(clock) - before.load();
      std::this_thread::sleep_for(5ms);
      EXPECT_LT(processor_ns(clock) - before.load() - awake, 1'000'000) << "it does not sleep";
      least = std::min(least, awake), most = std::max(most, awake);
    }
    EXPECT_GE(most, 120'000);   // a call that follows through Dynamo finds it awake,
    EXPECT_LE(least, 300'000);  // and soon it costs nothing
  }
}
#endif

TEST(ThreadPool, TwoLongChunksUseTwoThreads) {
  // Fewer chunks than wake sleeping workers at once: they come once the first chunk proved long.
  ThreadPool pool(2);
  pool.for_ranges(8, 1, [](int64_t, int64_t) { return 0; });
  std::this_thread::sleep_for(20ms);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  run(pool, 3, 1, [&](int64_t, int64_t) {
    work_for(50ms);
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(threads.size(), 2u);
}

TEST(ThreadPool, TwoThreadsHaveAPieceOfTheRangeEach) {
  ThreadPool pool(2);
  const auto caller = std::this_thread::get_id();
  int shared = 0;
  for (int call = 0; call < 300; ++call) {
    const int64_t chunks = 2 + call % 30;
    const bool slow_caller = call % 3 == 0, slow_worker = call % 3 == 1;
    std::vector<char> by_worker(static_cast<size_t>(chunks));
    std::mutex mutex;
    pool.for_ranges(chunks, 1, [&](int64_t begin, int64_t) {
      const bool called = std::this_thread::get_id() == caller;
      work_for((called ? slow_caller : slow_worker) ? 40us : 10us);
      const std::lock_guard lock(mutex);
      by_worker[static_cast<size_t>(begin)] = !called;
      return 0;
    });
    const auto first = std::find(by_worker.begin(), by_worker.end(), true);
    const auto last = std::find(by_worker.rbegin(), by_worker.rend(), true).base();
    if (first < last) {
      EXPECT_TRUE(std::all_of(first, last, [](char c) { return c; }));
    }
    shared += first < last && last - first < chunks;
  }
  EXPECT_GT(shared, 0);
}

TEST(ThreadPool, BackwardsEachThreadBeginsAtTheEndOfItsPiece) {
  ThreadPool pool(2);
  const auto caller = std::this_thread::get_id();
  int shared = 0;
  for (int call = 0; call < 200; ++call) {
    const int64_t chunks = 2 + call % 30, half = (chunks + 1) / 2;
    std::vector<int64_t> by_caller, by_worker;
    std::mutex mutex;
    auto note = [&](int64_t begin, int64_t) {
      work_for(10us);
      const std::lock_guard lock(mutex);
      (std::this_thread::get_id() == caller ? by_caller : by_worker).push_back(begin);
    };
    run(pool, chunks, 1, note, {.backwards = true});
    ASSERT_EQ(by_caller.size() + by_worker.size(), static_cast<size_t>(chunks));
    // Down through the own half, then up through what the other has not begun of its half.
    for (size_t n = 0; n < by_caller.size(); ++n) {
      const auto i = static_cast<int64_t>(n);
      EXPECT_EQ(by_caller[n], i < half ? half - 1 - i : i);
    }
    for (size_t n = 0; n < by_worker.size(); ++n) {
      const auto i = static_cast<int64_t>(n);
      EXPECT_EQ(by_worker[n], i < chunks - half ? chunks - 1 - i : i - (chunks - half));
    }
    shared += !by_worker.empty();
  }
  EXPECT_GT(shared, 0);
}

TEST(ThreadPool, SleepingThreadsWakeEachOtherUntilAllWork) {
  ThreadPool pool(16);
  for (int round = 0; round < 3; ++round) {
    EXPECT_TRUE(uses_threads(pool, 16)) << round;
    std::this_thread::sleep_for(20ms);  // all of them sleep
  }
}

TEST(ThreadPool, MaxThreadsBoundsOneCall) {
  ThreadPool pool(4);
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(uses_threads(pool, 4));  // now all workers look for calls
    EXPECT_LE(most_threads(pool, 2), 2);
  }
}

TEST(ThreadPool, FirstNonzeroStatusComesBack) {
  ThreadPool pool(4);
  for (int64_t bad = 0; bad < 50; bad += 7)
    EXPECT_EQ(pool.for_ranges(50, 1, [&](int64_t begin, int64_t) { return begin == bad ? 42 : 0; }), 42);
  EXPECT_EQ(pool.for_ranges(50, 50, [&](int64_t, int64_t) { return -3; }), -3);
}

TEST(ThreadPool, AStatusSkipsTheRest) {
  ThreadPool pool(2);
  std::atomic<int> runs{0};
  EXPECT_EQ(pool.for_ranges(100'000, 1, [&](int64_t, int64_t) { return runs.fetch_add(1), 5; }), 5);
  EXPECT_LE(runs.load(), 2);
}

TEST(ThreadPool, ExceptionsBecomeAStatus) {
  ThreadPool pool(4);
  for (const int64_t grain : {1, 1000})
    EXPECT_EQ(pool.for_ranges(100, grain, [](int64_t, int64_t) -> int32_t { throw std::runtime_error("no"); }), ThreadPool::threw);
  EXPECT_TRUE(uses_threads(pool, 4)) << "the workers are still there";
}

// Stopped workers. The hook blocks a worker just before a claim; a gate in the kernel blocks it inside a chunk.
std::atomic<bool> hook_closed{false};
std::atomic<int> hook_waiting{0};
void closed_hook() {
  if (!hook_closed.load()) return;
  hook_waiting.fetch_add(1);
  while (hook_closed.load()) std::this_thread::sleep_for(1ms);
  hook_waiting.fetch_sub(1);
}

TEST(ThreadPool, TheCallerFinishesWhenEveryWorkerIsStopped) {
  ThreadPool pool(4);
  pool.set_worker_hook(closed_hook);
  hook_closed = true;
  for (int round = 0; round < 200; ++round) {
    Counts counts(64);
    EXPECT_EQ(run(pool, 64, 1, [&](int64_t b, int64_t e) { counts.add(b, e); }), 0);
    EXPECT_TRUE(counts.each_once());
    if (round == 100) {
      EXPECT_TRUE(eventually([&] {
        run(pool, 64, 1, [](int64_t, int64_t) { work_for(100us); });  // long enough for workers to come on a busy machine
        return hook_waiting.load() == 3;
      }));
    }
  }
  // Workers that slept through many calls claim nothing of those.
  hook_closed = false;
  EXPECT_TRUE(eventually([] { return hook_waiting.load() == 0; }));
}

TEST(ThreadPool, AStoppedWorkerHoldsUpOnlyItsChunk) {
  ThreadPool pool(3);
  const auto caller = std::this_thread::get_id();
  std::atomic<bool> closed{true};
  std::atomic<int> held{0}, finished{0};
  std::thread opener([&] {
    // All chunks but the held ones get done while the workers stand still.
    EXPECT_TRUE(eventually([&] { return held.load() >= 1 && finished.load() + held.load() == 200; }));
    closed = false;
  });
  Counts counts(200);
  const int32_t status = run(pool, 200, 1, [&](int64_t b, int64_t e) {
    if (std::this_thread::get_id() != caller) {
      held.fetch_add(1);
      while (closed.load()) std::this_thread::sleep_for(1ms);
      held.fetch_sub(1);
    } else if (held.load() == 0) {
      eventually([&] { return held.load() > 0; });
    }
    counts.add(b, e);
    finished.fetch_add(1);
  });
  EXPECT_EQ(status, 0);
  opener.join();
  EXPECT_TRUE(counts.each_once());
}

TEST(ThreadPool, MoreCallersThanSlots) {
  ThreadPool pool(2);
  constexpr int num_callers = 80;
  std::atomic<int> inside{0};
  std::atomic<int> ok{0};
  hologram::test::on_threads(num_callers, [&](int) {
    std::atomic<bool> first{true};
    Counts counts(8);
    pool.for_ranges(8, 1, [&](int64_t b, int64_t e) {
      if (first.exchange(false)) {
        inside.fetch_add(1);
        eventually([&] { return inside.load() >= num_callers - 2; });
      }
      counts.add(b, e);
      return 0;
    });
    ok.fetch_add(counts.each_once());
  });
  EXPECT_EQ(ok.load(), num_callers);
}

TEST(ThreadPool, NestedCallsRunInline) {
  ThreadPool pool(3), other(3);
  Counts counts(64 * 64);
  std::atomic<int> moved{0};
  const int32_t status = pool.for_ranges(64, 1, [&](int64_t outer, int64_t) {
    const auto self = std::this_thread::get_id();
    return run(outer % 2 ? pool : other, 64, 1, [&](int64_t b, int64_t e) {
      if (std::this_thread::get_id() != self) moved.fetch_add(1);
      counts.add(outer * 64 + b, outer * 64 + e);
    });
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(moved.load(), 0);
  EXPECT_TRUE(counts.each_once());
}

TEST(ThreadPool, TheThreadCountChangesAtRunTime) {
  ThreadPool pool(1);
  for (const int threads : {3, 1, 4, 2, 3, 2}) {
    pool.set_num_threads(threads);
    EXPECT_EQ(pool.num_threads(), threads);
    for (int round = 0; round < 3; ++round) {
      EXPECT_TRUE(uses_threads(pool, threads)) << threads;
      std::this_thread::sleep_for(5ms);  // the workers go to sleep
    }
  }
  pool.set_num_threads(2);
  EXPECT_LE(most_threads(pool, 0), 2);
}

TEST(ThreadPool, ThreadCountsOutOfRangeAreErrors) {
  ThreadPool pool(2);
  for (const int threads : {-1, ThreadPool::thread_limit + 1}) {
    EXPECT_THROW(ThreadPool bad(threads), Error);
    const std::string words = hologram::test::refusal([&] { pool.set_num_threads(threads); });
    EXPECT_NE(words.find("set_num_threads: threads must be 0…256, got " + std::to_string(threads)), std::string::npos) << words;
  }
  EXPECT_EQ(pool.num_threads(), 2);
}

TEST(ThreadPool, TheEnvironmentSetsTheDefault) {
  const hologram::test::Setting variable("HOLOGRAM_NUM_THREADS");
  const int cpus = ThreadPool::default_threads();
  EXPECT_GE(cpus, 1);
  variable.set("5");
  EXPECT_EQ(ThreadPool::default_threads(), 5);
  EXPECT_EQ(ThreadPool().num_threads(), 5);
  variable.set("100000");
  EXPECT_EQ(ThreadPool::default_threads(), ThreadPool::thread_limit);
  for (const char* text : {"", "0", "off"}) {
    variable.set(text);
    EXPECT_EQ(ThreadPool::default_threads(), cpus) << text;
  }
  for (const char* text : {"-2", "two", "3x"}) {
    variable.set(text);
    EXPECT_THROW(ThreadPool::default_threads(), Error) << text;
  }
}

// ThreadSanitizer does not follow threads that start after a fork in a threaded process.
#if !defined(__SANITIZE_THREAD__)
/// Runs `body` in a forked child; whether it returned true within ten seconds.
template <class Body>
bool in_child(const Body& body) {
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(10);
    _exit(body() ? 0 : 1);
  }
  int status = 0;
  return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(ThreadPool, AChildStartsItsOwnWorkers) {
  auto pool = std::make_unique<ThreadPool>(3);
  ASSERT_TRUE(uses_threads(*pool, 3));
  EXPECT_TRUE(in_child([&] {
    const bool ok = uses_threads(*pool, 3) && pool->num_threads() == 3 && in_child([&] { return uses_threads(*pool, 3); });
    pool.reset();
    return ok;
  }));
  EXPECT_TRUE(in_child([&] {
    pool.reset();  // without a call in the child
    return true;
  }));
  EXPECT_TRUE(uses_threads(*pool, 3));
}

TEST(ThreadPool, AForkWhileOthersCallIsSafe) {
  ThreadPool pool(3);
  std::atomic<bool> stop{false};
  std::vector<std::thread> callers;
  for (int t = 0; t < 2; ++t)
    callers.emplace_back([&] {
      while (!stop.load()) run(pool, 256, 1, [](int64_t, int64_t) { work_for(1us); });
    });
  for (int round = 0; round < 10; ++round) EXPECT_TRUE(in_child([&] { return uses_threads(pool, 3); }));
  stop = true;
  for (auto& caller : callers) caller.join();
}
#endif

}  // namespace

// tests/host/context_test.cpp: how work is cut into chunks.
#include "host/context.h"

#include <atomic>
#include <thread>

#include "support/test.h"

namespace hologram::host {
namespace {

int64_t chunks(int64_t total, int64_t chunk) { return (total + chunk - 1) / chunk; }

TEST(Chunks, LittleWorkStaysWhole) {
  EXPECT_EQ(chunk_of(100, 1, split_work / 100, 2), 100);
  EXPECT_EQ(chunk_of(1 << 20, 1, 1 << 20, 1), 1 << 20);
  EXPECT_EQ(chunk_of(0, 1, 1, 4), 1);
}

TEST(Chunks, ThreadsGetEquallyMany) {
  for (int64_t threads : {2, 3, 4, 7, 16})
    for (int64_t total : {64, 2048, 100'000, 1 << 20})
      for (int64_t work : {70, 900, 15'000, 400'000, 20'000'000}) {
        int64_t chunk = chunk_of(total, 1, work, threads);
        if (chunk >= total) continue;
        int64_t n = chunks(total, chunk);
        EXPECT_LE(chunk * work, std::max(chunk_work, work));
        // Rounding leaves fewer only where chunks are of few units.
        if (chunk > 2 * n) {
          EXPECT_EQ(n % working_threads(total * work, threads), 0) << total << " " << work << " " << threads;
        }
      }
  EXPECT_EQ(chunks(1 << 20, chunk_of(1 << 20, 64, 66, 2)), 6);  // five of 15 us would do
}

// What a launch takes by the model that the cuts are made with: rounds of chunks, and what each thread costs that the rounds need.
double modelled(int64_t total, int64_t grain, int64_t work, int64_t threads) {
  const int64_t chunk = chunk_of(total, grain, work, threads), n = chunks(total, chunk);
  const int64_t busy = std::min(n, threads), rounds = (n + busy - 1) / busy;
  // Of the last round, where it is of the last chunk alone, only that.
  const int64_t whole = n % busy == 1 && busy > 1 ? rounds - 1 : rounds;
  const int64_t units = whole * chunk + (whole < rounds ? total - (n - 1) * chunk : 0);
  const int64_t needed = (n + rounds - 1) / rounds;
  return static_cast<double>(std::min(units, total) * work + needed * joining_work);
}

TEST(Chunks, MoreThreadsAreNeverSlowerInTheModel) {
  for (int64_t total : {16, 64, 100, 2048, 100'000, 1 << 20})
    for (int64_t work : {70, 900, 15'000, 400'000, 3'000'000, 20'000'000}) {
      double best = modelled(total, 1, work, 1);
      for (int64_t threads = 2; threads <= 64; ++threads) {
        const double now = modelled(total, 1, work, threads);
        EXPECT_LE(now, 1.1 * best) << total << " of " << work << ", " << threads << " threads";
        best = std::min(best, now);
      }
    }
}

TEST(Chunks, LittleWorkTakesFewThreads) {
  EXPECT_EQ(working_threads(5'000'000, 2), 2);
  EXPECT_EQ(working_threads(1'000, 2), 2);
  EXPECT_EQ(working_threads(1'000'000, 16), 2);
  EXPECT_EQ(working_threads(16'000'000, 16), 8);
  EXPECT_EQ(working_threads(64'000'000, 16), 16);
  EXPECT_EQ(working_threads(int64_t{1} << 62, 64), 64);
  EXPECT_EQ(chunks(1000, chunk_of(1000, 1, 16'000, 16)), 8);
}

TEST(Chunks, OfFewUnitsLetThreadsFinishTogether) {
  EXPECT_EQ(chunk_of(10, 1, 5'000'000, 2), 1);  // five for each; of three, one would have six
  EXPECT_EQ(chunk_of(33, 1, 1'600'000, 2), 8);  // 17 units, not 18
  EXPECT_EQ(chunk_of(12, 1, 5'000'000, 4), 3);
  EXPECT_EQ(chunk_of(9, 1, 10'000'000, 2), 1);
}

TEST(Chunks, AreMultiplesOfTheGrain) {
  for (int64_t total : {1000, 12'345, 1 << 20})
    for (int64_t grain : {4, 64, 96}) EXPECT_EQ(chunk_of(total, grain, 100'000, 2) % grain, 0);
  // Never more than a share, which may be a single unit.
  EXPECT_EQ(chunk_of(2, 1, 100'000'000, 2), 1);
  EXPECT_EQ(chunk_of(5, 1, int64_t{1} << 62, 4), 1);
}

// What generated code relies on when it finds its copy of a block in scratch memory.
TEST(Scratch, NotesLastForOneLaunchOfOneThread) {
  ThreadPool threads(1);
  std::atomic<int32_t> sticky{0};
  atlas::Context context = make_context(threads, &sticky);
  EXPECT_EQ(context.launch, 0);
  auto note = [&](int64_t launch, int64_t bytes) {
    context.launch = launch;
    auto* memory = static_cast<int64_t*>(context.scratch(&context, bytes));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0u);
    int64_t found = memory[-1];
    memory[-1] = 7;
    memory[bytes / 8 - 1] = 1;
    return found;
  };
  EXPECT_EQ(note(3, 100'000), 0);
  EXPECT_EQ(note(3, 100'000), 7);
  EXPECT_EQ(note(3, 50'000), 7);
  EXPECT_EQ(note(4, 50'000), 0);
  EXPECT_EQ(note(3, 50'000), 0) << "another launch had the memory in between";
  EXPECT_EQ(note(3, 1'000'000), 0) << "new memory";
  std::thread([&] { EXPECT_EQ(note(3, 50'000), 0); }).join();
}

TEST(Scratch, EachLaunchHasItsNumber) {
  ThreadPool threads(2);
  std::atomic<int32_t> sticky{0};
  atlas::Context context = make_context(threads, &sticky);
  std::array<std::atomic<int64_t>, 8> seen{};
  auto kernel = [](const atlas::Context* own, void* const* bufs, const int64_t*, int64_t begin, int64_t) -> int32_t {
    static_cast<std::atomic<int64_t>*>(bufs[0])[begin] = own->launch;
    return 0;
  };
  void* bufs[] = {seen.data()};
  int64_t before = 0;
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(context.parallel_for(&context, kernel, bufs, nullptr, 8, 1), 0);
    for (auto& s : seen) EXPECT_EQ(s.load(), seen[0].load());
    EXPECT_NE(seen[0].load(), before);
    EXPECT_NE(seen[0].load(), 0);
    before = seen[0];
  }
}

}  // namespace
}  // namespace hologram::host

// tests/runtime/context_test.cpp: how work is cut into chunks.
#include "runtime/context.h"

#include <gtest/gtest.h>

namespace hologram::runtime {
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
          EXPECT_EQ(n % threads, 0) << total << " " << work << " " << threads;
        }
      }
  EXPECT_EQ(chunks(1 << 20, chunk_of(1 << 20, 64, 66, 2)), 6);  // five of 15 us would do
}

TEST(Chunks, AreMultiplesOfTheGrain) {
  for (int64_t total : {1000, 12'345, 1 << 20})
    for (int64_t grain : {4, 64, 96}) EXPECT_EQ(chunk_of(total, grain, 100'000, 2) % grain, 0);
  // Never more than a share, which may be a single unit.
  EXPECT_EQ(chunk_of(2, 1, 100'000'000, 2), 1);
  EXPECT_EQ(chunk_of(5, 1, int64_t{1} << 62, 4), 1);
}

}  // namespace
}  // namespace hologram::runtime

// tests/host/core_share_test.cpp: a thread's guess of its time slice, on a simulated core.
#include "host/core_share.h"
#include "support/test.h"

namespace {
using hologram::host::CoreShare;

constexpr int64_t millisecond = 1'000'000;

/// A core shared with one busy process under a scheduler that takes it away every `slice` ns.
struct SimulatedCore {
  int64_t slice;
  bool competitor = true;
  int64_t now = millisecond;
  int64_t run_start = millisecond;
  int lost = 0, yields = 0, idle_yields = 0;

  /// Runs one chunk of `length`; the scheduler may cut it.
  void chunk(CoreShare& share, int64_t length) {
    if (share.should_yield(now)) {
      const int64_t before = now;
      ++yields;
      idle_yields += !competitor;
      now += competitor ? slice : 500;
      run_start = now;
      share.yielded(before, now);
    }
    now += length;
    if (competitor && now - run_start >= slice) {
      ++lost;
      now += slice;
      run_start = now;
    }
  }
};

TEST(CoreShare, NeverYieldsAlone) {
  CoreShare share;
  SimulatedCore core{4 * millisecond, false};
  for (int i = 0; i < 100'000; ++i) core.chunk(share, 15'000);
  EXPECT_EQ(core.yields, 0);
  EXPECT_FALSE(share.contended());
}

TEST(CoreShare, TimeBetweenCallsIsNoLostCore) {
  CoreShare share;
  int64_t now = millisecond;
  for (int call = 0; call < 100; ++call, now += 20 * millisecond) {
    share.resume(now);
    for (int chunk = 0; chunk < 10; ++chunk, now += millisecond / 50) EXPECT_FALSE(share.should_yield(now));
  }
  EXPECT_FALSE(share.contended());
  // A pause inside of a call is one; then a call that comes after another pause starts a new run.
  share.resume(now);
  share.should_yield(now);
  now += 4 * millisecond;
  share.should_yield(now);
  ASSERT_TRUE(share.contended());
  for (int64_t end = now + 4 * millisecond; now < end; now += millisecond / 50) share.should_yield(now);
  now += 4 * millisecond;
  share.should_yield(now);  // lost it after a whole run: now the slice is known
  ASSERT_GT(share.quantum(), 3 * millisecond);
  now += 3 * millisecond;
  share.resume(now);
  EXPECT_FALSE(share.should_yield(now + 2 * millisecond / 3));
}

class CoreShareSlices : public ::testing::TestWithParam<int64_t> {};

TEST_P(CoreShareSlices, YieldsBeforeTheSliceEnds) {
  CoreShare share;
  SimulatedCore core{GetParam()};
  const int64_t end = core.now + 20'000 * millisecond;
  while (core.now < end) core.chunk(share, 15'000);
  const auto slices = static_cast<int>(end / (2 * core.slice));
  EXPECT_GT(core.yields, slices * 9 / 10);
  EXPECT_LT(core.lost, slices / 20 + 3) << "of " << slices << " slices";
  EXPECT_TRUE(share.contended());
}

INSTANTIATE_TEST_SUITE_P(Slices, CoreShareSlices,
                         ::testing::Values(2 * millisecond, 3 * millisecond, 4 * millisecond, 6 * millisecond, 12 * millisecond));

TEST(CoreShare, UsesLongerSlicesWhenTheyCome) {
  CoreShare share;
  SimulatedCore core{2 * millisecond};
  for (int i = 0; i < 10'000; ++i) core.chunk(share, 15'000);
  EXPECT_LT(share.quantum(), 2 * millisecond);
  core.slice = 8 * millisecond;
  core.lost = 0;
  const int64_t end = core.now + 3'000 * millisecond;
  while (core.now < end) core.chunk(share, 15'000);
  EXPECT_GT(share.quantum(), 6 * millisecond);
  EXPECT_LT(share.quantum(), 8 * millisecond);
  EXPECT_LT(core.lost, 12);
}

TEST(CoreShare, StopsYieldingWhenTheCompetitorLeaves) {
  CoreShare share;
  SimulatedCore core{4 * millisecond};
  for (int i = 0; i < 10'000; ++i) core.chunk(share, 15'000);
  ASSERT_TRUE(share.contended());
  core.competitor = false;
  for (int i = 0; i < 10'000; ++i) core.chunk(share, 15'000);
  EXPECT_FALSE(share.contended());
  EXPECT_LE(core.idle_yields, 4);
}

TEST(CoreShare, ASleepIsNotALostCore) {
  CoreShare share;
  int64_t now = millisecond;
  for (int i = 0; i < 1'000; ++i) {
    EXPECT_FALSE(share.should_yield(now));
    now += 50 * millisecond;
    share.woke(now);
  }
  EXPECT_FALSE(share.contended());
}

TEST(CoreShare, LongChunksOnAnIdleCoreCostFewYields) {
  CoreShare share;
  SimulatedCore core{4 * millisecond, false};
  for (int i = 0; i < 1'000; ++i) core.chunk(share, 5 * millisecond);
  EXPECT_LE(core.yields, 1'000);
  for (int i = 0; i < 100; ++i) core.chunk(share, 15'000);
  core.yields = 0;
  for (int i = 0; i < 10'000; ++i) core.chunk(share, 15'000);
  EXPECT_LE(core.yields, 4);
}

TEST(CoreShare, LeavingTheCpuKeepsTheAllowedOnes) {
  const int allowed = hologram::host::allowed_cpus();
  const int cpu = hologram::host::current_cpu();
  hologram::host::leave_cpu(cpu);
  EXPECT_EQ(hologram::host::allowed_cpus(), allowed);
  hologram::host::leave_cpu(-1);
  hologram::host::leave_cpu(1 << 20);
  EXPECT_EQ(hologram::host::allowed_cpus(), allowed);
}

}  // namespace

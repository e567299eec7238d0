// tests/schedule/overlap_test.cpp: host calls that go on beside other steps begin early and are awaited late
#include "schedule/overlap.h"
#include "support/test.h"

namespace hologram::schedule {
namespace {

using Needs = std::vector<std::vector<int>>;
constexpr Timing any = Timing::any, early = Timing::early, late = Timing::late;

std::vector<int> ordered(const Needs& needs, const std::vector<Timing>& timing) {
  std::vector<int> order(needs.size());
  std::iota(order.begin(), order.end(), 0);
  return overlapped(order, needs, timing);
}

TEST(Overlap, WorkRunsBetweenTheBeginningAndTheEnd) {
  // 0 → 1 (early) → 2 (late) → 3; 4 → 5 needs neither
  EXPECT_EQ(ordered({{}, {0}, {1}, {2}, {}, {4}}, {any, early, late, any, any, any}), (std::vector<int>{0, 1, 4, 5, 2, 3}));
}

TEST(Overlap, WhatABeginningNeedsComesFirst) {
  EXPECT_EQ(ordered({{}, {}, {1}, {2}, {0, 3}}, {any, any, early, late, any}), (std::vector<int>{1, 2, 0, 3, 4}));
}

TEST(Overlap, BeginningsKeepTheirOrder) {
  // Step 0 takes long to be ready, step 3 does not.
  EXPECT_EQ(ordered({{}, {0}, {1}, {}, {2}, {3}}, {any, any, early, early, late, late}), (std::vector<int>{0, 1, 2, 3, 4, 5}));
}

TEST(Overlap, RandomOrdersHold) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const int n = 2 + static_cast<int>(random() % 30);
    Needs needs(static_cast<size_t>(n));
    std::vector<Timing> timing(static_cast<size_t>(n));
    for (int k = 0; k < n; ++k) {
      timing[static_cast<size_t>(k)] = static_cast<Timing>(random() % 3);
      for (int d = 0; d < k; ++d)
        if (random() % 6 == 0) needs[static_cast<size_t>(k)].push_back(d);
    }
    const std::vector<int> out = ordered(needs, timing);
    ASSERT_EQ(out.size(), needs.size());
    std::vector<int> place(needs.size(), -1), begun;
    for (size_t i = 0; i < out.size(); ++i) {
      place[static_cast<size_t>(out[i])] = static_cast<int>(i);
      if (timing[static_cast<size_t>(out[i])] == early) begun.push_back(out[i]);
    }
    EXPECT_TRUE(std::is_sorted(begun.begin(), begun.end()));
    for (size_t k = 0; k < needs.size(); ++k) {
      ASSERT_GE(place[k], 0) << "each step once";
      for (int d : needs[k]) EXPECT_LT(place[static_cast<size_t>(d)], place[k]);
    }
  }
}

}  // namespace
}  // namespace hologram::schedule

// tests/capi/handle_table_test.cpp: what holds keep, alone and among threads.
#include <atomic>
#include <thread>

#include "capi/handles.h"
#include "support/test.h"

namespace hologram::capi {
namespace {

std::atomic<int> destroyed{0};

struct Object {
  std::atomic<int> magic{42};
};

HandleTable& table() {
  static HandleTable table{Kind::buffer, [](void* object) {
                             static_cast<Object*>(object)->magic = 0;
                             delete static_cast<Object*>(object);
                             ++destroyed;
                           }};
  return table;
}

hologram_handle make() {
  const hologram_handle h = table().reserve();
  table().publish(h, new Object);
  return h;
}

TEST(HandleTable, AHeldObjectGoesWhenTheCallEnds) {
  destroyed = 0;
  const hologram_handle handles[] = {make(), make(), make()};
  const auto held = table().hold<3>(handles);
  ASSERT_GE(held.record, 0);
  EXPECT_TRUE(table().remove(handles[1]));
  EXPECT_FALSE(table().exists(handles[1]));
  EXPECT_EQ(destroyed, 0);
  EXPECT_EQ(static_cast<Object*>(held.objects[1])->magic, 42);
  EXPECT_LT(table().hold<3>(handles).record, 0) << "one of them is removed";
  Slot* slot = table().pin(handles[0]);
  EXPECT_FALSE(table().lock(slot)) << "a hold counts as a use";
  EXPECT_TRUE(table().exists(handles[0]));
  table().release(held);
  EXPECT_EQ(destroyed, 1);
  EXPECT_TRUE(table().lock(slot));
  EXPECT_LT(table().hold<1>(handles).record, 0);
  table().unlock(slot);
  table().unpin(slot);
  EXPECT_TRUE(table().remove(handles[0]) && table().remove(handles[2]));
  EXPECT_EQ(destroyed, 3);
}

TEST(HandleTable, WhatIsNoHandleIsNotHeld) {
  const hologram_handle h = make();
  for (hologram_handle wrong :
       {hologram_handle{0}, ~hologram_handle{0}, h ^ (uint64_t{1} << 24), h ^ (uint64_t{1} << 56), h + 1, h | 0xffffff})
    EXPECT_LT(table().hold<1>(&wrong).record, 0) << wrong;
  std::vector<HandleTable::Hold> holds;
  for (;;) {  // a thread has few records
    const auto held = table().hold<1>(&h);
    if (held.record < 0) break;
    holds.push_back(held);
    ASSERT_LE(holds.size(), static_cast<size_t>(HandleTable::num_records));
  }
  for (const auto& held : holds) table().release(held);
  EXPECT_FALSE(holds.empty());
  EXPECT_TRUE(table().remove(h));
}

TEST(HandleTable, HoldsAndPinsOfManyThreadsKeepWhatTheyUse) {
  destroyed = 0;
  constexpr int rounds = 20'000;
  std::atomic<hologram_handle> current{make()};
  std::atomic<bool> stop{false};
  std::atomic<int> dead{0}, seen{0};
  std::vector<std::jthread> users;
  for (int t = 0; t < 4; ++t)
    users.emplace_back([&, t] {
      while (!stop) {
        const hologram_handle h = current;
        if (t == 3) {
          if (Slot* slot = table().pin(h)) {
            if (static_cast<Object*>(slot->object.load())->magic != 42) ++dead;
            table().unpin(slot);
          }
        } else if (const auto held = table().hold<1>(&h); held.record >= 0) {
          if (static_cast<Object*>(held.objects[0])->magic != 42) ++dead;
          ++seen;
          table().release(held);
        }
      }
    });
  for (int i = 0; i < rounds || seen < 100; ++i) table().remove(current.exchange(make()));
  stop = true;
  users.clear();
  table().remove(current);
  EXPECT_EQ(dead, 0);
  EXPECT_EQ(table().live(), 0u);
  const hologram_handle last = make();  // the end of any call finds what still waited
  table().release(table().hold<1>(&last));
  EXPECT_TRUE(table().remove(last));
  EXPECT_GE(destroyed, rounds + 2);
}

}  // namespace
}  // namespace hologram::capi

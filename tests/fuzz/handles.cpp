// tests/fuzz/handles.cpp: the handle table against a model: any order of making, pinning, holding,
// locking and freeing, with handles that are right, stale or made up.
#include "capi/handles.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

namespace {

using hologram::capi::HandleTable;
using hologram::capi::Kind;
using hologram::capi::Slot;

int destroyed = 0;

void expect(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static HandleTable table{Kind::buffer, [](void* object) {
                             ++destroyed;
                             delete static_cast<int*>(object);
                           }};
  destroyed = 0;
  int made = 0;
  std::map<hologram_handle, int> alive;  // handle -> pins held
  std::map<hologram_handle, int> dying;
  std::vector<std::pair<hologram_handle, Slot*>> pins;
  std::vector<std::pair<HandleTable::Hold, std::array<hologram_handle, 2>>> holds;
  std::vector<hologram_handle> seen = {0, ~uint64_t{0}};
  auto some = [&](uint8_t choice) {
    return choice % 8 == 7 ? seen[choice % seen.size()] ^ (uint64_t{1} << (choice / 4 % 64)) : seen[choice % seen.size()];
  };
  auto leave = [&](hologram_handle h) {
    if (auto it = dying.find(h); it != dying.end()) {
      if (--it->second == 0) dying.erase(it);
    } else {
      --alive[h];
    }
  };
  for (size_t i = 0; i + 1 < size; i += 2) {
    const uint8_t what = data[i] % 7, choice = data[i + 1];
    if (what == 0 && alive.size() < 64) {
      const hologram_handle h = table.reserve();
      expect(!alive.contains(h) && !dying.contains(h) && table.pin(h) == nullptr);
      table.publish(h, new int(made++));
      alive[h] = 0;
      seen.push_back(h);
    } else if (what == 1) {
      const hologram_handle h = some(choice);
      Slot* slot = table.pin(h);
      expect((slot != nullptr) == alive.contains(h));
      if (slot != nullptr) {
        ++alive[h];
        pins.emplace_back(h, slot);
      }
    } else if (what == 2 && !pins.empty()) {
      const auto [h, slot] = pins[choice % pins.size()];
      pins.erase(pins.begin() + static_cast<ptrdiff_t>(choice % pins.size()));
      table.unpin(slot);
      leave(h);
    } else if (what == 3) {
      const hologram_handle h = some(choice);
      const auto it = alive.find(h);
      expect(table.remove(h) == (it != alive.end()));
      if (it != alive.end()) {
        if (it->second != 0) dying[h] = it->second;
        alive.erase(it);
      }
    } else if (what == 4) {
      const hologram_handle h = some(choice);
      Slot* slot = table.pin(h);
      if (slot == nullptr) continue;
      const bool locked = table.lock(slot);
      expect(locked == (alive[h] == 0));
      if (locked) {
        expect(table.pin(h) == nullptr && table.exists(h) && !table.remove(h));
        expect(table.hold<1>(&h).record < 0);
        table.unlock(slot);
      }
      table.unpin(slot);
    } else if (what == 5) {
      const std::array two = {some(choice), some(choice >> 1)};
      const HandleTable::Hold held = table.hold<2>(two.data());
      if (held.record < 0) continue;  // the records of this thread may all be taken
      expect(alive.contains(two[0]) && alive.contains(two[1]) && held.objects[0] != nullptr);
      for (hologram_handle h : two) ++alive[h];
      holds.emplace_back(held, two);
    } else if (what == 6 && !holds.empty()) {
      const auto [held, two] = holds[choice % holds.size()];
      holds.erase(holds.begin() + static_cast<ptrdiff_t>(choice % holds.size()));
      table.release(held);
      for (hologram_handle h : two) leave(h);
    }
    expect(table.live() == alive.size());
    expect(made - destroyed == static_cast<int>(alive.size() + dying.size()));
  }
  for (const auto& [h, slot] : pins) table.unpin(slot);
  for (const auto& [held, two] : holds) table.release(held);
  table.clear();
  expect(table.live() == 0 && made == destroyed);
  return 0;
}

// tests/fuzz/handles.cpp: the handle table against a model: any order of making, pinning, locking
// and freeing, with handles that are right, stale or made up.
#include "capi/handles.h"

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
  std::vector<hologram_handle> seen = {0, ~uint64_t{0}};
  auto some = [&](uint8_t choice) {
    return choice % 8 == 7 ? seen[choice % seen.size()] ^ (uint64_t{1} << (choice / 4 % 64))
                           : seen[choice % seen.size()];
  };
  for (size_t i = 0; i + 1 < size; i += 2) {
    const uint8_t what = data[i] % 5, choice = data[i + 1];
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
      if (auto it = dying.find(h); it != dying.end()) {
        if (--it->second == 0) dying.erase(it);
      } else {
        --alive[h];
      }
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
        expect(table.pin(h) == nullptr && table.locked(h) && !table.remove(h));
        table.unlock(slot);
      }
      table.unpin(slot);
    }
    expect(table.live() == alive.size());
    expect(made - destroyed == static_cast<int>(alive.size() + dying.size()));
  }
  for (const auto& [h, slot] : pins) table.unpin(slot);
  table.clear();
  expect(table.live() == 0 && made == destroyed);
  return 0;
}

// base/notices.cpp: warnings that wait for a log.
#include "base/notices.h"

#include <atomic>
#include <mutex>
#include <set>
#include <utility>

namespace hologram {
namespace {

struct Notices {
  std::mutex mutex;
  std::set<std::string> known;
  std::vector<std::string> waiting;
  std::atomic<bool> any{false};
};

Notices& notices() {
  static auto* const state = new Notices;  // outlives whatever warns while the process ends
  return *state;
}

}  // namespace

void notice(std::string text) noexcept {
  try {
    Notices& n = notices();
    std::lock_guard lock(n.mutex);
    if (!n.known.insert(text).second) return;
    n.waiting.push_back(std::move(text));
    n.any = true;
  } catch (...) {  // a warning is not worth a failure
  }
}

std::vector<std::string> take_notices() {
  Notices& n = notices();
  if (!n.any.load(std::memory_order_relaxed)) return {};
  std::lock_guard lock(n.mutex);
  n.any = false;
  return std::exchange(n.waiting, {});
}

}  // namespace hologram

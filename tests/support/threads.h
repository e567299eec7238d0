// tests/support/threads.h: the same work on several threads at once.
#pragma once

#include <thread>
#include <vector>

namespace hologram::test {

/// work(0), work(1), … each on a thread of its own; returns when all are done.
template <class Work>
void on_threads(int count, const Work& work) {
  std::vector<std::jthread> threads;
  for (int t = 0; t < count; ++t) threads.emplace_back([&work, t] { work(t); });
}

}  // namespace hologram::test

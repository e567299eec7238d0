// host/side_by_side.cpp: pieces of work that may take long, on threads of their own.
#include "host/side_by_side.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace hologram::host {

void side_by_side(size_t n, const std::function<void(size_t)>& work) {
  const size_t threads = std::max(1u, std::thread::hardware_concurrency());
  std::atomic<size_t> next{0};
  std::exception_ptr error;
  std::mutex mutex;
  auto loop = [&] {
    for (size_t i; (i = next++) < n;) try {
        work(i);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
        next = n;
      }
  };
  std::vector<std::jthread> helpers;
  for (size_t t = 1; t < std::min(n, threads); ++t) helpers.emplace_back(loop);
  loop();
  helpers.clear();
  if (error) std::rethrow_exception(error);
}

}  // namespace hologram::host

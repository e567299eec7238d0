// host/waiting.h: how a thread waits for a word that others write
#pragma once

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdint>

#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace hologram::host {

/// Between two looks at a word that another core writes.
inline void pause_briefly() noexcept {
  for (int i = 0; i < 2; ++i) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb");
#endif
  }
}

/// Sleeps while `word` holds `value`; may return early.
inline void sleep_on(std::atomic<uint32_t>& word, uint32_t value) noexcept {
#ifdef __linux__
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
#else
  word.wait(value);
#endif
}

/// So many threads that sleep on the word.
inline void wake(std::atomic<uint32_t>& word, uint32_t count) noexcept {
#ifdef __linux__
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, std::min<uint32_t>(count, INT_MAX), nullptr,
          nullptr, 0);
#else
  if (count == 1) word.notify_one();
  if (count > 1) word.notify_all();
#endif
}

}  // namespace hologram::host

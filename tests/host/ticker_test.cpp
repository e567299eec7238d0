// tests/host/ticker_test.cpp: work that comes back while there is some.
#include "host/ticker.h"

#include <signal.h>

#include <atomic>
#include <thread>

#include "support/test.h"
#include "support/threads.h"

namespace {
using hologram::host::Ticker;
using namespace std::chrono_literals;

template <class Condition>
bool comes_true(const Condition& condition) {
  for (int i = 0; i < 3000 && !condition(); ++i) std::this_thread::sleep_for(10ms);
  return condition();
}

TEST(Ticker, CallsUntilNothingIsLeftAndAgainWhenAsked) {
  std::atomic<int> left{0}, calls{0};
  Ticker ticker(1ms, [&] {
    ++calls;
    return --left > 0;
  });
  for (int round = 1; round <= 20; ++round) {
    left = 3;
    // A round that has said that nothing is left may not have ended yet.
    EXPECT_TRUE(comes_true([&] {
      ticker.start();
      return left <= 0;
    }));
  }
  EXPECT_GE(calls.load(), 60);
}

TEST(Ticker, NothingIsCalledOnceItIsStopped) {
  std::atomic<int> calls{0};
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  Ticker ticker(1ms, [&] { return ++calls > 0; });
  ticker.start();
  pthread_sigmask(SIG_SETMASK, nullptr, &signals);
  EXPECT_FALSE(sigismember(&signals, SIGINT)) << "signals are kept from the new thread alone";
  EXPECT_TRUE(comes_true([&] { return calls > 0; }));
  ticker.stop();
  const int then = calls;
  ticker.start();
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(calls.load(), then);
}

TEST(Ticker, AnyThreadMayStartIt) {
  std::atomic<int> at_once{0}, most{0};
  Ticker ticker(0ms, [&] {
    most = std::max(most.load(), ++at_once);
    std::this_thread::yield();
    return --at_once, false;
  });
  hologram::test::on_threads(4, [&](int) {
    for (int i = 0; i < 200; ++i) ticker.start();
  });
  EXPECT_TRUE(comes_true([&] {  // else all of them may be done before the first call
    ticker.start();
    return most > 0;
  }));
  ticker.stop();
  EXPECT_EQ(most.load(), 1);
}

}  // namespace

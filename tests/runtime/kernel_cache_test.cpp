// tests/runtime/kernel_cache_test.cpp: threads that need the same code at once compile it once
#include "runtime/kernel_cache.h"

#include <barrier>
#include <chrono>
#include <condition_variable>
#include <thread>

#include "backend/cpu/backend.h"
#include "backend/interp/backend.h"
#include "support/test.h"

namespace hologram::runtime {
namespace {

constexpr int num_threads = 3;

/// Holds who comes until all threads are there, or for a quarter of a second.
class Meeting {
 public:
  void attend() {
    std::unique_lock lock(mutex_);
    ++here_;
    all_.notify_all();
    all_.wait_for(lock, std::chrono::milliseconds(250), [&] { return here_ >= num_threads; });
  }
  int attended() {
    std::lock_guard lock(mutex_);
    return here_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable all_;
  int here_ = 0;
};

/// The interpreter, whose compiling lasts until other threads had time to ask for the same.
class SlowBackend final : public Backend {
 public:
  std::string_view name() const override { return "slow"; }
  std::string code_key() const override { return "slow"; }
  const schedule::Machine& machine() const override { return interp_->machine(); }
  std::string compile(const atlas::Program& program) const override {
    meeting.attend();
    if (fails) fail(ErrorCode::unsupported, "this time it fails");
    return interp_->compile(program);
  }
  Kernel load(const atlas::Program& program, std::string_view code) const override { return interp_->load(program, code); }
  std::unique_ptr<Launcher> launcher(std::span<const atlas::EntryStep> steps, std::span<const std::shared_ptr<const Kernel>> kernels,
                                     CodeStore& store) const override {
    return interp_->launcher(steps, kernels, store);
  }
  std::unique_ptr<LaneKernel> compile_lanes(const atlas::LaneProgram& program) const override {
    meeting.attend();
    return interp_->compile_lanes(program);
  }

  mutable Meeting meeting;
  bool fails = false;

 private:
  std::unique_ptr<Backend> interp_ = interp::make_backend();
};

template <class Work>
void together(const Work& work) {
  std::barrier start(num_threads);
  std::vector<std::jthread> threads;
  for (int t = 0; t < num_threads; ++t)
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      work(t);
    });
}

TEST(KernelCache, ThreadsThatMeetAtAProgramCompileItOnce) {
  const SlowBackend backend;
  KernelCache cache(backend, "", 0);
  const atlas::Program program;
  std::shared_ptr<const Kernel> kernels[num_threads];
  std::atomic<int> compiled{0};
  together([&](int t) {
    KernelSource source;
    kernels[t] = cache.get(program, &source);
    compiled += source == KernelSource::compiled;
  });
  EXPECT_EQ(backend.meeting.attended(), 1);
  EXPECT_EQ(compiled, 1);
  for (const auto& k : kernels) EXPECT_EQ(k, kernels[0]);
  EXPECT_EQ(cache.stats().misses, 1u);
  EXPECT_EQ(cache.stats().memory_hits, num_threads - 1u);
}

TEST(KernelCache, KernelsThatNothingUsesDoNotPileUp) {
  const auto backend = interp::make_backend();
  KernelCache cache(*backend, "", 0);
  std::vector<std::shared_ptr<const Kernel>> used;
  size_t most = 0;
  auto program_of = [](int size) {
    atlas::Program p;
    p.buffers.resize(1);
    p.buffers[0].extent = Expr(size);
    return p;
  };
  for (int n = 1; n <= 3000; ++n) {
    auto kernel = cache.get(program_of(n));
    if (n % 500 == 0) used.push_back(kernel);
    most = std::max(most, cache.stats().kernels);
  }
  EXPECT_LE(most, 1100u);
  const auto misses = cache.stats().misses;
  for (size_t i = 0; i < used.size(); ++i) EXPECT_EQ(cache.get(program_of(500 * static_cast<int>(i + 1))), used[i]);
  EXPECT_EQ(cache.stats().misses, misses);
}

TEST(KernelCache, WhoeverWaitsGetsTheErrorAndTheNextTriesAgain) {
  SlowBackend backend;
  backend.fails = true;
  KernelCache cache(backend, "", 0);
  const atlas::Program program;
  std::atomic<int> errors{0};
  together([&](int) {
    try {
      cache.get(program);
    } catch (const Error& e) {
      errors += e.code() == ErrorCode::unsupported;
    }
  });
  EXPECT_EQ(errors, num_threads);
  EXPECT_EQ(cache.stats().misses, 0u);
  backend.fails = false;
  EXPECT_NE(cache.get(program), nullptr);
  EXPECT_EQ(cache.stats().misses, 1u);
}

/// Keeps code in memory; looking for it lasts until other threads had time to do so too.
class SlowStore final : public CodeStore {
 public:
  std::optional<std::string> get(const Fingerprint& key) noexcept override {
    std::optional<std::string> found;
    {
      std::lock_guard lock(mutex_);
      if (auto it = codes_.find(key); it != codes_.end()) found = it->second;
    }
    if (!found) meeting_.attend();
    return found;
  }
  void put(const Fingerprint& key, std::string_view code) noexcept override {
    std::lock_guard lock(mutex_);
    codes_.insert_or_assign(key, std::string(code));
    ++puts;
  }
  int puts = 0;

 private:
  Meeting meeting_;
  std::mutex mutex_;
  std::map<Fingerprint, std::string> codes_;
};

TEST(KernelCache, ThreadsThatMeetAtAnEntryFunctionCompileItOnce) {
  const auto cpu = cpu::make_backend();
  SlowStore store;
  const atlas::EntryStep step{-1, 0, 0, 0, -1};
  together([&](int) { EXPECT_NE(cpu->launcher(std::span(&step, 1), {}, store), nullptr); });
  EXPECT_EQ(store.puts, 1);
}

}  // namespace
}  // namespace hologram::runtime

// tests/host/memory_pool_test.cpp: reuse, bounds, threads, forks and blocks that outlive the pool.
#include "host/memory_pool.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "support/test.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#include "base/error.h"
#include "host/pages.h"
#include "support/environment.h"
#include "support/threads.h"

namespace {
using hologram::Error;
using hologram::ErrorCode;
using hologram::host::MemoryPool;

constexpr size_t mebibyte = size_t{1} << 20;
constexpr size_t big = size_t{4} << 30;

// What these tests leave in a cache stays there however long they are stopped.
const int never_idle = setenv("HOLOGRAM_POOL_IDLE", "0", 1);

bool aligned(const void* p, size_t to) { return reinterpret_cast<uintptr_t>(p) % to == 0; }

TEST(MemoryPool, BlocksAreAlignedAndLargeEnough) {
  MemoryPool pool(big);
  std::vector<void*> blocks;
  size_t total = 0;
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{65}, size_t{512}, size_t{513}, size_t{4000}, size_t{1} << 16,
                       2 * mebibyte - 1, 2 * mebibyte, 2 * mebibyte + 1, 5 * mebibyte, 40 * mebibyte + 17}) {
    void* block = pool.allocate(bytes);
    EXPECT_TRUE(aligned(block, MemoryPool::alignment)) << bytes;
    const bool huge = bytes >= MemoryPool::huge_page;
    EXPECT_TRUE(!huge || aligned(block, MemoryPool::huge_page)) << bytes;
    const size_t capacity = MemoryPool::capacity(block);
    EXPECT_GE(capacity, bytes);
    EXPECT_LE(capacity, std::max<size_t>(64, bytes + bytes / 8 + 64));
    std::memset(block, 0x5a, bytes);
    total += capacity;
    blocks.push_back(block);
  }
  EXPECT_EQ(pool.stats().in_use, total);
  EXPECT_EQ(pool.stats().misses, blocks.size());
  for (void* block : blocks) MemoryPool::deallocate(block);
  EXPECT_EQ(pool.stats().in_use, 0u);
  EXPECT_EQ(pool.stats().cached, total);
  EXPECT_EQ(pool.stats().peak, total);
  MemoryPool::deallocate(nullptr);
}

#ifdef __SANITIZE_ADDRESS__
TEST(MemoryPool, AddressSanitizerSeesWhoTouchesWhatWasNotAskedFor) {
  MemoryPool pool(big);
  for (size_t bytes : {size_t{8}, size_t{3000}, 5 * mebibyte - 64}) {
    auto* block = static_cast<char*>(pool.allocate(bytes));
    EXPECT_EQ(__asan_region_is_poisoned(block, bytes), nullptr);
    EXPECT_TRUE(__asan_address_is_poisoned(block + bytes));
    MemoryPool::deallocate(block);
    EXPECT_TRUE(__asan_address_is_poisoned(block));
    EXPECT_EQ(pool.allocate(bytes - 8), block);
    EXPECT_EQ(__asan_region_is_poisoned(block, bytes - 8), nullptr);
    EXPECT_TRUE(__asan_address_is_poisoned(block + bytes - 8));
    MemoryPool::deallocate(block);
    EXPECT_GT(pool.release(), 0u);
    EXPECT_EQ(__asan_region_is_poisoned(block, 1) == block, bytes < mebibyte) << "freed memory";
  }
}
#endif

#ifdef __linux__
// What stands over a huge page would lie on small ones, which memory reads a quarter slower.
TEST(MemoryPool, WholeHugePagesWhereTheyTakeLittleMore) {
  auto is_mapped = [](const std::byte* page) {
    unsigned char resident = 0;
    return mincore(const_cast<std::byte*>(page), 1, &resident) == 0;
  };
  std::byte* most = hologram::host::map_huge(11 * mebibyte);
  ASSERT_TRUE(most);
  EXPECT_TRUE(is_mapped(most + 12 * mebibyte - hologram::host::small_page_bytes));
  hologram::host::unmap_huge(most, 11 * mebibyte);
  EXPECT_FALSE(is_mapped(most + 12 * mebibyte - hologram::host::small_page_bytes));
}
#endif

TEST(MemoryPool, ASmallerRequestUsesALargerBlock) {
  MemoryPool pool(big);
  void* large = pool.allocate(10 * mebibyte);
  MemoryPool::deallocate(large);
  void* small = pool.allocate(6 * mebibyte);
  EXPECT_EQ(small, large);
  EXPECT_EQ(pool.stats().in_use, 10 * mebibyte);
  MemoryPool::deallocate(small);
  void* tiny = pool.allocate(3 * mebibyte);  // less than half: wasteful
  EXPECT_NE(tiny, large);
  MemoryPool::deallocate(tiny);
}

TEST(MemoryPool, VaryingSizesReachASteadyState) {
  MemoryPool pool(big);
  std::mt19937 random(1);
  std::uniform_int_distribution<size_t> size(64 << 10, 16 * mebibyte);
  size_t most = 0;
  uint64_t misses = 0;
  for (int call = 0; call < 4000; ++call) {
    if (call == 1000) misses = pool.stats().misses;
    void* blocks[3];
    for (void*& block : blocks) block = pool.allocate(size(random));
    for (void* block : blocks) MemoryPool::deallocate(block);
    most = std::max(most, pool.stats().in_use + pool.stats().cached);
  }
  EXPECT_LT(most, 3 * 3 * 16 * mebibyte);
  EXPECT_LT(pool.stats().misses - misses, 9000u / 50);
}

TEST(MemoryPool, TheCacheIsBounded) {
  MemoryPool pool(8 * mebibyte);
  std::vector<void*> blocks;
  for (int i = 0; i < 20; ++i) blocks.push_back(pool.allocate(mebibyte));
  for (void* block : blocks) {
    MemoryPool::deallocate(block);
    EXPECT_LE(pool.stats().cached, 8 * mebibyte);
  }
  EXPECT_GE(pool.stats().cached, 7 * mebibyte);
  MemoryPool::deallocate(pool.allocate(9 * mebibyte));  // larger than the bound: never kept
  EXPECT_LE(pool.stats().cached, 8 * mebibyte);
  pool.set_limit(2 * mebibyte);
  EXPECT_LE(pool.stats().cached, 2 * mebibyte);
  EXPECT_EQ(pool.stats().limit, 2 * mebibyte);
  pool.set_limit(0);
  EXPECT_EQ(pool.stats().cached, 0u);
  MemoryPool::deallocate(pool.allocate(100));
  EXPECT_EQ(pool.stats().cached, 0u);
}

TEST(MemoryPool, WhatIsUsedAgainAndAgainStays) {
  MemoryPool roomy(big), tight(12 * mebibyte);
  std::vector<void*> old;
  for (int i = 0; i < 6; ++i) old.push_back(tight.allocate(mebibyte));
  for (void* block : old) MemoryPool::deallocate(block);
  for (auto& [pool, sizes] :
       {std::pair<MemoryPool*, std::vector<size_t>>{&roomy, {10 * mebibyte, 14 * mebibyte, 40 * mebibyte, 3 * mebibyte, 100, 5000}},
        {&tight, {4 * mebibyte}}}) {
    uint64_t misses = 0;
    for (int call = 0; call < 100; ++call) {
      if (call == 5) misses = pool->stats().misses;
      for (const size_t bytes : sizes) {
        void *a = pool->allocate(bytes), *b = pool->allocate(bytes);
        MemoryPool::deallocate(a);
        MemoryPool::deallocate(b);
      }
    }
    EXPECT_EQ(pool->stats().misses, misses);
  }
}

/// A pool whose blocks idle after 10 ms.
std::unique_ptr<MemoryPool> impatient_pool() {
  setenv("HOLOGRAM_POOL_IDLE", "0.01", 1);
  auto pool = std::make_unique<MemoryPool>(big);
  setenv("HOLOGRAM_POOL_IDLE", "0", 1);
  return pool;
}

/// Whether the cache empties within half a minute.
bool empties(const MemoryPool& pool) {
  for (int i = 0; i < 3000 && pool.stats().cached != 0; ++i) usleep(10'000);
  return pool.stats().cached == 0;
}

/// Bytes of this process, mapped and resident.
std::pair<size_t, size_t> process_bytes() {
  size_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return {total * page, resident * page};
}
size_t resident() { return process_bytes().second; }

TEST(MemoryPool, ReleaseGivesTheMemoryBack) {
  MemoryPool pool(big);
  const size_t before = resident();
  void* live = pool.allocate(mebibyte);
  std::memset(live, 1, mebibyte);
  std::vector<void*> blocks;
  for (int i = 0; i < 8; ++i) {
    blocks.push_back(pool.allocate(16 * mebibyte));
    std::memset(blocks.back(), 1, 16 * mebibyte);
  }
  for (void* block : blocks) MemoryPool::deallocate(block);
  const size_t full = resident();
  EXPECT_GT(full, before + 120 * mebibyte);
  EXPECT_EQ(pool.release(), 128 * mebibyte);
  EXPECT_LT(resident(), full - 100 * mebibyte);
  EXPECT_EQ(pool.stats().cached, 0u);
  EXPECT_EQ(pool.stats().in_use, mebibyte);
  EXPECT_EQ(static_cast<unsigned char*>(live)[mebibyte - 1], 1);
  MemoryPool::deallocate(live);
}

TEST(MemoryPool, TooLargeIsAnErrorThatLosesNothing) {
  MemoryPool pool(big);
  void* live = pool.allocate(3 * mebibyte);
  std::memset(live, 3, 3 * mebibyte);
  const auto before = pool.stats();
  for (const size_t bytes : {SIZE_MAX, SIZE_MAX / 2, (size_t{1} << 47) + 1, size_t{1} << 46}) {
    try {
      void* block = pool.allocate(bytes);
      MemoryPool::deallocate(block);
      // A system that promises any memory.
      EXPECT_LE(bytes, size_t{1} << 46);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::out_of_memory);
      EXPECT_NE(std::string(e.what()).find("MemoryPool::allocate"), std::string::npos);
    }
  }
  EXPECT_EQ(pool.stats().in_use, before.in_use);
  EXPECT_EQ(pool.stats().misses, before.misses);
  EXPECT_EQ(static_cast<unsigned char*>(live)[3 * mebibyte - 1], 3);
  MemoryPool::deallocate(live);
  void* next = pool.allocate(mebibyte);
  MemoryPool::deallocate(next);
}

bool child_is_ok(bool (*body)()) {
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(20);
    _exit(body() ? 0 : 1);
  }
  int status = 0;
  return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(MemoryPool, IdleMemoryGoesBack) {
  auto pool = impatient_pool();
  auto* live = static_cast<char*>(pool->allocate(3 * mebibyte));
  std::memset(live, 0x5a, 3 * mebibyte);
  for (int round = 0; round < 3; ++round) {
    MemoryPool::deallocate(pool->allocate(5 * mebibyte));
    MemoryPool::deallocate(pool->allocate(100 << 10));
    EXPECT_TRUE(empties(*pool)) << round;
  }
  EXPECT_TRUE(std::all_of(live, live + 3 * mebibyte, [](char c) { return c == 0x5a; }));
  pool.reset();
  MemoryPool::deallocate(live);
}

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
TEST(MemoryPool, TheCacheMakesRoomWhenTheSystemRefuses) {
  EXPECT_TRUE(child_is_ok([] {
    MemoryPool pool(big);
    MemoryPool::deallocate(pool.allocate(256 * mebibyte));
    MemoryPool::deallocate(pool.allocate(700 * mebibyte));
    void* live = pool.allocate(mebibyte);
    // Room for one more gigabyte: enough only without what is cached.
    const rlim_t now = process_bytes().first;
    const rlimit limit{now + 512 * mebibyte, now + 512 * mebibyte};
    if (setrlimit(RLIMIT_AS, &limit) != 0) return false;
    void* block = pool.allocate(1000 * mebibyte);
    bool ok = pool.stats().cached == 0;
    MemoryPool::deallocate(block);
    const auto before = pool.stats();
    try {
      pool.allocate(4000 * mebibyte);
      ok = false;
    } catch (const Error& e) {
      ok = ok && e.code() == ErrorCode::out_of_memory;
    }
    ok = ok && pool.stats().in_use == before.in_use && before.in_use == mebibyte;
    MemoryPool::deallocate(live);
    return ok;
  }));
}
#endif

TEST(MemoryPool, AForkedChildAllocatesAndFrees) {
  EXPECT_TRUE(child_is_ok([] {
    MemoryPool pool(big);
    void* mine = pool.allocate(100);
    return child_is_ok([] { return true; }) && (MemoryPool::deallocate(mine), true);
  }));
  static MemoryPool* shared = nullptr;
  static void* inherited = nullptr;
  MemoryPool pool(big);
  shared = &pool;
  inherited = pool.allocate(3 * mebibyte);
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop.load())
      for (size_t bytes : {size_t{100}, size_t{100'000}, 2 * mebibyte}) MemoryPool::deallocate(pool.allocate(bytes));
  });
  for (int round = 0; round < 20; ++round)
    EXPECT_TRUE(child_is_ok([] {
      MemoryPool::deallocate(inherited);
      for (int i = 0; i < 100; ++i) MemoryPool::deallocate(shared->allocate(3 * mebibyte));
      return true;
    }));
  stop = true;
  other.join();
  MemoryPool::deallocate(inherited);
}

TEST(MemoryPool, ThreadsAllocateAndFreeOneAnothersBlocks) {
  MemoryPool pool(64 * mebibyte);
  constexpr int num_threads = 6, board_places = 64;
  std::atomic<void*> board[board_places] = {};
  std::atomic<int> wrong{0};
  hologram::test::on_threads(num_threads, [&](int t) {
    std::mt19937 random(static_cast<unsigned>(t));
    for (int i = 0; i < 20'000; ++i) {
      const size_t bytes = size_t{1} << (random() % 18);
      auto* block = static_cast<unsigned char*>(pool.allocate(bytes + 8));
      const auto tag = static_cast<unsigned char>(random());
      block[0] = tag;
      block[bytes + 7] = tag;
      auto* other = static_cast<unsigned char*>(board[random() % board_places].exchange(block));
      if (block == other) wrong.fetch_add(1);
      if (i % 1000 == 0) pool.release();
      if (i % 1500 == 0) pool.set_limit((1 + random() % 64) * mebibyte);
      if (other != nullptr) MemoryPool::deallocate(other);
    }
  });
  EXPECT_EQ(wrong.load(), 0);
  for (auto& slot : board) MemoryPool::deallocate(slot.load());
  EXPECT_EQ(pool.stats().in_use, 0u);
  EXPECT_EQ(pool.stats().hits + pool.stats().misses, uint64_t{num_threads} * 20'000);
  const size_t cached = pool.stats().cached;
  EXPECT_EQ(pool.release(), cached);
  EXPECT_EQ(pool.stats().cached, 0u);
}

TEST(MemoryPool, ThePoolDiesWhileOthersFree) {
  for (int round = 0; round < 300; ++round) {
    auto pool = std::make_unique<MemoryPool>(big);
    std::vector<void*> blocks;
    const std::vector<size_t> sizes = {10, 100'000, 1000, 1000, 1000, 4 * mebibyte};
    for (const size_t bytes : sizes) MemoryPool::deallocate(pool->allocate(bytes));
    for (const size_t bytes : sizes) blocks.push_back(pool->allocate(bytes));
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t)
      threads.emplace_back([&, t] {
        for (size_t i = static_cast<size_t>(t); i < blocks.size(); i += 2) {
          std::memset(blocks[i], 7, std::min<size_t>(sizes[i], 1000));
          MemoryPool::deallocate(blocks[i]);
        }
      });
    pool.reset();
    for (auto& thread : threads) thread.join();
  }
}

TEST(MemoryPool, TheEnvironmentSetsTheLimit) {
  const hologram::test::Setting variable("HOLOGRAM_POOL_LIMIT");
  const size_t usual = MemoryPool::default_limit();
  EXPECT_GT(usual, 64 * mebibyte);
  const std::pair<const char*, size_t> cases[] = {
      {"0", 0}, {"123456", 123456}, {"64K", 64 << 10}, {"512M", 512 * mebibyte}, {"3G", 3072 * mebibyte}, {"off", 0}, {"", usual}};
  for (const auto& [text, bytes] : cases) {
    variable.set(text);
    EXPECT_EQ(MemoryPool::default_limit(), bytes) << text;
  }
  for (const char* text : {"-1", "12X", "1MM", "K", "99999999999G"}) {
    variable.set(text);
    EXPECT_THROW(MemoryPool::default_limit(), Error) << text;
  }
  variable.set("5M");
  EXPECT_EQ(MemoryPool().stats().limit, 5 * mebibyte);
}

}  // namespace

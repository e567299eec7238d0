// tests/host/boundary_pool_test.cpp: classes, addresses, views that outlive the pool.
#include "host/boundary_pool.h"

#include <atomic>
#include <thread>

#include "base/error.h"
#include "support/refusal.h"
#include "support/test.h"
#include "support/threads.h"

namespace {
using namespace hologram::host;
using hologram::test::refusal;

TEST(BoundaryPool, StorageIsContiguousAlignedAndWritable) {
  BoundaryPool pool;
  EXPECT_EQ(reinterpret_cast<uintptr_t>(pool.base()) % (size_t{2} << 20), 0u);
  std::memset(pool.base(), 0xab, boundary_bytes);
  for (int cls = 0; cls < boundary_classes; ++cls) {
    EXPECT_EQ(pool.data(cls), pool.base() + 0x3000 * cls);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(pool.data(cls)) % 64, 0u);
  }
}

TEST(BoundaryPool, AddressesAndOffsetsAreInverse) {
  for (size_t offset = 0; offset < boundary_bytes; ++offset) {
    const BoundaryAddress a = boundary_address(offset);
    ASSERT_TRUE(a.cls >= 0 && a.cls < 96 && a.page >= 0 && a.page < 48 && a.byte >= 0 && a.byte < 256);
    ASSERT_EQ(boundary_offset(a), offset);
  }
  EXPECT_EQ(boundary_offset({95, 0, 0}), 0x11D000u);
  EXPECT_EQ(boundary_address(0x3000), (BoundaryAddress{1, 0, 0}));
  EXPECT_EQ(boundary_address(0x3101), (BoundaryAddress{1, 1, 1}));
}

TEST(BoundaryPool, AddressesOutOfRangeAreErrors) {
  EXPECT_EQ(refusal([] { boundary_offset({96, 0, 0}); }), "boundary_offset: class must be 0…95, got 96");
  EXPECT_EQ(refusal([] { boundary_offset({0, 48, 0}); }), "boundary_offset: page must be 0…47, got 48");
  EXPECT_EQ(refusal([] { boundary_offset({0, 0, -1}); }), "boundary_offset: byte must be 0…255, got -1");
  EXPECT_EQ(refusal([] { boundary_address(boundary_bytes); }), "boundary_address: offset must be below 1179648, got 1179648");
}

TEST(BoundaryPool, LocatesPointers) {
  BoundaryPool pool;
  EXPECT_EQ(pool.locate(pool.data(7) + 300), (BoundaryAddress{7, 1, 44}));
  EXPECT_EQ(pool.locate(pool.base() + boundary_bytes - 1), (BoundaryAddress{95, 47, 255}));
  EXPECT_EQ(pool.locate(pool.base() + boundary_bytes), std::nullopt);
  EXPECT_EQ(pool.locate(pool.base() - 1), std::nullopt);
  EXPECT_EQ(pool.locate(nullptr), std::nullopt);
}

TEST(BoundaryPool, AllocatesTheLowestFreeRun) {
  BoundaryPool pool;
  EXPECT_EQ(pool.allocate(), 0);
  EXPECT_EQ(pool.allocate(3), 1);
  EXPECT_TRUE(pool.allocate_class(6));
  EXPECT_FALSE(pool.allocate_class(6));
  EXPECT_EQ(pool.allocate(3), 7);
  EXPECT_EQ(pool.allocate(2), 4);
  EXPECT_EQ(pool.free_classes(), 96 - 10);
  pool.free(1, 3);
  EXPECT_FALSE(pool.busy(2));
  EXPECT_EQ(pool.allocate(2), 1);
  EXPECT_EQ(pool.allocate(87), std::nullopt);
  EXPECT_EQ(pool.allocate(86), 10);
  EXPECT_EQ(pool.allocate(), 3);
  EXPECT_EQ(pool.allocate(), std::nullopt);
  EXPECT_EQ(pool.free_classes(), 0);
}

TEST(BoundaryPool, WrongClassesAreErrors) {
  BoundaryPool pool;
  EXPECT_EQ(refusal([&] { pool.free(5); }), "BoundaryPool::free: class 5 is not allocated");
  EXPECT_EQ(refusal([&] { pool.allocate_class(-1); }), "BoundaryPool::allocate_class: class must be 0…95, got -1");
  EXPECT_EQ(refusal([&] { pool.allocate(97); }), "BoundaryPool::allocate: count must be 1…96, got 97");
  EXPECT_EQ(refusal([&] { pool.free(95, 2); }), "BoundaryPool::free: classes 95…96 are not in 0…95");
  EXPECT_EQ(refusal([&] { pool.export_class(0); }), "BoundaryPool::export_class: class 0 is not allocated");
  EXPECT_EQ(refusal([&] { (void)pool.data(96); }), "BoundaryPool::data: class must be 0…95, got 96");
  // A run with one class that is not owned frees nothing.
  ASSERT_TRUE(pool.allocate_class(10) && pool.allocate_class(12));
  EXPECT_EQ(refusal([&] { pool.free(10, 3); }), "BoundaryPool::free: class 11 is not allocated");
  EXPECT_TRUE(pool.busy(10));
  EXPECT_TRUE(pool.busy(12));
}

TEST(BoundaryPool, AViewKeepsItsClassBusy) {
  BoundaryPool pool;
  ASSERT_EQ(pool.allocate(), 0);
  auto view = pool.export_class(0);
  EXPECT_EQ(view.get(), pool.data(0));
  EXPECT_TRUE(pool.exported(0));
  auto copy = view;
  auto second = pool.export_class(0);
  pool.free(0);
  EXPECT_TRUE(pool.busy(0));
  EXPECT_EQ(refusal([&] { pool.free(0); }), "BoundaryPool::free: class 0 is not allocated");
  EXPECT_EQ(refusal([&] { pool.export_class(0); }), "BoundaryPool::export_class: class 0 is not allocated");
  EXPECT_FALSE(pool.allocate_class(0));
  EXPECT_EQ(pool.allocate(), 1);
  view.reset();
  second.reset();
  EXPECT_TRUE(pool.busy(0));
  std::thread([&] { copy.reset(); }).join();
  EXPECT_FALSE(pool.busy(0));
  EXPECT_FALSE(pool.exported(0));
  EXPECT_TRUE(pool.allocate_class(0));
}

TEST(BoundaryPool, AViewOutlivesThePool) {
  std::shared_ptr<std::byte> view;
  {
    BoundaryPool pool;
    ASSERT_TRUE(pool.allocate_class(95));
    view = pool.export_class(95);
    std::memset(view.get(), 0x11, boundary_class_bytes);
  }
  EXPECT_EQ(view.get()[boundary_class_bytes - 1], std::byte{0x11});
  std::memset(view.get(), 0x22, boundary_class_bytes);
}

TEST(BoundaryPool, ThreadsNeverShareAClass) {
  BoundaryPool pool;
  std::atomic<int> wrong{0};
  hologram::test::on_threads(4, [&](int t) {
    for (int i = 0; i < 3000; ++i) {
      const int count = 1 + (i * 7 + t) % 20;
      const auto first = pool.allocate(count);
      if (!first) continue;
      const auto tag = static_cast<unsigned char>(t + 1);
      for (int c = 0; c < count; ++c) std::memset(pool.data(*first + c), tag, 64);
      if (i % 16 == 0) std::this_thread::yield();
      auto view = pool.export_class(*first);
      pool.free(*first, count);
      if (view.get()[63] != std::byte{tag}) wrong.fetch_add(1);
    }
  });
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(pool.free_classes(), 96);
}

}  // namespace

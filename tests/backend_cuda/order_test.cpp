// tests/backend_cuda/order_test.cpp: which launches of a graph wait for which others
#include "backend/cuda/order.h"

#include "backend/cuda/graph.h"
#include "backend/cuda/grids.h"
#include "support/test.h"

namespace hologram::test {
namespace {

using cuda::Launch;
using cuda::LaunchOrder;
using cuda::Touch;
using cuda::Touches;

// Launches of buffers of 64 bytes.
struct Launches {
  std::deque<Touches> touches;
  std::vector<Launch> all;

  /// The workspace's bytes [first, first + count), too.
  void add(const std::vector<uint64_t>& reads, const std::vector<uint64_t>& writes, size_t first = 0, size_t count = 0) {
    Touches t{{}, first, count};
    Launch l;
    for (const auto* which : {&reads, &writes})
      for (const uint64_t address : *which) {
        t.memory.push_back({l.words.size(), 64, which == &writes});
        l.words.push_back(address);
      }
    touches.push_back(std::move(t));
    l.touches = &touches.back();
    all.push_back(std::move(l));
  }
  std::vector<std::vector<size_t>> edges() const {
    const LaunchOrder order(all);
    std::vector<std::vector<size_t>> out;
    for (size_t l = 0; l < all.size(); ++l) out.emplace_back(order.before(l).begin(), order.before(l).end());
    return out;
  }
};

using Edges = std::vector<std::vector<size_t>>;

TEST(CudaOrder, WritesAndReadsOfTheSameMemoryWait) {
  Launches r;
  r.add({1000}, {2000});
  r.add({1000}, {3000});            // reads what another one reads
  r.add({2032}, {4000});            // what was written, in part
  r.add({5000}, {1063});            // behind those that read it
  r.add({6000}, {4000 + 63});       // what another one writes
  r.add({1064 + 63, 936}, {7000});  // one byte behind the last write, and one before
  EXPECT_EQ(r.edges(), (Edges{{}, {}, {0}, {1, 0}, {2}, {}}));
}

TEST(CudaOrder, EdgesThatOthersImplyAreLeftOut) {
  Launches r;
  r.add({}, {1000});
  r.add({1000}, {2000});
  r.add({1000, 2000}, {3000});
  r.add({1000}, {4000});
  r.add({3000, 4000, 1000, 2000}, {1000});
  EXPECT_EQ(r.edges(), (Edges{{}, {0}, {1}, {0}, {3, 2}}));
  r.all[3].touches = nullptr;  // it may touch anything
  EXPECT_EQ(r.edges(), (Edges{{}, {0}, {1}, {2}, {3}}));
}

TEST(CudaOrder, WorkspacesAreShared) {
  Launches r;
  r.add({}, {1000}, 0, 256);
  r.add({}, {2000}, 256, 256);
  r.add({}, {3000}, 0, 512);
  r.add({}, {4000});
  EXPECT_EQ(r.edges(), (Edges{{}, {}, {1, 0}, {}}));
}

TEST(CudaOrder, HoldsWhileTheSameMemoryIsShared) {
  Launches r;
  r.add({1000, 1032}, {2000});
  r.add({2000}, {3000});
  const LaunchOrder order(r.all);
  auto holds = [&](const std::vector<uint64_t>& words) {
    std::vector<Launch> moved = r.all;
    size_t at = 0;
    for (Launch& l : moved)
      for (uint64_t& w : l.words) w = words[at++];
    const bool yes = order.holds(moved);
    EXPECT_TRUE(!yes || LaunchOrder(moved).has_edges_of(order));
    return yes;
  };
  EXPECT_TRUE(holds({1000, 1032, 2000, 2000, 3000}));
  EXPECT_TRUE(holds({9000, 9032, 500, 500, 100}));
  EXPECT_TRUE(holds({1000, 1032, 1096, 1096, 1160}));   // side by side
  EXPECT_FALSE(holds({1000, 1032, 1095, 1095, 3000}));  // one byte is shared
  EXPECT_FALSE(holds({1000, 1032, 2000, 2001, 3000}));
  EXPECT_FALSE(holds({1000, 1064, 2000, 2000, 3000}));
  EXPECT_FALSE(holds({1000, 1032, 2000, 2000, 1000}));  // written behind what reads it
}

}  // namespace
}  // namespace hologram::test

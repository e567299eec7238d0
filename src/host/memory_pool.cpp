// host/memory_pool.cpp: size classes of lock-free block stacks, and who frees them last.
#include "host/memory_pool.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>

#if __has_include(<sanitizer/asan_interface.h>)
#include <sanitizer/asan_interface.h>
#endif

#include "base/error.h"
#include "base/settings.h"
#include "host/pages.h"
#include "host/ticker.h"

namespace hologram::host {
namespace {

constexpr auto relaxed = std::memory_order_relaxed;

// Size classes: multiples of 64 up to 512, then eight per doubling.
constexpr size_t unit = MemoryPool::alignment;
constexpr int per_doubling = 8;
constexpr int top_bit = 46;
constexpr size_t largest = size_t{1} << (top_bit + 1);
constexpr int num_classes = per_doubling + (top_bit - 8) * per_doubling;
/// From this size on, a miss gives smaller cached blocks back.
constexpr size_t replace_from = 64 << 10;
/// From so many cached bytes on, a thread looks for those that idle.
constexpr size_t watch_from = size_t{1} << 20;

constexpr int class_of(size_t bytes) {
  const size_t n = std::max(bytes, size_t{1});
  if (n <= unit * per_doubling) return static_cast<int>((n - 1) / unit);
  const int bit = static_cast<int>(std::bit_width(n - 1)) - 1;  // 2^bit < n ≤ 2^(bit+1)
  return (bit - 8) * per_doubling + static_cast<int>((n - 1 - (size_t{1} << bit)) >> (bit - 3));
}

constexpr size_t class_bytes(int cls) {
  if (cls < per_doubling) return unit * static_cast<size_t>(cls + 1);
  const int bit = cls / per_doubling + 8;
  return (size_t{1} << bit) + (static_cast<size_t>(cls % per_doubling + 1) << (bit - 3));
}
static_assert(class_of(0) == 0 && class_of(64) == 0 && class_of(65) == 1 && class_of(512) == 7);
static_assert(class_bytes(class_of(513)) == 576 && class_bytes(class_of(1024)) == 1024);
static_assert(class_bytes(class_of(1025)) == 1152 && class_of(largest) == num_classes - 1);

constexpr uint32_t no_node = 0;

/// What precedes every block.
struct alignas(unit) Header {
  MemoryPool::State* state;
  uint32_t node;
  int cls;
};
static_assert(sizeof(Header) == unit);

Header* header_of(const void* block) {
  return const_cast<Header*>(static_cast<const Header*>(block) - 1);
}

/// Tells AddressSanitizer that the first `bytes` of a block may be touched, and no others.
void allow([[maybe_unused]] void* block, [[maybe_unused]] size_t bytes) noexcept {
#ifdef ASAN_POISON_MEMORY_REGION
  ASAN_UNPOISON_MEMORY_REGION(block, bytes);
  ASAN_POISON_MEMORY_REGION(static_cast<std::byte*>(block) + bytes,
                            class_bytes(header_of(block)->cls) - bytes);
#endif
}

/// A block's place in a stack. Nodes stay allocated as long as the pool's state, so that a thread
/// may read one that another has just taken; the tag of the stack's head then fails its swap.
struct Node {
  std::atomic<uint32_t> next{no_node};
  std::atomic<void*> block{nullptr};
};

class Nodes {
 public:
  ~Nodes() {
    for (auto& chunk : chunks_) delete[] chunk.load(relaxed);
  }
  Node& operator[](uint32_t index) const noexcept {
    return chunks_[index / chunk_size].load(std::memory_order_acquire)[index % chunk_size];
  }
  /// A node never given out before, no_node when memory or numbers run out.
  uint32_t create() noexcept {
    uint32_t index = created_.load(relaxed);
    do {
      if (index >= chunk_size * num_chunks) return no_node;
      auto& chunk = chunks_[index / chunk_size];
      if (chunk.load(std::memory_order_acquire) == nullptr) {
        Node* fresh = new (std::nothrow) Node[chunk_size];
        if (fresh == nullptr) return no_node;
        Node* expected = nullptr;
        if (!chunk.compare_exchange_strong(expected, fresh)) delete[] fresh;
      }
    } while (!created_.compare_exchange_weak(index, index + 1));
    return index;
  }

 private:
  static constexpr uint32_t chunk_size = 1024, num_chunks = 1024;
  std::atomic<uint32_t> created_{no_node + 1};
  std::array<std::atomic<Node*>, num_chunks> chunks_{};
};

/// A stack of nodes; the head holds the top node and a tag that changes with every push and pop.
class Stack {
 public:
  bool empty() const noexcept { return top(head_.load(relaxed)) == no_node; }
  void push(Nodes& nodes, uint32_t node) noexcept {
    uint64_t head = head_.load(relaxed);
    do nodes[node].next.store(top(head), relaxed);
    while (!head_.compare_exchange_weak(head, successor(head, node), std::memory_order_release,
                                        relaxed));
  }
  uint32_t pop(Nodes& nodes) noexcept {
    uint64_t head = head_.load(std::memory_order_acquire);
    while (top(head) != no_node) {
      const uint32_t next = nodes[top(head)].next.load(relaxed);
      if (head_.compare_exchange_weak(head, successor(head, next), std::memory_order_acquire))
        return top(head);
    }
    return no_node;
  }

 private:
  static uint32_t top(uint64_t head) { return static_cast<uint32_t>(head); }
  static uint64_t successor(uint64_t head, uint32_t top) { return ((head >> 32) + 1) << 32 | top; }
  std::atomic<uint64_t> head_{no_node};
};

struct alignas(64) SizeClass {
  Stack free;
  std::atomic<uint64_t> hits{0};
  std::atomic<bool> touched{false};  // a hit since the eviction hand passed last
  std::atomic<bool> recent{false};   // a hit since the ticker's last round
};

}  // namespace

struct MemoryPool::State {
  explicit State(size_t bytes) : limit(bytes) {}

  const std::chrono::milliseconds period = idle_period();
  /// Stops with the pool; blocks that outlive it are not cached.
  Ticker ticker{period, [this] { return drop_idle(); }};

  // Bytes of live blocks (multiples of 64), plus 1 while the pool exists: at 0 the state dies.
  alignas(64) std::atomic<size_t> in_use{1};
  alignas(64) std::atomic<size_t> cached{0};
  alignas(64) std::atomic<size_t> limit;
  std::atomic<size_t> peak{0};
  std::atomic<uint64_t> misses{0};
  std::atomic<uint32_t> hand{0};  // the class to look at first for eviction
  Stack spare_nodes;
  Nodes nodes;
  std::array<SizeClass, num_classes> classes;

  /// A cached block of the class, or nullptr.
  void* take(int cls) noexcept {
    SizeClass& c = classes[static_cast<size_t>(cls)];
    if (c.free.empty()) return nullptr;
    const uint32_t node = c.free.pop(nodes);
    if (node == no_node) return nullptr;
    cached.fetch_sub(class_bytes(cls), relaxed);
    return nodes[node].block.load(relaxed);
  }

  void* take_hit(int cls) noexcept {
    void* block = take(cls);
    if (block == nullptr) return nullptr;
    SizeClass& c = classes[static_cast<size_t>(cls)];
    c.hits.fetch_add(1, relaxed);
    if (!c.touched.load(relaxed)) c.touched.store(true, relaxed);
    if (!c.recent.load(relaxed)) c.recent.store(true, relaxed);
    return block;
  }

  /// Keeps a dead block for reuse; false when it has no node.
  bool keep(void* block) noexcept {
    const Header* header = header_of(block);
    if (header->node == no_node) return false;
    const int cls = header->cls;
    allow(block, 0);
    cached.fetch_add(class_bytes(cls), relaxed);
    classes[static_cast<size_t>(cls)].free.push(nodes, header->node);
    return true;
  }

  void* map(int cls) noexcept {
    const size_t bytes = class_bytes(cls);
    void* block = nullptr;
    if (bytes >= huge_page) {
      block = map_huge(bytes, sizeof(Header));
    } else if (auto* memory = static_cast<Header*>(std::aligned_alloc(unit, bytes + unit))) {
      block = memory + 1;
    }
    if (block == nullptr) return nullptr;
    uint32_t node = spare_nodes.pop(nodes);
    if (node == no_node) node = nodes.create();
    if (node != no_node) nodes[node].block.store(block, relaxed);
    new (header_of(block)) Header{this, node, cls};
    return block;
  }

  void unmap(void* block) noexcept {
    const Header header = *header_of(block);
    allow(block, class_bytes(header.cls));
    if (class_bytes(header.cls) >= huge_page) {
      unmap_huge(static_cast<std::byte*>(block), class_bytes(header.cls), sizeof(Header));
    } else {
      std::free(header_of(block));
    }
    if (header.node != no_node) spare_nodes.push(nodes, header.node);
  }

  /// Gives back cached blocks of a class, at least `wanted` bytes if there are as many.
  size_t drop(int cls, size_t wanted) noexcept {
    size_t dropped = 0;
    while (dropped < wanted) {
      void* block = take(cls);
      if (block == nullptr) break;
      unmap(block);
      dropped += class_bytes(cls);
    }
    return dropped;
  }

  size_t drop_all() noexcept {
    size_t dropped = 0;
    for (int cls = 0; cls < num_classes; ++cls)
      dropped += drop(cls, std::numeric_limits<size_t>::max());
    return dropped;
  }

  /// Gives back the classes without a hit since the last round; whether something is left to look
  /// after.
  bool drop_idle() noexcept {
    size_t dropped = 0;
    for (int cls = 0; cls < num_classes; ++cls)
      if (!classes[static_cast<size_t>(cls)].recent.exchange(false, relaxed))
        dropped += drop(cls, std::numeric_limits<size_t>::max());
    const bool more = cached.load(relaxed) >= watch_from;
    if (!more && dropped >= watch_from) trim_heap();  // smaller blocks are the C library's
    return more;
  }

  /// Brings the cache below its bound, classes without a recent hit first.
  void trim() noexcept {
    for (int looked = 0; looked < 2 * num_classes && cached.load(relaxed) > limit.load(relaxed);
         ++looked) {
      const int cls = static_cast<int>(hand.fetch_add(1, relaxed) % num_classes);
      if (classes[static_cast<size_t>(cls)].free.empty()) continue;
      if (classes[static_cast<size_t>(cls)].touched.exchange(false, relaxed)) continue;
      const size_t now = cached.load(relaxed), bound = limit.load(relaxed);
      if (now > bound) drop(cls, now - bound);
    }
  }

  /// Makes room for a fresh block of the class among the smaller ones, down to a quarter of its
  /// size, so that growing sizes leave no trail of cached blocks.
  void replace_smaller(int cls) noexcept {
    const size_t bytes = class_bytes(cls);
    if (bytes < replace_from) return;
    size_t dropped = 0;
    for (int below = cls - 1; below >= cls - 2 * per_doubling && dropped < bytes; --below)
      dropped += drop(below, bytes - dropped);
  }

  void count_live(size_t bytes) noexcept {
    const size_t live = (in_use.fetch_add(bytes, relaxed) & ~size_t{1}) + bytes;
    size_t highest = peak.load(relaxed);
    while (live > highest && !peak.compare_exchange_weak(highest, live, relaxed)) {
    }
  }

  /// Takes `amount` off in_use; who takes the last of it ends the state.
  void drop_live(size_t amount) noexcept {
    if (in_use.fetch_sub(amount, std::memory_order_acq_rel) != amount) return;
    drop_all();
    delete this;
  }
};

MemoryPool::MemoryPool(size_t limit) : state_(new State(limit)) {}

MemoryPool::~MemoryPool() {
  state_->ticker.stop();
  state_->limit.store(0, relaxed);
  state_->drop_all();
  state_->drop_live(1);
}

void* MemoryPool::allocate(size_t bytes, bool* zeroed) {
  State& s = *state_;
  if (bytes > largest)
    fail(ErrorCode::out_of_memory, "MemoryPool::allocate: {} bytes asked for", bytes);
  const int cls = class_of(bytes);
  void* block = nullptr;
  const int last = std::min(cls + per_doubling - 1, num_classes - 1);
  for (int c = cls; block == nullptr && c <= last; ++c) block = s.take_hit(c);
  const bool fresh = block == nullptr;
  if (fresh) {
    s.replace_smaller(cls);
    block = s.map(cls);
    if (block == nullptr && s.drop_all() != 0) block = s.map(cls);
    if (block == nullptr)
      fail(ErrorCode::out_of_memory,
           "MemoryPool::allocate: the system refused {} bytes ({} in use by this pool)",
           class_bytes(cls), s.in_use.load(relaxed) & ~size_t{1});
    s.misses.fetch_add(1, relaxed);
  }
  const size_t size = class_bytes(header_of(block)->cls);
  s.count_live(size);
  if (zeroed) *zeroed = fresh && size >= huge_page;
  allow(block, bytes);
  return block;
}

void MemoryPool::deallocate(void* block) noexcept {
  if (block == nullptr) return;
  State& s = *header_of(block)->state;
  const size_t bytes = class_bytes(header_of(block)->cls);
  const size_t limit = s.limit.load(relaxed);
  if (bytes > limit || !s.keep(block)) {
    s.unmap(block);
  } else {
    const size_t cached = s.cached.load(relaxed);
    if (cached >= watch_from && s.period.count() != 0) s.ticker.start();
    if (cached > limit) s.trim();
  }
  s.drop_live(bytes);
}

size_t MemoryPool::capacity(const void* block) noexcept {
  return class_bytes(header_of(block)->cls);
}

size_t MemoryPool::release() noexcept { return state_->drop_all(); }

void MemoryPool::release_idle() noexcept { state_->drop_idle(); }

void MemoryPool::set_limit(size_t bytes) noexcept {
  state_->limit.store(bytes, relaxed);
  state_->trim();
}

void MemoryPool::reset_peak() noexcept {
  state_->peak.store(state_->in_use.load(relaxed) & ~size_t{1}, relaxed);
}

MemoryPool::Stats MemoryPool::stats() const noexcept {
  Stats stats;
  stats.in_use = state_->in_use.load(relaxed) & ~size_t{1};
  stats.peak = std::max(state_->peak.load(relaxed), stats.in_use);
  stats.cached = state_->cached.load(relaxed);
  stats.limit = state_->limit.load(relaxed);
  for (const SizeClass& c : state_->classes) stats.hits += c.hits.load(relaxed);
  stats.misses = state_->misses.load(relaxed);
  return stats;
}

namespace {

/// The number in a one-line file, or the largest number.
size_t number_in(const char* path) {
  unsigned long long value = 0;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path, "r"), std::fclose);
  if (file == nullptr || std::fscanf(file.get(), "%llu", &value) != 1)
    return std::numeric_limits<size_t>::max();
  return static_cast<size_t>(value);
}

}  // namespace

size_t MemoryPool::usable_memory() {
  static const size_t usable = [] {
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    size_t bytes = pages > 0 && page > 0 ? static_cast<size_t>(pages) * static_cast<size_t>(page)
                                         : size_t{4} << 30;
    // Containers: cgroup v2, then v1.
    bytes = std::min(bytes, number_in("/sys/fs/cgroup/memory.max"));
    return std::min(bytes, number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
  }();
  return usable;
}

size_t MemoryPool::default_limit() {
  return settings::number("HOLOGRAM_POOL_LIMIT").value_or(usable_memory() / 4);
}

std::chrono::milliseconds MemoryPool::idle_period() {
  const double seconds = settings::seconds("HOLOGRAM_POOL_IDLE").value_or(1);
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3));
}

}  // namespace hologram::host

// host/boundary_pool.cpp: who holds which class, and the storage behind them.
#include "host/boundary_pool.h"

#include <array>
#include <atomic>

#include "base/error.h"
#include "host/pages.h"

namespace hologram::host {
namespace {

void require_class(const char* function, int cls) {
  require(cls >= 0 && cls < boundary_classes, "{}: class must be 0…95, got {}", function, cls);
}

size_t at(int cls) { return static_cast<size_t>(cls); }

}  // namespace

struct BoundaryPool::State {
  /// Who holds a class: one bit for its owner, the rest counts exported views.
  static constexpr uint32_t owner = 1u << 31;

  std::byte* const memory;
  std::array<std::atomic<uint32_t>, boundary_classes> holds{};

  State() : memory(map_huge(huge_page_bytes)) {
    static_assert(boundary_bytes <= huge_page_bytes);
    if (memory == nullptr)
      fail(ErrorCode::out_of_memory, "BoundaryPool: the system refused {} bytes", huge_page_bytes);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { unmap_huge(memory, huge_page_bytes); }

  bool take(int cls) noexcept {
    uint32_t none = 0;
    return holds[at(cls)].compare_exchange_strong(none, owner);
  }
  bool drop_owner(int cls) noexcept { return (holds[at(cls)].fetch_and(~owner) & owner) != 0; }
  /// Takes a whole run or nothing; on failure `first` becomes the class after the busy one.
  bool take_run(int& first, int count) noexcept {
    for (int i = 0; i < count; ++i) {
      if (take(first + i)) continue;
      for (int k = 0; k < i; ++k) drop_owner(first + k);
      first += i + 1;
      return false;
    }
    return true;
  }
};

size_t boundary_offset(BoundaryAddress a) {
  require_class("boundary_offset", a.cls);
  require(a.page >= 0 && a.page < boundary_pages, "boundary_offset: page must be 0…47, got {}",
          a.page);
  require(a.byte >= 0 && a.byte < boundary_page_bytes,
          "boundary_offset: byte must be 0…255, got {}", a.byte);
  return static_cast<size_t>((a.cls * boundary_pages + a.page) * boundary_page_bytes + a.byte);
}

BoundaryAddress boundary_address(size_t offset) {
  require(offset < boundary_bytes, "boundary_address: offset must be below {}, got {}",
          boundary_bytes, offset);
  const auto page = static_cast<int>(offset / boundary_page_bytes);
  return {page / boundary_pages, page % boundary_pages,
          static_cast<int>(offset % boundary_page_bytes)};
}

BoundaryPool::BoundaryPool() : state_(std::make_shared<State>()) {}
BoundaryPool::~BoundaryPool() = default;

std::optional<int> BoundaryPool::allocate(int count) {
  require(count >= 1 && count <= boundary_classes,
          "BoundaryPool::allocate: count must be 1…96, got {}", count);
  for (int first = 0; first + count <= boundary_classes;)
    if (state_->take_run(first, count)) return first;
  return std::nullopt;
}

bool BoundaryPool::allocate_class(int cls) {
  require_class("BoundaryPool::allocate_class", cls);
  return state_->take(cls);
}

void BoundaryPool::free(int first, int count) {
  require(count >= 1 && first >= 0 && first <= boundary_classes - count,
          "BoundaryPool::free: classes {}…{} are not in 0…95", first, first + count - 1);
  for (int cls = first; cls < first + count; ++cls)
    require((state_->holds[at(cls)].load() & State::owner) != 0,
            "BoundaryPool::free: class {} is not allocated", cls);
  for (int cls = first; cls < first + count; ++cls) state_->drop_owner(cls);
}

bool BoundaryPool::busy(int cls) const {
  require_class("BoundaryPool::busy", cls);
  return state_->holds[at(cls)].load() != 0;
}

bool BoundaryPool::exported(int cls) const {
  require_class("BoundaryPool::exported", cls);
  return (state_->holds[at(cls)].load() & ~State::owner) != 0;
}

int BoundaryPool::free_classes() const noexcept {
  int count = 0;
  for (const auto& hold : state_->holds) count += hold.load() == 0;
  return count;
}

std::byte* BoundaryPool::data(int cls) const {
  require_class("BoundaryPool::data", cls);
  return state_->memory + at(cls) * boundary_class_bytes;
}

std::byte* BoundaryPool::base() const noexcept { return state_->memory; }

std::optional<BoundaryAddress> BoundaryPool::locate(const void* pointer) const noexcept {
  const auto offset = reinterpret_cast<uintptr_t>(pointer) - reinterpret_cast<uintptr_t>(base());
  if (offset >= boundary_bytes) return std::nullopt;
  return boundary_address(offset);
}

std::shared_ptr<std::byte> BoundaryPool::export_class(int cls) {
  require_class("BoundaryPool::export_class", cls);
  auto& hold = state_->holds[at(cls)];
  uint32_t seen = hold.load();
  do
    require((seen & State::owner) != 0, "BoundaryPool::export_class: class {} is not allocated",
            cls);
  while (!hold.compare_exchange_weak(seen, seen + 1));
  return {data(cls), [state = state_, cls](std::byte*) { state->holds[at(cls)].fetch_sub(1); }};
}

}  // namespace hologram::host

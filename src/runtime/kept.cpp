// runtime/kept.cpp: what an executable keeps of weights from call to call.
#include <algorithm>
#include <atomic>

#include "host/memory_pool.h"
#include "runtime/executable.h"

namespace hologram::runtime {

using schedule::SlotKind;

namespace {

// The deleter of a value that shares a block of the pool with others. It lets go of the block at
// once: who remembers the value weakly keeps its deleter.
struct Part {
  std::shared_ptr<void> block;
  void operator()(void*) { block.reset(); }
};

bool is_block(const std::shared_ptr<void>& value) {
  const auto* free = std::get_deleter<decltype(&host::MemoryPool::deallocate)>(value);
  return free && *free == &host::MemoryPool::deallocate;
}

}  // namespace

bool in_pool(const std::shared_ptr<void>& value) {
  return is_block(value) || std::get_deleter<Part>(value);
}

const Kept::List& Kept::list() const {
  static const List none;
  return list_ ? *list_ : none;
}

Kept::List& Kept::own() {
  if (!list_) list_ = std::make_shared<List>();
  if (list_.use_count() > 1) list_ = std::make_shared<List>(*list_);
  std::atomic_thread_fence(std::memory_order_acquire);  // behind who let go of it last
  return *list_;
}

// Those of less than a huge page are put side by side: calls read all weights of a model from one
// end to the other, and small pages take a tenth of the memory's bandwidth.
void Executable::allocate_together(Kept& kept, const std::vector<uint8_t>& stale) const {
  constexpr size_t line = 128;
  std::vector<std::pair<size_t, size_t>> parts;  // entry, offset
  size_t total = 0;
  for (size_t c = 0; c < kept.size(); ++c) {
    if (!stale[c]) continue;
    const Expr& size = plan_.slots[static_cast<size_t>(plan_.cache[c].slot)].bytes;
    if (!size.is_const()) continue;
    const size_t bytes = host::addressable(size.constant_value());
    if (bytes >= host::huge_page_bytes) continue;
    parts.emplace_back(c, total);
    total += (bytes + line - 1) / line * line;
  }
  if (parts.size() < 2 || total < host::huge_page_bytes) return;
  const std::shared_ptr<void> block{runtime_->memory().allocate(total),
                                    &host::MemoryPool::deallocate};
  for (const auto& [c, offset] : parts)
    kept.set(c, {static_cast<std::byte*>(block.get()) + offset, Part{block}});
}

Kept Executable::kept() const {
  asked_.store(true, std::memory_order_relaxed);
  std::lock_guard lock(mutex_);
  return kept_;
}

void Executable::keep(Kept kept) {
  std::lock_guard lock(mutex_);
  kept_ = std::move(kept);
}

void Executable::turn_to(int number) {
  std::lock_guard lock(mutex_);
  aside_[set_] = std::move(kept_);
  set_ = number;
  kept_ = std::move(aside_[number]);
  aside_.erase(number);
  kept_.resize(plan_.cache.size());
}

void Executable::forget_aside(int number) {
  std::map<int, Kept>::node_type gone;  // freed without the lock
  std::lock_guard lock(mutex_);
  gone = aside_.extract(number);
}

// Those that share a block come last, and go together.
void Executable::give_back_kept(size_t rest) {
  Kept::List gone;  // freed without the lock
  std::map<int, Kept> aside;
  {
    std::lock_guard lock(mutex_);
    aside.swap(aside_);
  }
  size_t bytes = cached_bytes();
  std::lock_guard lock(mutex_);
  std::vector<std::pair<size_t, size_t>> order;  // bytes of a block of its own, entry
  for (size_t c = 0; c < kept_.size(); ++c)
    if (in_pool(kept_[c]))
      order.emplace_back(is_block(kept_[c]) ? host::MemoryPool::capacity(kept_[c].get()) : 0, c);
  std::ranges::sort(order, std::greater());
  for (const auto& [own, c] : order) {
    if (bytes <= rest) break;
    bytes -= std::min(bytes, own);
    gone.push_back(kept_[c]);
    kept_.set(c, nullptr);
  }
}

std::vector<int> Executable::read_as_kept(std::vector<bool> needed) const {
  needed.resize(static_cast<size_t>(plan_.num_parameters));
  auto need = [&](int slot) {
    if (slot < 0) return;
    const schedule::Slot& s = plan_.slots[static_cast<size_t>(slot)];
    if (s.kind == SlotKind::input) needed[static_cast<size_t>(s.index)] = true;
  };
  for (const schedule::Step& step : plan_.steps) {
    if (step.cached >= 0) continue;
    for (int slot : step.buffers) need(slot);
    for (int slot : step.arguments) need(slot);
  }
  for (const schedule::PlanOutput& output : plan_.outputs) need(output.slot);
  std::vector<bool> kept(needed.size());
  for (bool more = true; more;) {  // one needed parameter holds those that it is computed with
    more = false;
    for (const schedule::CacheEntry& entry : plan_.cache) {
      bool whole = true;
      for (int p : entry.parameters) whole &= !needed[static_cast<size_t>(p)];
      for (int p : entry.parameters) {
        const auto k = static_cast<size_t>(p);
        kept[k] = true;
        if (whole || needed[k]) continue;
        needed[k] = more = true;
      }
    }
  }
  std::vector<int> out;
  for (size_t p = 0; p < kept.size(); ++p)
    if (kept[p] && !needed[p]) out.push_back(static_cast<int>(p));
  return out;
}

std::vector<std::pair<const void*, size_t>> Executable::cached_values() const {
  std::lock_guard lock(mutex_);
  std::vector<std::pair<const void*, size_t>> out;
  auto add = [&](const Kept& kept) {
    for (size_t c = 0; c < kept.size(); ++c) {
      if (!kept[c]) continue;
      const Expr& bytes = plan_.slots[static_cast<size_t>(plan_.cache[c].slot)].bytes;
      if (is_block(kept[c]))
        out.emplace_back(kept[c].get(), host::MemoryPool::capacity(kept[c].get()));
      else if (bytes.is_const())
        out.emplace_back(kept[c].get(), static_cast<size_t>(bytes.constant_value()));
    }
  };
  add(kept_);
  for (const auto& [_, kept] : aside_) add(kept);
  return out;
}

size_t Executable::cached_bytes() const {
  size_t n = 0;
  for (const auto& [_, bytes] : cached_values()) n += bytes;
  return n;
}

}  // namespace hologram::runtime

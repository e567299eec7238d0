// runtime/places.cpp: where a call's values lie that have no place of their own in the plan.
#include "runtime/places.h"

#include <algorithm>
#include <numeric>

namespace hologram::runtime {

// Of those that this call computes; null: none.
std::shared_ptr<const Executable::Passing> Executable::passing_of(
    const Arguments& arguments, const std::vector<uint8_t>& stale) {
  if (!arguments.passing || runtime_->device() || !plan_.arena_bytes.is_const()) return nullptr;
  std::vector<size_t> entries;
  for (size_t c = 0; c < stale.size(); ++c)
    if (stale[c] && (*arguments.passing)[c] &&
        plan_.slots[static_cast<size_t>(plan_.cache[c].slot)].bytes.is_const())
      entries.push_back(c);
  if (entries.empty()) return nullptr;
  std::lock_guard lock(mutex_);
  if (!passing_ || passing_->entries != entries) {
    std::vector<int> slots;
    for (size_t c : entries) slots.push_back(plan_.cache[c].slot);
    passing_ = std::make_shared<const Passing>(entries, schedule::fit_into_arena(plan_, slots));
  }
  return passing_;
}

void Executable::use_overwritten() {
  if (!runtime_->device() && plan_.arena_bytes.is_const() && plan_.cache.empty() &&
      !plan_.programs.empty())
    lenders_ = schedule::overwritten_inputs(plan_);
}

// Those that lie side by side, with nothing between them, are one region.
std::shared_ptr<const Executable::Lent> Executable::lent_for(const Arguments& arguments) {
  if (lenders_.empty()) return nullptr;
  constexpr int64_t line = 64;
  std::vector<std::byte*> addresses;
  for (int slot : lenders_)
    addresses.push_back(static_cast<std::byte*>(
        arguments.parameters[plan_.slots[static_cast<size_t>(slot)].index]));
  std::lock_guard lock(mutex_);
  if (lent_ && lent_->addresses == addresses) return lent_;
  std::vector<size_t> order(addresses.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t k) { return addresses[k]; });
  auto made = std::make_shared<Lent>();
  std::vector<std::vector<int>> regions;
  const std::byte *end = nullptr, *end_of_region = nullptr;
  for (size_t k : order) {
    std::byte* at = addresses[k];
    const int64_t bytes = plan_.slots[static_cast<size_t>(lenders_[k])].bytes.constant_value();
    if (at < end) {  // they overlap
      regions.clear();
      made->begins.clear();
      break;
    }
    end = at + bytes;
    if (!at || bytes < line || reinterpret_cast<uintptr_t>(at) % line != 0) continue;
    if (at != end_of_region) {
      regions.emplace_back();
      made->begins.push_back(at);
    }
    regions.back().push_back(lenders_[k]);
    end_of_region = bytes % line == 0 ? end : nullptr;
  }
  made->where = schedule::place_in(plan_, regions);
  made->addresses = std::move(addresses);
  return lent_ = std::move(made);
}

}  // namespace hologram::runtime

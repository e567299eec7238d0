// schedule/memory.cpp: where the intermediates of a plan live.
#include "schedule/memory.h"

#include <algorithm>
#include <map>

#include "atlas/class_graph.h"

namespace hologram::schedule {
namespace {

using atlas::class_bytes;

struct Life {
  int first = -1, last = -1;
  bool overlaps(const Life& o) const { return first <= o.last && o.first <= last; }
};

std::vector<Life> lifetimes(const Plan& plan) {
  std::vector<Life> life(plan.slots.size());
  int now = 0;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const Step& step = plan.steps[s];
    const bool together = s > 0 && step.group >= 0 && step.group == plan.steps[s - 1].group;
    if (!together) ++now;
    auto touch = [&](int slot) {
      if (slot < 0) return;
      Life& l = life[static_cast<size_t>(slot)];
      if (l.first < 0) l.first = now;
      l.last = now;
    };
    for (int b : step.buffers) touch(b);
    for (int b : step.arguments) touch(b);
    for (int b : step.results) touch(b);
  }
  return life;
}

struct Placed {
  size_t slot;
  int64_t offset, size;
};

// Lowest offset from `at` on at which `size` bytes fit beside everything placed that is live at the
// same time.
int64_t first_fit(const std::vector<Placed>& placed, const std::vector<Life>& life, size_t slot,
                  int64_t size, int64_t at = 0) {
  std::vector<Placed> busy;
  for (const Placed& p : placed)
    if (life[p.slot].overlaps(life[slot])) busy.push_back(p);
  std::sort(busy.begin(), busy.end(),
            [](const Placed& a, const Placed& b) { return a.offset < b.offset; });
  for (const Placed& p : busy) {
    if (at + size <= p.offset) break;
    at = std::max(at, p.offset + p.size);
  }
  return at;
}

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

}  // namespace

void plan_memory(Plan& plan, const Machine& machine) {
  const int64_t alignment = machine.alignment;
  std::vector<Life> life = lifetimes(plan);
  std::vector<size_t> fixed, symbolic;
  for (size_t i = 0; i < plan.slots.size(); ++i) {
    if (plan.slots[i].kind != SlotKind::arena || life[i].first < 0) continue;
    (plan.slots[i].bytes.is_const() ? fixed : symbolic).push_back(i);
  }
  auto size_of_slot = [&](size_t i) {
    return round_up(std::max<int64_t>(plan.slots[i].bytes.constant_value(), 1), alignment);
  };
  std::stable_sort(fixed.begin(), fixed.end(),
                   [&](size_t a, size_t b) { return size_of_slot(a) > size_of_slot(b); });
  std::vector<Placed> small, large;
  int64_t small_end = 0, large_end = 0;
  for (size_t i : fixed) {
    int64_t size = size_of_slot(i);
    if (size <= machine.small_bytes) {
      int64_t at = first_fit(small, life, i, size);
      if (at + size <= machine.small_total) {
        small.push_back({i, at, size});
        small_end = std::max(small_end, at + size);
        plan.slots[i].boundary = true;
        plan.slots[i].offset = Expr(at);
        continue;
      }
    }
    int64_t at = first_fit(large, life, i, size);
    large.push_back({i, at, size});
    large_end = std::max(large_end, at + size);
  }
  plan.boundary_bytes = round_up(small_end, class_bytes);
  for (const Placed& p : large) plan.slots[p.slot].offset = Expr(plan.boundary_bytes + p.offset);

  // Symbolic sizes: regions of one size expression, each shared by slots that are not live
  // together.
  struct Region {
    Expr size, offset;
    std::vector<size_t> slots;
  };
  std::vector<Region> regions;
  Expr end(plan.boundary_bytes + round_up(large_end, alignment));
  for (size_t i : symbolic) {
    auto fits = [&](const Region& r) {
      return r.size == plan.slots[i].bytes &&
             std::none_of(r.slots.begin(), r.slots.end(),
                          [&](size_t o) { return life[o].overlaps(life[i]); });
    };
    auto it = std::find_if(regions.begin(), regions.end(), fits);
    if (it == regions.end()) {
      regions.push_back({plan.slots[i].bytes, end, {}});
      end += Expr(alignment) * ceil_div(plan.slots[i].bytes, Expr(alignment));
      it = regions.end() - 1;
    }
    it->slots.push_back(i);
    plan.slots[i].offset = it->offset;
  }
  plan.arena_bytes = end;
}

Fitted fit_into_arena(const Plan& plan, const std::vector<int>& slots) {
  const int64_t alignment = plain_machine().alignment;
  const std::vector<Life> life = lifetimes(plan);
  std::vector<Placed> placed;
  for (size_t i = 0; i < plan.slots.size(); ++i) {
    const Slot& s = plan.slots[i];
    if (s.kind == SlotKind::arena && !s.boundary && s.bytes.is_const() && s.offset.is_const())
      placed.push_back(
          {i, s.offset.constant_value(), round_up(s.bytes.constant_value(), alignment)});
  }
  Fitted out{{}, plan.arena_bytes.constant_value()};
  for (int slot : slots) {
    const auto i = static_cast<size_t>(slot);
    const int64_t size = round_up(plan.slots[i].bytes.constant_value(), alignment);
    const int64_t at = first_fit(placed, life, i, size, plan.boundary_bytes);
    placed.push_back({i, at, size});
    out.offsets.push_back(at);
    out.arena_bytes = std::max(out.arena_bytes, at + size);
  }
  return out;
}

}  // namespace hologram::schedule

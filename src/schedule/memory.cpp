// schedule/memory.cpp: where the intermediates of a plan live.
#include "schedule/memory.h"

#include <algorithm>
#include <map>
#include <utility>

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

std::vector<int> overwritten_inputs(const Plan& plan) {
  std::vector<char> seen(plan.slots.size(), 0);
  std::vector<int> out;
  auto see = [&](int slot) { return std::exchange(seen[static_cast<size_t>(slot)], 1) != 0; };
  for (const Step& step : plan.steps) {
    for (int slot : step.arguments)
      if (slot >= 0) see(slot);
    if (step.kind != StepKind::kernel) continue;
    std::vector<int> written;
    size_t k = 0;
    for (const atlas::Buffer& b : plan.programs[static_cast<size_t>(step.program)].buffers) {
      if (b.access == atlas::Access::scratch) continue;
      const int slot = step.buffers[k++];
      const Slot& s = plan.slots[static_cast<size_t>(slot)];
      if (b.access == atlas::Access::write && s.kind == SlotKind::input && s.bytes.is_const())
        written.push_back(slot);
      else
        see(slot);
    }
    for (int slot : written)
      if (!see(slot)) out.push_back(slot);
  }
  return out;
}

// The regions, then the arena, are one range of offsets. Where an overwritten input lies is taken
// from the step on that writes it, and between two regions nothing fits.
Placement place_in(const Plan& plan, const std::vector<std::vector<int>>& regions) {
  const int64_t alignment = plain_machine().alignment;
  std::vector<Life> life = lifetimes(plan);
  const int end_of_steps = static_cast<int>(plan.steps.size()) + 1;
  const size_t wall = life.size();
  life.push_back({0, end_of_steps});
  std::vector<Placed> placed;
  std::vector<int64_t> begins;
  int64_t end = 0;
  for (const std::vector<int>& region : regions) {
    begins.push_back(end);
    for (int slot : region) {
      const auto i = static_cast<size_t>(slot);
      const int64_t size = plan.slots[i].bytes.constant_value() / alignment * alignment;
      life[i].last = end_of_steps;
      placed.push_back({i, end, size});
      end += size;
    }
    placed.push_back({wall, end, alignment});
    end += alignment;
  }
  begins.push_back(end);
  std::vector<std::pair<int64_t, size_t>> order;  // the largest first
  for (size_t i = 0; i < plan.slots.size(); ++i) {
    const Slot& s = plan.slots[i];
    if (s.kind == SlotKind::arena && !s.boundary && life[i].first >= 0)
      order.emplace_back(-round_up(std::max<int64_t>(s.bytes.constant_value(), 1), alignment), i);
  }
  std::ranges::stable_sort(order, {}, &std::pair<int64_t, size_t>::first);
  Placement out{{plan.slots.size(), {-1, 0}}, plan.boundary_bytes};
  for (const auto& [less, i] : order) {
    const int64_t at = first_fit(placed, life, i, -less);
    placed.push_back({i, at, -less});
    size_t region = 0;
    while (region < regions.size() && at >= begins[region + 1]) ++region;
    const bool in_arena = region == regions.size();
    out.places[i] = {static_cast<int>(region),
                     at - begins[region] + (in_arena ? plan.boundary_bytes : 0)};
    if (in_arena) out.arena_bytes = std::max(out.arena_bytes, out.places[i].second - less);
  }
  return out;
}

}  // namespace hologram::schedule

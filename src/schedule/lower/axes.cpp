// schedule/lower/axes.cpp: merging and splitting the axes of a loop block, and the choice of its
// lanes.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <unordered_map>
#include <vector>

#include "schedule/lower/compared_axes.h"
#include "schedule/lower/lower.h"

namespace hologram::schedule {
namespace {

using atlas::Axis;
using atlas::AxisKind;
using atlas::LoopBlock;

void for_each_expr(LoopBlock& loop, const std::function<void(Expr&)>& f) {
  for (Axis& a : loop.axes) f(a.extent);
  for (auto& s : loop.stages)
    for (auto& i : s.body.instrs) f(i.expr);
}

// Replaces axis k by `with(k)` in every expression.
void substitute_axes(LoopBlock& loop, const std::function<Expr(int)>& with) {
  for_each_expr(loop, [&](Expr& e) {
    if (!e.has_axes()) return;
    e = e.substitute([&](const Atom& a) -> std::optional<Expr> {
      if (a.kind == Atom::Kind::axis) return with(a.id);
      return std::nullopt;
    });
  });
}

Expr axis_of(const LoopBlock& loop, size_t i) {
  return Expr::axis(static_cast<int>(i), loop.axes[i].extent);
}

// Whether some extent depends on axis k.
bool shapes_others(const LoopBlock& loop, size_t k) {
  return std::any_of(loop.axes.begin(), loop.axes.end(),
                     [&](const Axis& a) { return a.extent.has_axis(static_cast<int>(k)); });
}

void remove_units(LoopBlock& loop) {
  bool rows = std::any_of(loop.stages.begin(), loop.stages.end(),
                          [](const auto& s) { return s.kind != atlas::StageKind::point; });
  std::vector<Axis> kept;
  std::vector<int> place(loop.axes.size(), -1);
  size_t row_count = 0;
  for (size_t i = 0; i < loop.axes.size(); ++i) row_count += loop.axes[i].kind == AxisKind::row;
  for (size_t i = 0; i < loop.axes.size(); ++i) {
    bool row = loop.axes[i].kind == AxisKind::row;
    if (loop.axes[i].extent.is(1) && !(row && rows && row_count == 1)) {
      row_count -= row;
      loop.parallel_rank -= !row;
      continue;
    }
    place[i] = static_cast<int>(kept.size());
    kept.push_back(loop.axes[i]);
  }
  if (kept.size() == loop.axes.size()) return;
  loop.axes = std::move(kept);
  substitute_axes(loop, [&](int k) {
    int p = place[static_cast<size_t>(k)];
    return p < 0 ? Expr(0) : Expr::axis(p, loop.axes[static_cast<size_t>(p)].extent);
  });
}

// Whether the last axis, a short one, and the one before it are the halves of a line that is
// stored along both and read along the longer one: vectors of it are then interleaved by shuffles.
bool interleaves(const LoopBlock& loop, int64_t least_lanes) {
  int run = loop.parallel_rank - 1, line = run - 1;
  if (loop.stages.size() != 1 || loop.stages[0].kind != atlas::StageKind::point || line < 0)
    return false;
  const Expr& length = loop.axes[static_cast<size_t>(line)].extent;
  if (length.is_const() && length.constant_value() < least_lanes) return false;
  int stores = 0;
  for (const auto& i : loop.stages[0].body.instrs) {
    if (i.code == atlas::Code::clamp_index) return false;
    bool store = i.code == atlas::Code::store;
    if (!store && i.code != atlas::Code::load) continue;
    stores += store;
    auto along = i.expr.linear_in_axis(line), across = i.expr.linear_in_axis(run);
    if (!along) return false;
    bool read = along->first.is_const() && std::abs(along->first.constant_value()) <= 4;
    bool written = along->first == loop.axes[static_cast<size_t>(run)].extent && across &&
                   across->first.is(1) && size_of(i.type) >= 2;
    if (store ? !written : !read) return false;
  }
  return stores == 1;
}

// The quotients and remainders in a block's expressions, each once, in the order of the block.
std::vector<const Atom*> quotients_of(LoopBlock& loop) {
  std::vector<const Atom*> out;
  std::unordered_map<uint64_t, const Atom*> seen;
  for_each_expr(loop, [&](Expr& e) {
    if (!e.has_axes()) return;
    e.any_atom([&](const Atom& a) {
      if (a.kind != Atom::Kind::floor_div && a.kind != Atom::Kind::mod) return false;
      const auto [it, fresh] = seen.try_emplace(a.hash, &a);
      if (fresh || compare(*it->second, a) != 0) out.push_back(&a);
      return false;
    });
  });
  return out;
}

// A constant by which some expression divides axis k whole, or 0; an innermost axis keeps `lanes`.
int64_t wanted_split(const LoopBlock& loop, const std::vector<const Atom*>& quotients, size_t k,
                     bool runs, int64_t lanes) {
  const Expr& extent = loop.axes[k].extent;
  bool innermost = k + 1 == loop.axes.size() || k + 1 == static_cast<size_t>(loop.parallel_rank);
  for (const Atom* a : quotients) {
    auto along = a->a->linear_in_axis(static_cast<int>(k));
    if (!along || !along->first.is(1) || !along->second.is_const() || !a->b->is_const()) continue;
    if (!along->second.is(0) && !(innermost && runs)) continue;
    int64_t d = a->b->constant_value();
    if (d <= 1 || (innermost && d < lanes && !(runs && d <= 4)) || !extent.exact_div(Expr(d)))
      continue;
    return d;
  }
  return 0;
}

// `runs`: cut short runs off the innermost axis too.
bool split_once(LoopBlock& loop, bool runs, int64_t lanes) {
  if (loop.axes.size() >= 12) return false;
  const std::vector<const Atom*> quotients = quotients_of(loop);
  if (quotients.empty()) return false;
  for (size_t k = 0; k < loop.axes.size(); ++k) {
    if (shapes_others(loop, k)) continue;
    // A scan runs along one axis.
    if (loop.axes[k].kind == AxisKind::row && loop.stages.back().kind == atlas::StageKind::scan)
      continue;
    int64_t d = wanted_split(loop, quotients, k, runs, lanes);
    if (d == 0) continue;
    Expr outer = *loop.axes[k].extent.exact_div(Expr(d));
    AxisKind kind = loop.axes[k].kind;
    loop.axes[k].extent = outer;
    loop.axes.insert(loop.axes.begin() + static_cast<ptrdiff_t>(k) + 1, {kind, Expr(d)});
    loop.parallel_rank += kind == AxisKind::parallel;
    auto at = static_cast<int>(k);
    substitute_axes(loop, [&](int i) {
      if (i < at) return axis_of(loop, static_cast<size_t>(i));
      if (i > at) return axis_of(loop, static_cast<size_t>(i) + 1);
      return axis_of(loop, k) * Expr(d) + axis_of(loop, k + 1);
    });
    return true;
  }
  return false;
}

// Whether axes k and k + 1 only ever appear as extent(k + 1) * i<k> + i<k + 1>, times something.
bool mergeable(LoopBlock& loop, size_t k) {
  if (loop.axes[k].kind != loop.axes[k + 1].kind) return false;
  const Expr& inner = loop.axes[k + 1].extent;
  if (inner.has_axes() || loop.axes[k].extent.has_axes()) return false;
  auto i = static_cast<int>(k);
  bool ok = true;
  for_each_expr(loop, [&](Expr& e) {
    if (!ok || (!e.has_axis(i) && !e.has_axis(i + 1))) return;
    auto outer_part = e.linear_in_axis(i);
    if (!outer_part) {
      ok = false;
      return;
    }
    auto inner_part = outer_part->second.linear_in_axis(i + 1);
    ok = inner_part && !outer_part->first.has_axis(i + 1) &&
         outer_part->first == inner * inner_part->first;
  });
  return ok;
}

bool merge_once(LoopBlock& loop) {
  for (size_t k = 0; k + 1 < loop.axes.size(); ++k) {
    if (!mergeable(loop, k)) continue;
    AxisKind kind = loop.axes[k].kind;
    loop.axes[k].extent = loop.axes[k].extent * loop.axes[k + 1].extent;
    loop.axes.erase(loop.axes.begin() + static_cast<ptrdiff_t>(k) + 1);
    loop.parallel_rank -= kind == AxisKind::parallel;
    auto at = static_cast<int>(k);
    substitute_axes(loop, [&](int i) {
      if (i == at) return Expr(0);
      if (i == at + 1) return axis_of(loop, k);
      return axis_of(loop, static_cast<size_t>(i < at ? i : i - 1));
    });
    return true;
  }
  return false;
}

// The last two parallel axes as one where only comparisons keep them apart.
void merge_compared(LoopBlock& loop, const Machine& machine) {
  const int k = loop.parallel_rank - 2;
  if (k < 0) return;
  auto compared = with_places_compared(loop, k, machine);
  if (!compared || !mergeable(*compared, static_cast<size_t>(k))) return;
  loop = std::move(*compared);
  while (merge_once(loop)) {
  }
}

int64_t step_along(const Expr& e, int k) {
  auto part = e.linear_in_axis(k);
  return part && part->first.is_const() ? std::abs(part->first.constant_value()) : 0;
}

// Axes of a plain copy along which its load runs through memory, at least a few elements, the
// densest one last; empty if there are none. (The taps of a weight: 3 and 3.)
std::vector<int> along_memory(const LoopBlock& loop, const Expr& load, int64_t least_lanes) {
  constexpr int64_t enough = 8, least = 6;
  if (loop.stages.size() != 1 ||
      std::ranges::count(loop.stages[0].body.instrs, atlas::Code::load, &atlas::Instr::code) != 1)
    return {};
  // A short last axis may yet merge with the one before it.
  const Expr& lanes = loop.axes[static_cast<size_t>(loop.parallel_rank) - 1].extent;
  if (!lanes.is_const() || lanes.constant_value() < least_lanes) return {};
  std::vector<int> out;
  int64_t reach = 1;
  for (bool found = true; found && reach < enough;) {
    found = false;
    for (int k = 0; k + 1 < loop.parallel_rank && !found; ++k) {
      found = step_along(load, k) == reach && !std::ranges::count(out, k);
      if (!found) continue;
      out.insert(out.begin(), k);
      reach *= loop.axes[static_cast<size_t>(k)].extent.constant_value();
    }
  }
  return reach < least ? std::vector<int>{} : out;
}

// Where the lanes of a load lie apart and what lies between them belongs to other, short axes (the
// taps of a weight), these go just outside of the lanes: the cache lines are then still near. The
// same for the axes along memory of a copy whose lanes lie farther apart: it is turned over in
// squares.
void gather_nearby(LoopBlock& loop, int64_t least_lanes) {
  constexpr int64_t most = 64;
  int lane = loop.parallel_rank - 1;
  if (loop.parallel_rank != static_cast<int>(loop.axes.size()) || lane < 2) return;
  for (const Axis& a : loop.axes)
    if (!a.extent.is_const()) return;
  for (const auto& s : loop.stages)
    for (const auto& i : s.body.instrs) {
      if (i.code != atlas::Code::load) continue;
      int64_t apart = step_along(i.expr, lane), between = 1;
      if (apart < 2) continue;
      std::vector<int> order;  // of the axes before the lanes
      std::vector<int> inner =
          apart > most ? along_memory(loop, i.expr, least_lanes) : std::vector<int>{};
      for (int k = 0; k < lane; ++k) {
        int64_t step = step_along(i.expr, k);
        bool near = apart <= most && step > 0 && step < apart;
        if (near) between *= loop.axes[static_cast<size_t>(k)].extent.constant_value();
        if (near) inner.push_back(k);
        if (!std::ranges::count(inner, k)) order.push_back(k);
      }
      if (inner.empty() || order.empty() || between > apart) continue;
      if (inner.front() > order.back() && std::ranges::is_sorted(inner)) continue;
      order.insert(order.end(), inner.begin(), inner.end());
      std::vector<Axis> axes = loop.axes;
      std::vector<int> place(loop.axes.size(), lane);
      for (size_t to = 0; to < order.size(); ++to) {
        loop.axes[to] = axes[static_cast<size_t>(order[to])];
        place[static_cast<size_t>(order[to])] = static_cast<int>(to);
      }
      substitute_axes(loop, [&](int k) {
        return axis_of(loop, static_cast<size_t>(place[static_cast<size_t>(k)]));
      });
      return;
    }
}

// How well memory is walked along axis k.
int contiguity(const LoopBlock& loop, int k) {
  int score = 0;
  for (const auto& s : loop.stages)
    for (const auto& i : s.body.instrs) {
      if (i.code != atlas::Code::load && i.code != atlas::Code::store) continue;
      if (!i.expr.has_axis(k)) continue;
      auto part = i.expr.linear_in_axis(k);
      score += part && part->first.is(1) ? 2 : -2;
    }
  return score;
}

// Whether rows along axis `row` are so short that lanes along axis `point` fill more of a vector
// and are still picked from whole vectors.
bool interleaves_rows(const LoopBlock& loop, int row, int point, int64_t least_lanes) {
  // One row of four is a vector of its own; rows of rows are walked element by element.
  bool nested = static_cast<int>(loop.axes.size()) - loop.parallel_rank > 1;
  const int64_t longest = nested ? 4 : 3, apart = 4;
  auto known = [&](int axis) {
    const Expr& extent = loop.axes[static_cast<size_t>(axis)].extent;
    return extent.is_const() ? extent.constant_value() : 0;
  };
  if (known(row) == 0 || known(row) > longest || known(point) < least_lanes) return false;
  for (const auto& s : loop.stages)
    for (const auto& i : s.body.instrs) {
      bool memory = i.code == atlas::Code::load || i.code == atlas::Code::store;
      if (!memory || !i.expr.has_axis(point)) continue;
      int64_t step = step_along(i.expr, point);
      if (step < 1 || step > apart) return false;
    }
  return true;
}

void choose_lanes(LoopBlock& loop, int64_t least_lanes) {
  bool serial = false, rows = false, running = false;
  for (const auto& s : loop.stages) {
    running |= !s.running.empty();
    serial |= s.kind == atlas::StageKind::serial_row;
    rows |= s.kind == atlas::StageKind::row;
    if (s.kind == atlas::StageKind::scan) {
      loop.lane_axis = static_cast<int>(loop.axes.size()) - 1;
      return;
    }
  }
  int last_parallel = loop.parallel_rank - 1;
  int last_row = rows && !serial ? static_cast<int>(loop.axes.size()) - 1 : -1;
  loop.lane_axis = last_parallel;
  // Scattered elements that lie apart are written one after the other along memory, not by lanes.
  if (serial && !running && last_parallel >= 0 && contiguity(loop, last_parallel) < 0) {
    loop.lane_axis = -1;
    return;
  }
  // Lanes are points of equal rows: an axis that a row's extent depends on cannot be cut into them.
  for (size_t k = static_cast<size_t>(loop.parallel_rank); k < loop.axes.size(); ++k)
    if (last_parallel >= 0 && loop.axes[k].extent.has_axis(last_parallel)) {
      loop.lane_axis = last_row;
      return;
    }
  if (last_row < 0 || static_cast<size_t>(last_row) < static_cast<size_t>(loop.parallel_rank))
    return;
  if (last_parallel >= 0 && interleaves_rows(loop, last_row, last_parallel, least_lanes)) return;
  if (last_parallel < 0 || contiguity(loop, last_row) >= contiguity(loop, last_parallel))
    loop.lane_axis = last_row;
}

}  // namespace

void simplify_axes(LoopBlock& loop, const Machine& machine) {
  const int64_t lanes = machine.vector;
  remove_units(loop);
  for (int round = 0; round < 8 && split_once(loop, false, lanes); ++round) {
  }
  LoopBlock cut = loop;
  if (split_once(cut, true, lanes) && interleaves(cut, lanes)) loop = std::move(cut);
  remove_units(loop);
  gather_nearby(loop, lanes);
  while (merge_once(loop)) {
  }
  merge_compared(loop, machine);
  choose_lanes(loop, lanes);
}

}  // namespace hologram::schedule

// emulator/async.cpp: mbarriers, fences for what runs beside the threads, and copies from
// global memory by tensor maps.
#include <cstring>

#include "emulator/state.h"

namespace ptx {

// Does something of what is under way, if there is anything; unless `forced` only now and then.
bool Machine::State::run_late(bool forced) {
  if (!forced && chance() % 8 != 0) return false;
  std::vector<uint32_t> ready;
  for (uint32_t g = 0; g < groups.size(); ++g)
    if (may_run(groups[g])) ready.push_back(g);
  const size_t all = ready.size() + copies.size();
  if (all == 0) return false;
  const size_t n = chance() % all;
  if (n < ready.size()) {
    run_product(ready[n]);
  } else {
    const auto which = copies.begin() + static_cast<std::ptrdiff_t>(n - ready.size());
    const Copy c = std::move(*which);
    copies.erase(which);
    run_copy(c);
  }
  return true;
}

void Machine::State::fence(Warp& w, const Instr& i, uint32_t on) {
  const bool made = i.has("mbarrier_init"), proxy = i.has("proxy") && i.has("async");
  if (!made && !proxy) fault("a fence that this machine does not know", w, std::countr_zero(on));
  each_lane(on, [&](int l) {
    const uint32_t thread = w.first + static_cast<uint32_t>(l);
    if (proxy) published[thread] = w.clock;
    for (auto& [address, b] : mbarriers)
      if (b.maker == thread) b.fenced = true;
  });
  ++w.clock;
}

Mbarrier& Machine::State::find_mbarrier(uint64_t address, const Warp& w, int lane) {
  const auto found = mbarriers.find(address);
  if (found == mbarriers.end()) fault("there is no mbarrier", w, lane);
  Mbarrier& b = found->second;
  const Stamp made{cta, b.maker, 1, b.made};
  if (!ordered(made, actor(w, lane))) fault("an mbarrier that may not be made yet", w, lane);
  return b;
}

void Machine::State::complete(Mbarrier& b) {
  if (b.pending != 0 || b.bytes != 0) return;
  b.phase = !b.phase;
  b.released = b.gathered;
  b.pending = b.count;
  happened = true;
}

uint32_t Machine::State::use_mbarrier(Warp& w, const Instr& i, uint32_t on) {
  begin_accesses();
  const std::string& how = i.mods.empty() ? i.op : i.mods[0];
  const int first = std::countr_zero(on);
  auto address_of = [&](const Operand& o, int l) {
    const Place p = place(w, i, o, l);
    if (p.space != Space::shared || p.address % 8 != 0 || p.address + 8 > shared.size())
      fault("an mbarrier outside of shared memory", w, l);
    return p.address;
  };
  if (how == "init") {
    each_lane(on, [&](int l) {
      const uint64_t a = address_of(i.operands[0], l);
      for (uint64_t b = a; b < a + 8; ++b) {
        note(shared[b].shadow, true, actor(w, l), "shared", w.first + static_cast<uint32_t>(l));
        shared[b].shadow.barrier = true;
      }
      Mbarrier& b = mbarriers[a];
      b.count = static_cast<uint32_t>(checked(w, i.operands[1], l));
      if (b.count == 0) fault("an mbarrier for nobody", w, l);
      b.pending = b.count;
      b.maker = w.first + static_cast<uint32_t>(l);
      b.made = w.clock;
      b.agent = first_barrier_agent + static_cast<uint32_t>(mbarriers.size()) - 1;
    });
    return 0;
  }
  if (how == "arrive") {
    const bool expects = i.has("expect_tx");
    if (i.operands[0].reg != nowhere || i.operands.size() != (expects ? 3 : 2))
      fault("an arrival that this machine does not know", w, first);
    each_lane(on, [&](int l) {
      Mbarrier& b = find_mbarrier(address_of(i.operands[1], l), w, l);
      if (b.pending == 0) fault("more arrivals than the mbarrier waits for", w, l);
      if (expects) b.bytes += static_cast<int64_t>(checked(w, i.operands[2], l));
      --b.pending;
      b.gathered.join(knowledge(w, 1u << l));
      complete(b);
    });
    ++w.clock;
    return 0;
  }
  const bool tries = how == "try_wait";
  if ((!tries && how != "test_wait") || !i.has("parity") || i.operands.size() != 3)
    fault("an operation on an mbarrier that this machine does not know", w, first);
  // Waiting may end early, for no reason.
  const bool early = chance() % 16 == 0;
  uint32_t passed = 0;
  const Mbarrier* one = nullptr;
  bool same = true;
  each_lane(on, [&](int l) {
    Mbarrier& b = find_mbarrier(address_of(i.operands[1], l), w, l);
    const uint64_t parity = checked(w, i.operands[2], l);
    if (parity > 1) fault("a parity that is neither 0 nor 1", w, l);
    const bool over = !early && (parity != 0) != b.phase;
    if (over) passed |= 1u << l;
    same = same && (!one || one == &b);
    one = &b;
    set(w, i.operands[0], l, over);
  });
  if (same && passed == on)
    learn(w, on, one->released);
  else
    each_lane(passed, [&](int l) {
      learn(w, 1u << l, find_mbarrier(address_of(i.operands[1], l), w, l).released);
    });
  wrote(w, i.operands[0].reg, on);
  return early ? 0 : on & ~passed;
}

// cp.async.bulk.tensor: from a box of a tensor map to shared memory.
void Machine::State::begin_copy(Warp& w, const Instr& i, uint32_t on) {
  const int first = std::countr_zero(on);
  const size_t rank = i.mods.size() > 3 && i.mods[3].size() == 2 && i.mods[3][1] == 'd'
                          ? static_cast<size_t>(i.mods[3][0] - '0')
                          : 0;
  const std::vector<int> wanted{1, static_cast<int>(rank) + 1, 1};
  if (rank < 1 || rank > 5 || i.groups != wanted || !i.has("shared::cluster") || !i.has("global") ||
      !i.has("mbarrier::complete_tx::bytes"))
    fault("a copy that this machine does not know", w, first);
  each_lane(on, [&](int l) {
    Copy c{&i, w.first + static_cast<uint32_t>(l), {}, 0, 0, {}, 0, 0, {}};
    c.to = checked(w, i.operands[0], l);
    const uint64_t map = checked(w, i.operands[1], l);
    const uint64_t offset = map & ~parameter_window;
    if (!(map & parameter_window) || offset % 64 != 0 || offset + 128 > launch->parameters.size())
      fault("a tensor map that is no parameter, or not aligned", w, l);
    std::memcpy(&c.map, launch->parameters.data() + offset, sizeof c.map);
    if (c.map.mark != tensor_map_mark || c.map.rank != rank)
      fault("no tensor map of this rank", w, l);
    for (size_t d = 0; d < rank; ++d)
      c.at[d] = static_cast<int32_t>(checked(w, i.operands[2 + d], l));
    c.barrier = checked(w, i.operands[2 + rank], l);
    Mbarrier& b = find_mbarrier(c.barrier, w, l);
    if (!b.fenced) fault("a copy to an mbarrier that was made without a fence", w, l);
    if (c.to % 128 != 0) fault("a copy to an address that is not aligned", w, l);
    c.agent = b.agent;
    c.number = ++b.copies;
    c.known = knowledge(w, 1u << l);
    copies.push_back(std::move(c));
  });
  ++w.clock;
}

void Machine::State::run_copy(const Copy& c) {
  begin_accesses();
  at = c.instr;
  const Actor me{c.agent, false, c.number, &c.known, nullptr};
  const TensorMap& map = c.map;
  std::array<uint32_t, 5> box{};  // the row's coordinates in the box
  const uint64_t row_bytes = uint64_t{map.box[0]} * map.element;
  uint64_t offset = 0;
  std::vector<uint8_t> row(row_bytes);
  while (true) {
    // Elements [low, high) of the row are there; others are zeros.
    bool inside = true;
    uint64_t from = map.address;
    for (int d = 1; d < map.rank; ++d) {
      const auto which = static_cast<size_t>(d);
      const int64_t x = int64_t{c.at[which]} + box[which];
      inside = inside && x >= 0 && static_cast<uint64_t>(x) < map.size(d);
      from += static_cast<uint64_t>(x) * map.stride(d);
    }
    const int64_t x = c.at[0], size = static_cast<int64_t>(map.size(0));
    const int64_t low = std::clamp<int64_t>(-x, 0, map.box[0]);
    const int64_t high = inside ? std::clamp<int64_t>(size - x, low, map.box[0]) : low;
    std::fill(row.begin(), row.end(), uint8_t{0});
    if (high > low) {
      const auto bytes = static_cast<size_t>(high - low) * map.element;
      from += static_cast<uint64_t>(x + low) * map.element;
      const uint8_t* source = blocks.find(from, bytes);
      if (!source) fault_of("a copy from outside of global memory", c.thread, c.instr);
      for (size_t b = 0; b < bytes; ++b) note(shadow(from + b), false, me, "global", c.thread);
      std::memcpy(row.data() + static_cast<size_t>(low) * map.element, source, bytes);
    }
    for (uint64_t b = 0; b < row_bytes; ++b)
      reach(swizzled(c.to + offset + b, map.swizzle), true, me, c.thread).value = row[b];
    offset += row_bytes;
    int d = 1;
    while (d < map.rank && ++box[static_cast<size_t>(d)] == map.box[d])
      box[static_cast<size_t>(d++)] = 0;
    if (d >= map.rank) break;
  }
  Mbarrier& b = mbarriers.at(c.barrier);
  b.bytes -= static_cast<int64_t>(map.box_bytes());
  b.gathered.raise(c.agent, c.number);
  complete(b);
}

}  // namespace ptx

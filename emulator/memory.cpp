// emulator/memory.cpp: memory, and who may touch it when.
#include <cstring>

#include "emulator/state.h"

namespace ptx {

Actor Machine::State::actor(const Warp& w, int lane) const {
  const Clocks& more = w.more[static_cast<size_t>(lane)];
  return {w.first + static_cast<uint32_t>(lane), true, w.clock, &w.known,
          more.empty() ? nullptr : &more};
}

// What these lanes know together, their own accesses up to now included.
Clocks Machine::State::knowledge(const Warp& w, uint32_t lanes) const {
  Clocks all = w.known;
  each_lane(lanes, [&](int l) {
    all.join(w.more[static_cast<size_t>(l)]);
    all.raise(w.first + static_cast<uint32_t>(l), w.clock);
  });
  return all;
}

void Machine::State::learn(Warp& w, uint32_t lanes, const Clocks& news) {
  if (lanes == w.live) return w.known.join(news);
  each_lane(lanes, [&](int l) { w.more[static_cast<size_t>(l)].join(news); });
}

// These lanes have waited for each other.
void Machine::State::sync_lanes(Warp& w, uint32_t members) {
  const Clocks all = knowledge(w, members);
  learn(w, members, all);
  if (members == w.live)
    for (Clocks& more : w.more) more.clear();
  ++w.clock;
}

Machine::State::Place Machine::State::place(const Warp& w, const Instr& i, const Operand& base,
                                            int lane) const {
  if (base.reg >= 0) read_check(w, base.reg, 1u << lane);
  uint64_t a = value(w, base, lane) + static_cast<uint64_t>(i.offset);
  if (base.reg >= 0) a = masked(a, launch->kernel.widths[static_cast<size_t>(base.reg)]);
  Space s = i.space;
  if (s == Space::constant) s = Space::global;
  if (s == Space::generic) {
    s = Space::global;
    if (a & local_window)
      s = Space::local, a &= ~local_window;
    else if (a & shared_window)
      s = Space::shared, a &= ~shared_window;
    else if (a & parameter_window)
      s = Space::parameter, a &= ~parameter_window;
  }
  return {s, a};
}

Shadow& Machine::State::shadow(uint64_t address) {
  auto& [number, page] = last_page;
  if (!page || number != address >> 12) {
    number = address >> 12;
    page = &pages[number];
    if (page->empty()) page->resize(4096);
  }
  return (*page)[address & 4095];
}

// Whether what was done is behind what `me` does now.
bool Machine::State::ordered(const Stamp& s, const Actor& me) const {
  if (s.cta != cta) return false;
  for (uint32_t mask = s.mask; mask; mask &= mask - 1) {
    const uint32_t agent = s.agent + static_cast<uint32_t>(std::countr_zero(mask));
    const bool own = me.thread && agent == me.agent;
    if (!own && s.clock > (*me.known)[agent] && !(me.more && s.clock <= (*me.more)[agent]))
      return false;
  }
  return true;
}

void Machine::State::note(Shadow& s, bool writes, const Actor& me, const char* where,
                          uint32_t thread) {
  if (noted.known && noted.writes == writes && noted.by == me && noted.before == s) {
    s = noted.after;
    return;
  }
  noted = {false, writes, me, s, {}};
  judge(s, writes, me, where, thread);
  noted.after = s;
  noted.known = true;
}

void Machine::State::judge(Shadow& s, bool writes, const Actor& me, const char* where,
                           uint32_t thread) {
  if (s.run != run) {
    s = {};
    s.run = run;
  }
  if (s.barrier) fault_of("an access to an mbarrier's bytes", thread, at);
  auto race = [&](const Stamp& other, const char* what) {
    std::string who;
    if (other.agent >= first_barrier_agent)
      who = "a copy";
    else if (other.agent >= first_group_agent)
      who = "a product of warpgroup " +
            std::to_string((other.agent - first_group_agent) / group_warps);
    else
      who = "thread " +
            std::to_string(other.agent + static_cast<uint32_t>(std::countr_zero(other.mask)));
    fault_of(std::string("a race in ") + where + " memory: " + who + " of CTA " +
                 std::to_string(other.cta) + " " + what + " the byte too",
             thread, at);
  };
  if (s.writer.mask && !ordered(s.writer, me)) race(s.writer, "writes");
  const uint32_t lane = me.thread ? me.agent % warp_size : 0;
  const Stamp now{cta, me.agent - lane, me.mask << lane, me.clock};
  if (writes) {
    for (const Stamp& r : s.readers)
      if (r.mask && !ordered(r, me)) race(r, "reads");
    if (s.many_readers && (s.many_barrier == barriers || s.readers[0].cta != cta))
      race(s.readers[0], "and others read");
    s.writer = now;
    s.by_thread = me.thread;
    for (Stamp& r : s.readers) r = {};
    s.many_readers = false;
    return;
  }
  for (Stamp& r : s.readers) {
    const bool same = r.mask && r.cta == now.cta && r.agent == now.agent;
    if (same && r.clock == now.clock) {
      r.mask |= now.mask;
      return;
    }
    if (same || !r.mask || ordered(r, me)) {
      r = now;
      return;
    }
  }
  s.many_readers = true;
  s.many_barrier = barriers;
}

Byte& Machine::State::reach(uint64_t address, bool writes, const Actor& me, uint32_t thread) {
  if (address >= shared.size())
    fault_of("a copy or a product outside of shared memory", thread, at);
  Byte& byte = shared[address];
  Shadow& s = byte.shadow;
  if (s.run == run && s.writer.mask && s.by_thread) {
    const uint32_t writer = s.writer.agent + static_cast<uint32_t>(std::countr_zero(s.writer.mask));
    if (ordered(s.writer, me) && published[writer] < s.writer.clock)
      fault_of("what thread " + std::to_string(writer) +
                   " wrote is reached past it without fence.proxy.async",
               thread, at);
  }
  note(s, writes, me, "shared", thread);
  if (!writes && !byte.written) fault_of("shared memory is read before it is written", thread, at);
  byte.written = true;
  return byte;
}

template <class F>
void Machine::State::access(Warp& w, const Instr& i, const Place& p, int lane, int bytes,
                            bool writes, F&& f) {
  const int whole = bytes * i.vector;
  if (p.address % static_cast<uint64_t>(whole) != 0) fault("a misaligned access", w, lane);
  const auto size = static_cast<size_t>(whole);
  const Actor me = actor(w, lane);
  const uint32_t thread = me.agent;
  if (p.space == Space::global) {
    uint8_t* at_host = blocks.find(p.address, size);
    if (!at_host) fault("an access outside of global memory", w, lane);
    if (!i.has("volatile"))
      for (size_t b = 0; b < size; ++b) note(shadow(p.address + b), writes, me, "global", thread);
    return f(at_host);
  }
  auto& memory = p.space == Space::shared ? shared : w.local;
  const uint64_t limit =
      p.space == Space::shared ? shared.size() : static_cast<uint64_t>(launch->kernel.local_bytes);
  if (p.space == Space::parameter || p.address + size > limit || p.address + size < p.address)
    fault(p.space == Space::shared  ? "an access outside of shared memory"
          : p.space == Space::local ? "an access outside of local memory"
                                    : "an access to a parameter by its address",
          w, lane);
  Byte* first = memory.data() + p.address +
                (p.space == Space::local ? limit * static_cast<uint64_t>(lane) : 0);
  uint8_t copy[64];
  for (size_t b = 0; b < size; ++b) {
    if (p.space == Space::shared) note(first[b].shadow, writes, me, "shared", thread);
    if (!writes && !first[b].written)
      fault(p.space == Space::shared ? "shared memory is read before it is written"
                                     : "local memory is read before it is written",
            w, lane);
    copy[b] = first[b].value;
  }
  f(copy);
  if (writes)
    for (size_t b = 0; b < size; ++b) first[b].value = copy[b], first[b].written = true;
}

void Machine::State::load(Warp& w, const Instr& i, uint32_t on) {
  begin_accesses();
  const int bytes = i.type.bits / 8;
  const Operand& base = i.operands.back();
  for (int v = 0; v < i.vector; ++v) free_check(w, i.operands[static_cast<size_t>(v)].reg);
  each_lane(on, [&](int l) {
    auto take = [&](const uint8_t* from) {
      for (int v = 0; v < i.vector; ++v) {
        uint64_t x = 0;
        std::memcpy(&x, from + v * bytes, static_cast<size_t>(bytes));
        if (i.type.is_signed() && bytes < 8)
          x = static_cast<uint64_t>(static_cast<int64_t>(x << (64 - 8 * bytes)) >>
                                    (64 - 8 * bytes));
        set(w, i.operands[static_cast<size_t>(v)], l, x);
      }
    };
    if (i.space == Space::parameter) {
      const uint64_t a = base.imm + static_cast<uint64_t>(i.offset);
      if (base.reg >= 0 || a + static_cast<uint64_t>(bytes * i.vector) > launch->parameters.size())
        fault("a read outside of the parameters", w, l);
      return take(launch->parameters.data() + a);
    }
    access(w, i, place(w, i, base, l), l, bytes, false, take);
  });
  for (int v = 0; v < i.vector; ++v) wrote(w, i.operands[static_cast<size_t>(v)].reg, on);
}

void Machine::State::store(Warp& w, const Instr& i, uint32_t on) {
  begin_accesses();
  const int bytes = i.type.bits / 8;
  for (size_t v = 1; v < i.operands.size(); ++v)
    if (i.operands[v].reg >= 0) read_check(w, i.operands[v].reg, on);
  each_lane(on, [&](int l) {
    access(w, i, place(w, i, i.operands[0], l), l, bytes, true, [&](uint8_t* to) {
      for (int v = 0; v < i.vector; ++v) {
        const uint64_t x = value(w, i.operands[static_cast<size_t>(v) + 1], l);
        std::memcpy(to + v * bytes, &x, static_cast<size_t>(bytes));
      }
    });
  });
}

// ldmatrix.x1, x2 or x4: lane 8 n + r gives the address of row r of matrix n.
void Machine::State::load_matrices(Warp& w, const Instr& i, uint32_t on) {
  begin_accesses();
  whole_warp(w, on);
  const size_t count = i.has("x4") ? 4 : i.has("x2") ? 2 : 1;
  if (!i.has("m8n8") || i.type.bits != 16 || i.operands.size() != count + 1)
    fault("a load of matrices that this machine does not know", w, 0);
  std::array<std::array<uint16_t, 8>, warp_size> rows{};
  Instr wide = i;
  wide.vector = 1;
  for (int l = 0; l < static_cast<int>(8 * count); ++l) {
    Place p = place(w, i, i.operands.back(), l);
    if (p.space != Space::shared) fault("a matrix outside of shared memory", w, l);
    access(w, wide, p, l, 16, false, [&](const uint8_t* from) {
      std::memcpy(rows[static_cast<size_t>(l)].data(), from, 16);
    });
  }
  const bool turned = i.has("trans");
  for (size_t n = 0; n < count; ++n) {
    for (int l = 0; l < warp_size; ++l) {
      auto element = [&](int row, int column) {
        return uint32_t{rows[8 * n + static_cast<size_t>(row)][static_cast<size_t>(column)]};
      };
      const int major = l / 4, minor = l % 4 * 2;
      const uint32_t low = turned ? element(minor, major) : element(major, minor);
      const uint32_t high = turned ? element(minor + 1, major) : element(major, minor + 1);
      set(w, i.operands[n], l, low | high << 16);
    }
    wrote(w, i.operands[n].reg, on);
  }
}

}  // namespace ptx

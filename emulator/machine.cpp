// emulator/machine.cpp: launches, CTAs, warps and their barriers; values are in
// values.cpp, memory is in memory.cpp.
#include "emulator/machine.h"

#include <algorithm>

#include "emulator/state.h"
#include "emulator/values.h"

namespace ptx {
namespace {

constexpr int64_t most_shared = 227 << 10;     // of a CTA, in bytes
constexpr uint32_t most_registers = 64 << 10;  // of a multiprocessor

}  // namespace

void Machine::State::fault_of(const std::string& what, uint32_t thread, const Instr* where) const {
  std::string text = what + ", in " + launch->kernel.name + " thread " + std::to_string(thread) +
                     " of CTA " + std::to_string(cta);
  if (where) text += ", line " + std::to_string(where->line) + ": " + where->op;
  if (where)
    for (const std::string& m : where->mods) text += "." + m;
  throw Fault(text);
}

void Machine::State::fault(const std::string& what, const Warp& w, int lane) const {
  fault_of(what, w.first + static_cast<uint32_t>(lane), at);
}

void Machine::State::run_launch() {
  const Kernel& k = launch->kernel;
  if (launch->block.count() > static_cast<uint64_t>(k.max_threads))
    throw Fault("a CTA of more threads than .maxntid says");
  if (launch->shared_bytes > 0 && !k.dynamic_shared)
    throw Fault("shared memory for a kernel that takes none with its launch");
  if (k.own_shared_bytes + launch->shared_bytes > most_shared)
    throw Fault("a CTA with more shared memory than there is");
  ++run;
  std::vector<uint32_t> order(launch->grid.count());
  for (size_t n = 0; n < order.size(); ++n) order[n] = static_cast<uint32_t>(n);
  std::shuffle(order.begin(), order.end(), chance);
  for (uint32_t n : order) run_cta(n);
  at = nullptr;
}

void Machine::State::start_warp(Warp& w, uint32_t number) {
  const Kernel& k = launch->kernel;
  const Dim3 b = launch->block, g = launch->grid;
  const auto threads = static_cast<uint32_t>(b.count());
  w.number = number;
  w.first = number * warp_size;
  const uint32_t lanes = std::min<uint32_t>(threads - w.first, warp_size);
  w.live = lanes == warp_size ? all_lanes : (1u << lanes) - 1;
  w.waiting = w.at_barrier = w.stalled = 0;
  w.pc.fill(0);
  w.values.assign(k.widths.size() * warp_size, 0);
  w.written.assign(k.widths.size(), 0);
  w.local.assign(static_cast<size_t>(k.local_bytes) * warp_size, {});
  w.clock = 1;
  w.known.reset(first_barrier_agent);
  for (Clocks& more : w.more) more.clear();
  w.fenced = false;
  w.touched.assign(k.widths.size(), 0);
  w.flight.assign(k.widths.size(), 0);
  w.products = w.waited = 0;
  w.groups.clear();
  w.registers = most_registers / threads / 8 * 8;
  for (uint32_t l = 0; l < warp_size; ++l) {
    const uint32_t t = w.first + l;
    const uint32_t values[specials] = {t % b.x,   t / b.x % b.y,   t / b.x / b.y,   b.x, b.y, b.z,
                                       cta % g.x, cta / g.x % g.y, cta / g.x / g.y, g.x, g.y, g.z,
                                       l};
    for (size_t s = 0; s < specials; ++s) w.values[s * warp_size + l] = values[s];
  }
  for (size_t s = 0; s < specials; ++s) w.written[s] = all_lanes;
}

void Machine::State::run_cta(uint32_t number) {
  cta = number;
  barriers = 0;
  const Kernel& k = launch->kernel;
  shared.assign(static_cast<size_t>(k.shared_bytes + launch->shared_bytes), {});
  const auto count = (launch->block.count() + warp_size - 1) / warp_size;
  first_group_agent = static_cast<uint32_t>(count) * warp_size;
  groups.assign(launch->block.count() % (group_warps * warp_size) == 0 ? count / group_warps : 0,
                {});
  first_barrier_agent = first_group_agent + static_cast<uint32_t>(groups.size()) * group_warps;
  published.assign(first_group_agent, 0);
  mbarriers.clear();
  named.clear();
  copies.clear();
  warps.resize(count);
  for (uint32_t n = 0; n < count; ++n) start_warp(warps[n], n);
  free_registers = most_registers - static_cast<uint32_t>(count) * warp_size * warps[0].registers;
  std::vector<Warp*> ready;
  while (true) {
    if (happened)
      for (Warp& w : warps) w.stalled = 0;
    happened = false;
    ready.clear();
    bool live = false, stalled = false;
    for (Warp& w : warps) {
      live = live || w.live;
      stalled = stalled || w.stalled;
      const uint32_t able = w.live & ~w.at_barrier & ~w.stalled;
      if (able & ~w.waiting || (able && !w.stalled)) ready.push_back(&w);
    }
    if (!live) return finish_cta();
    if (run_late(ready.empty())) continue;
    if (!ready.empty()) {
      turn(*ready[chance() % ready.size()], 1 + chance() % 200);
      continue;
    }
    for (Warp& w : warps)
      if (stalled && w.stalled)
        fault("waiting for what never comes", w, std::countr_zero(w.stalled));
    for (const auto& [id, b] : named)
      for (const auto& [warp, lanes] : b.waiting)
        fault("waiting for what never comes", warps[warp], std::countr_zero(lanes));
    open_barrier();
  }
}

void Machine::State::finish_cta() {
  for (const Copy& c : copies) fault_of("a CTA ends while a copy is under way", c.thread, c.instr);
  for (const Warpgroup& g : groups)
    for (const Product& p : g.products)
      fault_of(may_run(g) ? "a CTA ends while a product is under way"
                          : "a product that some warps of the group never begin",
               0, p.instr);
  for (const Warp& w : warps)
    if (w.waited < w.products) fault("a warp ends without waiting for its products", w, 0);
}

// All live threads stand at a barrier: they go on, if it is one for as many as the CTA has.
void Machine::State::open_barrier() {
  for (Warp& w : warps) {
    const uint32_t lanes =
        std::min<uint32_t>(static_cast<uint32_t>(launch->block.count()) - w.first, warp_size);
    if (std::popcount(w.live) != static_cast<int>(lanes))
      fault("a barrier that other threads never reach: they have ended", w, 0);
  }
  int where = -1;
  Clocks all;
  for (Warp& w : warps) {
    each_lane(w.live, [&](int l) {
      if (where >= 0 && w.pc[static_cast<size_t>(l)] != where)
        fault("threads wait at different barriers", w, l);
      where = w.pc[static_cast<size_t>(l)];
    });
    all.join(knowledge(w, w.live));
  }
  ++barriers;
  for (Warp& w : warps) {
    w.known = all;
    for (Clocks& more : w.more) more.clear();
    ++w.clock;
    w.at_barrier = 0;
  }
}

// Runs a warp for some instructions, or until it waits for others.
void Machine::State::turn(Warp& w, uint64_t steps) {
  while (steps > 0) {
    const uint32_t able = w.live & ~w.at_barrier & ~w.waiting & ~w.stalled;
    if (!able) {
      if (w.waiting && !w.stalled)
        fault("a warp waits for lanes that never come", w, std::countr_zero(w.waiting));
      return;
    }
    int pc = std::numeric_limits<int>::max(), next = pc;
    each_lane(able, [&](int l) { pc = std::min(pc, w.pc[static_cast<size_t>(l)]); });
    uint32_t mask = 0;
    each_lane(able, [&](int l) {
      const int here = w.pc[static_cast<size_t>(l)];
      if (here == pc)
        mask |= 1u << l;
      else
        next = std::min(next, here);
    });
    steps -= std::min<uint64_t>(steps, together(w, mask, pc, next, steps));
  }
}

// Runs these lanes from `pc` on, until they part, wait or come to where others stand.
uint64_t Machine::State::together(Warp& w, uint32_t mask, int pc, int next, uint64_t steps) {
  const auto& code = launch->kernel.code;
  uint64_t done = 0;
  auto leave = [&](int there) {
    each_lane(mask, [&](int l) { w.pc[static_cast<size_t>(l)] = there; });
    return done;
  };
  while (true) {
    if (pc >= static_cast<int>(code.size())) fault("the code ends without ret", w, 0);
    const Instr& i = code[static_cast<size_t>(pc)];
    at = &i;
    ++executed;
    ++done;
    uint32_t on = mask;
    if (i.guard >= 0) {
      read_check(w, i.guard, mask);
      on = 0;
      each_lane(mask, [&](int l) {
        const bool p = w.values[static_cast<size_t>(i.guard) * warp_size + static_cast<size_t>(l)];
        if (p != i.guard_not) on |= 1u << l;
      });
    }
    switch (i.code) {
      case code_bra:
        if (on == mask) {
          pc = i.target;
        } else if (on == 0) {
          ++pc;
        } else {
          leave(pc + 1);
          each_lane(on, [&](int l) { w.pc[static_cast<size_t>(l)] = i.target; });
          return done;
        }
        if (done >= steps || pc >= next || i.target <= static_cast<int>(&i - code.data()))
          return leave(pc);
        continue;
      case code_ret:
        w.live &= ~on;
        if (on == mask) return leave(pc);
        mask &= ~on;
        return leave(pc + 1);
      case code_bar:
        if (on != mask) fault("a barrier under a condition", w, std::countr_zero(mask));
        leave(pc + 1);
        if (whole_barrier(i))
          w.at_barrier |= mask;
        else
          pass_named(w, i, mask);
        return done;
      case code_mbarrier:
        if (on)
          if (const uint32_t late = use_mbarrier(w, i, on)) {
            leave(pc + 1);
            w.stalled |= late;
            return done;
          }
        if (++pc >= next || done >= steps) return leave(pc);
        continue;
      case code_wgmma:
      case code_setmaxnreg:
        if (i.code == code_wgmma ? !use_wgmma(w, i, on) : !set_registers(w, i, on)) {
          w.stalled |= mask;
          return leave(pc);
        }
        if (++pc >= next || done >= steps) return leave(pc);
        continue;
      case code_warp:
        if (on != mask) fault("a warp's barrier under a condition", w, std::countr_zero(mask));
        if (!meet(w, i, mask, pc)) return leave(pc);
        return done;
      default:
        if (on) execute(w, i, on);
    }
    if (++pc >= next || done >= steps) return leave(pc);
  }
}

// shfl.sync, vote.sync, match.sync and bar.warp.sync: whether all of their lanes are here; if so
// they have run and stand behind it.
bool Machine::State::meet(Warp& w, const Instr& i, uint32_t mask, int pc) {
  const Operand& members = i.operands.back();
  uint32_t wanted = 0;
  each_lane(mask, [&](int l) {
    const auto own = static_cast<uint32_t>(value(w, members, l));
    if (wanted && own != wanted) fault("lanes name different members", w, l);
    wanted = own;
    if (!(own >> l & 1)) fault("a lane that is no member", w, l);
  });
  if (wanted & ~w.live) fault("lanes that have ended are members", w, std::countr_zero(mask));
  w.waiting |= mask;
  each_lane(mask, [&](int l) { w.pc[static_cast<size_t>(l)] = pc; });
  uint32_t here = 0;
  each_lane(w.waiting, [&](int l) {
    if (w.pc[static_cast<size_t>(l)] == pc) here |= 1u << l;
  });
  if ((here & wanted) != wanted) return false;
  w.waiting &= ~wanted;
  if (i.op == "shfl")
    shuffle(w, i, wanted);
  else if (i.op == "vote" || i.op == "match")
    compare_lanes(w, i, wanted);
  else
    sync_lanes(w, wanted);
  each_lane(wanted, [&](int l) { w.pc[static_cast<size_t>(l)] = pc + 1; });
  return true;
}

void Machine::State::shuffle(Warp& w, const Instr& i, uint32_t mask) {
  for (const Operand& o : i.operands)
    if (&o != &i.operands[0] && o.reg >= 0) read_check(w, o.reg, mask);
  std::array<uint64_t, warp_size> source{};
  for (int l = 0; l < warp_size; ++l) source[static_cast<size_t>(l)] = value(w, i.operands[1], l);
  each_lane(mask, [&](int l) {
    const int b = static_cast<int>(value(w, i.operands[2], l)) & 31;
    if (value(w, i.operands[3], l) != 31) fault("shfl of parts of a warp", w, l);
    int from = l;
    if (i.has("bfly"))
      from = l ^ b;
    else if (i.has("idx"))
      from = b;
    else if (i.has("down"))
      from = l + b > 31 ? l : l + b;
    else if (i.has("up"))
      from = l - b < 0 ? l : l - b;
    if (!(mask >> from & 1)) fault("shfl from a lane that is no member", w, l);
    set(w, i.operands[0], l, source[static_cast<size_t>(from)]);
  });
  wrote(w, i.operands[0].reg, mask);
}

// vote.sync.ballot: lanes whose operand is true; match.any.sync: those that have this lane's.
void Machine::State::compare_lanes(Warp& w, const Instr& i, uint32_t mask) {
  const bool ballot = i.op == "vote";
  if (!i.has(ballot ? "ballot" : "any") || !i.has("b32"))
    fault("a comparison of lanes that this machine does not know", w, std::countr_zero(mask));
  if (i.operands[1].reg >= 0) read_check(w, i.operands[1].reg, mask);
  std::array<uint64_t, warp_size> source{};
  each_lane(mask, [&](int l) { source[static_cast<size_t>(l)] = value(w, i.operands[1], l); });
  each_lane(mask, [&](int l) {
    uint64_t found = 0;
    each_lane(mask, [&](int other) {
      const uint64_t x = source[static_cast<size_t>(other)];
      if (ballot ? x != 0 : x == source[static_cast<size_t>(l)]) found |= uint64_t{1} << other;
    });
    set(w, i.operands[0], l, found);
  });
  wrote(w, i.operands[0].reg, mask);
}

// Whether it is a barrier of all threads that all wait at.
bool Machine::State::whole_barrier(const Instr& i) const {
  return !i.has("arrive") && i.operands.size() < 2;
}

// bar.sync and bar.arrive a, b: opens when b threads have come.
void Machine::State::pass_named(Warp& w, const Instr& i, uint32_t mask) {
  if (i.operands.size() != 2 || mask != w.live)
    fault("a barrier that this machine does not know", w, std::countr_zero(mask));
  const int lane = std::countr_zero(mask);
  NamedBarrier& b = named[checked(w, i.operands[0], lane)];
  const uint64_t count = checked(w, i.operands[1], lane);
  if (count % warp_size != 0 || (b.arrived && b.count != count))
    fault("a barrier for other threads than before", w, lane);
  b.count = count;
  b.arrived += warp_size;
  b.gathered.join(knowledge(w, mask));
  ++w.clock;
  if (!i.has("arrive")) {
    b.waiting.emplace_back(w.number, mask);
    w.at_barrier |= mask;
  }
  if (b.arrived < b.count) return;
  if (b.arrived > b.count) fault("more threads at a barrier than it is for", w, lane);
  for (const auto& [number, lanes] : b.waiting) {
    warps[number].at_barrier &= ~lanes;
    learn(warps[number], lanes, b.gathered);
  }
  b = {};
  happened = true;
}

// setmaxnreg: a warp gives registers to the others of its CTA, or takes what they gave.
bool Machine::State::set_registers(Warp& w, const Instr& i, uint32_t on) {
  whole_warp(w, on);
  const auto wanted = static_cast<uint32_t>(i.operands.at(0).imm);
  if (wanted % 8 != 0 || wanted < 24 || wanted > 256 || i.has("inc") == i.has("dec"))
    fault("a number of registers that there may not be", w, 0);
  if (i.has("dec") ? wanted > w.registers : wanted < w.registers)
    fault("setmaxnreg the other way round", w, 0);
  const uint32_t before = w.registers * warp_size, after = wanted * warp_size;
  if (after > before + free_registers) return false;
  free_registers = free_registers + before - after;
  w.registers = wanted;
  happened = true;
  return true;
}

std::string Machine::State::name_of(int reg) const {
  for (const auto& [name, r] : launch->kernel.registers)
    if (r == reg) return name;
  return "?";
}

void Machine::State::free_check(const Warp& w, int reg) const {
  if (reg >= 0 && w.flight[static_cast<size_t>(reg)])
    fault("register " + name_of(reg) + " of a product under way is used", w, 0);
}

void Machine::State::read_check(const Warp& w, int reg, uint32_t mask) const {
  free_check(w, reg);
  const uint32_t missing = mask & ~w.written[static_cast<size_t>(reg)];
  if (missing)
    fault("register " + name_of(reg) + " is read before it is written", w,
          std::countr_zero(missing));
}

void Machine::State::wrote(Warp& w, int reg, uint32_t mask) {
  free_check(w, reg);
  w.written[static_cast<size_t>(reg)] |= mask;
  w.touched[static_cast<size_t>(reg)] = 1;
}

uint64_t Machine::State::value(const Warp& w, const Operand& o, int lane) const {
  return o.reg < 0 ? o.imm
                   : w.values[static_cast<size_t>(o.reg) * warp_size + static_cast<size_t>(lane)];
}

uint64_t Machine::State::checked(const Warp& w, const Operand& o, int lane) const {
  if (o.reg >= 0) read_check(w, o.reg, 1u << lane);
  return value(w, o, lane);
}

void Machine::State::set(Warp& w, const Operand& o, int lane, uint64_t v) {
  if (o.reg < specials) fault("an instruction without a register to write", w, lane);
  w.values[static_cast<size_t>(o.reg) * warp_size + static_cast<size_t>(lane)] =
      masked(v, launch->kernel.widths[static_cast<size_t>(o.reg)]);
}

// LLVM puts vectors of bytes together by prmt, whose bytes to come are anything.
namespace {
bool may_be_unwritten(const Instr& i, size_t source) {
  return i.code == code_prmt && source < 2 && i.operands[3].reg < 0;
}
}  // namespace

void Machine::State::execute(Warp& w, const Instr& i, uint32_t on) {
  if (i.code == code_ld) return load(w, i, on);
  if (i.code == code_st) return store(w, i, on);
  if (i.code == code_atom || i.code == code_red) fault("atomic operations", w, 0);
  if (i.code == code_unpack) return unpack(w, i, on);
  if (i.code == code_mma) return multiply(w, i, on);
  if (i.code == code_ldmatrix) return load_matrices(w, i, on);
  if (i.code == code_fence) return fence(w, i, on);
  if (i.code == code_copy) return begin_copy(w, i, on);
  const size_t sources = i.operands.size() - 1;
  const uint64_t* from[4] = {};
  std::array<std::array<uint64_t, warp_size>, 4> constants;
  for (size_t s = 0; s < sources; ++s) {
    const Operand& o = i.operands[s + 1];
    if (o.reg >= 0) {
      if (!may_be_unwritten(i, s)) read_check(w, o.reg, on);
      from[s] = w.values.data() + static_cast<size_t>(o.reg) * warp_size;
    } else {
      constants[s].fill(o.imm);
      from[s] = constants[s].data();
    }
  }
  const Operand& to = i.operands[0];
  if (to.reg < specials) fault("an instruction without a register to write", w, 0);
  free_check(w, to.reg);
  const int width = launch->kernel.widths[static_cast<size_t>(to.reg)];
  uint64_t* out = w.values.data() + static_cast<size_t>(to.reg) * warp_size;
  std::array<uint64_t, warp_size> result;
  if (!compute(i, from, on, result.data()))
    fault("an instruction that this machine does not know", w, std::countr_zero(on));
  each_lane(on, [&](int l) { out[l] = masked(result[static_cast<size_t>(l)], width); });
  wrote(w, to.reg, on);
}

void Machine::State::unpack(Warp& w, const Instr& i, uint32_t on) {
  const Operand& whole = i.operands.back();
  if (whole.reg >= 0) read_check(w, whole.reg, on);
  const int parts = i.groups[0], bits = i.type.bits / parts;
  for (int p = 0; p < parts; ++p) {
    const Operand& to = i.operands[static_cast<size_t>(p)];
    each_lane(on, [&](int l) { set(w, to, l, masked(value(w, whole, l) >> (p * bits), bits)); });
  }
  for (int p = 0; p < parts; ++p) wrote(w, i.operands[static_cast<size_t>(p)].reg, on);
}

// What a whole warp does together.
void Machine::State::whole_warp(const Warp& w, uint32_t on) const {
  if (on != all_lanes) fault("an instruction of the whole warp without some lanes", w, 0);
}

Machine::Machine(Blocks& blocks, uint64_t seed) : state_(std::make_unique<State>(blocks, seed)) {}
Machine::~Machine() = default;

void Machine::run(const Launch& launch) {
  state_->launch = &launch;
  state_->run_launch();
}

uint64_t Machine::executed() const { return state_->executed; }

}  // namespace ptx

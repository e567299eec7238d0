// tests/support/ptx/machine.cpp: CTAs, warps, barriers and memory; values are in values.cpp.
#include "support/ptx/machine.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>

#include "support/ptx/values.h"

namespace ptx {
namespace {

constexpr uint32_t all_lanes = ~0u;
constexpr int warp_size = 32;

struct Byte {
  uint8_t value = 0;
  bool written = false;
  Shadow shadow;
};

struct Warp {
  uint32_t first = 0;                              // thread number of lane 0, in the CTA
  uint32_t live = 0, waiting = 0, at_barrier = 0;  // lanes
  std::array<int, warp_size> pc{};
  std::vector<uint64_t> values;   // by register and lane
  std::vector<uint32_t> written;  // by register: lanes that have one
  std::vector<Byte> local;        // by lane
  uint32_t warp_syncs = 0;
};

template <class F>
void each(uint32_t mask, F&& f) {
  for (; mask; mask &= mask - 1) f(std::countr_zero(mask));
}

uint64_t masked(uint64_t v, int bits) { return bits >= 64 ? v : v & ((uint64_t{1} << bits) - 1); }

}  // namespace

struct Machine::State {
  Blocks& blocks;
  std::mt19937_64 chance;
  uint64_t executed = 0, run = 0;
  std::unordered_map<uint64_t, std::vector<Shadow>> pages;

  // Of the launch and of the CTA that runs:
  const Launch* launch = nullptr;
  std::vector<Byte> shared;
  std::vector<Warp> warps;
  uint32_t cta = 0, barriers = 0;
  const Instr* at = nullptr;

  State(Blocks& b, uint64_t seed) : blocks(b), chance(seed) {}

  [[noreturn]] void fault(const std::string& what, const Warp& w, int lane) const {
    std::string text = what + ", in " + launch->kernel.name + " thread " +
                       std::to_string(w.first + static_cast<uint32_t>(lane)) + " of CTA " +
                       std::to_string(cta);
    if (at) text += ", line " + std::to_string(at->line) + ": " + at->op;
    if (at)
      for (const std::string& m : at->mods) text += "." + m;
    throw Fault(text);
  }

  void run_launch() {
    const Kernel& k = launch->kernel;
    if (launch->block.count() > static_cast<uint64_t>(k.max_threads))
      throw Fault("a CTA of more threads than .maxntid says");
    ++run;
    std::vector<uint32_t> order(launch->grid.count());
    for (size_t n = 0; n < order.size(); ++n) order[n] = static_cast<uint32_t>(n);
    std::shuffle(order.begin(), order.end(), chance);
    for (uint32_t n : order) run_cta(n);
    at = nullptr;
  }

  void start_warp(Warp& w, uint32_t number) {
    const Kernel& k = launch->kernel;
    const Dim3 b = launch->block, g = launch->grid;
    const auto threads = static_cast<uint32_t>(b.count());
    w.first = number * warp_size;
    const uint32_t lanes = std::min<uint32_t>(threads - w.first, warp_size);
    w.live = lanes == warp_size ? all_lanes : (1u << lanes) - 1;
    w.waiting = w.at_barrier = 0;
    w.pc.fill(0);
    w.warp_syncs = 0;
    w.values.assign(k.widths.size() * warp_size, 0);
    w.written.assign(k.widths.size(), 0);
    w.local.assign(static_cast<size_t>(k.local_bytes) * warp_size, {});
    for (uint32_t l = 0; l < warp_size; ++l) {
      const uint32_t t = w.first + l;
      const uint32_t values[specials] = {t % b.x,   t / b.x % b.y,   t / b.x / b.y,   b.x, b.y, b.z,
                                         cta % g.x, cta / g.x % g.y, cta / g.x / g.y, g.x, g.y, g.z,
                                         l};
      for (size_t s = 0; s < specials; ++s) w.values[s * warp_size + l] = values[s];
    }
    for (size_t s = 0; s < specials; ++s) w.written[s] = all_lanes;
  }

  void run_cta(uint32_t number) {
    cta = number;
    barriers = 0;
    shared.assign(static_cast<size_t>(launch->kernel.shared_bytes), {});
    const auto count = (launch->block.count() + warp_size - 1) / warp_size;
    warps.resize(count);
    for (uint32_t n = 0; n < count; ++n) start_warp(warps[n], n);
    std::vector<Warp*> ready;
    while (true) {
      ready.clear();
      bool live = false;
      for (Warp& w : warps) {
        live = live || w.live;
        if (w.live & ~w.at_barrier) ready.push_back(&w);
      }
      if (!live) return;
      if (ready.empty()) {
        open_barrier();
        continue;
      }
      turn(*ready[chance() % ready.size()], 1 + chance() % 200);
    }
  }

  // All live threads stand at a barrier: they go on, if it is one for as many as the CTA has.
  void open_barrier() {
    for (Warp& w : warps) {
      const uint32_t lanes =
          std::min<uint32_t>(static_cast<uint32_t>(launch->block.count()) - w.first, warp_size);
      if (std::popcount(w.live) != static_cast<int>(lanes))
        fault("a barrier that other threads never reach: they have ended", w, 0);
    }
    int where = -1;
    for (Warp& w : warps)
      each(w.live, [&](int l) {
        if (where >= 0 && w.pc[static_cast<size_t>(l)] != where)
          fault("threads wait at different barriers", w, l);
        where = w.pc[static_cast<size_t>(l)];
      });
    ++barriers;
    for (Warp& w : warps) w.at_barrier = 0;
  }

  // Runs a warp for some instructions, or until it waits for others.
  void turn(Warp& w, uint64_t steps) {
    while (steps > 0) {
      const uint32_t able = w.live & ~w.at_barrier & ~w.waiting;
      if (!able) {
        if (w.waiting)
          fault("a warp waits for lanes that never come", w, std::countr_zero(w.waiting));
        return;
      }
      int pc = std::numeric_limits<int>::max(), next = pc;
      each(able, [&](int l) { pc = std::min(pc, w.pc[static_cast<size_t>(l)]); });
      uint32_t mask = 0;
      each(able, [&](int l) {
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
  uint64_t together(Warp& w, uint32_t mask, int pc, int next, uint64_t steps) {
    const auto& code = launch->kernel.code;
    uint64_t done = 0;
    auto leave = [&](int there) {
      each(mask, [&](int l) { w.pc[static_cast<size_t>(l)] = there; });
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
        each(mask, [&](int l) {
          const bool p =
              w.values[static_cast<size_t>(i.guard) * warp_size + static_cast<size_t>(l)];
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
            each(on, [&](int l) { w.pc[static_cast<size_t>(l)] = i.target; });
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
          w.at_barrier |= mask;
          return done;
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

  // shfl.sync and bar.warp.sync: whether all of their lanes are here; if so they have run and stand
  // behind it.
  bool meet(Warp& w, const Instr& i, uint32_t mask, int pc) {
    const Operand& members = i.operands.back();
    uint32_t wanted = 0;
    each(mask, [&](int l) {
      const auto own = static_cast<uint32_t>(value(w, members, l));
      if (wanted && own != wanted) fault("lanes name different members", w, l);
      wanted = own;
      if (!(own >> l & 1)) fault("a lane that is no member", w, l);
    });
    if (wanted & ~w.live) fault("lanes that have ended are members", w, std::countr_zero(mask));
    w.waiting |= mask;
    each(mask, [&](int l) { w.pc[static_cast<size_t>(l)] = pc; });
    uint32_t here = 0;
    each(w.waiting, [&](int l) {
      if (w.pc[static_cast<size_t>(l)] == pc) here |= 1u << l;
    });
    if ((here & wanted) != wanted) return false;
    w.waiting &= ~wanted;
    if (i.op == "shfl")
      shuffle(w, i, wanted);
    else
      ++w.warp_syncs;
    each(wanted, [&](int l) { w.pc[static_cast<size_t>(l)] = pc + 1; });
    return true;
  }

  void shuffle(Warp& w, const Instr& i, uint32_t mask) {
    for (const Operand& o : i.operands)
      if (&o != &i.operands[0] && o.reg >= 0) read_check(w, o.reg, mask);
    std::array<uint64_t, warp_size> source{};
    for (int l = 0; l < warp_size; ++l) source[static_cast<size_t>(l)] = value(w, i.operands[1], l);
    each(mask, [&](int l) {
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
    w.written[static_cast<size_t>(i.operands[0].reg)] |= mask;
  }

  void read_check(const Warp& w, int reg, uint32_t mask) const {
    const uint32_t missing = mask & ~w.written[static_cast<size_t>(reg)];
    if (missing) {
      std::string name = "?";
      for (const auto& [n, r] : launch->kernel.registers)
        if (r == reg) name = n;
      fault("register " + name + " is read before it is written", w, std::countr_zero(missing));
    }
  }

  uint64_t value(const Warp& w, const Operand& o, int lane) const {
    return o.reg < 0 ? o.imm
                     : w.values[static_cast<size_t>(o.reg) * warp_size + static_cast<size_t>(lane)];
  }
  void set(Warp& w, const Operand& o, int lane, uint64_t v) {
    if (o.reg < specials) fault("an instruction without a register to write", w, lane);
    w.values[static_cast<size_t>(o.reg) * warp_size + static_cast<size_t>(lane)] =
        masked(v, launch->kernel.widths[static_cast<size_t>(o.reg)]);
  }

  void execute(Warp& w, const Instr& i, uint32_t on) {
    if (i.code == code_ld) return load(w, i, on);
    if (i.code == code_st) return store(w, i, on);
    if (i.code == code_atom || i.code == code_red) fault("atomic operations", w, 0);
    if (i.code == code_unpack) return unpack(w, i, on);
    if (i.code == code_mma) return multiply(w, i, on);
    if (i.code == code_ldmatrix) return load_matrices(w, i, on);
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
    const int width = launch->kernel.widths[static_cast<size_t>(to.reg)];
    uint64_t* out = w.values.data() + static_cast<size_t>(to.reg) * warp_size;
    std::array<uint64_t, warp_size> result;
    if (!compute(i, from, on, result.data()))
      fault("an instruction that this machine does not know", w, std::countr_zero(on));
    each(on, [&](int l) { out[l] = masked(result[static_cast<size_t>(l)], width); });
    w.written[static_cast<size_t>(to.reg)] |= on;
  }

  // LLVM puts vectors of bytes together by prmt, whose bytes to come are anything.
  static bool may_be_unwritten(const Instr& i, size_t source) {
    return i.code == code_prmt && source < 2 && i.operands[3].reg < 0;
  }

  void unpack(Warp& w, const Instr& i, uint32_t on) {
    const Operand& whole = i.operands.back();
    if (whole.reg >= 0) read_check(w, whole.reg, on);
    const int parts = i.groups[0], bits = i.type.bits / parts;
    for (int p = 0; p < parts; ++p) {
      const Operand& to = i.operands[static_cast<size_t>(p)];
      each(on, [&](int l) { set(w, to, l, masked(value(w, whole, l) >> (p * bits), bits)); });
    }
    for (int p = 0; p < parts; ++p)
      w.written[static_cast<size_t>(i.operands[static_cast<size_t>(p)].reg)] |= on;
  }

  // What a whole warp does together.
  void whole_warp(const Warp& w, uint32_t on) const {
    if (on != all_lanes) fault("an instruction of the whole warp without some lanes", w, 0);
  }

  // mma.m16n8k32 of bytes: sums wrap around.
  void multiply_bytes(Warp& w, const Instr& i, uint32_t on) {
    const size_t types = i.mods.size();
    if (types < 9 || !i.has("row") || !i.has("col") || i.mods[types - 1] != "s32" ||
        i.groups != std::vector<int>{4, 4, 2, 4})
      fault("a product of bytes that this machine does not know", w, 0);
    for (size_t n = 4; n < i.operands.size(); ++n)
      if (i.operands[n].reg >= 0) read_check(w, i.operands[n].reg, on);
    auto byte = [&](size_t operand, int lane, int which, const std::string& type) -> int32_t {
      const auto b = static_cast<uint8_t>(value(w, i.operands[operand], lane) >> (8 * which));
      if (type != "s8" && type != "u8") fault("bytes of another type", w, 0);
      return type == "s8" ? static_cast<int8_t>(b) : b;
    };
    // Element (row, k) of A is in lane 4 (row % 8) + k % 16 / 4, register row / 8 + 2 (k / 16).
    uint32_t out[16][8];
    for (int row = 0; row < 16; ++row)
      for (int column = 0; column < 8; ++column) {
        const int lane = row % 8 * 4 + column / 2;
        const auto number = static_cast<size_t>(row / 8 * 2 + column % 2);
        auto sum = static_cast<uint32_t>(value(w, i.operands[10 + number], lane));
        for (int k = 0; k < 32; ++k) {
          const int32_t x = byte(4 + static_cast<size_t>(row / 8 + k / 16 * 2),
                                 row % 8 * 4 + k % 16 / 4, k % 4, i.mods[types - 3]);
          const int32_t y = byte(8 + static_cast<size_t>(k / 16), column * 4 + k % 16 / 4, k % 4,
                                 i.mods[types - 2]);
          sum += static_cast<uint32_t>(x * y);
        }
        out[row][column] = sum;
      }
    for (int row = 0; row < 16; ++row)
      for (int column = 0; column < 8; ++column)
        set(w, i.operands[static_cast<size_t>(row / 8 * 2 + column % 2)], row % 8 * 4 + column / 2,
            out[row][column]);
    for (size_t n = 0; n < 4; ++n) w.written[static_cast<size_t>(i.operands[n].reg)] |= on;
  }

  // mma.m16n8k16 of 16-bit floats: D = A * B + C.
  void multiply(Warp& w, const Instr& i, uint32_t on) {
    whole_warp(w, on);
    if (i.has("m16n8k32")) return multiply_bytes(w, i, on);
    const bool bf16 = i.has("bf16");
    if (!i.has("m16n8k16") || !i.has("row") || !i.has("col") || i.type.bits != 32 ||
        i.groups != std::vector<int>{4, 4, 2, 4} || !(bf16 || i.has("f16")))
      fault("a product of matrices that this machine does not know", w, 0);
    for (size_t n = 4; n < i.operands.size(); ++n)
      if (i.operands[n].reg >= 0) read_check(w, i.operands[n].reg, on);
    auto half = [&](size_t operand, int lane, int which) {
      const uint64_t word = value(w, i.operands[operand], lane);
      return number_of(static_cast<uint16_t>(word >> (16 * which)), bf16);
    };
    // Element (row, k) of A is in lane 4 (row % 8) + k % 8 / 2, register row / 8 + 2 (k / 8).
    auto a = [&](int row, int k) {
      return half(4 + static_cast<size_t>(row / 8 + k / 8 * 2), row % 8 * 4 + k % 8 / 2, k % 2);
    };
    auto b = [&](int k, int column) {
      return half(8 + static_cast<size_t>(k / 8), column * 4 + k % 8 / 2, k % 2);
    };
    float out[16][8];
    for (int row = 0; row < 16; ++row)
      for (int column = 0; column < 8; ++column) {
        double products[16];
        for (int k = 0; k < 16; ++k) products[k] = a(row, k) * b(k, column);
        const int lane = row % 8 * 4 + column / 2;
        const auto number = static_cast<size_t>(row / 8 * 2 + column % 2);
        const auto bits = static_cast<uint32_t>(value(w, i.operands[10 + number], lane));
        out[row][column] = tensor_sum(products, 16, std::bit_cast<float>(bits));
      }
    for (int row = 0; row < 16; ++row)
      for (int column = 0; column < 8; ++column) {
        const float x = out[row][column];
        const auto number = static_cast<size_t>(row / 8 * 2 + column % 2);
        set(w, i.operands[number], row % 8 * 4 + column / 2,
            x != x ? 0x7fffffffu : std::bit_cast<uint32_t>(x));
      }
    for (size_t n = 0; n < 4; ++n) w.written[static_cast<size_t>(i.operands[n].reg)] |= on;
  }

  // ldmatrix.x1, x2 or x4: lane 8 n + r gives the address of row r of matrix n.
  void load_matrices(Warp& w, const Instr& i, uint32_t on) {
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
      w.written[static_cast<size_t>(i.operands[n].reg)] |= on;
    }
  }

  // Memory.

  struct Place {
    Space space;
    uint64_t address;
  };

  Place place(const Warp& w, const Instr& i, const Operand& base, int lane) const {
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
    }
    return {s, a};
  }

  Shadow& shadow(uint64_t address) {
    auto& page = pages[address >> 12];
    if (page.empty()) page.resize(4096);
    return page[address & 4095];
  }

  // Whether an access before which (bar, warp) barriers were passed by `thread` (+ 1) is not
  // ordered with one of this thread now.
  bool unordered(uint32_t thread, uint32_t bar, uint32_t syncs, const Warp& w, uint32_t me) const {
    const auto threads = static_cast<uint32_t>(launch->block.count());
    const uint32_t other = thread - 1;
    if (other == me) return false;
    if (other / threads != cta) return true;
    if (bar != barriers) return false;
    return other % threads / warp_size != w.first / warp_size || syncs == w.warp_syncs;
  }

  void note(Shadow& s, bool writes, const Warp& w, int lane, const char* where) {
    const auto threads = static_cast<uint32_t>(launch->block.count());
    const uint32_t me = cta * threads + w.first + static_cast<uint32_t>(lane);
    if (s.run != run) s = Shadow{.run = run};
    const bool after_write = s.writer && unordered(s.writer, s.write_bar, s.write_warp, w, me);
    const bool after_read =
        writes && s.reader &&
        (unordered(s.reader, s.read_bar, s.read_warp, w, me) ||
         (s.many_readers && (s.read_bar == barriers || (s.reader - 1) / threads != cta)));
    if (after_write || after_read)
      fault(std::string("a race in ") + where + " memory: thread " +
                std::to_string((after_write ? s.writer : s.reader) - 1) + " of the launch " +
                (after_write ? "writes" : "reads") + " the byte too",
            w, lane);
    if (writes) {
      s.writer = me + 1, s.write_bar = barriers, s.write_warp = w.warp_syncs;
      s.reader = 0, s.many_readers = false;
    } else {
      const bool others =
          s.reader && s.reader != me + 1 &&
          ((s.reader - 1) / threads != cta ||
           (s.read_bar == barriers &&
            ((s.reader - 1) % threads / warp_size != w.first / warp_size || s.many_readers)));
      s.many_readers = others;
      s.reader = me + 1, s.read_bar = barriers, s.read_warp = w.warp_syncs;
    }
  }

  template <class F>
  void access(Warp& w, const Instr& i, const Place& p, int lane, int bytes, bool writes, F&& f) {
    const int whole = bytes * i.vector;
    if (p.address % static_cast<uint64_t>(whole) != 0) fault("a misaligned access", w, lane);
    const auto size = static_cast<size_t>(whole);
    if (p.space == Space::global) {
      uint8_t* at_host = blocks.find(p.address, size);
      if (!at_host) fault("an access outside of global memory", w, lane);
      if (!i.has("volatile"))
        for (size_t b = 0; b < size; ++b) note(shadow(p.address + b), writes, w, lane, "global");
      return f(at_host);
    }
    auto& memory = p.space == Space::shared ? shared : w.local;
    const uint64_t limit = p.space == Space::shared
                               ? shared.size()
                               : static_cast<uint64_t>(launch->kernel.local_bytes);
    if (p.address + size > limit || p.address + size < p.address)
      fault(p.space == Space::shared ? "an access outside of shared memory"
                                     : "an access outside of local memory",
            w, lane);
    Byte* first = memory.data() + p.address +
                  (p.space == Space::local ? limit * static_cast<uint64_t>(lane) : 0);
    uint8_t copy[64];
    for (size_t b = 0; b < size; ++b) {
      if (p.space == Space::shared) note(first[b].shadow, writes, w, lane, "shared");
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

  void load(Warp& w, const Instr& i, uint32_t on) {
    const int bytes = i.type.bits / 8;
    const Operand& base = i.operands.back();
    each(on, [&](int l) {
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
        if (base.reg >= 0 ||
            a + static_cast<uint64_t>(bytes * i.vector) > launch->parameters.size())
          fault("a read outside of the parameters", w, l);
        return take(launch->parameters.data() + a);
      }
      access(w, i, place(w, i, base, l), l, bytes, false, take);
    });
    for (int v = 0; v < i.vector; ++v)
      w.written[static_cast<size_t>(i.operands[static_cast<size_t>(v)].reg)] |= on;
  }

  void store(Warp& w, const Instr& i, uint32_t on) {
    const int bytes = i.type.bits / 8;
    for (size_t v = 1; v < i.operands.size(); ++v)
      if (i.operands[v].reg >= 0) read_check(w, i.operands[v].reg, on);
    each(on, [&](int l) {
      access(w, i, place(w, i, i.operands[0], l), l, bytes, true, [&](uint8_t* to) {
        for (int v = 0; v < i.vector; ++v) {
          const uint64_t x = value(w, i.operands[static_cast<size_t>(v) + 1], l);
          std::memcpy(to + v * bytes, &x, static_cast<size_t>(bytes));
        }
      });
    });
  }
};

Machine::Machine(Blocks& blocks, uint64_t seed) : state_(std::make_unique<State>(blocks, seed)) {}
Machine::~Machine() = default;

void Machine::run(const Launch& launch) {
  state_->launch = &launch;
  state_->run_launch();
}

uint64_t Machine::executed() const { return state_->executed; }

}  // namespace ptx

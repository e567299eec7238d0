// emulator/state.h: the machine at work: a launch, the CTA that runs, its warps and what
// is under way beside them.
#pragma once

#include <array>
#include <bit>
#include <deque>
#include <random>

#include "emulator/machine.h"
#include "emulator/tensor_map.h"

namespace ptx {

constexpr uint32_t all_lanes = ~0u;
constexpr int warp_size = 32;
constexpr uint32_t group_warps = 4;  // of a warpgroup

template <class F>
void each_lane(uint32_t mask, F&& f) {
  for (; mask; mask &= mask - 1) f(std::countr_zero(mask));
}

inline uint64_t masked(uint64_t v, int bits) {
  return bits >= 64 ? v : v & ((uint64_t{1} << bits) - 1);
}

struct Byte {
  uint8_t value = 0;
  bool written = false;
  Shadow shadow;
};

struct Warp {
  uint32_t number = 0;                             // in the CTA
  uint32_t first = 0;                              // thread number of lane 0, in the CTA
  uint32_t live = 0, waiting = 0, at_barrier = 0;  // lanes
  uint32_t stalled = 0;                            // until something happens elsewhere
  std::array<int, warp_size> pc{};
  std::vector<uint64_t> values;   // by register and lane
  std::vector<uint32_t> written;  // by register: lanes that have one
  std::vector<Byte> local;        // by lane

  // What its threads know. Lanes may know more: what they waited for alone.
  uint32_t clock = 1;
  Clocks known;
  std::array<Clocks, warp_size> more;

  // wgmma
  bool fenced = false;           // there was a fence ever
  std::vector<uint8_t> touched;  // by register: written since the last fence
  std::vector<uint32_t> flight;  // by register: behind which product it is free, 0: it is
  uint32_t products = 0;         // begun
  uint32_t waited = 0;           // of those, that it has waited for
  std::vector<uint32_t> groups;  // by group: products begun when it was committed
  uint32_t registers = 0;        // that a thread of it may have
};

/// What waits and arrives at a place in shared memory.
struct Mbarrier {
  uint32_t count = 0;
  int64_t pending = 0, bytes = 0;
  bool phase = false;
  Clocks gathered, released;  // of this phase so far, and of the one before
  uint32_t maker = 0, made = 0;
  bool fenced = false;
  uint32_t agent = 0, copies = 0;
};

/// bar.sync and bar.arrive of some warps.
struct NamedBarrier {
  uint64_t count = 0, arrived = 0;
  std::vector<std::pair<uint32_t, uint32_t>> waiting;  // warp, lanes
  Clocks gathered;
};

/// A copy under way from global memory to shared memory.
struct Copy {
  const Instr* instr;
  uint32_t thread;
  TensorMap map;
  uint64_t to, barrier;
  std::array<int32_t, 5> at;
  uint32_t agent, number;
  Clocks known;
};

/// A product that the warps of a group have begun.
struct Product {
  const Instr* instr;
  uint32_t begun = 0;  // by which warps
  uint64_t left, right;
  bool adds;
  std::array<Clocks, group_warps> known;  // by warp
};
struct Warpgroup {
  std::deque<Product> products;
  uint32_t done = 0;
};

/// Who touches memory, and what it knows. A product's accesses are those of several warps, which
/// are done when each of them has waited for it.
struct Actor {
  uint32_t agent;  ///< the first of them
  bool thread;
  uint32_t clock;
  const Clocks* known;
  const Clocks* more;
  uint32_t mask = 1;  ///< agents from the first on
  bool operator==(const Actor&) const = default;
};

/// What one access made of a byte's past.
struct Noted {
  bool known = false, writes = false;
  Actor by;
  Shadow before, after;
};

struct Machine::State {
  struct Place {
    Space space;
    uint64_t address;
  };

  Blocks& blocks;
  std::mt19937_64 chance;
  uint64_t executed = 0, run = 0;
  std::unordered_map<uint64_t, std::vector<Shadow>> pages;
  std::pair<uint64_t, std::vector<Shadow>*> last_page{};
  Noted noted;

  // Of the launch and of the CTA that runs:
  const Launch* launch = nullptr;
  std::vector<Byte> shared;
  std::vector<Warp> warps;
  uint32_t cta = 0, barriers = 0;
  const Instr* at = nullptr;
  bool happened = false;  // something that stalled lanes may have waited for
  uint32_t first_group_agent = 0, first_barrier_agent = 0;
  std::vector<uint32_t> published;  // by thread: its writes up to this clock are seen by copies
  std::map<uint64_t, Mbarrier> mbarriers;
  std::map<uint64_t, NamedBarrier> named;
  std::vector<Copy> copies;
  std::vector<Warpgroup> groups;
  uint32_t free_registers = 0;

  State(Blocks& b, uint64_t seed) : blocks(b), chance(seed) {}

  // machine.cpp: control.
  [[noreturn]] void fault(const std::string& what, const Warp& w, int lane) const;
  [[noreturn]] void fault_of(const std::string& what, uint32_t thread, const Instr* where) const;
  void run_launch();
  void start_warp(Warp& w, uint32_t number);
  void run_cta(uint32_t number);
  void finish_cta();
  void open_barrier();
  void turn(Warp& w, uint64_t steps);
  uint64_t together(Warp& w, uint32_t mask, int pc, int next, uint64_t steps);
  bool meet(Warp& w, const Instr& i, uint32_t mask, int pc);
  void shuffle(Warp& w, const Instr& i, uint32_t mask);
  void compare_lanes(Warp& w, const Instr& i, uint32_t mask);
  bool whole_barrier(const Instr& i) const;
  void pass_named(Warp& w, const Instr& i, uint32_t mask);
  bool set_registers(Warp& w, const Instr& i, uint32_t on);
  std::string name_of(int reg) const;
  void read_check(const Warp& w, int reg, uint32_t mask) const;
  void free_check(const Warp& w, int reg) const;
  void wrote(Warp& w, int reg, uint32_t mask);
  uint64_t value(const Warp& w, const Operand& o, int lane) const;
  uint64_t checked(const Warp& w, const Operand& o, int lane) const;
  void set(Warp& w, const Operand& o, int lane, uint64_t v);
  void execute(Warp& w, const Instr& i, uint32_t on);
  void unpack(Warp& w, const Instr& i, uint32_t on);
  void whole_warp(const Warp& w, uint32_t on) const;

  // memory.cpp: accesses, and who knows of which.
  Actor actor(const Warp& w, int lane) const;
  void sync_lanes(Warp& w, uint32_t members);
  Clocks knowledge(const Warp& w, uint32_t lanes) const;
  void learn(Warp& w, uint32_t lanes, const Clocks& news);
  Place place(const Warp& w, const Instr& i, const Operand& base, int lane) const;
  Shadow& shadow(uint64_t address);
  bool ordered(const Stamp& s, const Actor& me) const;
  /// An access to a byte: a fault if it races. Of an instruction's bytes most have the same past,
  /// so what became of the last one is kept until the next instruction, begin_accesses().
  void note(Shadow& s, bool writes, const Actor& me, const char* where, uint32_t thread);
  void judge(Shadow& s, bool writes, const Actor& me, const char* where, uint32_t thread);
  void begin_accesses() { noted.known = false; }
  template <class F>
  void access(Warp& w, const Instr& i, const Place& p, int lane, int bytes, bool writes, F&& f);
  void load(Warp& w, const Instr& i, uint32_t on);
  void store(Warp& w, const Instr& i, uint32_t on);
  void load_matrices(Warp& w, const Instr& i, uint32_t on);
  /// A byte of shared memory as copies and products beside the threads reach it.
  Byte& reach(uint64_t address, bool writes, const Actor& me, uint32_t thread);

  // matrices.cpp
  void multiply_bytes(Warp& w, const Instr& i, uint32_t on);
  void multiply(Warp& w, const Instr& i, uint32_t on);

  // async.cpp: mbarriers, fences and copies.
  bool run_late(bool forced);
  void fence(Warp& w, const Instr& i, uint32_t on);
  /// The lanes that have to wait.
  uint32_t use_mbarrier(Warp& w, const Instr& i, uint32_t on);
  Mbarrier& find_mbarrier(uint64_t address, const Warp& w, int lane);
  void complete(Mbarrier& b);
  void begin_copy(Warp& w, const Instr& i, uint32_t on);
  void run_copy(const Copy& c);

  // wgmma.cpp
  /// False: the warp has to wait for others of its group.
  bool use_wgmma(Warp& w, const Instr& i, uint32_t on);
  void begin_product(Warp& w, const Instr& i);
  void run_product(uint32_t group);
  bool may_run(const Warpgroup& g) const;
};

}  // namespace ptx

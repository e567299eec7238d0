// atlas/lane_verify.cpp: the verifier of lane programs.
//
// A forward data-flow analysis over basic blocks: for each register its type on every path so far,
// or that it may be uninitialised or of several types. A call's effect is that of its target:
// registers that the target may write have the types they have at its returns, all others keep the
// caller's.
#include <algorithm>
#include <bitset>
#include <cctype>
#include <deque>
#include <map>
#include <set>

#include "atlas/class_graph.h"
#include "atlas/lane.h"
#include "atlas/limits.h"

namespace hologram::atlas {
namespace {

using Role = LaneOperand::Role;
using Of = LaneOperand::Of;

constexpr size_t max_functions = 1024;

std::string place_of(const LaneProgram& p, size_t at) {
  return fmt::format("instruction {} ({})", at, info(p.instrs[at].op).mnemonic);
}

void check_address(const LaneInstr& i, const std::string& place) {
  const LaneAddress& a = i.address;
  using Kind = LaneAddress::Kind;
  if (a.kind == Kind::none || a.kind > Kind::computed)
    lane_fail(LaneFault::invalid_memory_address, "{}: no address", place);
  bool shared = i.op == LaneOp::lds || i.op == LaneOp::sts;
  if (a.kind == Kind::phi) {
    if (shared)
      lane_fail(LaneFault::invalid_memory_address, "{}: Φ addresses the boundary pool", place);
    if (a.a >= num_classes)
      lane_fail(LaneFault::invalid_class_index, "{}: class {}; expected 0 to 95", place, a.a);
    if (a.b >= class_pages)
      lane_fail(LaneFault::invalid_boundary_coordinates, "{}: page {}; expected 0 to 47", place,
                a.b);
    // A value that begins in the pool's last bytes may still end beyond it.
    int64_t at = int64_t{a.a} * class_bytes + a.b * page_bytes + a.c;
    if (at + size_of(i.type) > boundary_bytes)
      lane_fail(LaneFault::buffer_out_of_bounds, "{}: offset {}, size {}, buffer of {} bytes",
                place, at, size_of(i.type), boundary_bytes);
  }
  if (a.kind == Kind::buffer && shared && a.handle != 0)
    lane_fail(LaneFault::invalid_buffer_handle, "{}: shared memory is handle 0, not {}", place,
              a.handle);
  auto displacement = static_cast<int64_t>(a.offset);
  if (a.kind == Kind::indirect && (displacement < INT32_MIN || displacement > INT32_MAX))
    lane_fail(LaneFault::invalid_memory_address, "{}: displacement {} is no i32", place,
              displacement);
}

void check_instruction(const LaneProgram& p, size_t at) {
  const LaneInstr& i = p.instrs[at];
  if (static_cast<int>(i.op) >= num_lane_ops)
    lane_fail(LaneFault::program_error, "instruction {}: unknown operation {}", at,
              static_cast<int>(i.op));
  const LaneOpInfo& row = info(i.op);
  std::string place = place_of(p, at);
  if (static_cast<int>(i.type) >= num_dtypes || static_cast<int>(i.from) >= num_dtypes)
    lane_fail(LaneFault::program_error, "{}: unknown type", place);
  if (!has_type(row.types, i.type))
    lane_fail(LaneFault::unsupported_operation, "{}: no {} on {}", place, row.mnemonic,
              i.type == DType::host ? "no type" : hologram::name_of(i.type));
  if (i.op == LaneOp::cvt ? !has_type(LaneTypes::all12, i.from) : i.from != DType::host)
    lane_fail(LaneFault::unsupported_operation, "{}: no conversion from {}", place,
              hologram::name_of(i.from));
  int variants = i.op == LaneOp::set        ? num_compares
                 : i.op == LaneOp::memfence ? num_fence_scopes
                 : i.op == LaneOp::bra      ? 2
                                            : 1;
  if (i.variant >= variants)
    lane_fail(LaneFault::program_error, "{}: unknown variant {}", place, i.variant);
  if (i.op == LaneOp::set && i.variant >= static_cast<int>(Compare::ltu) && is_float(i.type))
    lane_fail(LaneFault::unsupported_operation, "{}: no unsigned comparison of {}", place,
              hologram::name_of(i.type));
  if (i.op == LaneOp::bra && i.variant && i.regs[0] >= lane_predicates)
    lane_fail(LaneFault::invalid_predicate, "{}: p{}; expected p0 to p15", place, i.regs[0]);
  size_t reg = 0;
  for (const LaneOperand& o : row.operands) {
    switch (o.role) {
      case Role::address:
        check_address(i, place);
        break;
      case Role::immediate:
        if (i.immediate > row.immediate_limit)
          lane_fail(LaneFault::program_error, "{}: immediate {}; expected at most {}", place,
                    i.immediate, row.immediate_limit);
        break;
      case Role::label: {
        if (i.label >= p.labels.size())
          lane_fail(LaneFault::undefined_label, "{}: label number {} of {}", place, i.label,
                    p.labels.size());
        if (p.labels[i.label].target == undefined_target)
          lane_fail(LaneFault::undefined_label, "\"{}\" in {}", p.labels[i.label].name, place);
        break;
      }
      case Role::range:
        if (i.regs[reg] + i.immediate > lane_registers)
          lane_fail(LaneFault::invalid_register, "{}: registers r{} to r{}; expected at most r255",
                    place, i.regs[reg], i.regs[reg] + i.immediate - 1);
        ++reg;
        break;
      default:
        if (o.of == Of::predicate && i.regs[reg] >= lane_predicates)
          lane_fail(LaneFault::invalid_predicate, "{}: p{}; expected p0 to p15", place,
                    i.regs[reg]);
        ++reg;
    }
  }
}

/// What is known of a register: a type, or one of these.
constexpr uint8_t unknown = 254;  ///< uninitialised or of different types on different paths
constexpr uint8_t unseen = 255;   ///< no path here yet

struct State {
  std::array<uint8_t, lane_registers> types;
  std::array<uint8_t, lane_predicates> predicates;  ///< 0 set, unknown or unseen

  explicit State(uint8_t all) {
    types.fill(all);
    predicates.fill(all);
  }

  bool reached() const { return types[0] != unseen; }

  bool merge(const State& other) {
    bool changed = false;
    auto join = [&](uint8_t& mine, uint8_t theirs) {
      uint8_t joint = mine == unseen ? theirs : mine == theirs ? mine : unknown;
      changed = changed || joint != mine;
      mine = joint;
    };
    for (size_t k = 0; k < types.size(); ++k) join(types[k], other.types[k]);
    for (size_t k = 0; k < predicates.size(); ++k) join(predicates[k], other.predicates[k]);
    return changed;
  }
};

struct Written {
  std::bitset<lane_registers> registers;
  std::bitset<lane_predicates> predicates;
  bool operator==(const Written&) const = default;
};

void note_writes(const LaneInstr& i, Written& w) {
  size_t reg = 0;
  for (const LaneOperand& o : info(i.op).operands) {
    if (o.role >= Role::address && o.role != Role::range) continue;
    if (o.role == Role::written || o.role == Role::modified) {
      if (o.of == Of::predicate)
        w.predicates.set(i.regs[reg]);
      else
        w.registers.set(i.regs[reg]);
    }
    ++reg;
  }
}

class Flow {
 public:
  explicit Flow(const LaneProgram& p) : p_(p) {}

  void run() {
    if (p_.instrs.empty()) return;
    find_blocks();
    find_functions();
    State entry(unknown);
    for (size_t r : {252, 253, 254}) entry.types[r] = static_cast<uint8_t>(DType::u32);
    entry.types[255] = static_cast<uint8_t>(DType::u64);
    arrive(0, entry);
    while (!work_.empty()) {
      size_t at = work_.front();
      work_.pop_front();
      queued_.erase(at);
      follow(at);
    }
  }

 private:
  uint32_t target(const LaneInstr& i) const { return p_.labels[i.label].target; }

  void find_blocks() {
    leaders_.insert(0);
    for (size_t k = 0; k < p_.instrs.size(); ++k) {
      LaneOp op = p_.instrs[k].op;
      bool jumps = op == LaneOp::bra || op == LaneOp::call || op == LaneOp::loop;
      if (jumps) leaders_.insert(target(p_.instrs[k]));
      if (jumps || op == LaneOp::ret || op == LaneOp::exit) leaders_.insert(k + 1);
    }
  }

  // Per call target: what it may write, through its own calls too, and where it returns.
  void find_functions() {
    for (const LaneInstr& i : p_.instrs)
      if (i.op == LaneOp::call) functions_.try_emplace(target(i));
    if (functions_.size() > max_functions)
      lane_fail(LaneFault::program_error, "{} call targets; expected at most {}", functions_.size(),
                max_functions);
    for (auto& [entry, f] : functions_) explore(entry, f);
    for (bool changed = true; changed;) {
      changed = false;
      for (auto& [entry, f] : functions_) {
        Written before = f.written;
        for (uint32_t callee : f.calls) {
          f.written.registers |= functions_.at(callee).written.registers;
          f.written.predicates |= functions_.at(callee).written.predicates;
        }
        changed = changed || !(before == f.written);
      }
    }
  }

  struct Function {
    Written written;
    std::set<uint32_t> calls;
    std::vector<size_t> returns;
    State exit{unseen};
    std::set<size_t> callers;  ///< blocks that call it
  };

  void explore(uint32_t entry, Function& f) {
    std::vector<bool> seen(p_.instrs.size() + 1, false);
    std::vector<size_t> stack{entry};
    while (!stack.empty()) {
      size_t at = stack.back();
      stack.pop_back();
      if (at >= p_.instrs.size() || seen[at]) continue;
      seen[at] = true;
      const LaneInstr& i = p_.instrs[at];
      note_writes(i, f.written);
      if (i.op == LaneOp::ret) {
        f.returns.push_back(at);
        owners_[at].push_back(entry);
        continue;
      }
      if (i.op == LaneOp::exit) continue;
      if (i.op == LaneOp::call) f.calls.insert(target(i));
      if (i.op == LaneOp::bra || i.op == LaneOp::loop) stack.push_back(target(i));
      if (i.op != LaneOp::bra || i.variant) stack.push_back(at + 1);
    }
  }

  void arrive(size_t at, const State& s) {
    if (at >= p_.instrs.size()) return;
    auto [it, fresh] = states_.try_emplace(at, unseen);
    if (it->second.merge(s)) enqueue(at);
  }

  void enqueue(size_t at) {
    if (queued_.insert(at).second) work_.push_back(at);
  }

  // Runs the block that begins at `leader` from its state.
  void follow(size_t leader) {
    State s = states_.at(leader);
    for (size_t at = leader; at < p_.instrs.size(); ++at) {
      if (at != leader && leaders_.count(at)) return arrive(at, s);
      const LaneInstr& i = p_.instrs[at];
      apply(i, at, s);
      switch (i.op) {
        case LaneOp::bra:
        case LaneOp::loop:
          arrive(target(i), s);
          if (i.op == LaneOp::loop || i.variant) arrive(at + 1, s);
          return;
        case LaneOp::call:
          return call(i, at, leader, s);
        case LaneOp::ret:
          for (uint32_t f : owners_[at])
            if (functions_.at(f).exit.merge(s))
              for (size_t caller : functions_.at(f).callers) enqueue(caller);
          return;
        case LaneOp::exit:
          return;
        default:
          break;
      }
    }
  }

  void call(const LaneInstr& i, size_t at, size_t leader, const State& s) {
    Function& f = functions_.at(target(i));
    f.callers.insert(leader);
    if (target(i) < p_.instrs.size()) arrive(target(i), s);
    if (!f.exit.reached()) return;
    State after = s;
    for (size_t r = 0; r < after.types.size(); ++r)
      if (f.written.registers[r]) after.types[r] = f.exit.types[r];
    for (size_t r = 0; r < after.predicates.size(); ++r)
      if (f.written.predicates[r]) after.predicates[r] = f.exit.predicates[r];
    arrive(at + 1, after);
  }

  static DType type_of(const LaneInstr& i, const LaneOperand& o) {
    return o.of == Of::fixed ? o.fixed : o.of == Of::source ? i.from : i.type;
  }

  void read(size_t at, const State& s, uint8_t reg, DType want, bool optional) {
    uint8_t found = s.types[reg];
    if (found == static_cast<uint8_t>(want) || (optional && found == unknown)) return;
    if (found == unknown)
      lane_fail(LaneFault::uninitialized_register, "{}: r{} is not a {} on every path",
                place_of(p_, at), reg, hologram::name_of(want));
    lane_fail(LaneFault::type_mismatch, "{}: r{} is {}; expected {}", place_of(p_, at), reg,
              hologram::name_of(static_cast<DType>(found)), hologram::name_of(want));
  }

  void read_predicate(size_t at, const State& s, uint8_t p) {
    if (s.predicates[p] != 0)
      lane_fail(LaneFault::uninitialized_predicate, "{}: p{} is not set on every path",
                place_of(p_, at), p);
  }

  void apply(const LaneInstr& i, size_t at, State& s) {
    if (i.op == LaneOp::bra && i.variant) read_predicate(at, s, i.regs[0]);
    size_t reg = 0;
    const LaneOpInfo& row = info(i.op);
    for (const LaneOperand& o : row.operands) {
      if (o.role == Role::address) {
        bool indirect = i.address.kind == LaneAddress::Kind::indirect;
        bool computed = i.address.kind == LaneAddress::Kind::computed;
        if (indirect || computed) read(at, s, i.address.a, DType::u64, false);
        if (computed) read(at, s, i.address.b, DType::u64, false);
      } else if (o.role == Role::range) {
        for (uint64_t k = 0; k < i.immediate; ++k)
          read(at, s, static_cast<uint8_t>(i.regs[reg] + k), i.type, false);
        ++reg;
      } else if (o.role < Role::address) {
        if (o.role != Role::written) {
          if (o.of == Of::predicate)
            read_predicate(at, s, i.regs[reg]);
          else
            read(at, s, i.regs[reg], type_of(i, o), o.role == Role::optional);
        }
        ++reg;
      }
    }
    reg = 0;
    for (const LaneOperand& o : row.operands) {
      if (o.role >= Role::address && o.role != Role::range) continue;
      if (o.role == Role::written) {
        if (o.of == Of::predicate)
          s.predicates[i.regs[reg]] = 0;
        else
          s.types[i.regs[reg]] = static_cast<uint8_t>(type_of(i, o));
      }
      ++reg;
    }
  }

  const LaneProgram& p_;
  std::set<size_t> leaders_;
  std::map<uint32_t, Function> functions_;
  std::map<size_t, std::vector<uint32_t>> owners_;  ///< per ret: the functions it returns from
  std::map<size_t, State> states_;                  ///< by leader
  std::deque<size_t> work_;
  std::set<size_t> queued_;
};

}  // namespace

void check_structure(const LaneProgram& p) {
  if (p.instrs.size() > limits::lane_instructions)
    lane_fail(LaneFault::program_error, "{} instructions; expected at most {}", p.instrs.size(),
              limits::lane_instructions);
  if (p.labels.size() > limits::labels)
    lane_fail(LaneFault::program_error, "{} labels; expected at most {}", p.labels.size(),
              limits::labels);
  std::set<std::string_view> names;
  for (const LaneLabel& l : p.labels) {
    if (!names.insert(l.name).second)
      lane_fail(LaneFault::duplicate_label, "\"{}\" stands twice in the label table", l.name);
    bool plain = !l.name.empty() && l.name.size() <= limits::label_length &&
                 std::all_of(l.name.begin(), l.name.end(), [](char c) {
                   return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
                 });
    if (!plain)
      lane_fail(LaneFault::program_error, "a label is 1 to {} letters, digits, '_' and '.'",
                limits::label_length);
    if (l.target != undefined_target && l.target > p.instrs.size())
      lane_fail(LaneFault::invalid_label_target, "\"{}\" points at {} of {} instructions", l.name,
                l.target, p.instrs.size());
  }
  for (size_t k = 0; k < p.instrs.size(); ++k) check_instruction(p, k);
}

void verify(const LaneProgram& program) {
  check_structure(program);
  Flow(program).run();
}

}  // namespace hologram::atlas

// interp/lane.cpp: the register machine.
#include "interp/lane.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <unordered_map>

#include "atlas/lane_ops.h"
#include "atlas/math.h"
#include "interp/lanes.h"
#include "ir/scalar.h"

namespace hologram::interp {
namespace {

using atlas::lane_fail;
using atlas::LaneAddress;
using atlas::LaneFault;
using atlas::LaneInstr;
using atlas::LaneOp;
using ir::Op;

constexpr DType empty = DType::host;  ///< type of a register that holds nothing

/// One lane of a block between two barriers.
struct Lane {
  uint32_t pc = 0;
  uint32_t phase = 0;
  uint16_t set = 0;         ///< predicates that have a value …
  uint16_t predicates = 0;  ///< … and it
  std::vector<uint32_t> calls;
};

bool holds(atlas::Compare c, DType type, uint64_t x, uint64_t y) {
  atlas::Comparison how = atlas::comparison(c, type);
  if (how.exchanged) std::swap(x, y);
  return ir::eval_scalar(how.op, how.type, std::array{x, y}, DType::b8) != 0;
}

/// The sequence of one transcendental function.
struct Sequence {
  atlas::Body body;
  std::unique_ptr<BodyRunner> runner;
  Frame frame;

  Sequence(Op op, DType type) {
    atlas::BodyBuilder b(body);
    b.finish(atlas::emit_math(b, op, std::array{b.accumulator(0, type)}));
    runner = std::make_unique<BodyRunner>(body);
  }

  uint64_t operator()(uint64_t x) {
    frame.element = &x;
    runner->run(frame, 1);
    return runner->result()[0];
  }
};

class Machine : public atlas::LaneHost {
 public:
  Machine(const atlas::LaneProgram& p, const LaneLaunch& launch, LaneMemory& memory)
      : LaneHost(p, launch, memory), p_(p), slot_(slots().of) {
    values_.resize(lanes() * slots().count);
    types_.resize(lanes() * slots().count);
    lanes_.resize(lanes());
  }

 private:
  void start(size_t l, uint32_t x, uint64_t number) override {
    lanes_[l] = Lane{.phase = launch().first_phase, .calls = {}};
    enter(l);
    std::fill_n(type_, slots().count, empty);
    put(252, DType::u32, x);
    put(253, DType::u32, block_x());
    put(254, DType::u32, launch().block.x);
    put(255, DType::u64, number);
  }

  Stop resume(size_t l) override {
    enter(l);
    stop_ = {};
    while (!stop_.done && stop_.barrier < 0) step();
    return stop_;
  }

  void enter(size_t lane) {
    lane_ = &lanes_[lane];
    value_ = values_.data() + lane * slots().count;
    type_ = types_.data() + lane * slots().count;
  }

  uint64_t get(uint8_t reg, DType want) const {
    DType found = type_[slot_[reg]];
    if (found == want) return value_[slot_[reg]];
    wrong_register(at_, reg, found, want);
  }

  void put(uint8_t reg, DType type, uint64_t bits) {
    type_[slot_[reg]] = type;
    value_[slot_[reg]] = bits;
  }

  bool predicate(uint8_t p) const {
    if (!(lane_->set >> p & 1))
      lane_fail(LaneFault::uninitialized_predicate, "{}: p{}", place(at_), p);
    return lane_->predicates >> p & 1;
  }

  void put_predicate(uint8_t p, bool value) {
    lane_->set = static_cast<uint16_t>(lane_->set | 1u << p);
    lane_->predicates =
        static_cast<uint16_t>((lane_->predicates & ~(1u << p)) | unsigned{value} << p);
  }

  void step() {
    if (lane_->pc >= p_.instrs.size()) {
      stop_.done = true;
      return;
    }
    at_ = lane_->pc;
    count_steps(1);
    lane_->pc = next(p_.instrs[at_], at_ + 1);
  }

  // Executes an instruction; the position of the next one.
  uint32_t next(const LaneInstr& i, uint32_t following) {
    switch (i.op) {
      case LaneOp::bra:
        return !i.variant || predicate(i.regs[0]) ? target(i) : following;
      case LaneOp::call:
        if (lane_->calls.size() == atlas::lane_call_depth) overflow(at_);
        lane_->calls.push_back(following);
        return target(i);
      case LaneOp::ret: {
        if (lane_->calls.empty()) underflow(at_);
        uint32_t back = lane_->calls.back();
        lane_->calls.pop_back();
        return back;
      }
      case LaneOp::loop: {
        uint64_t n = get(i.regs[0], DType::u32);
        if (n == 0) return following;
        put(i.regs[0], DType::u32, n - 1);
        return target(i);
      }
      case LaneOp::exit:
        stop_.done = true;
        return following;
      case LaneOp::bar_sync:
        stop_.barrier = static_cast<int>(i.immediate);
        return following;
      default:
        execute(i);
        return following;
    }
  }

  uint32_t target(const LaneInstr& i) const { return p_.labels[i.label].target; }

  void execute(const LaneInstr& i) {
    const auto& r = i.regs;
    switch (i.op) {
      case LaneOp::ldg:
      case LaneOp::lds:
        return put(r[0], i.type, load(i));
      case LaneOp::stg:
      case LaneOp::sts: {
        uint64_t bits = get(r[0], i.type);
        std::memcpy(where(i), &bits, static_cast<size_t>(size_of(i.type)));
        return;
      }
      case LaneOp::mov:
        return put(r[0], i.type, get(r[1], i.type));
      case LaneOp::mov_imm:
        return put(r[0], i.type, i.immediate & mask(i.type));
      case LaneOp::cvt: {
        uint64_t x = get(r[1], i.from);
        return put(r[0], i.type,
                   i.type == i.from ? x : ir::eval_scalar(Op::cast, i.from, std::array{x}, i.type));
      }
      case LaneOp::mad: {
        uint64_t xy = ir::eval_scalar(Op::mul, i.type,
                                      std::array{get(r[1], i.type), get(r[2], i.type)}, i.type);
        return put(r[0], i.type,
                   ir::eval_scalar(Op::add, i.type, std::array{xy, get(r[3], i.type)}, i.type));
      }
      case LaneOp::shl:
      case LaneOp::shr: {
        uint64_t x = get(r[1], i.type);
        uint64_t amount = get(r[2], DType::u32) % static_cast<uint64_t>(size_of(i.type) * 8);
        return put(r[0], i.type,
                   ir::eval_scalar(atlas::scalar_op(i.op), i.type, std::array{x, amount}, i.type));
      }
      case LaneOp::set: {
        uint64_t x = get(r[1], i.type), y = get(r[2], i.type);
        return put_predicate(r[0], holds(static_cast<atlas::Compare>(i.variant), i.type, x, y));
      }
      case LaneOp::sel:
        return put(r[0], i.type, get(predicate(r[1]) ? r[2] : r[3], i.type));
      case LaneOp::memfence:
        // One thread runs all lanes in program order: of any scope, a fence only holds the
        // compiler.
        return std::atomic_signal_fence(std::memory_order_seq_cst);
      case LaneOp::reduce_add:
      case LaneOp::reduce_min:
      case LaneOp::reduce_max:
      case LaneOp::reduce_mul:
        return put(r[0], i.type, reduce(i));
      case LaneOp::exp:
      case LaneOp::log:
      case LaneOp::log2:
      case LaneOp::log10:
      case LaneOp::rsqrt:
      case LaneOp::sin:
      case LaneOp::cos:
      case LaneOp::tan:
      case LaneOp::tanh:
      case LaneOp::sigmoid:
        return put(r[0], i.type, transcendental(i.op, i.type, get(r[1], i.type)));
      default:
        break;
    }
    if (i.op >= LaneOp::cls_get && i.op <= LaneOp::bound_map) return class_instruction(i);
    if (i.op >= LaneOp::pool_alloc) return pool_instruction(i);
    arithmetic(i);
  }

  void arithmetic(const LaneInstr& i) {
    std::array<uint64_t, 3> args{};
    size_t count = atlas::info(i.op).operands.size() - 1;
    for (size_t k = 0; k < count; ++k) args[k] = get(i.regs[k + 1], i.type);
    bool error = false;
    uint64_t value = ir::eval_scalar(atlas::scalar_op(i.op), i.type, std::span(args).first(count),
                                     i.type, &error);
    if (error) division_by_zero(at_);
    put(i.regs[0], i.type, value);
  }

  static uint64_t mask(DType t) { return ~uint64_t{0} >> (64 - 8 * size_of(t)); }

  uint64_t transcendental(LaneOp op, DType type, uint64_t x) {
    auto key = static_cast<int>(op) * num_dtypes + static_cast<int>(type);
    auto [it, fresh] = sequences_.try_emplace(key);
    if (fresh) it->second = std::make_unique<Sequence>(atlas::scalar_op(op), type);
    return (*it->second)(x);
  }

  uint64_t reduce(const LaneInstr& i) {
    Op op = atlas::scalar_op(i.op);
    if (i.immediate == 0) return ir::identity_of(atlas::identity_op(i.op), i.type);
    uint64_t value = get(i.regs[1], i.type);
    for (uint64_t k = 1; k < i.immediate; ++k)
      value = ir::eval_scalar(
          op, i.type, std::array{value, get(static_cast<uint8_t>(i.regs[1] + k), i.type)}, i.type);
    return value;
  }

  void class_instruction(const LaneInstr& i) {
    const auto& r = i.regs;
    switch (i.op) {
      case LaneOp::cls_get:
        return put(r[0], DType::u8, operate(at_, 0, 0, 0));
      case LaneOp::mirror:
      case LaneOp::nbr_get:
        return put(r[0], DType::u8, operate(at_, get(r[1], DType::u8), 0, 0));
      case LaneOp::unity_test:
        return put_predicate(r[0], operate(at_, 0, 0, 0) != 0);
      case LaneOp::nbr_count:
        return put(r[0], DType::u32, operate(at_, get(r[1], DType::u8), 0, 0));
      case LaneOp::res_accum: {
        uint64_t cls = get(r[0], DType::u8);
        operate(at_, cls, get(r[1], DType::f64), 0);
        return;
      }
      case LaneOp::phase_get:
        return put(r[0], DType::u32, lane_->phase);
      case LaneOp::phase_adv:
        lane_->phase = static_cast<uint32_t>((lane_->phase + i.immediate) % atlas::num_phases);
        return;
      default: {  // bound_map
        uint64_t cls = get(r[1], DType::u8), page = get(r[2], DType::u8);
        return put(r[0], DType::u64, operate(at_, cls, page, get(r[3], DType::u8)));
      }
    }
  }

  void pool_instruction(const LaneInstr& i) {
    const auto& r = i.regs;
    switch (i.op) {
      case LaneOp::pool_alloc:
        return put(r[0], DType::u64, operate(at_, 0, 0, 0));
      case LaneOp::pool_free:
        operate(at_, get(r[0], DType::u64), 0, 0);
        return;
      case LaneOp::pool_load: {
        uint64_t h = get(r[1], DType::u64);
        return put(r[0], i.type, operate(at_, h, get(r[2], DType::u64), 0));
      }
      default: {  // pool_store
        uint64_t h = get(r[0], DType::u64), offset = get(r[1], DType::u64);
        operate(at_, h, offset, get(r[2], i.type));
        return;
      }
    }
  }

  std::byte* where(const LaneInstr& i) {
    const LaneAddress& a = i.address;
    switch (a.kind) {
      case LaneAddress::Kind::buffer:
        return address(at_, a.handle, a.offset);
      case LaneAddress::Kind::phi:
        return address(at_, 0, atlas::phi_offset(a));
      case LaneAddress::Kind::indirect:
        // A negative displacement becomes a huge offset, which is out of bounds.
        return address(at_, get(a.a, DType::u64), a.offset);
      default: {
        uint64_t h = get(a.a, DType::u64);
        return address(at_, h, get(a.b, DType::u64));
      }
    }
  }

  uint64_t load(const LaneInstr& i) {
    uint64_t bits = 0;
    std::memcpy(&bits, where(i), static_cast<size_t>(size_of(i.type)));
    return bits;
  }

  const atlas::LaneProgram& p_;
  const std::array<uint16_t, atlas::lane_registers>& slot_;
  std::vector<uint64_t> values_;
  std::vector<DType> types_;
  std::vector<Lane> lanes_;
  std::unordered_map<int, std::unique_ptr<Sequence>> sequences_;
  Stop stop_;
  uint32_t at_ = 0;
  Lane* lane_ = nullptr;
  uint64_t* value_ = nullptr;
  DType* type_ = nullptr;
};

}  // namespace

void run(const atlas::LaneProgram& program, const LaneLaunch& launch, LaneMemory& memory) {
  atlas::check_structure(program);
  Machine(program, launch, memory).run();
}

}  // namespace hologram::interp

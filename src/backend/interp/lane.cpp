// backend/interp/lane.cpp: the register machine.
#include "backend/interp/lane.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <memory>
#include <unordered_map>

#include "atlas/math.h"
#include "backend/interp/lanes.h"
#include "ir/scalar.h"

namespace hologram::interp {
namespace {

using atlas::lane_fail;
using atlas::LaneAddress;
using atlas::LaneFault;
using atlas::LaneInstr;
using atlas::LaneOp;
using atlas::LaneOperand;
using ir::Op;
using Role = LaneOperand::Role;
using Of = LaneOperand::Of;

constexpr uint64_t pool_overhead = 128;  ///< bytes that a pool counts beside its own
constexpr DType empty = DType::host;     ///< type of a register that holds nothing

/// One lane of a block between two barriers.
struct Lane {
  uint32_t pc = 0;
  uint32_t phase = 0;
  uint16_t set = 0;         ///< predicates that have a value …
  uint16_t predicates = 0;  ///< … and it
  bool done = false;
  int barrier = -1;  ///< the barrier it waits at
  std::vector<uint32_t> calls;
};

Op scalar_op(LaneOp op) {
  switch (op) {
    case LaneOp::add:
      return Op::add;
    case LaneOp::sub:
      return Op::sub;
    case LaneOp::mul:
      return Op::mul;
    case LaneOp::div:
      return Op::div;
    case LaneOp::min:
    case LaneOp::reduce_min:
      return Op::minnum;
    case LaneOp::max:
    case LaneOp::reduce_max:
      return Op::maxnum;
    case LaneOp::abs:
      return Op::abs;
    case LaneOp::neg:
      return Op::neg;
    case LaneOp::and_:
      return Op::bit_and;
    case LaneOp::or_:
      return Op::bit_or;
    case LaneOp::xor_:
      return Op::bit_xor;
    case LaneOp::not_:
      return Op::bit_not;
    case LaneOp::shl:
      return Op::shl;
    case LaneOp::shr:
      return Op::shr;
    case LaneOp::fma:
      return Op::fma;
    case LaneOp::reduce_mul:
      return Op::mul;
    case LaneOp::exp:
      return Op::exp;
    case LaneOp::log:
      return Op::log;
    case LaneOp::log2:
      return Op::log2;
    case LaneOp::log10:
      return Op::log10;
    case LaneOp::sqrt:
      return Op::sqrt;
    case LaneOp::rsqrt:
      return Op::rsqrt;
    case LaneOp::sin:
      return Op::sin;
    case LaneOp::cos:
      return Op::cos;
    case LaneOp::tan:
      return Op::tan;
    case LaneOp::tanh:
      return Op::tanh;
    case LaneOp::sigmoid:
      return Op::sigmoid;
    default:
      return Op::add;
  }
}

DType unsigned_of(DType t) {
  switch (t) {
    case DType::i8:
      return DType::u8;
    case DType::i16:
      return DType::u16;
    case DType::i32:
      return DType::u32;
    case DType::i64:
      return DType::u64;
    default:
      return t;
  }
}

bool compares(atlas::Compare c, DType type, uint64_t x, uint64_t y) {
  using atlas::Compare;
  if (c >= Compare::ltu) {
    type = unsigned_of(type);
    c = static_cast<Compare>(static_cast<int>(c) - static_cast<int>(Compare::ltu) +
                             static_cast<int>(Compare::lt));
  }
  if (c == Compare::gt || c == Compare::ge) {
    std::swap(x, y);
    c = c == Compare::gt ? Compare::lt : Compare::le;
  }
  Op op = c == Compare::eq   ? Op::eq
          : c == Compare::ne ? Op::ne
          : c == Compare::lt ? Op::lt
                             : Op::le;
  return ir::eval_scalar(op, type, std::array{x, y}, DType::b8) != 0;
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

class Machine {
 public:
  Machine(const atlas::LaneProgram& p, const LaneLaunch& launch, LaneMemory& memory)
      : p_(p), launch_(launch), memory_(memory) {
    number_registers();
  }

  void run() {
    const Dim3 &g = launch_.grid, &b = launch_.block;
    uint64_t blocks = product(g), lanes_per_block = product(b);
    uint64_t bytes = 0;
    uint64_t per_lane = slots_ * 9 + sizeof(Lane);
    if (launch_.first_phase >= atlas::num_phases)
      lane_fail(LaneFault::invalid_launch_config, "phase {}; expected 0 to 767",
                launch_.first_phase);
    if (!memory_.boundary.empty() && memory_.boundary.size() != atlas::boundary_bytes)
      lane_fail(LaneFault::invalid_launch_config, "a boundary pool of {} bytes; expected {}",
                memory_.boundary.size(), atlas::boundary_bytes);
    if (__builtin_mul_overflow(lanes_per_block, per_lane, &bytes) ||
        __builtin_add_overflow(bytes, launch_.shared_bytes, &bytes) || bytes > launch_.max_memory)
      lane_fail(LaneFault::out_of_memory, "a block of {} lanes with {} bytes of shared memory",
                lanes_per_block, launch_.shared_bytes);
    values_.resize(lanes_per_block * slots_);
    types_.resize(lanes_per_block * slots_);
    lanes_.resize(lanes_per_block);
    for (uint64_t k = 0; k < blocks; ++k) run_block(k);
  }

 private:
  static uint64_t product(const Dim3& d) {
    uint64_t n = uint64_t{d.x} * d.y, all = 0;
    if (n == 0 || d.z == 0) lane_fail(LaneFault::invalid_launch_config, "a dimension of 0");
    if (__builtin_mul_overflow(n, uint64_t{d.z}, &all))
      lane_fail(LaneFault::invalid_launch_config, "more than 2^64 blocks or lanes");
    return all;
  }

  // Only registers that the program names take room.
  void number_registers() {
    std::array<bool, atlas::lane_registers> used{};
    used[252] = used[253] = used[254] = used[255] = true;
    for (const LaneInstr& i : p_.instrs) {
      if (i.address.kind == LaneAddress::Kind::indirect ||
          i.address.kind == LaneAddress::Kind::computed)
        used[i.address.a] = used[i.address.b] = true;
      size_t reg = 0;
      for (const LaneOperand& o : atlas::info(i.op).operands) {
        if (o.role == Role::range)
          std::fill_n(used.begin() + i.regs[reg++], i.immediate, true);
        else if (o.role < Role::address)
          used[i.regs[reg++]] = true;
      }
    }
    for (size_t r = 0; r < used.size(); ++r)
      if (used[r]) slot_[r] = static_cast<uint16_t>(slots_++);
  }

  void run_block(uint64_t block) {
    block_x_ = static_cast<uint32_t>(block % launch_.grid.x);
    count_steps(lanes_.size());  // so that many empty blocks meet the limit, too
    shared_.assign(launch_.shared_bytes, std::byte{0});
    std::fill(types_.begin(), types_.end(), empty);
    for (size_t l = 0; l < lanes_.size(); ++l) {
      lanes_[l] = Lane{.phase = launch_.first_phase, .calls = {}};
      enter(l);
      put(252, DType::u32, l % launch_.block.x);
      put(253, DType::u32, block_x_);
      put(254, DType::u32, launch_.block.x);
      put(255, DType::u64, block * lanes_.size() + l);
    }
    while (run_to_barrier()) release();
  }

  void enter(size_t lane) {
    lane_ = &lanes_[lane];
    value_ = values_.data() + lane * slots_;
    type_ = types_.data() + lane * slots_;
  }

  // Runs every lane until it waits or ends; true if any waits.
  bool run_to_barrier() {
    bool waits = false;
    for (size_t l = 0; l < lanes_.size(); ++l) {
      enter(l);
      while (!lane_->done && lane_->barrier < 0) step();
      waits = waits || lane_->barrier >= 0;
    }
    return waits;
  }

  // Every lane that has not ended waits now: all must wait at the same barrier.
  void release() {
    int barrier = -1;
    for (Lane& l : lanes_) {
      if (l.done) continue;
      if (barrier >= 0 && l.barrier != barrier)
        lane_fail(LaneFault::execution_error,
                  "deadlock: lanes of a block wait at barriers {} and {}", barrier, l.barrier);
      barrier = l.barrier;
      l.barrier = -1;
    }
  }

  std::string place() const {
    return fmt::format("instruction {} ({})", at_, atlas::disassemble(p_.instrs[at_], p_));
  }

  uint64_t get(uint8_t reg, DType want) const {
    DType found = type_[slot_[reg]];
    if (found == want) return value_[slot_[reg]];
    if (found == empty) lane_fail(LaneFault::uninitialized_register, "{}: r{}", place(), reg);
    lane_fail(LaneFault::type_mismatch, "{}: r{} is {}; expected {}", place(), reg,
              hologram::name_of(found), hologram::name_of(want));
  }

  void put(uint8_t reg, DType type, uint64_t bits) {
    type_[slot_[reg]] = type;
    value_[slot_[reg]] = bits;
  }

  bool predicate(uint8_t p) const {
    if (!(lane_->set >> p & 1))
      lane_fail(LaneFault::uninitialized_predicate, "{}: p{}", place(), p);
    return lane_->predicates >> p & 1;
  }

  void put_predicate(uint8_t p, bool value) {
    lane_->set = static_cast<uint16_t>(lane_->set | 1u << p);
    lane_->predicates =
        static_cast<uint16_t>((lane_->predicates & ~(1u << p)) | unsigned{value} << p);
  }

  void count_steps(uint64_t n) {
    if (n > launch_.max_steps - steps_)
      lane_fail(LaneFault::execution_error, "more than {} steps", launch_.max_steps);
    steps_ += n;
  }

  void step() {
    if (lane_->pc >= p_.instrs.size()) {
      lane_->done = true;
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
        if (lane_->calls.size() == atlas::lane_call_depth)
          lane_fail(LaneFault::call_stack_overflow, "{}: more than {} calls deep", place(),
                    atlas::lane_call_depth);
        lane_->calls.push_back(following);
        return target(i);
      case LaneOp::ret: {
        if (lane_->calls.empty())
          lane_fail(LaneFault::call_stack_underflow, "{}: no call to return from", place());
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
        lane_->done = true;
        return following;
      case LaneOp::bar_sync:
        lane_->barrier = static_cast<int>(i.immediate);
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
        return put(r[0], i.type, load(address(i), i.type));
      case LaneOp::stg:
      case LaneOp::sts: {
        uint64_t bits = get(r[0], i.type);
        return store(address(i), i.type, bits);
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
                   ir::eval_scalar(scalar_op(i.op), i.type, std::array{x, amount}, i.type));
      }
      case LaneOp::set: {
        uint64_t x = get(r[1], i.type), y = get(r[2], i.type);
        return put_predicate(r[0], compares(static_cast<atlas::Compare>(i.variant), i.type, x, y));
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
    if (i.op >= LaneOp::pool_alloc) return pool(i);
    arithmetic(i);
  }

  void arithmetic(const LaneInstr& i) {
    std::array<uint64_t, 3> args{};
    size_t count = atlas::info(i.op).operands.size() - 1;
    for (size_t k = 0; k < count; ++k) args[k] = get(i.regs[k + 1], i.type);
    bool error = false;
    uint64_t value =
        ir::eval_scalar(scalar_op(i.op), i.type, std::span(args).first(count), i.type, &error);
    if (error) lane_fail(LaneFault::division_by_zero, "{}", place());
    put(i.regs[0], i.type, value);
  }

  static uint64_t mask(DType t) { return ~uint64_t{0} >> (64 - 8 * size_of(t)); }

  uint64_t transcendental(LaneOp op, DType type, uint64_t x) {
    auto key = static_cast<int>(op) * num_dtypes + static_cast<int>(type);
    auto [it, fresh] = sequences_.try_emplace(key);
    if (fresh) it->second = std::make_unique<Sequence>(scalar_op(op), type);
    return (*it->second)(x);
  }

  uint64_t reduce(const LaneInstr& i) {
    Op op = scalar_op(i.op);
    Op identity = i.op == LaneOp::reduce_add   ? Op::reduce_sum
                  : i.op == LaneOp::reduce_mul ? Op::reduce_prod
                  : i.op == LaneOp::reduce_min ? Op::reduce_min
                                               : Op::reduce_max;
    if (i.immediate == 0) return identity_of(identity, i.type);
    uint64_t value = get(i.regs[1], i.type);
    for (uint64_t k = 1; k < i.immediate; ++k)
      value = ir::eval_scalar(
          op, i.type, std::array{value, get(static_cast<uint8_t>(i.regs[1] + k), i.type)}, i.type);
    return value;
  }

  int class_of(uint8_t reg) {
    auto c = static_cast<int>(get(reg, DType::u8));
    if (c >= atlas::num_classes)
      lane_fail(LaneFault::invalid_class_index, "{}: class {}; expected 0 to 95", place(), c);
    return c;
  }

  void class_instruction(const LaneInstr& i) {
    const auto& r = i.regs;
    auto current = static_cast<int>(block_x_ % atlas::num_classes);
    switch (i.op) {
      case LaneOp::cls_get:
        return put(r[0], DType::u8, static_cast<uint64_t>(current));
      case LaneOp::mirror:
        return put(r[0], DType::u8, static_cast<uint64_t>(atlas::class_mirror(class_of(r[1]))));
      case LaneOp::unity_test:
        return put_predicate(r[0], atlas::in_unity_set(current));
      case LaneOp::nbr_count:
        return put(r[0], DType::u32, atlas::class_neighbours(class_of(r[1])).size());
      case LaneOp::nbr_get: {
        auto list = atlas::class_neighbours(class_of(r[1]));
        return put(r[0], DType::u8, i.immediate < list.size() ? list[i.immediate] : 0);
      }
      case LaneOp::res_accum: {
        auto c = static_cast<size_t>(class_of(r[0]));
        memory_.resonance[c] += ir::as_double(DType::f64, get(r[1], DType::f64));
        return;
      }
      case LaneOp::phase_get:
        return put(r[0], DType::u32, lane_->phase);
      case LaneOp::phase_adv:
        lane_->phase = static_cast<uint32_t>((lane_->phase + i.immediate) % atlas::num_phases);
        return;
      default: {  // bound_map
        auto c = static_cast<uint64_t>(class_of(r[1]));
        uint64_t page = get(r[2], DType::u8), byte = get(r[3], DType::u8);
        if (page >= atlas::class_pages)
          lane_fail(LaneFault::invalid_boundary_coordinates, "{}: page {}; expected 0 to 47",
                    place(), page);
        return put(r[0], DType::u64, c * atlas::class_bytes + page * atlas::page_bytes + byte);
      }
    }
  }

  struct Place {
    std::span<std::byte> memory;
    uint64_t offset;
  };

  Place address(const LaneInstr& i) {
    const LaneAddress& a = i.address;
    bool shared = i.op == LaneOp::lds || i.op == LaneOp::sts;
    switch (a.kind) {
      case LaneAddress::Kind::buffer:
        return {handle(a.handle, shared), a.offset};
      case LaneAddress::Kind::phi:
        return {handle(0, false),
                uint64_t{a.a} * atlas::class_bytes + a.b * atlas::page_bytes + a.c};
      case LaneAddress::Kind::indirect:
        // A negative displacement becomes a huge offset, which is out of bounds.
        return {handle(get(a.a, DType::u64), shared), a.offset};
      default:
        return {handle(get(a.a, DType::u64), shared), get(a.b, DType::u64)};
    }
  }

  std::span<std::byte> handle(uint64_t h, bool shared) {
    if (shared) {
      if (h == 0) return shared_;
      lane_fail(LaneFault::invalid_buffer_handle, "{}: shared memory is handle 0, not {}", place(),
                h);
    }
    if (h == 0 || h >= atlas::class_handle(0)) {
      if (memory_.boundary.empty())
        lane_fail(LaneFault::invalid_buffer_handle, "{}: this launch has no boundary pool",
                  place());
      if (h == 0) return memory_.boundary;
      return memory_.boundary.subspan((h - atlas::class_handle(0)) * atlas::class_bytes,
                                      atlas::class_bytes);
    }
    if (h > memory_.buffers.size())
      lane_fail(LaneFault::invalid_buffer_handle, "{}: handle {} of {} buffers", place(), h,
                memory_.buffers.size());
    return memory_.buffers[h - 1];
  }

  std::byte* bytes_at(const Place& at, DType type, LaneFault fault) {
    auto size = static_cast<uint64_t>(size_of(type));
    if (at.memory.size() < size || at.offset > at.memory.size() - size)
      lane_fail(fault, "{}: offset {}, size {}, in {} bytes", place(),
                static_cast<int64_t>(at.offset), size, at.memory.size());
    return at.memory.data() + at.offset;
  }

  uint64_t load(const Place& at, DType type, LaneFault fault = LaneFault::buffer_out_of_bounds) {
    const std::byte* from = bytes_at(at, type, fault);
    uint64_t bits = 0;
    std::memcpy(&bits, from, static_cast<size_t>(size_of(type)));
    return bits;
  }

  void store(const Place& at, DType type, uint64_t bits,
             LaneFault fault = LaneFault::buffer_out_of_bounds) {
    std::memcpy(bytes_at(at, type, fault), &bits, static_cast<size_t>(size_of(type)));
  }

  void pool(const LaneInstr& i) {
    const auto& r = i.regs;
    switch (i.op) {
      case LaneOp::pool_alloc: {
        if (pool_bytes_ + pool_overhead > launch_.max_memory ||
            i.immediate > launch_.max_memory - pool_bytes_ - pool_overhead)
          lane_fail(LaneFault::out_of_memory, "{}: pools beyond {} bytes", place(),
                    launch_.max_memory);
        pool_bytes_ += i.immediate + pool_overhead;
        pools_.emplace(++last_pool_, std::vector<std::byte>(i.immediate));
        return put(r[0], DType::u64, last_pool_);
      }
      case LaneOp::pool_free: {
        auto it = find_pool(get(r[0], DType::u64));
        pool_bytes_ -= it->second.size() + pool_overhead;
        pools_.erase(it);
        return;
      }
      case LaneOp::pool_load: {
        uint64_t h = get(r[1], DType::u64), offset = get(r[2], DType::u64);
        return put(r[0], i.type,
                   load({find_pool(h)->second, offset}, i.type, LaneFault::pool_out_of_bounds));
      }
      default: {  // pool_store
        uint64_t h = get(r[0], DType::u64), offset = get(r[1], DType::u64),
                 bits = get(r[2], i.type);
        return store({find_pool(h)->second, offset}, i.type, bits, LaneFault::pool_out_of_bounds);
      }
    }
  }

  std::unordered_map<uint64_t, std::vector<std::byte>>::iterator find_pool(uint64_t h) {
    auto it = pools_.find(h);
    if (it == pools_.end()) lane_fail(LaneFault::invalid_pool_handle, "{}: handle {}", place(), h);
    return it;
  }

  const atlas::LaneProgram& p_;
  const LaneLaunch& launch_;
  LaneMemory& memory_;
  std::array<uint16_t, atlas::lane_registers> slot_{};
  size_t slots_ = 0;
  std::vector<uint64_t> values_;
  std::vector<DType> types_;
  std::vector<Lane> lanes_;
  std::vector<std::byte> shared_;
  std::unordered_map<uint64_t, std::vector<std::byte>> pools_;
  uint64_t last_pool_ = 0, pool_bytes_ = 0, steps_ = 0;
  std::unordered_map<int, std::unique_ptr<Sequence>> sequences_;
  uint32_t block_x_ = 0, at_ = 0;
  Lane* lane_ = nullptr;
  uint64_t* value_ = nullptr;
  DType* type_ = nullptr;
};

}  // namespace

LaneLaunch LaneLaunch::linear(uint64_t total, uint32_t block) {
  if (total == 0 || block == 0)
    lane_fail(LaneFault::invalid_launch_config, "{} elements in blocks of {}", total, block);
  uint64_t blocks = (total - 1) / block + 1;
  if (blocks > std::numeric_limits<uint32_t>::max())
    lane_fail(LaneFault::invalid_launch_config, "{} blocks; expected at most 2^32 - 1", blocks);
  LaneLaunch l;
  l.grid.x = static_cast<uint32_t>(blocks);
  l.block.x = block;
  return l;
}

void run(const atlas::LaneProgram& program, const LaneLaunch& launch, LaneMemory& memory) {
  atlas::check_structure(program);
  Machine(program, launch, memory).run();
}

}  // namespace hologram::interp

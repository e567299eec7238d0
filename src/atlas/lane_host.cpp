// atlas/lane_host.cpp: blocks, barriers, memory, classes and pools of a launch.
#include "atlas/lane_host.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

namespace hologram::atlas {
namespace {

constexpr uint64_t pool_overhead = 128;  ///< bytes that a pool counts beside its own
constexpr uint64_t lane_overhead = 64;   ///< bytes that a lane counts beside its registers
constexpr uint64_t register_bytes = 9;   ///< value and type

uint64_t product(const Dim3& d) {
  uint64_t n = uint64_t{d.x} * d.y, all = 0;
  if (n == 0 || d.z == 0) lane_fail(LaneFault::invalid_launch_config, "a dimension of 0");
  if (__builtin_mul_overflow(n, uint64_t{d.z}, &all))
    lane_fail(LaneFault::invalid_launch_config, "more than 2^64 blocks or lanes");
  return all;
}

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

LaneSlots::LaneSlots(const LaneProgram& program) {
  std::array<bool, lane_registers> used{};
  used[252] = used[253] = used[254] = used[255] = true;
  for (const LaneInstr& i : program.instrs) {
    if (i.address.kind == LaneAddress::Kind::indirect ||
        i.address.kind == LaneAddress::Kind::computed)
      used[i.address.a] = used[i.address.b] = true;
    size_t reg = 0;
    for (const LaneOperand& o : info(i.op).operands) {
      if (o.role == LaneOperand::Role::range)
        std::fill_n(used.begin() + i.regs[reg++], i.immediate, true);
      else if (o.role < LaneOperand::Role::address)
        used[i.regs[reg++]] = true;
    }
  }
  for (size_t r = 0; r < used.size(); ++r) of[r] = used[r] ? static_cast<uint16_t>(count++) : none;
}

LaneHost::LaneHost(const LaneProgram& program, const LaneLaunch& launch, LaneMemory& memory)
    : program_(program), launch_(launch), memory_(memory), slots_(program) {
  blocks_ = product(launch.grid);
  uint64_t lanes_per_block = product(launch.block);
  if (launch.first_phase >= num_phases)
    lane_fail(LaneFault::invalid_launch_config, "phase {}; expected 0 to 767", launch.first_phase);
  if (!memory.boundary.empty() && memory.boundary.size() != boundary_bytes)
    lane_fail(LaneFault::invalid_launch_config, "a boundary pool of {} bytes; expected {}",
              memory.boundary.size(), boundary_bytes);
  uint64_t bytes = 0, per_lane = slots_.count * register_bytes + lane_overhead;
  if (__builtin_mul_overflow(lanes_per_block, per_lane, &bytes) ||
      __builtin_add_overflow(bytes, launch.shared_bytes, &bytes) || bytes > launch.max_memory)
    lane_fail(LaneFault::out_of_memory, "a block of {} lanes with {} bytes of shared memory",
              lanes_per_block, launch.shared_bytes);
  stops_.resize(lanes_per_block);
}

void LaneHost::run() {
  for (uint64_t k = 0; k < blocks_; ++k) run_block(k);
}

void LaneHost::run_block(uint64_t block) {
  block_x_ = static_cast<uint32_t>(block % launch_.grid.x);
  count_steps(lanes());  // so that many empty blocks meet the limit, too
  shared_.assign(launch_.shared_bytes, std::byte{0});
  for (size_t l = 0; l < lanes(); ++l) {
    stops_[l] = {};
    start(l, static_cast<uint32_t>(l % launch_.block.x), block * lanes() + l);
  }
  for (;;) {
    bool waits = false;
    for (size_t l = 0; l < lanes(); ++l) {
      if (!stops_[l].done) stops_[l] = resume(l);
      waits = waits || !stops_[l].done;
    }
    if (!waits) return;
    release();
  }
}

// Every lane that has not ended waits now: all must wait at the same barrier.
void LaneHost::release() {
  int barrier = -1;
  for (Stop& s : stops_) {
    if (s.done) continue;
    if (barrier >= 0 && s.barrier != barrier)
      lane_fail(LaneFault::execution_error, "deadlock: lanes of a block wait at barriers {} and {}",
                barrier, s.barrier);
    barrier = s.barrier;
  }
}

void LaneHost::too_many_steps() const {
  lane_fail(LaneFault::execution_error, "more than {} steps", launch_.max_steps);
}

std::string LaneHost::place(uint32_t at) const {
  return fmt::format("instruction {} ({})", at, disassemble(program_.instrs[at], program_));
}

void LaneHost::division_by_zero(uint32_t at) const {
  lane_fail(LaneFault::division_by_zero, "{}", place(at));
}

void LaneHost::wrong_register(uint32_t at, int reg, DType found, DType want) const {
  if (found == DType::host) lane_fail(LaneFault::uninitialized_register, "{}: r{}", place(at), reg);
  lane_fail(LaneFault::type_mismatch, "{}: r{} is {}; expected {}", place(at), reg,
            hologram::name_of(found), hologram::name_of(want));
}

void LaneHost::overflow(uint32_t at) const {
  lane_fail(LaneFault::call_stack_overflow, "{}: more than {} calls deep", place(at),
            lane_call_depth);
}

void LaneHost::underflow(uint32_t at) const {
  lane_fail(LaneFault::call_stack_underflow, "{}: no call to return from", place(at));
}

std::byte* LaneHost::address(uint32_t at, uint64_t handle, uint64_t offset) {
  LaneOp op = program_.instrs[at].op;
  bool shared = op == LaneOp::lds || op == LaneOp::sts;
  return checked(at, memory_of(at, handle, shared), offset, LaneFault::buffer_out_of_bounds);
}

std::span<std::byte> LaneHost::memory_of(uint32_t at, uint64_t h, bool shared) {
  if (shared) {
    if (h == 0) return shared_;
    lane_fail(LaneFault::invalid_buffer_handle, "{}: shared memory is handle 0, not {}", place(at),
              h);
  }
  if (h == 0 || h >= class_handle(0)) {
    if (memory_.boundary.empty())
      lane_fail(LaneFault::invalid_buffer_handle, "{}: this launch has no boundary pool",
                place(at));
    if (h == 0) return memory_.boundary;
    return memory_.boundary.subspan((h - class_handle(0)) * class_bytes, class_bytes);
  }
  if (h > memory_.buffers.size())
    lane_fail(LaneFault::invalid_buffer_handle, "{}: handle {} of {} buffers", place(at), h,
              memory_.buffers.size());
  return memory_.buffers[h - 1];
}

std::byte* LaneHost::checked(uint32_t at, std::span<std::byte> memory, uint64_t offset,
                             LaneFault fault) {
  auto size = static_cast<uint64_t>(size_of(program_.instrs[at].type));
  if (memory.size() < size || offset > memory.size() - size)
    lane_fail(fault, "{}: offset {}, size {}, in {} bytes", place(at), static_cast<int64_t>(offset),
              size, memory.size());
  return memory.data() + offset;
}

int LaneHost::checked_class(uint32_t at, uint64_t value) const {
  if (value >= num_classes)
    lane_fail(LaneFault::invalid_class_index, "{}: class {}; expected 0 to 95", place(at), value);
  return static_cast<int>(value);
}

uint64_t LaneHost::operate(uint32_t at, uint64_t a, uint64_t b, uint64_t c) {
  const LaneInstr& i = program_.instrs[at];
  auto current = static_cast<int>(block_x_ % num_classes);
  switch (i.op) {
    case LaneOp::cls_get:
      return static_cast<uint64_t>(current);
    case LaneOp::mirror:
      return static_cast<uint64_t>(class_mirror(checked_class(at, a)));
    case LaneOp::unity_test:
      return in_unity_set(current);
    case LaneOp::nbr_count:
      return class_neighbours(checked_class(at, a)).size();
    case LaneOp::nbr_get: {
      auto list = class_neighbours(checked_class(at, a));
      return i.immediate < list.size() ? list[i.immediate] : 0;
    }
    case LaneOp::res_accum:
      memory_.resonance[static_cast<size_t>(checked_class(at, a))] += std::bit_cast<double>(b);
      return 0;
    case LaneOp::bound_map: {
      auto cls = static_cast<uint64_t>(checked_class(at, a));
      if (b >= class_pages)
        lane_fail(LaneFault::invalid_boundary_coordinates, "{}: page {}; expected 0 to 47",
                  place(at), b);
      return cls * class_bytes + b * page_bytes + c;
    }
    case LaneOp::pool_alloc:
      return allocate(at, i.immediate);
    case LaneOp::pool_free: {
      auto it = find_pool(at, a);
      pool_bytes_ -= it->second.size() + pool_overhead;
      pools_.erase(it);
      return 0;
    }
    case LaneOp::pool_load:
    case LaneOp::pool_store: {
      std::byte* p = checked(at, find_pool(at, a)->second, b, LaneFault::pool_out_of_bounds);
      auto size = static_cast<size_t>(size_of(i.type));
      uint64_t bits = 0;
      if (i.op == LaneOp::pool_store)
        std::memcpy(p, &c, size);
      else
        std::memcpy(&bits, p, size);
      return bits;
    }
    default:
      fail(ErrorCode::internal, "lane host: {} is no operation of the host", place(at));
  }
}

uint64_t LaneHost::allocate(uint32_t at, uint64_t bytes) {
  if (pool_bytes_ + pool_overhead > launch_.max_memory ||
      bytes > launch_.max_memory - pool_bytes_ - pool_overhead)
    lane_fail(LaneFault::out_of_memory, "{}: pools beyond {} bytes", place(at), launch_.max_memory);
  pool_bytes_ += bytes + pool_overhead;
  pools_.emplace(++last_pool_, std::vector<std::byte>(bytes));
  return last_pool_;
}

LaneHost::Pools::iterator LaneHost::find_pool(uint32_t at, uint64_t handle) {
  auto it = pools_.find(handle);
  if (it == pools_.end())
    lane_fail(LaneFault::invalid_pool_handle, "{}: handle {}", place(at), handle);
  return it;
}

}  // namespace hologram::atlas

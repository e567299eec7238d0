// backend/cpu/lanes/compile.cpp: the register machine as one function: registers are values, labels
// blocks, returns and resume points switches.
#include "backend/cpu/lanes/compile.h"

#include <array>
#include <map>
#include <set>

#include "atlas/builder.h"
#include "atlas/lane_abi.h"
#include "atlas/lane_ops.h"
#include "atlas/math.h"
#include "backend/cpu/function.h"
#include "backend/cpu/target_machine.h"
#include "base/error.h"

namespace hologram::cpu {
namespace {

using atlas::LaneAddress;
using atlas::LaneInstr;
using atlas::LaneOp;
using atlas::LaneServices;
using atlas::LaneState;
using atlas::LaneTrap;
using ir::Op;
using llvm::BasicBlock;

static_assert(offsetof(LaneServices, operate) == 8 && offsetof(LaneServices, steps) == 32);

// The function's arguments as a kernel's buffers.
atlas::Program shell() {
  atlas::Program p;
  for (int k = 0; k < 2; ++k) p.buffers.push_back({DType::u8, atlas::Access::read_write, Expr(1)});
  return p;
}

bool ends_block(LaneOp op) {
  return op == LaneOp::bra || op == LaneOp::call || op == LaneOp::ret || op == LaneOp::loop ||
         op == LaneOp::exit || op == LaneOp::bar_sync;
}

// Whether an instruction can neither fault nor be seen from outside its lane.
bool is_pure(const LaneInstr& i) {
  switch (i.op) {
    case LaneOp::div:
      return is_float(i.type);
    case LaneOp::mov:
    case LaneOp::mov_imm:
    case LaneOp::cvt:
    case LaneOp::set:
    case LaneOp::memfence:
    case LaneOp::cls_get:
    case LaneOp::unity_test:
    case LaneOp::phase_get:
    case LaneOp::phase_adv:
      return true;
    default:
      break;
  }
  bool computes = i.op >= LaneOp::add && i.op <= LaneOp::shr;
  bool folds = i.op >= LaneOp::reduce_add && i.op <= LaneOp::reduce_mul;
  return computes || folds || (i.op >= LaneOp::exp && i.op <= LaneOp::sigmoid);
}

class LaneEmitter {
 public:
  LaneEmitter(CpuFunction& kernel, const atlas::LaneProgram& program)
      : k_(kernel), ir_(kernel.ir), p_(program), slots_(program), layout_(slots_) {
    services_ = k_.buffer(0);
    state_ = k_.buffer(1);
  }

  void emit() {
    find_tracked();
    load_state();
    find_blocks();
    for (size_t at = 0; at < p_.instrs.size(); ++at) {
      at_ = static_cast<uint32_t>(at);
      if (BasicBlock* b = blocks_[at]) go_on(b);
      instruction(p_.instrs[at]);
    }
    go_on(blocks_[p_.instrs.size()]);
    leave(atlas::lane_ended);
  }

 private:
  // --- state

  // Registers that a sel may leave unread are the only ones whose type is known only at run time.
  void find_tracked() {
    for (const LaneInstr& i : p_.instrs)
      if (i.op == LaneOp::sel) tracked_.insert({i.regs[2], i.regs[3]});
  }

  Value* at(Value* base, size_t offset) {
    return ir_.CreateConstInBoundsGEP1_64(ir_.getInt8Ty(), base, offset);
  }

  struct Saved {
    llvm::AllocaInst* slot;
    llvm::Type* type;
    size_t offset;
  };

  llvm::AllocaInst* keep(llvm::Type* type, size_t offset, const char* name) {
    llvm::AllocaInst* slot = k_.slot(type, name);
    slot->setAlignment(llvm::Align(8));
    ir_.CreateStore(ir_.CreateLoad(type, at(state_, offset)), slot);
    saved_.push_back({slot, type, offset});
    return slot;
  }

  void load_state() {
    for (int r = 0; r < atlas::lane_registers; ++r) {
      size_t slot = slots_.of[static_cast<size_t>(r)];
      if (slot == atlas::LaneSlots::none) continue;
      registers_[r] = keep(ir_.getInt64Ty(), layout_.registers + 8 * slot, "r");
      if (tracked_.count(r)) types_[r] = keep(ir_.getInt8Ty(), layout_.types + slot, "type");
    }
    for (size_t p = 0; p < atlas::lane_predicates; ++p)
      predicates_[p] = keep(ir_.getInt8Ty(), offsetof(LaneState, predicates) + p, "p");
    depth_ = keep(ir_.getInt32Ty(), offsetof(LaneState, depth), "depth");
    phase_ = keep(ir_.getInt32Ty(), offsetof(LaneState, phase), "phase");
    steps_ = k_.slot(ir_.getInt64Ty(), "steps");
    ir_.CreateStore(ir_.CreateLoad(ir_.getInt64Ty(), at(services_, offsetof(LaneServices, steps))),
                    steps_);
  }

  // --- blocks

  void find_blocks() {
    size_t n = p_.instrs.size();
    blocks_.resize(n + 1);
    auto leader = [&](size_t at) {
      if (!blocks_[at]) blocks_[at] = k_.block("at");
    };
    leader(0);
    leader(n);
    for (const auto& l : p_.labels)
      if (l.target <= n) leader(l.target);
    std::vector<size_t> resumes{0};
    for (size_t at = 0; at < n; ++at) {
      if (!ends_block(p_.instrs[at].op)) continue;
      leader(at + 1);
      if (p_.instrs[at].op == LaneOp::bar_sync) resumes.push_back(at + 1);
      if (p_.instrs[at].op == LaneOp::call) returns_.push_back(at + 1);
    }
    Value* where = ir_.CreateLoad(ir_.getInt32Ty(), at(state_, offsetof(LaneState, resume)));
    auto* dispatch = ir_.CreateSwitch(where, blocks_[n], static_cast<unsigned>(resumes.size()));
    for (size_t r = 0; r < resumes.size(); ++r)
      dispatch->addCase(ir_.getInt32(static_cast<uint32_t>(r)), blocks_[resumes[r]]);
    open_ = false;
  }

  // Enters a block, from the code before it where that does not end by itself.
  void go_on(BasicBlock* b) {
    if (open_) {
      count();
      ir_.CreateBr(b);
    }
    ir_.SetInsertPoint(b);
    open_ = true;
  }

  BasicBlock* target(const LaneInstr& i) { return blocks_[p_.labels[i.label].target]; }

  // Instructions are counted in runs: at the latest before one that can fault or be seen.
  void count() {
    if (pending_ == 0) return;
    Value* left = ir_.CreateLoad(ir_.getInt64Ty(), steps_);
    Value* run = ir_.getInt64(pending_);
    trap_if(ir_.CreateICmpULT(left, run), LaneTrap::steps);
    ir_.CreateStore(ir_.CreateSub(left, run), steps_);
    pending_ = 0;
  }

  void leave(atlas::LaneStatus status) {
    ir_.CreateStore(ir_.CreateLoad(ir_.getInt64Ty(), steps_),
                    at(services_, offsetof(LaneServices, steps)));
    k_.leave(status);
    open_ = false;
  }

  // Goes to a block that stops the lane where `failed` holds.
  void stop_if(Value* failed) {
    BasicBlock *stop = k_.block("stop"), *on = k_.block("on");
    ir_.CreateCondBr(failed, stop, on);
    ir_.SetInsertPoint(stop);
    leave(atlas::lane_faulted);
    open_ = true;
    ir_.SetInsertPoint(on);
  }

  void trap_if(Value* bad, LaneTrap what, int reg = 0, Value* found = nullptr) {
    BasicBlock *stop = k_.block("trap"), *on = k_.block("on");
    ir_.CreateCondBr(bad, stop, on);
    ir_.SetInsertPoint(stop);
    Value* type = found ? ir_.CreateZExt(found, ir_.getInt32Ty()) : ir_.getInt32(0);
    call(offsetof(LaneServices, trap),
         {ir_.getInt32(at_), ir_.getInt32(static_cast<uint32_t>(what)),
          ir_.getInt32(static_cast<uint32_t>(reg)), type});
    leave(atlas::lane_faulted);
    open_ = true;
    ir_.SetInsertPoint(on);
  }

  Value* call(size_t service, std::vector<Value*> arguments) {
    arguments.insert(arguments.begin(), services_);
    std::vector<llvm::Type*> types;
    for (Value* a : arguments) types.push_back(a->getType());
    auto* type = llvm::FunctionType::get(ir_.getInt32Ty(), types, false);
    return ir_.CreateCall(type, ir_.CreateLoad(ir_.getPtrTy(), at(services_, service)), arguments);
  }

  Value* result(llvm::Type* type) {
    return ir_.CreateLoad(type, at(services_, offsetof(LaneServices, result)));
  }

  // --- registers

  Value* raw(uint8_t reg) { return ir_.CreateLoad(ir_.getInt64Ty(), registers_.at(reg)); }

  void put_raw(uint8_t reg, DType type, Value* bits) {
    ir_.CreateStore(bits, registers_.at(reg));
    auto tracked = types_.find(reg);
    if (tracked != types_.end())
      ir_.CreateStore(ir_.getInt8(static_cast<uint8_t>(type)), tracked->second);
  }

  llvm::IntegerType* bits_of(DType type) {
    return ir_.getIntNTy(static_cast<unsigned>(size_of(type)) * 8);
  }

  Value* get(uint8_t reg, DType type) {
    Value* bits = ir_.CreateTrunc(raw(reg), bits_of(type));
    return ir_.CreateBitCast(bits, k_.type_of(type));
  }

  void put(uint8_t reg, DType type, Value* value) {
    Value* bits = ir_.CreateBitCast(value, bits_of(type));
    put_raw(reg, type, ir_.CreateZExt(bits, ir_.getInt64Ty()));
  }

  Value* predicate(uint8_t p) {
    return ir_.CreateICmpNE(ir_.CreateLoad(ir_.getInt8Ty(), predicates_[p]), ir_.getInt8(0));
  }

  void put_predicate(uint8_t p, Value* truth) {
    ir_.CreateStore(ir_.CreateZExt(truth, ir_.getInt8Ty()), predicates_[p]);
  }

  // --- instructions

  void instruction(const LaneInstr& i) {
    ++pending_;
    if (!is_pure(i)) count();
    if (ends_block(i.op)) return control(i);
    const auto& r = i.regs;
    switch (i.op) {
      case LaneOp::ldg:
      case LaneOp::lds: {
        Value* bits = ir_.CreateAlignedLoad(bits_of(i.type), address(i), llvm::Align(1));
        return put_raw(r[0], i.type, ir_.CreateZExt(bits, ir_.getInt64Ty()));
      }
      case LaneOp::stg:
      case LaneOp::sts: {
        Value* bits = ir_.CreateTrunc(raw(r[0]), bits_of(i.type));
        ir_.CreateAlignedStore(bits, address(i), llvm::Align(1));
        return;
      }
      case LaneOp::mov:
        return put_raw(r[0], i.type, raw(r[1]));
      case LaneOp::mov_imm: {
        uint64_t mask = ~uint64_t{0} >> (64 - 8 * size_of(i.type));
        return put_raw(r[0], i.type, ir_.getInt64(i.immediate & mask));
      }
      case LaneOp::cvt:
        if (i.type == i.from) return put_raw(r[0], i.type, raw(r[1]));
        return put(r[0], i.type, emit_cast(k_, Op::cast, get(r[1], i.from), i.from, i.type));
      case LaneOp::set: {
        atlas::Comparison how = atlas::comparison(static_cast<atlas::Compare>(i.variant), i.type);
        std::array<Value*, 2> args{get(r[1], i.type), get(r[2], i.type)};
        if (how.exchanged) std::swap(args[0], args[1]);
        return put_predicate(r[0], emit_arithmetic(k_, how.op, how.type, args));
      }
      case LaneOp::sel:
        return select(i);
      case LaneOp::memfence:
        ir_.CreateFence(llvm::AtomicOrdering::SequentiallyConsistent,
                        static_cast<atlas::FenceScope>(i.variant) == atlas::FenceScope::thread
                            ? llvm::SyncScope::SingleThread
                            : llvm::SyncScope::System);
        return;
      default:
        break;
    }
    if (i.op >= LaneOp::cls_get && i.op <= LaneOp::bound_map) return class_instruction(i);
    if (i.op >= LaneOp::pool_alloc) return pool_instruction(i);
    if (i.op >= LaneOp::exp && i.op <= LaneOp::sigmoid) return function(i);
    if (i.op >= LaneOp::reduce_add && i.op <= LaneOp::reduce_mul) return reduce(i);
    arithmetic(i);
  }

  void arithmetic(const LaneInstr& i) {
    const auto& r = i.regs;
    Op op = i.op == LaneOp::mad ? Op::mul : atlas::scalar_op(i.op);
    std::vector<Value*> args;
    size_t count = i.op == LaneOp::mad ? 2 : atlas::info(i.op).operands.size() - 1;
    bool shifts = i.op == LaneOp::shl || i.op == LaneOp::shr;
    for (size_t n = 1; n <= count; ++n)
      args.push_back(shifts && n == 2 ? shift_amount(i) : get(r[n], i.type));
    if (i.op == LaneOp::div && !is_float(i.type))
      trap_if(ir_.CreateICmpEQ(args[1], llvm::ConstantInt::get(args[1]->getType(), 0)),
              LaneTrap::division_by_zero);
    Value* x = emit_arithmetic(k_, op, i.type, args);
    if (i.op == LaneOp::mad)
      x = emit_arithmetic(k_, Op::add, i.type, std::array{x, get(r[3], i.type)});
    put(r[0], i.type, x);
  }

  Value* shift_amount(const LaneInstr& i) {
    Value* amount = ir_.CreateAnd(raw(i.regs[2]), static_cast<uint64_t>(size_of(i.type)) * 8 - 1);
    return ir_.CreateTrunc(amount, bits_of(i.type));
  }

  void reduce(const LaneInstr& i) {
    if (i.immediate == 0)
      return put(i.regs[0], i.type, k_.identity(atlas::identity_op(i.op), i.type));
    Value* x = get(i.regs[1], i.type);
    for (uint64_t n = 1; n < i.immediate; ++n) {
      Value* y = get(static_cast<uint8_t>(i.regs[1] + n), i.type);
      x = emit_arithmetic(k_, atlas::scalar_op(i.op), i.type, std::array{x, y});
    }
    put(i.regs[0], i.type, x);
  }

  // A transcendental: its sequence in a scope of its own.
  void function(const LaneInstr& i) {
    if (i.op == LaneOp::sqrt) return arithmetic(i);
    auto [it, fresh] = sequences_.try_emplace({i.op, i.type});
    atlas::Body& body = it->second;
    if (fresh) {
      atlas::BodyBuilder b(body);
      b.finish(atlas::emit_math(b, atlas::scalar_op(i.op), std::array{b.accumulator(0, i.type)}));
    }
    Value* x = get(i.regs[1], i.type);
    Scope scope(k_.root(), true);
    scope.set_accumulator(0, {x, false});
    LaneValue y = emit_body(scope, body).back();
    put(i.regs[0], i.type, y.v);
  }

  // Only the chosen side is read, so only its type matters.
  void select(const LaneInstr& i) {
    BasicBlock *yes = k_.block("yes"), *no = k_.block("no"), *join = k_.block("join");
    ir_.CreateCondBr(predicate(i.regs[1]), yes, no);
    std::array<std::pair<Value*, BasicBlock*>, 2> sides{};
    for (size_t s = 0; s < 2; ++s) {
      ir_.SetInsertPoint(s == 0 ? yes : no);
      uint8_t reg = i.regs[2 + s];
      Value* found = ir_.CreateLoad(ir_.getInt8Ty(), types_.at(reg));
      trap_if(ir_.CreateICmpNE(found, ir_.getInt8(static_cast<uint8_t>(i.type))),
              LaneTrap::wrong_register, reg, found);
      sides[s] = {raw(reg), ir_.GetInsertBlock()};
      ir_.CreateBr(join);
    }
    ir_.SetInsertPoint(join);
    auto* value = ir_.CreatePHI(ir_.getInt64Ty(), 2);
    for (auto [v, from] : sides) value->addIncoming(v, from);
    put_raw(i.regs[0], i.type, value);
  }

  void control(const LaneInstr& i) {
    switch (i.op) {
      case LaneOp::bra:
        if (i.variant)
          ir_.CreateCondBr(predicate(i.regs[0]), target(i), blocks_[at_ + 1]);
        else
          ir_.CreateBr(target(i));
        break;
      case LaneOp::loop: {
        BasicBlock* again = k_.block("again");
        Value* n = raw(i.regs[0]);
        ir_.CreateCondBr(ir_.CreateICmpEQ(n, ir_.getInt64(0)), blocks_[at_ + 1], again);
        ir_.SetInsertPoint(again);
        put_raw(i.regs[0], DType::u32, ir_.CreateSub(n, ir_.getInt64(1)));
        ir_.CreateBr(target(i));
        break;
      }
      case LaneOp::call: {
        Value* depth = ir_.CreateLoad(ir_.getInt32Ty(), depth_);
        trap_if(ir_.CreateICmpEQ(depth, ir_.getInt32(atlas::lane_call_depth)), LaneTrap::overflow);
        ir_.CreateStore(ir_.getInt32(at_ + 1), frame(depth));
        ir_.CreateStore(ir_.CreateAdd(depth, ir_.getInt32(1)), depth_);
        ir_.CreateBr(target(i));
        break;
      }
      case LaneOp::ret: {
        Value* depth = ir_.CreateLoad(ir_.getInt32Ty(), depth_);
        trap_if(ir_.CreateICmpEQ(depth, ir_.getInt32(0)), LaneTrap::underflow);
        depth = ir_.CreateSub(depth, ir_.getInt32(1));
        ir_.CreateStore(depth, depth_);
        auto* back =
            ir_.CreateSwitch(ir_.CreateLoad(ir_.getInt32Ty(), frame(depth)),
                             blocks_[p_.instrs.size()], static_cast<unsigned>(returns_.size()));
        for (size_t to : returns_)
          back->addCase(ir_.getInt32(static_cast<uint32_t>(to)), blocks_[to]);
        break;
      }
      case LaneOp::exit:
        leave(atlas::lane_ended);
        break;
      default:  // bar_sync
        for (const Saved& s : saved_)
          ir_.CreateStore(ir_.CreateLoad(s.type, s.slot), at(state_, s.offset));
        ir_.CreateStore(ir_.getInt32(++barriers_), at(state_, offsetof(LaneState, resume)));
        ir_.CreateStore(ir_.getInt32(static_cast<uint32_t>(i.immediate)),
                        at(state_, offsetof(LaneState, barrier)));
        leave(atlas::lane_waits);
    }
    open_ = false;
  }

  // The place of a return address on the call stack.
  Value* frame(Value* depth) {
    Value* base = at(state_, layout_.calls);
    return ir_.CreateGEP(ir_.getInt32Ty(), base, ir_.CreateZExt(depth, ir_.getInt64Ty()));
  }

  Value* address(const LaneInstr& i) {
    const LaneAddress& a = i.address;
    using Kind = LaneAddress::Kind;
    Value* handle = a.kind == Kind::buffer ? ir_.getInt64(a.handle)
                    : a.kind == Kind::phi  ? ir_.getInt64(0)
                                           : raw(a.a);
    Value* offset = a.kind == Kind::phi        ? ir_.getInt64(atlas::phi_offset(a))
                    : a.kind == Kind::computed ? raw(a.b)
                                               : ir_.getInt64(a.offset);
    Value* status = call(offsetof(LaneServices, address), {ir_.getInt32(at_), handle, offset});
    stop_if(ir_.CreateICmpNE(status, ir_.getInt32(0)));
    return result(ir_.getPtrTy());
  }

  Value* operate(std::initializer_list<Value*> operands) {
    std::vector<Value*> arguments{ir_.getInt32(at_)};
    arguments.insert(arguments.end(), operands);
    arguments.resize(4, ir_.getInt64(0));
    Value* status = call(offsetof(LaneServices, operate), arguments);
    stop_if(ir_.CreateICmpNE(status, ir_.getInt32(0)));
    return result(ir_.getInt64Ty());
  }

  void class_instruction(const LaneInstr& i) {
    const auto& r = i.regs;
    switch (i.op) {
      case LaneOp::cls_get:
        return put_raw(r[0], DType::u8, operate({}));
      case LaneOp::mirror:
      case LaneOp::nbr_get:
        return put_raw(r[0], DType::u8, operate({raw(r[1])}));
      case LaneOp::nbr_count:
        return put_raw(r[0], DType::u32, operate({raw(r[1])}));
      case LaneOp::unity_test:
        return put_predicate(r[0], ir_.CreateICmpNE(operate({}), ir_.getInt64(0)));
      case LaneOp::res_accum:
        operate({raw(r[0]), raw(r[1])});
        return;
      case LaneOp::phase_get:
        return put(r[0], DType::u32, ir_.CreateLoad(ir_.getInt32Ty(), phase_));
      case LaneOp::phase_adv: {
        Value* phase = ir_.CreateLoad(ir_.getInt32Ty(), phase_);
        phase = ir_.CreateAdd(phase, ir_.getInt32(static_cast<uint32_t>(i.immediate)));
        ir_.CreateStore(ir_.CreateURem(phase, ir_.getInt32(atlas::num_phases)), phase_);
        return;
      }
      default:  // bound_map
        return put_raw(r[0], DType::u64, operate({raw(r[1]), raw(r[2]), raw(r[3])}));
    }
  }

  void pool_instruction(const LaneInstr& i) {
    const auto& r = i.regs;
    switch (i.op) {
      case LaneOp::pool_alloc:
        return put_raw(r[0], DType::u64, operate({}));
      case LaneOp::pool_free:
        operate({raw(r[0])});
        return;
      case LaneOp::pool_load:
        return put_raw(r[0], i.type, operate({raw(r[1]), raw(r[2])}));
      default:
        operate({raw(r[0]), raw(r[1]), raw(r[2])});
    }
  }

  CpuFunction& k_;
  llvm::IRBuilder<>& ir_;
  const atlas::LaneProgram& p_;
  atlas::LaneSlots slots_;
  atlas::LaneLayout layout_;
  Value *services_, *state_;
  std::set<int> tracked_;
  std::map<int, llvm::AllocaInst*> registers_, types_;
  std::array<llvm::AllocaInst*, atlas::lane_predicates> predicates_{};
  llvm::AllocaInst *depth_ = nullptr, *phase_ = nullptr, *steps_ = nullptr;
  std::vector<Saved> saved_;
  std::vector<BasicBlock*> blocks_;
  std::vector<size_t> returns_;
  std::map<std::pair<LaneOp, DType>, atlas::Body> sequences_;
  bool open_ = true;
  uint64_t pending_ = 0;
  uint32_t at_ = 0, barriers_ = 0;
};

}  // namespace

std::string compile_lanes(const atlas::LaneProgram& program, const Target& target) {
  llvm::LLVMContext context;
  context.setDiagnosticHandlerCallBack([](const llvm::DiagnosticInfo*, void*) {});
  auto machine = machine_for(target);
  auto module = make_module("hologram_lanes", context, *machine);
  atlas::Program arguments = shell();
  CpuFunction kernel(*module, arguments, target);
  LaneEmitter(kernel, program).emit();
  check_module(*module);
  optimise(*module);
  return translate(*module, *machine, false);
}

}  // namespace hologram::cpu

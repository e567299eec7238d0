// backend/cpu/limit_loops.cpp: the loops as LLVM IR that no pass sees, so that nothing of them is
// left out.
#include "backend/cpu/limit_loops.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicsX86.h>

#include "backend/cpu/target_machine.h"
#include "base/error.h"

namespace hologram::cpu {
namespace {

constexpr int vectors_in_round = 8;  // of loops over memory
constexpr unsigned line = 64;

bool in_registers(LimitLoop loop) { return loop <= LimitLoop::i8; }
bool stores(LimitLoop loop) { return loop >= LimitLoop::write; }
bool loads(LimitLoop loop) {
  return loop == LimitLoop::read || loop == LimitLoop::copy || loop == LimitLoop::copy_around;
}
bool around(LimitLoop loop) {
  return loop == LimitLoop::write_around || loop == LimitLoop::copy_around;
}

// Enough chains to hide the latency of two units, in the registers that there are beside two
// operands.
int chains(const Target& target) {
  return target.isa == Isa::avx512 || target.isa == Isa::neon ? 24 : 12;
}

class Writer {
 public:
  Writer(LimitLoop loop, const Target& target) : loop_(loop), target_(target), ir_(context_) {
    machine_ = machine_for(target);
    module_ = make_module("limits", context_, *machine_);
  }

  std::string object() {
    llvm::Type *pointer = ir_.getPtrTy(), *word = ir_.getInt64Ty();
    auto* type =
        llvm::FunctionType::get(ir_.getInt32Ty(), {pointer, pointer, pointer, word, word}, false);
    function_ =
        llvm::Function::Create(type, llvm::Function::ExternalLinkage, kernel_symbol, *module_);
    function_->setDSOLocal(true);
    function_->addFnAttr(llvm::Attribute::NoUnwind);
    function_->addFnAttr("target-cpu", target_.cpu);
    function_->addFnAttr("target-features", target_.features);
    const std::string bits = std::to_string(target_.vector_bytes * 8);
    function_->addFnAttr("prefer-vector-width", bits);
    function_->addFnAttr("min-legal-vector-width", bits);
    write();
    check_module(*module_);
    return translate(*module_, *machine_, false);
  }

 private:
  using Values = std::vector<llvm::Value*>;

  void write() {
    auto block = [&](const char* name) {
      return llvm::BasicBlock::Create(context_, name, function_);
    };
    llvm::BasicBlock *entry = block("entry"), *round = block("round"), *exit = block("exit");
    llvm::Value *begin = function_->getArg(3), *end = function_->getArg(4);
    ir_.SetInsertPoint(entry);
    Values from = start();
    ir_.CreateCondBr(ir_.CreateICmpSLT(begin, end), round, exit);

    ir_.SetInsertPoint(round);
    llvm::PHINode* i = ir_.CreatePHI(ir_.getInt64Ty(), 2);
    i->addIncoming(begin, entry);
    std::vector<llvm::PHINode*> carried;
    for (llvm::Value* v : from) {
      carried.push_back(ir_.CreatePHI(v->getType(), 2));
      carried.back()->addIncoming(v, entry);
    }
    const Values after = step(i, {carried.begin(), carried.end()});
    llvm::Value* next = ir_.CreateNSWAdd(i, ir_.getInt64(1));
    i->addIncoming(next, round);
    for (size_t k = 0; k < after.size(); ++k) carried[k]->addIncoming(after[k], round);
    ir_.CreateCondBr(ir_.CreateICmpSLT(next, end), round, exit);

    ir_.SetInsertPoint(exit);
    llvm::Value* all = ir_.getInt32(0);
    for (size_t k = 0; k < after.size(); ++k) {
      llvm::PHINode* v = ir_.CreatePHI(after[k]->getType(), 2);
      v->addIncoming(from[k], entry);
      v->addIncoming(after[k], round);
      from[k] = v;
    }
    for (llvm::Value* v : from) {
      auto* words = llvm::FixedVectorType::get(ir_.getInt32Ty(), lanes(4));
      all = ir_.CreateXor(all, ir_.CreateExtractElement(ir_.CreateBitCast(v, words), uint64_t{0}));
    }
    ir_.CreateRet(all);
  }

  unsigned lanes(int bytes) const { return static_cast<unsigned>(target_.vector_bytes / bytes); }

  llvm::FixedVectorType* vector() {
    switch (loop_) {
      case LimitLoop::f32:
      case LimitLoop::bf16:
        return llvm::FixedVectorType::get(ir_.getFloatTy(), lanes(4));
      case LimitLoop::f64:
        return llvm::FixedVectorType::get(ir_.getDoubleTy(), lanes(8));
      default:
        return llvm::FixedVectorType::get(ir_.getInt32Ty(), lanes(4));
    }
  }

  llvm::Value* array(int number) {
    llvm::Value* at =
        ir_.CreateConstGEP1_64(ir_.getPtrTy(), function_->getArg(1), static_cast<uint64_t>(number));
    return ir_.CreateLoad(ir_.getPtrTy(), at);
  }

  // What the loop carries when it begins.
  Values start() {
    if (loads(loop_) || in_registers(loop_)) source_ = array(0);
    if (stores(loop_)) target_array_ = array(1);
    if (loop_ == LimitLoop::write || loop_ == LimitLoop::write_around)
      stored_ = llvm::Constant::getNullValue(vector());
    if (loop_ == LimitLoop::read)
      return Values(vectors_in_round, llvm::Constant::getNullValue(vector()));
    if (!in_registers(loop_)) return {};
    Values sums;
    for (int k = 0; k < chains(target_); ++k) sums.push_back(load(source_, k % 2));
    x_ = load(source_, 0);
    y_ = load(source_, 1);
    return sums;
  }

  llvm::Value* load(llvm::Value* base, int number) {
    llvm::Value* at = ir_.CreateConstGEP1_64(vector(), base, static_cast<uint64_t>(number));
    return ir_.CreateAlignedLoad(vector(), at,
                                 llvm::Align(static_cast<uint64_t>(target_.vector_bytes)));
  }

  Values step(llvm::Value* round, Values carried) {
    if (in_registers(loop_)) {
      for (llvm::Value*& v : carried) v = multiply_add(v);
      return carried;
    }
    llvm::Value* first = ir_.CreateNSWMul(round, ir_.getInt64(vectors_in_round));
    auto from = [&](llvm::Value* base) { return ir_.CreateGEP(vector(), base, first); };
    llvm::Value *source = source_ ? from(source_) : nullptr,
                *into = target_array_ ? from(target_array_) : nullptr;
    for (int k = 0; k < vectors_in_round; ++k) {
      llvm::Value* v = source ? load(source, k) : stored_;
      if (into) store(v, into, k);
      if (loop_ == LimitLoop::read)
        carried[static_cast<size_t>(k)] = ir_.CreateOr(carried[static_cast<size_t>(k)], v);
    }
    return carried;
  }

  void store(llvm::Value* v, llvm::Value* base, int number) {
    llvm::Value* at = ir_.CreateConstGEP1_64(vector(), base, static_cast<uint64_t>(number));
    auto* made =
        ir_.CreateAlignedStore(v, at, llvm::Align(static_cast<uint64_t>(target_.vector_bytes)));
    if (around(loop_))
      made->setMetadata(
          llvm::LLVMContext::MD_nontemporal,
          llvm::MDNode::get(context_, llvm::ConstantAsMetadata::get(ir_.getInt32(1))));
  }

  llvm::Value* multiply_add(llvm::Value* sum) {
    if (loop_ == LimitLoop::bf16) {
      auto* pairs = llvm::FixedVectorType::get(ir_.getBFloatTy(), lanes(2));
      return ir_.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512, {},
                                 {sum, ir_.CreateBitCast(x_, pairs), ir_.CreateBitCast(y_, pairs)});
    }
    if (loop_ == LimitLoop::i8 && !target_.i8_dots) {  // words, which bytes are widened into
      auto* words = llvm::FixedVectorType::get(ir_.getInt16Ty(), lanes(2));
      return ir_.CreateAdd(
          sum, ir_.CreateIntrinsic(llvm::Intrinsic::x86_avx2_pmadd_wd, {},
                                   {ir_.CreateBitCast(sum, words), ir_.CreateBitCast(y_, words)}));
    }
    if (loop_ == LimitLoop::i8)
      return ir_.CreateIntrinsic(target_.isa == Isa::avx512
                                     ? llvm::Intrinsic::x86_avx512_vpdpbusd_512
                                     : llvm::Intrinsic::x86_avx512_vpdpbusd_256,
                                 {}, {sum, x_, y_});
    if (target_.fma) return ir_.CreateIntrinsic(llvm::Intrinsic::fma, {vector()}, {sum, x_, y_});
    return ir_.CreateFAdd(ir_.CreateFMul(sum, x_), y_);
  }

  LimitLoop loop_;
  const Target& target_;
  llvm::LLVMContext context_;
  std::unique_ptr<llvm::TargetMachine> machine_;
  std::unique_ptr<llvm::Module> module_;
  llvm::IRBuilder<> ir_;
  llvm::Function* function_ = nullptr;
  llvm::Value *source_ = nullptr, *target_array_ = nullptr, *stored_ = nullptr, *x_ = nullptr,
              *y_ = nullptr;
};

}  // namespace

int64_t limit_round_bytes(const Target& target) { return vectors_in_round * target.vector_bytes; }

int64_t limit_round_operations(LimitLoop loop, const Target& target) {
  const int64_t each = 2 * chains(target);
  switch (loop) {
    case LimitLoop::f32:
      return each * target.vector_bytes / 4;
    case LimitLoop::f64:
      return each * target.vector_bytes / 8;
    case LimitLoop::bf16:
      return target.bf16_dots && target.isa == Isa::avx512 ? each * target.vector_bytes / 2 : 0;
    case LimitLoop::i8:
      if (target.i8_dots) return each * target.vector_bytes;
      return target.isa == Isa::avx2 ? each * target.vector_bytes / 2 : 0;
    default:
      return 0;
  }
}

std::shared_ptr<LoadedKernel> compile_limit_loop(LimitLoop loop, const Target& target) {
  return load(Writer(loop, target).object());
}

}  // namespace hologram::cpu

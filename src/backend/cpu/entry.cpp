// backend/cpu/entry.cpp: one native function that runs a whole plan.
#include "backend/cpu/entry.h"

#include <llvm/IR/IRBuilder.h>

#include "backend/cpu/target_machine.h"

namespace hologram::cpu {
namespace {

using llvm::BasicBlock;
using llvm::Function;
using llvm::FunctionType;
using llvm::Value;

static_assert(offsetof(atlas::EntryFrame, stale) == 6 * sizeof(void*));
static_assert(offsetof(atlas::Context, parallel_for) == 0 &&
              offsetof(atlas::Context, call_host) == 2 * sizeof(void*));

enum Field {
  field_context,
  field_kernels,
  field_buffers,
  field_arguments,
  field_totals,
  field_grains,
  field_stale
};

class EntryEmitter {
 public:
  EntryEmitter(llvm::Module& module, std::span<const atlas::EntryStep> steps)
      : module_(module),
        steps_(steps),
        ir_(module.getContext()),
        ptr_(ir_.getPtrTy()),
        i64_(ir_.getInt64Ty()),
        i32_(ir_.getInt32Ty()) {}

  void emit() {
    Function* launch = emit_launch();
    auto* type = FunctionType::get(i32_, {ptr_}, false);
    Function* f = function(type, kernel_symbol, Function::ExternalLinkage);
    Value* frame = f->getArg(0);
    ir_.SetInsertPoint(BasicBlock::Create(module_.getContext(), "entry", f));
    Value* fields[7];
    for (unsigned i = 0; i < 7; ++i) fields[i] = load(ptr_, frame, i);
    auto* failed = BasicBlock::Create(module_.getContext(), "failed", f);
    std::vector<std::pair<Value*, BasicBlock*>> statuses;
    for (size_t s = 0; s < steps_.size(); ++s) {
      const atlas::EntryStep& step = steps_[s];
      auto* next = BasicBlock::Create(module_.getContext(), "next", f, failed);
      if (step.cached >= 0) {
        Value* flag =
            load(ir_.getInt8Ty(), fields[field_stale], static_cast<uint64_t>(step.cached));
        auto* run = BasicBlock::Create(module_.getContext(), "run", f, next);
        ir_.CreateCondBr(ir_.CreateICmpNE(flag, ir_.getInt8(0)), run, next);
        ir_.SetInsertPoint(run);
      }
      Value* status;
      if (step.kernel < 0) {
        auto* host = FunctionType::get(i32_, {ptr_, i64_}, false);
        status = ir_.CreateCall(host, load(ptr_, fields[field_context], 2),
                                {fields[field_context], ir_.getInt64(s)});
      } else {
        status = ir_.CreateCall(
            launch, {fields[field_context],
                     load(ptr_, fields[field_kernels], static_cast<uint64_t>(step.kernel)),
                     at(ptr_, fields[field_buffers], step.first_buffer),
                     at(i64_, fields[field_arguments], step.first_argument),
                     load(i64_, fields[field_totals], s), load(i64_, fields[field_grains], s)});
      }
      statuses.emplace_back(status, ir_.GetInsertBlock());
      ir_.CreateCondBr(ir_.CreateICmpEQ(status, ir_.getInt32(0)), next, failed);
      ir_.SetInsertPoint(next);
    }
    ir_.CreateRet(ir_.getInt32(0));
    ir_.SetInsertPoint(failed);
    if (statuses.empty()) {
      ir_.CreateUnreachable();
      return;
    }
    auto* status = ir_.CreatePHI(i32_, static_cast<unsigned>(statuses.size()));
    for (auto [v, block] : statuses) status->addIncoming(v, block);
    ir_.CreateRet(status);
  }

 private:
  Function* function(FunctionType* type, const char* name, Function::LinkageTypes linkage) {
    auto* f = Function::Create(type, linkage, name, module_);
    f->addFnAttr(llvm::Attribute::NoUnwind);
    return f;
  }
  Value* at(llvm::Type* type, Value* base, int64_t i) {
    return ir_.CreateConstInBoundsGEP1_64(type, base, static_cast<uint64_t>(i));
  }
  Value* load(llvm::Type* type, Value* base, uint64_t i) {
    return ir_.CreateLoad(type, ir_.CreateConstInBoundsGEP1_64(type, base, i));
  }

  // launch(context, kernel, buffers, arguments, total, grain): on this thread, or through the
  // context's parallel_for.
  Function* emit_launch() {
    auto* type = FunctionType::get(i32_, {ptr_, ptr_, ptr_, ptr_, i64_, i64_}, false);
    Function* f = function(type, "launch", Function::InternalLinkage);
    f->addFnAttr(llvm::Attribute::NoInline);
    Value *context = f->getArg(0), *kernel = f->getArg(1), *buffers = f->getArg(2),
          *arguments = f->getArg(3), *total = f->getArg(4), *grain = f->getArg(5);
    auto block = [&](const char* name) {
      return BasicBlock::Create(module_.getContext(), name, f);
    };
    auto *entry = block("entry"), *work = block("work"), *here = block("here"),
         *spread = block("spread"), *none = block("none");
    ir_.SetInsertPoint(entry);
    ir_.CreateCondBr(ir_.CreateICmpSGT(total, ir_.getInt64(0)), work, none);
    ir_.SetInsertPoint(work);
    ir_.CreateCondBr(ir_.CreateICmpSLE(total, grain), here, spread);
    ir_.SetInsertPoint(here);
    auto* kernel_type = FunctionType::get(i32_, {ptr_, ptr_, ptr_, i64_, i64_}, false);
    ir_.CreateRet(
        ir_.CreateCall(kernel_type, kernel, {context, buffers, arguments, ir_.getInt64(0), total}));
    ir_.SetInsertPoint(spread);
    auto* parallel_type = FunctionType::get(i32_, {ptr_, ptr_, ptr_, ptr_, i64_, i64_}, false);
    ir_.CreateRet(ir_.CreateCall(parallel_type, load(ptr_, context, 0),
                                 {context, kernel, buffers, arguments, total, grain}));
    ir_.SetInsertPoint(none);
    ir_.CreateRet(ir_.getInt32(0));
    return f;
  }

  llvm::Module& module_;
  std::span<const atlas::EntryStep> steps_;
  llvm::IRBuilder<> ir_;
  llvm::Type *ptr_, *i64_, *i32_;
};

}  // namespace

std::string compile_entry(std::span<const atlas::EntryStep> steps, const Target& target) {
  llvm::LLVMContext context;
  auto machine = machine_for(target);
  auto module = make_module("hologram_entry", context, *machine);
  EntryEmitter(*module, steps).emit();
  check_module(*module);
  return translate(*module, *machine, false);
}

}  // namespace hologram::cpu

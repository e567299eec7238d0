// codegen/nest.cpp: counted loops and conditions around scopes.
#include "codegen/nest.h"

namespace hologram::codegen {

std::vector<Value*> emit_loop(
    Scope& outer, Value* begin, Value* end, Value* step, bool nonempty, std::vector<Value*> initial,
    const std::function<std::vector<Value*>(Scope&, Value*, std::vector<Value*>)>& fill) {
  Function& k = outer.function();
  outer.seek();
  auto* first = llvm::dyn_cast<llvm::ConstantInt>(begin);
  auto* last = llvm::dyn_cast<llvm::ConstantInt>(end);
  if (first && last) {
    if (first->getSExtValue() >= last->getSExtValue()) return initial;
    nonempty = true;
  }
  llvm::BasicBlock *head = k.block("loop"), *exit = k.block("after");
  llvm::BasicBlock* before = k.ir.GetInsertBlock();
  if (nonempty)
    k.ir.CreateBr(head);
  else
    k.ir.CreateCondBr(k.ir.CreateICmpSLT(begin, end), head, exit);
  k.ir.SetInsertPoint(head);
  llvm::PHINode* i = k.ir.CreatePHI(begin->getType(), 2);
  i->addIncoming(begin, before);
  std::vector<llvm::PHINode*> carried;
  for (Value* v : initial) {
    carried.push_back(k.ir.CreatePHI(v->getType(), 2));
    carried.back()->addIncoming(v, before);
  }
  Scope inner(outer, !nonempty);
  std::vector<Value*> next_values = fill(inner, i, {carried.begin(), carried.end()});
  inner.seek();
  Value* next = k.ir.CreateAdd(i, step, "", true, true);
  llvm::BasicBlock* latch = k.ir.GetInsertBlock();
  i->addIncoming(next, latch);
  for (size_t n = 0; n < carried.size(); ++n) carried[n]->addIncoming(next_values[n], latch);
  k.ir.CreateCondBr(k.ir.CreateICmpSLT(next, end), head, exit);
  k.ir.SetInsertPoint(exit);
  for (size_t n = 0; n < carried.size(); ++n) {
    llvm::PHINode* out = k.ir.CreatePHI(initial[n]->getType(), 2);
    if (!nonempty) out->addIncoming(initial[n], before);
    out->addIncoming(next_values[n], latch);
    next_values[n] = out;
  }
  outer.move_to(exit);
  return next_values;
}

void emit_loop(Scope& outer, Value* begin, Value* end, Value* step, bool nonempty,
               const std::function<void(Scope&, Value*)>& fill) {
  emit_loop(outer, begin, end, step, nonempty, {},
            [&](Scope& inner, Value* i, const std::vector<Value*>&) -> std::vector<Value*> {
              fill(inner, i);
              return {};
            });
}

void emit_if(Scope& outer, Value* condition, const std::function<void(Scope&)>& fill) {
  Function& k = outer.function();
  outer.seek();
  if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(condition)) {
    if (known->isZero()) return;
    Scope inner(outer, false);
    fill(inner);
    inner.seek();
    outer.move_to(k.ir.GetInsertBlock());
    return;
  }
  llvm::BasicBlock *then = k.block("then"), *exit = k.block("after");
  k.ir.CreateCondBr(condition, then, exit);
  k.ir.SetInsertPoint(then);
  Scope inner(outer, true);
  fill(inner);
  inner.seek();
  k.ir.CreateBr(exit);
  k.ir.SetInsertPoint(exit);
  outer.move_to(exit);
}

}  // namespace hologram::codegen

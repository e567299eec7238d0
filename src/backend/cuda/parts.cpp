// backend/cuda/parts.cpp: a loop over parts with several loads under way.
#include "backend/cuda/parts.h"

namespace hologram::cuda {
namespace {

constexpr int at_once = 8;  // loads under way
static_assert(most_parts % at_once == 0);

}  // namespace

Value* add_parts(CudaFunction& k, Value* parts, Value* start,
                 const std::function<Value*(Value* part)>& load,
                 const std::function<Value*(Value* part, Value* value, Value* total)>& add) {
  llvm::IRBuilder<>& ir = k.ir;
  auto number = [&](int n) { return ir.getInt32(static_cast<uint32_t>(n)); };
  llvm::BasicBlock *before = ir.GetInsertBlock(), *head = k.block("parts"),
                   *exit = k.block("after");
  ir.CreateBr(head);
  ir.SetInsertPoint(head);
  llvm::PHINode* first = ir.CreatePHI(ir.getInt32Ty(), 2);
  llvm::PHINode* now = ir.CreatePHI(start->getType(), 2);
  first->addIncoming(number(0), before);
  now->addIncoming(start, before);
  Value* last = ir.CreateSub(parts, number(1));
  std::vector<Value*> numbers, values;
  for (int p = 0; p < at_once; ++p) {
    Value* part = ir.CreateAdd(first, number(p));
    numbers.push_back(part);
    part = ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, part, last);
    values.push_back(load(part));
  }
  Value* total = now;
  for (int p = 0; p < at_once; ++p) {
    const auto which = static_cast<size_t>(p);
    Value* is = ir.CreateICmpSLE(numbers[which], last);
    Value* part = ir.CreateSelect(is, numbers[which], last);
    total = ir.CreateSelect(is, add(part, values[which], total), total);
  }
  Value* next = ir.CreateAdd(first, number(at_once));
  first->addIncoming(next, head);
  now->addIncoming(total, head);
  ir.CreateCondBr(ir.CreateICmpSLT(next, parts), head, exit);
  ir.SetInsertPoint(exit);
  return total;
}

}  // namespace hologram::cuda

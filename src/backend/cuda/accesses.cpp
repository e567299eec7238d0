// backend/cuda/accesses.cpp: vectors in global memory, by what their addresses are at run time.
#include "backend/cuda/accesses.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include <algorithm>
#include <vector>

#include "backend/cuda/function.h"

namespace hologram::cuda {
namespace {

constexpr uint64_t widest = 16;  // bytes of an access

llvm::FixedVectorType* vector_of(llvm::Instruction& i) {
  return llvm::dyn_cast<llvm::FixedVectorType>(llvm::getLoadStoreType(&i));
}

// What the address must be a multiple of for a wide access; 0: nothing is to be done.
uint64_t wanted(llvm::Instruction& i) {
  if (!llvm::isa<llvm::LoadInst, llvm::StoreInst>(i)) return 0;
  if (llvm::getLoadStoreAddressSpace(&i) != global_space || !vector_of(i)) return 0;
  const uint64_t bytes = vector_of(i)->getPrimitiveSizeInBits() / 8;
  const uint64_t unit = std::min(bytes, widest);
  if (bytes == 0 || bytes % unit != 0 || (unit & (unit - 1)) != 0) return 0;
  return llvm::getLoadStoreAlignment(&i).value() < unit ? unit : 0;
}

// The type that the assembler reads at once: elements below 32 bits travel in words.
llvm::Type* words_of(llvm::FixedVectorType* vector) {
  if (vector->getScalarSizeInBits() >= 32) return vector;
  llvm::Type* word = llvm::Type::getInt32Ty(vector->getContext());
  const auto bits = vector->getPrimitiveSizeInBits().getFixedValue();
  if (bits < 32) return llvm::Type::getIntNTy(vector->getContext(), static_cast<unsigned>(bits));
  return bits == 32 ? word : llvm::FixedVectorType::get(word, static_cast<unsigned>(bits / 32));
}

void split_load(llvm::LoadInst& load, llvm::Value* aligned, uint64_t unit) {
  auto* vector = vector_of(load);
  llvm::Value* from = load.getPointerOperand();
  llvm::Instruction *wide_end, *narrow_end;
  llvm::SplitBlockAndInsertIfThenElse(aligned, &load, &wide_end, &narrow_end);
  llvm::IRBuilder<> ir(wide_end);
  llvm::Value* wide =
      ir.CreateBitCast(ir.CreateAlignedLoad(words_of(vector), from, llvm::Align(unit)), vector);
  ir.SetInsertPoint(narrow_end);
  llvm::Type* element = vector->getElementType();
  llvm::Value* narrow = llvm::PoisonValue::get(vector);
  for (unsigned n = 0; n < vector->getNumElements(); ++n)
    narrow = ir.CreateInsertElement(
        narrow,
        ir.CreateAlignedLoad(element, ir.CreateConstGEP1_32(element, from, n), load.getAlign()),
        uint64_t{n});
  ir.SetInsertPoint(&load);
  llvm::PHINode* all = ir.CreatePHI(vector, 2);
  all->addIncoming(wide, wide_end->getParent());
  all->addIncoming(narrow, narrow_end->getParent());
  load.replaceAllUsesWith(all);
  load.eraseFromParent();
}

void split_store(llvm::StoreInst& store, llvm::Value* aligned, uint64_t unit) {
  auto* vector = vector_of(store);
  llvm::Value *to = store.getPointerOperand(), *all = store.getValueOperand();
  llvm::Instruction *wide_end, *narrow_end;
  llvm::SplitBlockAndInsertIfThenElse(aligned, &store, &wide_end, &narrow_end);
  llvm::IRBuilder<> ir(wide_end);
  ir.CreateAlignedStore(ir.CreateBitCast(all, words_of(vector)), to, llvm::Align(unit));
  ir.SetInsertPoint(narrow_end);
  llvm::Type* element = vector->getElementType();
  for (unsigned n = 0; n < vector->getNumElements(); ++n)
    ir.CreateAlignedStore(ir.CreateExtractElement(all, uint64_t{n}),
                          ir.CreateConstGEP1_32(element, to, n), store.getAlign());
  store.eraseFromParent();
}

}  // namespace

void choose_accesses(llvm::Module& module) {
  std::vector<llvm::Instruction*> found;
  for (llvm::Function& f : module)
    for (llvm::BasicBlock& b : f)
      for (llvm::Instruction& i : b)
        if (wanted(i)) found.push_back(&i);
  for (llvm::Instruction* i : found) {
    const uint64_t unit = wanted(*i);
    llvm::IRBuilder<> ir(i);
    llvm::Value* address = ir.CreatePtrToInt(llvm::getLoadStorePointerOperand(i), ir.getInt64Ty());
    llvm::Value* aligned =
        ir.CreateICmpEQ(ir.CreateAnd(address, ir.getInt64(unit - 1)), ir.getInt64(0));
    if (auto* load = llvm::dyn_cast<llvm::LoadInst>(i))
      split_load(*load, aligned, unit);
    else
      split_store(*llvm::cast<llvm::StoreInst>(i), aligned, unit);
  }
}

}  // namespace hologram::cuda

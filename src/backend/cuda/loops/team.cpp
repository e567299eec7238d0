// backend/cuda/loops/team.cpp: the threads that work on one parallel point together.
#include "backend/cuda/loops/team.h"

#include <llvm/IR/IntrinsicsNVPTX.h>

#include "backend/cuda/warp.h"

namespace hologram::cuda {

namespace Intrinsic = llvm::Intrinsic;

Team::Team(CudaFunction& k, Mapping mapping) : k_(k), ir_(k.ir), mapping_(mapping) {
  llvm::Type* word = ir_.getInt64Ty();
  Value* first = ir_.CreateMul(ir_.CreateZExt(k.cta(), word), k.i64(points(mapping)));
  Value *which = nullptr, *rank = nullptr;
  switch (mapping) {
    case Mapping::thread:
      which = k.thread();
      rank = ir_.getInt32(0);
      break;
    case Mapping::team:
      which = ir_.CreateLShr(k.thread(), 5);
      rank = ir_.CreateAnd(k.thread(), 31);
      break;
    case Mapping::columns:
      which = column_ = ir_.CreateAnd(k.thread(), columns - 1);
      rank = group_ = ir_.CreateLShr(k.thread(), 5);
      break;
  }
  number_ = ir_.CreateAdd(first, ir_.CreateZExt(which, word));
  rank_ = ir_.CreateZExt(rank, word);
}

Value* Team::leads() { return ir_.CreateICmpEQ(rank_, k_.i64(0)); }

void Team::barrier() { ir_.CreateIntrinsic(Intrinsic::nvvm_barrier0, {}, {}); }

void Team::sync() {
  if (mapping_ == Mapping::team) sync_warp(ir_);
  if (mapping_ == Mapping::columns) barrier();
}

Value* Team::from(Value* value, Value* rank) {
  check(mapping_ == Mapping::team, "cuda: a team that is no warp");
  return shuffle(ir_, value, ir_.CreateTrunc(rank, ir_.getInt32Ty()), false);
}

State Team::tree(State own, const Merge& merge) {
  if (mapping_ == Mapping::columns) return column_tree(own, merge);
  if (mapping_ == Mapping::thread) return own;
  for (uint32_t distance = 16; distance > 0; distance /= 2) {
    State other;
    for (Value* v : own) other.push_back(shuffle(ir_, v, ir_.getInt32(distance), true));
    own = merge(own, other);
  }
  return own;
}

// Every member reads what all have put into shared memory.
State Team::column_tree(const State& own, const Merge& merge) {
  while (exchange_.size() < own.size())
    exchange_.push_back(k_.shared(ir_.getInt64Ty(), size() * columns, "exchange"));
  for (size_t n = 0; n < own.size(); ++n) {
    const bool truth = own[n]->getType()->isIntegerTy(1);
    llvm::Type* type = truth ? ir_.getInt8Ty() : own[n]->getType();
    Value* place = ir_.CreateAdd(ir_.CreateMul(group_, ir_.getInt32(columns)), column_);
    ir_.CreateStore(truth ? ir_.CreateZExt(own[n], type) : own[n],
                    ir_.CreateGEP(type, exchange_[n], place));
  }
  barrier();
  std::vector<State> members;
  for (uint32_t g = 0; g < static_cast<uint32_t>(size()); ++g) {
    State s;
    for (size_t n = 0; n < own.size(); ++n) {
      const bool truth = own[n]->getType()->isIntegerTy(1);
      llvm::Type* type = truth ? ir_.getInt8Ty() : own[n]->getType();
      Value* place = ir_.CreateAdd(column_, ir_.getInt32(g * columns));
      Value* x = ir_.CreateLoad(type, ir_.CreateGEP(type, exchange_[n], place));
      s.push_back(truth ? ir_.CreateTrunc(x, ir_.getInt1Ty()) : x);
    }
    members.push_back(std::move(s));
  }
  barrier();  // before the next reduction writes them
  for (size_t half = members.size() / 2; half > 0; half /= 2)
    for (size_t j = 0; j < half; ++j) members[j] = merge(members[j], members[j + half]);
  return members[0];
}

}  // namespace hologram::cuda

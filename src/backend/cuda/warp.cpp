// backend/cuda/warp.cpp: shfl.sync on values of any width.
#include "backend/cuda/warp.h"

#include <llvm/IR/IntrinsicsNVPTX.h>

namespace hologram::cuda {

namespace Intrinsic = llvm::Intrinsic;

// Registers of 32 bits, one after the other.
Value* shuffle(llvm::IRBuilder<>& ir, Value* value, Value* operand, bool across) {
  llvm::Type* type = value->getType();
  const unsigned bits = type->getScalarSizeInBits();
  if (!type->isIntegerTy()) value = ir.CreateBitCast(value, ir.getIntNTy(bits));
  const auto id = across ? Intrinsic::nvvm_shfl_sync_bfly_i32 : Intrinsic::nvvm_shfl_sync_idx_i32;
  auto one = [&](Value* x) {
    return ir.CreateIntrinsic(id, {}, {ir.getInt32(~0u), x, operand, ir.getInt32(31)});
  };
  Value* out;
  if (bits == 64) {
    Value* low = one(ir.CreateTrunc(value, ir.getInt32Ty()));
    Value* high = one(ir.CreateTrunc(ir.CreateLShr(value, 32), ir.getInt32Ty()));
    out = ir.CreateOr(ir.CreateShl(ir.CreateZExt(high, ir.getInt64Ty()), 32),
                      ir.CreateZExt(low, ir.getInt64Ty()));
  } else {
    out = ir.CreateTrunc(one(ir.CreateZExt(value, ir.getInt32Ty())), ir.getIntNTy(bits));
  }
  return type->isIntegerTy() ? out : ir.CreateBitCast(out, type);
}

void sync_warp(llvm::IRBuilder<>& ir) {
  ir.CreateIntrinsic(Intrinsic::nvvm_bar_warp_sync, {}, {ir.getInt32(~0u)});
}

}  // namespace hologram::cuda

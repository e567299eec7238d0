// backend/cuda/matrices.cpp: ldmatrix, mma.sync and what they take.
#include "backend/cuda/matrices.h"

#include <llvm/IR/IntrinsicsNVPTX.h>

namespace hologram::cuda {

namespace Intrinsic = llvm::Intrinsic;

std::vector<Value*> load_matrices(CudaFunction& k, const Matrices& from, Value* x, Value* depth,
                                  bool depth_first) {
  llvm::IRBuilder<>& ir = k.ir;
  Value* lane = ir.CreateAnd(k.thread(), 31);
  Value *matrix = ir.CreateLShr(lane, 3), *inside = ir.CreateAnd(lane, 7);
  Value *low = ir.CreateShl(ir.CreateAnd(matrix, 1), 3),
        *high = ir.CreateShl(ir.CreateLShr(matrix, 1), 3);
  Value *along_k = depth_first ? low : high, *along_x = depth_first ? high : low;
  Value *at_k = ir.CreateAdd(along_k, depth), *at_x = ir.CreateAdd(along_x, x);
  Value* row = ir.CreateAdd(from.depth_run ? at_x : at_k, inside);
  Value* place = ir.CreateAdd(ir.CreateMul(row, ir.getInt32(static_cast<uint32_t>(from.stride))),
                              from.depth_run ? at_k : at_x);
  Value* address = ir.CreateGEP(ir.getInt16Ty(), from.memory, ir.CreateAdd(from.base, place));
  // A matrix comes turned where its rows in memory are not those that the product wants.
  const bool turned = !from.depth_run;
  const auto id = turned ? Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_trans_b16
                         : Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_b16;
  Value* all = ir.CreateIntrinsic(id, {address->getType()}, {address});
  std::vector<Value*> out;
  for (unsigned n = 0; n < 4; ++n) out.push_back(ir.CreateExtractValue(all, n));
  return out;
}

void multiply_matrices(CudaFunction& k, DType type, const std::vector<Value*>& left,
                       const std::vector<Value*>& right, Value** sums) {
  llvm::IRBuilder<>& ir = k.ir;
  const bool brain = type == DType::bf16;
  auto* pair = llvm::FixedVectorType::get(ir.getHalfTy(), 2);
  std::vector<Value*> arguments;
  for (const auto* factor : {&left, &right})
    for (Value* v : *factor) arguments.push_back(brain ? v : ir.CreateBitCast(v, pair));
  arguments.insert(arguments.end(), sums, sums + 4);
  Value* all = ir.CreateIntrinsic(brain ? Intrinsic::nvvm_mma_m16n8k16_row_col_bf16
                                        : Intrinsic::nvvm_mma_m16n8k16_row_col_f32_f32,
                                  {}, arguments);
  for (unsigned n = 0; n < 4; ++n) sums[n] = ir.CreateExtractValue(all, n);
}

void multiply_bytes(CudaFunction& k, bool left_signed, bool right_signed,
                    const std::vector<Value*>& left, const std::vector<Value*>& right,
                    Value** sums) {
  llvm::IRBuilder<>& ir = k.ir;
  std::vector<Value*> arguments = left;
  arguments.insert(arguments.end(), right.begin(), right.end());
  arguments.insert(arguments.end(), sums, sums + 4);
  const auto id = left_signed    ? right_signed ? Intrinsic::nvvm_mma_m16n8k32_row_col_s8
                                                : Intrinsic::nvvm_mma_m16n8k32_row_col_s8_u8
                  : right_signed ? Intrinsic::nvvm_mma_m16n8k32_row_col_u8_s8
                                 : Intrinsic::nvvm_mma_m16n8k32_row_col_u8;
  Value* all = ir.CreateIntrinsic(id, {}, arguments);
  for (unsigned n = 0; n < 4; ++n) sums[n] = ir.CreateExtractValue(all, n);
}

Value* round_pair(CudaFunction& k, DType type, Value* low, Value* high) {
  llvm::IRBuilder<>& ir = k.ir;
  const auto id = type == DType::bf16 ? Intrinsic::nvvm_ff2bf16x2_rn : Intrinsic::nvvm_ff2f16x2_rn;
  return ir.CreateBitCast(ir.CreateIntrinsic(id, {}, {high, low}), ir.getInt32Ty());
}

}  // namespace hologram::cuda

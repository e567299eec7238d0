// backend/cuda/warpgroups.cpp: barriers, who brings and who takes, and which registers they have.
#include "backend/cuda/warpgroups.h"

#include <llvm/IR/IntrinsicsNVPTX.h>

#include "backend/cuda/warp.h"
#include "codegen/nest.h"

namespace hologram::cuda {

Value* number_of_ctas(CudaFunction& k) {
  return k.ir.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_x, {}, {});
}

void emit_warpgroups(CudaFunction& k, Async& async, const Warpgroups& parts) {
  llvm::IRBuilder<>& ir = k.ir;
  Scope& root = k.root();
  llvm::BasicBlock *make = k.block("make"), *ready = k.block("ready"),
                   *produce = k.block("produce"), *consume = k.block("consume"),
                   *done = k.block("done");
  Value* first = ir.CreateICmpEQ(k.thread(), ir.getInt32(0));
  ir.CreateCondBr(first, make, ready);
  ir.SetInsertPoint(make);
  parts.make_barriers();
  async.fence_barriers();
  ir.CreateBr(ready);
  ir.SetInsertPoint(ready);
  root.move_to(ready);
  ir.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier0, {}, {});
  // The same in all lanes of a warp, and known to be.
  Value* which = shuffle(ir, ir.CreateLShr(k.thread(), 7), ir.getInt32(0), false);
  parts.prepare();
  ir.CreateCondBr(ir.CreateICmpEQ(which, ir.getInt32(0)), produce, consume);
  ir.SetInsertPoint(produce);
  {
    Scope producer(root, true);
    async.keep_registers(parts.kept, true);
    emit_if(producer, first, parts.bring);
    producer.seek();
    ir.CreateBr(done);
  }
  ir.SetInsertPoint(consume);
  {
    Scope consumer(root, true);
    async.keep_registers(parts.taken, false);
    parts.take(consumer, ir.CreateSub(which, ir.getInt32(1)));
    consumer.seek();
    ir.CreateBr(done);
  }
  ir.SetInsertPoint(done);
  k.finish();
}

}  // namespace hologram::cuda

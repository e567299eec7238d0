// backend/cuda/async.cpp: inline assembly of copies, barriers and products.
#include "backend/cuda/async.h"

#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

namespace hologram::cuda {
namespace {

namespace Intrinsic = llvm::Intrinsic;

constexpr const char* memory_name = "hologram_shared";

// "=f,=f,…,": so many results in registers of a kind.
std::string results(size_t count, const Value* one) {
  std::string out;
  for (size_t n = 0; n < count; ++n) out += one->getType()->isFloatTy() ? "=f," : "=r,";
  return out;
}

// "=f,=f,…,0,1,…": so many registers in and out.
std::string tied(size_t count, const Value* one) {
  std::string out = results(count, one);
  for (size_t n = 0; n < count; ++n) out += std::to_string(n) + ",";
  return out;
}

std::string numbered(size_t first, size_t count) {
  std::string out;
  for (size_t n = 0; n < count; ++n) out += (n ? ", $" : "$") + std::to_string(first + n);
  return out;
}

}  // namespace

Value* Async::memory() {
  llvm::GlobalVariable* v = k_.module.getNamedGlobal(memory_name);
  if (!v) {
    auto* type = llvm::ArrayType::get(ir_.getInt8Ty(), 0);
    v = new llvm::GlobalVariable(k_.module, type, false, llvm::GlobalValue::ExternalLinkage,
                                 nullptr, memory_name, nullptr, llvm::GlobalValue::NotThreadLocal,
                                 shared_space);
    v->setAlignment(llvm::Align(1024));
  }
  return ir_.CreatePtrToInt(v, ir_.getInt32Ty());
}

llvm::CallInst* Async::assembly(llvm::Type* result, const std::string& text,
                                const std::string& constraints, std::span<Value* const> arguments) {
  std::vector<llvm::Type*> types;
  for (Value* v : arguments) types.push_back(v->getType());
  auto* type = llvm::FunctionType::get(result, types, false);
  auto* code = llvm::InlineAsm::get(type, text, constraints + "~{memory}", /*hasSideEffects=*/true);
  llvm::CallInst* call =
      ir_.CreateCall(type, code, llvm::ArrayRef<Value*>(arguments.data(), arguments.size()));
  call->setConvergent();
  return call;
}

void Async::make_barrier(Value* barrier, int count) {
  Value* p = ir_.CreateIntToPtr(barrier, ir_.getPtrTy(shared_space));
  ir_.CreateIntrinsic(Intrinsic::nvvm_mbarrier_init_shared, {}, {p, number(count)});
}

void Async::fence_barriers() {
  assembly(ir_.getVoidTy(), "fence.mbarrier_init.release.cluster;", "", {});
}

void Async::wait(Value* barrier, Value* parity) {
  Value* arguments[] = {barrier, parity};
  assembly(ir_.getVoidTy(),
           "{ .reg .pred p; WAIT${:uid}: mbarrier.try_wait.parity.shared::cta.b64 p, [$0], $1; "
           "@p bra DONE${:uid}; bra WAIT${:uid}; DONE${:uid}: }",
           "r,r,", arguments);
}

void Async::expect(Value* barrier, int bytes) {
  Value* arguments[] = {barrier, number(bytes)};
  assembly(ir_.getVoidTy(), "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "r,r,",
           arguments);
}

void Async::arrive(Value* barrier, Value* when) {
  Value* arguments[] = {barrier, ir_.CreateZExt(when, ir_.getInt32Ty())};
  assembly(ir_.getVoidTy(),
           "{ .reg .pred p; setp.ne.b32 p, $1, 0; "
           "@p mbarrier.arrive.shared::cta.b64 _, [$0]; }",
           "r,r,", arguments);
}

void Async::copy(Value* to, Value* map, std::span<Value* const> at, Value* barrier) {
  std::vector<Value*> arguments{to, map};
  arguments.insert(arguments.end(), at.begin(), at.end());
  arguments.push_back(barrier);
  std::string constraints = "r,l,";
  for (size_t n = 0; n <= at.size(); ++n) constraints += "r,";
  assembly(ir_.getVoidTy(),
           fmt::format("cp.async.bulk.tensor.{}d.shared::cluster.global.mbarrier::complete_tx::"
                       "bytes [$0], [$1, {{{}}}], [${}];",
                       at.size(), numbered(2, at.size()), 2 + at.size()),
           constraints, arguments);
}

void Async::keep_registers(int count, bool fewer) {
  ir_.CreateIntrinsic(fewer ? Intrinsic::nvvm_setmaxnreg_dec_sync_aligned_u32
                            : Intrinsic::nvvm_setmaxnreg_inc_sync_aligned_u32,
                      {}, {number(count)});
}

// An instruction that the sums pass through.
void Async::own(const std::string& text, std::vector<Value*>& sums) {
  auto* all =
      llvm::StructType::get(k_.context, std::vector<llvm::Type*>(sums.size(), sums[0]->getType()));
  Value* out = assembly(all, text, tied(sums.size(), sums[0]), sums);
  for (unsigned n = 0; n < sums.size(); ++n) sums[n] = ir_.CreateExtractValue(out, n);
}

void Async::fence(std::vector<Value*>& sums) { own("wgmma.fence.sync.aligned;", sums); }

void Async::commit() { assembly(ir_.getVoidTy(), "wgmma.commit_group.sync.aligned;", "", {}); }

void Async::wait_products(int left, std::vector<Value*>& sums) {
  own(fmt::format("wgmma.wait_group.sync.aligned {};", left), sums);
}

// Bits 0-13: where it starts; 16-29 and 32-45: bytes to the next 64 of x and, of rows along k, to
// the next eight rows or, of others, to the next eight values of k; 62-63: the pattern, 1 for 128
// bytes, 2 for 64. All in units of 16 bytes.
Value* Async::descriptor(const SharedMatrix& m, int part) {
  const int step = part * depth_bytes * (m.depth_run ? 1 : row_bytes / 2);
  Value* start = ir_.CreateLShr(ir_.CreateAdd(m.start, number(step)), 4);
  start = ir_.CreateZExt(ir_.CreateAnd(start, number(0x3fff)), ir_.getInt64Ty());
  const uint64_t leading = m.depth_run ? 1 : static_cast<uint64_t>(m.next) >> 4;
  const uint64_t stride = static_cast<uint64_t>(pattern_rows * m.row_bytes) >> 4;
  const uint64_t pattern = m.row_bytes == row_bytes ? 1 : 2;
  return ir_.CreateOr(start, ir_.getInt64(pattern << 62 | stride << 32 | leading << 16));
}

void Async::multiply(DType type, const SharedMatrix& left, const SharedMatrix& right, int part,
                     Value* adds, std::vector<Value*>& sums) {
  const size_t n = sums.size(), first = adds ? 2 * n : n;
  const char* name = type == DType::bf16  ? "bf16"
                     : type == DType::f16 ? "f16"
                     : type == DType::i8  ? "s8"
                                          : "u8";
  std::vector<Value*> arguments;
  if (adds) arguments = sums;
  for (Value* v : {descriptor(left, part), descriptor(right, part)}) arguments.push_back(v);
  arguments.push_back(adds ? ir_.CreateZExt(adds, ir_.getInt32Ty()) : number(0));
  const bool bytes = size_of(type) == 1;
  // Signs, and whether factors are turned, which bytes cannot be.
  const std::string ways =
      bytes ? "" : fmt::format(", 1, 1, {}, {}", left.depth_run ? 0 : 1, right.depth_run ? 0 : 1);
  const std::string text = fmt::format(
      "{{ .reg .pred p; setp.ne.b32 p, ${}, 0; wgmma.mma_async.sync.aligned.m64n{}k{}.{}.{}.{} "
      "{{{}}}, ${}, ${}, p{}; }}",
      first + 2, 2 * n, bytes ? 32 : 16, bytes ? "s32" : "f32", name, name, numbered(0, n), first,
      first + 1, ways);
  auto* all = llvm::StructType::get(k_.context, std::vector<llvm::Type*>(n, sums[0]->getType()));
  const std::string registers = adds ? tied(n, sums[0]) : results(n, sums[0]);
  Value* out = assembly(all, text, registers + "l,l,r,", arguments);
  for (unsigned s = 0; s < n; ++s) sums[s] = ir_.CreateExtractValue(out, s);
}

void Async::multiply(DType type, std::span<Value* const> left, const SharedMatrix& right, int part,
                     bool adds, std::vector<Value*>& sums) {
  const size_t n = sums.size(), first = adds ? 2 * n : n;
  std::vector<Value*> arguments;
  if (adds) arguments = sums;
  arguments.insert(arguments.end(), left.begin(), left.end());
  arguments.push_back(descriptor(right, part));
  arguments.push_back(number(adds ? 1 : 0));
  const char* name = type == DType::bf16 ? "bf16" : "f16";
  const std::string text = fmt::format(
      "{{ .reg .pred p; setp.ne.b32 p, ${}, 0; "
      "wgmma.mma_async.sync.aligned.m64n{}k16.f32.{}.{} "
      "{{{}}}, {{{}}}, ${}, p, 1, 1, {}; }}",
      first + 5, 2 * n, name, name, numbered(0, n), numbered(first, 4), first + 4,
      right.depth_run ? 0 : 1);
  auto* all = llvm::StructType::get(k_.context, std::vector<llvm::Type*>(n, ir_.getFloatTy()));
  const std::string registers = adds ? tied(n, sums[0]) : results(n, sums[0]);
  Value* out = assembly(all, text, registers + "r,r,r,r,l,r,", arguments);
  for (unsigned s = 0; s < n; ++s) sums[s] = ir_.CreateExtractValue(out, s);
}

}  // namespace hologram::cuda

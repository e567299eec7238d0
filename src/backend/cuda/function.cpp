// backend/cuda/function.cpp: parameters of a GPU kernel, and what the kit leaves to it.
#include "backend/cuda/function.h"

#include <llvm/IR/IntrinsicsNVPTX.h>

#include <algorithm>

namespace hologram::cuda {
namespace {

namespace Intrinsic = llvm::Intrinsic;

constexpr uint64_t map_bytes = 128, map_alignment = 64;
constexpr const char* capability_flag = "hologram_capability";

llvm::Metadata* number_of(llvm::LLVMContext& c, size_t n) {
  return llvm::ConstantAsMetadata::get(
      llvm::ConstantInt::get(llvm::Type::getInt32Ty(c), static_cast<uint64_t>(n)));
}

void annotate(llvm::Function* f, const char* what, llvm::Metadata* value) {
  llvm::LLVMContext& c = f->getContext();
  f->getParent()
      ->getOrInsertNamedMetadata("nvvm.annotations")
      ->addOperand(llvm::MDNode::get(
          c, {llvm::ValueAsMetadata::get(f), llvm::MDString::get(c, what), value}));
}

llvm::Function* declare(llvm::Module& m, const atlas::Program& p, int threads, const char* name,
                        int maps) {
  llvm::LLVMContext& c = m.getContext();
  auto* pointer = llvm::PointerType::get(c, global_space);
  auto* word = llvm::Type::getInt64Ty(c);
  std::vector<llvm::Type*> types;
  for (const atlas::Buffer& b : p.buffers)
    if (b.access != atlas::Access::scratch) types.push_back(pointer);
  types.insert(types.end(), static_cast<size_t>(p.num_symbols) + 3, word);
  types.insert(types.end(), 2, pointer);
  const size_t first_map = types.size();
  types.insert(types.end(), static_cast<size_t>(maps), llvm::PointerType::get(c, 0));
  auto* f = llvm::Function::Create(llvm::FunctionType::get(llvm::Type::getVoidTy(c), types, false),
                                   llvm::Function::ExternalLinkage, name, m);
  f->setCallingConv(llvm::CallingConv::PTX_Kernel);
  f->addFnAttr(llvm::Attribute::NoUnwind);
  f->addFnAttr("target-cpu", target(capability_of(m)).cpu);
  f->addFnAttr("target-features", target(capability_of(m)).features);
  f->addFnAttr("no-builtins");
  auto number = [&](size_t n) { return number_of(c, n); };
  annotate(f, "maxntidx", number(static_cast<size_t>(threads)));
  if (maps == 0) return f;
  annotate(f, "minctasm", number(1));
  auto* bytes = llvm::ArrayType::get(llvm::Type::getInt8Ty(c), map_bytes);
  std::vector<llvm::Metadata*> constant;
  for (size_t n = first_map; n < types.size(); ++n) {
    llvm::AttrBuilder attributes(c);
    attributes.addByValAttr(bytes);
    attributes.addAlignmentAttr(llvm::Align(map_alignment));
    f->getArg(static_cast<unsigned>(n))->addAttrs(attributes);
    constant.push_back(number(n + 1));
  }
  annotate(f, "grid_constant", llvm::MDNode::get(c, constant));
  return f;
}

}  // namespace

void set_capability(llvm::Module& module, int capability) {
  module.addModuleFlag(llvm::Module::Override, capability_flag, static_cast<uint32_t>(capability));
}

int capability_of(const llvm::Module& module) {
  auto* flag =
      llvm::mdconst::extract_or_null<llvm::ConstantInt>(module.getModuleFlag(capability_flag));
  return flag ? static_cast<int>(flag->getZExtValue()) : least_capability;
}

CudaFunction::CudaFunction(llvm::Module& m, const atlas::Program& p, int threads, const char* name,
                           int maps)
    : Function(m, p, target(capability_of(m)), declare(m, p, threads, name, maps)) {
  unsigned passed = 0;
  for (size_t k = 0; k < p.buffers.size(); ++k)
    if (p.buffers[k].access != atlas::Access::scratch) set_buffer(k, function->getArg(passed++));
  for (int s = 0; s < p.num_symbols; ++s) add_symbol(function->getArg(passed++));
  total_ = function->getArg(passed++);
  teams_ = function->getArg(passed++);
  team_bytes_ = function->getArg(passed++);
  workspace_ = function->getArg(passed++);
  faults_ = function->getArg(passed++);
  first_map_ = passed;
  thread_ = ir.CreateIntrinsic(Intrinsic::nvvm_read_ptx_sreg_tid_x, {}, {});
  cta_ = ir.CreateIntrinsic(Intrinsic::nvvm_read_ptx_sreg_ctaid_x, {}, {});
  open();
}

void CudaFunction::fit(int ctas) {
  annotate(function, "minctasm", number_of(module.getContext(), static_cast<size_t>(ctas)));
}

Value* CudaFunction::map(int number) {
  return ir.CreatePtrToInt(function->getArg(first_map_ + static_cast<unsigned>(number)),
                           ir.getInt64Ty());
}

// A tree of choices, one level for each bit of the index: no memory is read.
Value* CudaFunction::look_up(DType type, std::span<const uint64_t> table, Value* index) {
  std::vector<Value*> values;
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(index->getType());
  const int lanes = vector ? static_cast<int>(vector->getNumElements()) : 1;
  for (uint64_t bits : table) {
    llvm::Type* t = type_of(type);
    auto* word = llvm::ConstantInt::get(ir.getIntNTy(t->getScalarSizeInBits()), bits);
    llvm::Constant* value = llvm::ConstantExpr::getBitCast(word, t);
    values.push_back(vector ? llvm::ConstantVector::getSplat(vector->getElementCount(), value)
                            : value);
  }
  auto words = [&](uint32_t x) { return llvm::ConstantInt::get(widen(ir.getInt32Ty(), lanes), x); };
  for (uint32_t bit = 0; values.size() > 1; ++bit) {
    Value* upper = ir.CreateICmpNE(ir.CreateAnd(index, words(1u << bit)), words(0));
    for (size_t k = 0; k < values.size() / 2; ++k)
      values[k] = ir.CreateSelect(upper, values[2 * k + 1], values[2 * k]);
    values.resize(values.size() / 2);
  }
  return values[0];
}

Value* CudaFunction::zeros() {
  if (!zeros_) {
    auto* type = llvm::ArrayType::get(ir.getInt8Ty(), 64);
    auto* v = new llvm::GlobalVariable(module, type, true, llvm::GlobalValue::InternalLinkage,
                                       llvm::Constant::getNullValue(type), "hologram_zeros",
                                       nullptr, llvm::GlobalValue::NotThreadLocal, global_space);
    v->setAlignment(llvm::Align(64));
    zeros_ = v;
  }
  return zeros_;
}

Value* CudaFunction::sink() { fail(ErrorCode::internal, "cuda: a store to nowhere"); }

void CudaFunction::finish() {
  if (Value* bits = errors()) {
    flags_ = true;
    for (uint32_t bit : {atlas::index_out_of_range, atlas::integer_division_by_zero}) {
      llvm::BasicBlock *report = block("report"), *on = block("on");
      Value* flagged = ir.CreateICmpNE(ir.CreateAnd(bits, ir.getInt32(bit)), ir.getInt32(0));
      ir.CreateCondBr(flagged, report, on);
      ir.SetInsertPoint(report);
      // Many threads may store the same 1.
      ir.CreateStore(ir.getInt32(1), ir.CreateConstGEP1_32(ir.getInt32Ty(), faults_, bit - 1),
                     /*isVolatile=*/true);
      ir.CreateBr(on);
      ir.SetInsertPoint(on);
    }
  }
  ir.CreateRetVoid();
}

bool CudaFunction::has_scratch(const atlas::Program& program) {
  return std::ranges::any_of(
      program.buffers, [](const atlas::Buffer& b) { return b.access == atlas::Access::scratch; });
}

Expr CudaFunction::scratch_bytes(const atlas::Program& program) {
  Expr bytes;
  for (const atlas::Buffer& b : program.buffers)
    if (b.access == atlas::Access::scratch)
      bytes += ceil_div(b.extent * Expr(size_of(b.dtype)), Expr(64)) * Expr(64);
  return bytes;
}

Value* CudaFunction::workspace(Value* team) {
  return ir.CreateGEP(ir.getInt8Ty(), workspace_, ir.CreateMul(team, team_bytes_));
}

void CudaFunction::place_scratch(Value* team) {
  root().seek();
  Value* at = workspace(team);
  for (size_t k = 0; k < program.buffers.size(); ++k) {
    const atlas::Buffer& b = program.buffers[k];
    if (b.access != atlas::Access::scratch) continue;
    set_buffer(k, at);
    Value* bytes = emit_expr(root(), b.extent * Expr(size_of(b.dtype))).v;
    root().seek();
    bytes = ir.CreateAnd(ir.CreateAdd(bytes, i64(63)), i64(-64));
    at = ir.CreateGEP(ir.getInt8Ty(), at, bytes);
  }
}

Value* CudaFunction::shared(llvm::Type* type, int count, const char* name) {
  auto* array = llvm::ArrayType::get(type, static_cast<uint64_t>(count));
  auto* v = new llvm::GlobalVariable(module, array, false, llvm::GlobalValue::InternalLinkage,
                                     llvm::UndefValue::get(array), name, nullptr,
                                     llvm::GlobalValue::NotThreadLocal, shared_space);
  v->setAlignment(llvm::Align(16));
  return v;
}

}  // namespace hologram::cuda

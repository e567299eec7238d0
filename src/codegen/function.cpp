// codegen/function.cpp: the generated function: arguments, scratch memory, error flag, exits.
#include <llvm/IR/Intrinsics.h>

#include <limits>

#include "base/error.h"
#include "codegen/body.h"
#include "ir/scalar.h"

namespace hologram::codegen {

namespace {

constexpr int64_t stack_limit = 64 * 1024;

}  // namespace

Scope::Scope(Function& function) : function_(function), block_(function.ir.GetInsertBlock()) {}

Scope::Scope(Scope& parent, bool conditional)
    : function_(parent.function_),
      parent_(&parent),
      depth_(parent.depth_ + 1),
      conditional_(conditional),
      streaming_(parent.streaming_),
      block_(parent.function_.ir.GetInsertBlock()),
      lane_axis_(parent.lane_axis_),
      lanes_(parent.lanes_),
      mask_(parent.mask_),
      aligned_(parent.aligned_),
      alternate_(parent.alternate_) {}

void Scope::set_lanes(int axis, int count, Value* mask) {
  lane_axis_ = count > 1 ? axis : -1;
  lanes_ = count;
  mask_ = mask;
  aligned_ = alternate_ = false;
}

void Scope::seek() {
  if (llvm::Instruction* last = block_->getTerminator())
    function_.ir.SetInsertPoint(last);
  else
    function_.ir.SetInsertPoint(block_);
}

Function::Function(llvm::Module& m, const atlas::Program& p, const TargetTraits& t)
    : module(m), program(p), traits(t), context(m.getContext()), ir(m.getContext()) {
  llvm::Type* pointer = ir.getPtrTy();
  llvm::Type* word = ir.getInt64Ty();
  auto* type =
      llvm::FunctionType::get(ir.getInt32Ty(), {pointer, pointer, pointer, word, word}, false);
  function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, kernel_symbol, m);
  function->setDSOLocal(true);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  function->addFnAttr("target-cpu", t.cpu);
  function->addFnAttr("target-features", t.features);
  function->addFnAttr("prefer-vector-width", std::to_string(t.vector_bytes * 8));
  function->addFnAttr("min-legal-vector-width", std::to_string(t.vector_bytes * 8));
  function->addFnAttr("no-builtins");
  for (unsigned a = 0; a < 3; ++a) function->addParamAttr(a, llvm::Attribute::NoAlias);
  context_arg_ = function->getArg(0);
  begin = function->getArg(3);
  end = function->getArg(4);

  entry_ = block("entry");
  exit_ = block("exit");
  ir.SetInsertPoint(entry_);
  auto* invariant = llvm::MDNode::get(context, {});
  auto fixed = [&](llvm::Type* what, Value* array, size_t number) {
    auto* load = ir.CreateLoad(what, ir.CreateConstInBoundsGEP1_64(what, array, number));
    load->setMetadata(llvm::LLVMContext::MD_invariant_load, invariant);
    return load;
  };
  size_t passed = 0;
  for (const atlas::Buffer& b : p.buffers)
    buffers_.push_back(b.access == atlas::Access::scratch
                           ? nullptr
                           : fixed(pointer, function->getArg(1), passed++));
  for (int s = 0; s < p.num_symbols; ++s)
    symbols_.push_back(fixed(word, function->getArg(2), static_cast<size_t>(s)));
  ir.SetInsertPoint(exit_);
  status_ = ir.CreatePHI(ir.getInt32Ty(), 2, "status");
  ir.CreateRet(status_);
  ir.SetInsertPoint(entry_);
  llvm::BasicBlock* work = block("work");
  ir.CreateCondBr(ir.CreateICmpSLT(begin, end), work, exit_);
  status_->addIncoming(ir.getInt32(0), entry_);
  ir.SetInsertPoint(work);
  root_ = std::make_unique<Scope>(*this);
}

Function::Function(llvm::Module& m, const atlas::Program& p, const TargetTraits& t,
                   llvm::Function* own)
    : module(m),
      program(p),
      traits(t),
      context(m.getContext()),
      ir(m.getContext()),
      function(own),
      begin(nullptr),
      end(nullptr),
      buffers_(p.buffers.size()),
      exit_(nullptr),
      context_arg_(nullptr) {
  entry_ = block("entry");
  ir.SetInsertPoint(entry_);
}

Function::~Function() = default;

void Function::open() {
  llvm::BasicBlock* work = block("work");
  ir.CreateBr(work);
  ir.SetInsertPoint(work);
  root_ = std::make_unique<Scope>(*this);
}

Value* Function::errors() { return errors_ ? ir.CreateLoad(ir.getInt32Ty(), errors_) : nullptr; }

llvm::BasicBlock* Function::block(const char* name) {
  return llvm::BasicBlock::Create(context, name, function);
}

llvm::AllocaInst* Function::slot(llvm::Type* type, const char* name, int64_t count) {
  llvm::IRBuilder<> at(entry_, entry_->begin());
  auto* a = at.CreateAlloca(type, at.getInt64(static_cast<uint64_t>(count)), name);
  a->setAlignment(llvm::Align(64));
  return a;
}

Value* Function::zeros() {
  if (!zeros_) {
    auto* type = llvm::ArrayType::get(ir.getInt8Ty(), 64);
    auto* a = slot(type, "zeros");
    llvm::IRBuilder<> at(entry_->getTerminator());
    auto* wide = llvm::FixedVectorType::get(at.getInt64Ty(), 8);
    at.CreateAlignedStore(llvm::Constant::getNullValue(wide), a, llvm::Align(64));
    zeros_ = a;
  }
  return zeros_;
}

Value* Function::sink() {
  if (!sink_) sink_ = slot(llvm::ArrayType::get(ir.getInt8Ty(), 64), "sink");
  return sink_;
}

// By LLVM's layout of the same struct, since pointers have four bytes on some targets.
Value* Function::context_field(ContextField field) {
  llvm::Type *pointer = ir.getPtrTy(), *word = ir.getInt64Ty();
  auto* type = llvm::StructType::get(context, {pointer, pointer, pointer, pointer, pointer, word});
  const auto number = static_cast<unsigned>(field);
  return ir.CreateLoad(type->getElementType(number),
                       ir.CreateStructGEP(type, function->getArg(0), number));
}

void Function::flag_error(Value* condition, int bit) {
  if (!errors_) {
    auto* a = slot(ir.getInt32Ty(), "errors");
    llvm::IRBuilder<>(entry_->getTerminator()).CreateStore(ir.getInt32(0), a);
    errors_ = a;
  }
  if (condition->getType()->isVectorTy()) condition = ir.CreateOrReduce(condition);
  Value* bits = ir.CreateSelect(condition, ir.getInt32(static_cast<uint32_t>(bit)), ir.getInt32(0));
  ir.CreateStore(ir.CreateOr(ir.CreateLoad(ir.getInt32Ty(), errors_), bits), errors_);
}

Value* Function::runs_backwards() {
  return ir.CreateTrunc(context_field(ContextField::launch), ir.getInt1Ty());
}

void Function::leave(int status) {
  status_->addIncoming(ir.getInt32(static_cast<uint32_t>(status)), ir.GetInsertBlock());
  ir.CreateBr(exit_);
}

void Function::finish() {
  if (Value* bits = errors()) {
    llvm::BasicBlock *report = block("report"), *done = block("done");
    ir.CreateCondBr(ir.CreateICmpNE(bits, ir.getInt32(0)), report, done);
    ir.SetInsertPoint(report);
    ir.CreateAtomicRMW(llvm::AtomicRMWInst::Or, context_field(ContextField::sticky_error), bits,
                       llvm::Align(4), llvm::AtomicOrdering::Monotonic);
    ir.CreateBr(done);
    ir.SetInsertPoint(done);
  }
  leave(0);
}

void Function::make_scratch(int lanes) {
  scratch_lanes_ = lanes;
  root_->seek();
  int64_t on_stack = 0;
  Value* heap_bytes = nullptr;
  std::vector<std::pair<size_t, Value*>> heap;
  for (size_t k = 0; k < program.buffers.size(); ++k) {
    const atlas::Buffer& b = program.buffers[k];
    if (b.access != atlas::Access::scratch) continue;
    int64_t width = static_cast<int64_t>(size_of(b.dtype)) * lanes;
    if (b.extent.is_const() && b.extent.constant_value() >= 0 &&
        b.extent.constant_value() <= (stack_limit - on_stack) / width) {
      int64_t bytes = b.extent.constant_value() * width;
      on_stack += bytes;
      buffers_[k] = slot(ir.getInt8Ty(), "scratch", std::max<int64_t>(bytes, 1));
      continue;
    }
    Value* count = emit_expr(*root_, b.extent).v;
    root_->seek();
    Value* bytes = ir.CreateMul(count, i64(width));
    bytes = ir.CreateAnd(ir.CreateAdd(bytes, i64(63)), i64(-64));
    heap.emplace_back(k, heap_bytes ? heap_bytes : i64(0));
    heap_bytes = heap_bytes ? ir.CreateAdd(heap_bytes, bytes) : bytes;
  }
  if (heap.empty()) return;
  llvm::Type* pointer = ir.getPtrTy();
  Value* service = context_field(ContextField::scratch);
  auto* type = llvm::FunctionType::get(pointer, {pointer, ir.getInt64Ty()}, false);
  Value* base = ir.CreateCall(type, service, {context_arg_, heap_bytes});
  llvm::BasicBlock *none = block("no_scratch"), *work = block("work");
  ir.CreateCondBr(ir.CreateIsNull(base), none, work);
  ir.SetInsertPoint(none);
  leave(static_cast<int>(ErrorCode::out_of_memory));
  ir.SetInsertPoint(work);
  root_->move_to(work);
  for (auto& [k, offset] : heap) buffers_[k] = ir.CreateGEP(ir.getInt8Ty(), base, offset);
}

llvm::Type* Function::type_of(DType t) const {
  auto& c = context;
  switch (t) {
    case DType::b8:
      return llvm::Type::getInt1Ty(c);
    case DType::f32:
      return llvm::Type::getFloatTy(c);
    case DType::f64:
      return llvm::Type::getDoubleTy(c);
    default:
      return llvm::Type::getIntNTy(c, static_cast<unsigned>(size_of(t)) * 8);
  }
}

llvm::Type* Function::memory_type(DType t) const {
  return t == DType::b8 ? llvm::Type::getInt8Ty(context) : type_of(t);
}

llvm::Type* Function::widen(llvm::Type* t, int lanes) const {
  return lanes > 1 ? llvm::FixedVectorType::get(t, static_cast<unsigned>(lanes)) : t;
}

llvm::Type* Function::lane_type(DType t, int lanes) const { return widen(type_of(t), lanes); }

llvm::Constant* Function::identity(ir::Op reduce, DType type) {
  llvm::Type* t = type_of(type);
  double infinity = std::numeric_limits<double>::infinity();
  auto number = [&](double value) -> llvm::Constant* {
    if (t->isFloatingPointTy()) return llvm::ConstantFP::get(t, value);
    return llvm::ConstantInt::get(
        t, is_float(type) ? hologram::ir::bits_of(type, value) : static_cast<uint64_t>(value));
  };
  unsigned width = t->isIntegerTy() ? t->getIntegerBitWidth() : 0;
  bool is_signed = is_signed_int(type);
  switch (reduce) {
    case ir::Op::reduce_sum:
      return number(0);
    case ir::Op::reduce_prod:
      return number(1);
    case ir::Op::reduce_max:
      if (is_float(type)) return number(-infinity);
      return llvm::ConstantInt::get(context, is_signed ? llvm::APInt::getSignedMinValue(width)
                                                       : llvm::APInt::getMinValue(width));
    case ir::Op::reduce_min:
      if (is_float(type)) return number(infinity);
      return llvm::ConstantInt::get(context, is_signed ? llvm::APInt::getSignedMaxValue(width)
                                                       : llvm::APInt::getMaxValue(width));
    default:
      fail(ErrorCode::unsupported, "codegen: {} has no identity", name_of(reduce));
  }
}

Value* splat(Function& k, LaneValue x, int lanes) {
  if (lanes == 1 || x.varying) return x.v;
  return k.ir.CreateVectorSplat(static_cast<unsigned>(lanes), x.v);
}

}  // namespace hologram::codegen

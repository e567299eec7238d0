// backend/cpu/trigonometric.cpp: sine, cosine and tangent, of near arguments by the short way.
//
// The sequence of atlas/math reduces an argument in two ways and takes one: of the nearly always
// near arguments the other is most of the work. Here a branch skips it where all lanes are near.
// Bodies have no control flow, so the branch is in a function of its own, inlined when the kernel
// is whole; the whole sequence is another one, which is called.
#include "backend/cpu/trigonometric.h"

#include <llvm/IR/MDBuilder.h>

#include "atlas/math/trig.h"
#include "backend/cpu/lane_arithmetic.h"

namespace hologram::cpu {
namespace {

using atlas::math::Reach;
using ir::Op;

template <class T>
using Lane = atlas::math::Num<LaneArithmetic, T>;

template <Reach reach, class T>
Lane<T> value(Op op, Lane<T> x) {
  if (op == Op::tan) return atlas::math::tan<reach>(x);
  return op == Op::sin ? atlas::math::sin<reach>(x) : atlas::math::cos<reach>(x);
}

// The module's function `name` of one value to another of its type, made once by `fill`.
template <class Fill>
llvm::Function* function_once(CpuFunction& k, const std::string& name, llvm::Type* type,
                              llvm::Attribute::AttrKind inlining, Fill fill) {
  if (llvm::Function* made = k.module.getFunction(name)) return made;
  llvm::IRBuilderBase::InsertPointGuard guard(k.ir);
  auto* f = llvm::Function::Create(llvm::FunctionType::get(type, {type}, false),
                                   llvm::Function::InternalLinkage, name, k.module);
  f->setAttributes(llvm::AttributeList().addFnAttributes(
      k.context, llvm::AttrBuilder(k.context, k.function->getAttributes().getFnAttrs())));
  f->addFnAttr(inlining);
  k.ir.SetInsertPoint(llvm::BasicBlock::Create(k.context, "entry", f));
  k.ir.CreateRet(fill(f));
  return f;
}

template <class T>
Value* emit(CpuFunction& k, Op op, Value* x) {
  LaneArithmetic arithmetic(k, x);
  auto lane = [&](Value* v) { return Lane<T>{&arithmetic, v}; };
  llvm::Type* type = x->getType();
  std::string name = std::string(ir::name_of(op)) + (sizeof(T) == 4 ? "_f32" : "_f64");
  if (auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type))
    name += "x" + std::to_string(vector->getNumElements());
  auto whole = [&](llvm::Function* f) { return value<Reach::any>(op, lane(f->getArg(0))).v; };
  auto branching = [&](llvm::Function* f) -> Value* {
    auto& ir = k.ir;
    Value* argument = f->getArg(0);
    llvm::Function* far = function_once(k, name + "_far", type, llvm::Attribute::NoInline, whole);
    far->addFnAttr(llvm::Attribute::Cold);
    Value* beyond = (abs(lane(argument)) >= atlas::math::near_angles<T>).v;
    if (type->isVectorTy()) beyond = ir.CreateOrReduce(beyond);
    auto* near_block = llvm::BasicBlock::Create(k.context, "near", f);
    auto* far_block = llvm::BasicBlock::Create(k.context, "far", f);
    auto* done = llvm::BasicBlock::Create(k.context, "done", f);
    ir.CreateCondBr(beyond, far_block, near_block,
                    llvm::MDBuilder(k.context).createUnlikelyBranchWeights());
    ir.SetInsertPoint(near_block);
    Value* near = value<Reach::near>(op, lane(argument)).v;
    ir.CreateBr(done);
    ir.SetInsertPoint(far_block);
    Value* all = ir.CreateCall(far, {argument});
    ir.CreateBr(done);
    ir.SetInsertPoint(done);
    auto* either = ir.CreatePHI(type, 2);
    either->addIncoming(near, near_block);
    either->addIncoming(all, far_block);
    return either;
  };
  return k.ir.CreateCall(function_once(k, name, type, llvm::Attribute::AlwaysInline, branching),
                         {x});
}

}  // namespace

Value* emit_trigonometric(CpuFunction& k, Op op, Value* x) {
  return x->getType()->getScalarType()->isFloatTy() ? emit<float>(k, op, x)
                                                    : emit<double>(k, op, x);
}

}  // namespace hologram::cpu

// backend/cpu/lane_arithmetic.h: elementary functions written as LLVM IR.
#pragma once

#include "atlas/math/num.h"
#include "backend/cpu/function.h"

namespace hologram::cpu {

/// The arithmetic of atlas::math::Num that writes LLVM IR, for scalars or vectors as long as
/// `like`.
class LaneArithmetic {
 public:
  template <class T>
  using Value = llvm::Value*;

  LaneArithmetic(CpuFunction& k, llvm::Value* like) : k_(k), shape_(like->getType()) {}

  template <class T>
  llvm::Value* constant(T c) {
    if constexpr (std::is_integral_v<T>)
      return llvm::ConstantInt::getSigned(type<T>(), c);
    else
      return llvm::ConstantFP::get(type<T>(), c);
  }
  template <ir::Op op, class T, class... Rest>
  llvm::Value* arithmetic(Rest... operands) {
    return emit_arithmetic(k_, op, atlas::math::dtype_of<T>, std::array{operands...});
  }
  template <ir::Op op, class T>
  llvm::Value* compare(llvm::Value* x, llvm::Value* y) {
    return arithmetic<op, T>(x, y);
  }
  template <class T>
  llvm::Value* select(llvm::Value* c, llvm::Value* x, llvm::Value* y) {
    return k_.ir.CreateSelect(c, x, y);
  }
  template <class To, class From>
  llvm::Value* convert(llvm::Value* x) {
    using atlas::math::dtype_of;
    return emit_cast(k_, ir::Op::cast, x, dtype_of<From>, dtype_of<To>);
  }
  template <class To, class From>
  llvm::Value* bits(llvm::Value* x) {
    return k_.ir.CreateBitCast(x, type<To>());
  }

 private:
  template <class T>
  llvm::Type* type() {
    return shape_->getWithNewType(k_.type_of(atlas::math::dtype_of<T>));
  }

  CpuFunction& k_;
  llvm::Type* shape_;
};

}  // namespace hologram::cpu

// backend/cpu/function.h: the function being generated, for one of the CPU's instruction sets.
#pragma once

#include "backend/cpu/target.h"
#include "codegen/body.h"

namespace hologram::cpu {

/// Whether the target has a sequence of its own for an op without Flag::exact. Its bits are those
/// of atlas/math.
bool renders(const Target& target, ir::Op op, DType type);

class CpuFunction final : public codegen::Function {
 public:
  CpuFunction(llvm::Module& m, const atlas::Program& p, const Target& t)
      : Function(m, p, t), target(t) {
    // instructions for whole registers are there where lanes fill halves of them
    if (t.isa == Isa::avx512) function->addFnAttr("min-legal-vector-width", "512");
  }

  Value* render(ir::Op op, Value* x, bool bounded) override;
  Value* round_to_bf16(Value* x) override;
  Value* truncate(Value* x, int bits) override;
  Value* extremum(bool larger, Value* x, Value* y) override;
  Value* look_up(DType type, std::span<const uint64_t> table, Value* index) override;

  /// The same of whole registers, but where one is NaN the other: by an instruction of AVX-512 that
  /// orders zeros, else null.
  Value* larger_number(bool larger, Value* x, Value* y);

  const Target& target;
};

/// The function that `scope` belongs to.
inline CpuFunction& function_of(const Scope& scope) {
  return static_cast<CpuFunction&>(scope.function());
}

}  // namespace hologram::cpu

// backend/cpu/plan.h: what is chosen for a program, once, for its launch and its code.
#pragma once

#include <variant>

#include "backend/cpu/attention/grad.h"
#include "backend/cpu/attention/plan.h"
#include "backend/cpu/loops/plan.h"
#include "backend/cpu/products/plan.h"
#include "backend/cpu/products/winograd_plan.h"
#include "backend/cpu/sort/sort.h"

namespace hologram::cpu {

/// A program without points: its kernel does nothing.
struct EmptyPlan {};
inline Launch launch_of(const EmptyPlan&, const atlas::Program&, const Target&) {
  return {Expr(0), Expr(1), Expr(1)};
}

/// Each has launch_of(plan, program, target) and emit(function, plan).
using Plan =
    std::variant<EmptyPlan, LoopPlan, ProductPlan, SmallProduct, StreamProduct, DigitProduct,
                 NarrowProduct, TileProduct, WinogradPlan, AttentionPlan, AttentionGradPlan, SortPlan>;

/// The plan of a program on which expand_math has run. Throws Error(unsupported).
Plan plan_of(const atlas::Program& program, const Target& target);

}  // namespace hologram::cpu

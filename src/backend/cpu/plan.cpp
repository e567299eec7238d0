// backend/cpu/plan.cpp: which plan a program gets.
#include "backend/cpu/plan.h"

#include "atlas/empty.h"

namespace hologram::cpu {
namespace {

// The first that fits: each asks for more than those behind it, and runs faster.
Plan plan_of_product(const atlas::Program& program, const Target& target) {
  if (program.product().winograd) return plan_winograd(program, target);
  if (auto tiles = plan_tile_product(program, target)) return *tiles;
  if (auto small = plan_small_product(program, target)) return *small;
  if (auto stream = plan_stream_product(program, target)) return *stream;
  if (auto digits = plan_digit_product(program, target)) return *digits;
  if (auto narrow = plan_narrow_product(program, target)) return *narrow;
  return plan_product(program, target);
}

}  // namespace

Plan plan_of(const atlas::Program& program, const Target& target) {
  if (atlas::is_empty(program)) return EmptyPlan{};
  switch (program.kind()) {
    case atlas::BlockKind::product:
      return plan_of_product(program, target);
    case atlas::BlockKind::attention:
      return plan_attention(program, target);
    case atlas::BlockKind::attention_grad:
      return plan_attention_grad(program, target);
    case atlas::BlockKind::sort:
      return SortPlan{};
    case atlas::BlockKind::loop:
      break;
  }
  return plan_loop(program, target);
}

}  // namespace hologram::cpu

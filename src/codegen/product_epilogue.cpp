// codegen/product_epilogue.cpp: the epilogue of a product on a block of its sums.
#include "codegen/product_epilogue.h"

#include "codegen/nest.h"

namespace hologram::codegen {
namespace {

bool multiple_of(Value* n, int64_t of) {
  auto* c = llvm::dyn_cast<llvm::ConstantInt>(n);
  return c && c->getSExtValue() % of == 0;
}

}  // namespace

ProductEpilogue::ProductEpilogue(Kernel& kernel, const TileModel& tile, Value* n)
    : Numbers(kernel), p_(kernel.program.product), t_(tile), n_(n) {}

void ProductEpilogue::emit(Scope& scope, Value* sums, Value* m, Value* count, Value* panel,
                           Value* width) {
  scope.seek();
  int m_axis = p_.batch_rank, n_axis = m_axis + 1;
  Value* n_begin = mul(panel, t_.panel);
  Value* tile_columns = mul(width, t_.panel);
  Value* columns = multiple_of(n_, t_.panel) ? tile_columns : least(sub(n_, n_begin), tile_columns);
  auto vector = [&](Scope& s, Value* offset, Value* mask) {
    s.seek();
    s.set_axis(n_axis, add(n_begin, offset));
    s.set_lanes(n_axis, t_.lanes, mask);
    emit_loop(s, k_.i64(0), count, k_.i64(1), true, [&](Scope& row, Value* r) {
      row.seek();
      row.set_axis(m_axis, add(m, r));
      Value* at = element(k_, p_.acc_type, sums, add(mul(r, tile_columns), offset));
      Value* v = k_.ir.CreateAlignedLoad(k_.lane_type(p_.acc_type, t_.lanes), at,
                                         llvm::Align(static_cast<uint64_t>(size_of(p_.acc_type))));
      row.set_accumulator(0, {v, true});
      emit_body(row, p_.epilogue);
    });
  };
  if (multiple_of(n_, t_.lanes)) {
    emit_loop(scope, k_.i64(0), columns, k_.i64(t_.lanes), true,
              [&](Scope& s, Value* offset) { vector(s, offset, nullptr); });
  } else {
    for_vectors(scope, columns, t_.lanes, vector);
  }
}

}  // namespace hologram::codegen

// backend/cpu/products/epilogue.cpp: the epilogue of a product on a block of its sums.
//
// It runs once per panel and row (per vector where there are 16 registers or columns behind the
// last whole panel); what depends on columns alone is loaded once. A core's schedulers hold only a
// few instructions of a chain, so both vectors run side by side, and from 16 instructions on two
// rows besides. The rounding instruction (accurate products of bfloat16 only) takes the place of
// nine, twice per result where an activation follows.
#include "backend/cpu/products/epilogue.h"

#include <llvm/IR/Intrinsics.h>

#include "backend/cpu/operands/runs.h"
#include "codegen/nest.h"
#include "codegen/transpose.h"

namespace hologram::cpu {
namespace {

// From this many instructions on, an epilogue is a chain that leaves a core idle.
constexpr size_t long_body = 16;

bool is_multiple(Value* n, int64_t of) {
  auto* c = llvm::dyn_cast<llvm::ConstantInt>(n);
  return c && c->getSExtValue() % of == 0;
}

// The constant stride along an axis, if the index is linear in it.
std::optional<int64_t> stride_along(const Expr& index, int axis) {
  auto split = index.linear_in_axis(axis);
  if (!split || !split->first.is_const()) return std::nullopt;
  return split->first.constant_value();
}

// Instructions [begin, middle) and [middle, end) of a block, which do not depend on each other, one
// of each in turn. Indices count from the block's first instruction.
void interleave(llvm::BasicBlock& block, size_t begin, size_t middle, size_t end) {
  std::vector<llvm::Instruction*> all;
  for (llvm::Instruction& i : block) all.push_back(&i);
  for (size_t a = begin, b = middle; a < middle && b < end; ++a, ++b) all[b]->moveAfter(all[a]);
}

}  // namespace

ProductEpilogue::ProductEpilogue(CpuFunction& kernel, const TileModel& tile, Value* n)
    : IndexBuilder(kernel),
      p_(kernel.program.product()),
      t_(tile),
      n_(n),
      n_axis_(p_.batch_rank + (p_.parts > 1 ? 3 : 1)),
      by_rows_(by_rows()) {
  if (by_rows_) square_ = k_.slot(k_.lane_type(p_.acc_type, t_.lanes), "results", t_.lanes);
}

std::optional<ProductEpilogue::ByRows> ProductEpilogue::by_rows() const {
  int m_axis = p_.batch_rank, n_axis = m_axis + 1;
  const Expr& rows = p_.axes[static_cast<size_t>(m_axis)].extent;
  if (!rows.is_const() || rows.constant_value() < 4 || t_.lanes < 4 || p_.parts > 1)
    return std::nullopt;
  ByRows out{p_.epilogue, 0, -1, m_axis};
  if (auto split = split_axis(p_.epilogue, m_axis, rows, m_axis + 3)) {
    if (split->levels.size() != 2) return std::nullopt;
    out = {split->body, split->levels[0].stride, split->levels[0].axis, split->levels[1].axis};
  }
  bool stores = false;
  for (const atlas::Instr& i : out.body.instrs) {
    bool store = i.code == atlas::Code::store, load = i.code == atlas::Code::load;
    if (!store && !load) continue;
    auto along = stride_along(i.expr, out.rows), across = stride_along(i.expr, n_axis);
    if (store && (along != 1 || across == 1)) return std::nullopt;
    if (load && across == 1 && along != 0) return std::nullopt;
    stores = stores || store;
  }
  return stores ? std::optional(std::move(out)) : std::nullopt;
}

void ProductEpilogue::emit(Scope& scope, Value* sums, Value* m, Value* count, Value* panel,
                           Value* width) {
  scope.seek();
  Value* n_begin = mul(panel, t_.panel);
  Value* stride = mul(width, t_.panel);
  Value* columns = is_multiple(n_, t_.panel) ? stride : least(sub(n_, n_begin), stride);
  Block block{sums, stride, m, count, n_begin, columns};
  if (!by_rows_) return emit_columns(scope, block);
  if (by_rows_->run == 0) return emit_rows(scope, block);
  Value* run = k_.i64(by_rows_->run);
  Value* together = k_.ir.CreateICmpULE(add(k_.ir.CreateURem(m, run), count), run);
  emit_if(scope, together, [&](Scope& s) { emit_rows(s, block); });
  scope.seek();
  emit_if(scope, k_.ir.CreateNot(together), [&](Scope& s) { emit_columns(s, block); });
}

void ProductEpilogue::emit_parts(Scope& scope, Value* sums, Value* stride, Value* between, Value* m,
                                 Value* count, Value* block) {
  scope.seek();
  Value* begin = mul(block, t_.panel);
  Value* panel = k_.i64(t_.panel);
  Value* columns = is_multiple(n_, t_.panel) ? panel : least(sub(n_, begin), panel);
  emit_columns(scope, {sums, stride, m, count, begin, columns, between});
}

void ProductEpilogue::fetch(Scope& scope, Value* m, Value* count, Value* column, Value* columns) {
  constexpr int64_t line = 64;
  std::vector<const atlas::Instr*> loads;
  for (const atlas::Instr& i : p_.epilogue.instrs) {
    bool plain = i.code == atlas::Code::load && i.args[0] == atlas::no_value &&
                 !i.expr.any_atom([](const Atom& a) { return a.kind == Atom::Kind::value; });
    if (plain && i.expr.has_axis(p_.batch_rank) && stride_along(i.expr, n_axis_) == 1)
      loads.push_back(&i);
  }
  if (loads.empty()) return;
  emit_loop(scope, k_.i64(0), count, k_.i64(1), true, [&](Scope& row, Value* r) {
    row.seek();
    row.set_axis(p_.batch_rank, add(m, r));
    row.set_axis(n_axis_, column);
    for (const atlas::Instr* i : loads) {
      Value* index = emit_expr(row, i->expr).v;
      row.seek();
      Value* p = element(k_, i->type, k_.buffer(i->buffer), index);
      Value* bytes = mul(columns, int64_t{size_of(i->type)});
      emit_loop(row, k_.i64(0), bytes, k_.i64(line), true, [&](Scope& s, Value* at) {
        s.seek();
        k_.ir.CreateIntrinsic(llvm::Intrinsic::prefetch, {k_.ir.getPtrTy()},
                              {k_.ir.CreateGEP(k_.ir.getInt8Ty(), p, at), k_.ir.getInt32(0),
                               k_.ir.getInt32(2), k_.ir.getInt32(1)});
      });
    }
  });
}

void ProductEpilogue::emit_columns(Scope& scope, const Block& block) {
  int m_axis = p_.batch_rank, n_axis = n_axis_;
  // Both vectors of a panel at once, instruction by instruction: a long body is a chain of which a
  // core holds only a few at a time, if they come one behind the other.
  bool many_registers = t_.max_rows >= 12;
  int lanes = many_registers && is_multiple(n_, t_.panel) ? t_.panel : t_.lanes;
  auto one = [&](Scope& row, Value* r, Value* offset) {
    row.seek();
    row.set_axis(m_axis, add(block.m, r));
    Value* first = add(mul(r, block.stride), offset);
    for (int part = 0; part < p_.parts; ++part) {
      Value* number = part ? add(first, mul(block.between, part)) : first;
      Value* at = element(k_, p_.acc_type, block.sums, number);
      Value* v = k_.ir.CreateAlignedLoad(k_.lane_type(p_.acc_type, lanes), at,
                                         llvm::Align(static_cast<uint64_t>(size_of(p_.acc_type))));
      row.set_accumulator(part, {v, true});
    }
    emit_body(row, p_.epilogue);
  };
  // Two rows, instruction by instruction: bodies of different rows are independent.
  auto two = [&](Scope& rows, Value* r, Value* offset) {
    rows.make_certain();  // there is a row at least: what it needs of the columns may be loaded
    rows.seek();
    llvm::BasicBlock* at = k_.ir.GetInsertBlock();
    size_t begin = at->size();
    Scope first(rows, false);
    one(first, r, offset);
    size_t middle = at->size();
    Scope second(rows, false);
    one(second, add(r, 1), offset);
    interleave(*at, begin, middle, at->size());
  };
  // The gates of two rows at a time would not stay in registers.
  bool by_two = many_registers && p_.epilogue.instrs.size() >= long_body && p_.parts == 1;
  auto vector = [&](Scope& s, Value* offset, Value* mask) {
    s.seek();
    s.set_axis(n_axis, add(block.n, offset));
    s.set_lanes(n_axis, lanes, mask);
    Value* begin = k_.i64(0);
    if (by_two) {
      begin = k_.ir.CreateAnd(block.rows, -2);
      emit_loop(s, k_.i64(0), begin, k_.i64(2), false,
                [&](Scope& rows, Value* r) { two(rows, r, offset); });
    }
    emit_loop(s, begin, block.rows, k_.i64(1), !by_two,
              [&](Scope& row, Value* r) { one(row, r, offset); });
  };
  scope.seek();
  if (p_.parts == 1 && ends_in_half_a_vector(t_, p_.axes[static_cast<size_t>(n_axis)].extent)) {
    // As the sums were stored: a load of more would wait for that.
    emit_if(scope, k_.ir.getTrue(), [&](Scope& s) { vector(s, k_.i64(0), nullptr); });
    lanes = t_.lanes / 2;
    emit_if(scope, k_.ir.getTrue(), [&](Scope& s) { vector(s, k_.i64(t_.lanes), nullptr); });
  } else if (is_multiple(n_, t_.lanes)) {
    emit_loop(scope, k_.i64(0), block.columns, k_.i64(lanes), true,
              [&](Scope& s, Value* offset) { vector(s, offset, nullptr); });
  } else {
    for_vectors(scope, block.columns, lanes, vector);
  }
}

// Squares of sums are turned over, so that lanes are rows and a column's results are one store.
void ProductEpilogue::emit_rows(Scope& scope, const Block& block) {
  int n_axis = p_.batch_rank + 1;
  scope.seek();
  emit_loop(scope, k_.i64(0), block.rows, k_.i64(t_.lanes), true, [&](Scope& part, Value* row) {
    part.seek();
    Value* first = add(block.m, row);
    if (by_rows_->run) {
      Value* outer = div(first, k_.i64(by_rows_->run));
      part.set_axis(by_rows_->outer, outer);
      first = sub(first, mul(outer, by_rows_->run));
    }
    part.set_axis(by_rows_->rows, first);
    part.set_lanes(by_rows_->rows, t_.lanes, lane_mask(k_, sub(block.rows, row), t_.lanes));
    emit_loop(part, k_.i64(0), block.columns, k_.i64(t_.lanes), true, [&](Scope& s, Value* column) {
      turn_square(s, block, row, column);
      s.seek();
      Value* columns = least(k_.i64(t_.lanes), sub(block.columns, column));
      emit_loop(s, k_.i64(0), columns, k_.i64(1), true, [&](Scope& one, Value* c) {
        one.seek();
        one.set_axis(n_axis, add(add(block.n, column), c));
        llvm::Type* type = k_.lane_type(p_.acc_type, t_.lanes);
        one.set_accumulator(0, {k_.ir.CreateLoad(type, k_.ir.CreateGEP(type, square_, c)), true});
        emit_body(one, by_rows_->body);
      });
    });
  });
}

// square_ = the sums of rows [row, row + lanes) and columns [column, column + lanes), column by
// column. Rows behind the block's last are copies of it.
void ProductEpilogue::turn_square(Scope& scope, const Block& block, Value* row, Value* column) {
  scope.seek();
  llvm::Type* type = k_.lane_type(p_.acc_type, t_.lanes);
  Value* last = sub(block.rows, k_.i64(1));
  std::vector<Value*> rows;
  for (int r = 0; r < t_.lanes; ++r) {
    Value* at = add(mul(least(add(row, r), last), block.stride), column);
    rows.push_back(
        k_.ir.CreateAlignedLoad(type, element(k_, p_.acc_type, block.sums, at),
                                llvm::Align(static_cast<uint64_t>(size_of(p_.acc_type)))));
  }
  rows = transpose(k_, std::move(rows));
  for (int c = 0; c < t_.lanes; ++c)
    k_.ir.CreateStore(rows[static_cast<size_t>(c)],
                      k_.ir.CreateConstGEP1_64(type, square_, static_cast<uint64_t>(c)));
}

}  // namespace hologram::cpu

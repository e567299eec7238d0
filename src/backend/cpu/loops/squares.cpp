// backend/cpu/loops/squares.cpp: loads along the axis before the lanes, read as squares of lanes
// that are turned over.
#include "backend/cpu/loops/squares.h"

#include <llvm/IR/Intrinsics.h>

#include <algorithm>

#include "backend/cpu/operands/pack.h"
#include "codegen/body.h"
#include "codegen/memory.h"
#include "codegen/transpose.h"

namespace hologram::cpu {

Squares::Squares(const LoopFrame& frame)
    : f_(frame), k_(frame.k), ir_(frame.k.ir), body_(frame.block.stages[0].body) {
  const std::vector<atlas::ValueId> transposed =
      transposed_loads(f_.block, k_.program.buffers, least_lines(f_.plan.masked_tails));
  for (std::vector<atlas::ValueId>& ids : neighbours(f_.block, transposed)) {
    const atlas::Instr& load = body_.instrs[ids[0]];
    const atlas::Buffer& b = k_.program.buffers[static_cast<size_t>(load.buffer)];
    const auto count = static_cast<int64_t>(ids.size());
    const int64_t bytes = count * size_of(b.dtype);
    const bool words = count > 1 && (bytes == 2 || bytes == 4);
    llvm::Type* element = k_.memory_type(b.dtype);
    if (words) element = ir_.getIntNTy(static_cast<unsigned>(bytes * 8));
    llvm::Type* row = k_.widen(element, f_.plan.lanes);
    Value* memory = k_.slot(row, "square", f_.plan.lanes * (words ? 1 : count));
    const bool backwards = load.expr.linear_in_axis(f_.rank - 2)->first.is(-1);
    squares_.push_back({std::move(ids), memory, {}, row, words, backwards});
    if (load.args[0] != atlas::no_value) squares_.back().guard = *slice_of(body_, load.args[0]);
  }
}

void Squares::load(Scope& scope, Value* first, Value* j, const Some& some) const {
  for (const Square& q : squares_)
    q.loads.size() > 1 ? load_neighbours(scope, q, first, j, some)
                       : load_one(scope, q, first, j, some);
}

void Squares::preset(Scope& line, Value* r) const {
  for (const Square& q : squares_)
    for (size_t number = 0; number < q.loads.size(); ++number)
      line.preset(&body_, q.loads[number],
                  {from_memory(k_, type_of(q), row_of(q, r, number)), true});
}

bool Squares::fit_registers() const {
  constexpr size_t instructions = 64, of_single = 16;
  constexpr int most_lanes = 16, most_single = 8;
  const int lanes = f_.plan.lanes;
  if (squares_.size() != 1) return false;
  if (squares_[0].loads.size() == 1)
    return !f_.plan.masked_tails && lanes <= most_single && squares_[0].guard.instrs.empty() &&
           body_.instrs.size() <= of_single;
  return lanes <= most_lanes && lanes % squares_[0].count() == 0 &&
         body_.instrs.size() <= instructions;
}

void Squares::lines_in_registers(Scope& scope, Value* first, Value* j) const {
  const Square& q = squares_[0];
  const int lanes = f_.plan.lanes, count = q.count(), lines = lanes / count;
  for (int n = 0; n < count; ++n) {
    const std::vector<Value*> rows = turned(scope, q, first, j, n);
    for (int r = 0; r < lines; ++r) {
      scope.seek();
      Scope line(scope, false);
      line.set_axis(f_.rank - 2, ir_.CreateAdd(first, k_.i64(n * lines + r)));
      line.set_axis(f_.rank - 1, j);
      line.set_lanes(f_.rank - 1, lanes);
      for (size_t number = 0; number < q.loads.size(); ++number) {
        const size_t row = static_cast<size_t>(r * count) + (q.words ? 0 : number);
        Value* x = q.words ? part_of_words(q, rows[row], number) : rows[row];
        line.preset(&body_, q.loads[number], {from_memory(k_, type_of(q), x), true});
      }
      emit_body(line, body_);
      line.seek();
      scope.move_to(ir_.GetInsertBlock());
    }
  }
}

Value* Squares::column(Scope& scope, const Square& q, Value* first, Value* j, int c) const {
  scope.seek();
  Scope at(scope, false);
  at.set_axis(f_.rank - 1, c ? ir_.CreateAdd(j, k_.i64(c)) : j);
  if (q.backwards) first = ir_.CreateAdd(first, k_.i64(f_.plan.lanes - 1));
  at.set_axis(f_.rank - 2, first);
  const atlas::Instr& load = load_of(q);
  Value* p = element(k_, type_of(q), k_.buffer(load.buffer), emit_expr(at, load.expr).v);
  at.seek();
  scope.move_to(ir_.GetInsertBlock());
  return p;
}

// Square number n of neighbours. Where vectors fill their registers, the first exchange, of halves,
// is done by the loads.
std::vector<Value*> Squares::turned(Scope& scope, const Square& q, Value* first, Value* j,
                                    int n) const {
  const int lanes = f_.plan.lanes;
  const llvm::Align align(static_cast<uint64_t>(size_of(type_of(q))));
  std::vector<Value*> from;
  for (int c = 0; c < lanes; ++c) {
    Value* p = column(scope, q, first, j, c);
    from.push_back(element(k_, type_of(q), p, k_.i64(int64_t{n} * lanes)));
    if (q.loads.size() > 1)
      fetch_ahead(from.back());
    else
      fetch_column(scope, q, first, j, c);
  }
  scope.seek();
  std::vector<Value*> rows(from.size());
  const uint64_t bits = q.row->getPrimitiveSizeInBits();
  if (bits <= 128 || bits < static_cast<uint64_t>(8 * k_.target.vector_bytes)) {
    for (size_t c = 0; c < from.size(); ++c) rows[c] = ir_.CreateAlignedLoad(q.row, from[c], align);
    rows = transpose(k_, std::move(rows));
    if (q.backwards) std::ranges::reverse(rows);
    return rows;
  }
  llvm::Type* half = k_.widen(llvm::cast<llvm::VectorType>(q.row)->getElementType(), lanes / 2);
  std::vector<int> both;
  for (int l = 0; l < lanes; ++l) both.push_back(l);
  const size_t below = from.size() / 2;
  for (size_t c = 0; c < below; ++c)
    for (size_t part : {size_t{0}, size_t{1}}) {
      auto load_half = [&](Value* p) {
        return ir_.CreateAlignedLoad(half, ir_.CreateConstGEP1_64(half, p, part), align);
      };
      rows[c + part * below] =
          ir_.CreateShuffleVector(load_half(from[c]), load_half(from[c + below]), both);
    }
  rows = transpose(k_, std::move(rows), lanes / 4);
  if (q.backwards) std::ranges::reverse(rows);
  return rows;
}

// Columns are more streams than the processor follows by itself.
void Squares::fetch_ahead(Value* p) const {
  constexpr int64_t ahead = 256;  // bytes: two or four squares
  fetch(ir_.CreateGEP(ir_.getInt8Ty(), p, k_.i64(ahead)));
}

void Squares::fetch(Value* p) const {
  ir_.CreateIntrinsic(llvm::Intrinsic::prefetch, {ir_.getPtrTy()},
                      {p, ir_.getInt32(0), ir_.getInt32(3), ir_.getInt32(1)});
}

// Element number `number` of each word of a row.
Value* Squares::part_of_words(const Square& q, Value* row, size_t number) const {
  const auto bits = static_cast<uint64_t>(size_of(type_of(q))) * 8;
  Value* x = ir_.CreateTrunc(ir_.CreateLShr(row, bits * number),
                             q.row->getWithNewType(ir_.getIntNTy(static_cast<unsigned>(bits))));
  return ir_.CreateBitCast(x, k_.widen(k_.memory_type(type_of(q)), f_.plan.lanes));
}

// What load number `number` of a square reads for line r.
Value* Squares::row_of(const Square& q, Value* r, size_t number) const {
  const auto count = static_cast<int64_t>(q.loads.size()), n = static_cast<int64_t>(number);
  if (count > 1 && !q.words) r = ir_.CreateAdd(ir_.CreateMul(r, k_.i64(count)), k_.i64(n));
  Value* x = ir_.CreateLoad(q.row, ir_.CreateGEP(q.row, q.memory, r));
  return q.words ? part_of_words(q, x, number) : x;
}

// Of several loads of neighbours: squares of words that hold all of them, or one square after the
// other along them.
void Squares::load_neighbours(Scope& scope, const Square& to, Value* first, Value* j,
                              const Some& some) const {
  const int lanes = f_.plan.lanes;
  const auto count = static_cast<size_t>(to.count());
  const llvm::Align align(static_cast<uint64_t>(size_of(type_of(to))));
  std::vector<std::vector<Value*>> rows(count);
  for (int c = 0; c < some.columns; ++c) {
    Value* from = column(scope, to, first, j, c);
    scope.seek();
    for (size_t n = 0; n < count; ++n) {
      Value* p = element(k_, type_of(to), from, k_.i64(static_cast<int64_t>(n) * lanes));
      Value* mask = some.lines;
      if (mask && count > 1)
        mask =
            lane_mask(k_,
                      ir_.CreateSub(ir_.CreateMul(some.count, k_.i64(static_cast<int64_t>(count))),
                                    k_.i64(static_cast<int64_t>(n) * lanes)),
                      lanes);
      rows[n].push_back(mask ? static_cast<Value*>(ir_.CreateMaskedLoad(to.row, p, align, mask))
                             : ir_.CreateAlignedLoad(to.row, p, align));
      fetch_ahead(p);
    }
  }
  scope.seek();
  for (size_t n = 0; n < count; ++n) {
    rows[n].resize(static_cast<size_t>(lanes), llvm::PoisonValue::get(to.row));
    rows[n] = transpose(k_, std::move(rows[n]));
    for (int r = 0; r < lanes; ++r)
      ir_.CreateStore(
          rows[n][static_cast<size_t>(r)],
          ir_.CreateConstGEP1_64(to.row, to.memory,
                                 n * static_cast<size_t>(lanes) + static_cast<size_t>(r)));
  }
}

// Columns of a load without neighbours are as many streams as a tile has lines, and each goes on
// elsewhere in memory: those of a later tile are fetched.
void Squares::fetch_column(Scope& scope, const Square& q, Value* first, Value* j, int c) const {
  constexpr int tiles_ahead = 2;
  fetch(column(scope, q, first, j, c + tiles_ahead * f_.plan.lanes * f_.plan.squares));
}

void Squares::load_one(Scope& scope, const Square& to, Value* first, Value* j,
                       const Some& some) const {
  std::vector<Value*> rows;
  // A whole square that goes backwards is read forwards, and its lines are taken in turn.
  const bool mirrored = to.backwards && !some.lines && to.guard.instrs.empty();
  const llvm::Align align(static_cast<uint64_t>(size_of(type_of(to))));
  for (int c = 0; c < some.columns; ++c) {
    if (mirrored) {
      Value* from = column(scope, to, first, j, c);
      scope.seek();
      rows.push_back(ir_.CreateAlignedLoad(to.row, from, align));
      if (!f_.plan.masked_tails) fetch_column(scope, to, first, j, c);
      continue;
    }
    scope.seek();
    Scope column(scope, false);
    column.set_axis(f_.rank - 1, c ? ir_.CreateAdd(j, k_.i64(c)) : j);
    column.set_axis(f_.rank - 2, first);
    column.set_lanes(f_.rank - 2, f_.plan.lanes, some.lines);
    LaneValue guard;
    if (!to.guard.instrs.empty()) guard = emit_body(column, to.guard).back();
    LaneValue x = emit_load(column, load_of(to), guard, {});
    rows.push_back(to_memory(k_, type_of(to), x.v));
    column.seek();
    scope.move_to(ir_.GetInsertBlock());
    if (!f_.plan.masked_tails) fetch_column(scope, to, first, j, c);
  }
  rows.resize(static_cast<size_t>(f_.plan.lanes), llvm::PoisonValue::get(to.row));
  rows = transpose(k_, std::move(rows));
  if (mirrored) std::ranges::reverse(rows);
  for (int r = 0; r < f_.plan.lanes; ++r)
    ir_.CreateStore(rows[static_cast<size_t>(r)],
                    ir_.CreateConstGEP1_64(to.row, to.memory, static_cast<uint64_t>(r)));
}

}  // namespace hologram::cpu

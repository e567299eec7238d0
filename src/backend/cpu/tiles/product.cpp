// backend/cpu/tiles/product.cpp: products on AMX tiles: units, blocks of k, epilogue.
#include "backend/cpu/tiles/product.h"

#include <algorithm>

#include "atlas/tile_math.h"
#include "backend/cpu/operands/index_builder.h"
#include "backend/cpu/products/epilogue.h"
#include "backend/cpu/products/micro.h"
#include "backend/cpu/tiles/kernel.h"
#include "backend/cpu/tiles/repair.h"
#include "backend/cpu/tiles/rows.h"
#include "codegen/nest.h"

namespace hologram::cpu {
namespace {

constexpr int64_t group_rows = 32, sums_of_group = group_rows * 32;

class TileProductEmitter : IndexBuilder {
 public:
  TileProductEmitter(CpuFunction& kernel, const TileProduct& plan)
      : IndexBuilder(kernel), p_(kernel.program.product()), plan_(plan), t_(plan.tile) {}

  void run() {
    prepare();
    emit_tile_config(k_, config_, rows_of_tiles(plan_.rows));
    emit_loop(k_.root(), k_.begin, k_.end, k_.i64(1), true,
              [&](Scope& scope, Value* unit) { emit_unit(scope, unit); });
    k_.root().seek();
    emit_tile_release(k_);
    k_.finish();
  }

 private:
  bool repairs() const { return p_.operand_type == DType::f32; }
  Value* bytes_from(Value* p, Value* offset) {
    return k_.ir.CreateInBoundsGEP(k_.ir.getInt8Ty(), p, offset);
  }

  // Sizes, scratch memory and the values that hold for all units.
  void prepare() {
    m_ = number(plan_.m);
    n_ = number(plan_.n);
    steps_ = number(plan_.steps);
    panels_ = number(plan_.panels);
    groups_ = number(plan_.groups);
    m_units_ = number(plan_.m_units);
    n_units_ = number(plan_.n_units);
    k_.root().seek();
    llvm::Type* word = k_.ir.getInt32Ty();
    config_ = k_.slot(k_.ir.getInt64Ty(), "tile_config", 8);
    tile_ = k_.slot(word, "tile", sums_of_group);
    epilogue_.emplace(k_, t_, number(plan_.part));
    if (!plan_.terms) prepare_tail();
    if (repairs()) {
      row_classes_ = k_.slot(word, "row_classes", plan_.block_groups * group_rows);
      repair_.emplace(k_, plan_, n_);
    }
    k_.root().seek();
    Value *lhs_bytes = k_.i64(0), *size = k_.i64(0);
    if (plan_.lhs) {
      lhs_row_ = number(plan_.lhs->x_stride);
      k_.root().seek();
    } else {
      rows_.emplace(k_, plan_, steps_);
      k_.root().seek();
      lhs_bytes = size = mul(rows_->group_bytes(), plan_.block_groups);
      packed_block_ = k_.slot(k_.ir.getInt64Ty(), "packed_block");
      k_.ir.CreateStore(k_.i64(-1), packed_block_);
    }
    if (plan_.blocked())
      size = add(size, plan_.block_groups * plan_.block_panels * sums_of_group * 4);
    Value* rest = size;
    if (rows_) size = add(size, rows_->memory_bytes());
    lhs_scratch_ = size == k_.i64(0) ? tile_ : emit_scratch(k_.root(), size);
    k_.root().seek();
    if (rows_) rows_->use_memory(bytes_from(lhs_scratch_, rest));
    k_.root().seek();
    if (plan_.blocked()) sums_ = bytes_from(lhs_scratch_, lhs_bytes);
  }

  void emit_unit(Scope& scope, Value* unit) {
    scope.seek();
    // Column blocks vary fastest, so that consecutive units share their rows.
    Value* rows_unit = div(unit, n_units_);
    Value* column_unit = sub(unit, mul(rows_unit, n_units_));
    Value* batch = div(rows_unit, m_units_);
    Value* row_unit = sub(rows_unit, mul(batch, m_units_));
    set_batch_axes(scope, p_.axes, p_.batch_rank, batch);
    group_begin_ = div(mul(row_unit, groups_), m_units_);
    group_count_ = sub(div(mul(add(row_unit, k_.i64(1)), groups_), m_units_), group_begin_);
    row_begin_ = mul(group_begin_, plan_.group_rows());
    rows_in_unit_ = least(sub(m_, row_begin_), mul(group_count_, plan_.group_rows()));
    auto panel_of = [&](Value* number) {
      if (plan_.parts == 1) return div(mul(number, panels_), n_units_);
      Value* blocks = div(panels_, k_.i64(plan_.parts));
      return mul(div(mul(number, blocks), n_units_), plan_.parts);
    };
    panel_begin_ = panel_of(column_unit);
    panel_end_ = panel_of(add(column_unit, k_.i64(1)));
    batch_panels_ = mul(batch, panels_);
    prepare_rows(scope, rows_unit);
    scope.seek();
    if (!plan_.blocked()) {
      block_begin_ = k_.i64(0);
      block_count_ = steps_;
      emit_panels(scope, k_.ir.getTrue(), k_.ir.getTrue());
      return;
    }
    Value* end = k_.ir.CreateSelect(k_.ir.CreateICmpSGT(steps_, k_.i64(0)), steps_, k_.i64(1));
    emit_loop(scope, k_.i64(0), end, k_.i64(block_steps), true, [&](Scope& s, Value* begin) {
      s.seek();
      block_begin_ = begin;
      block_count_ = least(sub(steps_, begin), k_.i64(block_steps));
      Value* first = k_.ir.CreateICmpEQ(begin, k_.i64(0));
      Value* last = k_.ir.CreateICmpSGE(add(begin, block_steps), steps_);
      emit_panels(s, first, last);
    });
  }

  // The unit's rows, copied unless they are read in place or the last unit had them too.
  void prepare_rows(Scope& scope, Value* block) {
    if (plan_.lhs) {
      Value* base = emit_expr(scope, plan_.lhs->base).v;
      scope.seek();
      lhs_ = element(k_, p_.operand_type, k_.buffer(plan_.lhs->buffer),
                     add(base, mul(lhs_row_, row_begin_)));
      return;
    }
    lhs_ = lhs_scratch_;
    scope.seek();
    Value* have = k_.ir.CreateLoad(k_.ir.getInt64Ty(), packed_block_);
    emit_if(scope, k_.ir.CreateICmpNE(have, block), [&](Scope& s) {
      s.seek();
      k_.ir.CreateStore(block, packed_block_);
      rows_->pack(s, row_begin_, rows_in_unit_, lhs_, row_classes_);
    });
  }

  // The current block of k of all panels; `first` and `last`: which block it is.
  void emit_panels(Scope& scope, Value* first, Value* last) {
    emit_loop(scope, panel_begin_, panel_end_, k_.i64(1), true, [&](Scope& s, Value* panel) {
      s.seek();
      Value* slot = sub(panel, panel_begin_);
      Value* at = mul(add(batch_panels_, panel), panel_bytes());
      Value* memory = bytes_from(k_.buffer(p_.packed_rhs), at);
      Value* block = bytes_from(memory, mul(block_begin_, step_bytes()));
      if (repairs()) repair_->scan(s, slot, block, block_count_, first);
      if (!plan_.terms) copy_tail(s, memory, last);
      s.seek();
      emit_loop(s, k_.i64(0), group_count_, k_.i64(1), true, [&](Scope& inner, Value* group) {
        emit_group(inner, group, panel, slot, block, first, last);
      });
    });
  }

  int64_t step_bytes() const { return plan_.planes() * plane_bytes; }
  // Bytes of a panel: whole steps of terms, but only the groups of four that there are.
  Value* panel_bytes() {
    if (plan_.terms) return mul(steps_, step_bytes());
    return mul(fours_, int64_t{t_.panel} * 4);
  }

  void emit_group(Scope& scope, Value* group, Value* panel, Value* slot, Value* block, Value* first,
                  Value* last) {
    scope.seek();
    Value* row = mul(group, plan_.group_rows());
    Value* count = least(sub(rows_in_unit_, row), k_.i64(plan_.group_rows()));
    Value* out = tile_;
    if (plan_.blocked()) {
      Value* number = mul(add(mul(slot, group_count_), group), sums_of_group);
      out = element(k_, p_.acc_type, sums_, number);
    }
    Value* to = plan_.blocked() ? k_.ir.CreateSelect(first, out, tile_) : out;
    call_kernel(scope, group, count, block, to, last);
    emit_if(scope, k_.ir.CreateNot(first), [&](Scope& s) { add_tile(s, out); });
    emit_if(scope, last, [&](Scope& s) {
      s.seek();
      Value* m = add(row_begin_, row);
      if (repairs())
        repair_->repair(s, slot, panel, m, count, element(k_, DType::i32, row_classes_, row), out);
      if (plan_.parts == 1) return epilogue_->emit(s, out, m, count, panel, k_.i64(1));
      // The sums of all parts are there with those of the last one.
      s.seek();
      Value* parts = k_.i64(plan_.parts);
      Value* whole = k_.ir.CreateICmpEQ(k_.ir.CreateURem(panel, parts), sub(parts, k_.i64(1)));
      emit_if(s, whole, [&](Scope& all) {
        all.seek();
        Value* between = mul(group_count_, sums_of_group);
        Value* begin = mul(between, int64_t{1} - plan_.parts);
        epilogue_->emit_parts(all, element(k_, p_.acc_type, out, begin), k_.i64(t_.panel), between,
                              m, count, div(panel, parts));
      });
    });
  }

  // to = one group of rows times one panel, over the current block of k.
  void call_kernel(Scope& scope, Value* group, Value* count, Value* block, Value* to, Value* last) {
    scope.seek();
    Value* stride = k_.i64(64);
    Value* a = nullptr;
    if (plan_.lhs) {
      stride = mul(lhs_row_, size_of(p_.operand_type));
      a = bytes_from(lhs_, add(mul(stride, mul(group, plan_.group_rows())), mul(block_begin_, 64)));
    } else {
      a = bytes_from(lhs_, add(mul(group, rows_->group_bytes()), mul(block_begin_, step_bytes())));
    }
    // The first groups fetch the panel behind this one.
    int64_t share = kernel_of(1, stride).lines_ahead() * 64 * block_steps;
    Value* ahead = k_.ir.CreateGEP(
        k_.ir.getInt8Ty(), block, add(panel_bytes(), mul(group, share)));  // perhaps behind the end
    Value *steps = block_count_, *tail = llvm::Constant::getNullValue(k_.ir.getPtrTy());
    if (!plan_.terms) {
      Value* has_tail = k_.ir.CreateAnd(last, k_.ir.CreateICmpNE(tail_fours_, k_.i64(0)));
      tail = k_.ir.CreateSelect(has_tail, tail_, tail);
      steps = sub(steps, k_.ir.CreateZExt(has_tail, k_.ir.getInt64Ty()));
    }
    std::map<int64_t, llvm::Function*> kernels;
    for (int tiles : {1, 2})
      if (may_have(tiles)) kernels[tiles] = kernel(tiles, stride);
    Value* tiles =
        k_.ir.CreateSelect(k_.ir.CreateICmpSGT(count, k_.i64(plan_.rows)), k_.i64(2), k_.i64(1));
    call_one(scope, tiles, kernels, {a, stride, block, steps, to, ahead, tail});
  }

  bool may_have(int tiles) const {
    if (!plan_.m.is_const()) return true;
    int64_t m = plan_.m.constant_value(), rest = (m - 1) % plan_.group_rows() + 1;
    return tiles == 1 ? rest <= plan_.rows : m > plan_.rows;
  }

  TileKernel kernel_of(int tiles, Value* stride) const {
    return {.terms = plan_.terms,
            .signed_lhs = p_.operand_type == DType::i8,
            .signed_rhs = p_.rhs_type() == DType::i8,
            .tiles = tiles,
            .a_step = plan_.lhs ? 64 : step_bytes(),
            .a_term = plane_bytes,
            .row = fixed(stride),
            .rows = plan_.rows,
            .prefetch = plan_.prefetch,
            .tail = !plan_.terms};
  }
  llvm::Function* kernel(int tiles, Value* stride) {
    llvm::Function*& f = kernels_[tiles];
    if (!f) f = kernel_of(tiles, stride).emit(k_);
    return f;
  }

  // out += tile_.
  void add_tile(Scope& scope, Value* out) {
    Value* sums = k_.i64(plan_.group_rows() * t_.panel);
    emit_loop(scope, k_.i64(0), sums, k_.i64(t_.lanes), true, [&](Scope& s, Value* i) {
      s.seek();
      llvm::Type* vector = k_.lane_type(p_.acc_type, t_.lanes);
      Value* p = element(k_, p_.acc_type, out, i);
      Value* x = k_.ir.CreateAlignedLoad(vector, p, llvm::Align(64));
      Value* y =
          k_.ir.CreateAlignedLoad(vector, element(k_, p_.acc_type, tile_, i), llvm::Align(64));
      Value* sum = is_float(p_.acc_type) ? k_.ir.CreateFAdd(x, y) : k_.ir.CreateAdd(x, y);
      k_.ir.CreateAlignedStore(sum, p, llvm::Align(64));
    });
  }

  // Bytes: panels end with the last group of k; what is missing to a whole step is 0 in a copy.
  void prepare_tail() {
    fours_ = number(ceil_div(plan_.k, 4));
    k_.root().seek();
    tail_fours_ = k_.ir.CreateAnd(fours_, k_.i64(15));
    tail_ = k_.slot(k_.ir.getInt8Ty(), "tail", plane_bytes);
    emit_loop(k_.root(), k_.i64(0), k_.i64(plane_bytes), k_.i64(64), true, [&](Scope& s, Value* i) {
      s.seek();
      auto* line = k_.widen(k_.ir.getInt8Ty(), 64);
      k_.ir.CreateAlignedStore(llvm::Constant::getNullValue(line), bytes_from(tail_, i),
                               llvm::Align(64));
    });
  }

  void copy_tail(Scope& scope, Value* panel, Value* last) {
    emit_if(scope, last, [&](Scope& s) {
      s.seek();
      Value* whole = k_.ir.CreateLShr(fours_, 4);
      Value* from = bytes_from(panel, mul(whole, plane_bytes));
      emit_loop(s, k_.i64(0), mul(tail_fours_, 128), k_.i64(64), false,
                [&](Scope& inner, Value* i) {
                  inner.seek();
                  auto* line = k_.widen(k_.ir.getInt8Ty(), 64);
                  Value* x = k_.ir.CreateAlignedLoad(line, bytes_from(from, i), llvm::Align(1));
                  k_.ir.CreateAlignedStore(x, bytes_from(tail_, i), llvm::Align(64));
                });
    });
  }

  const atlas::ProductBlock& p_;
  const TileProduct& plan_;
  TileModel t_;
  Value *m_ = nullptr, *n_ = nullptr, *steps_ = nullptr, *panels_ = nullptr, *groups_ = nullptr,
        *m_units_ = nullptr, *n_units_ = nullptr, *lhs_row_ = nullptr;
  Value *config_ = nullptr, *tile_ = nullptr, *lhs_scratch_ = nullptr, *sums_ = nullptr,
        *packed_block_ = nullptr, *row_classes_ = nullptr, *tail_ = nullptr, *fours_ = nullptr,
        *tail_fours_ = nullptr;
  // Of the current unit, and of the current block of k.
  Value *group_begin_ = nullptr, *group_count_ = nullptr, *row_begin_ = nullptr,
        *rows_in_unit_ = nullptr, *panel_begin_ = nullptr, *panel_end_ = nullptr,
        *batch_panels_ = nullptr, *lhs_ = nullptr;
  Value *block_begin_ = nullptr, *block_count_ = nullptr;
  std::optional<TileRows> rows_;
  std::optional<TileRepair> repair_;
  std::optional<ProductEpilogue> epilogue_;
  std::map<int, llvm::Function*> kernels_;  // by tiles of rows
};

}  // namespace

void emit(CpuFunction& k, const TileProduct& plan) { TileProductEmitter(k, plan).run(); }

}  // namespace hologram::cpu

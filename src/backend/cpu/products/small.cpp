// backend/cpu/products/small.cpp: products that run straight from where their operands lie.
//
// A unit is a batch point. Register tiles of rows x vectors walk the whole depth, their left
// operand broadcast from memory, and the epilogue runs on the accumulators where they are: there
// are no copies, no calls and no buffer of sums.
//
// Known sizes, at most 2^19 multiply-adds per batch point, k up to 384, n up to 128. Vectors are no
// wider than the columns need; tiles have up to 4 vectors x 6 rows or 1 x 24, half of that with 16
// registers. A right operand with k contiguous is turned over on the stack once per unit.
#include "backend/cpu/products/small.h"

#include <algorithm>

#include "backend/cpu/operands/index_builder.h"
#include "backend/cpu/operands/pack.h"
#include "codegen/nest.h"

namespace hologram::cpu {
namespace {

class SmallEmitter : IndexBuilder {
 public:
  SmallEmitter(CpuFunction& kernel, const SmallProduct& plan)
      : IndexBuilder(kernel),
        p_(kernel.program.product()),
        plan_(plan),
        type_(p_.acc_type),
        m_axis_(p_.batch_rank),
        n_axis_(m_axis_ + 1),
        vector_(k_.lane_type(type_, plan.lanes)),
        align_(static_cast<uint64_t>(size_of(type_))),
        vectors_(static_cast<int>((plan.n + plan.lanes - 1) / plan.lanes)) {}

  void run() {
    if (plan_.transposed) {
      turned_ = k_.slot(k_.memory_type(type_), "turned", plan_.k * turned_stride());
      square_ = k_.slot(k_.memory_type(type_), "square", int64_t{plan_.lanes} * plan_.lanes);
    }
    if (!short_epilogue())
      sums_ =
          k_.slot(k_.memory_type(type_), "sums", int64_t{plan_.rows} * plan_.span * plan_.lanes);
    emit_loop(k_.root(), k_.begin, k_.end, k_.i64(1), true,
              [&](Scope& scope, Value* unit) { emit_unit(scope, unit); });
    k_.root().seek();
    k_.finish();
  }

 private:
  using Tile = std::vector<Value*>;  // rows x span

  Value* at(Value* base, Value* index) { return element(k_, type_, base, index); }
  Value* at(Value* base, int64_t index) { return at(base, k_.i64(index)); }
  int64_t turned_stride() const { return int64_t{vectors_} * plan_.lanes; }
  // A copy of the epilogue for each accumulator of a tile, or a loop over them.
  bool short_epilogue() const { return p_.epilogue.instrs.size() <= 16; }

  void emit_unit(Scope& scope, Value* unit) {
    scope.seek();
    set_batch_axes(scope, p_.axes, p_.batch_rank, unit);
    Value* lhs_base = emit_expr(scope, plan_.lhs.base).v;
    scope.seek();
    lhs_ = at(k_.buffer(plan_.lhs.buffer), lhs_base);
    prepare_rhs(scope, unit);
    // All tiles of one group of columns, then the next group; the last one may be narrower.
    int whole = vectors_ / plan_.span, rest_span = vectors_ % plan_.span;
    bool masked = plan_.n % plan_.lanes != 0 && rest_span == 0;
    int uniform = whole - masked;
    auto group = [&](Scope& s, Value* first, int span) {
      s.seek();
      rows_of_group(s, mul(first, plan_.lanes), first, span);
    };
    emit_loop(scope, k_.i64(0), k_.i64(int64_t{uniform} * plan_.span), k_.i64(plan_.span), true,
              [&](Scope& s, Value* first) {
                last_vector_is_partial_ = false, group(s, first, plan_.span);
              });
    last_vector_is_partial_ = plan_.n % plan_.lanes != 0;
    if (masked || rest_span) {
      Scope inner(scope, false);
      group(inner, k_.i64(int64_t{uniform} * plan_.span), rest_span ? rest_span : plan_.span);
      inner.seek();
      scope.move_to(k_.ir.GetInsertBlock());
    }
  }

  void prepare_rhs(Scope& scope, Value* unit) {
    if (!plan_.rhs) {
      int64_t panels = (plan_.n + p_.panel_width - 1) / p_.panel_width;
      rhs_ = at(k_.buffer(p_.packed_rhs), mul(unit, panels * plan_.k * p_.panel_width));
      rhs_k_ = p_.panel_width;
      return;
    }
    if (plan_.transposed) {
      Operand operand{p_.rhs, p_.operand_type, type_, plan_.lanes};
      operand.transpose(scope, {n_axis_, k_.i64(0), k_.i64(plan_.n)},
                        {n_axis_ + 1, k_.i64(0), k_.i64(plan_.k)}, square_, turned_,
                        turned_stride());
      rhs_ = turned_;
      rhs_k_ = turned_stride();
      return;
    }
    Value* base = emit_expr(scope, plan_.rhs->base).v;
    scope.seek();
    rhs_ = at(k_.buffer(plan_.rhs->buffer), base);
    rhs_k_ = plan_.rhs->y_stride.constant_value();
  }

  // Column `vector` (a number of whole vectors) of the right operand at k = 0.
  Value* column(Value* vector, int c) {
    Value* number = c ? add(vector, c) : vector;
    if (plan_.rhs) return at(rhs_, mul(number, plan_.lanes));
    int64_t per_panel = p_.panel_width / plan_.lanes;
    Value* panel = k_.ir.CreateUDiv(number, k_.i64(per_panel));
    Value* inside = k_.ir.CreateURem(number, k_.i64(per_panel));
    return at(rhs_, add(mul(panel, plan_.k * p_.panel_width), mul(inside, plan_.lanes)));
  }

  // Rows are split evenly: some tiles of `high` rows, then some of one less.
  void rows_of_group(Scope& scope, Value* n, Value* first, int span) {
    int64_t most = std::max(1, plan_.rows * plan_.span / span);
    int64_t tiles = (plan_.m + most - 1) / most, low = plan_.m / tiles;
    int64_t higher = plan_.m - tiles * low, split = higher * (low + 1);
    scope.seek();
    std::vector<Value*> columns;
    for (int c = 0; c < span; ++c) columns.push_back(column(first, c));
    auto tiles_of = [&](int64_t begin, int64_t end, int64_t height) {
      emit_loop(scope, k_.i64(begin), k_.i64(end), k_.i64(height), true,
                [&](Scope& s, Value* m) { emit_tile(s, m, n, static_cast<int>(height), columns); });
    };
    tiles_of(0, split, low + 1);
    tiles_of(split, plan_.m, low);
  }

  Value* mask_of(int c, int span) {
    if (!last_vector_is_partial_ || c + 1 < span) return nullptr;
    return lane_mask(k_, k_.i64(plan_.n % plan_.lanes), plan_.lanes);
  }

  // One step of k for a tile: `a` at the tile's first row, `b` the vectors' addresses.
  void step(Value* a, const Tile& b, int64_t k, int rows, Tile& tile) {
    auto span = static_cast<int>(b.size());
    Tile right;
    for (int c = 0; c < span; ++c) {
      Value* p = at(b[static_cast<size_t>(c)], k * rhs_k_);
      // Panels and what was turned over have room for whole vectors.
      Value* mask = plan_.rhs && !plan_.transposed ? mask_of(c, span) : nullptr;
      right.push_back(mask ? static_cast<Value*>(k_.ir.CreateMaskedLoad(
                                 vector_, p, align_, mask, llvm::Constant::getNullValue(vector_)))
                           : k_.ir.CreateAlignedLoad(vector_, p, align_));
    }
    int64_t row = plan_.lhs.x_stride.constant_value(), deep = plan_.lhs.y_stride.constant_value();
    for (int r = 0; r < rows; ++r) {
      Value* x = k_.ir.CreateAlignedLoad(k_.type_of(type_), at(a, r * row + k * deep), align_);
      x = k_.ir.CreateVectorSplat(static_cast<unsigned>(plan_.lanes), x);
      for (int c = 0; c < span; ++c) {
        Value*& sum = tile[static_cast<size_t>(r * span + c)];
        sum = multiply_add(k_, type_, x, right[static_cast<size_t>(c)], sum);
      }
    }
  }

  void emit_tile(Scope& scope, Value* m, Value* n, int rows, const std::vector<Value*>& columns) {
    scope.seek();
    auto span = static_cast<int>(columns.size());
    int64_t deep = plan_.lhs.y_stride.constant_value();
    Value* a = at(lhs_, mul(m, plan_.lhs.x_stride.constant_value()));
    Tile tile(static_cast<size_t>(rows * span), llvm::Constant::getNullValue(vector_));
    constexpr int64_t unroll = 4;
    int64_t looped = plan_.k <= 2 * unroll ? 0 : plan_.k / unroll * unroll;
    tile = emit_loop(scope, k_.i64(0), k_.i64(looped), k_.i64(unroll), true, tile,
                     [&](Scope& s, Value* k, std::vector<Value*> sums) {
                       s.seek();
                       Value* pa = at(a, mul(k, deep));
                       Tile pb;
                       for (Value* column : columns) pb.push_back(at(column, mul(k, rhs_k_)));
                       for (int64_t u = 0; u < unroll; ++u) step(pa, pb, u, rows, sums);
                       return sums;
                     });
    scope.seek();
    for (int64_t k = looped; k < plan_.k; ++k) step(a, columns, k, rows, tile);
    if (short_epilogue())
      epilogue_in_place(scope, m, n, rows, span, tile);
    else
      epilogue_in_loops(scope, m, n, rows, span, tile);
  }

  void set_columns(Scope& scope, Value* n, int c, int span) {
    scope.set_axis(n_axis_, add(n, int64_t{c} * plan_.lanes));
    scope.set_lanes(n_axis_, plan_.lanes, mask_of(c, span));
  }

  void epilogue_in_place(Scope& scope, Value* m, Value* n, int rows, int span, const Tile& tile) {
    for (int c = 0; c < span; ++c) {
      scope.seek();
      Scope column(scope, false);
      set_columns(column, n, c, span);
      for (int r = 0; r < rows; ++r) {
        column.seek();
        Scope row(column, false);
        row.set_axis(m_axis_, add(m, r));
        row.set_accumulator(0, {tile[static_cast<size_t>(r * span + c)], true});
        emit_body(row, p_.epilogue);
      }
    }
    scope.seek();
  }

  void epilogue_in_loops(Scope& scope, Value* m, Value* n, int rows, int span, const Tile& tile) {
    scope.seek();
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < span; ++c)
        k_.ir.CreateAlignedStore(tile[static_cast<size_t>(r * span + c)],
                                 at(sums_, (int64_t{r} * span + c) * plan_.lanes), align_);
    for (int c = 0; c < span; ++c) {
      scope.seek();
      Scope column(scope, false);
      set_columns(column, n, c, span);
      emit_loop(column, k_.i64(0), k_.i64(rows), k_.i64(1), true, [&](Scope& row, Value* r) {
        row.seek();
        row.set_axis(m_axis_, add(m, r));
        Value* p =
            at(sums_, add(mul(r, int64_t{span} * plan_.lanes), k_.i64(int64_t{c} * plan_.lanes)));
        row.set_accumulator(0, {k_.ir.CreateAlignedLoad(vector_, p, align_), true});
        emit_body(row, p_.epilogue);
      });
      column.seek();
      scope.move_to(k_.ir.GetInsertBlock());
    }
  }

  const atlas::ProductBlock& p_;
  const SmallProduct& plan_;
  DType type_;
  int m_axis_, n_axis_;
  llvm::Type* vector_;
  llvm::Align align_;
  int vectors_;  // of a row of the result
  Value *turned_ = nullptr, *square_ = nullptr, *sums_ = nullptr;
  // Of the current unit.
  Value *lhs_ = nullptr, *rhs_ = nullptr;
  int64_t rhs_k_ = 0;
  bool last_vector_is_partial_ = false;  // in the current group of columns
};

}  // namespace

void emit(CpuFunction& k, const SmallProduct& plan) { SmallEmitter(k, plan).run(); }

}  // namespace hologram::cpu

// backend/cpu/products/emit.cpp: the units of a product: operand blocks, register tiles, epilogue.
#include "backend/cpu/products/emit.h"

#include <llvm/IR/Intrinsics.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "backend/cpu/loops/tail.h"
#include "backend/cpu/operands/index_builder.h"
#include "backend/cpu/operands/pack.h"
#include "backend/cpu/operands/runs.h"
#include "backend/cpu/products/epilogue.h"
#include "backend/cpu/products/groups.h"
#include "backend/cpu/products/micro.h"
#include "base/error.h"
#include "codegen/nest.h"

namespace hologram::cpu {

namespace {

class ProductEmitter : IndexBuilder {
 public:
  ProductEmitter(CpuFunction& kernel, const ProductPlan& plan)
      : IndexBuilder(kernel),
        p_(kernel.program.product()),
        plan_(plan),
        t_(plan_.tile),
        type_(p_.acc_type),
        m_axis_(p_.batch_rank),
        n_axis_(m_axis_ + 1),
        k_axis_(m_axis_ + 2),
        heights_(plan_.heights()) {}

  void run() {
    if (heights_.empty()) return k_.finish();
    prepare();
    emit_loop(k_.root(), k_.begin, k_.end, k_.i64(1), true,
              [&](Scope& scope, Value* unit) { emit_unit(scope, unit); });
    k_.root().seek();
    k_.finish();
  }

 private:
  int64_t bytes() const { return size_of(type_); }
  // Sizes, scratch memory and the values that hold for all units.
  void prepare() {
    m_ = number(plan_.m);
    n_ = number(plan_.n);
    part_ = number(plan_.part);
    epilogue_.emplace(k_, t_, part_);
    depth_ = number(plan_.steps);
    panels_ = number(plan_.panels);
    m_units_ = number(plan_.m_units);
    n_units_ = number(plan_.n_units);
    if (k_.program.has_tail()) tail_.emplace(k_);
    k_.root().seek();
    Value* size = k_.i64(0);
    if (plan_.rhs == RhsPath::panels)
      rhs_blocks_ = block_axis(p_.rhs, n_axis_, plan_.n, t_.lanes, n_axis_ + 2);
    if (plan_.lhs == LhsPath::rows) {
      lhs_runs_ = split_axis(p_.lhs, k_axis_, plan_.k, k_axis_ + 1);
      // A little more than a whole number of vectors, so that rows do not meet in the same cache
      // sets.
      lhs_stride_ = add(round_up(depth_, t_.lanes), k_.i64(t_.lanes));
      size = mul(lhs_stride_, plan_.block_rows);
    } else if (plan_.lhs == LhsPath::columns) {
      if (!first_stride(p_.lhs, m_axis_))
        lhs_runs_ = split_axis(p_.lhs, m_axis_, plan_.m, k_axis_ + 1);
      lhs_stride_ = k_.i64((plan_.block_rows + t_.lanes - 1) / t_.lanes * t_.lanes + t_.lanes);
      size = mul(lhs_stride_, add(depth_, k_.i64(1)));
    }
    lhs_bytes_ = size;
    if (plan_.rhs != RhsPath::packed) size = add(size, mul(depth_, int64_t{t_.panel} * widest()));
    int64_t most = plan_.parts > 1 ? t_.max_rows * plan_.parts * tiles_of_parts() : t_.max_rows;
    int64_t tile = int64_t{t_.panel} * std::max<int64_t>(most, 8);
    tile_ = k_.slot(k_.memory_type(type_), "tile", tile);
    if (plan_.rhs == RhsPath::transposed)
      square_ = k_.slot(k_.memory_type(type_), "square", int64_t{t_.lanes} * t_.lanes);
    if (size != k_.i64(0) || plan_.lhs != LhsPath::direct || plan_.rhs != RhsPath::packed) {
      size = round_up(add(size, k_.i64(1)), 16);
      Value* notes = size;
      if (plan_.keeps_tiny) size = add(size, 16);
      scratch_ = emit_scratch(k_.root(), mul(size, bytes()));
      rhs_scratch_ = element(k_, type_, scratch_, lhs_bytes_);
      if (plan_.keeps_tiny) notes_ = element(k_, type_, scratch_, notes);
    }
    if (plan_.dots != Dots::none) groups_.emplace(k_, plan_, notes_);
    if (plan_.keeps_tiny) exact_ = k_.slot(k_.ir.getInt64Ty(), "exact");
    if (plan_.flips_lhs) {
      // What turning the left operand's signs takes from or adds to the sums.
      correction_ = k_.slot(k_.memory_type(type_), "correction", int64_t{t_.panel} * widest());
    }
    if (plan_.lhs != LhsPath::direct) {
      packed_block_ = emit_block_note(k_.root(), scratch_);
      k_.root().seek();
    }
    if (plan_.lhs_load) {
      lhs_row_ = number(plan_.lhs_load->x_stride);
    }
    if (plan_.rhs_load) rhs_row_ = number(plan_.rhs_load->y_stride);
    k_.root().seek();
  }

  int widest() const { return std::max(plan_.parts, plan_.panels_for(1)); }
  bool whole_panels() const {
    return plan_.part.is_const() && plan_.part.constant_value() % t_.panel == 0;
  }
  void emit_unit(Scope& scope, Value* unit) {
    scope.seek();
    // Column blocks vary fastest, so that consecutive units share their rows.
    Value* rows_unit = div(unit, n_units_);
    Value* column_unit = sub(unit, mul(rows_unit, n_units_));
    Value* batch = div(rows_unit, m_units_);
    Value* row_unit = sub(rows_unit, mul(batch, m_units_));
    set_batch_axes(scope, p_.axes, p_.batch_rank, batch);
    row_begin_ = div(mul(row_unit, m_), m_units_);
    rows_ = sub(div(mul(add(row_unit, k_.i64(1)), m_), m_units_), row_begin_);
    Value* groups = div(add(panels_, k_.i64(plan_.panel_group - 1)), k_.i64(plan_.panel_group));
    auto panel_of = [&](Value* number) {
      return least(mul(div(mul(number, groups), n_units_), plan_.panel_group), panels_);
    };
    Value* panel_begin = panel_of(column_unit);
    Value* panel_end = panel_of(add(column_unit, k_.i64(1)));
    batch_panels_ = mul(batch, panels_);
    Cover cover = emit_cover(k_, t_, rows_, plan_.row_counts());
    height_ = cover.height;
    tiles_ = cover.tiles;
    prepare_lhs(scope, rows_unit);
    prepare_rhs(scope);

    panel_loop(scope, panel_begin, panel_end);
    if (tail_) tail_->emit(scope, row_begin_, add(row_begin_, rows_));
  }

  void prepare_lhs(Scope& scope, Value* block) {
    if (plan_.lhs == LhsPath::direct) {
      Value* base = emit_expr(scope, plan_.lhs_load->base).v;
      scope.seek();
      lhs_ = element(k_, type_, k_.buffer(plan_.lhs_load->buffer),
                     add(base, mul(lhs_row_, row_begin_)));
      lhs_row_stride_ = lhs_row_;
      lhs_k_stride_ = k_.i64(1);
      return;
    }
    lhs_ = scratch_;
    bool by_rows = plan_.lhs == LhsPath::rows;
    lhs_row_stride_ = by_rows ? lhs_stride_ : k_.i64(1);
    lhs_k_stride_ = by_rows ? k_.i64(1) : lhs_stride_;
    scope.seek();
    Value *have = k_.ir.CreateLoad(k_.ir.getInt64Ty(), packed_block_), *note = add(block, 1);
    emit_if(scope, k_.ir.CreateICmpNE(have, note), [&](Scope& s) {
      s.seek();
      k_.ir.CreateStore(note, packed_block_);
      if (groups_) groups_->start_block(s);
      Operand lhs{p_.lhs, p_.operand_type, type_, t_.lanes};
      auto fill = [&](Scope& inner, Value* i) {
        inner.seek();
        Value* out = element(k_, type_, scratch_, mul(i, lhs_stride_));
        if (by_rows) {
          inner.set_axis(m_axis_, add(row_begin_, i));
          if (groups_) return groups_->pack_row(inner, out);
          if (lhs_runs_)
            return gather_runs(inner, *lhs_runs_, p_.operand_type, type_, t_.lanes, out);
          lhs.gather(inner, {k_axis_, k_.i64(0), depth_}, out);
        } else if (groups_) {
          groups_->pack_step(inner, i, row_begin_, rows_, out);
        } else {
          inner.set_axis(k_axis_, i);
          if (lhs_runs_) return gather_pieces(inner, out);
          lhs.gather(inner, {m_axis_, row_begin_, rows_}, out);
        }
      };
      emit_loop(s, k_.i64(0), by_rows ? rows_ : depth_, k_.i64(1), by_rows, fill);
    });
  }

  // out = the unit's rows where these lie in several runs.
  void gather_pieces(Scope& scope, Value* out) {
    const Level &runs = lhs_runs_->levels[0], &rows = lhs_runs_->levels[1];
    Operand lhs{lhs_runs_->body, p_.operand_type, type_, t_.lanes};
    scope.seek();
    Value *size = k_.i64(runs.stride), *row_end = add(row_begin_, rows_);
    Value *first = div(row_begin_, size), *last = div(sub(row_end, k_.i64(1)), size);
    emit_loop(scope, first, add(last, 1), k_.i64(1), true, [&](Scope& s, Value* run) {
      s.set_axis(runs.axis, run);
      s.seek();
      Value* origin = mul(run, size);
      Value* begin = k_.ir.CreateBinaryIntrinsic(llvm::Intrinsic::smax, origin, row_begin_);
      Value* end = least(add(origin, size), row_end);
      lhs.gather(s, {rows.axis, sub(begin, origin), sub(end, begin)},
                 element(k_, type_, out, sub(begin, row_begin_)));
    });
  }

  void prepare_rhs(Scope& scope) {
    if (!plan_.rhs_load) return;
    rhs_base_ = emit_expr(scope, plan_.rhs_load->base).v;
    scope.seek();
  }

  // All register tiles of panels [begin, end).
  void panel_loop(Scope& scope, Value* begin, Value* end) {
    int span = 1;
    scope.seek();
    if (plan_.parts > 1) {
      emit_loop(scope, begin, end, k_.i64(plan_.parts), true,
                [&](Scope& s, Value* panel) { emit_panels(s, panel, k_.i64(plan_.parts)); });
      return;
    }
    for (int r : heights_) span = std::max(span, plan_.panels_for(r));
    if (span == 1) {
      emit_loop(scope, begin, end, k_.i64(1), true,
                [&](Scope& s, Value* panel) { emit_panels(s, panel, k_.i64(1)); });
      return;
    }
    // The step depends on the tiles' height and the panels left: a loop with its own counter.
    Value* step = k_.i64(1);
    for (int r : heights_)
      if (int wide = plan_.panels_for(r); wide > 1)
        step = k_.ir.CreateSelect(k_.ir.CreateICmpEQ(height_, k_.i64(r)), k_.i64(wide), step);
    llvm::BasicBlock *before = k_.ir.GetInsertBlock(), *head = k_.block("panels"),
                     *exit = k_.block("after");
    k_.ir.CreateBr(head);
    k_.ir.SetInsertPoint(head);
    auto* panel = k_.ir.CreatePHI(k_.ir.getInt64Ty(), 2);
    panel->addIncoming(begin, before);
    Scope inner(scope, false);
    Value* left = sub(end, panel);
    Value* width = k_.ir.CreateSelect(k_.ir.CreateICmpSLT(left, step), k_.i64(1), step);
    emit_panels(inner, panel, width);
    inner.seek();
    Value* next = add(panel, width);
    panel->addIncoming(next, k_.ir.GetInsertBlock());
    k_.ir.CreateCondBr(k_.ir.CreateICmpSLT(next, end), head, exit);
    k_.ir.SetInsertPoint(exit);
    scope.move_to(exit);
  }

  struct Rhs {
    Value *base, *k_stride, *panel_stride;
  };

  // Panels [panel, panel + width) against all rows of the unit.
  void emit_panels(Scope& scope, Value* panel, Value* width) {
    Rhs rhs = rhs_panels(scope, panel, width);
    if (plan_.keeps_tiny) choose_exact(scope, rhs, width);
    if (plan_.flips_lhs) correct_signs(scope, rhs, width);
    scope.seek();
    if (plan_.parts > 1) return emit_parts(scope, panel, rhs);
    emit_loop(scope, k_.i64(0), tiles_, k_.i64(1), true, [&](Scope& s, Value* tile) {
      call_tile(s, tile, width, rhs, {tile_, correction_});
      finish_tile(s, tile, tile_, panel, width);
    });
  }

  // The epilogue of a tile's rows that no tile before it has; their sums begin at `sums`.
  void finish_tile(Scope& scope, Value* tile, Value* sums, Value* panel, Value* width) {
    scope.seek();
    Value* begin = mul(tile, height_);
    Value* count = least(height_, sub(rows_, begin));
    Value* stride = mul(width, t_.panel);
    sums = element(k_, type_, sums, mul(sub(begin, first_row(tile)), stride));
    Value* m = add(row_begin_, begin);
    if (plan_.parts == 1) return epilogue_->emit(scope, sums, m, count, panel, width);
    Value* block = div(panel, k_.i64(plan_.parts));
    epilogue_->emit_parts(scope, sums, stride, k_.i64(t_.panel), m, count, block);
  }

  // Panels of all parts: together where registers hold all of their sums, else each against some
  // tiles, so that it stays in the first-level cache, before all parts of these are finished.
  void emit_parts(Scope& scope, Value* panel, const Rhs& rhs) {
    Value* parts = k_.i64(plan_.parts);
    int highest = 0;
    for (int r : heights_)
      if (plan_.panels_for(r) > 1) highest = std::max(highest, r);
    auto fetch = [&](Scope& s, Value* tile) {
      s.seek();
      epilogue_->fetch_parts(s, add(row_begin_, first_row(tile)), height_, div(panel, parts));
    };
    auto together = [&](Scope& outer) {
      emit_loop(outer, k_.i64(0), tiles_, k_.i64(1), true, [&](Scope& s, Value* tile) {
        fetch(s, tile);
        call_tile(s, tile, parts, rhs, {tile_, correction_});
        finish_tile(s, tile, tile_, panel, parts);
      });
    };
    auto apart = [&](Scope& outer) {
      int64_t row = int64_t{plan_.parts} * t_.panel;
      outer.seek();
      Value* tile_size = mul(height_, row);
      emit_loop(outer, k_.i64(0), tiles_, k_.i64(tiles_of_parts()), true, [&](Scope& g, Value* t) {
        g.seek();
        Value* end = least(add(t, tiles_of_parts()), tiles_);
        auto sums_of = [&](Value* tile) {
          return element(k_, type_, tile_, mul(sub(tile, t), tile_size));
        };
        emit_loop(g, t, end, k_.i64(1), true, [&](Scope& s, Value* tile) { fetch(s, tile); });
        emit_loop(g, k_.i64(0), parts, k_.i64(1), true, [&](Scope& p, Value* part) {
          p.seek();
          Value* offset = mul(part, t_.panel);
          Rhs own = rhs;
          own.base = element(k_, plan_.rhs_storage, rhs.base, mul(part, rhs.panel_stride));
          Value* correction = correction_ ? element(k_, type_, correction_, offset) : nullptr;
          emit_loop(p, t, end, k_.i64(1), true, [&](Scope& s, Value* tile) {
            s.seek();
            Value* sums = element(k_, type_, sums_of(tile), offset);
            call_tile(s, tile, k_.i64(1), own, {sums, correction, row});
          });
        });
        emit_loop(g, t, end, k_.i64(1), true, [&](Scope& s, Value* tile) {
          s.seek();
          finish_tile(s, tile, sums_of(tile), panel, parts);
        });
      });
    };
    bool all = std::all_of(heights_.begin(), heights_.end(), [&](int r) { return r <= highest; });
    if (all) return together(scope);
    if (highest == 0) return apart(scope);
    scope.seek();
    Value* low = k_.ir.CreateICmpSLE(height_, k_.i64(highest));
    Value* high = k_.ir.CreateNot(low);
    emit_if(scope, low, together);
    emit_if(scope, high, apart);
  }

  // Tiles whose sums of all parts are in memory at a time: 32 KiB of them or so.
  int64_t tiles_of_parts() const { return std::max<int64_t>(1, 24 / plan_.parts); }

  Rhs rhs_panels(Scope& scope, Value* panel, Value* width) {
    scope.seek();
    Value* panel_size = mul(depth_, t_.panel);
    switch (plan_.rhs) {
      case RhsPath::packed: {
        Value* index = mul(add(batch_panels_, panel), panel_size);
        return {element(k_, plan_.rhs_storage, k_.buffer(p_.packed_rhs), index), k_.i64(t_.panel),
                panel_size};
      }
      case RhsPath::direct:
        return direct_panels(scope, panel, width);
      default:
        break;
    }
    emit_loop(scope, k_.i64(0), width, k_.i64(1), true, [&](Scope& s, Value* i) {
      s.seek();
      Value* out = element(k_, type_, rhs_scratch_, mul(i, panel_size));
      Value* n_begin = first_column(add(panel, i));
      if (groups_ && plan_.rhs == RhsPath::panels)
        groups_->pack_panel(s, n_begin, columns_left(n_begin), out);
      else if (groups_)
        groups_->turn_panel(s, rhs_base_, n_begin, columns_left(n_begin), out);
      else if (plan_.rhs == RhsPath::panels)
        pack_panel(s, n_begin, out);
      else
        transpose_panel(s, n_begin, out);
    });
    scope.seek();
    return {rhs_scratch_, k_.i64(t_.panel), panel_size};
  }

  // Reads in place, except that an incomplete last panel is copied: nothing may be read behind the
  // operand.
  Rhs direct_panels(Scope& scope, Value* panel, Value* width) {
    Value* index = add(rhs_base_, first_column(panel));
    Value* in_place = element(k_, type_, k_.buffer(plan_.rhs_load->buffer), index);
    Value* between = plan_.parts > 1 ? part_ : k_.i64(t_.panel);
    if (whole_panels()) return {in_place, rhs_row_, between};
    Value* panel_end =
        plan_.parts > 1 ? add(div(panel, k_.i64(plan_.parts)), 1) : add(panel, width);
    Value* incomplete = k_.ir.CreateICmpSGT(mul(panel_end, t_.panel), part_);
    // Only the last panel is incomplete; a span that ends with it is copied panel by panel.
    emit_if(scope, incomplete, [&](Scope& s) {
      emit_loop(s, k_.i64(0), width, k_.i64(1), true, [&](Scope& inner, Value* i) {
        inner.seek();
        Value* out = element(k_, type_, rhs_scratch_, mul(i, mul(depth_, t_.panel)));
        pack_panel(inner, first_column(add(panel, i)), out);
      });
    });
    scope.seek();
    return {k_.ir.CreateSelect(incomplete, rhs_scratch_, in_place),
            k_.ir.CreateSelect(incomplete, k_.i64(t_.panel), rhs_row_),
            k_.ir.CreateSelect(incomplete, mul(depth_, t_.panel), between)};
  }

  // The column that a panel begins with.
  Value* first_column(Value* panel) {
    if (plan_.parts == 1) return mul(panel, t_.panel);
    Value* block = div(panel, k_.i64(plan_.parts));
    return add(mul(sub(panel, mul(block, plan_.parts)), part_), mul(block, t_.panel));
  }

  Operand rhs_operand() const {
    if (rhs_blocks_) return {*rhs_blocks_, p_.rhs_type(), type_, t_.lanes, n_axis_ + 2};
    return {p_.rhs, p_.rhs_type(), type_, t_.lanes};
  }
  Value* columns_left(Value* n_begin) {
    if (whole_panels()) return k_.i64(t_.panel);
    Value* inside = plan_.parts > 1 ? k_.ir.CreateURem(n_begin, part_) : n_begin;
    return least(sub(part_, inside), k_.i64(t_.panel));
  }

  void pack_panel(Scope& scope, Value* n_begin, Value* out) {
    Run columns{n_axis_, n_begin, columns_left(n_begin)};
    auto rows = [&](Scope& outer, bool whole) {
      emit_loop(outer, k_.i64(0), depth_, k_.i64(1), false, [&](Scope& s, Value* i) {
        s.set_axis(k_axis_, i);
        s.seek();
        Value* row = element(k_, type_, out, mul(i, t_.panel));
        if (whole)
          rhs_operand().gather_whole(s, columns, t_.vectors, row);
        else
          rhs_operand().gather(s, columns, row);
      });
    };
    if (whole_panels()) return rows(scope, true);
    Value* whole = k_.ir.CreateICmpEQ(columns.count, k_.i64(t_.panel));
    Value* part = k_.ir.CreateNot(whole);
    emit_if(scope, whole, [&](Scope& s) { rows(s, true); });
    emit_if(scope, part, [&](Scope& s) { rows(s, false); });
  }

  // For an operand that lies along k.
  void transpose_panel(Scope& scope, Value* n_begin, Value* out) {
    Run n{n_axis_, n_begin, columns_left(n_begin)}, k{k_axis_, k_.i64(0), depth_};
    rhs_operand().transpose(scope, n, k, square_, out, t_.panel);
  }

  // Few rows wait for memory: they take the multiply-adds at once.
  static constexpr int64_t few_rows = 4;

  // exact_ = whether pairs of bfloat16 need multiply-adds in these panels.
  void choose_exact(Scope& scope, const Rhs& rhs, Value* width) {
    scope.seek();
    k_.ir.CreateStore(k_.i64(1), exact_);
    emit_if(scope, k_.ir.CreateICmpSGT(rows_, k_.i64(few_rows)), [&](Scope& s) {
      s.seek();
      Value* tiny = groups_->has_tiny(s, rhs.base, mul(width, mul(depth_, t_.panel)));
      k_.ir.CreateStore(k_.ir.CreateZExt(tiny, k_.ir.getInt64Ty()), exact_);
    });
  }

  // correction_ = what flipping the left operand's signs changed, for the panels' columns.
  void correct_signs(Scope& scope, const Rhs& rhs, Value* width) {
    emit_loop(scope, k_.i64(0), width, k_.i64(1), false, [&](Scope& s, Value* i) {
      s.seek();
      groups_->column_sums(s, element(k_, type_, rhs.base, mul(i, rhs.panel_stride)),
                           element(k_, type_, correction_, mul(i, t_.panel)));
    });
  }

  // How many vectors of the only panel hold columns; 0 where there may be more panels.
  int vectors_of_only_panel() const {
    if (plan_.parts > 1 || !plan_.n.is_const() || plan_.n.constant_value() > t_.panel) return 0;
    return static_cast<int>((plan_.n.constant_value() + t_.lanes - 1) / t_.lanes);
  }

  MicroKernel kernel_of(int rows, int panels, const Rhs& rhs) const {
    return {.tile = t_,
            .type = type_,
            .storage = plan_.rhs_storage,
            .rows = rows,
            .panels = panels,
            .vectors = vectors_of_only_panel(),
            .half_last = ends_in_half_a_vector(t_, plan_.n) && plan_.parts == 1 &&
                         plan_.dots == Dots::none && type_ == DType::f32,
            .a_row = fixed(lhs_row_stride_),
            .a_k = fixed(lhs_k_stride_),
            .b_k = fixed(rhs.k_stride),
            .b_panel = fixed(rhs.panel_stride),
            .depth = fixed(depth_),
            .dots = plan_.dots,
            .unsigned_rhs = plan_.unsigned_rhs};
  }

  llvm::Function* micro(int rows, int panels, const Rhs& rhs, bool exact, int64_t out_row) {
    llvm::Function*& f = micro_[{rows, panels, exact}];
    if (!f) {
      MicroKernel m = kernel_of(rows, panels, rhs);
      m.out_row = out_row;
      m.exact = exact;
      m.from_row = plan_.flips_lhs;
      m.fetches_ahead = fetches_ahead();
      f = m.emit(k_);
    }
    return f;
  }

  // Packed panels lie one behind the other: the first two tiles of one fetch the next.
  bool fetches_ahead() const {
    return plan_.rhs == RhsPath::packed && plan_.block_rows > t_.max_rows && panel_lines() > 0;
  }
  // Where there is no other panel, a tile fetches the rows of the next one, if they lie side by
  // side.
  bool fetches_rows() const {
    return fetches_ahead() && plan_.panels.is(1) && plan_.lhs == LhsPath::direct &&
           plan_.lhs_load->x_stride == plan_.k;
  }
  static constexpr int64_t line = 64;  // bytes
  int64_t panel_lines() const { return int64_t{t_.panel} * size_of(plan_.rhs_storage) / line; }

  // Where a register kernel's sums go, what bytes start from, and the distance between rows where
  // that is not the panels' width.
  struct Out {
    Value *sums, *correction;
    int64_t row = 0;
  };

  // The unit's row that a tile begins with.
  Value* first_row(Value* tile) { return least(mul(tile, height_), sub(rows_, height_)); }

  // out = the tile's rows times the panels.
  void call_tile(Scope& scope, Value* tile, Value* width, const Rhs& rhs, const Out& out) {
    scope.seek();
    Value* a = element(k_, type_, lhs_, mul(first_row(tile), lhs_row_stride_));
    std::vector<Value*> args{a,        lhs_row_stride_, lhs_k_stride_,
                             rhs.base, rhs.k_stride,    rhs.panel_stride,
                             depth_,   out.sums,        out.correction};
    if (!correction_) args.back() = llvm::PoisonValue::get(k_.ir.getPtrTy());
    if (fetches_rows()) {
      args.push_back(element(k_, type_, a, mul(height_, lhs_row_stride_)));
      args.push_back(mul(height_, k_.i64(bytes())));
    } else if (fetches_ahead()) {
      Value* from = mul(mul(depth_, line), add(tile, k_.i64(panel_lines())));
      Value* fetches = k_.ir.CreateICmpSLT(tile, k_.i64(panel_lines()));
      Value* ahead = k_.ir.CreateGEP(k_.ir.getInt8Ty(), rhs.base, from);
      args.push_back(k_.ir.CreateSelect(fetches, ahead, a));
      args.push_back(k_.ir.CreateSelect(fetches, k_.i64(line), k_.i64(0)));
    }
    constexpr int64_t stride = 16;  // more than any span
    std::map<int64_t, llvm::Function*> kernels;
    bool choice = plan_.keeps_tiny;
    for (int r : heights_)
      for (int span : {1, plan_.panels_for(r)}) {
        // Of parts, either all or one at a time.
        bool single = plan_.panels_for(r) == 1;
        if (plan_.parts > 1 && (single != (out.row > 0) || (span == 1) != single)) continue;
        for (int exact = 0; exact <= choice; ++exact)
          kernels[(r * stride + span) * 2 + exact] = micro(r, span, rhs, exact, out.row);
      }
    Value* shape = mul(add(mul(height_, stride), width), 2);
    if (choice) shape = add(shape, k_.ir.CreateLoad(k_.ir.getInt64Ty(), exact_));
    call_one(scope, shape, kernels, args);
  }

  const atlas::ProductBlock& p_;
  ProductPlan plan_;
  TileModel t_;
  DType type_;
  int m_axis_, n_axis_, k_axis_;
  Value *m_ = nullptr, *n_ = nullptr, *part_ = nullptr, *depth_ = nullptr, *panels_ = nullptr,
        *m_units_ = nullptr, *n_units_ = nullptr;
  Value *scratch_ = nullptr, *rhs_scratch_ = nullptr, *lhs_bytes_ = nullptr,
        *packed_block_ = nullptr, *tile_ = nullptr, *square_ = nullptr;
  Value *lhs_stride_ = nullptr, *lhs_row_ = nullptr, *rhs_row_ = nullptr, *notes_ = nullptr;
  // Of the current unit.
  Value *row_begin_ = nullptr, *rows_ = nullptr, *height_ = nullptr, *tiles_ = nullptr,
        *batch_panels_ = nullptr;
  Value *lhs_ = nullptr, *lhs_row_stride_ = nullptr, *lhs_k_stride_ = nullptr, *rhs_base_ = nullptr;
  std::optional<SplitBody> lhs_runs_;
  std::optional<atlas::Body> rhs_blocks_;
  std::vector<int> heights_;
  std::map<std::tuple<int, int, bool>, llvm::Function*> micro_;  // by rows, panels, exact
  std::optional<GroupPacker> groups_;
  std::optional<ProductEpilogue> epilogue_;
  std::optional<LoopTail> tail_;
  Value *exact_ = nullptr, *correction_ = nullptr;
};

}  // namespace

void emit(CpuFunction& k, const ProductPlan& plan) { ProductEmitter(k, plan).run(); }

}  // namespace hologram::cpu

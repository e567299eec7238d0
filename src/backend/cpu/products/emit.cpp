// backend/cpu/products/emit.cpp: the units of a product: operand blocks, register tiles, epilogue.
//
// A register tile walks the whole depth; the sums of its blocks of 384 are added in a buffer of the
// tile's size that never leaves the first-level cache, and the epilogue reads them there. The first
// two tiles of a packed panel fetch the next panel to the second-level cache, a line per k; those
// of six rows, a line every four k, which the third-level cache delivers while they compute. Where
// there is one panel alone each tile fetches the rows of the next. Where a plan has blocks of k,
// all tiles of a unit walk a block, each with sums of its own in scratch memory, before the next
// block; the sums begin as -0, to which adding changes nothing.
//
// Parts (ProductBlock::parts): tiles whose sums of all parts fit into registers (three rows of four
// gates with AVX-512) walk the parts' panels together. Others walk one panel after the other, each
// against up to 24 / parts tiles, before these tiles' epilogue. What such an epilogue reads lies in
// rows of all parts, often 4 KiB apart, each on another page and all in one set of the first-level
// cache: it is fetched to the second level before the tiles.
//
// A tail (ProductBlock::tail) runs for a unit's rows as soon as its last panel is done; the unit
// has all columns then.
#include "backend/cpu/products/emit.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include "backend/cpu/loops/tail.h"
#include "backend/cpu/products/epilogue.h"
#include "backend/cpu/products/groups.h"
#include "backend/cpu/products/lhs_block.h"
#include "backend/cpu/products/micro.h"
#include "backend/cpu/products/rhs_panels.h"
#include "base/error.h"
#include "codegen/nest.h"

namespace hologram::cpu {

namespace {

// What holds for all units.
struct Sizes {
  Value *m, *part, *depth;  // rows, columns of a part, steps
  Value *panels, *m_units, *n_units;
  Value* held;  // steps that copies hold at a time
};

// Of one unit: its rows, which tiles cover, and its operands.
struct ProductUnit {
  Value *row_begin, *rows;
  Cover cover;
  LhsRows lhs;
  RhsPoint rhs;
};

class ProductEmitter : IndexBuilder {
 public:
  ProductEmitter(CpuFunction& kernel, const ProductPlan& plan)
      : IndexBuilder(kernel),
        p_(kernel.program.product()),
        plan_(plan),
        t_(plan_.tile),
        type_(p_.acc_type),
        heights_(plan_.heights()) {}

  void run() {
    if (heights_.empty()) return k_.finish();
    prepare();
    allocate();
    emit_loop(k_.root(), k_.begin, k_.end, k_.i64(1), true,
              [&](Scope& scope, Value* unit) { emit_unit(scope, unit); });
    k_.root().seek();
    k_.finish();
  }

 private:
  int64_t bytes() const { return size_of(type_); }

  // What holds for all units.
  void prepare() {
    size_.m = number(plan_.m);
    size_.part = number(plan_.part);
    epilogue_.emplace(k_, t_, size_.part);
    size_.depth = number(plan_.steps);
    size_.held = plan_.block_depth ? k_.i64(plan_.block_depth) : size_.depth;
    size_.panels = number(plan_.panels);
    size_.m_units = number(plan_.m_units);
    size_.n_units = number(plan_.n_units);
    if (k_.program.has_tail()) tail_.emplace(k_);
    k_.root().seek();
    rhs_.emplace(k_, plan_, size_.part, size_.held);
    lhs_.emplace(k_, plan_, size_.held);
  }

  // Memory for copies, sums and notes.
  void allocate() {
    Value* size = lhs_->size();
    if (plan_.rhs != RhsPath::packed)
      size = add(size, mul(size_.held, int64_t{t_.panel} * rhs_->widest()));
    int64_t most = plan_.parts > 1 ? t_.max_rows * plan_.parts * tiles_of_parts() : t_.max_rows;
    int64_t tile = int64_t{t_.panel} * std::max<int64_t>(most, 8);
    tile_ = k_.slot(k_.memory_type(type_), "tile", tile);
    Value* square = nullptr;
    if (plan_.rhs == RhsPath::transposed)
      square = k_.slot(k_.memory_type(type_), "square", int64_t{t_.lanes} * t_.lanes);
    Value *scratch = nullptr, *panels = nullptr, *notes = nullptr;
    if (size != k_.i64(0) || plan_.lhs != LhsPath::direct || plan_.rhs != RhsPath::packed) {
      size = round_up(add(size, k_.i64(1)), 16);
      Value* behind = size;
      if (plan_.keeps_tiny) size = add(size, 16);
      if (plan_.block_depth) size = add(size, most_sums());
      scratch = emit_scratch(k_.root(), mul(size, bytes()));
      panels = element(k_, type_, scratch, lhs_->size());
      if (plan_.keeps_tiny) notes = element(k_, type_, scratch, behind);
      if (plan_.block_depth) sums_ = element(k_, type_, scratch, behind);
    }
    if (plan_.dots != Dots::none) groups_.emplace(k_, plan_, notes);
    if (plan_.keeps_tiny) exact_ = k_.slot(k_.ir.getInt64Ty(), "exact");
    if (plan_.flips_lhs) {
      // What turning the left operand's signs takes from or adds to the sums.
      correction_ =
          k_.slot(k_.memory_type(type_), "correction", int64_t{t_.panel} * rhs_->widest());
    }
    GroupPacker* groups = groups_ ? &*groups_ : nullptr;
    lhs_->place(scratch, groups);
    rhs_->place(panels, square, groups);
    k_.root().seek();
  }

  void emit_unit(Scope& scope, Value* unit) {
    scope.seek();
    // Column blocks vary fastest, so that consecutive units share their rows.
    Value* rows_unit = div(unit, size_.n_units);
    Value* column_unit = sub(unit, mul(rows_unit, size_.n_units));
    Value* batch = div(rows_unit, size_.m_units);
    Value* row_unit = sub(rows_unit, mul(batch, size_.m_units));
    set_batch_axes(scope, p_.axes, p_.batch_rank, batch);
    ProductUnit u{};
    u.row_begin = div(mul(row_unit, size_.m), size_.m_units);
    u.rows = sub(div(mul(add(row_unit, k_.i64(1)), size_.m), size_.m_units), u.row_begin);
    Value* groups =
        div(add(size_.panels, k_.i64(plan_.panel_group - 1)), k_.i64(plan_.panel_group));
    auto panel_of = [&](Value* number) {
      return least(mul(div(mul(number, groups), size_.n_units), plan_.panel_group), size_.panels);
    };
    Value* panel_begin = panel_of(column_unit);
    Value* panel_end = panel_of(add(column_unit, k_.i64(1)));
    Value* first_panel = mul(batch, size_.panels);
    u.cover = emit_cover(k_, t_, u.rows, plan_.row_counts());
    u.rhs = rhs_->point(scope, first_panel);
    if (plan_.block_depth) return emit_blocks(scope, u, rows_unit, panel_begin, panel_end);
    const StepRange all{k_.i64(0), size_.depth};
    u.lhs = lhs_->emit(scope, rows_unit, u.row_begin, u.rows, all);
    panel_loop(scope, u, panel_begin, panel_end,
               [&](Scope& s, Value* panel, Value* width) { emit_panels(s, u, panel, width, all); });
    if (tail_) tail_->emit(scope, u.row_begin, add(u.row_begin, u.rows));
  }

  // Numbers of the sums of all tiles of a unit. The last tile has its own of the rows that it
  // computes again.
  int64_t most_sums() const {
    return (plan_.block_rows + t_.max_rows) * plan_.block_panels * t_.panel;
  }

  // A unit that walks k in blocks, with all tiles, before its epilogue.
  void emit_blocks(Scope& scope, ProductUnit& u, Value* rows_unit, Value* begin, Value* end) {
    Value* rows = mul(u.cover.tiles, u.cover.height);
    // What a first block's sums are to be added to, without a change.
    auto* none = llvm::cast<llvm::Constant>(
        is_float(type_) ? llvm::ConstantFP::getNegativeZero(k_.memory_type(type_))
                        : llvm::Constant::getNullValue(k_.memory_type(type_)));
    auto* vector = llvm::ConstantVector::getSplat(
        llvm::ElementCount::getFixed(static_cast<unsigned>(t_.panel)), none);
    emit_loop(scope, k_.i64(0), mul(sub(end, begin), rows), k_.i64(1), true,
              [&](Scope& s, Value* i) {
                s.seek();
                k_.ir.CreateAlignedStore(vector, element(k_, type_, sums_, mul(i, t_.panel)),
                                         llvm::Align(static_cast<uint64_t>(bytes())));
              });
    auto sums_of = [&](Value* panel, Value* tile, Value* width) {
      Value* before = add(mul(sub(panel, begin), rows), mul(u.cover.begin(k_, tile), width));
      return element(k_, type_, sums_, mul(before, t_.panel));
    };
    emit_loop(scope, k_.i64(0), size_.depth, size_.held, true, [&](Scope& block, Value* from) {
      block.seek();
      const StepRange steps{from, least(size_.held, sub(size_.depth, from))};
      Value* number = add(mul(rows_unit, size_.depth), from);
      u.lhs = lhs_->emit(block, number, u.row_begin, u.rows, steps);
      panel_loop(block, u, begin, end, [&](Scope& p, Value* panel, Value* width) {
        const Panels rhs = rhs_->emit(p, u.rhs, panel, width, steps);
        emit_loop(p, k_.i64(0), u.cover.tiles, k_.i64(1), true, [&](Scope& s, Value* tile) {
          s.seek();
          call_tile(s, u, tile, width, rhs, steps, {sums_of(panel, tile, width), nullptr});
        });
      });
    });
    panel_loop(scope, u, begin, end, [&](Scope& p, Value* panel, Value* width) {
      emit_loop(p, k_.i64(0), u.cover.tiles, k_.i64(1), true, [&](Scope& s, Value* tile) {
        fetch_for(s, u, add(tile, k_.i64(1)), panel, width);
        finish_tile(s, u, tile, sums_of(panel, tile, width), panel, width);
      });
    });
  }

  using PanelBody = std::function<void(Scope&, Value* panel, Value* width)>;
  // `body` for all panels of [begin, end), as many side by side as register tiles take.
  void panel_loop(Scope& scope, const ProductUnit& u, Value* begin, Value* end,
                  const PanelBody& body) {
    int span = 1;
    scope.seek();
    if (plan_.parts > 1) {
      emit_loop(scope, begin, end, k_.i64(plan_.parts), true,
                [&](Scope& s, Value* panel) { body(s, panel, k_.i64(plan_.parts)); });
      return;
    }
    for (int r : heights_) span = std::max(span, plan_.panels_for(r));
    if (span == 1) {
      emit_loop(scope, begin, end, k_.i64(1), true,
                [&](Scope& s, Value* panel) { body(s, panel, k_.i64(1)); });
      return;
    }
    // The step depends on the tiles' height and the panels left: a loop with its own counter.
    Value* step = k_.i64(1);
    for (int r : heights_)
      if (int wide = plan_.panels_for(r); wide > 1)
        step =
            k_.ir.CreateSelect(k_.ir.CreateICmpEQ(u.cover.height, k_.i64(r)), k_.i64(wide), step);
    llvm::BasicBlock *before = k_.ir.GetInsertBlock(), *head = k_.block("panels"),
                     *exit = k_.block("after");
    k_.ir.CreateBr(head);
    k_.ir.SetInsertPoint(head);
    auto* panel = k_.ir.CreatePHI(k_.ir.getInt64Ty(), 2);
    panel->addIncoming(begin, before);
    Scope inner(scope, false);
    Value* left = sub(end, panel);
    Value* width = k_.ir.CreateSelect(k_.ir.CreateICmpSLT(left, step), k_.i64(1), step);
    body(inner, panel, width);
    inner.seek();
    Value* next = add(panel, width);
    panel->addIncoming(next, k_.ir.GetInsertBlock());
    k_.ir.CreateCondBr(k_.ir.CreateICmpSLT(next, end), head, exit);
    k_.ir.SetInsertPoint(exit);
    scope.move_to(exit);
  }

  // Panels [panel, panel + width) against all rows of the unit.
  void emit_panels(Scope& scope, const ProductUnit& u, Value* panel, Value* width,
                   const StepRange& all) {
    const Panels rhs = rhs_->emit(scope, u.rhs, panel, width, all);
    if (plan_.keeps_tiny) choose_exact(scope, u, rhs, width);
    if (plan_.flips_lhs) correct_signs(scope, rhs, width);
    scope.seek();
    if (plan_.parts > 1) return emit_parts(scope, u, panel, rhs, all);
    emit_loop(scope, k_.i64(0), u.cover.tiles, k_.i64(1), true, [&](Scope& s, Value* tile) {
      fetch_for(s, u, tile, panel, width);
      call_tile(s, u, tile, width, rhs, all, {tile_, correction_});
      finish_tile(s, u, tile, tile_, panel, width);
    });
  }

  // Fetches what the epilogue of a tile will read.
  void fetch_for(Scope& scope, const ProductUnit& u, Value* tile, Value* panel, Value* width) {
    scope.seek();
    epilogue_->fetch(scope, add(u.row_begin, u.cover.first(k_, tile)), u.cover.height_of(k_, tile),
                     mul(panel, t_.panel), mul(width, t_.panel));
  }

  // The epilogue of a tile's rows that no tile before it has; their sums begin at `sums`.
  void finish_tile(Scope& scope, const ProductUnit& u, Value* tile, Value* sums, Value* panel,
                   Value* width) {
    scope.seek();
    Value* begin = u.cover.begin(k_, tile);
    Value* count = least(u.cover.height_of(k_, tile), sub(u.rows, begin));
    Value* stride = mul(width, t_.panel);
    sums = element(k_, type_, sums, mul(sub(begin, u.cover.first(k_, tile)), stride));
    Value* m = add(u.row_begin, begin);
    if (plan_.parts == 1) return epilogue_->emit(scope, sums, m, count, panel, width);
    Value* block = div(panel, k_.i64(plan_.parts));
    epilogue_->emit_parts(scope, sums, stride, k_.i64(t_.panel), m, count, block);
  }

  // Panels of all parts: together where registers hold all of their sums, else each against some
  // tiles, so that it stays in the first-level cache, before all parts of these are finished.
  void emit_parts(Scope& scope, const ProductUnit& u, Value* panel, const Panels& rhs,
                  const StepRange& steps) {
    Value* parts = k_.i64(plan_.parts);
    int highest = 0;
    for (int r : heights_)
      if (plan_.panels_for(r) > 1) highest = std::max(highest, r);
    auto fetch = [&](Scope& s, Value* tile) {
      fetch_for(s, u, tile, div(panel, parts), k_.i64(1));
    };
    auto together = [&](Scope& outer) {
      emit_loop(outer, k_.i64(0), u.cover.tiles, k_.i64(1), true, [&](Scope& s, Value* tile) {
        fetch(s, tile);
        call_tile(s, u, tile, parts, rhs, steps, {tile_, correction_});
        finish_tile(s, u, tile, tile_, panel, parts);
      });
    };
    auto apart = [&](Scope& outer) {
      int64_t row = int64_t{plan_.parts} * t_.panel;
      outer.seek();
      Value* tile_size = mul(u.cover.height, row);
      emit_loop(
          outer, k_.i64(0), u.cover.tiles, k_.i64(tiles_of_parts()), true, [&](Scope& g, Value* t) {
            g.seek();
            Value* end = least(add(t, tiles_of_parts()), u.cover.tiles);
            auto sums_of = [&](Value* tile) {
              return element(k_, type_, tile_, mul(sub(tile, t), tile_size));
            };
            emit_loop(g, t, end, k_.i64(1), true, [&](Scope& s, Value* tile) { fetch(s, tile); });
            emit_loop(g, k_.i64(0), parts, k_.i64(1), true, [&](Scope& p, Value* part) {
              p.seek();
              Value* offset = mul(part, t_.panel);
              Panels own = rhs;
              own.base = element(k_, plan_.rhs_storage, rhs.base, mul(part, rhs.panel_stride));
              Value* correction = correction_ ? element(k_, type_, correction_, offset) : nullptr;
              emit_loop(p, t, end, k_.i64(1), true, [&](Scope& s, Value* tile) {
                s.seek();
                Value* sums = element(k_, type_, sums_of(tile), offset);
                call_tile(s, u, tile, k_.i64(1), own, steps, {sums, correction, row});
              });
            });
            emit_loop(g, t, end, k_.i64(1), true, [&](Scope& s, Value* tile) {
              s.seek();
              finish_tile(s, u, tile, sums_of(tile), panel, parts);
            });
          });
    };
    bool all = std::all_of(heights_.begin(), heights_.end(), [&](int r) { return r <= highest; });
    if (all) return together(scope);
    if (highest == 0) return apart(scope);
    scope.seek();
    Value* low = k_.ir.CreateICmpSLE(u.cover.height, k_.i64(highest));
    Value* high = k_.ir.CreateNot(low);
    emit_if(scope, low, together);
    emit_if(scope, high, apart);
  }

  // Tiles whose sums of all parts are in memory at a time: 32 KiB of them or so.
  int64_t tiles_of_parts() const { return std::max<int64_t>(1, 24 / plan_.parts); }

  // Few rows wait for memory: they take the multiply-adds at once.
  static constexpr int64_t few_rows = 4;

  // exact_ = whether pairs of bfloat16 need multiply-adds in these panels.
  void choose_exact(Scope& scope, const ProductUnit& u, const Panels& rhs, Value* width) {
    scope.seek();
    k_.ir.CreateStore(k_.i64(1), exact_);
    emit_if(scope, k_.ir.CreateICmpSGT(u.rows, k_.i64(few_rows)), [&](Scope& s) {
      s.seek();
      Value* tiny = groups_->has_tiny(s, rhs.base, mul(width, mul(size_.depth, t_.panel)));
      k_.ir.CreateStore(k_.ir.CreateZExt(tiny, k_.ir.getInt64Ty()), exact_);
    });
  }

  // correction_ = what flipping the left operand's signs changed, for the panels' columns.
  void correct_signs(Scope& scope, const Panels& rhs, Value* width) {
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

  // Whether all blocks of k have the same steps.
  bool whole_blocks() const {
    return plan_.block_depth == 0 || plan_.k.constant_value() % plan_.block_depth == 0;
  }

  MicroKernel kernel_of(const ProductUnit& u, int rows, int panels, const Panels& rhs) const {
    return {.tile = t_,
            .type = type_,
            .storage = plan_.rhs_storage,
            .rows = rows,
            .panels = panels,
            .vectors = vectors_of_only_panel(),
            .half_last = ends_in_half_a_vector(t_, plan_.n) && plan_.parts == 1 &&
                         plan_.dots == Dots::none && type_ == DType::f32,
            .a_row = fixed(u.lhs.row_stride),
            .a_k = fixed(u.lhs.k_stride),
            .b_k = fixed(rhs.k_stride),
            .b_panel = fixed(rhs.panel_stride),
            .depth = whole_blocks() ? fixed(size_.held) : std::nullopt,
            .dots = plan_.dots,
            .unsigned_rhs = plan_.unsigned_rhs};
  }

  llvm::Function* micro(const ProductUnit& u, int rows, int panels, const Panels& rhs, bool exact,
                        int64_t out_row) {
    llvm::Function*& f = micro_[{rows, panels, exact}];
    if (!f) {
      MicroKernel m = kernel_of(u, rows, panels, rhs);
      m.out_row = out_row;
      m.exact = exact;
      m.from_row = plan_.flips_lhs;
      m.adds = plan_.block_depth > 0;
      m.lines_ahead = fetches_ahead() ? 1 : 0;
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
  static constexpr int64_t line = 64;       // bytes
  static constexpr int64_t slow_fetch = 4;  // steps of a low tile for a line
  int64_t panel_lines() const { return int64_t{t_.panel} * size_of(plan_.rhs_storage) / line; }

  // Where a register kernel's sums go, what bytes start from, and the distance between rows where
  // that is not the panels' width.
  struct Out {
    Value *sums, *correction;
    int64_t row = 0;
  };

  // out = the tile's rows times the panels.
  void call_tile(Scope& scope, const ProductUnit& u, Value* tile, Value* width, const Panels& rhs,
                 const StepRange& steps, const Out& out) {
    scope.seek();
    Value* a = element(k_, type_, u.lhs.base, mul(u.cover.first(k_, tile), u.lhs.row_stride));
    Value* height = u.cover.height_of(k_, tile);
    std::vector<Value*> args{a,           u.lhs.row_stride, u.lhs.k_stride,
                             rhs.base,    rhs.k_stride,     rhs.panel_stride,
                             steps.count, out.sums,         out.correction};
    if (!correction_) args.back() = llvm::PoisonValue::get(k_.ir.getPtrTy());
    if (fetches_rows()) {
      args.push_back(element(k_, type_, a, mul(height, u.lhs.row_stride)));
      args.push_back(mul(height, k_.i64(bytes())));
    } else if (fetches_ahead()) {
      Value *step = k_.i64(line), *tiles = k_.i64(panel_lines());
      if (t_.two_heights) {
        Value* many = k_.ir.CreateICmpSGE(u.cover.tiles, mul(tiles, slow_fetch));
        step = k_.ir.CreateSelect(many, k_.i64(line / slow_fetch), step);
        tiles = k_.ir.CreateSelect(many, mul(tiles, slow_fetch), tiles);
      }
      Value* from = mul(mul(size_.depth, step), add(tile, tiles));
      Value* fetches = k_.ir.CreateICmpSLT(tile, tiles);
      Value* ahead = k_.ir.CreateGEP(k_.ir.getInt8Ty(), rhs.base, from);
      args.push_back(k_.ir.CreateSelect(fetches, ahead, a));
      args.push_back(k_.ir.CreateSelect(fetches, step, k_.i64(0)));
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
          kernels[(r * stride + span) * 2 + exact] = micro(u, r, span, rhs, exact, out.row);
      }
    Value* shape = mul(add(mul(height, stride), width), 2);
    if (choice) shape = add(shape, k_.ir.CreateLoad(k_.ir.getInt64Ty(), exact_));
    call_one(scope, shape, kernels, args);
  }

  const atlas::ProductBlock& p_;
  const ProductPlan& plan_;
  const TileModel& t_;
  DType type_;
  std::vector<int> heights_;
  std::map<std::tuple<int, int, bool>, llvm::Function*> micro_;  // by rows, panels, exact
  Sizes size_{};
  std::optional<LhsBlock> lhs_;
  std::optional<RhsPanels> rhs_;
  std::optional<GroupPacker> groups_;
  std::optional<ProductEpilogue> epilogue_;
  std::optional<LoopTail> tail_;
  Value* tile_ = nullptr;                           // sums
  Value* sums_ = nullptr;                           // of all tiles, where k is walked in blocks
  Value *exact_ = nullptr, *correction_ = nullptr;  // of the panels at hand
};

}  // namespace

void emit(CpuFunction& k, const ProductPlan& plan) { ProductEmitter(k, plan).run(); }

}  // namespace hologram::cpu

// backend/cpu/products/winograd.cpp: products over the 3 x 3 windows of an image by Winograd's
// F(2x2, 3x3).
//
// Nothing but image, weights and results touches memory beyond the second-level cache. Up to four
// panels a unit, since each unit transforms its pixels itself: 4 % of its work then.
//
// Infinities, NaN and sums beyond the range spread within a tile's transform, so a result that is
// not finite is computed again by the direct sums, one at a time, in a branch that ordinary data
// never takes. schedule/lower/winograd.cpp says how their taps are read back from the transformed
// weights.
#include "backend/cpu/products/winograd.h"

#include <llvm/IR/Intrinsics.h>

#include <array>
#include <map>

#include "backend/cpu/operands/index_builder.h"
#include "backend/cpu/products/micro.h"
#include "codegen/nest.h"

namespace hologram::cpu {
namespace {

// A unit: the transformed pixels of a block of tiles lie in scratch memory as 16 matrices (tile x
// channel). For each of its panels, 16 small products give 16 matrices (tile x column of the
// panel), of which the tiles' results are taken and passed to the epilogue.
class WinogradEmitter : IndexBuilder {
 public:
  WinogradEmitter(CpuFunction& kernel, const WinogradPlan& plan)
      : IndexBuilder(kernel),
        p_(kernel.program.product()),
        plan_(plan),
        t_(plan_.tile),
        size_(sizes()),
        scratch_(scratch()),
        image_(pixel_bodies()),
        rhs_(panel_body()) {}

  void run() {
    k_.root().seek();
    emit_loop(k_.root(), k_.begin, k_.end, k_.i64(1), true,
              [&](Scope& scope, Value* unit) { emit_unit(scope, unit); });
    k_.root().seek();
    k_.finish();
  }

 private:
  static constexpr DType type = DType::f32;
  static constexpr int m_axis = 0, n_axis = 1, k_axis = 2, image_axis = 3, row_axis = 4,
                       column_axis = 5, channel_axis = 6, own_axes = 7, panel_axis = own_axes + 8;
  using Square = std::array<std::array<Value*, 4>, 4>;
  using Pixels = std::array<std::array<atlas::Body, 4>, 4>;

  // The call's extents and strides, in elements.
  struct Sizes {
    Value *n, *depth, *rows, *columns, *channels;
    Value *tile_rows, *tile_columns, *tiles, *panels, *tile_units, *panel_units;
    Value *height, *width;                     // of the result
    Value *row, *pixels_matrix, *sums_matrix;  // strides in scratch memory
  };

  // Memory of the kernel's call.
  struct Scratch {
    Value *pixels, *sums;  // 16 matrices each: tile x channel, tile x column of a panel
    Value* block_note;     // which block of tiles lies in pixels, and one more
    Value* retry;          // a tile's results while some are replaced
    std::array<Value*, 4> results;
  };

  // The tiles of one unit.
  struct Unit {
    Value *begin, *count;
    Cover cover;
  };

  Sizes sizes() {
    Sizes s{};
    auto extent = [&](int axis) { return number(p_.axes[static_cast<size_t>(axis)].extent); };
    s.n = extent(n_axis);
    s.depth = extent(k_axis);
    s.rows = extent(row_axis);
    s.columns = extent(column_axis);
    s.channels = extent(channel_axis);
    s.tile_rows = number(plan_.tile_rows);
    s.tile_columns = number(plan_.tile_columns);
    s.tiles = number(plan_.tiles);
    s.panels = number(plan_.panels);
    s.tile_units = number(plan_.tile_units);
    s.panel_units = number(plan_.panel_units);
    k_.root().seek();
    s.height = sub(s.rows, k_.i64(2));
    s.width = sub(s.columns, k_.i64(2));
    // Odd numbers of vectors between rows and between matrices keep them out of each other's cache
    // sets.
    s.row = add(round_up(s.channels, 2 * t_.lanes), t_.lanes);
    s.pixels_matrix = add(round_up(mul(s.row, plan_.block_tiles), 2 * t_.lanes), t_.lanes);
    s.sums_matrix = k_.i64(plan_.block_tiles * t_.panel + t_.lanes);
    return s;
  }

  Scratch scratch() {
    Scratch s{};
    Value* pixels = mul(size_.pixels_matrix, 16);
    Value* floats = add(pixels, mul(size_.sums_matrix, 16));
    s.pixels = emit_scratch(k_.root(), mul(floats, 4));
    s.sums = element(k_, type, s.pixels, pixels);
    s.block_note = emit_block_note(k_.root(), s.pixels);
    k_.root().seek();
    s.retry = k_.slot(k_.ir.getFloatTy(), "retry", 4 * t_.lanes);
    for (Value*& y : s.results) y = k_.slot(vector(), "result");
    return s;
  }

  llvm::Type* vector() { return k_.lane_type(type, t_.lanes); }
  bool divides(int by, const Expr& e) const { return e.is_const() && e.constant_value() % by == 0; }
  Expr extent_of(int axis) const { return p_.axes[static_cast<size_t>(axis)].extent; }

  Pixels pixel_bodies() const {
    Pixels out;
    for (size_t i = 0; i < 4; ++i)
      for (size_t j = 0; j < 4; ++j)
        out[i][j] = pixel_body(static_cast<int>(i), static_cast<int>(j));
    return out;
  }

  // The image's body with axes of its own for row i and column j of a tile's pixels.
  atlas::Body pixel_body(int i, int j) const {
    atlas::Body out = p_.image;
    for (atlas::Instr& instr : out.instrs)
      instr.expr = instr.expr.substitute([&](const Atom& a) -> std::optional<Expr> {
        if (a.kind != Atom::Kind::axis) return std::nullopt;
        if (a.id == row_axis) return Expr::axis(own_axes + i, extent_of(row_axis));
        if (a.id == column_axis) return Expr::axis(own_axes + 4 + j, extent_of(column_axis));
        return std::nullopt;
      });
    return out;
  }

  // rhs with an axis of its own for the panel in which a column lies, as do those beside it.
  atlas::Body panel_body() const {
    atlas::Body out = p_.rhs;
    auto is_panel = [&](const Atom& a) {
      if (a.kind != Atom::Kind::floor_div || !a.b->is(t_.panel)) return false;
      const Atom* of = a.a->as_atom();
      return of && of->kind == Atom::Kind::axis && of->id == n_axis;
    };
    for (atlas::Instr& instr : out.instrs)
      instr.expr = instr.expr.substitute([&](const Atom& a) -> std::optional<Expr> {
        if (is_panel(a)) return Expr::axis(panel_axis, plan_.panels);
        return std::nullopt;
      });
    return out;
  }

  void emit_unit(Scope& scope, Value* unit) {
    scope.seek();
    Value* fastest = plan_.tiles_fastest ? size_.tile_units : size_.panel_units;
    Value* tile_unit = div(unit, fastest);
    Value* panel_unit = sub(unit, mul(tile_unit, fastest));
    if (plan_.tiles_fastest) std::swap(tile_unit, panel_unit);
    auto part = [&](Value* number, Value* total, Value* parts) {
      return div(mul(number, total), parts);
    };
    Value* begin = part(tile_unit, size_.tiles, size_.tile_units);
    Value* count = sub(part(add(tile_unit, 1), size_.tiles, size_.tile_units), begin);
    Value* first = part(panel_unit, size_.panels, size_.panel_units);
    Value* last = part(add(panel_unit, 1), size_.panels, size_.panel_units);
    const Unit tiles{begin, count, emit_cover(k_, t_, count, plan_.tile_counts())};
    Value *have = k_.ir.CreateLoad(k_.ir.getInt64Ty(), scratch_.block_note),
          *note = add(tile_unit, 1);
    emit_if(scope, k_.ir.CreateICmpNE(have, note), [&](Scope& s) {
      s.seek();
      k_.ir.CreateStore(note, scratch_.block_note);
      emit_loop(s, k_.i64(0), count, k_.i64(1), true,
                [&](Scope& tile, Value* i) { transform_pixels(tile, tiles, i); });
    });
    emit_loop(scope, first, last, k_.i64(1), true, [&](Scope& s, Value* panel) {
      multiply(s, tiles, panel);
      finish_panel(s, tiles, panel);
    });
  }

  struct Place {
    Value *image, *row, *column;  // of the tile's first result
  };
  Place place_of(Value* tile) {
    Value* line = div(tile, size_.tile_columns);
    Value* image = div(line, size_.tile_rows);
    return {image, mul(sub(line, mul(image, size_.tile_rows)), 2),
            mul(sub(tile, mul(line, size_.tile_columns)), 2)};
  }

  Value* sum(Value* a, Value* b) { return k_.ir.CreateFAdd(a, b); }
  Value* difference(Value* a, Value* b) { return k_.ir.CreateFSub(a, b); }

  // B^T d B of the unit's tile i for all channels. Rows and columns behind the image, of which no
  // result that exists depends, are those at its end.
  void transform_pixels(Scope& scope, const Unit& unit, Value* i) {
    scope.seek();
    Place at = place_of(add(unit.begin, i));
    scope.set_axis(image_axis, at.image);
    for (int j = 0; j < 4; ++j) {
      scope.set_axis(own_axes + j, least(add(at.row, j), add(size_.rows, -1)));
      scope.set_axis(own_axes + 4 + j, least(add(at.column, j), add(size_.columns, -1)));
    }
    Value* out = element(k_, type, scratch_.pixels, mul(i, size_.row));
    auto vectors = [&](Scope& s, Value* offset, Value* mask) {
      s.set_axis(channel_axis, offset);
      s.set_lanes(channel_axis, t_.lanes, mask);
      Square t;
      for (size_t j = 0; j < 4; ++j) {
        std::array<Value*, 4> d;
        for (size_t r = 0; r < 4; ++r) {
          LaneValue x = emit_body(s, image_[r][j]).back();
          s.seek();
          d[r] = splat(k_, x, t_.lanes);
        }
        t[0][j] = difference(d[0], d[2]);
        t[1][j] = sum(d[1], d[2]);
        t[2][j] = difference(d[2], d[1]);
        t[3][j] = difference(d[1], d[3]);
      }
      for (size_t r = 0; r < 4; ++r) {
        std::array v{difference(t[r][0], t[r][2]), sum(t[r][1], t[r][2]),
                     difference(t[r][2], t[r][1]), difference(t[r][1], t[r][3])};
        for (size_t j = 0; j < 4; ++j) {
          Value* index = add(offset, mul(size_.pixels_matrix, static_cast<int64_t>(4 * r + j)));
          k_.ir.CreateAlignedStore(v[j], element(k_, type, out, index), llvm::Align(4));
        }
      }
    };
    if (divides(t_.lanes, extent_of(channel_axis)))
      emit_loop(scope, k_.i64(0), size_.channels, k_.i64(t_.lanes), true,
                [&](Scope& s, Value* offset) {
                  s.seek();
                  vectors(s, offset, nullptr);
                });
    else
      for_vectors(scope, size_.channels, t_.lanes, [&](Scope& s, Value* offset, Value* mask) {
        s.seek();
        vectors(s, offset, mask);
      });
  }

  // The sums: the 16 products of the block's tiles with one panel.
  void multiply(Scope& scope, const Unit& unit, Value* panel) {
    emit_loop(scope, k_.i64(0), k_.i64(16), k_.i64(1), true, [&](Scope& s, Value* matrix) {
      s.seek();
      Value* left = element(k_, type, scratch_.pixels, mul(matrix, size_.pixels_matrix));
      Value* right = element(k_, type, k_.buffer(p_.packed_rhs),
                             mul(mul(add(mul(panel, 16), matrix), size_.channels), t_.panel));
      Value* out = element(k_, type, scratch_.sums, mul(matrix, size_.sums_matrix));
      emit_loop(s, k_.i64(0), unit.cover.tiles, k_.i64(1), true, [&](Scope& inner, Value* tile) {
        inner.seek();
        Value* first = unit.cover.first(k_, tile);
        std::vector<Value*> args{element(k_, type, left, mul(first, size_.row)),
                                 size_.row,
                                 k_.i64(1),
                                 right,
                                 k_.i64(t_.panel),
                                 k_.i64(0),
                                 size_.channels,
                                 element(k_, type, out, mul(first, t_.panel)),
                                 llvm::PoisonValue::get(k_.ir.getPtrTy())};
        // Matrices of weights lie one behind the other: the first tiles of one fetch the next, a
        // line per channel.
        Value* from = mul(mul(size_.channels, cache_line), add(tile, k_.i64(panel_lines())));
        Value* fetches = k_.ir.CreateICmpSLT(tile, k_.i64(panel_lines()));
        Value* ahead = k_.ir.CreateGEP(k_.ir.getInt8Ty(), right, from);
        args.push_back(k_.ir.CreateSelect(fetches, ahead, args[0]));
        args.push_back(k_.ir.CreateSelect(fetches, k_.i64(cache_line), k_.i64(0)));
        std::map<int64_t, llvm::Function*> kernels;
        for (int r : plan_.heights()) kernels[r] = micro(r);
        call_one(inner, unit.cover.height_of(k_, tile), kernels, args);
      });
    });
  }

  static constexpr int64_t cache_line = 64;  // bytes
  int64_t panel_lines() const { return std::max<int64_t>(1, t_.panel * 4 / cache_line); }

  llvm::Function* micro(int rows) {
    llvm::Function*& f = micro_[rows];
    if (!f)
      f = MicroKernel{.tile = t_,
                      .type = type,
                      .storage = type,
                      .rows = rows,
                      .panels = 1,
                      .a_row = fixed(size_.row),
                      .a_k = 1,
                      .b_k = t_.panel,
                      .b_panel = 0,
                      .depth = fixed(size_.channels),
                      .lines_ahead = 1}
              .emit(k_);
    return f;
  }

  // The results of the block's tiles in one panel.
  void finish_panel(Scope& scope, const Unit& unit, Value* panel) {
    scope.seek();
    Value* n_begin = mul(panel, t_.panel);
    Expr all = extent_of(n_axis);
    Value* count =
        divides(t_.panel, all) ? k_.i64(t_.panel) : least(sub(size_.n, n_begin), k_.i64(t_.panel));
    auto column = [&](Scope& s, Value* offset, Value* mask) {
      s.seek();
      s.set_axis(panel_axis, panel);
      s.set_axis(n_axis, add(n_begin, offset));
      s.set_lanes(n_axis, t_.lanes, mask);
      emit_loop(s, k_.i64(0), unit.count, k_.i64(1), true,
                [&](Scope& tile, Value* i) { finish_tile(tile, unit, i, offset); });
    };
    if (divides(t_.lanes, all))
      emit_loop(scope, k_.i64(0), count, k_.i64(t_.lanes), true,
                [&](Scope& s, Value* offset) { column(s, offset, nullptr); });
    else
      for_vectors(scope, count, t_.lanes, column);
  }

  void finish_tile(Scope& scope, const Unit& unit, Value* i, Value* offset) {
    scope.seek();
    Place at = place_of(add(unit.begin, i));
    Value* sums = element(k_, type, scratch_.sums, add(mul(i, t_.panel), offset));
    std::array<std::array<Value*, 4>, 2> s;
    for (size_t j = 0; j < 4; ++j) {
      std::array<Value*, 4> m;
      for (size_t r = 0; r < 4; ++r) {
        Value* p = element(k_, type, sums, mul(size_.sums_matrix, static_cast<int64_t>(4 * r + j)));
        m[r] = k_.ir.CreateAlignedLoad(vector(), p, llvm::Align(4));
      }
      s[0][j] = sum(sum(m[0], m[1]), m[2]);
      s[1][j] = difference(difference(m[1], m[2]), m[3]);
    }
    for (size_t r = 0; r < 2; ++r) {
      k_.ir.CreateStore(sum(sum(s[r][0], s[r][1]), s[r][2]), scratch_.results[2 * r]);
      k_.ir.CreateStore(difference(difference(s[r][1], s[r][2]), s[r][3]),
                        scratch_.results[2 * r + 1]);
    }
    std::array<Value*, 4> exists{k_.ir.getTrue(), second(at.column, size_.width, column_axis),
                                 second(at.row, size_.height, row_axis), nullptr};
    exists[3] = k_.ir.CreateAnd(exists[1], exists[2]);
    std::array<Value*, 4> m;
    for (int q = 0; q < 4; ++q) {
      Value* line = add(mul(at.image, size_.height), add(at.row, q / 2));
      m[static_cast<size_t>(q)] = add(mul(line, size_.width), add(at.column, q % 2));
    }
    retry(scope, m, exists);
    for (size_t q = 0; q < 4; ++q)
      emit_if(scope, exists[q], [&](Scope& pixel) {
        pixel.seek();
        pixel.set_axis(m_axis, m[q]);
        pixel.set_accumulator(0, {k_.ir.CreateLoad(vector(), scratch_.results[q]), true});
        emit_body(pixel, p_.epilogue);
      });
  }

  // Whether a tile's second row or column exists.
  Value* second(Value* first, Value* extent, int axis) {
    if (divides(2, extent_of(axis))) return k_.ir.getTrue();
    return k_.ir.CreateICmpSLT(add(first, 1), extent);
  }

  Value* not_finite(Value* x) {
    Value* zero = k_.ir.CreateFSub(x, x);  // NaN for infinities too
    return k_.ir.CreateFCmpUNO(zero, zero);
  }

  // Replaces what is not finite in scratch_.results by the direct sums of rows m.
  void retry(Scope& scope, const std::array<Value*, 4>& m, const std::array<Value*, 4>& exists) {
    scope.seek();
    Value* all = nullptr;
    for (Value* slot : scratch_.results) {
      Value* y = k_.ir.CreateLoad(vector(), slot);
      Value* zero = k_.ir.CreateFSub(y, y);
      all = all ? k_.ir.CreateFAdd(all, zero) : zero;
    }
    Value* some = k_.ir.CreateFCmpUNO(all, all);
    emit_if(scope, k_.ir.CreateOrReduce(some), [&](Scope& slow) {
      slow.seek();
      for (int q = 0; q < 4; ++q) {
        auto n = static_cast<size_t>(q);
        Value* y = k_.ir.CreateLoad(vector(), scratch_.results[n]);
        k_.ir.CreateStore(y, element(k_, type, scratch_.retry, k_.i64(int64_t{q} * t_.lanes)));
      }
      emit_loop(slow, k_.i64(0), k_.i64(4), k_.i64(1), true, [&](Scope& each, Value* q) {
        each.seek();
        Value *row = m[0], *here = exists[0];
        for (int64_t i = 1; i < 4; ++i) {
          Value* is = k_.ir.CreateICmpEQ(q, k_.i64(i));
          row = k_.ir.CreateSelect(is, m[static_cast<size_t>(i)], row);
          here = k_.ir.CreateSelect(is, exists[static_cast<size_t>(i)], here);
        }
        emit_if(each, here, [&](Scope& s) {
          s.seek();
          s.set_axis(m_axis, row);
          Value* chain = direct(s);
          Value* p = element(k_, type, scratch_.retry, mul(q, t_.lanes));
          Value* y = k_.ir.CreateAlignedLoad(vector(), p, llvm::Align(4));
          k_.ir.CreateAlignedStore(k_.ir.CreateSelect(not_finite(y), chain, y), p, llvm::Align(4));
        });
      });
      slow.seek();
      for (size_t q = 0; q < 4; ++q) {
        Value* p = element(k_, type, scratch_.retry, k_.i64(static_cast<int64_t>(q) * t_.lanes));
        k_.ir.CreateStore(k_.ir.CreateAlignedLoad(vector(), p, llvm::Align(4)),
                          scratch_.results[q]);
      }
    });
    scope.seek();
  }

  // The sums of one row and the scope's columns, a chain per block of k.
  Value* direct(Scope& scope) {
    Value* zero = llvm::Constant::getNullValue(vector());
    auto chain = [&](Scope& s, Value* begin, Value* end) {
      return emit_loop(s, begin, end, k_.i64(1), true, {zero},
                       [&](Scope& inner, Value* k, std::vector<Value*> carried) {
                         inner.seek();
                         inner.set_axis(k_axis, k);
                         LaneValue x = emit_body(inner, p_.lhs).back();
                         LaneValue y = emit_body(inner, rhs_).back();
                         inner.seek();
                         return std::vector{multiply_add(k_, type, splat(k_, x, t_.lanes),
                                                         splat(k_, y, t_.lanes), carried[0])};
                       })[0];
    };
    Value* size = k_.i64(atlas::product_block);
    Value* first = chain(scope, k_.i64(0), least(size_.depth, size));
    return emit_loop(scope, size, size_.depth, size, false, {first},
                     [&](Scope& s, Value* begin, std::vector<Value*> carried) {
                       s.seek();
                       Value* more = chain(s, begin, least(add(begin, size), size_.depth));
                       s.seek();
                       return std::vector{sum(carried[0], more)};
                     })[0];
  }

  const atlas::ProductBlock& p_;
  const WinogradPlan plan_;
  const TileModel t_;
  const Sizes size_;
  const Scratch scratch_;
  const Pixels image_;
  const atlas::Body rhs_;
  std::map<int, llvm::Function*> micro_;  // by rows
};

}  // namespace

void emit(CpuFunction& k, const WinogradPlan& plan) {
  if (plan.heights().empty()) return k.finish();  // no images
  WinogradEmitter(k, plan).run();
}

}  // namespace hologram::cpu

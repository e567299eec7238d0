// backend/webgpu/wgsl/product.cpp: products by tiles in the workgroup's memory.
#include <array>

#include "backend/webgpu/wgsl/blocks.h"
#include "base/error.h"
#include "gpu/operands.h"
#include "gpu/products.h"

namespace hologram::webgpu::wgsl {
namespace {

// A workgroup of 8 x 8 threads, each with 4 x 4 sums, over 16 values of k at a time.
constexpr int tile = 32, depth = 16, side = 4, across = tile / side;
constexpr gpu::Tiling tiling{.rows = tile, .columns = tile, .threads = across * across};
static_assert(tiling.threads == workgroup);

void require_rendered(const atlas::ProductBlock& b) {
  if (b.reproducible) unrendered("products whose order of sums is promised");
  if (const auto why = gpu::unrendered_form(b)) unrendered("{}", *why);
  if (b.acc_type != DType::f32 && b.acc_type != DType::i32)
    unrendered("sums of products in {}", name_of(b.acc_type));
}

class ProductWriter {
 public:
  ProductWriter(Unit& unit, const atlas::ProductBlock& b)
      : unit_(unit),
        b_(b),
        rank_(static_cast<size_t>(b.batch_rank)),
        m_(rank_),
        n_(rank_ + 1),
        k_(rank_ + 2) {}

  void write() {
    write_epilogue();
    unit_.entry("main", tiling.tiles(b_), workgroup, true, [&] { write_main(); });
    constexpr int each = 1 + depth + 2 * tile * depth / workgroup;
    unit_.set_rounds(ceil_div(b_.axes[k_].extent, Expr(depth)) * Expr(each) +
                     Expr(stores_in_turn() ? side * side : 0));
  }

 private:
  std::string extent(size_t axis) { return index_text(unit_, b_.axes[axis].extent, scope_); }
  std::string_view held() const { return held_as(b_.acc_type); }

  // A function of the batch axes, m, n and the sum.
  void write_epilogue() {
    Scope scope;
    std::string parameters;
    for (size_t k = 0; k <= n_; ++k) {
      scope.axes[static_cast<int>(k)] = fmt::format("i_{}", k);
      parameters += fmt::format("i_{}: i32, ", k);
    }
    scope.accumulators = {"sum"};
    unit_.block([&] { BodyWriter(unit_, scope).write(b_.epilogue); }, "fn epilogue({}sum: {})",
                parameters, held());
  }

  void write_main() {
    unit_.line("let tiles_n = ({} + {}) / {};", extent(n_), tile - 1, tile);
    unit_.line("let tiles_m = ({} + {}) / {};", extent(m_), tile - 1, tile);
    unit_.line("let batch = unit / (tiles_n * tiles_m);");
    write_coordinates(unit_, scope_, b_.axes, 0, rank_, "batch");
    unit_.line("let begin_m = unit / tiles_n % tiles_m * {};", tile);
    unit_.line("let begin_n = unit % tiles_n * {};", tile);
    unit_.line("let row = i32(lane) / {} * {};", across, side);
    unit_.line("let column = i32(lane) % {} * {};", across, side);
    for (int r = 0; r < side; ++r)
      for (int c = 0; c < side; ++c) unit_.line("var s{}{} = {}(0);", r, c, held());
    left_ = unit_.shared("left", b_.acc_type, depth * (tile + 1));
    right_ = unit_.shared("right", b_.acc_type, depth * (tile + 1));
    unit_.block(
        [&] {
          load_tile(b_.lhs, b_.operand_type, m_, "begin_m", left_);
          load_tile(b_.rhs, b_.rhs_type(), n_, "begin_n", right_);
          unit_.line("workgroupBarrier();");
          multiply();
          unit_.line("workgroupBarrier();");
        },
        "for (var begin_k = 0; begin_k < {}; begin_k = begin_k + {})", extent(k_), depth);
    store();
  }

  void load_tile(const atlas::Body& body, DType type, size_t axis, std::string_view begin,
                 const std::string& to) {
    const bool along_k = gpu::lies_along(body, static_cast<int>(k_));
    unit_.block(
        [&] {
          unit_.line("let outer = {};",
                     along_k ? fmt::format("e / {}", depth) : fmt::format("e % {}", tile));
          unit_.line("let inner = {};",
                     along_k ? fmt::format("e % {}", depth) : fmt::format("e / {}", tile));
          unit_.line("let x = {} + outer;", begin);
          unit_.line("let k = begin_k + inner;");
          unit_.line("var element = {}(0);", held());
          unit_.block(
              [&] {
                Scope scope = scope_;
                scope.axes[static_cast<int>(axis)] = "x";
                scope.axes[static_cast<int>(k_)] = "k";
                BodyWriter writer(unit_, scope);
                writer.write(body);
                unit_.line("element = {};",
                           cast_text(unit_, ir::Op::cast, writer.last(),
                                     is_float(type) ? DType::f32 : type, b_.acc_type));
              },
              "if (x < {} && k < {})", extent(axis), extent(k_));
          unit_.line("{}[inner * {} + outer] = element;", to, tile + 1);
        },
        "for (var e = i32(lane); e < {}; e = e + {})", tile * depth, workgroup);
  }

  void multiply() {
    unit_.block(
        [&] {
          for (int r = 0; r < side; ++r)
            unit_.line("let l{} = {}[k * {} + row + {}];", r, left_, tile + 1, r);
          for (int c = 0; c < side; ++c)
            unit_.line("let r{} = {}[k * {} + column + {}];", c, right_, tile + 1, c);
          const bool real = is_float(b_.acc_type);
          for (int r = 0; r < side; ++r)
            for (int c = 0; c < side; ++c)
              if (real)
                unit_.line("s{0}{1} = fma(l{0}, r{1}, s{0}{1});", r, c);
              else
                unit_.line("s{0}{1} = l{0} * r{1} + s{0}{1};", r, c);
        },
        "for (var k = 0; k < {}; k = k + 1)", depth);
  }

  void store() {
    std::string batch;
    for (size_t k = 0; k < rank_; ++k) batch += scope_.axes[static_cast<int>(k)] + ", ";
    if (stores_in_turn()) return store_in_turn(batch);
    for (int r = 0; r < side; ++r)
      unit_.block(
          [&] {
            for (int c = 0; c < side; ++c)
              unit_.line(
                  "if (begin_n + column + {1} < {2}) {{ epilogue({3}begin_m + row + {0}, begin_n + "
                  "column + {1}, s{0}{1}); }}",
                  r, c, extent(n_), batch);
          },
          "if (begin_m + row + {} < {})", r, extent(m_));
  }

  // Drivers write a function out wherever it is called: a long epilogue, GELU's say, is called in
  // one place. llvmpipe took 12.6 s to compile sixteen.
  bool stores_in_turn() const { return b_.epilogue.instrs.size() > 16; }
  void store_in_turn(const std::string& batch) {
    std::string sums;
    for (int e = 0; e < side * side; ++e)
      sums += fmt::format("{}s{}{}", e == 0 ? "" : ", ", e / side, e % side);
    unit_.line("var sums = array<{}, {}>({});", held(), side * side, sums);
    unit_.block(
        [&] {
          unit_.line("let at_m = begin_m + row + e / {};", side);
          unit_.line("let at_n = begin_n + column + e % {};", side);
          unit_.line("if (at_m < {} && at_n < {}) {{ epilogue({}at_m, at_n, sums[e]); }}",
                     extent(m_), extent(n_), batch);
        },
        "for (var e = 0; e < {}; e = e + 1)", side * side);
  }

  Unit& unit_;
  const atlas::ProductBlock& b_;
  const size_t rank_, m_, n_, k_;
  Scope scope_;
  std::string left_, right_;
};

}  // namespace

void write_block(Unit& unit, const atlas::ProductBlock& b) {
  require_rendered(b);
  ProductWriter(unit, b).write();
}

}  // namespace hologram::webgpu::wgsl

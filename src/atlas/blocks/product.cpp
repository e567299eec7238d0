// atlas/blocks/product.cpp: what holds between the fields of products.
#include "atlas/blocks/product.h"

#include <algorithm>
#include <set>

#include "atlas/verifier.h"

namespace hologram::atlas {
namespace {

void check_packed(const ProductBlock& b, Verifier& v) {
  require(b.panel_width > 0 && b.panel_width <= limits::panel_width,
          "product: panels of {} columns", b.panel_width);
  require(b.panel_group == 1 || b.panel_group == 2 || b.panel_group == 4,
          "product: groups of {} in panels; expected 1, 2 or 4", b.panel_group);
  // Groups of four bytes may be written as words.
  const auto number = static_cast<size_t>(b.packed_rhs);
  const bool words = b.terms == 0 && b.panel_group == 4 && size_of(b.rhs_type()) == 1 &&
                     number < v.program().buffers.size() &&
                     v.program().buffers[number].dtype == DType::u32;
  DType type = b.terms > 0 || words ? DType::u32 : b.rhs_type();
  const Buffer& buffer = v.access(b.packed_rhs, type, "product, packed operand", false);
  auto rank = static_cast<size_t>(b.batch_rank);
  Expr depth = b.winograd ? Expr(16) * b.axes[6].extent : b.axes[rank + 2].extent;
  Expr panel = b.terms > 0 ? ceil_div(depth, 32) * Expr(b.terms * 16 * b.panel_width)
                           : ceil_div(depth, b.panel_group) *
                                 Expr(b.panel_width * (words ? 1 : b.panel_group));
  Expr panels = b.parts > 1 ? ceil_div(b.axes[rank + 3].extent, b.panel_width) * Expr(b.parts)
                            : ceil_div(b.axes[rank + 1].extent, b.panel_width);
  Expr size = panels * panel;
  for (size_t k = 0; k < rank; ++k) size *= b.axes[k].extent;
  require(!provably_less(buffer.extent, size), "product: b{} has {} elements; its panels are {}",
          b.packed_rhs, buffer.extent, size);
}

void check_winograd(const ProductBlock& b) {
  require(b.batch_rank == 0 && b.operand_type == DType::f32 && b.acc_type == DType::f32 &&
              !b.reproducible && b.packed_rhs >= 0 && b.panel_group == 1,
          "product: winograd serves packed float32 without a batch, and nothing reproducible");
  auto extent = [&](size_t k) { return b.axes[k].extent; };
  Expr height = extent(4) - Expr(2), width = extent(5) - Expr(2);
  require(extent(0) == extent(3) * height * width && extent(2) == Expr(9) * extent(6),
          "product: winograd over {} rows and a depth of {}, but an image {}x{}x{}x{}", extent(0),
          extent(2), extent(3), extent(4), extent(5), extent(6));
  require(provably_nonnegative(height - Expr(1)) && provably_nonnegative(width - Expr(1)),
          "product: winograd over an image without windows");
}

}  // namespace

void verify_block(const ProductBlock& b, Verifier& v) {
  require(b.parts >= 1 && b.parts <= limits::product_parts && (b.parts == 1 || !b.winograd),
          "product: {} parts; expected 1 to {}, and 1 with winograd", b.parts,
          limits::product_parts);
  require(b.acc_type != DType::b8 && compute_type(b.acc_type) == b.acc_type &&
              b.operand_type != DType::b8 && is_float(b.acc_type) == is_float(b.operand_type),
          "product: no sum in {} of operands in {}", name_of(b.acc_type), name_of(b.operand_type));
  require(!b.mixed || ((b.operand_type == DType::i8 || b.operand_type == DType::u8) &&
                       b.acc_type == DType::i32),
          "product: operands of both signs are i8 and u8, summed in i32");
  require(b.precision >= 0 && b.precision <= 2, "product: precision {}; expected 0, 1 or 2",
          b.precision);
  require(b.terms >= 0 && b.terms <= 3, "product: {} terms; expected 0 to 3", b.terms);
  require(b.terms == 0 ||
              (!b.reproducible && b.acc_type == DType::f32 &&
               (b.operand_type == DType::f32 || (b.operand_type == DType::bf16 && b.terms == 1))),
          "product: no {} terms of {}", b.terms, name_of(b.operand_type));
  if (b.packed_rhs >= 0) check_packed(b, v);
  if (b.winograd) check_winograd(b);
  if (b.parts > 1) {
    size_t n = b.axes.size();
    const Expr &columns = b.axes[n - 3].extent, &of_part = b.axes[n - 1].extent;
    require(columns == Expr(b.parts) * of_part, "product: {} columns are not {} parts of {}",
            columns, b.parts, of_part);
  }
}

// What the epilogue stores is read where it stored it alone, and nothing that the tail stores is
// read by the product.
void verify_tail(const ProductBlock& b, Verifier& v) {
  const LoopBlock& t = b.tail;
  require(b.parts == 1 && b.terms == 0 && !b.winograd,
          "tail: the product has parts, terms or is one of winograd");
  auto rank = static_cast<size_t>(b.batch_rank) + 1;
  require(t.axes.size() == rank + 1 && t.parallel_rank == static_cast<int>(rank) &&
              std::equal(t.axes.begin(), t.axes.end(), b.axes.begin(),
                         [](const Axis& x, const Axis& y) { return x.extent == y.extent; }),
          "tail: the axes are not those of the product's rows and columns");
  require(t.lane_axis == -1 || t.lane_axis == static_cast<int>(rank),
          "tail: lane axis {}; expected the row axis, or -1", t.lane_axis);
  verify_block(t, v);
  std::set<int> stored;
  for (const Stage& s : t.stages)
    for (const Instr& i : s.body.instrs)
      if (i.code == Code::store) stored.insert(i.buffer);
  for (const Body* x : {&b.lhs, &b.rhs, &b.epilogue})
    for (const Instr& i : x->instrs)
      require(i.code != Code::load || !stored.count(i.buffer),
              "tail: it stores b{}, which the product reads", i.buffer);
  require(b.packed_rhs < 0 || !stored.count(b.packed_rhs),
          "tail: it stores b{}, which the product reads", b.packed_rhs);
  for (const Instr& e : b.epilogue.instrs) {
    if (e.code != Code::store) continue;
    auto apart = [&](const Instr& i) {
      bool uses = (i.code == Code::load || i.code == Code::store) && i.buffer == e.buffer;
      return uses && !(i.expr == e.expr && i.expr.has_axis(static_cast<int>(rank)));
    };
    for (const Stage& s : t.stages)
      require(std::none_of(s.body.instrs.begin(), s.body.instrs.end(), apart),
              "tail: it uses b{} elsewhere than where the epilogue stored", e.buffer);
  }
  int64_t bytes = 0;
  for (const Buffer& s : v.program().buffers) {
    if (s.access != Access::scratch) continue;
    require(s.extent.is_const() && s.extent.constant_value() <= limits::tail_scratch_bytes,
            "tail: scratch of {} elements", s.extent);
    bytes += s.extent.constant_value() * size_of(s.dtype);
  }
  require(bytes <= limits::tail_scratch_bytes, "tail: {} bytes of scratch; expected at most {}",
          bytes, limits::tail_scratch_bytes);
}

}  // namespace hologram::atlas

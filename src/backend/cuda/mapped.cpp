// backend/cuda/mapped.cpp: matrices by their index expressions.
#include "backend/cuda/mapped.h"

#include <algorithm>
#include <tuple>

namespace hologram::cuda {
namespace {

constexpr int most_batch_axes = 3;  // beside two of five dimensions

}  // namespace

void MappedFactor::set_box(int run, int count, int step) {
  matrix.box.assign(matrix.sizes.size(), 1);
  matrix.box[0] = run;
  matrix.box[1] = depth_run ? count : step;
  if (planes) matrix.box.back() = static_cast<int>(matrix.sizes.back().constant_value());
}

namespace {

// Where the coordinate of axis `a` appears divided by a number alone, that number, and the
// expression with the quotient in the axis's place.
std::optional<std::pair<int64_t, Expr>> without_division(const Expr& e, int a) {
  int64_t by = 0;
  bool one = true;
  auto replaced = [&](const Expr& with) {
    return e.substitute([&](const Atom& atom) -> std::optional<Expr> {
      if (atom.kind != Atom::Kind::floor_div || !atom.b->is_const()) return std::nullopt;
      const auto head = atom.a->linear_in_axis(a);
      const int64_t n = atom.b->constant_value();
      if (!head || !head->first.is(1) || !head->second.is(0)) return std::nullopt;
      one = one && (by == 0 || by == n);
      by = n;
      return with;
    });
  };
  const Expr rest = replaced(Expr(0));
  const auto other = rest.linear_in_axis(a);
  if (by == 0 || !one || !other || !other->first.is(0)) return std::nullopt;
  return std::pair{by, replaced(Expr::axis(a, Expr(int64_t{1} << 40)))};
}

}  // namespace

std::optional<MappedFactor> mapped_operand(const atlas::Program& program, const MappedOperand& of) {
  const atlas::Instr& load = of.body->instrs.front();
  if (of.body->instrs.size() != 1 || load.code != atlas::Code::load ||
      load.args[0] != atlas::no_value || load.type != of.type || of.batch_rank > most_batch_axes)
    return std::nullopt;
  const atlas::Buffer& buffer = program.buffers[static_cast<size_t>(load.buffer)];
  if (buffer.access != atlas::Access::read || buffer.dtype != load.type) return std::nullopt;
  Expr rest = load.expr;
  bool linear = true;
  auto take = [&](int a) {  // what the coordinate is multiplied by
    const auto along = rest.linear_in_axis(a);
    linear = linear && along && !along->first.has_axes();
    if (!linear) return Expr(0);
    rest = along->second;
    return along->first;
  };
  const Expr along_k = take(of.depth_axis), along_x = take(of.axis);
  auto extent = [&](int a) { return of.axes[static_cast<size_t>(a)].extent; };
  MappedFactor out{{}, along_k.is(1)};
  MappedMatrix& m = out.matrix;
  if (!along_k.is(1) && !along_x.is(1)) return std::nullopt;
  m.type = load.type;
  m.sizes = {extent(of.depth_axis), extent(of.axis)};
  m.strides = {out.depth_run ? along_x : along_k};
  if (!out.depth_run) std::swap(m.sizes[0], m.sizes[1]);
  for (int a = 0; a < of.batch_rank; ++a) {
    int64_t by = 1;
    if (const auto divided = without_division(rest, a)) std::tie(by, rest) = *divided;
    const Expr along = take(a);
    // The same matrix for each: the coordinate stays 0.
    m.sizes.push_back(along.is(0) ? Expr(1) : ceil_div(extent(a), Expr(by)));
    m.strides.push_back(along.is(0) ? m.strides[0] : along);
    out.shared.push_back(by);
  }
  if (!linear || rest.has_axes()) return std::nullopt;
  m.first = rest;
  for (int b = 0; b < load.buffer; ++b)
    m.buffer += program.buffers[static_cast<size_t>(b)].access != atlas::Access::scratch;
  return out;
}

std::optional<MappedFactor> mapped_factor(const atlas::Program& program, bool right) {
  const atlas::ProductBlock& block = program.product();
  auto out = mapped_operand(
      program,
      {right ? &block.rhs : &block.lhs, right ? block.rhs_type() : block.operand_type, block.axes,
       block.batch_rank, block.batch_rank + (right ? 1 : 0), block.batch_rank + 2});
  if (out && std::ranges::any_of(out->shared, [](int64_t by) { return by != 1; }))
    return std::nullopt;
  return out;
}

}  // namespace hologram::cuda

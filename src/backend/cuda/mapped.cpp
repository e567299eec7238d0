// backend/cuda/mapped.cpp: matrices by their index expressions.
#include "backend/cuda/mapped.h"

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

std::optional<MappedFactor> mapped_factor(const atlas::Program& program, bool right) {
  const atlas::ProductBlock& block = program.product();
  const atlas::Body& body = right ? block.rhs : block.lhs;
  const DType type = right ? block.rhs_type() : block.operand_type;
  const int axis = block.batch_rank + (right ? 1 : 0);
  const atlas::Instr& load = body.instrs.front();
  if (body.instrs.size() != 1 || load.code != atlas::Code::load ||
      load.args[0] != atlas::no_value || load.type != type || block.batch_rank > most_batch_axes)
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
  const int depth_axis = block.batch_rank + 2;
  const Expr along_k = take(depth_axis), along_x = take(axis);
  auto extent = [&](int a) { return block.axes[static_cast<size_t>(a)].extent; };
  MappedFactor out{{}, along_k.is(1)};
  MappedMatrix& m = out.matrix;
  if (!along_k.is(1) && !along_x.is(1)) return std::nullopt;
  m.type = load.type;
  m.sizes = {extent(depth_axis), extent(axis)};
  m.strides = {out.depth_run ? along_x : along_k};
  if (!out.depth_run) std::swap(m.sizes[0], m.sizes[1]);
  for (int a = 0; a < block.batch_rank; ++a) {
    const Expr along = take(a);
    // The same matrix for each: the coordinate stays 0.
    m.sizes.push_back(along.is(0) ? Expr(1) : extent(a));
    m.strides.push_back(along.is(0) ? m.strides[0] : along);
  }
  if (!linear || rest.has_axes()) return std::nullopt;
  m.first = rest;
  for (int b = 0; b < load.buffer; ++b)
    m.buffer += program.buffers[static_cast<size_t>(b)].access != atlas::Access::scratch;
  return out;
}

}  // namespace hologram::cuda

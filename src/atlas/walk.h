// atlas/walk.h: visits of everything that a block program holds, whatever its kind of block.
//
// What reads or rewrites all bodies, axes or expressions of a program goes through these, so that a
// new kind of block is a new case of `with_block` and of nothing else.
#pragma once

#include <type_traits>

#include "atlas/program.h"
#include "base/error.h"

namespace hologram::atlas {

/// Calls f with the program's block, as its own type, and returns what f does. A product's tail is
/// not part of its block. Program is const or not; f sees the block accordingly, here and below.
template <class P, class F>
decltype(auto) with_block(P& program, F&& f) {
  static_assert(std::is_same_v<std::remove_const_t<P>, Program>);
  switch (program.kind) {
    case BlockKind::loop:
      return f(program.loop);
    case BlockKind::product:
      return f(program.product);
    case BlockKind::attention:
      return f(program.attention);
    case BlockKind::attention_grad:
      return f(program.attention_grad);
    case BlockKind::sort:
      return f(program.sort);
  }
  fail(ErrorCode::invalid_argument, "program: unknown block kind {}",
       static_cast<int>(program.kind));
}

/// The stages of a loop or of a product's tail, in order.
template <class P, class F>
void for_each_stage(P& program, F&& f) {
  if (program.kind != BlockKind::loop && program.kind != BlockKind::product) return;
  for (auto& stage : program.loop.stages) f(stage);
}

/// Every body: those of stages, then those of the block. Absent ones are empty.
template <class P, class F>
void for_each_body(P& program, F&& f) {
  for_each_stage(program, [&](auto& stage) { f(stage.body); });
  with_block(program, [&](auto& block) {
    if constexpr (requires { block.bodies(); })
      for (auto* body : block.bodies()) f(*body);
  });
}

template <class P, class F>
void for_each_instr(P& program, F&& f) {
  for_each_body(program, [&](auto& body) {
    for (auto& instr : body.instrs) f(instr);
  });
}

/// Every axis, those of a product's tail first.
template <class P, class F>
void for_each_axis(P& program, F&& f) {
  if (program.has_tail())
    for (auto& axis : program.loop.axes) f(axis);
  with_block(program, [&](auto& block) {
    for (auto& axis : block.axes) f(axis);
  });
}

/// Every expression: extents of buffers and axes, then those of instructions.
template <class P, class F>
void for_each_expr(P& program, F&& f) {
  for (auto& buffer : program.buffers) f(buffer.extent);
  for_each_axis(program, [&](auto& axis) { f(axis.extent); });
  for_each_instr(program, [&](auto& instr) { f(instr.expr); });
}

}  // namespace hologram::atlas

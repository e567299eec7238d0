// atlas/walk.h: visits of everything that a block program holds, whatever its kind of block.
//
// What reads or rewrites all bodies, axes or expressions of a program goes through these, so that
// it knows of no kind of block.
#pragma once

#include <type_traits>
#include <variant>

#include "atlas/program.h"

namespace hologram::atlas {

/// The stages of a loop or of a product's tail, in order. Program is const or not; f sees what it
/// gets accordingly, here and below.
template <class P, class F>
void for_each_stage(P& program, F&& f) {
  static_assert(std::is_same_v<std::remove_const_t<P>, Program>);
  std::visit(
      [&](auto& block) {
        if constexpr (requires { block.stages; })
          for (auto& stage : block.stages) f(stage);
        if constexpr (requires { block.tail; })
          for (auto& stage : block.tail.stages) f(stage);
      },
      program.block);
}

/// Every body: those of stages, then those of the block. Absent ones are empty.
template <class P, class F>
void for_each_body(P& program, F&& f) {
  for_each_stage(program, [&](auto& stage) { f(stage.body); });
  std::visit([&](auto& block) { for_each_block_body(block, f); }, program.block);
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
  std::visit(
      [&](auto& block) {
        if constexpr (requires { block.tail; })
          for (auto& axis : block.tail.axes) f(axis);
        for (auto& axis : block.axes) f(axis);
      },
      program.block);
}

/// Every expression: extents of buffers and axes, then those of instructions.
template <class P, class F>
void for_each_expr(P& program, F&& f) {
  for (auto& buffer : program.buffers) f(buffer.extent);
  for_each_axis(program, [&](auto& axis) { f(axis.extent); });
  for_each_instr(program, [&](auto& instr) { f(instr.expr); });
}

}  // namespace hologram::atlas

// tests/schedule/run_plan.h: a plan run step by step on the interpreter, each slot in memory of its
// own.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "atlas/walk.h"
#include "interp/interp.h"
#include "ir/scalar.h"
#include "schedule/plan.h"

namespace hologram::test {

/// What make_plan gives, each program verified: its symbols are dense, and its expressions know the
/// extents that its axes and values have.
inline schedule::Plan verified_plan(const ir::Graph& g, const schedule::Options& options = {}) {
  ir::verify(g);
  schedule::Plan plan = schedule::make_plan(g, options);
  for (const schedule::Step& s : plan.steps) {
    if (s.kind != schedule::StepKind::kernel) continue;
    const atlas::Program& p = plan.programs[static_cast<size_t>(s.program)];
    EXPECT_EQ(static_cast<size_t>(p.num_symbols), s.symbols.size()) << s.name;
  }
  for (const atlas::Program& p : plan.programs) {
    atlas::verify(p);
    std::vector<Expr> extents;
    std::visit(
        [&](const auto& block) {
          for (const atlas::Axis& a : block.axes) extents.push_back(a.extent);
        },
        p.block);
    auto check = [&](const Expr& e, const atlas::Body* body) {
      e.any_atom([&](const Atom& a) {
        auto id = static_cast<size_t>(a.id);
        if (a.kind == Atom::Kind::axis) {
          EXPECT_EQ(*a.a, extents.at(id)) << disassemble(p);
        } else if (a.kind == Atom::Kind::value) {
          EXPECT_EQ(*a.a, body->instrs.at(id).expr);
        }
        return false;
      });
    };
    atlas::for_each_axis(p, [&](const atlas::Axis& a) { check(a.extent, nullptr); });
    atlas::for_each_body(p, [&](const atlas::Body& b) {
      for (const atlas::Instr& i : b.instrs) check(i.expr, &b);
    });
  }
  return plan;
}

/// Runs a plan of a graph without host calls on random inputs; the bytes of each output.
inline std::vector<std::vector<char>> run_plan(const schedule::Plan& plan, const std::vector<int64_t>& symbols, uint64_t seed = 1) {
  using schedule::SlotKind;
  std::vector<std::vector<char>> memory;
  for (const schedule::Slot& s : plan.slots) {
    auto& bytes = memory.emplace_back(static_cast<size_t>(s.bytes.eval(symbols)));
    if (s.kind != SlotKind::input) continue;
    std::mt19937_64 random(seed + static_cast<uint64_t>(s.index));
    auto size = static_cast<size_t>(size_of(s.dtype));
    for (size_t at = 0; at < bytes.size(); at += size) {
      double x = std::normal_distribution<double>()(random);
      uint64_t bits = is_float(s.dtype) ? ir::bits_of(s.dtype, x) : random() % 2;
      std::memcpy(&bytes[at], &bits, size);
    }
  }
  for (const schedule::Step& s : plan.steps) {
    atlas::Program p = plan.programs[static_cast<size_t>(s.program)];
    atlas::expand_math(p);
    std::vector<void*> bufs;
    for (int b : s.buffers) bufs.push_back(memory[static_cast<size_t>(b)].data());
    std::vector<int64_t> sizes;
    for (const Expr& e : s.symbols) sizes.push_back(e.eval(symbols));
    std::atomic<int32_t> sticky = 0;
    interp::run(p, bufs.data(), sizes.data(), &sticky);
    EXPECT_EQ(sticky, 0) << s.name;
  }
  std::vector<std::vector<char>> out;
  for (const schedule::PlanOutput& o : plan.outputs) out.push_back(memory[static_cast<size_t>(o.slot)]);
  return out;
}

}  // namespace hologram::test

// tests/schedule/run_plan.h: plans whose expressions are looked at, run on random inputs.
#pragma once

#include "atlas/walk.h"
#include "ir/scalar.h"
#include "support/test.h"
#include "unit/plan_run.h"

namespace hologram::test {

/// What make_plan gives, each program verified: its symbols are dense, and its expressions know the extents that its axes and values have.
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

/// Runs a plan of a graph without host calls on random inputs; the bits of each output.
inline std::vector<std::vector<uint64_t>> run_plan(const schedule::Plan& plan, const std::vector<int64_t>& symbols, uint64_t seed = 1) {
  std::map<int, Tensor> parameters;
  for (const schedule::Slot& s : plan.slots) {
    if (s.kind != schedule::SlotKind::input) continue;
    std::vector<int64_t> shape;
    for (const Expr& d : s.shape) shape.push_back(d.eval(symbols));
    Tensor& t = parameters[s.index] = filled(s.dtype, shape, 0);
    std::mt19937_64 random(seed + static_cast<uint64_t>(s.index));
    std::normal_distribution<double> normal;
    for (uint64_t& bits : t.bits) bits = is_float(s.dtype) ? ir::bits_of(s.dtype, normal(random)) : random() % 2;
  }
  std::vector<std::vector<uint64_t>> out;
  for (const Tensor& t : PlanRunner(plan).run(parameters, symbols)) out.push_back(t.bits);
  return out;
}

}  // namespace hologram::test

// backend/webgpu/wgsl/loop.cpp: loops: a thread for each point, or a workgroup where rows are long.
#include "backend/webgpu/wgsl/blocks.h"
#include "backend/webgpu/wgsl/body.h"
#include "backend/webgpu/wgsl/teams.h"
#include "base/error.h"
#include "gpu/loops.h"

namespace hologram::webgpu::wgsl {
namespace {

using atlas::Reduction;
using atlas::Stage;
using atlas::StageKind;

bool is_arg(ir::Op op) { return ir::info(op).kind == ir::OpKind::reduce_index; }

class LoopWriter {
 public:
  LoopWriter(Unit& unit, const atlas::LoopBlock& block, bool teams)
      : unit_(unit), block_(block), teams_(teams) {}

  void write() {
    write_coordinates(unit_, scope_, block_.axes, 0, static_cast<size_t>(block_.parallel_rank),
                      "unit");
    if (block_.axes.size() > static_cast<size_t>(block_.parallel_rank)) {
      rows_ = unit_.fresh("rows");
      unit_.line("let {} = {};", rows_, index_text(unit_, gpu::row_of(block_), scope_));
    }
    bool first = true;
    for (const Stage& stage : block_.stages) {
      if (teams_ && !first) unit_.line("storageBarrier(); workgroupBarrier();");
      first = false;
      if (stage.kind == StageKind::point)
        alone([&] { body(stage.body); });
      else if (stage.kind == StageKind::row)
        row_stage(stage);
      else
        serial_stage(stage);
    }
  }

 private:
  // Runs by one thread of the team.
  template <class F>
  void alone(F&& inside) {
    if (teams_)
      unit_.block(inside, "if (lane == 0u)");
    else
      unit_.block(inside, "");
  }

  void body(const atlas::Body& b) { BodyWriter(unit_, scope_).write(b); }

  template <class F>
  void for_rows(bool shared, F&& inside) {
    const std::string r = unit_.fresh("r");
    unit_.block(
        [&] {
          write_coordinates(unit_, scope_, block_.axes, static_cast<size_t>(block_.parallel_rank),
                            block_.axes.size(), r);
          inside(r);
        },
        "for (var {} = {}; {} < {}; {} = {} + {})", r, shared ? "i32(lane)" : "0", r, rows_, r, r,
        shared ? workgroup : 1);
  }

  void serial_stage(const Stage& stage) {
    std::vector<std::string> names;
    for (const auto& [op, type] : stage.running) {
      names.push_back(unit_.fresh("a"));
      unit_.line("var {}: {} = {};", names.back(), held_as(type), identity_text(unit_, op, type));
      if (op == ir::Op::reduce_sum && type == DType::f32)
        unit_.line("var {}_low = 0.0;", names.back());
      scope_.accumulators.push_back(names.back());
    }
    alone([&] { for_rows(false, [&](const std::string&) { body(stage.body); }); });
    if (!teams_) return;
    for (size_t k = 0; k < names.size(); ++k) share(names[k], stage.running[k].second);
  }

  // The first thread's value for all.
  void share(const std::string& name, DType type) {
    const std::string cell = unit_.shared("shared", type, 1);
    unit_.line("if (lane == 0u) {{ {}[0] = {}; }}", cell, name);
    unit_.line("workgroupBarrier();");
    unit_.line("{} = {}[0];", name, cell);
  }

  // What a thread has of a reduction: a value or, of an index, the best element, its number and
  // what is reported of it. Sums of f32 are of sums of 64.
  struct Partial {
    std::string value = {}, part = {}, row = {}, position = {};
  };

  static bool in_parts(const Reduction& r) {
    return r.op == ir::Op::reduce_sum && r.type == DType::f32;
  }

  Partial begin(const Reduction& r) {
    Partial p{.value = unit_.fresh("a")};
    if (is_arg(r.op)) {
      p.row = unit_.fresh("best");
      p.position = unit_.fresh("position");
      unit_.line("var {}: {};", p.value, held_as(r.type));
      unit_.line("var {} = -1;", p.row);
      unit_.line("var {}: vec2<u32>;", p.position);
      return p;
    }
    unit_.line("var {}: {} = {};", p.value, held_as(r.type), identity_text(unit_, r.op, r.type));
    if (!in_parts(r)) return p;
    p.part = unit_.fresh("part");
    unit_.line("var {} = 0.0;", p.part);
    return p;
  }

  // Whether x, element `row`, takes the place of the best one.
  std::string better(const Reduction& r, const Partial& best, const std::string& x,
                     const std::string& row) {
    const ir::Op op = ir::Op::lt;
    const bool largest = r.op == ir::Op::reduce_argmax;
    auto less = [&](const std::string& a, const std::string& b) {
      return arithmetic_text(unit_, op, r.type, r.type, {a, b});
    };
    std::string out = largest ? less(best.value, x) : less(x, best.value);
    std::string same = arithmetic_text(unit_, ir::Op::eq, r.type, r.type, {x, best.value});
    if (is_float(r.type)) {
      const std::string_view nan = unit_.helper("is_nan");
      out = fmt::format("({} || ({}({}) && !{}({})))", out, nan, x, nan, best.value);
      same = fmt::format("({} || ({}({}) && {}({})))", same, nan, x, nan, best.value);
    }
    return fmt::format("{} < 0 || {} || ({} && {} < {})", best.row, out, same, row, best.row);
  }

  void take(const Reduction& r, const Partial& p, BodyWriter& body, const std::string& row) {
    const std::string x = body.value(r.value);
    if (is_arg(r.op)) {
      unit_.block(
          [&] {
            unit_.line("{} = {};", p.value, x);
            unit_.line("{} = {};", p.row, row);
            unit_.line("{} = {};", p.position,
                       r.position == atlas::no_value
                           ? fmt::format("{}({})", unit_.helper("wide"), row)
                           : body.value(r.position));
          },
          "if ({})", better(r, p, x, row));
      return;
    }
    const std::string& sum = in_parts(r) ? p.part : p.value;
    unit_.line("{} = {};", sum, combine_text(unit_, r.op, r.type, sum, x));
    if (!in_parts(r)) return;
    unit_.line("if ((({} / {}) & 63) == 63) {{ {} = {} + {}; {} = 0.0; }}", row,
               teams_ ? workgroup : 1, p.value, p.value, p.part, p.part);
  }

  void row_stage(const Stage& stage) {
    std::vector<Partial> partials;
    for (const Reduction& r : stage.reductions) partials.push_back(begin(r));
    for_rows(teams_, [&](const std::string& row) {
      BodyWriter writer(unit_, scope_);
      writer.write(stage.body);
      for (size_t k = 0; k < partials.size(); ++k)
        take(stage.reductions[k], partials[k], writer, row);
    });
    for (size_t k = 0; k < partials.size(); ++k) {
      const Reduction& r = stage.reductions[k];
      const Partial& p = partials[k];
      if (in_parts(r)) unit_.line("{} = {} + {};", p.value, p.value, p.part);
      if (teams_) is_arg(r.op) ? join_best(r, p) : join_threads(unit_, r.op, r.type, p.value);
      scope_.accumulators.push_back(is_arg(r.op) ? p.position : p.value);
    }
  }

  void join_best(const Reduction& r, const Partial& p) {
    const std::string values = unit_.shared("values", r.type, workgroup);
    const std::string rows = unit_.shared("numbers", DType::i32, workgroup);
    const std::string places = unit_.shared("places", DType::i64, workgroup);
    unit_.line("{}[lane] = {}; {}[lane] = {}; {}[lane] = {};", values, p.value, rows, p.row, places,
               p.position);
    write_halving(unit_, [&](const std::string& other) {
      const Partial mine{.value = values + "[lane]", .row = rows + "[lane]", .position = {}};
      const std::string x = fmt::format("{}[{}]", values, other);
      const std::string row = fmt::format("{}[{}]", rows, other);
      unit_.block(
          [&] {
            unit_.line("{}[lane] = {}; {}[lane] = {}; {}[lane] = {}[{}];", values, x, rows, row,
                       places, places, other);
          },
          "if ({} >= 0 && ({}))", row, better(r, mine, x, row));
    });
    unit_.line("{} = {}[0];", p.position, places);
  }

  Unit& unit_;
  const atlas::LoopBlock& block_;
  const bool teams_;
  Scope scope_;
  std::string rows_;
};

// The larger one of its values at the first and at the last point.
Expr largest(const std::vector<atlas::Axis>& axes, const Expr& e) {
  if (!e.has_axes()) return e;
  auto at = [&](bool last) {
    return e.substitute([&](const Atom& a) -> std::optional<Expr> {
      if (a.kind != Atom::Kind::axis) return std::nullopt;
      return last ? max(axes[static_cast<size_t>(a.id)].extent - Expr(1), Expr(0)) : Expr(0);
    });
  };
  return largest(axes, max(at(false), at(true)));
}

}  // namespace

void write_coordinates(Unit& unit, Scope& scope, const std::vector<atlas::Axis>& axes, size_t first,
                       size_t last, const std::string& number) {
  std::string rest = number;
  for (size_t k = last; k-- > first;) {
    const std::string name = unit.fresh("i");
    if (k == first) {
      unit.line("let {} = {};", name, rest);
    } else {
      const std::string extent = index_text(unit, axes[k].extent, scope);
      const std::string next = unit.fresh("rest");
      unit.line("let {} = {} / {};", next, rest, extent);
      unit.line("let {} = {} - {} * {};", name, rest, next, extent);
      rest = next;
    }
    scope.axes[static_cast<int>(k)] = name;
  }
}

void write_block(Unit& unit, const atlas::LoopBlock& b) {
  const bool teams = gpu::mapping_of(unit.program, {.least_row = 32}) == gpu::Mapping::team;
  unit.entry("main", gpu::points_of(b.axes, 0, b.parallel_rank), workgroup, teams,
             [&] { LoopWriter(unit, b, teams).write(); });
  const Expr rows = largest(b.axes, gpu::row_of(b));
  Expr rounds(0);
  for (const Stage& stage : b.stages)
    if (stage.kind != StageKind::point)
      rounds += teams && stage.kind == StageKind::row
                    ? ceil_div(rows, Expr(workgroup)) +
                          Expr(join_rounds * static_cast<int64_t>(stage.reductions.size()))
                    : rows;
  unit.set_rounds(rounds);
}

}  // namespace hologram::webgpu::wgsl

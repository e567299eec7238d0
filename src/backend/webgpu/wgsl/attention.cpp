// backend/webgpu/wgsl/attention.cpp: attention, a workgroup for each query, online over keys.
#include "backend/webgpu/wgsl/attention.h"

#include <cstdlib>

#include "backend/webgpu/wgsl/teams.h"
#include "base/error.h"

namespace hologram::webgpu::wgsl {

int64_t depth_of(const Expr& depth) {
  constexpr int64_t most = 1024;
  if (!gpu::at_most(depth, most)) unrendered("attention of depth {}", depth.str());
  return depth.constant_value();
}

std::string element(Unit& unit, Scope scope, const atlas::Body& body,
                    std::initializer_list<std::pair<size_t, std::string>> axes) {
  for (const auto& [axis, at] : axes) scope.axes[static_cast<int>(axis)] = at;
  BodyWriter writer(unit, scope);
  writer.write(body);
  return writer.last();
}

namespace {

// Sums of it and a coordinate have 32 bits.
bool is_small(const Expr& offset) {
  constexpr int64_t most = int64_t{1} << 30;
  return !offset.is_const() || std::abs(offset.constant_value()) <= most;
}

}  // namespace

void write_key_range(Unit& unit, const Scope& scope, size_t query_axis, const Expr& keys,
                     const atlas::KeyBounds& bounds, bool causal) {
  const std::string& query = scope.axes.at(static_cast<int>(query_axis));
  std::string begin = "0", behind = index_text(unit, keys, scope);
  if (causal) behind = fmt::format("min({}, {} + 1)", behind, query);
  const auto& [first, last] = bounds;
  auto at = [&](const atlas::KeyBound& bound) {
    const std::string offset = index_text(unit, bound.offset, scope);
    return bound.by_query ? fmt::format("{} + {}", query, offset) : offset;
  };
  if (first && is_small(first->offset))
    begin = fmt::format("max({}, 0) / {} * {}", at(*first), workgroup, workgroup);
  if (last && is_small(last->offset)) behind = fmt::format("min({}, {} + 1)", behind, at(*last));
  unit.line("let begin = {};", begin);
  unit.line("let behind = {};", behind);
}

namespace {

class AttentionWriter {
 public:
  AttentionWriter(Unit& unit, const atlas::AttentionBlock& b)
      : unit_(unit),
        b_(b),
        sizes_(gpu::sizes_of(b)),
        query_(static_cast<size_t>(b.batch_rank)),
        depth_(depth_of(sizes_.depth)),
        width_(depth_of(sizes_.values)) {}

  void write() {
    unit_.entry("main", gpu::points_of(b_.axes, 0, b_.batch_rank + 1), workgroup, true,
                [&] { write_main(); });
    const Expr blocks = ceil_div(sizes_.keys, Expr(workgroup));
    unit_.set_rounds(blocks * Expr(depth_ + workgroup + 2 * join_rounds) + Expr(depth_));
  }

 private:
  int64_t sums() const { return columns_of(width_); }

  void write_main() {
    write_coordinates(unit_, scope_, b_.axes, 0, query_ + 1, "unit");
    write_key_range(unit_, scope_, query_, sizes_.keys, sizes_.bounds, b_.causal);
    const std::string q = unit_.shared("query", DType::f32, std::max<int64_t>(depth_, 1));
    unit_.block(
        [&] {
          unit_.line("{}[d] = {};", q, element(unit_, scope_, b_.q, {{query_ + 2, "d"}}));
        },
        "for (var d = i32(lane); d < {}; d = d + {})", depth_, workgroup);
    scores_ = unit_.shared("scores", DType::f32, workgroup);
    unit_.line("var top: f32 = {}(0xff800000u);", unit_.helper("special"));
    unit_.line("var total = 0.0;");
    for (int64_t s = 0; s < sums(); ++s) unit_.line("var sum{} = 0.0;", s);
    unit_.line("workgroupBarrier();");
    unit_.block([&] { key_block(q); },
                "for (var first = begin; first < behind; first = first + {})", workgroup);
    for (int64_t s = 0; s < sums(); ++s) finish(s);
    write_lse();
  }

  void key_block(const std::string& q) {
    unit_.line("let key = first + i32(lane);");
    unit_.line("var score: f32 = {}(0xff800000u);", unit_.helper("special"));
    unit_.block([&] { score(q); }, "if (key < behind)");
    unit_.line("var largest = score;");
    join_threads(unit_, ir::Op::reduce_max, DType::f32, "largest");
    unit_.line("let before = top;");
    unit_.line("top = {}(top, largest);", unit_.helper("larger"));
    unit_.line("let none = {};", is_lowest("top"));
    unit_.line("let weight = select(exp(score - top), 0.0, none || {});", is_lowest("score"));
    unit_.line("let scale = select(exp(before - top), 0.0, none || {});", is_lowest("before"));
    unit_.line("{}[lane] = weight;", scores_);
    unit_.line("var weights = weight;");
    join_threads(unit_, ir::Op::reduce_sum, DType::f32, "weights");
    unit_.line("total = total * scale + weights;");
    for (int64_t s = 0; s < sums(); ++s) unit_.line("sum{0} = sum{0} * scale;", s);
    unit_.block([&] { add_values(); }, "for (var j = 0; j < min({}, behind - first); j = j + 1)",
                workgroup);
    unit_.line("workgroupBarrier();");
  }

  void score(const std::string& q) {
    write_score(
        unit_, depth_, b_.scale, [&] { return q + "[d]"; },
        [&] {
          return element(unit_, scope_, b_.k, {{query_ + 1, "key"}, {query_ + 2, "d"}});
        });
    if (b_.score.instrs.empty()) {
      unit_.line("score = scaled;");
      return;
    }
    Scope scope = scope_;
    scope.axes[static_cast<int>(query_ + 1)] = "key";
    scope.accumulators = {"scaled"};
    BodyWriter writer(unit_, scope);
    writer.write(b_.score);
    unit_.line("score = {};", writer.last());
  }

  void add_values() {
    unit_.line("let weight_j = {}[j];", scores_);
    unit_.line("let key_j = first + j;");
    for (int64_t s = 0; s < sums(); ++s)
      unit_.block(
          [&] {
            unit_.line("let d = i32(lane) + {};", s * workgroup);
            unit_.line("let element = {};",
                       element(unit_, scope_, b_.v, {{query_ + 1, "key_j"}, {query_ + 3, "d"}}));
            unit_.line("if (weight_j != 0.0) {{ sum{0} = fma(weight_j, element, sum{0}); }}", s);
          },
          "if (i32(lane) + {} < {})", s * workgroup, width_);
  }

  void finish(int64_t s) {
    unit_.block(
        [&] {
          unit_.line("let d = i32(lane) + {};", s * workgroup);
          unit_.line("let result = select(sum{} / total, 0.0, total == 0.0);", s);
          Scope scope = scope_;
          scope.axes[static_cast<int>(query_ + 3)] = "d";
          scope.accumulators = {"result"};
          BodyWriter(unit_, scope).write(b_.epilogue);
        },
        "if (i32(lane) + {} < {})", s * workgroup, width_);
  }

  void write_lse() {
    if (b_.lse.instrs.empty()) return;
    unit_.block(
        [&] {
          unit_.line("let result = select(top + log(total), top, total == 0.0);");
          Scope scope = scope_;
          scope.accumulators = {"result"};
          BodyWriter(unit_, scope).write(b_.lse);
        },
        "if (lane == 0u)");
  }

  Unit& unit_;
  const atlas::AttentionBlock& b_;
  const gpu::AttentionSizes sizes_;
  const size_t query_;
  const int64_t depth_, width_;
  Scope scope_;
  std::string scores_;
};

}  // namespace

void write_block(Unit& unit, const atlas::AttentionBlock& b) {
  if (b.reproducible) unrendered("attention whose order of sums is promised");
  AttentionWriter(unit, b).write();
}

}  // namespace hologram::webgpu::wgsl

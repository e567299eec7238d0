// backend/webgpu/wgsl/attention.cpp: attention, a workgroup for each query, online over keys.
#include <cstdlib>

#include "backend/webgpu/wgsl/blocks.h"
#include "base/error.h"
#include "gpu/attention.h"

namespace hologram::webgpu::wgsl {
namespace {

constexpr int64_t most_depth = 1024;

class AttentionWriter {
 public:
  AttentionWriter(Unit& unit, const atlas::AttentionBlock& b)
      : unit_(unit),
        b_(b),
        sizes_(gpu::sizes_of(b)),
        query_(static_cast<size_t>(b.batch_rank)),
        depth_(number_of(sizes_.depth)),
        width_(number_of(sizes_.values)) {}

  void write() {
    unit_.entry("main", gpu::points_of(b_.axes, 0, b_.batch_rank + 1), workgroup, true,
                [&] { write_main(); });
    const Expr blocks = ceil_div(sizes_.keys, Expr(workgroup));
    unit_.set_rounds(blocks * Expr(depth_ + workgroup + 16) + Expr(depth_));
  }

 private:
  static int64_t number_of(const Expr& depth) {
    if (!gpu::at_most(depth, most_depth)) unrendered("attention of depth {}", depth.str());
    return depth.constant_value();
  }
  int64_t sums() const { return (width_ + workgroup - 1) / workgroup; }

  // The element of an operand's body at this key and place of the depth.
  std::string operand(const atlas::Body& body, const std::string& key, size_t axis,
                      const std::string& at) {
    Scope scope = scope_;
    if (!key.empty()) scope.axes[static_cast<int>(query_ + 1)] = key;
    scope.axes[static_cast<int>(axis)] = at;
    BodyWriter writer(unit_, scope);
    writer.write(body);
    return writer.last();
  }

  void write_main() {
    write_coordinates(unit_, scope_, b_.axes, 0, query_ + 1, "unit");
    find_keys();
    const std::string q = unit_.shared("query", DType::f32, std::max<int64_t>(depth_, 1));
    unit_.block([&] { unit_.line("{}[d] = {};", q, operand(b_.q, "", query_ + 2, "d")); },
                "for (var d = i32(lane); d < {}; d = d + {})", depth_, workgroup);
    scores_ = unit_.shared("scores", DType::f32, workgroup);
    cells_ = unit_.shared("cells", DType::f32, workgroup);
    unit_.line("var top: f32 = {}(0xff800000u);", unit_.helper("special"));
    unit_.line("var total = 0.0;");
    for (int64_t s = 0; s < sums(); ++s) unit_.line("var sum{} = 0.0;", s);
    unit_.line("workgroupBarrier();");
    unit_.block([&] { key_block(q); },
                "for (var first = begin; first < behind; first = first + {})", workgroup);
    for (int64_t s = 0; s < sums(); ++s) finish(s);
    write_lse();
  }

  // No others count: what a causal query and its score's body leave out for certain.
  void find_keys() {
    const std::string& query = scope_.axes[static_cast<int>(query_)];
    std::string begin = "0", behind = index_text(unit_, sizes_.keys, scope_);
    if (b_.causal) behind = fmt::format("min({}, {} + 1)", behind, query);
    const auto& [first, last] = sizes_.bounds;
    auto at = [&](const atlas::KeyBound& bound) {
      const std::string offset = index_text(unit_, bound.offset, scope_);
      return bound.by_query ? fmt::format("{} + {}", query, offset) : offset;
    };
    if (first && is_small(first->offset))
      begin = fmt::format("max({}, 0) / {} * {}", at(*first), workgroup, workgroup);
    if (last && is_small(last->offset)) behind = fmt::format("min({}, {} + 1)", behind, at(*last));
    unit_.line("let begin = {};", begin);
    unit_.line("let behind = {};", behind);
  }
  // Sums of it and a coordinate have 32 bits.
  static bool is_small(const Expr& offset) {
    constexpr int64_t most = int64_t{1} << 30;
    return !offset.is_const() || std::abs(offset.constant_value()) <= most;
  }

  void key_block(const std::string& q) {
    unit_.line("let key = first + i32(lane);");
    unit_.line("var score: f32 = {}(0xff800000u);", unit_.helper("special"));
    unit_.block([&] { score(q); }, "if (key < behind)");
    reduce("score", "larger");
    unit_.line("let before = top;");
    unit_.line("top = {}(top, {}[0]);", unit_.helper("larger"), cells_);
    unit_.line("workgroupBarrier();");
    unit_.line("let none = bitcast<u32>(top) == 0xff800000u;");
    unit_.line(
        "let weight = select(exp(score - top), 0.0, none || bitcast<u32>(score) == "
        "0xff800000u);");
    unit_.line(
        "let scale = select(exp(before - top), 0.0, none || bitcast<u32>(before) == "
        "0xff800000u);");
    unit_.line("{}[lane] = weight;", scores_);
    reduce("weight", "");
    unit_.line("total = total * scale + {}[0];", cells_);
    for (int64_t s = 0; s < sums(); ++s) unit_.line("sum{0} = sum{0} * scale;", s);
    unit_.block([&] { add_values(); }, "for (var j = 0; j < min({}, behind - first); j = j + 1)",
                workgroup);
    unit_.line("workgroupBarrier();");
  }

  void score(const std::string& q) {
    unit_.line("var dot = 0.0;");
    unit_.block(
        [&] { unit_.line("dot = fma({}[d], {}, dot);", q, operand(b_.k, "key", query_ + 2, "d")); },
        "for (var d = 0; d < {}; d = d + 1)", depth_);
    const float scale = static_cast<float>(b_.scale);
    unit_.line("let scaled = dot * {};",
               constant_text(unit_, DType::f32, std::bit_cast<uint32_t>(scale)));
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

  // Of all threads, into cells[0]: the largest by a helper, or the sum.
  void reduce(std::string_view value, std::string_view helper) {
    unit_.line("{}[lane] = {};", cells_, value);
    unit_.line("workgroupBarrier();");
    const std::string mine = cells_ + "[lane]", other = cells_ + "[lane + half]";
    const std::string joined = helper.empty()
                                   ? fmt::format("{} + {}", mine, other)
                                   : fmt::format("{}({}, {})", unit_.helper(helper), mine, other);
    unit_.block(
        [&] {
          unit_.line("if (lane < half) {{ {} = {}; }}", mine, joined);
          unit_.line("workgroupBarrier();");
        },
        "for (var half = {}u; half > 0u; half = half >> 1u)", workgroup / 2);
  }

  void add_values() {
    unit_.line("let weight_j = {}[j];", scores_);
    unit_.line("let key_j = first + j;");
    for (int64_t s = 0; s < sums(); ++s)
      unit_.block(
          [&] {
            unit_.line("let d = i32(lane) + {};", s * workgroup);
            unit_.line("let element = {};", operand(b_.v, "key_j", query_ + 3, "d"));
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
  std::string scores_, cells_;
};

}  // namespace

void write_block(Unit& unit, const atlas::AttentionBlock& b) {
  if (b.reproducible) unrendered("attention whose order of sums is promised");
  AttentionWriter(unit, b).write();
}

}  // namespace hologram::webgpu::wgsl

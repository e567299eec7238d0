// backend/webgpu/wgsl/attention.cpp: attention, a workgroup for each query, online over keys.
#include "backend/webgpu/wgsl/blocks.h"
#include "base/error.h"

namespace hologram::webgpu::wgsl {
namespace {

constexpr int64_t most_depth = 1024;

class AttentionWriter {
 public:
  AttentionWriter(Unit& unit, const atlas::AttentionBlock& b)
      : unit_(unit),
        b_(b),
        query_(static_cast<size_t>(b.batch_rank)),
        depth_(size_of_axis(query_ + 2)),
        width_(size_of_axis(query_ + 3)) {}

  void write() {
    unit_.entry("main", points_of(b_.axes, 0, query_ + 1), workgroup, true, [&] { write_main(); });
    const Expr blocks = ceil_div(b_.axes[query_ + 1].extent, Expr(workgroup));
    unit_.set_rounds(blocks * Expr(depth_ + workgroup + 16) + Expr(depth_));
  }

 private:
  int64_t size_of_axis(size_t axis) const {
    const Expr& e = b_.axes[axis].extent;
    if (!e.is_const() || e.constant_value() > most_depth)
      unrendered("attention of depth {}", e.str());
    return e.constant_value();
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
    keys_ = index_text(unit_, b_.axes[query_ + 1].extent, scope_);
    const std::string q = unit_.shared("query", DType::f32, std::max<int64_t>(depth_, 1));
    unit_.block([&] { unit_.line("{}[d] = {};", q, operand(b_.q, "", query_ + 2, "d")); },
                "for (var d = i32(lane); d < {}; d = d + {})", depth_, workgroup);
    scores_ = unit_.shared("scores", DType::f32, workgroup);
    cells_ = unit_.shared("cells", DType::f32, workgroup);
    unit_.line("var top: f32 = {}(0xff800000u);", unit_.helper("special"));
    unit_.line("var total = 0.0;");
    for (int64_t s = 0; s < sums(); ++s) unit_.line("var sum{} = 0.0;", s);
    unit_.line("workgroupBarrier();");
    unit_.block([&] { key_block(q); }, "for (var first = 0; first < {}; first = first + {})", keys_,
                workgroup);
    for (int64_t s = 0; s < sums(); ++s) finish(s);
    write_lse();
  }

  void key_block(const std::string& q) {
    unit_.line("let key = first + i32(lane);");
    unit_.line("var score: f32 = {}(0xff800000u);", unit_.helper("special"));
    const std::string causal =
        b_.causal ? fmt::format(" && key <= {}", scope_.axes[static_cast<int>(query_)]) : "";
    unit_.block([&] { score(q); }, "if (key < {}{})", keys_, causal);
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
    unit_.block([&] { add_values(); }, "for (var j = 0; j < min({}, {} - first); j = j + 1)",
                workgroup, keys_);
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
  const size_t query_;
  const int64_t depth_, width_;
  Scope scope_;
  std::string keys_, scores_, cells_;
};

}  // namespace

void write_block(Unit& unit, const atlas::AttentionBlock& b) {
  if (b.reproducible) unrendered("attention whose order of sums is promised");
  AttentionWriter(unit, b).write();
}

}  // namespace hologram::webgpu::wgsl

// backend/webgpu/wgsl/attention_grad.cpp: gradients of attention: a workgroup for each query, which
// goes over keys, then one for each key, which goes over queries.
#include <bit>

#include "backend/webgpu/wgsl/attention.h"

namespace hologram::webgpu::wgsl {
namespace {

class GradWriter {
 public:
  GradWriter(Unit& unit, const atlas::AttentionGradBlock& b)
      : unit_(unit),
        b_(b),
        sizes_(gpu::sizes_of(b)),
        member_(static_cast<size_t>(b.batch_rank)),
        depth_(depth_of(sizes_.depth)),
        width_(depth_of(sizes_.width)) {}

  void write() {
    if (!b_.dq.instrs.empty()) {
      unit_.entry("of_queries", gpu::points_of(b_.axes, 0, b_.batch_rank + 2), workgroup, true,
                  [&] { write_query(); });
      unit_.set_rounds(rounds(sizes_.keys));
    }
    if (!b_.dk.instrs.empty() || !b_.dv.instrs.empty()) {
      unit_.entry("of_keys", gpu::points_of(b_.axes, 0, b_.batch_rank) * sizes_.keys, workgroup,
                  true, [&] { write_key(); });
      unit_.set_rounds(sizes_.members * rounds(sizes_.queries));
    }
  }

 private:
  Expr rounds(const Expr& others) const {
    return ceil_div(others, Expr(workgroup)) * Expr(depth_ + width_ + workgroup + 2) +
           Expr(depth_ + width_);
  }
  size_t query() const { return member_ + 1; }
  size_t key() const { return member_ + 2; }
  size_t depth() const { return member_ + 3; }
  size_t width() const { return member_ + 4; }

  using Axes = std::initializer_list<std::pair<size_t, std::string>>;
  std::string at(const atlas::Body& body, Axes axes = {}) {
    return element(unit_, scope_, body, axes);
  }

  // A vector of this query's or key's that all threads read.
  std::string kept(std::string_view stem, const atlas::Body& body, size_t axis, int64_t count) {
    const std::string name = unit_.shared(stem, DType::f32, std::max<int64_t>(count, 1));
    unit_.block(
        [&] {
          unit_.line("{}[d] = {};", name, at(body, {{axis, "d"}}));
        },
        "for (var d = i32(lane); d < {}; d = d + {})", count, workgroup);
    return name + "[d]";
  }

  void declare_sums(std::string_view stem, int64_t count) {
    for (int64_t s = 0; s < columns_of(count); ++s) unit_.line("var {}{} = 0.0;", stem, s);
  }

  void write_query() {
    scope_ = {};
    write_coordinates(unit_, scope_, b_.axes, 0, key(), "unit");
    const std::string q = kept("query", b_.q, depth(), depth_),
                      g = kept("gradient", b_.g, width(), width_);
    const std::string changes = unit_.shared("changes", DType::f32, workgroup);
    declare_sums("dq", depth_);
    write_key_range(unit_, scope_, query(), sizes_.keys, sizes_.bounds, b_.causal);
    unit_.line("workgroupBarrier();");
    unit_.block(
        [&] {
          unit_.line("let key = first + i32(lane);");
          scope_.axes[static_cast<int>(key())] = "key";
          write_terms(
              "key < behind", [&] { return q; },
              [&] {
                return at(b_.k, {{depth(), "d"}});
              },
              [&] { return g; },
              [&] {
                return at(b_.v, {{width(), "d"}});
              });
          unit_.line("{}[lane] = change;", changes);
          unit_.line("workgroupBarrier();");
          unit_.block(
              [&] {
                unit_.line("let other = first + j;");
                add("dq", changes, depth_, [&] {
                  return at(b_.k, {{key(), "other"}, {depth(), "d"}});
                });
              },
              "for (var j = 0; j < min({}, behind - first); j = j + 1)", workgroup);
          unit_.line("workgroupBarrier();");
        },
        "for (var first = begin; first < behind; first = first + {})", workgroup);
    finish("dq", b_.dq, depth(), depth_);
  }

  void write_key() {
    scope_ = {};
    const std::string keys = index_text(unit_, sizes_.keys, {});
    unit_.line("let key = unit % {};", keys);
    unit_.line("let batch = unit / {};", keys);
    write_coordinates(unit_, scope_, b_.axes, 0, member_, "batch");
    scope_.axes[static_cast<int>(key())] = "key";
    const std::string k = kept("key_row", b_.k, depth(), depth_),
                      v = kept("values", b_.v, width(), width_);
    const std::string changes = unit_.shared("changes", DType::f32, workgroup);
    const std::string weights = unit_.shared("weights", DType::f32, workgroup);
    if (!b_.dk.instrs.empty()) declare_sums("dk", depth_);
    if (!b_.dv.instrs.empty()) declare_sums("dv", width_);
    unit_.line("let behind = {};", index_text(unit_, sizes_.queries, scope_));
    unit_.line("workgroupBarrier();");
    scope_.axes[static_cast<int>(member_)] = "member";
    unit_.block(
        [&] {
          unit_.block([&] { query_block(k, v, changes, weights); },
                      "for (var first = {}; first < behind; first = first + {})",
                      b_.causal ? fmt::format("key / {0} * {0}", workgroup) : "0", workgroup);
        },
        "for (var member = 0; member < {}; member = member + 1)",
        index_text(unit_, sizes_.members, scope_));
    finish("dk", b_.dk, depth(), depth_);
    finish("dv", b_.dv, width(), width_);
  }

  void query_block(const std::string& k, const std::string& v, const std::string& changes,
                   const std::string& weights) {
    unit_.line("let query = first + i32(lane);");
    scope_.axes[static_cast<int>(query())] = "query";
    write_terms(
        b_.causal ? "query < behind && key <= query" : "query < behind",
        [&] {
          return at(b_.q, {{depth(), "d"}});
        },
        [&] { return k; },
        [&] {
          return at(b_.g, {{width(), "d"}});
        },
        [&] { return v; });
    unit_.line("{}[lane] = change;", changes);
    unit_.line("{}[lane] = weight;", weights);
    unit_.line("workgroupBarrier();");
    unit_.block(
        [&] {
          unit_.line("let other = first + j;");
          if (!b_.dk.instrs.empty())
            add("dk", changes, depth_, [&] {
              return at(b_.q, {{query(), "other"}, {depth(), "d"}});
            });
          if (!b_.dv.instrs.empty())
            add("dv", weights, width_, [&] {
              return at(b_.g, {{query(), "other"}, {width(), "d"}});
            });
        },
        "for (var j = 0; j < min({}, behind - first); j = j + 1)", workgroup);
    unit_.line("workgroupBarrier();");
  }

  // "weight" and "change", p and s of the block, of the query and the key that the scope has.
  template <class Q, class K, class G, class V>
  void write_terms(std::string_view seen, Q&& q, K&& k, G&& g, V&& v) {
    unit_.line("var weight = 0.0;");
    unit_.line("var change = 0.0;");
    unit_.block(
        [&] {
          write_score(unit_, depth_, b_.scale, q, k);
          Scope scope = scope_;
          scope.accumulators = {"scaled"};
          const bool changed = !b_.score.instrs.empty(), bent = !b_.slope.instrs.empty();
          unit_.line("let score = {};", changed ? element(unit_, scope, b_.score, {}) : "scaled");
          unit_.line("let lse = {};", at(b_.lse));
          unit_.block([&] { write_change(scope, bent, g, v); }, "if (!({} || {}))",
                      is_lowest("score"), is_lowest("lse"));
        },
        "if ({})", seen);
  }
  template <class G, class V>
  void write_change(const Scope& scope, bool bent, G&& g, V&& v) {
    unit_.line("weight = exp(score - lse);");
    unit_.line("var toward = 0.0;");
    unit_.block(
        [&] {
          const std::string x = g(), y = v();
          unit_.line("toward = fma({}, {}, toward);", x, y);
        },
        "for (var d = 0; d < {}; d = d + 1)", width_);
    unit_.line("change = (toward - {}) * weight;", at(b_.delta));
    if (bent) unit_.line("change = change * {};", element(unit_, scope, b_.slope, {}));
    const auto scale = std::bit_cast<uint32_t>(static_cast<float>(b_.scale));
    unit_.line("change = change * {};", constant_text(unit_, DType::f32, scale));
  }

  // What has no weight is left out: it may be infinite.
  template <class Element>
  void add(std::string_view stem, const std::string& factors, int64_t count, Element&& other) {
    for (int64_t s = 0; s < columns_of(count); ++s)
      unit_.block(
          [&] {
            unit_.line("let d = i32(lane) + {};", s * workgroup);
            const std::string x = other();
            unit_.line(
                "if ((bitcast<u32>({0}[j]) << 1u) != 0u) {{ {1}{2} = fma({0}[j], {3}, {1}{2}); }}",
                factors, stem, s, x);
          },
          "if (i32(lane) + {} < {})", s * workgroup, count);
  }

  void finish(std::string_view stem, const atlas::Body& body, size_t axis, int64_t count) {
    if (body.instrs.empty()) return;
    for (int64_t s = 0; s < columns_of(count); ++s)
      unit_.block(
          [&] {
            unit_.line("let d = i32(lane) + {};", s * workgroup);
            Scope scope = scope_;
            scope.axes[static_cast<int>(axis)] = "d";
            scope.accumulators = {fmt::format("{}{}", stem, s)};
            BodyWriter(unit_, scope).write(body);
          },
          "if (i32(lane) + {} < {})", s * workgroup, count);
  }

  Unit& unit_;
  const atlas::AttentionGradBlock& b_;
  const gpu::AttentionGradSizes sizes_;
  const size_t member_;
  const int64_t depth_, width_;
  Scope scope_;
};

}  // namespace

void write_block(Unit& unit, const atlas::AttentionGradBlock& b) {
  if (b.reproducible) unrendered("gradients of attention whose order of sums is promised");
  if (compute_type(b.operand_type) == DType::f64) unrendered("f64 is no type of WGSL");
  GradWriter(unit, b).write();
}

}  // namespace hologram::webgpu::wgsl

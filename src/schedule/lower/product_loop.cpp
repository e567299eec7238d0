// schedule/lower/product_loop.cpp: products as loops: for machines that take products of known
// sizes only, and of one row with a matrix that lies along k.
#include "atlas/order.h"
#include "schedule/cluster/views.h"
#include "schedule/lower/kinds.h"
#include "schedule/lower/lower.h"
#include "schedule/lower/weights.h"

namespace hologram::schedule {

using atlas::AxisKind;
using atlas::Val;
using ir::Value;

namespace {

// Axes: the results' (columns are the lanes), then k.
class ProductLoop {
 public:
  explicit ProductLoop(const Context& cx)
      : cx_(cx), axes_(cx.cluster.axes), dot_(cx.cluster.anchor), k_(cx.storage.slots) {
    for (const ClusterAxis& a : axes_)
      loop().axes.push_back({a.row ? AxisKind::row : AxisKind::parallel, a.extent});
    loop().parallel_rank = static_cast<int>(axes_.size()) - 1;
    loop().lane_axis = loop().parallel_rank - 1;
  }

  atlas::LoopBlock& loop() { return k_.program.loop(); }
  ProgramBuilder& builder() { return k_; }
  DType acc() const {
    return is_int(dot_->dtype) ? dot_->dtype : compute_type(dot_->input(0)->dtype);
  }
  Expr axis(size_t i) const { return Expr::axis(static_cast<int>(i), axes_[i].extent); }
  Expr depth() const { return axes_.back().extent; }
  Expr step() const { return axis(axes_.size() - 1); }

  /// The elements of both operands that a step multiplies.
  std::pair<Val, Val> operands(Emitter& e) const {
    Index at = cx_.placed(cx_.cluster.members[0].index, axes_);
    Index of_lhs(at.begin(), at.end() - 2), of_rhs = of_lhs;
    const size_t last = axes_.size() - 1;
    of_lhs.insert(of_lhs.end(), {axis(last - 2), step()});
    of_rhs.insert(of_rhs.end(), {step(), axis(last - 1)});
    Val x = e.convert(e.value(dot_->input(0), of_lhs), acc());
    return {x, e.convert(e.value(dot_->input(1), of_rhs), acc())};
  }

  /// Writes `body`, which makes the cluster's results of each sum.
  void end(atlas::Body& body, const std::function<Val(atlas::BodyBuilder&)>& sum) {
    Val total;
    Emitter out = cx_.emitter(k_, body, [&](Value v, const Index&) -> std::optional<Val> {
      if (v != dot_) return std::nullopt;
      return total;
    });
    total = out.convert(sum(out.builder()), dot_->dtype);
    AxisMap place;
    for (size_t i = 0; i + 1 < axes_.size(); ++i) place.emplace(axes_[i].id, axis(i));
    cx_.store_results(out, place);
  }

  Kernels finished() {
    Kernels kernels;
    kernels.push_back(finish(k_, cluster_name(cx_.cluster)));
    return kernels;
  }

 private:
  const Context& cx_;
  const std::vector<ClusterAxis>& axes_;
  Value dot_;
  ProgramBuilder k_;
};

}  // namespace

// The sum of finished blocks and the chain of this one lie in scratch memory between two steps
// along k.
Kernels lower_product_as_loop(const Context& cx) {
  ProductLoop p(cx);
  const DType acc = p.acc();
  const Expr block(atlas::product_block);
  const int chain = p.builder().scratch(acc, Expr(1)), sum = p.builder().scratch(acc, Expr(1));
  atlas::Stage begin{atlas::StageKind::point, {}, {}, {}},
      steps{atlas::StageKind::serial_row, {}, {}, {}}, end{atlas::StageKind::point, {}, {}, {}};
  atlas::BodyBuilder zero(begin.body);
  for (int buffer : {chain, sum}) zero.store(buffer, Expr(0), zero.constant(acc, 0));

  Emitter e = cx.emitter(p.builder(), steps.body);
  atlas::BodyBuilder& b = e.builder();
  const auto [x, y] = p.operands(e);
  // A new block adds the one before it to the sum; the first of these is the sum.
  auto joined = [&](atlas::BodyBuilder& to, const Expr& before) {
    Val c = to.load(chain, acc, Expr(0)), s = to.load(sum, acc, Expr(0));
    return to.select(to.le(to.index(before), to.index(block)), c, to.add(s, c));
  };
  Val fresh = b.eq(b.index(mod(p.step(), block)), b.index(Expr(0)));
  b.store(sum, Expr(0), b.select(fresh, joined(b, p.step()), b.load(sum, acc, Expr(0))));
  Val so_far = b.select(fresh, b.constant(acc, 0), b.load(chain, acc, Expr(0)));
  b.store(chain, Expr(0), is_float(acc) ? b.fma(x, y, so_far) : b.add(b.mul(x, y), so_far));
  p.end(end.body, [&](atlas::BodyBuilder& to) { return joined(to, p.depth()); });
  p.loop().stages = {std::move(begin), std::move(steps), std::move(end)};
  return p.finished();
}

// The vector, or the row, stays near; turning squares of the matrix over takes two to three times
// as long.
bool is_sum_of_rows(const Context& cx) {
  constexpr int64_t least_bytes = 128 * 1024, least_depth = 24;  // shorter rows are turned sooner
  const Cluster& c = cx.cluster;
  const Value dot = c.anchor;
  const DType type = dot->input(0)->dtype;
  if (!cx.options.machine->sums_rows || cx.options.reproducible || c.parts > 1 || !c.tail.empty() ||
      dot->input(1)->dtype != type || !(is_float(type) || size_of(type) >= 4))
    return false;
  const size_t n = dot->shape.size() - 1;
  const bool row = dot->shape[n - 1].is(1);
  if (row == dot->shape[n].is(1)) return false;
  const Value matrix = dot->input(row ? 1 : 0);
  // Panels of weights are packed once, on large pages.
  if (row && static_sources(cx.clustering, cx.options, matrix)) return false;
  const Expr& depth = c.axes.back().extent;
  if (depth.is_const() && depth.constant_value() < least_depth) return false;
  const Expr bytes = depth * dot->shape[row ? n : n - 1] * Expr(size_of(type));
  return !(bytes.is_const() && bytes.constant_value() <= least_bytes) &&
         lies_along(cx, matrix, matrix->rank() - (row ? 2 : 1));
}

Kernels lower_product_as_sums(const Context& cx) {
  ProductLoop p(cx);
  p.loop().lane_axis = p.loop().parallel_rank;
  atlas::Stage row{atlas::StageKind::row, {}, {}, {}}, end{atlas::StageKind::point, {}, {}, {}};
  Emitter e = cx.emitter(p.builder(), row.body);
  const auto [x, y] = p.operands(e);
  const Val product = e.builder().mul(x, y);
  row.reductions.push_back({ir::Op::reduce_sum, product.type, product.id, false, atlas::no_value});
  p.end(end.body, [&](atlas::BodyBuilder& to) { return to.accumulator(0, p.acc()); });
  p.loop().stages = {std::move(row), std::move(end)};
  simplify_axes(p.loop(), *cx.options.machine);
  return p.finished();
}

}  // namespace hologram::schedule

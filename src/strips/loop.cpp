// strips/loop.cpp: loop blocks.
#include "strips/blocks.h"

#include <algorithm>

#include "base/error.h"
#include "ir/scalar.h"
#include "strips/reducer.h"

namespace hologram::strips {
namespace {

using atlas::Code;
using atlas::StageKind;

constexpr int64_t lane_work = 60, step_work = 8000;  // picoseconds
constexpr int64_t short_axis = 32;                   // too few lanes
constexpr int64_t short_row = 16;                    // too few, where rows are stacked

int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

struct StagePlan {
  bool rows;
  BodyPlan body;
  std::vector<ReductionPlan> reductions;
  std::vector<std::pair<int, uint64_t>> running;  // bytes and identities
};

// Memory of one thread, cut into pieces.
class Pieces {
 public:
  explicit Pieces(char* memory) : at_(memory) {}
  char* take(int64_t bytes) { return std::exchange(at_, at_ + aligned(bytes)); }

 private:
  char* at_;
};

class Loop final : public Routine {
 public:
  Loop(const atlas::Program& program, const Vectors& vectors)
      : buffers_(program.buffers),
        axes_(program.loop().axes),
        rank_(program.loop().parallel_rank),
        symbols_(static_cast<size_t>(program.num_symbols)) {
    const int own = own_lanes(program.loop());
    good_ = own >= 0 && plan(program, vectors, own);
    if (good_ && is_short(own) && !has_scratch()) {
      stack();
      // Few lanes that stay few: a longer axis beside them.
      const int longer = longer_than(own);
      if (longer != own && (stacked_ < 0 || extent(own).constant() < short_row))
        good_ = plan(program, vectors, longer);
    }
    if (good_) cut();
  }
  bool good() const { return good_; }

  int32_t run(const atlas::Context& context, void* const* buffers, const int64_t* symbols,
              int64_t begin, int64_t end) const override;

 private:
  friend class LoopRun;

  const Expr& extent(int axis) const { return axes_[static_cast<size_t>(axis)].extent; }

  bool has_scratch() const {
    return std::ranges::count(buffers_, atlas::Access::scratch, &atlas::Buffer::access) > 0;
  }

  // The block's own axis.
  int own_lanes(const atlas::LoopBlock& block) const {
    const int last = static_cast<int>(axes_.size()) - 1;
    const int lane = block.lane_axis;
    if (lane >= rank_) return lane == last ? lane : -1;
    if (lane < 0 && has_scratch()) return last >= rank_ ? last : -1;
    return lane < 0 ? rank_ - 1 : lane;
  }

  bool is_short(int lane) const {
    return lane < rank_ && extent(lane).is_const() && 2 * extent(lane).constant() <= most_lanes;
  }

  // A much longer axis beside a short one, or that one.
  int longer_than(int lane) const {
    for (int k = 0; k < rank_; ++k)
      if (extent(lane).is_const() && extent(k).is_const() && extent(lane).constant() < short_axis &&
          extent(k).constant() > 2 * extent(lane).constant())
        lane = k;
    return lane;
  }

  // Several neighbours along another axis at once, the innermost one that goes.
  void stack() {
    if (stages_.size() != 1 || stages_[0].rows || extent(lane_).constant() <= 0) return;
    for (int k = rank_; k-- > 0;) {
      if (k == lane_ || extent(k).is(1) || !stages_[0].body.stack_along(k)) continue;
      stacked_ = k;
      height_ = most_lanes / extent(lane_).constant();
      return;
    }
  }

  bool plan(const atlas::Program& program, const Vectors& vectors, int lane) {
    lane_ = lane;
    lanes_are_points_ = lane < rank_;
    stacked_ = -1;
    height_ = 1;
    stages_.clear();
    accumulators_ = 0;
    instructions_ = 0;
    for (int k = 0; k < static_cast<int>(axes_.size()); ++k)
      if (extent(k).has_axis(lane_)) return false;
    for (const atlas::Stage& s : program.loop().stages) {
      if (s.kind == StageKind::scan) return false;
      if (!lanes_are_points_ && s.kind == StageKind::serial_row && !in_any_order(s)) return false;
      std::vector<ReductionPlan> reductions;
      std::vector<std::pair<int, uint64_t>> running;
      std::vector<atlas::ValueId> kept;
      for (const atlas::Reduction& r : s.reductions) {
        auto reduction = ReductionPlan::of(r, vectors);
        if (!reduction) return false;
        reductions.push_back(*reduction);
        kept.push_back(r.value);
      }
      for (const auto& [op, type] : s.running)
        running.emplace_back(size_of(type), ir::identity_of(op, type));
      accumulators_ += reductions.size() + running.size();
      auto body = BodyPlan::of(s.body, {program, vectors, lane_, lanes_are_points_}, kept);
      if (!body) return false;
      stages_.push_back({s.kind != StageKind::point, std::move(*body), std::move(reductions),
                         std::move(running)});
      instructions_ += static_cast<int64_t>(s.body.instrs.size());
    }
    return true;
  }

  static bool in_any_order(const atlas::Stage& s) {
    if (!s.running.empty()) return false;
    for (const atlas::Instr& i : s.body.instrs)
      for (const atlas::Instr& j : s.body.instrs)
        if (i.code == Code::store && j.code == Code::load && i.buffer == j.buffer) return false;
    return true;
  }

  // Units are strips, or points of which each has strips of its own.
  void cut() {
    total = Expr(1);
    Expr rows(1);
    for (int k = 0; k < static_cast<int>(axes_.size()); ++k) {
      if (k == lane_) continue;
      if (k == stacked_)
        total *= ceil_div(extent(k), Expr(height_));
      else if (k < rank_)
        total *= extent(k);
      else
        rows *= extent(k).has_axes() ? Expr(64) : extent(k);
    }
    Expr lanes = extent(lane_).has_axes() ? Expr(64) : extent(lane_);
    if (lanes_are_points_) {
      total *= ceil_div(lanes, Expr(most_lanes));
      lanes = min(lanes * Expr(height_), Expr(most_lanes));
    }
    unit_work = rows * Expr(std::max<int64_t>(1, instructions_)) *
                (lanes * Expr(lane_work) + Expr(step_work));
  }

  const std::vector<atlas::Buffer> buffers_;
  const std::vector<atlas::Axis> axes_;
  const int rank_;
  const size_t symbols_;
  int lane_ = -1;
  int stacked_ = -1;  ///< axis of which a unit has height_, or -1
  int64_t height_ = 1;
  bool lanes_are_points_ = true, good_ = false;
  std::vector<StagePlan> stages_;
  size_t accumulators_ = 0;
  int64_t instructions_ = 0;
};

// Units of one thread.
class LoopRun {
 public:
  static int64_t bytes(const Loop& loop, std::span<const int64_t> symbols) {
    int64_t sum = 0;
    for (const StagePlan& s : loop.stages_) {
      sum += aligned(s.body.bytes());
      for (const ReductionPlan& r : s.reductions) sum += Reducer::bytes(r, loop.lanes_are_points_);
    }
    sum += static_cast<int64_t>(loop.accumulators_) * most_lanes * 8;
    for (const atlas::Buffer& b : loop.buffers_)
      if (b.access == atlas::Access::scratch)
        sum += aligned(b.extent.eval(symbols) * size_of(b.dtype));
    return sum;
  }

  LoopRun(const Loop& loop, void* const* buffers, std::span<const int64_t> symbols, char* memory)
      : loop_(loop), symbols_(symbols) {
    Pieces pieces(memory);
    frame_.symbols = symbols.data();
    frame_.axes.resize(loop.axes_.size());
    for (const atlas::Buffer& b : loop.buffers_)
      frame_.buffers.push_back(b.access == atlas::Access::scratch
                                   ? pieces.take(b.extent.eval(symbols) * size_of(b.dtype))
                                   : static_cast<char*>(*buffers++));
    for (size_t k = 0; k < loop.accumulators_; ++k) results_.push_back(pieces.take(most_lanes * 8));
    frame_.accumulators = results_;
    stages_.reserve(loop.stages_.size());
    size_t first = 0;
    for (const StagePlan& s : loop.stages_) {
      Stage& stage =
          stages_.emplace_back(s, BodyRunner(s.body, pieces.take(s.body.bytes())), first);
      for (const ReductionPlan& r : s.reductions)
        stage.reducers.emplace_back(r, loop.lanes_are_points_,
                                    pieces.take(Reducer::bytes(r, loop.lanes_are_points_)));
      first += s.reductions.size() + s.running.size();
    }
    for (size_t k = 0; k < loop.axes_.size(); ++k)
      extents_.push_back(loop.axes_[k].extent.has_axes() ? 0 : loop.axes_[k].extent.eval(symbols));
    for (const StagePlan& s : loop.stages_) {
      for (const ReductionPlan& r : s.reductions) widths_.push_back(r.bytes);
      for (const auto& r : s.running) widths_.push_back(r.first);
    }
  }

  int32_t sticky() const { return frame_.sticky; }

  void unit(int64_t number) {
    const auto lane = static_cast<size_t>(loop_.lane_);
    int64_t strip = 0;
    if (loop_.lanes_are_points_) {
      const int64_t strips = (extents_[lane] + most_lanes - 1) / most_lanes;
      strip = number % strips;
      number /= strips;
    }
    for (auto k = static_cast<size_t>(loop_.rank_); k-- > 0;) {
      if (k == lane) continue;
      const bool stacked = static_cast<int>(k) == loop_.stacked_;
      const int64_t count =
          stacked ? (extents_[k] + loop_.height_ - 1) / loop_.height_ : extents_[k];
      frame_.axes[k] = number % count * (stacked ? loop_.height_ : 1);
      number /= count;
      if (stacked) height_ = std::min(loop_.height_, extents_[k] - frame_.axes[k]);
    }
    for (size_t k = static_cast<size_t>(loop_.rank_); k < extents_.size(); ++k)
      if (loop_.axes_[k].extent.has_axes())
        extents_[k] = loop_.axes_[k].extent.eval(symbols_, frame_.axes);
    first_ = strip * most_lanes;
    lanes_ = std::min(most_lanes, extents_[lane] - first_);
    for (Stage& s : stages_) {
      if (!s.plan.rows)
        point(s);
      else if (loop_.lanes_are_points_)
        rows_of_points(s);
      else
        rows(s);
    }
  }

 private:
  struct Stage {
    const StagePlan& plan;
    BodyRunner body;
    size_t first;  // of its accumulators
    std::vector<Reducer> reducers;
  };

  // Calls f(first, n) for each strip of the lanes, behind the body.
  template <class F>
  void strips(Stage& s, int64_t from, int64_t lanes, const F& f) {
    for (int64_t done = 0; done < lanes;) {
      frame_.axes[static_cast<size_t>(loop_.lane_)] = from + done;
      const int64_t n = s.body.begin(frame_, std::min(most_lanes, lanes - done));
      if (loop_.lanes_are_points_)
        for (size_t k = 0; k < results_.size(); ++k)
          frame_.accumulators[k] = results_[k] + done * widths_[k];
      s.body.run(frame_, n, height_);
      f(done, n);
      done += n;
    }
  }

  void point(Stage& s) {
    if (loop_.lanes_are_points_) return strips(s, first_, lanes_, [](int64_t, int64_t) {});
    strips(s, 0, 1, [](int64_t, int64_t) {});
  }

  void begin(Stage& s, int64_t points) {
    for (Reducer& r : s.reducers) r.begin(points);
    for (size_t k = 0; k < s.plan.running.size(); ++k)
      fill(results_[s.first + s.reducers.size() + k], s.plan.running[k].second,
           s.plan.running[k].first, points);
  }
  void finish(Stage& s, int64_t rows) {
    for (size_t k = 0; k < s.reducers.size(); ++k)
      s.reducers[k].finish(rows, results_[s.first + k]);
  }

  // Calls f for each point of the row axes before `end`, in row-major order.
  template <class F>
  void each_row(size_t end, const F& f) {
    const auto begin = static_cast<size_t>(loop_.rank_);
    for (size_t k = begin; k < end; ++k) {
      if (extents_[k] <= 0) return;
      frame_.axes[k] = 0;
    }
    for (;;) {
      f();
      size_t k = end;
      while (k > begin && ++frame_.axes[k - 1] == extents_[k - 1]) frame_.axes[--k] = 0;
      if (k == begin) return;
    }
  }

  void rows_of_points(Stage& s) {
    begin(s, lanes_);
    int64_t row = 0;
    each_row(extents_.size(), [&] {
      strips(s, first_, lanes_, [&](int64_t first, int64_t n) {
        for (size_t k = 0; k < s.reducers.size(); ++k)
          s.reducers[k].push(s.body.value(s.plan.reductions[k].value), row, first, n);
      });
      ++row;
    });
    finish(s, row);
  }

  void rows(Stage& s) {
    begin(s, 1);
    int64_t count = 0;
    each_row(extents_.size() - 1, [&] {
      strips(s, 0, extents_.back(), [&](int64_t, int64_t n) {
        for (size_t k = 0; k < s.reducers.size(); ++k)
          s.reducers[k].push(s.body.value(s.plan.reductions[k].value), n);
        count += n;
      });
    });
    finish(s, count);
  }

  const Loop& loop_;
  std::span<const int64_t> symbols_;
  Frame frame_;
  std::vector<char*> results_;  // of reductions, by accumulator
  std::vector<int> widths_;
  std::vector<Stage> stages_;
  std::vector<int64_t> extents_;
  int64_t first_ = 0, lanes_ = 0, height_ = 1;
};

int32_t Loop::run(const atlas::Context& context, void* const* buffers, const int64_t* symbols,
                  int64_t begin, int64_t end) const {
  const std::span<const int64_t> sizes(symbols, symbols_);
  auto* memory = static_cast<char*>(context.scratch(&context, LoopRun::bytes(*this, sizes)));
  if (!memory) return static_cast<int32_t>(ErrorCode::out_of_memory);
  LoopRun run(*this, buffers, sizes, memory);
  for (int64_t unit = begin; unit < end; ++unit) run.unit(unit);
  if (run.sticky() != 0 && context.sticky_error)
    context.sticky_error->fetch_or(run.sticky(), std::memory_order_relaxed);
  return 0;
}

// Scratch of points that are the lanes of strips: each lane has its own, side by side.
atlas::Program with_scratch_of_lanes(atlas::Program program) {
  atlas::LoopBlock& block = program.loop();
  if (block.lane_axis < 0 || block.lane_axis >= block.parallel_rank) return program;
  const Expr &extent = block.axes[static_cast<size_t>(block.lane_axis)].extent, most(most_lanes);
  const Expr lanes = min(extent, most), lane = mod(Expr::axis(block.lane_axis, extent), most);
  auto is_scratch = [&](int b) {
    return program.buffers[static_cast<size_t>(b)].access == atlas::Access::scratch;
  };
  for (atlas::Stage& s : block.stages)
    for (atlas::Instr& i : s.body.instrs)
      if ((i.code == Code::load || i.code == Code::store) && is_scratch(i.buffer))
        i.expr = i.expr * lanes + lane;
  for (atlas::Buffer& b : program.buffers)
    if (b.access == atlas::Access::scratch) b.extent = b.extent * lanes;
  return program;
}

}  // namespace

std::shared_ptr<const Routine> loop_routine(const atlas::Program& original,
                                            const Vectors& vectors) {
  const atlas::Program program = with_scratch_of_lanes(original);
  auto loop = std::make_shared<Loop>(program, vectors);
  return loop->good() ? loop : nullptr;
}

}  // namespace hologram::strips

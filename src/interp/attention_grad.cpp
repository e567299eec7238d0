// interp/attention_grad.cpp: gradients of attention.
#include <algorithm>
#include <array>
#include <cmath>

#include "atlas/math.h"
#include "interp/lanes.h"
#include "interp/operands.h"
#include "ir/scalar.h"

namespace hologram::interp {
namespace {

using Values = std::vector<uint64_t>;

// Row-major matrices of bits in `type`.
class Gradients {
 public:
  Gradients(const atlas::AttentionGradBlock& block, Frame& frame)
      : block_(block), frame_(frame), type_(compute_type(block.operand_type)) {
    atlas::BodyBuilder b(exponential_);
    atlas::Val x = b.sub(b.accumulator(0, type_), b.accumulator(1, type_));
    b.finish(atlas::emit_math(b, ir::Op::exp, std::array{x}));
    rank_ = static_cast<size_t>(block.batch_rank);
    frame_.axes.resize(block.axes.size());
    frame_.accumulators.assign(2, 0);
    auto extent = [&](size_t axis) {
      return std::max<int64_t>(0, eval_uniform(block.axes[rank_ + axis].extent, frame));
    };
    members_ = extent(0), queries_ = extent(1), keys_ = extent(2), depth_ = extent(3);
    width_ = extent(4);
  }

  void run() {
    Walk batches(batch_extents(block_.axes, rank_, frame_), 0);
    for (int64_t b = 0; b < batches.total(); ++b) {
      batches.coordinates(frame_, b, 1);
      batch();
    }
  }

 private:
  size_t axis(size_t k) const { return rank_ + k; }
  uint64_t op(ir::Op o, uint64_t x, uint64_t y) const {
    return ir::eval_scalar(o, type_, std::array{x, y}, type_);
  }

  Values matrix(const atlas::Body& body, size_t fixed, size_t a, int64_t rows, size_t b,
                int64_t columns, DType from) {
    BodyRunner runner(body);
    return gather(runner, frame_, fixed, axis(a), rows, axis(b), columns, from, type_);
  }

  void batch() {
    DType from = block_.operand_type;
    Values k = matrix(block_.k, rank_, 2, keys_, 3, depth_, from);
    Values kt = matrix(block_.k, rank_, 3, depth_, 2, keys_, from);
    Values vt = matrix(block_.v, rank_, 4, width_, 2, keys_, from);
    Values dk(static_cast<size_t>(keys_ * depth_)), dv(static_cast<size_t>(keys_ * width_));
    for (int64_t m = 0; m < members_; ++m) {
      frame_.axes[axis(0)].fill(m);
      Values q = matrix(block_.q, rank_ + 1, 1, queries_, 3, depth_, from);
      Values g = matrix(block_.g, rank_ + 1, 1, queries_, 4, width_, from);
      Values lse = matrix(block_.lse, rank_ + 1, 3, 1, 1, queries_, type_);
      Values delta = matrix(block_.delta, rank_ + 1, 3, 1, 1, queries_, type_);
      for (int64_t i = 0; i < queries_; ++i) {
        frame_.axes[axis(0)].fill(m);
        frame_.axes[axis(1)].fill(i);
        const uint64_t *qi = q.data() + i * depth_, *gi = g.data() + i * width_;
        Values p(static_cast<size_t>(keys_)), s(p.size());
        probabilities(qi, gi, kt, vt, lse[static_cast<size_t>(i)], delta[static_cast<size_t>(i)], p,
                      s);
        Values dq(static_cast<size_t>(depth_));
        for (int64_t j = 0; j < keys_; ++j) {
          auto n = static_cast<size_t>(j);
          add_row(type_, s[n], k.data() + j * depth_, depth_, dq.data());
          add_row(type_, s[n], qi, depth_, dk.data() + j * depth_);
          add_row(type_, p[n], gi, width_, dv.data() + j * width_);
        }
        store(block_.dq, 3, dq);
      }
    }
    for (int64_t j = 0; j < keys_; ++j) {
      frame_.axes[axis(2)].fill(j);
      auto row = [&](const Values& x, int64_t n) {
        return Values(x.begin() + j * n, x.begin() + (j + 1) * n);
      };
      store(block_.dk, 3, row(dk, depth_));
      store(block_.dv, 4, row(dv, width_));
    }
  }

  void store(const atlas::Body& body, size_t along, const Values& row) {
    if (body.instrs.empty()) return;
    BodyRunner runner(body);
    std::vector<size_t> fixed = numbers_to(rank_ + 3);
    finish_row(runner, frame_, fixed, axis(along), row);
  }

  // Runs a body on a row of scores; axes up to the query are at lane 0 of the frame.
  void map(const atlas::Body& body, const Values& x, Values& out) {
    BodyRunner runner(body);
    for (int64_t j = 0; j < keys_; j += lanes) {
      int n = static_cast<int>(std::min<int64_t>(lanes, keys_ - j));
      for (size_t a = 0; a < rank_ + 2; ++a) frame_.axes[a].fill(frame_.axes[a][0]);
      for (int l = 0; l < n; ++l) frame_.axes[axis(2)][static_cast<size_t>(l)] = j + l;
      frame_.element = x.data() + j;
      runner.run(frame_, n);
      std::copy_n(runner.result(), n, out.data() + j);
    }
    frame_.element = nullptr;
  }

  void probabilities(const uint64_t* q, const uint64_t* g, const Values& kt, const Values& vt,
                     uint64_t lse, uint64_t delta, Values& p, Values& s) {
    uint64_t scale = ir::bits_of(type_, block_.scale);
    uint64_t lowest = ir::identity_of(ir::Op::reduce_max, type_);
    Values x(p.size()), slope;
    row_product(type_, q, kt.data(), keys_, depth_, x.data());
    for (uint64_t& e : x) e = op(ir::Op::mul, e, scale);
    if (!block_.slope.instrs.empty()) map(block_.slope, x, slope = x);
    Values y = x;
    if (!block_.score.instrs.empty()) map(block_.score, x, y);
    if (block_.causal)
      for (int64_t j = frame_.axes[axis(1)][0] + 1; j < keys_; ++j)
        y[static_cast<size_t>(j)] = lowest;
    frame_.accumulators[1] = lse;
    map(exponential_, y, p);
    if (lse == lowest) std::fill(p.begin(), p.end(), 0);
    row_product(type_, g, vt.data(), keys_, width_, s.data());
    for (size_t j = 0; j < s.size(); ++j) {
      s[j] = op(ir::Op::mul, op(ir::Op::sub, s[j], delta), p[j]);
      if (!slope.empty()) s[j] = op(ir::Op::mul, s[j], slope[j]);
      s[j] = op(ir::Op::mul, s[j], scale);
    }
  }

  const atlas::AttentionGradBlock& block_;
  Frame& frame_;
  DType type_;
  atlas::Body exponential_;
  size_t rank_ = 0;
  int64_t members_ = 0, queries_ = 0, keys_ = 0, depth_ = 0, width_ = 0;
};

}  // namespace

void run_block(const atlas::AttentionGradBlock& block, Frame& frame) {
  Gradients(block, frame).run();
}

}  // namespace hologram::interp

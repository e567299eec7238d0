// interp/product.cpp: product and attention blocks.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "atlas/math.h"
#include "atlas/order.h"
#include "atlas/tile_math.h"
#include "base/error.h"
#include "interp/lanes.h"
#include "interp/operands.h"
#include "interp/tiles.h"
#include "ir/scalar.h"

namespace hologram::interp {
namespace {

template <class T>
T from_bits(uint64_t bits) {
  if constexpr (std::is_same_v<T, float>)
    return std::bit_cast<float>(static_cast<uint32_t>(bits));
  else if constexpr (std::is_same_v<T, double>)
    return std::bit_cast<double>(bits);
  else
    return static_cast<T>(bits);
}

template <class T>
uint64_t to_bits(T x) {
  if constexpr (std::is_same_v<T, float>)
    return std::bit_cast<uint32_t>(x);
  else if constexpr (std::is_same_v<T, double>)
    return std::bit_cast<uint64_t>(x);
  else
    return x;
}

template <class T>
void row_product(const uint64_t* lhs, const uint64_t* rhs, int64_t columns, int64_t depth,
                 uint64_t* out) {
  std::vector<T> chain(static_cast<size_t>(columns)), sum(static_cast<size_t>(columns));
  for (int64_t begin = 0; begin < depth; begin += atlas::product_block) {
    std::fill(chain.begin(), chain.end(), T{});
    for (int64_t k = begin; k < std::min(depth, begin + atlas::product_block); ++k) {
      T x = from_bits<T>(lhs[k]);
      const uint64_t* row = rhs + k * columns;
      for (size_t n = 0; n < chain.size(); ++n) {
        T y = from_bits<T>(row[n]);
        if constexpr (std::is_floating_point_v<T>)
          chain[n] = std::fma(x, y, chain[n]);
        else
          chain[n] = static_cast<T>(chain[n] + x * y);
      }
    }
    for (size_t n = 0; n < sum.size(); ++n)
      sum[n] = begin == 0 ? chain[n] : static_cast<T>(sum[n] + chain[n]);
  }
  for (size_t n = 0; n < sum.size(); ++n) out[n] = to_bits<T>(sum[n]);
}

}  // namespace

std::vector<uint64_t> gather(BodyRunner& body, Frame& frame, size_t rank, size_t axis_a, int64_t a,
                             size_t axis_b, int64_t b, DType from, DType to) {
  std::vector<uint64_t> out(static_cast<size_t>(a * b));
  Frame inner = frame;
  for (size_t k = 0; k < rank; ++k) inner.axes[k].fill(frame.axes[k][0]);
  for (int64_t i = 0; i < a; ++i) {
    inner.axes[axis_a].fill(i);
    for (int64_t j = 0; j < b; j += lanes) {
      int n = static_cast<int>(std::min<int64_t>(lanes, b - j));
      for (int l = 0; l < n; ++l) inner.axes[axis_b][static_cast<size_t>(l)] = j + l;
      body.run(inner, n);
      uint64_t* row = out.data() + i * b + j;
      const uint64_t* value = body.result();
      for (int l = 0; l < n; ++l)
        row[l] =
            from == to ? value[l] : ir::eval_scalar(ir::Op::cast, from, std::array{value[l]}, to);
    }
  }
  frame.sticky |= inner.sticky;
  return out;
}

void row_product(DType type, const uint64_t* lhs, const uint64_t* rhs, int64_t columns,
                 int64_t depth, uint64_t* out) {
  switch (type) {
    case DType::f32:
      return row_product<float>(lhs, rhs, columns, depth, out);
    case DType::f64:
      return row_product<double>(lhs, rhs, columns, depth, out);
    case DType::i32:
    case DType::u32:
      return row_product<uint32_t>(lhs, rhs, columns, depth, out);
    case DType::i64:
    case DType::u64:
      return row_product<uint64_t>(lhs, rhs, columns, depth, out);
    default:  // narrower integers: the low bits of a wider sum
      row_product<uint64_t>(lhs, rhs, columns, depth, out);
      for (int64_t n = 0; n < columns; ++n) out[n] &= ~uint64_t{0} >> (64 - 8 * size_of(type));
  }
}

void finish_row(BodyRunner& epilogue, Frame& frame, const std::vector<size_t>& fixed, size_t axis,
                const std::vector<uint64_t>& row, int parts) {
  for (size_t k : fixed) frame.axes[k].fill(frame.axes[k][0]);
  auto columns = static_cast<int64_t>(row.size()) / parts;
  frame.part_stride = parts > 1 ? columns : 0;
  for (int64_t j = 0; j < columns; j += lanes) {
    int n = static_cast<int>(std::min<int64_t>(lanes, columns - j));
    for (int l = 0; l < n; ++l) frame.axes[axis][static_cast<size_t>(l)] = j + l;
    frame.element = row.data() + j;
    epilogue.run(frame, n);
  }
  frame.element = nullptr;
}

void add_row(DType type, uint64_t x, const uint64_t* row, int64_t columns, uint64_t* out) {
  auto add = [&]<class T>(T factor) {
    for (int64_t n = 0; n < columns; ++n)
      out[n] = to_bits<T>(std::fma(factor, from_bits<T>(row[n]), from_bits<T>(out[n])));
  };
  if (type == DType::f64)
    add(from_bits<double>(x));
  else
    add(from_bits<float>(x));
}

std::vector<size_t> numbers_to(size_t n) {
  std::vector<size_t> v(n);
  for (size_t k = 0; k < n; ++k) v[k] = k;
  return v;
}

std::vector<int64_t> batch_extents(const std::vector<atlas::Axis>& axes, size_t rank,
                                   const Frame& frame) {
  std::vector<int64_t> extents;
  for (size_t k = 0; k < rank; ++k) extents.push_back(eval_uniform(axes[k].extent, frame));
  return extents;
}

namespace {

// Where columns lie in a packed operand (see atlas::ProductBlock).
struct Panels {
  int64_t columns, width, parts;
  int64_t of_part() const { return columns / parts; }
  int64_t count() const { return (of_part() + width - 1) / width * parts; }
  int64_t panel(int64_t n) const {
    return parts == 1 ? n / width : n % of_part() / width * parts + n / of_part();
  }
  int64_t inside(int64_t n) const { return (parts == 1 ? n : n % of_part()) % width; }
};

// The right operand from its panels, widened to `to`. Words are groups of four `bytes`.
std::vector<uint64_t> unpack(Memory m, DType bytes, int64_t batch, int64_t depth,
                             const Panels& panels, int64_t group, DType to) {
  int64_t columns = panels.columns, width = panels.width;
  std::vector<uint64_t> out(static_cast<size_t>(depth * columns));
  if (group == 4 && size_of(bytes) == 1 && m.dtype == DType::u32) {
    m.dtype = bytes;
    m.extent *= 4;
  }
  auto size = static_cast<size_t>(size_of(m.dtype));
  for (int64_t k = 0; k < depth; ++k)
    for (int64_t n = 0; n < columns; ++n) {
      int64_t panel = batch * panels.count() + panels.panel(n);
      int64_t row = panel * ((depth + group - 1) / group) + k / group;
      int64_t at = (row * width + panels.inside(n)) * group + group - 1 - k % group;
      check(at < m.extent, "interp: a packed operand smaller than its panels");
      uint64_t bits = 0;
      std::copy_n(m.base + at * static_cast<int64_t>(size), size, reinterpret_cast<char*>(&bits));
      out[static_cast<size_t>(k * columns + n)] =
          m.dtype == to ? bits : ir::eval_scalar(ir::Op::cast, m.dtype, std::array{bits}, to);
    }
  return out;
}

// A product over the windows of an image by Winograd's F(2x2, 3x3); see atlas::ProductBlock.
class Winograd {
 public:
  Winograd(const atlas::ProductBlock& block, Frame& frame)
      : frame_(frame),
        image_(block.image),
        lhs_(block.lhs),
        rhs_(block.rhs),
        epilogue_(block.epilogue) {
    frame_.axes.resize(block.axes.size());
    frame_.accumulators.assign(1, 0);
    auto extent = [&](size_t axis) {
      return std::max<int64_t>(0, eval_uniform(block.axes[axis].extent, frame));
    };
    n_ = extent(1), depth_ = extent(2), images_ = extent(3), rows_ = extent(4),
    columns_ = extent(5);
    channels_ = extent(6);
    // The 16 matrices of a panel follow one another: a depth of 16 * channels.
    weights_ = unpack(frame.memory[static_cast<size_t>(block.packed_rhs)], DType::f32, 0,
                      16 * channels_, {n_, block.panel_width, 1}, 1, DType::f32);
  }

  void run() {
    for (int64_t b = 0; b < images_; ++b)
      for (int64_t y = 0; y < rows_ - 2; y += 2)
        for (int64_t x = 0; x < columns_ - 2; x += 2) tile(b, y, x);
  }

 private:
  using Values = std::vector<uint64_t>;
  static float get(const Values& v, size_t i) { return from_bits<float>(v[i]); }

  // All channels of a pixel; pixels behind the image take no part in any sum that is used.
  Values pixel(int64_t b, int64_t y, int64_t x) {
    Values out(static_cast<size_t>(channels_));
    if (y >= rows_ || x >= columns_) return out;
    frame_.axes[3].fill(b);
    frame_.axes[4].fill(y);
    frame_.axes[5].fill(x);
    for (int64_t c = 0; c < channels_; c += lanes) {
      int count = static_cast<int>(std::min<int64_t>(lanes, channels_ - c));
      for (int l = 0; l < count; ++l) frame_.axes[6][static_cast<size_t>(l)] = c + l;
      image_.run(frame_, count);
      std::copy_n(image_.result(), count, out.data() + c);
    }
    return out;
  }

  void tile(int64_t b, int64_t y, int64_t x) {
    Values pixels[16], sums[16];
    for (int i = 0; i < 16; ++i) pixels[i] = pixel(b, y + i / 4, x + i % 4);
    for (size_t c = 0; c < static_cast<size_t>(channels_); ++c) {
      float d[4][4], t[4][4];
      for (int i = 0; i < 16; ++i) d[i / 4][i % 4] = get(pixels[i], c);
      for (int j = 0; j < 4; ++j) {
        t[0][j] = d[0][j] - d[2][j];
        t[1][j] = d[1][j] + d[2][j];
        t[2][j] = d[2][j] - d[1][j];
        t[3][j] = d[1][j] - d[3][j];
      }
      for (int i = 0; i < 4; ++i) {
        float v[4] = {t[i][0] - t[i][2], t[i][1] + t[i][2], t[i][2] - t[i][1], t[i][1] - t[i][3]};
        for (int j = 0; j < 4; ++j) pixels[4 * i + j][c] = to_bits(v[j]);
      }
    }
    for (int i = 0; i < 16; ++i) {
      sums[i].resize(static_cast<size_t>(n_));
      row_product<float>(pixels[i].data(), weights_.data() + i * channels_ * n_, n_, channels_,
                         sums[i].data());
    }
    Values rows[4];
    for (Values& r : rows) r.resize(static_cast<size_t>(n_));
    for (size_t n = 0; n < static_cast<size_t>(n_); ++n) {
      float s[2][4];
      for (size_t j = 0; j < 4; ++j) {
        float m0 = get(sums[j], n), m1 = get(sums[4 + j], n), m2 = get(sums[8 + j], n);
        s[0][j] = (m0 + m1) + m2;
        s[1][j] = (m1 - m2) - get(sums[12 + j], n);
      }
      for (int i = 0; i < 2; ++i) {
        rows[2 * i][n] = to_bits((s[i][0] + s[i][1]) + s[i][2]);
        rows[2 * i + 1][n] = to_bits((s[i][1] - s[i][2]) - s[i][3]);
      }
    }
    for (int i = 0; i < 4; ++i)
      if (y + i / 2 < rows_ - 2 && x + i % 2 < columns_ - 2)
        finish(((b * (rows_ - 2)) + y + i / 2) * (columns_ - 2) + x + i % 2, rows[i]);
  }

  void finish(int64_t m, Values& row) {
    bool finite = true;
    for (uint64_t v : row) finite = finite && std::isfinite(from_bits<float>(v));
    if (!finite) {
      Values chains = direct(m);
      for (size_t n = 0; n < row.size(); ++n)
        if (!std::isfinite(from_bits<float>(row[n]))) row[n] = chains[n];
    }
    frame_.axes[0].fill(m);
    finish_row(epilogue_, frame_, {0}, 1, row);
  }

  // The product's row m without Winograd.
  Values direct(int64_t m) {
    if (right_.empty()) right_ = gather(rhs_, frame_, 0, 2, depth_, 1, n_, DType::f32, DType::f32);
    Values left(static_cast<size_t>(depth_)), out(static_cast<size_t>(n_));
    frame_.axes[0].fill(m);
    for (int64_t k = 0; k < depth_; k += lanes) {
      int count = static_cast<int>(std::min<int64_t>(lanes, depth_ - k));
      for (int l = 0; l < count; ++l) frame_.axes[2][static_cast<size_t>(l)] = k + l;
      lhs_.run(frame_, count);
      std::copy_n(lhs_.result(), count, left.data() + k);
    }
    row_product<float>(left.data(), right_.data(), n_, depth_, out.data());
    return out;
  }

  Frame& frame_;
  BodyRunner image_, lhs_, rhs_, epilogue_;
  int64_t n_, depth_, images_, rows_, columns_, channels_;
  Values weights_, right_;
};

// The right operand's terms from its panels (see atlas::ProductBlock).
TermPlanes unpack_terms(const Memory& m, int64_t batch, int64_t depth, const Panels& panels,
                        int terms) {
  int64_t columns = panels.columns;
  TermPlanes out{{}, columns};
  int64_t steps = (depth + atlas::tile_step - 1) / atlas::tile_step;
  for (int t = 0; t < terms; ++t) {
    auto& plane = out.planes.emplace_back(static_cast<size_t>(depth * columns));
    for (int64_t k = 0; k < depth; ++k)
      for (int64_t n = 0; n < columns; ++n) {
        int64_t panel = batch * panels.count() + panels.panel(n);
        int64_t step = panel * steps + k / atlas::tile_step;
        int64_t row = (step * terms + t) * 16 + k % atlas::tile_step / 2;
        int64_t at = row * panels.width + panels.inside(n);
        check(at < m.extent, "interp: a packed operand smaller than its panels");
        uint32_t word = 0;
        std::copy_n(m.base + at * 4, 4, reinterpret_cast<char*>(&word));
        plane[static_cast<size_t>(k * columns + n)] =
            static_cast<uint16_t>(k % 2 ? word >> 16 : word);
      }
  }
  return out;
}

}  // namespace

void run_block(const atlas::ProductBlock& block, Frame& frame) {
  if (block.winograd) return Winograd(block, frame).run();
  auto rank = static_cast<size_t>(block.batch_rank);
  size_t am = rank, an = rank + 1, ak = rank + 2, column = block.parts > 1 ? rank + 3 : an;
  frame.axes.resize(block.axes.size());
  frame.accumulators.assign(1, 0);
  BodyRunner lhs(block.lhs), rhs(block.rhs), epilogue(block.epilogue);
  int64_t m = std::max<int64_t>(0, eval_uniform(block.axes[am].extent, frame));
  int64_t n = std::max<int64_t>(0, eval_uniform(block.axes[an].extent, frame));
  int64_t depth = std::max<int64_t>(0, eval_uniform(block.axes[ak].extent, frame));
  Walk batches(batch_extents(block.axes, rank, frame), 0);
  std::vector<uint64_t> row(static_cast<size_t>(n));
  Panels panels{n, block.panel_width, block.parts};
  for (int64_t b = 0; b < batches.total(); ++b) {
    batches.coordinates(frame, b, 1);
    auto x = gather(lhs, frame, rank, am, m, ak, depth, block.operand_type, block.acc_type);
    bool repairs = block.terms > 0 && block.operand_type == DType::f32;
    bool packed = block.packed_rhs >= 0;
    std::vector<uint64_t> y;
    if (!packed || repairs)
      y = gather(rhs, frame, rank, ak, depth, an, n, block.rhs_type(), block.acc_type);
    else if (block.terms == 0)
      y = unpack(frame.memory[static_cast<size_t>(block.packed_rhs)], block.rhs_type(), b, depth,
                 panels, block.panel_group, block.acc_type);
    TermPlanes x_terms, y_terms;
    if (block.terms > 0) {
      x_terms = split_terms(x, depth, block.terms);
      y_terms = packed ? unpack_terms(frame.memory[static_cast<size_t>(block.packed_rhs)], b, depth,
                                      panels, block.terms)
                       : split_terms(y, n, block.terms);
    }
    for (int64_t i = 0; i < m; ++i) {
      if (block.terms == 0 || repairs)
        row_product(block.acc_type, x.data() + i * depth, y.data(), n, depth, row.data());
      if (block.terms > 0) {
        std::vector<uint64_t> chain = row;
        tile_row(x_terms, i, y_terms, repairs ? chain.data() : nullptr, row.data());
      }
      frame.axes[am][0] = i;
      finish_row(epilogue, frame, numbers_to(rank + 1), column, row, block.parts);
    }
  }
  if (!block.tail.stages.empty()) run_block(block.tail, frame);
}

namespace {

// Scores of one query row → weights and their sum; false when every key is masked out.
class Softmax {
 public:
  explicit Softmax(DType type) : type_(type) {
    atlas::BodyBuilder b(body_);
    atlas::Val x = b.accumulator(0, type), max = b.accumulator(1, type);
    b.finish(atlas::emit_math(b, ir::Op::exp, std::array{b.sub(x, max)}));
    runner_.emplace(body_);
    frame_.accumulators.assign(2, 0);
  }

  /// The largest of the scores of the last run.
  uint64_t largest() const { return frame_.accumulators[1]; }

  bool run(std::vector<uint64_t>& scores, uint64_t* sum) {
    Reducer largest(ir::Op::reduce_max, type_, false), total(ir::Op::reduce_sum, type_, false);
    auto count = static_cast<int>(scores.size());
    largest.push(scores.data(), nullptr, count);
    uint64_t max = largest.finish();
    if (max == ir::identity_of(ir::Op::reduce_max, type_)) return false;
    frame_.accumulators[1] = max;
    for (int j = 0; j < count; j += lanes) {
      int n = std::min(lanes, count - j);
      frame_.element = scores.data() + j;
      runner_->run(frame_, n);
      std::copy_n(runner_->result(), n, scores.data() + j);
    }
    total.push(scores.data(), nullptr, count);
    *sum = total.finish();
    return true;
  }

 private:
  DType type_;
  atlas::Body body_;
  std::optional<BodyRunner> runner_;
  Frame frame_;
};

// maximum + log(sum)
class LogSum {
 public:
  explicit LogSum(DType type) {
    atlas::BodyBuilder b(body_);
    atlas::Val sum = b.accumulator(1, type);
    b.finish(b.add(b.accumulator(0, type), atlas::emit_math(b, ir::Op::log, std::array{sum})));
    runner_.emplace(body_);
    frame_.accumulators.assign(2, 0);
  }

  uint64_t run(uint64_t maximum, uint64_t sum) {
    frame_.accumulators = {maximum, sum};
    runner_->run(frame_, 1);
    return *runner_->result();
  }

 private:
  atlas::Body body_;
  std::optional<BodyRunner> runner_;
  Frame frame_;
};

}  // namespace

void run_block(const atlas::AttentionBlock& block, Frame& frame) {
  auto rank = static_cast<size_t>(block.batch_rank);
  size_t query = rank, key = rank + 1, depth = rank + 2, value = rank + 3;
  frame.axes.resize(block.axes.size());
  frame.accumulators.assign(1, 0);
  DType type = compute_type(block.operand_type);
  BodyRunner bq(block.q), bk(block.k), bv(block.v), score(block.score), epilogue(block.epilogue),
      lse(block.lse);
  auto extent = [&](size_t axis) {
    return std::max<int64_t>(0, eval_uniform(block.axes[axis].extent, frame));
  };
  int64_t queries = extent(query), keys = extent(key), d = extent(depth), e = extent(value);
  uint64_t scale = ir::bits_of(type, block.scale);
  uint64_t masked = ir::identity_of(ir::Op::reduce_max, type);
  Softmax softmax(type);
  LogSum log_of_sum(type);
  std::vector<uint64_t> scores(static_cast<size_t>(keys)), row(static_cast<size_t>(e));
  Walk batches(batch_extents(block.axes, rank, frame), 0);
  for (int64_t b = 0; b < batches.total(); ++b) {
    batches.coordinates(frame, b, 1);
    auto q = gather(bq, frame, rank, query, queries, depth, d, block.operand_type, type);
    auto kt = gather(bk, frame, rank, depth, d, key, keys, block.operand_type, type);
    auto v = gather(bv, frame, rank, key, keys, value, e, block.operand_type, type);
    for (int64_t i = 0; i < queries; ++i) {
      row_product(type, q.data() + i * d, kt.data(), keys, d, scores.data());
      for (uint64_t& s : scores) s = ir::eval_scalar(ir::Op::mul, type, std::array{s, scale}, type);
      frame.axes[query][0] = i;
      if (!score.empty()) {
        std::vector<uint64_t> raw = scores;
        for (int64_t j = 0; j < keys; j += lanes) {
          int n = static_cast<int>(std::min<int64_t>(lanes, keys - j));
          for (size_t k = 0; k <= rank; ++k) frame.axes[k].fill(frame.axes[k][0]);
          for (int l = 0; l < n; ++l) frame.axes[key][static_cast<size_t>(l)] = j + l;
          frame.element = raw.data() + j;
          score.run(frame, n);
          std::copy_n(score.result(), n, scores.data() + j);
        }
      }
      if (block.causal)
        for (int64_t j = i + 1; j < keys; ++j) scores[static_cast<size_t>(j)] = masked;
      uint64_t sum = 0, log_sum = masked;
      std::fill(row.begin(), row.end(), 0);
      if (softmax.run(scores, &sum)) {
        if (!lse.empty()) log_sum = log_of_sum.run(softmax.largest(), sum);
        row_product(type, scores.data(), v.data(), e, keys, row.data());
        for (uint64_t& x : row) x = ir::eval_scalar(ir::Op::div, type, std::array{x, sum}, type);
      }
      finish_row(epilogue, frame, numbers_to(rank + 1), value, row);
      if (lse.empty()) continue;
      frame.accumulators[0] = log_sum;
      lse.run(frame, 1);
    }
  }
}

}  // namespace hologram::interp

// strips/product.cpp: products of float32 matrices.
#include <algorithm>
#include <cstring>

#include "atlas/order.h"
#include "strips/blocks.h"
#include "strips/body.h"
#include "strips/product_parts.h"

namespace hologram::strips {
namespace {

using atlas::ProductBlock;

constexpr int64_t left_bytes = 128 * 1024;  // of the left operand's rows that a unit computes
constexpr int64_t most_rows = 96, most_columns = 512;
constexpr int64_t few_panels = 4;       // of a unit where there are few rows
constexpr int64_t assumed_depth = 512;  // where it is a run-time size
constexpr int64_t short_strip = 16;

class Product final : public Routine {
 public:
  Product(const atlas::Program& program, const Vectors& vectors)
      : vectors_(vectors),
        buffers_(program.buffers),
        axes_(program.product().axes),
        m_(program.product().batch_rank),
        symbols_(static_cast<size_t>(program.num_symbols)),
        packed_(program.product().packed_rhs) {
    good_ = plan(program);
    if (good_) cut();
  }
  bool good() const { return good_; }

  int32_t run(const atlas::Context& context, void* const* buffers, const int64_t* symbols,
              int64_t begin, int64_t end) const override;

 private:
  friend class ProductRun;

  const Expr& extent(int axis) const { return axes_[static_cast<size_t>(axis)].extent; }
  int n() const { return m_ + 1; }
  int k() const { return m_ + 2; }

  bool plan(const atlas::Program& program) {
    const ProductBlock& b = program.product();
    if (b.operand_type != DType::f32 || b.acc_type != DType::f32 || b.mixed || b.terms != 0 ||
        b.parts != 1 || b.winograd || !b.tail.stages.empty())
      return false;
    if (!b.reproducible && scales_few_bits(program)) return false;
    if (packed_ >= 0 && (b.panel_group != 1 || b.panel_width != vectors_.width)) return false;
    for (const atlas::Axis& a : axes_)
      if (a.extent.has_axes()) return false;
    if (std::ranges::count(buffers_, atlas::Access::scratch, &atlas::Buffer::access) > 0)
      return false;
    left_ = operand(program, b.lhs, k());
    if (left_ && symbols_ == 0 && strip_along(*left_, k()) < short_strip)
      if (auto other = operand(program, b.lhs, m_); other && strip_along(*other, m_) > short_strip)
        left_ = std::move(other), along_rows_ = true;
    if (left_ && !along_rows_) left_step_ = left_->step_of_rows(m_, sizeof(float));
    if (packed_ < 0) right_ = operand(program, b.rhs, n());
    epilogue_ = BodyPlan::of(b.epilogue, {program, vectors_, n(), true}, {});
    stacked_ = epilogue_ && epilogue_->stack_along(m_, true);
    return left_ && epilogue_ && (packed_ >= 0 || right_);
  }

  // Weights of few bits with their scales, by which the compiler's kernels may multiply sums.
  static bool scales_few_bits(const atlas::Program& program) {
    bool few = false, scaled = false;
    for (const atlas::Instr& i : program.product().rhs.instrs) {
      few |= i.code == atlas::Code::load &&
             size_of(program.buffers[static_cast<size_t>(i.buffer)].dtype) < 4;
      scaled |= i.code == atlas::Code::arithmetic && i.op == ir::Op::mul;
    }
    return few && scaled;
  }

  std::optional<BodyPlan> operand(const atlas::Program& program, const atlas::Body& body,
                                  int lanes) const {
    return operand_plan(program, vectors_, body, lanes);
  }

  // Lanes of a strip along an axis of known extent, on the average.
  int64_t strip_along(const BodyPlan& body, int axis) const {
    const int64_t all = std::min<int64_t>(extent(axis).constant(), 4 * most_lanes);
    return all / std::max<int64_t>(1, body.strips(axis, axes_.size(), all));
  }

  void cut() {
    const int64_t depth = extent(k()).is_const() ? extent(k()).constant() : assumed_depth;
    rows_ = std::clamp(left_bytes / (4 * std::max<int64_t>(1, depth)) / product_rows * product_rows,
                       int64_t{product_rows}, most_rows);
    const bool few = extent(m_).is_const() && extent(m_).constant() <= product_rows;
    if (few) rows_ = product_rows;
    columns_ = few ? few_panels * vectors_.width : most_columns;
    total = ceil_div(extent(m_), Expr(rows_)) * ceil_div(extent(n()), Expr(columns_));
    for (int b = 0; b < m_; ++b) total *= extent(b);
    unit_work = min(extent(m_), Expr(rows_)) * min(extent(n()), Expr(columns_)) *
                (extent(k()) + Expr(16)) * Expr(multiply_add);
  }

  const Vectors& vectors_;
  const std::vector<atlas::Buffer> buffers_;
  const std::vector<atlas::Axis> axes_;
  const int m_;
  const size_t symbols_;
  const int packed_;
  std::optional<BodyPlan> left_, right_, epilogue_;
  bool along_rows_ = false;           ///< lanes of the left operand are rows
  std::optional<int64_t> left_step_;  ///< from row to row of a left operand that is read in place
  bool stacked_ = false;              ///< the epilogue takes several rows at once
  int64_t rows_ = 0, columns_ = 0;
  bool good_ = false;
};

// Units of one thread.
class ProductRun {
 public:
  ProductRun(const Product& product, void* const* buffers, std::span<const int64_t> symbols)
      : p_(product) {
    frame_.symbols = symbols.data();
    frame_.axes.resize(product.axes_.size());
    frame_.accumulators.resize(1);
    for (size_t k = 0; k < product.buffers_.size(); ++k)
      frame_.buffers.push_back(static_cast<char*>(buffers[k]));
    for (const atlas::Axis& a : product.axes_) extents_.push_back(a.extent.eval(symbols));
    m_ = static_cast<size_t>(product.m_);
    n_ = m_ + 1;
    k_ = m_ + 2;
    depth_ = std::max<int64_t>(0, extents_[k_]);
    width_ = product.vectors_.width;
    panels_ = (extents_[n_] + width_ - 1) / width_;
  }

  int64_t bytes() const {
    int64_t sum = left_size() + right_size() + sums_size() + aligned(p_.left_->bytes()) +
                  aligned(p_.epilogue_->bytes());
    if (p_.right_) sum += aligned(p_.right_->bytes());
    return sum;
  }

  void use(char* memory) {
    auto take = [&](int64_t bytes) { return std::exchange(memory, memory + aligned(bytes)); };
    left_ = copy_ = reinterpret_cast<float*>(take(left_size()));
    right_ = reinterpret_cast<float*>(take(right_size()));
    sums_ = reinterpret_cast<float*>(take(sums_size()));
    left_body_.emplace(*p_.left_, take(p_.left_->bytes()));
    epilogue_.emplace(*p_.epilogue_, take(p_.epilogue_->bytes()));
    if (p_.right_) right_body_.emplace(*p_.right_, take(p_.right_->bytes()));
  }

  void unit(int64_t number) {
    const int64_t across = (extents_[n_] + p_.columns_ - 1) / p_.columns_;
    const int64_t down = (extents_[m_] + p_.rows_ - 1) / p_.rows_;
    const int64_t column = number % across * p_.columns_;
    const int64_t row = number / across % down * p_.rows_;
    const int64_t batch = number / across / down;
    for (int64_t rest = batch, k = static_cast<int64_t>(m_); k-- > 0;) {
      frame_.axes[static_cast<size_t>(k)] = rest % extents_[static_cast<size_t>(k)];
      rest /= extents_[static_cast<size_t>(k)];
    }
    const int64_t rows = std::min(p_.rows_, extents_[m_] - row);
    const int64_t columns = std::min(p_.columns_, extents_[n_] - column);
    if (row_ != row || batch_ != batch) {
      if (p_.left_step_)
        find_left(row);
      else
        compute_left(row, rows);
      row_ = row;
      batch_ = batch;
    }
    const float* right = right_;
    if (p_.packed_ >= 0)
      right = reinterpret_cast<const float*>(frame_.buffers[static_cast<size_t>(p_.packed_)]) +
              (batch * panels_ + column / width_) * depth_ * width_;
    else
      compute_right(column, columns);
    multiply(right, rows, up(columns, width_) / width_);
    finish(row, rows, column, columns);
  }

  int32_t sticky() const { return frame_.sticky; }

 private:
  int64_t left_size() const { return p_.left_step_ ? 0 : aligned(p_.rows_ * depth_ * 4); }
  int64_t right_size() const {
    return p_.packed_ >= 0 ? 0 : aligned(depth_ * up(p_.columns_, width_) * 4);
  }
  int64_t sums_size() const { return aligned(p_.rows_ * up(p_.columns_, width_) * 4); }

  void find_left(int64_t row) {
    frame_.axes[m_] = row;
    frame_.axes[k_] = 0;
    left_ = reinterpret_cast<const float*>(left_body_->place(frame_));
  }

  void compute_left(int64_t row, int64_t rows) {
    const auto last = static_cast<atlas::ValueId>(p_.left_->size() - 1);
    const int64_t lines = p_.along_rows_ ? depth_ : rows, lanes = p_.along_rows_ ? rows : depth_;
    const int64_t pitch = p_.along_rows_ ? p_.rows_ : depth_;
    for (int64_t line = 0; line < lines; ++line) {
      frame_.axes[p_.along_rows_ ? k_ : m_] = p_.along_rows_ ? line : row + line;
      for_each_strip(*left_body_, frame_, p_.along_rows_ ? m_ : k_, p_.along_rows_ ? row : 0, lanes,
                     [&](int64_t first, int64_t n) {
                       std::memcpy(copy_ + line * pitch + first, left_body_->value(last),
                                   static_cast<size_t>(n) * 4);
                     });
    }
  }

  // Panels of these columns, filled up with 0.
  void compute_right(int64_t column, int64_t columns) {
    const auto last = static_cast<atlas::ValueId>(p_.right_->size() - 1);
    const int64_t full = up(columns, width_);
    for (int64_t k = 0; k < depth_; ++k) {
      frame_.axes[k_] = k;
      auto place = [&](int64_t c) {
        return right_ + (c / width_ * depth_ + k) * width_ + c % width_;
      };
      for_each_strip(*right_body_, frame_, n_, column, columns, [&](int64_t first, int64_t n) {
        const auto* value = reinterpret_cast<const float*>(right_body_->value(last));
        for (int64_t c = 0; c < n;) {
          const int64_t some = std::min(n - c, width_ - (first + c) % width_);
          std::memcpy(place(first + c), value + c, static_cast<size_t>(some) * 4);
          c += some;
        }
      });
      for (int64_t c = columns; c < full; ++c) *place(c) = 0;
    }
  }

  void multiply(const float* right, int64_t rows, int64_t panels) {
    Tile tile{};
    tile.row = p_.along_rows_ ? 1 : p_.left_step_.value_or(depth_);
    tile.column = p_.along_rows_ ? p_.rows_ : 1;
    tile.right = right;
    tile.panel = depth_ * width_;
    tile.panels = panels;
    tile.depth = depth_;
    tile.block = atlas::product_block;
    tile.out_row = panels * width_;
    for (int64_t m = 0; m < rows; m += product_rows) {
      tile.left = left_ + m * tile.row;
      tile.out = sums_ + m * tile.out_row;
      tile.rows = static_cast<int>(std::min<int64_t>(product_rows, rows - m));
      p_.vectors_.product(tile);
    }
  }

  void finish(int64_t row, int64_t rows, int64_t column, int64_t columns) {
    const int64_t pitch = up(columns, width_);
    const bool close = p_.stacked_ && columns == pitch && 2 * columns <= most_lanes;
    const int64_t together = close ? most_lanes / columns : 1;
    for (int64_t m = 0; m < rows; m += together)
      finish_rows(row + m, std::min(together, rows - m), column, columns, sums_ + m * pitch);
  }

  // Of sums that lie side by side, if these are several rows.
  void finish_rows(int64_t row, int64_t rows, int64_t column, int64_t columns, float* sums) {
    frame_.axes[m_] = row;
    if (rows > 1) {
      frame_.axes[n_] = column;
      frame_.accumulators[0] = reinterpret_cast<char*>(sums);
      if (epilogue_->begin(frame_, columns) == columns)
        return epilogue_->run(frame_, columns, rows);
    }
    for (int64_t m = 0; m < rows; ++m) {
      frame_.axes[m_] = row + m;
      run_epilogue(*epilogue_, frame_, n_, column, columns, sums + m * columns);
    }
  }

  const Product& p_;
  Frame frame_;
  std::vector<int64_t> extents_;
  size_t m_ = 0, n_ = 0, k_ = 0;
  int64_t depth_ = 0, width_ = 0, panels_ = 0;
  int64_t row_ = -1, batch_ = -1;  // of what left_ has
  const float* left_ = nullptr;
  float *copy_ = nullptr, *right_ = nullptr, *sums_ = nullptr;
  std::optional<BodyRunner> left_body_, right_body_, epilogue_;
};

int32_t Product::run(const atlas::Context& context, void* const* buffers, const int64_t* symbols,
                     int64_t begin, int64_t end) const {
  return run_units(ProductRun(*this, buffers, {symbols, symbols_}), context, begin, end);
}

}  // namespace

std::shared_ptr<const Routine> product_routine(const atlas::Program& program,
                                               const Vectors& vectors) {
  auto product = std::make_shared<Product>(program, vectors);
  return product->good() ? product : nullptr;
}

}  // namespace hologram::strips

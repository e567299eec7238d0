// strips/winograd.cpp: products over the windows of an image by Winograd's F(2x2, 3x3).
#include <algorithm>
#include <cmath>
#include <cstring>

#include "atlas/order.h"
#include "strips/blocks.h"
#include "strips/body.h"
#include "strips/product_parts.h"

namespace hologram::strips {
namespace {

constexpr int64_t tiles_of_unit = product_rows;
constexpr int64_t pixel_work = 100'000;  // picoseconds
// Axes: pixels, columns, depth; number, row, column and channel of the image.
constexpr size_t axis_m = 0, axis_n = 1, axis_k = 2, axis_image = 3, axis_y = 4, axis_x = 5,
                 axis_c = 6;

class Winograd final : public Routine {
 public:
  Winograd(const atlas::Program& program, const Vectors& vectors)
      : vectors_(vectors),
        buffers_(program.buffers),
        axes_(program.product().axes),
        symbols_(static_cast<size_t>(program.num_symbols)),
        packed_(program.product().packed_rhs) {
    good_ = plan(program);
    if (good_) cut();
  }
  bool good() const { return good_; }

  int32_t run(const atlas::Context& context, void* const* buffers, const int64_t* symbols,
              int64_t begin, int64_t end) const override;

 private:
  friend class WinogradRun;

  bool plan(const atlas::Program& program) {
    const atlas::ProductBlock& b = program.product();
    if (b.operand_type != DType::f32 || b.panel_width != vectors_.width) return false;
    for (const atlas::Axis& a : axes_)
      if (a.extent.has_axes()) return false;
    image_ = operand(program, b.image, axis_c);
    lhs_ = operand(program, b.lhs, axis_k);
    rhs_ = operand(program, b.rhs, axis_n);
    epilogue_ = BodyPlan::of(b.epilogue, {program, vectors_, axis_n, true}, {});
    return image_ && lhs_ && rhs_ && epilogue_;
  }

  std::optional<BodyPlan> operand(const atlas::Program& program, const atlas::Body& body,
                                  int lanes) const {
    return operand_plan(program, vectors_, body, lanes);
  }

  void cut() {
    auto tiles_along = [&](size_t axis) {
      return ceil_div(max(axes_[axis].extent - Expr(2), Expr(0)), Expr(2));
    };
    const Expr tiles = axes_[axis_image].extent * tiles_along(axis_y) * tiles_along(axis_x);
    total = ceil_div(tiles, Expr(tiles_of_unit));
    unit_work =
        Expr(tiles_of_unit * 16) *
        (axes_[axis_c].extent * axes_[axis_n].extent * Expr(multiply_add) + Expr(pixel_work));
  }

  const Vectors& vectors_;
  const std::vector<atlas::Buffer> buffers_;
  const std::vector<atlas::Axis> axes_;
  const size_t symbols_;
  const int packed_;
  std::optional<BodyPlan> image_, lhs_, rhs_, epilogue_;
  bool good_ = false;
};

// Units of one thread.
class WinogradRun {
 public:
  WinogradRun(const Winograd& winograd, void* const* buffers, std::span<const int64_t> symbols)
      : w_(winograd) {
    frame_.symbols = symbols.data();
    frame_.axes.resize(winograd.axes_.size());
    frame_.accumulators.resize(1);
    for (size_t k = 0; k < winograd.buffers_.size(); ++k)
      frame_.buffers.push_back(static_cast<char*>(buffers[k]));
    auto extent = [&](size_t axis) {
      return std::max<int64_t>(0, winograd.axes_[axis].extent.eval(symbols));
    };
    n_ = extent(axis_n), depth_ = extent(axis_k), images_ = extent(axis_image);
    rows_ = extent(axis_y) - 2, columns_ = extent(axis_x) - 2, channels_ = extent(axis_c);
    width_ = winograd.vectors_.width;
    pitch_ = up(n_, width_);
    down_ = (rows_ + 1) / 2, across_ = (columns_ + 1) / 2;
  }

  int64_t bytes() const {
    int64_t sum = 0;
    for (int64_t size : sizes()) sum += aligned(size);
    return sum;
  }

  void use(char* memory) {
    char* at[8];
    size_t k = 0;
    for (int64_t size : sizes()) at[k++] = std::exchange(memory, memory + aligned(size));
    pixels_ = reinterpret_cast<float*>(at[0]);
    left_ = reinterpret_cast<float*>(at[1]);
    sums_ = reinterpret_cast<float*>(at[2]);
    results_ = reinterpret_cast<float*>(at[3]);
    image_.emplace(*w_.image_, at[4]);
    lhs_.emplace(*w_.lhs_, at[5]);
    rhs_.emplace(*w_.rhs_, at[6]);
    epilogue_.emplace(*w_.epilogue_, at[7]);
  }

  void unit(int64_t number) {
    const int64_t first = number * tiles_of_unit;
    const int64_t tiles = std::min(tiles_of_unit, images_ * down_ * across_ - first);
    for (int64_t t = 0; t < tiles; ++t) read(first + t, t);
    const auto* weights =
        reinterpret_cast<const float*>(frame_.buffers[static_cast<size_t>(w_.packed_)]);
    for (int64_t i = 0; i < 16; ++i) {
      Tile tile{};
      tile.left = left_ + i * tiles_of_unit * channels_;
      tile.row = channels_;
      tile.column = 1;
      tile.right = weights + i * channels_ * width_;
      tile.panel = 16 * channels_ * width_;
      tile.panels = pitch_ / width_;
      tile.depth = channels_;
      tile.block = atlas::product_block;
      tile.out = sums_ + i * tiles_of_unit * pitch_;
      tile.out_row = pitch_;
      tile.rows = static_cast<int>(tiles);
      w_.vectors_.product(tile);
    }
    for (int64_t t = 0; t < tiles; ++t) finish(first + t, t);
  }

  int32_t sticky() const { return frame_.sticky; }

 private:
  std::array<int64_t, 8> sizes() const {
    return {16 * channels_ * 4,
            16 * tiles_of_unit * channels_ * 4,
            16 * tiles_of_unit * pitch_ * 4,
            4 * pitch_ * 4,
            w_.image_->bytes(),
            w_.lhs_->bytes(),
            w_.rhs_->bytes(),
            w_.epilogue_->bytes()};
  }

  struct Place {
    int64_t image, y, x;
  };
  Place place(int64_t tile) const {
    return {tile / across_ / down_, tile / across_ % down_ * 2, tile % across_ * 2};
  }

  static atlas::ValueId last(const BodyPlan& plan) {
    return static_cast<atlas::ValueId>(plan.size() - 1);
  }

  // The pixels of a tile, transformed; pixels behind the image take no part in any sum that is
  // used.
  void read(int64_t number, int64_t t) {
    const Place at = place(number);
    frame_.axes[axis_image] = at.image;
    for (int64_t p = 0; p < 16; ++p) {
      float* pixel = pixels_ + p * channels_;
      frame_.axes[axis_y] = at.y + p / 4;
      frame_.axes[axis_x] = at.x + p % 4;
      if (frame_.axes[axis_y] >= rows_ + 2 || frame_.axes[axis_x] >= columns_ + 2) {
        std::fill_n(pixel, channels_, 0.0f);
        continue;
      }
      for_each_strip(*image_, frame_, axis_c, 0, channels_, [&](int64_t first, int64_t n) {
        std::memcpy(pixel + first, image_->value(last(*w_.image_)), static_cast<size_t>(n) * 4);
      });
    }
    w_.vectors_.winograd_in(pixels_, left_ + t * channels_, tiles_of_unit * channels_, channels_);
  }

  void finish(int64_t number, int64_t t) {
    const Place at = place(number);
    w_.vectors_.winograd_out(sums_ + t * pitch_, tiles_of_unit * pitch_, results_, pitch_);
    for (int64_t p = 0; p < 4; ++p) {
      const int64_t y = at.y + p / 2, x = at.x + p % 2;
      if (y >= rows_ || x >= columns_) continue;
      const int64_t m = (at.image * rows_ + y) * columns_ + x;
      float* row = results_ + p * pitch_;
      frame_.axes[axis_m] = m;
      if (!std::all_of(row, row + n_, [](float v) { return std::isfinite(v); })) repair(row);
      run_epilogue(*epilogue_, frame_, axis_n, 0, n_, row);
    }
  }

  // What is not finite is the product's row without Winograd.
  void repair(float* row) {
    if (right_.empty()) read_right();
    std::vector<float> left(static_cast<size_t>(depth_)), chain(static_cast<size_t>(pitch_));
    for_each_strip(*lhs_, frame_, axis_k, 0, depth_, [&](int64_t first, int64_t n) {
      std::memcpy(left.data() + first, lhs_->value(last(*w_.lhs_)), static_cast<size_t>(n) * 4);
    });
    Tile tile{};
    tile.left = left.data();
    tile.row = depth_;
    tile.column = 1;
    tile.right = right_.data();
    tile.panel = depth_ * width_;
    tile.panels = pitch_ / width_;
    tile.depth = depth_;
    tile.block = atlas::product_block;
    tile.out = chain.data();
    tile.out_row = pitch_;
    tile.rows = 1;
    w_.vectors_.product(tile);
    for (int64_t n = 0; n < n_; ++n)
      if (!std::isfinite(row[n])) row[n] = chain[static_cast<size_t>(n)];
  }

  void read_right() {
    right_.resize(static_cast<size_t>(depth_ * pitch_));
    for (int64_t k = 0; k < depth_; ++k) {
      frame_.axes[axis_k] = k;
      for_each_strip(*rhs_, frame_, axis_n, 0, n_, [&](int64_t first, int64_t n) {
        const auto* value = reinterpret_cast<const float*>(rhs_->value(last(*w_.rhs_)));
        for (int64_t c = first; c < first + n; ++c)
          right_[static_cast<size_t>((c / width_ * depth_ + k) * width_ + c % width_)] =
              value[c - first];
      });
    }
  }

  const Winograd& w_;
  Frame frame_;
  int64_t n_ = 0, depth_ = 0, images_ = 0, rows_ = 0, columns_ = 0, channels_ = 0;
  int64_t width_ = 0, pitch_ = 0, down_ = 0, across_ = 0;
  float *pixels_ = nullptr, *left_ = nullptr, *sums_ = nullptr, *results_ = nullptr;
  std::vector<float> right_;  // as panels, for sums that are not finite
  std::optional<BodyRunner> image_, lhs_, rhs_, epilogue_;
};

int32_t Winograd::run(const atlas::Context& context, void* const* buffers, const int64_t* symbols,
                      int64_t begin, int64_t end) const {
  return run_units(WinogradRun(*this, buffers, {symbols, symbols_}), context, begin, end);
}

}  // namespace

std::shared_ptr<const Routine> winograd_routine(const atlas::Program& program,
                                                const Vectors& vectors) {
  auto winograd = std::make_shared<Winograd>(program, vectors);
  return winograd->good() ? winograd : nullptr;
}

}  // namespace hologram::strips

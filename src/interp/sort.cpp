// interp/sort.cpp: sort blocks.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "interp/lanes.h"
#include "ir/scalar.h"

namespace hologram::interp {
namespace {

// Numbers in the order of the keys: equal for equal keys.
uint64_t rank_of(DType type, uint64_t bits) {
  uint64_t sign = uint64_t{1} << (size_of(type) * 8 - 1);
  if (!is_float(type)) return is_signed_int(type) ? bits ^ sign : bits;
  double x = ir::as_double(type, bits);
  if (std::isnan(x)) return ~uint64_t{0};
  if (x == 0) bits = 0;
  return bits & sign ? ~bits & (sign - 1) : bits | sign;
}

}  // namespace

void run_block(const atlas::SortBlock& b, Frame& frame) {
  auto rank = static_cast<size_t>(b.batch_rank), element = rank, place = rank + 1;
  frame.axes.resize(b.axes.size());
  std::vector<int64_t> extents;
  for (size_t k = 0; k < rank; ++k) extents.push_back(eval_uniform(b.axes[k].extent, frame));
  int64_t n = eval_uniform(b.axes[element].extent, frame),
          count = std::min(n - b.first, eval_uniform(b.axes[place].extent, frame));
  BodyRunner key(b.key), epilogue(b.epilogue);
  Walk points(extents, 0);
  std::vector<uint64_t> keys(static_cast<size_t>(std::max<int64_t>(n, 0)));
  std::vector<uint64_t> order(keys.size());
  for (int64_t at = 0; at < points.total(); ++at) {
    points.coordinates(frame, at, 1);
    for (size_t k = 0; k < rank; ++k) frame.axes[k].fill(frame.axes[k][0]);
    auto batches = [&](size_t axis, int64_t length, auto&& run) {
      for (int64_t i = 0; i < length; i += lanes) {
        int some = static_cast<int>(std::min<int64_t>(lanes, length - i));
        for (int l = 0; l < some; ++l) frame.axes[axis][static_cast<size_t>(l)] = i + l;
        run(i, some);
      }
    };
    batches(element, n, [&](int64_t i, int some) {
      key.run(frame, some);
      for (int l = 0; l < some; ++l)
        keys[static_cast<size_t>(i + l)] = rank_of(b.key_type, key.result()[l]);
    });
    std::iota(order.begin(), order.end(), uint64_t{0});
    std::stable_sort(order.begin(), order.end(), [&](uint64_t x, uint64_t y) {
      return b.descending ? keys[x] > keys[y] : keys[x] < keys[y];
    });
    batches(place, count, [&](int64_t i, int some) {
      frame.element = order.data() + b.first + i;
      epilogue.run(frame, some);
    });
    frame.element = nullptr;
  }
}

}  // namespace hologram::interp

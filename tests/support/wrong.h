// tests/support/wrong.h: where a matrix differs from what it should be, for whoever reads it far from the device
#pragma once

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>

namespace hologram::test {

/// Sixteen lines of sixteen cells, each the share of what was wrong there: '.' nothing, '#' all, digits tenths between.
class WrongMap {
 public:
  void add(int64_t row, int64_t column, bool wrong) {
    Cell& cell = cells_[static_cast<size_t>(row * 16 + column)];
    ++cell.count;
    cell.wrong += wrong;
  }
  std::string text() const {
    std::string out;
    for (size_t row = 0; row < 16; ++row) {
      std::string line;
      for (size_t column = 0; column < 16; ++column) line += mark(cells_[row * 16 + column]);
      if (line.find_first_not_of(' ') != line.npos) out += "  " + line + "\n";
    }
    return out;
  }

 private:
  struct Cell {
    int64_t count = 0, wrong = 0;
  };
  static char mark(const Cell& c) {
    if (c.count == 0) return ' ';
    if (c.wrong == 0) return '.';
    return c.wrong == c.count ? '#' : static_cast<char>('0' + 10 * c.wrong / c.count);
  }
  std::array<Cell, 256> cells_{};
};

/// "" where all rows x columns numbers are right; else how many are not, the largest difference,
/// the first eight, and two maps of them: of the matrix, and by the place in a tile of 128 x 256,
/// in which errors of swizzles, fragments, slots and epilogues each have a pattern of their own.
template <class Got, class Wanted>
std::string wrong_places(
    const Got& got, const Wanted& wanted, int64_t rows, int64_t columns,
    const std::function<bool(double, double)>& right = [](double x, double y) { return x == y; }) {
  WrongMap matrix, tile;
  int64_t count = 0;
  double most = 0;
  std::string first;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      const auto x = static_cast<double>(got[static_cast<size_t>(i * columns + j)]),
                 y = static_cast<double>(wanted[static_cast<size_t>(i * columns + j)]);
      const bool wrong = !right(x, y);
      matrix.add(i * 16 / rows, j * 16 / columns, wrong);
      tile.add(i % 128 / 8, j % 256 / 16, wrong);
      if (!wrong) continue;
      if (++count <= 8) first += fmt::format("  ({}, {}): {:.9g}, wanted {:.9g}\n", i, j, x, y);
      most = std::fmax(most, std::fabs(x - y));
    }
  if (count == 0) return "";
  return fmt::format(
      "{} of {} x {} numbers are wrong, by {:.3g} at most; the first:\n{}the matrix in 16 x 16:\n{}"
      "by place in a tile, 8 rows x 16 columns each:\n{}",
      count, rows, columns, most, first, matrix.text(), tile.text());
}

}  // namespace hologram::test

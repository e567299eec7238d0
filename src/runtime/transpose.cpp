// runtime/transpose.cpp: row-major copies by square tiles, and element by element.
#include "runtime/transpose.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace hologram::runtime {
namespace {

constexpr int64_t tile = 16;
/// Elements per chunk of one thread.
constexpr int64_t chunk = 64 << 10;

/// rows x columns of `to` (rows `pitch` apart) from `from`, whose columns are `step` apart and
/// contiguous along the rows.
template <class T>
void copy_tile(const T* from, int64_t step, T* to, int64_t pitch, int64_t rows, int64_t columns) {
  if (rows == tile && columns == tile) {
    T square[tile][tile];
    for (int64_t j = 0; j < tile; ++j)
      for (int64_t i = 0; i < tile; ++i) square[i][j] = from[j * step + i];
    for (int64_t i = 0; i < tile; ++i)
      for (int64_t j = 0; j < tile; ++j) to[i * pitch + j] = square[i][j];
    return;
  }
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) to[i * pitch + j] = from[j * step + i];
}

template <class T>
void copy(std::span<const int64_t> shape, std::span<const int64_t> strides, size_t contiguous,
          const T* from, T* to, host::ThreadPool& threads) {
  const size_t last = shape.size() - 1;
  std::vector<int64_t> pitches(shape.size(), 1);
  for (size_t d = last; d-- > 0;) pitches[d] = pitches[d + 1] * shape[d + 1];
  // A unit is a strip of `tile` rows at one place of the other dimensions.
  const int64_t strips = (shape[contiguous] + tile - 1) / tile;
  int64_t units = strips;
  for (size_t d = 0; d < last; ++d)
    if (d != contiguous) units *= shape[d];
  const int64_t columns = shape[last];
  auto run = [&](int64_t begin, int64_t end) -> int32_t {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t row = unit % strips * tile;
      int64_t rest = unit / strips;
      const T* source = from + row;
      T* target = to + row * pitches[contiguous];
      for (size_t d = last; d-- > 0;) {
        if (d == contiguous) continue;
        source += rest % shape[d] * strides[d];
        target += rest % shape[d] * pitches[d];
        rest /= shape[d];
      }
      const int64_t rows = std::min(tile, shape[contiguous] - row);
      for (int64_t column = 0; column < columns; column += tile)
        copy_tile(source + column * strides[last], strides[last], target + column,
                  pitches[contiguous], rows, std::min(tile, columns - column));
    }
    return 0;
  };
  threads.for_ranges(units, std::max<int64_t>(1, chunk / (tile * columns)), run);
}

size_t contiguous_dimension(std::span<const int64_t> strides) {
  return static_cast<size_t>(std::find(strides.begin(), strides.end(), 1) - strides.begin());
}

}  // namespace

bool is_transposed(std::span<const int64_t> shape, std::span<const int64_t> strides) {
  const size_t contiguous = contiguous_dimension(strides);
  return contiguous + 1 < shape.size() && strides.back() != 0;
}

void copy_transposed(std::span<const int64_t> shape, std::span<const int64_t> strides, int bytes,
                     const void* from, void* to, host::ThreadPool& threads) {
  auto typed = [&]<class T>(T) {
    copy(shape, strides, contiguous_dimension(strides), static_cast<const T*>(from),
         static_cast<T*>(to), threads);
  };
  if (bytes == 1) return typed(uint8_t{});
  if (bytes == 2) return typed(uint16_t{});
  if (bytes == 4) return typed(uint32_t{});
  typed(uint64_t{});
}

void copy_strided(std::span<const int64_t> shape, std::span<const int64_t> strides, int bytes,
                  const void* from, void* to) {
  const auto size = static_cast<size_t>(bytes);
  const size_t last = shape.size() - 1;
  std::vector<int64_t> at(shape.size());
  const auto* row = static_cast<const std::byte*>(from);
  auto* target = static_cast<std::byte*>(to);
  for (;;) {
    for (int64_t i = 0; i < shape[last]; ++i, target += size)
      std::memcpy(target, row + i * strides[last] * bytes, size);
    size_t d = last;
    for (; d > 0; --d) {  // the next row
      row += strides[d - 1] * bytes;
      if (++at[d - 1] < shape[d - 1]) break;
      row -= shape[d - 1] * strides[d - 1] * bytes;
      at[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

}  // namespace hologram::runtime

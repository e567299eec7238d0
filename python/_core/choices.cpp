// python/_core/choices.cpp: places chosen by probabilities: the largest quotients, or sums that
// uniform numbers reach.
#include "choices.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "narrow.h"

namespace hologram::python {
namespace {

// Whether places can be chosen by these.
template <typename T>
HOLOGRAM_FOR_EACH_ISA bool chances_fit(const T* p, size_t n) {
  using W = Wide<T>;
  unsigned fit = 1, some = 0;
  for (size_t i = 0; i < n; ++i) {
    const W x = static_cast<W>(p[i]);
    fit &= static_cast<unsigned>(x >= 0) &
           static_cast<unsigned>(x < std::numeric_limits<W>::infinity());
    some |= static_cast<unsigned>(x > 0);
  }
  return (fit & some) != 0;
}

template <typename T>
HOLOGRAM_INLINE Wide<T> quotient(T a, T b) {
  using W = Wide<T>;
  return static_cast<W>(to<T>(static_cast<W>(a) / static_cast<W>(b)));
}

// NaN is above all numbers.
template <typename W>
HOLOGRAM_INLINE bool above(W a, W b) {
  return a > b || (a != a && b == b);
}

template <typename T>
int64_t place_of_largest(const T* p, const T* q, size_t n) {
  Wide<T> largest = quotient(p[0], q[0]);
  size_t found = 0;
  for (size_t i = 1; i < n; ++i) {
    const Wide<T> x = quotient(p[i], q[i]);
    if (above(x, largest)) largest = x, found = i;
  }
  return static_cast<int64_t>(found);
}

// Among equal ones those that PyTorch's topk takes, which calls the same functions.
template <typename T>
void places_of_largest(const T* p, const T* q, const Choices& c, int64_t* out) {
  std::vector<std::pair<Wide<T>, int64_t>> all(c.n);
  for (size_t i = 0; i < c.n; ++i) all[i] = {quotient(p[i], q[i]), static_cast<int64_t>(i)};
  const auto first = [](const auto& a, const auto& b) { return above(a.first, b.first); };
  const auto end = all.begin() + static_cast<std::ptrdiff_t>(c.k);
  if (c.k * 64 <= c.n) {
    std::partial_sort(all.begin(), end, all.end(), first);
  } else {
    std::nth_element(all.begin(), end - 1, all.end(), first);
    std::sort(all.begin(), end - 1, first);
  }
  std::transform(all.begin(), end, out, [](const auto& x) { return x.second; });
}

// Sums of the row's numbers up to each, of which the last is 1; false: as of chances_fit.
template <typename T>
bool sums_of(const T* p, std::vector<Wide<T>>& sums) {
  if (!chances_fit(p, sums.size())) return false;
  Wide<T> sum = 0;
  for (size_t i = 0; i < sums.size(); ++i) sums[i] = sum += static_cast<Wide<T>>(p[i]);
  for (auto& x : sums) x /= sum;
  sums.back() = 1;
  return true;
}

template <typename T>
bool once(const Choices& c) {
  const auto *p = static_cast<const T*>(c.chances), *q = static_cast<const T*>(c.numbers);
  for (size_t row = 0; row < c.rows; ++row, p += c.n, q += c.n) {
    if (!chances_fit(p, c.n)) return false;
    if (c.k == 1)
      c.out[row] = place_of_largest(p, q, c.n);
    else
      places_of_largest(p, q, c, c.out + row * c.k);
  }
  return true;
}

template <typename T>
bool again(const Choices& c) {
  const auto* p = static_cast<const T*>(c.chances);
  const auto* u = static_cast<const double*>(c.numbers);
  std::vector<Wide<T>> sums(c.n);
  for (size_t row = 0; row < c.rows; ++row, p += c.n) {
    if (!sums_of(p, sums)) return false;
    for (size_t i = row * c.k; i < (row + 1) * c.k; ++i)
      c.out[i] = std::lower_bound(sums.begin(), sums.end(), u[i]) - sums.begin();
  }
  return true;
}

}  // namespace

bool choose_once(const Choices& c) {
  return with_float(c.dtype, "choose", [&]<typename T>() { return once<T>(c); });
}

bool choose_again(const Choices& c) {
  return with_float(c.dtype, "choose", [&]<typename T>() { return again<T>(c); });
}

}  // namespace hologram::python

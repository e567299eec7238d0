// sigmatics/algebra.cpp: products, and the actions of transforms on elements.
#include "sigmatics/algebra.h"

#include <bit>
#include <cmath>

#include "base/error.h"
#include "sigmatics/classes.h"

namespace hologram::sigmatics {
namespace {

constexpr double tolerance = 1e-10;

template <size_t n>
std::array<double, n> convolution(const std::array<double, n>& a, const std::array<double, n>& b) {
  std::array<double, n> out{};
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j) out[(i + j) % n] += a[i] * b[j];
  return out;
}

// How many exchanges of neighbours sort the product of two blades.
int exchanges(unsigned a, unsigned b) {
  int n = 0;
  for (a >>= 1; a != 0; a >>= 1) n += std::popcount(a & b);
  return n;
}

// The only term, if there is one and its coefficient is 1.
template <size_t n>
std::optional<size_t> only_term(const std::array<double, n>& a) {
  std::optional<size_t> found;
  for (size_t k = 0; k < n; ++k) {
    if (std::abs(a[k]) <= tolerance) continue;
    if (found || std::abs(a[k] - 1) > tolerance) return std::nullopt;
    found = k;
  }
  return found;
}

size_t position(int64_t k, int64_t n) { return static_cast<size_t>((k % n + n) % n); }

template <size_t n>
std::array<double, n> power(int64_t k) {
  std::array<double, n> out{};
  out[position(k, static_cast<int64_t>(n))] = 1;
  return out;
}

// Blade of context l: the scalar, or e_l.
constexpr size_t blade(size_t l) { return l == 0 ? 0 : size_t{1} << (l - 1); }

// The imaginary unit and sign of e_i e_j, for different i and j in 1..7.
struct Unit {
  size_t index;
  double sign;
};
Unit unit_product(size_t i, size_t j) {
  // The lines are (k, k + 1, k + 3), numbers from 1 to 7 modulo 7.
  for (size_t k = 0; k < 7; ++k) {
    std::array<size_t, 3> line{k + 1, (k + 1) % 7 + 1, (k + 3) % 7 + 1};
    for (size_t s = 0; s < 3; ++s) {
      size_t x = line[s], y = line[(s + 1) % 3], z = line[(s + 2) % 3];
      if (x == i && y == j) return {z, 1};
      if (x == j && y == i) return {z, -1};
    }
  }
  fail(ErrorCode::internal, "sigmatics: e{} and e{} lie on no line", i, j);
}

}  // namespace

Clifford product(const Clifford& a, const Clifford& b) {
  Clifford out{};
  for (unsigned i = 0; i < a.size(); ++i) {
    if (a[i] == 0) continue;
    for (unsigned j = 0; j < b.size(); ++j)
      out[i ^ j] += (exchanges(i, j) % 2 ? -a[i] : a[i]) * b[j];
  }
  return out;
}

Cyclic4 product(const Cyclic4& a, const Cyclic4& b) { return convolution(a, b); }
Cyclic3 product(const Cyclic3& a, const Cyclic3& b) { return convolution(a, b); }

Octonion product(const Octonion& a, const Octonion& b) {
  Octonion out{};
  out[0] = a[0] * b[0];
  for (size_t i = 1; i < 8; ++i) {
    out[0] -= a[i] * b[i];
    out[i] += a[0] * b[i] + a[i] * b[0];
    for (size_t j = 1; j < 8; ++j) {
      if (i == j) continue;
      Unit u = unit_product(i, j);
      out[u.index] += u.sign * a[i] * b[j];
    }
  }
  return out;
}

double norm(const Octonion& a) {
  double s = 0;
  for (double x : a) s += x * x;
  return s;
}

Element product(const Element& a, const Element& b) {
  return {product(a.clifford, b.clifford), product(a.quadrant, b.quadrant),
          product(a.modality, b.modality)};
}

Element sum(const Element& a, const Element& b) {
  Element out = a;
  for (size_t k = 0; k < out.clifford.size(); ++k) out.clifford[k] += b.clifford[k];
  for (size_t k = 0; k < out.quadrant.size(); ++k) out.quadrant[k] += b.quadrant[k];
  for (size_t k = 0; k < out.modality.size(); ++k) out.modality[k] += b.modality[k];
  return out;
}

Element scaled(const Element& a, double by) {
  Element out = a;
  for (double& x : out.clifford) x *= by;
  for (double& x : out.quadrant) x *= by;
  for (double& x : out.modality) x *= by;
  return out;
}

Element lift(int64_t cls) {
  Parts p = parts_of(cls);
  Element out{{}, power<4>(p.h2), power<3>(p.d)};
  out.clifford[blade(static_cast<size_t>(p.l))] = 1;
  return out;
}

std::optional<int> project(const Element& e) {
  auto b = only_term(e.clifford);
  auto h2 = only_term(e.quadrant), d = only_term(e.modality);
  if (!b || !h2 || !d || std::popcount(*b) > 1) return std::nullopt;
  int l = *b == 0 ? 0 : std::countr_zero(*b) + 1;
  return class_index({static_cast<int>(*h2), static_cast<int>(*d), l});
}

Element rotate(const Element& e, int64_t k) {
  return {e.clifford, product(power<4>(k), e.quadrant), e.modality};
}

Element shift_modality(const Element& e, int64_t k) {
  return {e.clifford, e.quadrant, product(e.modality, power<3>(k))};
}

Element twist(const Element& e, int64_t k) {
  Element out{{}, e.quadrant, e.modality};
  int terms = 0;
  for (size_t b = 0; b < e.clifford.size(); ++b) {
    if (std::abs(e.clifford[b]) <= tolerance) continue;
    require(++terms == 1 && std::popcount(b) <= 1,
            "twist: expected a single scalar or vector term");
    int64_t l = b == 0 ? 0 : std::countr_zero(b) + 1;
    out.clifford[blade(position(l + k % 8, 8))] = e.clifford[b];
  }
  require(terms == 1, "twist: expected a single scalar or vector term");
  return out;
}

Element mirror(const Element& e) {
  return {e.clifford, e.quadrant, {e.modality[0], e.modality[2], e.modality[1]}};
}

}  // namespace hologram::sigmatics

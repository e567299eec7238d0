// sigmatics/algebra.h: classes as elements of a product of three algebras.
//
// An element is (Clifford part, Z4 part, Z3 part), multiplied, added and scaled part by part: the
// direct product of the Clifford algebra on e1…e7 with squares +1 and the real group algebras of Z4
// and Z3. A class (h2, d, l) is (1 or e_l, r^h2, tau^d). On classes R multiplies by r, D by tau, T
// permutes 1, e1, …, e7 cyclically, ~ inverts tau. T is no automorphism of the algebra.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace hologram::sigmatics {

/// Coefficient per blade; blade k is the product of the e_i with bit i - 1 of k set, ascending.
using Clifford = std::array<double, 128>;
/// Coefficient per power of the generator.
using Cyclic4 = std::array<double, 4>;
using Cyclic3 = std::array<double, 3>;
/// Components of 1, e1, …, e7.
using Octonion = std::array<double, 8>;

/// Geometric product; every e_i squares to +1.
Clifford product(const Clifford& a, const Clifford& b);
/// Cyclic convolutions.
Cyclic4 product(const Cyclic4& a, const Cyclic4& b);
Cyclic3 product(const Cyclic3& a, const Cyclic3& b);

/// e_i e_j = e_k on the lines (1,2,4) (2,3,5) (3,4,6) (4,5,7) (5,6,1) (6,7,2) (7,1,3), cyclically;
/// anticommuting, squares -1. The norm is multiplicative, the product alternative.
Octonion product(const Octonion& a, const Octonion& b);
/// The sum of squares.
double norm(const Octonion& a);

struct Element {
  Clifford clifford{};
  Cyclic4 quadrant{};
  Cyclic3 modality{};

  bool operator==(const Element&) const = default;
};

Element product(const Element& a, const Element& b);
Element sum(const Element& a, const Element& b);
Element scaled(const Element& a, double by);

/// The element of a class. Throws Error(invalid_argument) outside 0..95.
Element lift(int64_t cls);
/// The class of an element with exactly one term, of coefficient 1 up to 1e-10, in each part, a
/// scalar or vector one in the first; else nothing.
std::optional<int> project(const Element& e);

/// R, D, T and ~ on elements. T throws Error(invalid_argument) where the first part is not a single
/// scalar or vector term.
Element rotate(const Element& e, int64_t k);
Element shift_modality(const Element& e, int64_t k);
Element twist(const Element& e, int64_t k);
Element mirror(const Element& e);

}  // namespace hologram::sigmatics

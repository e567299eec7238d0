// base/expr.h: canonical integer expressions for dimensions, extents and index arithmetic.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hologram {

class Expr;

/// The indivisible parts of an Expr. A symbol is a run-time size, at least 1 where it matters for
/// proofs. An axis is a loop counter with 0 <= axis < extent. A value is a number known only inside
/// a kernel body (an index that was loaded), clamped so that 0 <= value < extent. A bounded atom
/// stands for an expression that something else, a guard say, holds within [0, extent), while
/// indices are simplified; Expr::unbounded takes them out, and no program has one. The others carry
/// two operands.
struct Atom {
  enum class Kind : uint8_t { symbol, axis, value, floor_div, mod, min, max, bounded };
  Kind kind;
  int id = 0;                        ///< symbol, axis and value: their number.
  std::shared_ptr<const Expr> a, b;  ///< axis, value and bounded: a = extent; bounded: b = what it
                                     ///< stands for; others: the operands.
  uint64_t hash = 0;

  /// Whether expressions are built of it whole: substitution and questions do not look inside.
  bool is_leaf() const { return kind <= Kind::value || kind == Kind::bounded; }
};
using AtomRef = std::shared_ptr<const Atom>;

/// Total order on atoms by content; 0 when equal. Axes and values compare by number alone.
int compare(const Atom& x, const Atom& y);

/// coefficient * product of atoms (sorted; a power repeats its atom).
struct Term {
  int64_t coefficient;
  std::vector<AtomRef> atoms;
};

/// An immutable polynomial with integer coefficients over atoms, kept in canonical form: equal
/// polynomials have equal representations. Cheap to copy. Arithmetic wraps nowhere: overflow of a
/// coefficient throws Error(invalid_argument).
class Expr {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): sizes are written as numbers
  Expr(int64_t constant = 0) : constant_(constant) {}
  static Expr symbol(int id);
  static Expr axis(int id, const Expr& extent);
  static Expr value(int id, const Expr& extent);
  /// An atom that stands for `e`, which is within [0, extent) where it matters.
  static Expr bounded(const Expr& e, const Expr& extent);

  bool is_const() const { return !terms_; }
  /// The value of a constant; throws Error(internal) otherwise.
  int64_t constant_value() const;
  bool is(int64_t c) const { return !terms_ && constant_ == c; }
  /// The constant term.
  int64_t constant() const { return constant_; }
  /// The non-constant terms, in canonical order.
  std::span<const Term> terms() const;
  /// The single atom that this expression is, or nullptr.
  const Atom* as_atom() const;

  uint64_t hash() const;
  bool operator==(const Expr& other) const;

  Expr operator+(const Expr& other) const;
  Expr operator-(const Expr& other) const;
  Expr operator*(const Expr& other) const;
  Expr operator-() const { return *this * Expr(-1); }
  Expr& operator+=(const Expr& other) { return *this = *this + other; }
  Expr& operator*=(const Expr& other) { return *this = *this * other; }

  /// Quotient if `d` divides this polynomial term by term.
  std::optional<Expr> exact_div(const Expr& d) const;

  /// True if `test` holds for an atom anywhere inside.
  bool any_atom(const std::function<bool(const Atom&)>& test) const;
  bool has_axis(int id) const;
  bool has_axes() const;
  /// Splits e = coefficient * axis(id) + rest with neither part containing the axis; nullopt if e
  /// is not linear in it.
  std::optional<std::pair<Expr, Expr>> linear_in_axis(int id) const;

  /// With what bounded atoms stand for in their place.
  Expr unbounded() const;

  /// Replaces symbols and axes; `lookup` returns nullopt to keep an atom.
  Expr substitute(const std::function<std::optional<Expr>(const Atom&)>& lookup) const;

  /// Value with the given symbols and axes. Division by zero gives 0.
  int64_t eval(std::span<const int64_t> symbols, std::span<const int64_t> axes = {},
               std::span<const int64_t> values = {}) const;

  /// "384*i0 + i1 + 2"; parse_expr reads it back.
  std::string str() const;

  /// From terms in any order; brings them into canonical form. For the implementation and parsers.
  static Expr from_terms(int64_t constant, std::vector<Term> terms);

 private:
  struct Poly;
  int64_t constant_ = 0;
  std::shared_ptr<const Poly> terms_;
};

/// Mathematical floor of a / b, simplified with the known ranges of axes and with b > 0. A divisor
/// that is provably negative is an Error(invalid_argument).
Expr floor_div(const Expr& a, const Expr& b);
/// a - b * floor_div(a, b) (b > 0).
Expr mod(const Expr& a, const Expr& b);
Expr ceil_div(const Expr& a, const Expr& b);
Expr min(const Expr& a, const Expr& b);
Expr max(const Expr& a, const Expr& b);

/// True if e >= 0 can be shown for every legal value of its axes and for all symbols >= 1.
bool provably_nonnegative(const Expr& e);
/// True if a < b can be shown.
inline bool provably_less(const Expr& a, const Expr& b) {
  return provably_nonnegative(b - a - Expr(1));
}

/// Reads what str() writes. `extent_of` gives the extent of axis i<k> or of value v<k> (throws for
/// an unknown one). Throws Error(invalid_argument) with the position on malformed text.
Expr parse_expr(std::string_view text,
                const std::function<Expr(Atom::Kind kind, int id)>& extent_of = {});

using Shape = std::vector<Expr>;
/// Product of the dimensions.
Expr numel(const Shape& shape);
/// Row-major strides in elements.
Shape contiguous_strides(const Shape& shape);
/// "[2, s0, 384]".
std::string str(const Shape& shape);

}  // namespace hologram

template <>
struct std::hash<hologram::Expr> {
  size_t operator()(const hologram::Expr& e) const noexcept { return e.hash(); }
};

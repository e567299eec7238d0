// base/expr_division.cpp: quotients, remainders, minima and maxima of integer expressions.
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/expr_format.h"
#include "base/expr_parts.h"
#include "base/expr_range.h"

namespace hologram {

using namespace expr_parts;

namespace {

// t / d for a monomial d.
std::optional<Term> divide_term(const Term& t, int64_t c, std::span<const AtomRef> atoms) {
  if (c == 0 || t.coefficient % c != 0) return std::nullopt;
  Term q{t.coefficient / c, t.atoms};
  for (const AtomRef& a : atoms) {
    auto it = std::find_if(q.atoms.begin(), q.atoms.end(),
                           [&](const AtomRef& x) { return compare(*x, *a) == 0; });
    if (it == q.atoms.end()) return std::nullopt;
    q.atoms.erase(it);
  }
  return q;
}

struct Split {
  Expr quotient, rest;
};

// e = d * quotient + rest with every term of rest not divisible by the monomial d.
Split split_by(const Expr& e, const Expr& d) {
  int64_t c = d.constant();
  std::span<const AtomRef> atoms;
  if (!d.is_const()) {
    if (d.terms().size() != 1 || c != 0) {  // a sum: only whole multiples are seen
      if (e == d) return {Expr(1), Expr(0)};
      return {Expr(0), e};
    }
    c = d.terms()[0].coefficient;
    atoms = d.terms()[0].atoms;
  }
  std::vector<Term> q, r;
  r.reserve(e.terms().size());
  for (const Term& t : e.terms()) {
    if (auto x = divide_term(t, c, atoms))
      q.push_back(std::move(*x));
    else
      r.push_back(t);
  }
  int64_t qc = 0, rc = e.constant();
  if (atoms.empty()) {
    qc = floor_div_value(rc, c);
    rc = wrapping_sub(rc, wrapping_mul(qc, c));
  }
  if (q.empty() && qc == 0) return {Expr(0), e};
  return {Expr::from_terms(qc, std::move(q)), Expr::from_terms(rc, std::move(r))};
}

int64_t gcd_of_terms(const Expr& e, int64_t g) {
  for (const Term& t : e.terms()) g = std::gcd(g, t.coefficient);
  return g;
}

Expr divide_terms_by(const Expr& e, int64_t g) {
  std::vector<Term> terms(e.terms().begin(), e.terms().end());
  for (Term& t : terms) t.coefficient /= g;
  return Expr::from_terms(floor_div_value(e.constant(), g), std::move(terms));
}

bool within(const Expr& r, const Expr& d) {
  if (!provably_nonnegative(r)) return false;
  if (d.is_const())
    if (const auto most = number_bound(r, true)) return *most < d.constant();
  return provably_less(r, d);
}

void check_divisor(const Expr& b) {
  bool bad = b.is_const() ? b.constant_value() < 0 : provably_nonnegative(-b);
  require(!bad, "size arithmetic: the divisor {} is negative", b);
}

}  // namespace

std::optional<Expr> Expr::exact_div(const Expr& d) const {
  if (*this == d) return Expr(1);
  if (!d.is_const() && (d.terms().size() != 1 || d.constant() != 0)) return std::nullopt;
  if (d.is(0)) return std::nullopt;
  Split s = split_by(*this, d);
  return s.rest.is(0) ? std::optional(s.quotient) : std::nullopt;
}

Expr floor_div(const Expr& a, const Expr& b) {
  check_divisor(b);
  if (b.is(1)) return a;
  if (a.is_const() && b.is_const())
    return Expr(floor_div_value(a.constant_value(), b.constant_value()));
  if (b.is(0)) return Expr(0);
  Split s = split_by(a, b);
  if (within(s.rest, b)) return s.quotient;
  Expr r = s.rest, d = b;
  if (d.is_const()) {
    if (int64_t g = gcd_of_terms(r, d.constant_value()); g > 1) {
      r = divide_terms_by(r, g);
      d = Expr(d.constant_value() / g);
      if (d.is(1) || within(r, d)) return s.quotient + floor_div(r, d);
    }
  }
  if (const Atom* x = r.as_atom(); x && x->kind == Atom::Kind::floor_div)
    return s.quotient + floor_div(*x->a, *x->b * d);
  return s.quotient + atom_expr(make_atom(Atom::Kind::floor_div, 0, &r, &d));
}

Expr mod(const Expr& a, const Expr& b) {
  check_divisor(b);
  if (b.is(1) || b.is(0)) return Expr(0);
  if (a.is_const() && b.is_const()) return a - b * floor_div(a, b);
  const Expr r = split_by(a, b).rest;
  const Expr& d = b;
  if (within(r, d)) return r;
  if (d.is_const()) {
    int64_t g = gcd_of_terms(r, d.constant_value());
    if (g > 1 && r.constant() % g == 0)
      return Expr(g) * mod(divide_terms_by(r, g), Expr(d.constant_value() / g));
  }
  if (const Atom* x = r.as_atom(); x && x->kind == Atom::Kind::mod && x->b->exact_div(d))
    return mod(*x->a, d);
  return atom_expr(make_atom(Atom::Kind::mod, 0, &r, &d));
}

Expr ceil_div(const Expr& a, const Expr& b) { return floor_div(a + b - Expr(1), b); }

Expr min(const Expr& a, const Expr& b) {
  if (provably_nonnegative(b - a)) return a;
  if (provably_nonnegative(a - b)) return b;
  bool ordered = compare_exprs(a, b) <= 0;
  return atom_expr(make_atom(Atom::Kind::min, 0, ordered ? &a : &b, ordered ? &b : &a));
}

Expr max(const Expr& a, const Expr& b) {
  if (provably_nonnegative(b - a)) return b;
  if (provably_nonnegative(a - b)) return a;
  bool ordered = compare_exprs(a, b) <= 0;
  return atom_expr(make_atom(Atom::Kind::max, 0, ordered ? &a : &b, ordered ? &b : &a));
}

}  // namespace hologram

// base/expr_bounds.cpp: proofs about the sign of integer expressions.
#include <algorithm>
#include <optional>

#include "base/expr_range.h"

namespace hologram {
namespace {

constexpr int max_depth = 12;

std::optional<Expr> bound(const Expr& e, bool upper, int depth);

std::optional<int64_t> number_bound(const Expr& e, bool upper, int depth);

// As bound_atom, of atoms whose bounds are numbers whatever surrounds them.
std::optional<int64_t> number_bound(const Atom& a, bool upper, int depth) {
  using K = Atom::Kind;
  switch (a.kind) {
    case K::axis:
    case K::value:
    case K::bounded:
    case K::mod: {
      if (!upper) return 0;
      const Expr& end = a.kind == K::mod ? *a.b : *a.a;
      if (!end.is_const()) return std::nullopt;
      return end.constant() - 1;
    }
    case K::floor_div: {
      const auto x = number_bound(*a.a, upper, depth);
      if (!x || *x < 0 || !a.b->is_const() || a.b->constant() <= 0) return std::nullopt;
      return *x / a.b->constant();
    }
    default:
      return std::nullopt;
  }
}

// As bound, where it is a sum of such atoms' bounds and does not overflow.
std::optional<int64_t> number_bound(const Expr& e, bool upper, int depth) {
  if (depth <= 0) return std::nullopt;
  int64_t sum = e.constant();
  for (const Term& t : e.terms()) {
    if (t.atoms.size() != 1) return std::nullopt;
    const auto b = number_bound(*t.atoms[0], (t.coefficient > 0) == upper, depth - 1);
    int64_t product;
    if (!b || __builtin_mul_overflow(t.coefficient, *b, &product) ||
        __builtin_add_overflow(sum, product, &sum))
      return std::nullopt;
  }
  return sum;
}

// Bound of one atom as an expression over symbols alone; nullopt when none is known.
std::optional<Expr> bound_atom(const Atom& a, bool upper, int depth) {
  using K = Atom::Kind;
  switch (a.kind) {
    case K::symbol:
      return Expr::symbol(a.id);
    case K::axis:
    case K::value:
    case K::bounded:
      return upper ? bound(*a.a - Expr(1), true, depth) : Expr(0);
    case K::mod:
      return upper ? bound(*a.b - Expr(1), true, depth) : Expr(0);
    case K::floor_div: {
      auto x = bound(*a.a, upper, depth);
      if (!x || !provably_nonnegative(*x)) return std::nullopt;
      if (a.b->is_const()) return floor_div(*x, *a.b);
      return upper ? x : Expr(0);
    }
    case K::min:
    case K::max: {
      auto x = bound(*a.a, upper, depth), y = bound(*a.b, upper, depth);
      bool loose =
          upper == (a.kind == K::min);  // either operand bounds a min from above, a max from below
      if (loose && (!x || !y)) return x ? x : y;
      if (!x || !y) return std::nullopt;
      if (x->is_const() && y->is_const())
        return Expr(a.kind == K::min ? std::min(x->constant_value(), y->constant_value())
                                     : std::max(x->constant_value(), y->constant_value()));
      return loose ? x : std::nullopt;
    }
  }
  return std::nullopt;
}

bool atom_nonnegative(const Atom& a, int depth) {
  using K = Atom::Kind;
  if (a.is_leaf() || a.kind == K::mod) return true;
  auto low = bound_atom(a, false, depth);
  return low && provably_nonnegative(*low);
}

// Bound of e over its axes as an expression over symbols.
std::optional<Expr> bound(const Expr& e, bool upper, int depth) {
  if (depth <= 0) return std::nullopt;
  Expr sum(e.constant());
  for (const Term& t : e.terms()) {
    bool up = (t.coefficient > 0) == upper;
    Expr product(t.coefficient);
    for (const AtomRef& a : t.atoms) {
      if (a->kind == Atom::Kind::symbol) {
        product *= Expr::symbol(a->id);
        continue;
      }
      if (t.atoms.size() > 1 && !atom_nonnegative(*a, depth - 1)) return std::nullopt;
      auto b = bound_atom(*a, up, depth - 1);
      if (!b) return std::nullopt;
      product *= *b;
    }
    sum += product;
  }
  return sum;
}

}  // namespace

std::optional<int64_t> number_bound(const Expr& e, bool upper) {
  return number_bound(e, upper, max_depth);
}

bool provably_nonnegative(const Expr& e) {
  if (const auto least = number_bound(e, false)) return *least >= 0;
  auto low = e.has_axes() || e.any_atom([](const Atom& a) { return a.kind != Atom::Kind::symbol; })
                 ? bound(e, false, max_depth)
                 : std::optional(e);
  if (!low) return false;
  // Every symbol is at least 1: write it as 1 + t and look at the signs.
  bool only_symbols = !low->any_atom([](const Atom& a) { return a.kind != Atom::Kind::symbol; });
  if (!only_symbols) return false;
  // The shift doubles a term for each of its symbols.
  for (const Term& t : low->terms())
    if (t.atoms.size() > 10) return false;
  Expr shifted = low->substitute(
      [](const Atom& a) -> std::optional<Expr> { return Expr::symbol(a.id) + Expr(1); });
  return shifted.constant() >= 0 && std::all_of(shifted.terms().begin(), shifted.terms().end(),
                                                [](const Term& t) { return t.coefficient > 0; });
}

}  // namespace hologram

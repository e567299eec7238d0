// strips/indices.cpp: index expressions along the lanes of a strip.
#include "strips/indices.h"

#include <algorithm>

namespace hologram::strips {
namespace {

int64_t ceil_of(int64_t a, int64_t b) { return (a + b - 1) / b; }  // both above 0

// Floor of x / d and the rest, of d > 0.
Line divided(Line x, int64_t d, bool quotient, int64_t& limit) {
  if (d == 0) return {};
  if (d < 0) {  // no program of the planner's: one lane at a time
    limit = 1;
    int64_t q = x.at / d;
    if (q * d != x.at && x.at > 0) --q;
    return {quotient ? q : x.at - q * d, 0};
  }
  int64_t q = x.at / d, r = x.at % d;
  if (r < 0) --q, r += d;
  if (x.step % d == 0) return quotient ? Line{q, x.step / d} : Line{r, 0};
  limit = std::min(limit, x.step > 0 ? ceil_of(d - r, x.step) : r / -x.step + 1);
  return quotient ? Line{q, 0} : Line{r, x.step};
}

// Whether x is at least 0, which stays so for all of the lanes.
bool at_least_zero(Line x, int64_t& limit) {
  if (x.at >= 0 && x.step < 0) limit = std::min(limit, x.at / -x.step + 1);
  if (x.at < 0 && x.step > 0) limit = std::min(limit, ceil_of(-x.at, x.step));
  return x.at >= 0;
}

Line times(Line x, Line y, int64_t& limit) {
  if (x.step != 0 && y.step != 0) limit = 1;
  return {x.at * y.at, x.at * y.step + x.step * y.at};
}

}  // namespace

int Indices::add(Number n) {
  n.varies = n.varies || n.a.varies || n.b.varies;
  numbers_.push_back(std::move(n));
  return static_cast<int>(numbers_.size()) - 1;
}

std::optional<int> Indices::number(const AtomRef& atom) {
  for (size_t k = 0; k < numbers_.size(); ++k)
    if (numbers_[k].atom && compare(*numbers_[k].atom, *atom) == 0) return static_cast<int>(k);
  Number n;
  n.atom = atom;
  n.id = atom->id;
  switch (atom->kind) {
    case Atom::Kind::symbol:
      n.kind = Kind::symbol;
      return add(std::move(n));
    case Atom::Kind::axis:
      n.kind = Kind::axis;
      n.varies = atom->id == lane_axis_;
      return add(std::move(n));
    case Atom::Kind::floor_div:
      n.kind = Kind::quotient;
      break;
    case Atom::Kind::mod:
      n.kind = Kind::remainder;
      break;
    case Atom::Kind::min:
      n.kind = Kind::least;
      break;
    case Atom::Kind::max:
      n.kind = Kind::most;
      break;
    default:
      return std::nullopt;
  }
  auto a = sum(*atom->a), b = sum(*atom->b);
  if (!a || !b) return std::nullopt;
  if ((n.kind == Kind::quotient || n.kind == Kind::remainder) && b->varies) return std::nullopt;
  n.a = std::move(*a);
  n.b = std::move(*b);
  return add(std::move(n));
}

std::optional<Indices::Sum> Indices::sum(const Expr& e) {
  Sum out;
  out.constant = e.constant();
  for (const Term& t : e.terms()) {
    std::optional<int> product;
    for (const AtomRef& atom : t.atoms) {
      auto factor = number(atom);
      if (!factor) return std::nullopt;
      if (product) {
        Number n;
        n.kind = Kind::product;
        n.a.parts = {{1, *product}};
        n.b.parts = {{1, *factor}};
        n.varies = numbers_[static_cast<size_t>(*product)].varies ||
                   numbers_[static_cast<size_t>(*factor)].varies;
        factor = add(std::move(n));
      }
      product = factor;
    }
    out.parts.push_back({t.coefficient, *product});
    out.varies = out.varies || numbers_[static_cast<size_t>(*product)].varies;
  }
  return out;
}

std::optional<int> Indices::at_least_zero(const Sum& e) {
  Number n;
  n.kind = Kind::sign;
  n.a = e;
  const int at = add(std::move(n));
  numbers_.back().varies = false;
  return at;
}

int64_t Indices::step_along(const Sum& sum, int axis) const {
  int64_t step = 0;
  for (const Part& p : sum.parts) {
    const Number& n = numbers_[static_cast<size_t>(p.number)];
    if (n.kind == Kind::axis && n.id == axis) step += p.coefficient;
  }
  return step;
}

bool Indices::linear_along(int axis) const {
  return std::ranges::all_of(numbers_, [&](const Number& n) {
    return step_along(n.a, axis) == 0 && step_along(n.b, axis) == 0;
  });
}

int64_t Indices::evaluate(const int64_t* symbols, const int64_t* axes, int64_t lanes,
                          Line* numbers) const {
  int64_t limit = lanes;
  for (size_t k = 0; k < numbers_.size(); ++k) {
    const Number& n = numbers_[k];
    Line& out = numbers[k];
    const Line a = value(n.a, numbers), b = value(n.b, numbers);
    switch (n.kind) {
      case Kind::symbol:
        out = {symbols[n.id], 0};
        break;
      case Kind::axis:
        out = {axes[n.id], n.id == lane_axis_};
        break;
      case Kind::product:
        out = times(a, b, limit);
        break;
      case Kind::quotient:
      case Kind::remainder:
        out = divided(a, b.at, n.kind == Kind::quotient, limit);
        break;
      case Kind::least:
      case Kind::most: {
        const bool first = strips::at_least_zero({b.at - a.at, b.step - a.step}, limit);
        out = first == (n.kind == Kind::least) ? a : b;
        break;
      }
      case Kind::sign:
        out = {strips::at_least_zero(a, limit), 0};
        break;
    }
  }
  return limit;
}

}  // namespace hologram::strips

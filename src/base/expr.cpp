// base/expr.cpp: canonical form and arithmetic of integer expressions.
#include "base/expr.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/expr_parts.h"

namespace hologram {

using namespace expr_parts;

struct Expr::Poly {
  std::vector<Term> terms;
  uint64_t hash;
  unsigned kinds;  // bits of the kinds of atoms that stand anywhere inside

  static unsigned bit(Atom::Kind kind) { return 1u << static_cast<int>(kind); }
  static unsigned kinds_in(const Expr& e) { return e.terms_ ? e.terms_->kinds : 0; }
  static unsigned kinds_in(const Atom& a) {
    return bit(a.kind) | (a.is_leaf() ? 0 : kinds_in(*a.a) | kinds_in(*a.b));
  }

  static Expr with_constant(const Expr& e, int64_t constant);
  static Expr of_ordered(int64_t constant, std::vector<Term> terms);
  static Expr sum(const Expr& x, const Expr& y, int64_t sign);
  static Expr scaled(const Expr& e, int64_t c);
  static Expr substitute(const Expr& e,
                         const std::function<std::optional<Expr>(const Atom&)>& lookup);
};

namespace {

uint64_t mix(uint64_t h, uint64_t v) {
  h ^= v + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2);
  return h * 0xff51afd7ed558ccdull;
}

int64_t mul_checked(int64_t a, int64_t b) {
  int64_t r;
  require(!__builtin_mul_overflow(a, b, &r), "size arithmetic: {} * {} overflows 64 bits", a, b);
  return r;
}

int64_t add_checked(int64_t a, int64_t b) {
  int64_t r;
  require(!__builtin_add_overflow(a, b, &r), "size arithmetic: {} + {} overflows 64 bits", a, b);
  return r;
}

// No sane index needs more; parsers meet insane ones.
void require_few(size_t terms) {
  require(terms <= 1 << 12, "size arithmetic: an expression of {} terms", terms);
}

int compare_atoms(const std::vector<AtomRef>& x, const std::vector<AtomRef>& y) {
  if (x.size() != y.size()) return x.size() < y.size() ? -1 : 1;
  for (size_t i = 0; i < x.size(); ++i)
    if (int c = compare(*x[i], *y[i])) return c;
  return 0;
}

bool less_terms(const Term& x, const Term& y) { return compare_atoms(x.atoms, y.atoms) < 0; }

bool less_atoms(const AtomRef& x, const AtomRef& y) { return compare(*x, *y) < 0; }

bool is_monomial(const Expr& e) {
  return e.is_const() || (e.terms().size() == 1 && e.constant() == 0);
}

// The term c*d*floor(r/d) that makes c*r of terms c*mod(r,d); nullopt if d is a sum or it
// overflows.
std::optional<Term> complement(int64_t c, std::vector<AtomRef> others, const Expr& r,
                               const Expr& d) {
  if (!is_monomial(d)) return std::nullopt;
  Term t{c, std::move(others)};
  if (__builtin_mul_overflow(c, d.is_const() ? d.constant() : d.terms()[0].coefficient,
                             &t.coefficient))
    return std::nullopt;
  if (!d.is_const())
    t.atoms.insert(t.atoms.end(), d.terms()[0].atoms.begin(), d.terms()[0].atoms.end());
  t.atoms.push_back(make_atom(Atom::Kind::floor_div, 0, &r, &d));
  std::sort(t.atoms.begin(), t.atoms.end(), less_atoms);
  return t;
}

// c*d*floor(r/d) + c*mod(r,d) = c*r: finds such a pair in canonical terms, removes it and returns
// c*r.
std::optional<Expr> recombine(std::vector<Term>& terms) {
  if (terms.size() < 2) return std::nullopt;
  for (size_t m = 0; m < terms.size(); ++m) {
    const Term& term = terms[m];
    for (size_t k = 0; k < term.atoms.size(); ++k) {
      if (term.atoms[k]->kind != Atom::Kind::mod) continue;
      const AtomRef atom = term.atoms[k];
      std::vector<AtomRef> others = term.atoms;
      others.erase(others.begin() + static_cast<ptrdiff_t>(k));
      std::optional<Term> wanted = complement(term.coefficient, others, *atom->a, *atom->b);
      if (!wanted) continue;
      auto found = std::lower_bound(terms.begin(), terms.end(), *wanted, less_terms);
      if (found == terms.end() || compare_atoms(found->atoms, wanted->atoms) != 0 ||
          found->coefficient != wanted->coefficient)
        continue;
      Expr factor = Expr::from_terms(0, {Term{term.coefficient, std::move(others)}});
      size_t j = static_cast<size_t>(found - terms.begin());
      terms.erase(terms.begin() + static_cast<ptrdiff_t>(std::max(j, m)));
      terms.erase(terms.begin() + static_cast<ptrdiff_t>(std::min(j, m)));
      return factor * *atom->a;
    }
  }
  return std::nullopt;
}

}  // namespace

AtomRef expr_parts::make_atom(Atom::Kind kind, int id, const Expr* a, const Expr* b) {
  auto atom = std::make_shared<Atom>();
  atom->kind = kind;
  atom->id = id;
  uint64_t h = mix(static_cast<uint64_t>(kind) + 1, static_cast<uint64_t>(id));
  if (a) atom->a = std::make_shared<const Expr>(*a);
  if (b) atom->b = std::make_shared<const Expr>(*b);
  if (kind != Atom::Kind::axis && kind != Atom::Kind::value) {
    if (a) h = mix(h, a->hash());
    if (b) h = mix(h, b->hash());
  }
  atom->hash = h;
  return atom;
}

int expr_parts::compare_exprs(const Expr& x, const Expr& y) {
  auto tx = x.terms(), ty = y.terms();
  if (tx.size() != ty.size()) return tx.size() < ty.size() ? -1 : 1;
  for (size_t i = 0; i < tx.size(); ++i) {
    if (int c = compare_atoms(tx[i].atoms, ty[i].atoms)) return c;
    if (tx[i].coefficient != ty[i].coefficient)
      return tx[i].coefficient < ty[i].coefficient ? -1 : 1;
  }
  return x.constant() == y.constant() ? 0 : x.constant() < y.constant() ? -1 : 1;
}

int compare(const Atom& x, const Atom& y) {
  if (&x == &y) return 0;
  if (x.kind != y.kind) return x.kind < y.kind ? -1 : 1;
  if (x.kind <= Atom::Kind::value) return x.id == y.id ? 0 : x.id < y.id ? -1 : 1;
  if (int c = compare_exprs(*x.a, *y.a)) return c;
  return compare_exprs(*x.b, *y.b);
}

Expr Expr::from_terms(int64_t constant, std::vector<Term> terms) {
  require_few(terms.size());
  for (Term& t : terms) {
    require(t.atoms.size() <= 64, "size arithmetic: a term of degree {}", t.atoms.size());
    if (t.atoms.size() > 1) std::sort(t.atoms.begin(), t.atoms.end(), less_atoms);
    if (t.atoms.empty()) constant = add_checked(constant, std::exchange(t.coefficient, 0));
  }
  if (terms.size() > 1) std::sort(terms.begin(), terms.end(), less_terms);
  size_t count = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    if (count > 0 && compare_atoms(terms[count - 1].atoms, terms[i].atoms) == 0)
      terms[count - 1].coefficient =
          add_checked(terms[count - 1].coefficient, terms[i].coefficient);
    else if (count++ != i)
      terms[count - 1] = std::move(terms[i]);
  }
  terms.resize(count);
  return Poly::of_ordered(constant, std::move(terms));
}

// The terms of e with another constant.
Expr Expr::Poly::with_constant(const Expr& e, int64_t constant) {
  add_checked(constant, -1);
  Expr out(constant);
  out.terms_ = e.terms_;
  return out;
}

// Of terms in canonical order, each of other atoms.
Expr Expr::Poly::of_ordered(int64_t constant, std::vector<Term> terms) {
  std::erase_if(terms, [](const Term& t) { return t.coefficient == 0; });
  // The least integer has no opposite.
  for (const Term& t : terms) add_checked(t.coefficient, -1);
  add_checked(constant, -1);
  unsigned top = 0, kinds = 0;
  uint64_t h = 17;
  for (const Term& t : terms) {
    h = mix(h, static_cast<uint64_t>(t.coefficient));
    for (const AtomRef& a : t.atoms) {
      h = mix(h, a->hash);
      top |= bit(a->kind);
      kinds |= kinds_in(*a);
    }
  }
  if ((top & bit(Atom::Kind::mod)) && (top & bit(Atom::Kind::floor_div)))
    if (auto whole = recombine(terms)) return of_ordered(constant, std::move(terms)) + *whole;
  Expr e(constant);
  if (!terms.empty()) e.terms_ = std::make_shared<const Poly>(Poly{std::move(terms), h, kinds});
  return e;
}

Expr Expr::symbol(int id) { return atom_expr(make_atom(Atom::Kind::symbol, id, nullptr, nullptr)); }

Expr Expr::axis(int id, const Expr& extent) {
  return atom_expr(make_atom(Atom::Kind::axis, id, &extent, nullptr));
}

Expr Expr::value(int id, const Expr& extent) {
  return atom_expr(make_atom(Atom::Kind::value, id, &extent, nullptr));
}

int64_t Expr::constant_value() const {
  check(is_const(), "Expr::constant_value on a symbolic expression");
  return constant_;
}

Expr Expr::bounded(const Expr& e, const Expr& extent) {
  const Expr actual = e.unbounded();
  return atom_expr(make_atom(Atom::Kind::bounded, 0, &extent, &actual));
}

Expr Expr::unbounded() const {
  if (!(Poly::kinds_in(*this) & Poly::bit(Atom::Kind::bounded))) return *this;
  return substitute([&](const Atom& a) {
    return a.kind == Atom::Kind::bounded ? std::optional(*a.b) : std::nullopt;
  });
}

std::span<const Term> Expr::terms() const {
  return terms_ ? std::span<const Term>(terms_->terms) : std::span<const Term>();
}

const Atom* Expr::as_atom() const {
  auto t = terms();
  return constant_ == 0 && t.size() == 1 && t[0].coefficient == 1 && t[0].atoms.size() == 1
             ? t[0].atoms[0].get()
             : nullptr;
}

uint64_t Expr::hash() const {
  return mix(terms_ ? terms_->hash : 0, static_cast<uint64_t>(constant_));
}

bool Expr::operator==(const Expr& other) const {
  if (constant_ != other.constant_) return false;
  if (terms_ == other.terms_) return true;
  if (!terms_ || !other.terms_ || terms_->hash != other.terms_->hash) return false;
  return compare_exprs(*this, other) == 0;
}

Expr Expr::operator+(const Expr& other) const {
  if (is_const() && other.is_const()) return Expr(add_checked(constant_, other.constant_));
  if (other.is(0)) return *this;
  if (is(0)) return other;
  return Poly::sum(*this, other, 1);
}

Expr Expr::operator-(const Expr& other) const {
  if (is_const() && other.is_const()) return *this + Expr(mul_checked(other.constant_, -1));
  if (other.is(0)) return *this;
  return Poly::sum(*this, other, -1);
}

// x + sign * y, of which one is no constant.
Expr Expr::Poly::sum(const Expr& x, const Expr& y, int64_t sign) {
  const int64_t constant = add_checked(x.constant_, mul_checked(y.constant_, sign));
  if (y.is_const()) return with_constant(x, constant);
  if (x.is_const() && sign == 1) return with_constant(y, constant);
  const std::span<const Term> a = x.terms(), b = y.terms();
  require_few(a.size() + b.size());
  std::vector<Term> all;
  all.reserve(a.size() + b.size());
  for (size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    const int order = i == a.size()   ? 1
                      : j == b.size() ? -1
                                      : compare_atoms(a[i].atoms, b[j].atoms);
    if (order < 0) {
      all.push_back(a[i++]);
      continue;
    }
    int64_t coefficient = mul_checked(b[j].coefficient, sign);
    if (order == 0) coefficient = add_checked(a[i++].coefficient, coefficient);
    if (coefficient != 0) all.push_back({coefficient, b[j].atoms});
    ++j;
  }
  return of_ordered(constant, std::move(all));
}

Expr Expr::Poly::scaled(const Expr& e, int64_t c) {
  std::vector<Term> terms(e.terms().begin(), e.terms().end());
  for (Term& t : terms) t.coefficient = mul_checked(t.coefficient, c);
  return of_ordered(mul_checked(e.constant_, c), std::move(terms));
}

Expr Expr::operator*(const Expr& other) const {
  if (is_const() && other.is_const()) return Expr(mul_checked(constant_, other.constant_));
  if (is(0) || other.is(0)) return Expr(0);
  if (is(1)) return other;
  if (other.is(1)) return *this;
  if (other.is_const()) return Poly::scaled(*this, other.constant_);
  if (is_const()) return Poly::scaled(other, constant_);
  std::vector<Term> all;
  auto add_scaled = [&](const Expr& e, int64_t c) {
    if (c != 0)
      for (const Term& t : e.terms()) all.push_back({mul_checked(t.coefficient, c), t.atoms});
  };
  require((terms().size() + 1) * (other.terms().size() + 1) <= 1 << 12,
          "size arithmetic: a product of {} by {} terms", terms().size(), other.terms().size());
  add_scaled(*this, other.constant_);
  add_scaled(other, constant_);
  for (const Term& x : terms())
    for (const Term& y : other.terms()) {
      Term t{mul_checked(x.coefficient, y.coefficient), x.atoms};
      t.atoms.insert(t.atoms.end(), y.atoms.begin(), y.atoms.end());
      all.push_back(std::move(t));
    }
  return from_terms(mul_checked(constant_, other.constant_), std::move(all));
}

bool Expr::any_atom(const std::function<bool(const Atom&)>& test) const {
  for (const Term& t : terms())
    for (const AtomRef& a : t.atoms) {
      if (test(*a)) return true;
      if (!a->is_leaf() && (a->a->any_atom(test) || a->b->any_atom(test))) return true;
    }
  return false;
}

bool Expr::has_axis(int id) const {
  return has_axes() &&
         any_atom([id](const Atom& a) { return a.kind == Atom::Kind::axis && a.id == id; });
}

bool Expr::has_axes() const { return Poly::kinds_in(*this) & Poly::bit(Atom::Kind::axis); }

std::optional<std::pair<Expr, Expr>> Expr::linear_in_axis(int id) const {
  if (!has_axis(id)) return std::pair(Expr(0), *this);
  std::vector<Term> with, without;
  for (const Term& t : terms()) {
    Term rest{t.coefficient, {}};
    int times = 0;
    for (const AtomRef& a : t.atoms) {
      if (a->kind == Atom::Kind::axis && a->id == id)
        ++times;
      else if (!a->is_leaf() && (a->a->has_axis(id) || a->b->has_axis(id)))
        return std::nullopt;
      else
        rest.atoms.push_back(a);
    }
    if (times > 1) return std::nullopt;
    (times == 1 ? with : without).push_back(std::move(rest));
  }
  return std::pair(from_terms(0, std::move(with)), Poly::of_ordered(constant_, std::move(without)));
}

Expr Expr::substitute(const std::function<std::optional<Expr>(const Atom&)>& lookup) const {
  return Poly::substitute(*this, lookup);
}

// The leaf that an atom becomes: itself, or another one.
static const AtomRef* leaf_for(const AtomRef& a, const std::optional<Expr>& made) {
  if (!made) return a->is_leaf() ? &a : nullptr;
  const Atom* leaf = made->as_atom();
  return leaf && leaf->is_leaf() ? &made->terms()[0].atoms[0] : nullptr;
}

// Terms of leaves alone, before and behind, are gathered; others are added one by one, since what
// they become depends on those before.
Expr Expr::Poly::substitute(const Expr& e,
                            const std::function<std::optional<Expr>(const Atom&)>& lookup) {
  using K = Atom::Kind;
  std::vector<Term> gathered;
  bool same = true;
  Expr sum(0);
  for (const Term& t : e.terms()) {
    Term leaves{t.coefficient, {}};
    std::optional<Expr> product;  // once an atom becomes more than a leaf
    for (const AtomRef& a : t.atoms) {
      std::optional<Expr> made = lookup(*a);
      same = same && !made && a->is_leaf();
      if (!made && !a->is_leaf()) {
        Expr x = a->a->substitute(lookup), y = a->b->substitute(lookup);
        made = a->kind == K::floor_div ? floor_div(x, y)
               : a->kind == K::mod     ? mod(x, y)
               : a->kind == K::min     ? min(x, y)
                                       : max(x, y);
      }
      const AtomRef* leaf = leaf_for(a, made);
      if (leaf && !product) {
        leaves.atoms.push_back(*leaf);
        continue;
      }
      if (!product) product = from_terms(0, {std::move(leaves)});
      *product *= made ? *made : from_terms(0, {Term{1, {a}}});
    }
    if (product)
      sum += *product;
    else
      gathered.push_back(std::move(leaves));
  }
  if (same) return e;
  return from_terms(e.constant_, std::move(gathered)) + sum;
}

int64_t Expr::eval(std::span<const int64_t> symbols, std::span<const int64_t> axes,
                   std::span<const int64_t> values) const {
  int64_t sum = constant_;
  for (const Term& t : terms()) {
    int64_t product = t.coefficient;
    for (const AtomRef& a : t.atoms) {
      using K = Atom::Kind;
      if (a->kind <= K::value) {
        auto known = a->kind == K::symbol ? symbols : a->kind == K::axis ? axes : values;
        check(static_cast<size_t>(a->id) < known.size(),
              "Expr::eval: unbound symbol, axis or value");
        product = wrapping_mul(product, known[static_cast<size_t>(a->id)]);
        continue;
      }
      if (a->kind == K::bounded) {
        product = wrapping_mul(product, a->b->eval(symbols, axes, values));
        continue;
      }
      int64_t x = a->a->eval(symbols, axes, values), y = a->b->eval(symbols, axes, values);
      int64_t part = a->kind == K::floor_div ? floor_div_value(x, y)
                     : a->kind == K::mod
                         ? (y == 0 ? 0 : wrapping_sub(x, wrapping_mul(y, floor_div_value(x, y))))
                     : a->kind == K::min ? std::min(x, y)
                                         : std::max(x, y);
      product = wrapping_mul(product, part);
    }
    sum = wrapping_sub(sum, wrapping_sub(0, product));
  }
  return sum;
}

Expr numel(const Shape& shape) {
  Expr n(1);
  for (const Expr& d : shape) n *= d;
  return n;
}

Shape contiguous_strides(const Shape& shape) {
  Shape strides(shape.size());
  Expr s(1);
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = s;
    if (!shape[i].is(0)) s *= shape[i];
  }
  return strides;
}

std::string str(const Shape& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + shape[i].str();
  return out + "]";
}

}  // namespace hologram

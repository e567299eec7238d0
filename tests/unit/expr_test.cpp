// tests/unit/expr_test.cpp: canonical integer expressions against direct arithmetic.
#include "base/expr.h"

#include "base/error.h"
#include "support/refusal.h"
#include "support/test.h"

namespace hologram {
namespace {

int64_t floor_of(int64_t a, int64_t b) {
  int64_t q = a / b;
  return q * b > a ? q - 1 : q;
}

// A random expression together with a way to compute it that knows nothing of Expr.
struct Both {
  Expr expr;
  std::function<int64_t(const std::vector<int64_t>& s, const std::vector<int64_t>& i)> direct;
};

class Maker {
 public:
  explicit Maker(uint64_t seed) : random_(seed) {
    for (int k = 0; k < 3; ++k) {
      extents.push_back(pick(3) == 0 ? Expr::symbol(k % 2) : Expr(pick(7) + 1));
      axes.push_back(Expr::axis(k, extents.back()));
    }
  }

  Both make(int depth) {
    if (depth == 0 || pick(5) == 0) return leaf();
    Both a = make(depth - 1), b = make(depth - 1);
    auto f = a.direct, g = b.direct;
    int64_t d = pick(6) + 1;
    Both divisor = pick(3) ? Both{Expr(d), [d](auto&, auto&) { return d; }} : symbol(pick(2));
    auto by = divisor.direct;
    switch (pick(8)) {
      case 0:
      case 1:
        return {a.expr + b.expr, [=](auto& s, auto& i) { return f(s, i) + g(s, i); }};
      case 2:
        return {a.expr - b.expr, [=](auto& s, auto& i) { return f(s, i) - g(s, i); }};
      case 3:
        return {a.expr * Expr(d), [=](auto& s, auto& i) { return f(s, i) * d; }};
      case 4:
        return {floor_div(a.expr, divisor.expr), [=](auto& s, auto& i) { return floor_of(f(s, i), by(s, i)); }};
      case 5:
        return {mod(a.expr, divisor.expr), [=](auto& s, auto& i) {
                  int64_t x = f(s, i), y = by(s, i);
                  return x - y * floor_of(x, y);
                }};
      case 6:
        return {min(a.expr, b.expr), [=](auto& s, auto& i) { return std::min(f(s, i), g(s, i)); }};
      default:
        return {max(a.expr, b.expr), [=](auto& s, auto& i) { return std::max(f(s, i), g(s, i)); }};
    }
  }

  Both leaf() {
    int how = pick(3);
    if (how == 0) {
      int64_t c = pick(21) - 10;
      return {Expr(c), [c](auto&, auto&) { return c; }};
    }
    if (how == 1) return symbol(pick(2));
    size_t k = static_cast<size_t>(pick(3));
    return {axes[k], [k](auto&, auto& i) { return i[k]; }};
  }

  static Both symbol(int k) {
    return {Expr::symbol(k), [k](auto& s, auto&) { return s[static_cast<size_t>(k)]; }};
  }

  int pick(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }

  std::vector<Expr> extents, axes;

 private:
  std::mt19937_64 random_;
};

// Calls f for values of the symbols and of the axes within their extents.
template <class F>
void points(Maker& m, F f) {
  for (const std::vector<int64_t>& s : {std::vector<int64_t>{1, 1}, {2, 5}, {7, 3}}) {
    std::vector<int64_t> n;
    for (const Expr& e : m.extents) n.push_back(e.eval(s));
    for (int k = 0; k < 12; ++k) {
      std::vector<int64_t> i;
      for (int64_t extent : n) i.push_back(k == 0 ? 0 : k == 1 ? extent - 1 : m.pick(static_cast<int>(extent)));
      f(s, i);
    }
  }
}

Expr extent_in(const Maker& m, Atom::Kind kind, int id) {
  require(kind == Atom::Kind::axis && id < 3, "unknown axis i{}", id);
  return m.extents[static_cast<size_t>(id)];
}

TEST(Expr, RandomExpressionsKeepTheirValuesAndReadBack) {
  for (uint64_t seed = 1; seed <= 6000; ++seed) {
    Maker m(seed);
    Both b = m.make(4);
    const Expr back = parse_expr(b.expr.str(), [&](Atom::Kind kind, int id) { return extent_in(m, kind, id); });
    ASSERT_TRUE(back == b.expr && back.hash() == b.expr.hash()) << "seed " << seed << ": " << b.expr.str() << " became " << back.str();
    points(m,
           [&](const auto& s, const auto& i) { ASSERT_EQ(b.expr.eval(s, i), b.direct(s, i)) << "seed " << seed << ": " << b.expr.str(); });
    if (HasFatalFailure()) return;
  }
}

TEST(Expr, ProofsAreTrue) {
  int proved = 0;
  for (uint64_t seed = 1; seed <= 6000; ++seed) {
    Maker m(seed);
    Both b = m.make(3);
    if (!provably_nonnegative(b.expr)) continue;
    ++proved;
    points(m, [&](const auto& s, const auto& i) { ASSERT_GE(b.direct(s, i), 0) << "seed " << seed << ": " << b.expr.str(); });
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(proved, 500) << "the proofs must not become useless";
}

TEST(Expr, SubstitutionCommutesWithEvaluation) {
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    Maker m(seed);
    Both b = m.make(4);
    Expr with = b.expr.substitute([](const Atom& a) -> std::optional<Expr> {
      return a.kind == Atom::Kind::symbol && a.id == 0 ? std::optional(Expr::symbol(1) + Expr(2)) : std::nullopt;
    });
    // Axes keep the extents they were made with, so only points that fit both are compared.
    std::vector<int64_t> s = {5, 3}, i = {0, 0, 0};
    ASSERT_EQ(with.eval(s, i), b.direct(s, i)) << "seed " << seed << ": " << b.expr.str() << " became " << with.str();
  }
}

TEST(Expr, EqualPolynomialsAreEqual) {
  Expr s = Expr::symbol(0), t = Expr::symbol(1);
  EXPECT_EQ((s + t) * (s + t), s * s + Expr(2) * s * t + t * t);
  EXPECT_EQ((s + Expr(1)) * Expr(4) - Expr(4), Expr(4) * s);
  EXPECT_EQ(s - s, Expr(0));
  EXPECT_TRUE((s - s).is_const());
  EXPECT_EQ((Expr(384) * s + Expr(2)).str(), "384*s0 + 2");
  EXPECT_EQ((-s).str(), "-s0");
}

TEST(Expr, DivisionSimplifies) {
  Expr n = Expr::symbol(0), i = Expr::axis(0, n), j = Expr::axis(1, 8), flat = i * Expr(8) + j;
  EXPECT_EQ(floor_div(flat, 8), i);
  EXPECT_EQ(mod(flat, 8), j);
  EXPECT_EQ(Expr(8) * floor_div(j + n, 8) + mod(j + n, 8), j + n);
  EXPECT_EQ(floor_div(Expr(4) * n, 2), Expr(2) * n);
  EXPECT_EQ(floor_div(floor_div(n, 2), 3), floor_div(n, 6));
  EXPECT_EQ(mod(mod(n, 12), 4), mod(n, 4));
  EXPECT_EQ(floor_div(i * n + Expr::axis(2, n), n), i);
  EXPECT_EQ(floor_div(-7, 2), Expr(-4));
  EXPECT_EQ(mod(-7, 2), Expr(1));
  EXPECT_EQ(ceil_div(n + Expr(3), 4), floor_div(n + Expr(6), 4));
}

// Bringing a product of many remainders into canonical form is no search over their orders.
TEST(Expr, ProductOfManyRemainders) {
  auto axis = [](int id) { return Expr::axis(id, 1 << 20); };
  Expr sum = Expr::symbol(60) + Expr::symbol(61), product = 1;
  for (int k = 0; k < 30; ++k) {
    product *= mod(axis(k), k % 2 ? Expr::symbol(k) : sum);
    product *= Expr::symbol(k);
  }
  EXPECT_EQ(parse_expr(product.str(), [](Atom::Kind, int) { return Expr(1 << 20); }), product);
  Expr r = axis(0), d = Expr::symbol(1), c = mod(axis(2), Expr::symbol(3)) * Expr(6);
  EXPECT_EQ(c * d * floor_div(r, d) + c * mod(r, d) + Expr(1), c * r + Expr(1));
}

TEST(Expr, ExactDivision) {
  Expr s = Expr::symbol(0), t = Expr::symbol(1);
  EXPECT_EQ((Expr(6) * s * t).exact_div(Expr(2) * s), Expr(3) * t);
  EXPECT_EQ((s + t).exact_div(s + t), Expr(1));
  EXPECT_FALSE((s + Expr(1)).exact_div(Expr(2)).has_value());
  EXPECT_FALSE(s.exact_div(Expr(0)).has_value());
}

TEST(Expr, BoundedAtomsFoldAsCoordinatesAndLeaveWhatTheyStandFor) {
  Expr i = Expr::axis(0, 64), n = Expr::symbol(0), at = i * Expr(2) - n, b = Expr::bounded(at, 6);
  EXPECT_EQ(floor_div(b + Expr(6) * i, 6), i);
  EXPECT_EQ(mod(b + Expr(12), 6), b);
  EXPECT_TRUE(provably_nonnegative(b));
  EXPECT_TRUE(provably_less(b, 6));
  EXPECT_FALSE(provably_nonnegative(at));
  EXPECT_EQ(b, Expr::bounded(at, 6));
  EXPECT_FALSE(b == Expr::bounded(at, 7));
  EXPECT_FALSE(b == Expr::bounded(at + Expr(1), 6));
  EXPECT_FALSE(b.has_axes());
  EXPECT_EQ((mod(b + i, 6) * Expr(3)).unbounded(), mod(at + i, 6) * Expr(3));
  EXPECT_EQ(Expr::bounded(b + Expr(1), 7).unbounded(), at + Expr(1));
  EXPECT_EQ((b * Expr(2)).eval(std::vector<int64_t>{3}, std::vector<int64_t>{4}), 10);
}

TEST(Expr, LinearInAxis) {
  Expr n = Expr::symbol(0), i = Expr::axis(0, n), j = Expr::axis(1, 8);
  auto split = (n * i + Expr(3) * j + Expr(1)).linear_in_axis(0);
  ASSERT_TRUE(split.has_value());
  EXPECT_EQ(split->first, n);
  EXPECT_EQ(split->second, Expr(3) * j + Expr(1));
  EXPECT_FALSE((i * i).linear_in_axis(0).has_value());
  EXPECT_FALSE(mod(i, 3).linear_in_axis(0).has_value());
}

TEST(Expr, MinAndMaxAreDecidedWhereTheyCanBe) {
  Expr n = Expr::symbol(0);
  EXPECT_EQ(min(n, n + Expr(1)), n);
  EXPECT_EQ(max(n, Expr(1)), n);
  EXPECT_EQ(max(n, n * n), n * n);
  EXPECT_EQ(min(n, Expr(4)), min(Expr(4), n));
  EXPECT_TRUE(provably_less(min(n, Expr(4)), Expr(5)));
}

TEST(Expr, OverflowIsAnError) {
  Expr big(int64_t{1} << 62);
  EXPECT_THROW(big * Expr(4), Error);
  EXPECT_THROW(big + big, Error);
  EXPECT_THROW(Expr::symbol(0) * big * Expr(8), Error);
}

TEST(Expr, ParserRejectsWithAPosition) {
  auto message = [](std::string_view text) { return test::refusal([&] { parse_expr(text); }); };
  EXPECT_EQ(message("s0 + "), "expression \"s0 + \": expected a number at position 5");
  EXPECT_EQ(message("(s0"), "expression \"(s0\": expected ')' at position 3");
  EXPECT_EQ(message("i0"), "expression \"i0\": expected no axis or value here at position 2");
  EXPECT_EQ(message("99999999999999999999"), "expression \"99999999999999999999\": expected a number that fits 64 bits at position 18");
  EXPECT_NE(message(std::string(200, '(')), "");
}

TEST(Expr, Shapes) {
  Expr n = Expr::symbol(0);
  Shape s = {2, n, 4};
  EXPECT_EQ(numel(s), Expr(8) * n);
  EXPECT_EQ(contiguous_strides(s), (Shape{Expr(4) * n, 4, 1}));
  EXPECT_EQ(str(s), "[2, s0, 4]");
  EXPECT_EQ(str(Shape{}), "[]");
}

}  // namespace
}  // namespace hologram

// tests/sigmatics/expression_test.cpp: properties of expressions; what known ones mean is in tests/data/sigmatics.json
#include "sigmatics/expression.h"
#include "support/test.h"

namespace hologram::sigmatics {
namespace {

using Kind = Expression::Kind;
using Words = std::vector<std::string>;

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(engine_); }
  bool coin() { return below(2) == 0; }
  int64_t shift() { return below(3) == 0 ? 0 : below(41) - 20; }

  Expression expression(int depth) {
    int kind = depth == 0 ? 0 : below(5);
    Expression e;
    if (kind <= 1) {
      e.generator = static_cast<Generator>(below(num_generators));
      e.cls = below(96);
      if (coin()) e.page = below(48);
      int which = below(4);
      if (which == 1) e.shifts.r = shift();
      if (which == 2) e.shifts.d = shift();
      if (which == 3) e.shifts.t = shift();
      e.shifts.mirror = coin();
      return e;
    }
    if (kind == 2) {
      e.kind = Kind::prefix;
      e.shifts = {shift(), shift(), shift(), coin()};
      e.items = {expression(depth - 1)};
      return e;
    }
    e.kind = kind == 3 ? Kind::sequence : Kind::parallel;
    for (int n = 2 + below(3); n > 0; --n) e.items.push_back(expression(depth - 1));
    return e;
  }

 private:
  std::mt19937 engine_;
};

TEST(Parser, AcceptsWhatItPrintsHoweverDeep) {
  auto repeated = [](std::string_view unit, int count) {
    std::string s;
    for (int k = 0; k < count; ++k) s += unit;
    return s + "mark@c0";
  };
  // A prefix is a level; one behind a dot stands in parentheses where it is printed: two.
  for (auto [unit, most] : {std::pair{"~@", 255}, {"R+1@", 255}, {"mark@c1 . ~@", 127}}) {
    Expression e = parse_expression(repeated(unit, most));
    EXPECT_EQ(parse_expression(print(e)), e) << unit;
    EXPECT_EQ(parse_expression(print(normalize(e))), normalize(e)) << unit;
    EXPECT_THROW(parse_expression(repeated(unit, most + 1)), SyntaxError) << unit;
  }
  EXPECT_EQ(parse_expression(std::string(300, '(') + "mark@c0" + std::string(300, ')')), parse_expression("mark@c0"));
}

// Carries exact words out one by one: a stack of nothing, only the transform in force.
std::vector<Transform> transforms_at_operations(const Words& list) {
  std::vector<Transform> out;
  Transform now;
  for (const std::string& w : list) {
    auto number = [&] { return std::stoll(w.substr(w.find('[') + 1)); };
    Transform step;
    if (w.find("ρ[") != w.npos)
      step = Transform::of(number(), 0, 0, false);
    else if (w.find("δ[") != w.npos)
      step = Transform::of(0, number(), 0, false);
    else if (w.find("τ[") != w.npos)
      step = Transform::of(0, 0, number(), false);
    else if (w.find("μ") != w.npos)
      step = {.mirror = true};
    else if (w.find("⊗") == w.npos && w.find("phase") == w.npos)
      out.push_back(now);
    now = compose(now, step);
  }
  EXPECT_EQ(now, Transform{}) << "what is entered is left";
  return out;
}

void collect(const Expression& e, const Transform& around, std::vector<Transform>& out) {
  if (e.kind == Kind::op) return out.push_back(around);
  Transform inside = e.kind == Kind::prefix ? compose(around, e.shifts.transform()) : around;
  if (e.kind == Kind::sequence)
    for (size_t k = e.items.size(); k-- > 0;) collect(e.items[k], inside, out);
  else
    for (const Expression& x : e.items) collect(x, inside, out);
}

TEST(Words, ExactWordsCarryTheTransforms) {
  Random random(11);
  for (int k = 0; k < 1000; ++k) {
    Expression e = random.expression(5);
    std::vector<Transform> expected;
    collect(e, {}, expected);
    EXPECT_EQ(transforms_at_operations(exact_words(e)), expected) << print(e);
  }
}

TEST(NormalForm, KeepsTheMeaningAndIsIdempotent) {
  Random random(3);
  for (int k = 0; k < 2000; ++k) {
    Expression e = random.expression(5), n = normalize(e);
    Literal before = evaluate_literal(e), after = evaluate_literal(n);
    EXPECT_EQ(before.bytes, after.bytes) << print(e);
    EXPECT_EQ(before.addresses, after.addresses);
    EXPECT_EQ(normalize(n), n);
    EXPECT_EQ(parse_expression(print(e)), e) << print(e);
    EXPECT_EQ(parse_expression(print(n)), n);
    EXPECT_EQ(count_operations(n), count_operations(e));
    EXPECT_EQ(print(n).find_first_of("^~RDT"), std::string::npos) << print(n);
  }
}

TEST(Pretty, Text) {
  EXPECT_EQ(pretty("mark@c42^+3~@17"),
            "Expression: mark@c42^+3~@17\n\nLiteral Backend (Bytes):\n  0x5A\n  Addresses: 4442\n\n"
            "Operational Backend (Words):\n  mark");
}

}  // namespace
}  // namespace hologram::sigmatics

// tests/sigmatics/expression_test.cpp: lexer, parser and meanings of expressions.
#include "sigmatics/expression.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace hologram::sigmatics {
namespace {

using Kind = Expression::Kind;
using Bytes = std::vector<int>;
using Words = std::vector<std::string>;

Bytes bytes(std::string_view text) { return evaluate_literal(parse_expression(text)).bytes; }
Words words_of(std::string_view text) { return words(parse_expression(text)); }

// "message @position" of the mistake in a text.
std::string mistake(std::string_view text) {
  try {
    parse_expression(text);
    return "";
  } catch (const SyntaxError& e) {
    return fmt::format("{} @{}", e.what(), e.position());
  }
}

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

TEST(Lexer, TokensWithPositions) {
  auto tokens = tokenize("R+1@ (copy@c05 . evaluate@c21)");
  std::string all;
  for (const Token& t : tokens) all += fmt::format("{} '{}' {} {}; ", name_of(t.kind), t.text, t.position, t.length);
  EXPECT_EQ(all,
            "ROTATE 'R' 0 1; PLUS '+' 1 1; NUMBER '1' 2 1; AT '@' 3 1; LPAREN '(' 5 1; "
            "GENERATOR 'copy' 6 4; AT '@' 10 1; CLASS 'c05' 11 3; DOT '.' 15 1; "
            "GENERATOR 'evaluate' 17 8; AT '@' 25 1; CLASS 'c21' 26 3; RPAREN ')' 29 1; "
            "EOF '' 30 0; ");
}

TEST(Lexer, BlanksCommentsAndCharacters) {
  auto only = [](std::string_view text) {
    auto tokens = tokenize(text);
    return tokens.size() == 1 ? tokens[0].position : size_t{999};
  };
  EXPECT_EQ(only(""), 0u);
  EXPECT_EQ(only(" \t\r\n"), 4u);
  EXPECT_EQ(only("  // comment \n\t // another"), 26u);
  EXPECT_EQ(only("// ρτμ"), 6u) << "positions count characters, not bytes";
  EXPECT_EQ(mistake("// é\n§"), "Lexer error at position 5: unexpected '§' @5");
}

TEST(Parser, NamesWhatIsWrongAndWhere) {
  EXPECT_EQ(mistake(""), "Expected GENERATOR but got EOF at position 0 @0");
  EXPECT_EQ(mistake("mark"), "Expected AT but got EOF at position 4 @4");
  EXPECT_EQ(mistake("mark@c96"), "Class index 96 out of range [0..95] at position 5 @5");
  EXPECT_EQ(mistake("mark@c99999999999999999999"), "Class index 99999999999999999999 out of range [0..95] at position 5 @5");
  EXPECT_EQ(mistake("mark@c00@48"), "Page index 48 out of range [0..47] at position 9 @9");
  EXPECT_EQ(mistake("mark@c1^3"), "Expected + or - at position 8 @8");
  EXPECT_EQ(mistake("mark@c1^R1"), "Lexer error at position 8: unexpected 'R1' @8");
  EXPECT_EQ(mistake("mark@c1~~"), "Expected EOF but got TILDE at position 8 @8");
  EXPECT_EQ(mistake("mark@c1@3~"), "Expected EOF but got TILDE at position 9 @9");
  EXPECT_EQ(mistake("mark@c1@-1"), "Expected NUMBER but got MINUS at position 8 @8");
  EXPECT_EQ(mistake("mark@c-1"), "Lexer error at position 5: unexpected 'c' @5");
  EXPECT_EQ(mistake("T+1 R+1@mark@c0"), "Expected AT but got ROTATE at position 4 @4");
  EXPECT_EQ(mistake("R+ @ mark@c00"), "Expected NUMBER but got AT at position 3 @3");
  EXPECT_EQ(mistake("M@mark@c13"), "Lexer error at position 0: unexpected 'M' @0");
  EXPECT_EQ(mistake("c42a"), "Lexer error at position 3: unexpected 'a' @3");
  EXPECT_EQ(mistake("mark@c0 /* c */"), "Lexer error at position 8: unexpected '/' @8");
  EXPECT_EQ(mistake("mark@c0 | mark@c1"), "Lexer error at position 8: unexpected '|' @8");
  EXPECT_EQ(mistake("()"), "Expected GENERATOR but got RPAREN at position 1 @1");
  EXPECT_EQ(mistake("(mark@c01"), "Expected RPAREN but got EOF at position 9 @9");
  EXPECT_EQ(mistake("~@"), "Expected GENERATOR but got EOF at position 2 @2");
  EXPECT_EQ(mistake("mark@c[0..3]"), "Lexer error at position 5: unexpected 'c' @5");
  EXPECT_EQ(mistake("copy@c05->c06"), "Lexer error at position 9: unexpected '>' @9");
  EXPECT_EQ(mistake("mark@c1^R+1T+1"), "Expected EOF but got TWIST at position 11 @11");
  EXPECT_EQ(mistake("R+9007199254740992@mark@c0"), "Number 9007199254740992 out of range [0..9007199254740991] at position 2 @2");
  EXPECT_EQ(mistake(std::string(600, '(') + "mark@c0"), "Nested deeper than 256 at position 512 @512");
}

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

TEST(Parser, PrefixesTakeEverythingAfterThem) {
  EXPECT_EQ(parse_expression("mark@c1 . R+1@mark@c2 || mark@c3"), parse_expression("mark@c1 . (R+1@(mark@c2 || mark@c3))"));
  EXPECT_EQ(parse_expression("R+1@mark@c0 || mark@c1"), parse_expression("R+1@(mark@c0 || mark@c1)"));
  EXPECT_FALSE(parse_expression("(R+1@mark@c0) || mark@c1") == parse_expression("R+1@mark@c0 || mark@c1"));
  EXPECT_EQ(parse_expression("mark@c5^+2"), parse_expression("mark@c5^T+2"));
}

TEST(Parser, ReadsWhatThePrinterWrites) {
  Random random(7);
  for (int k = 0; k < 2000; ++k) {
    Expression e = random.expression(4);
    EXPECT_EQ(parse_expression(print(e)), e) << print(e);
  }
}

TEST(Literal, Values) {
  EXPECT_EQ(bytes("mark@c21"), Bytes{0x2A});
  EXPECT_EQ(bytes("R+1@ (copy@c05 . evaluate@c21)"), (Bytes{0x4A, 0x6A}));
  EXPECT_EQ(bytes("T+4@mark@c00"), Bytes{0x08});
  EXPECT_EQ(bytes("mark@c13^D+1~"), Bytes{26});
  EXPECT_EQ(bytes("R+1 T+2 ~@ mark@c05"), Bytes{78});
  EXPECT_EQ(bytes("R-5@mark@c1"), Bytes{194});
  EXPECT_EQ(bytes("R-1 T+5 ~@ ( (copy@c05 . evaluate@c21^+1~@2) || (swap@c72 . mark@c00) )"), (Bytes{196, 230, 138, 202}));
  Literal paged = evaluate_literal(parse_expression("mark@c42^+3~@17 . mark@c0 . mark@c95@47"));
  EXPECT_EQ(paged.bytes, (Bytes{0x5A, 0, 0xEE}));
  EXPECT_EQ(paged.classes, (Bytes{37, 0, 95}));
  EXPECT_EQ(*paged.addresses, (std::vector<int>{4442, 12270}));
  EXPECT_FALSE(evaluate_literal(parse_expression("mark@c1")).addresses.has_value());
}

TEST(Literal, NestedPrefixesCompose) {
  EXPECT_EQ(bytes("R+1@(R+1@(R+1@mark@c13))"), Bytes{218});
  EXPECT_EQ(bytes("D+1@(~@mark@c13)"), Bytes{10}) << "the inner prefix acts first";
  EXPECT_EQ(bytes("~@(D+1@mark@c13)"), bytes("D+1 ~@mark@c13"));
  EXPECT_EQ(bytes("~@(~@mark@c13)"), bytes("mark@c13"));
}

TEST(Words, Values) {
  EXPECT_EQ(words_of("mark@c1"), Words{"mark"});
  EXPECT_EQ(words_of("copy@c21"), Words{"copy[d=2]"});
  EXPECT_EQ(words_of("split@c20"), Words{"split[ℓ=4]"});
  EXPECT_EQ(words_of("evaluate@c21"), (Words{"phase[h₂=0]", "evaluate"}));
  EXPECT_EQ(words_of("split@c1 . (merge@c9 . quote@c17) . evaluate@c25"),
            (Words{"phase[h₂=1]", "evaluate", "quote[ℓ=1]", "merge[d=1]", "split[ℓ=1]"}));
  EXPECT_EQ(words_of("swap@c5 || swap@c6 || (mark@c1 || mark@c2)"),
            (Words{"⊗_begin", "swap", "⊗_sep", "swap", "⊗_sep", "⊗_begin", "mark", "⊗_sep", "mark", "⊗_end", "⊗_end"}));
  EXPECT_EQ(words_of("R+2 D+3 T-9 ~@mark@c0"), (Words{"→ρ[2]", "→δ[0]", "→τ[-9]", "→μ", "mark", "←ρ[2]", "←δ[0]", "←τ[-9]", "←μ"}));
}

TEST(Words, NestedPrefixesStateSumsWhereTheyHold) {
  EXPECT_EQ(words_of("R+1@(T+1@mark@c0)"), (Words{"→ρ[1]", "→ρ[1]", "→τ[1]", "mark", "←ρ[1]", "←τ[1]", "←ρ[1]"}));
  EXPECT_EQ(words_of("~@(~@mark@c13)"), (Words{"→μ", "mark", "←μ"}));
  EXPECT_EQ(words_of("R+1@(R+1@(R+1@mark@c13))"), (Words{"→ρ[1]", "→ρ[1]", "→ρ[1]", "mark", "←ρ[1]", "←ρ[1]", "←ρ[1]"}));
  EXPECT_EQ(words_of("D+1@(~@mark@c13)"), (Words{"→δ[1]", "→μ", "mark", "←μ", "←δ[1]"}));
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
    EXPECT_EQ(parse_expression(print(n)), n);
    EXPECT_EQ(count_operations(n), count_operations(e));
    EXPECT_EQ(print(n).find_first_of("^~RDT"), std::string::npos) << print(n);
  }
}

TEST(NormalForm, CompositionIsAssociativeAndBranchesCommuteAsMultisets) {
  Random random(5);
  auto list = [](Kind kind, std::vector<Expression> items) {
    Expression e;
    e.kind = kind;
    e.items = std::move(items);
    return e;
  };
  auto sorted = [](const Expression& e) {
    Bytes b = evaluate_literal(e).bytes;
    std::sort(b.begin(), b.end());
    return b;
  };
  for (int k = 0; k < 300; ++k) {
    Expression a = random.expression(2), b = random.expression(2), c = random.expression(2);
    for (Kind kind : {Kind::sequence, Kind::parallel})
      EXPECT_EQ(normalize(list(kind, {list(kind, {a, b}), c})), normalize(list(kind, {a, list(kind, {b, c})})));
    EXPECT_EQ(sorted(list(Kind::parallel, {a, b})), sorted(list(Kind::parallel, {b, a})));
  }
}

TEST(Pretty, Text) {
  EXPECT_EQ(pretty("mark@c42^+3~@17"),
            "Expression: mark@c42^+3~@17\n\nLiteral Backend (Bytes):\n  0x5A\n  Addresses: 4442\n\n"
            "Operational Backend (Words):\n  mark");
}

}  // namespace
}  // namespace hologram::sigmatics

// tests/sigmatics/circuit_test.cpp: properties of circuits and what they do to memory; known ones are in tests/data/sigmatics.json
#include "sigmatics/circuit.h"

#include <complex>

#include "sigmatics/effects.h"
#include "support/test.h"

namespace hologram::sigmatics {
namespace {

Canonical canonical(std::string_view text, Rules rules = Rules::gates) { return canonicalize(parse_circuit(text), rules); }

constexpr const char* gate_texts[] = {"mark@c00", "mark@c21", "mark@c42", "mark@c07", "copy@c05->c06"};

// --- the model of gates: 2 x 2 matrices, phases exact up to rounding

using Number = std::complex<double>;
using Matrix = std::array<Number, 4>;

Matrix operator*(const Matrix& a, const Matrix& b) {
  return {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3], a[2] * b[0] + a[3] * b[2], a[2] * b[1] + a[3] * b[3]};
}

Matrix matrix_of(const Call& c) {
  const double h = std::sqrt(0.5);
  const Matrix x{0, 1, 1, 0}, hadamard{h, h, h, -h};
  if (c.generator == Generator::copy) return hadamard * x;
  switch (c.a.cls) {
    case 21:
      return x;
    case 42:
      return {1, 0, 0, -1};
    case 7:
      return {1, 0, 0, Number(0, 1)};
    default:
      return {1, 0, 0, 1};
  }
}

Matrix product(const std::vector<Call>& calls) {
  Matrix m{1, 0, 0, 1};
  for (const Call& c : calls) m = m * matrix_of(c);
  return m;
}

double distance(const Matrix& a, const Matrix& b) {
  double d = 0;
  for (size_t k = 0; k < 4; ++k) d = std::max(d, std::abs(a[k] - b[k]));
  return d;
}

std::string word_text(const std::vector<int>& letters) {
  std::string s;
  for (int l : letters) s += (s.empty() ? "" : " . ") + std::string(gate_texts[l]);
  return s;
}

void expect_sound(const std::vector<int>& letters) {
  std::string text = word_text(letters);
  Circuit before = parse_circuit(text);
  Canonical after = canonicalize(before);
  EXPECT_LT(distance(product(calls_of(before)), product(calls_of(after.circuit))), 1e-9) << text;
  EXPECT_LE(after.canonical_ops, after.original_ops);
  EXPECT_EQ(after.canonical_ops, count_operations(after.circuit));
  Canonical again = canonicalize(after.circuit);
  EXPECT_EQ(print(again.circuit), print(after.circuit));
  EXPECT_TRUE(again.applied_rules.empty());
}

TEST(Rewriting, RulesHoldInTheModel) {
  const std::map<char, int> letter = {{'I', 0}, {'X', 1}, {'Z', 2}, {'S', 3}, {'C', 4}};
  auto matrix = [&](const std::string& word) {
    std::vector<int> letters;
    for (char c : word) letters.push_back(letter.at(c));
    return product(calls_of(parse_circuit(word_text(letters))));
  };
  auto rules = gate_rules();
  EXPECT_GE(rules.size(), 14u);
  for (const RuleText& r : rules) {
    EXPECT_LT(distance(matrix(r.from), matrix(r.to)), 1e-12) << r.name;
    EXPECT_GT(r.from.size(), r.to.size()) << r.name;
  }
}

TEST(Rewriting, EveryShortWordKeepsItsMatrix) {
  for (int length = 1; length <= 6; ++length) {
    int words = 1;
    for (int k = 0; k < length; ++k) words *= 5;
    for (int w = 0; w < words; ++w) {
      std::vector<int> letters;
      for (int k = 0, rest = w; k < length; ++k, rest /= 5) letters.push_back(rest % 5);
      expect_sound(letters);
    }
  }
}

TEST(Rewriting, RefusesHugeCircuits) {
  std::string text = "mark@c01";
  for (size_t k = 0; k < max_operations; ++k) text += " . mark@c01";
  EXPECT_THROW(canonical(text), Error);
}

// Circuits of random text.
TEST(Parser, ReadsWhatThePrinterWrites) {
  std::mt19937 random(9);
  auto below = [&](unsigned n) { return random() % n; };
  auto operation = [&]() -> std::string {
    auto cls = [&] {
      std::string s = fmt::format("c{}", below(96));
      if (below(3) == 0) s += fmt::format("^{}", below(9));
      if (below(3) == 0) s += "~";
      if (below(4) == 0) s += fmt::format("@{}", below(48));
      return s;
    };
    const unsigned first = static_cast<unsigned>(below(95));
    const std::string operations[] = {"mark@" + cls(),
                                      "copy@" + cls() + "->" + cls(),
                                      "swap@" + cls() + "<->" + cls(),
                                      "merge@" + cls() + "[" + cls() + "," + cls() + "]",
                                      "split@" + cls() + "[" + cls() + "," + cls() + "]",
                                      (below(2) ? "quote@" : "evaluate@") + cls(),
                                      fmt::format("merge@c[{}..{}]", first, first + 1 + below(95 - first))};
    return operations[below(7)];
  };
  std::function<std::string(int)> phrase = [&](int depth) {
    std::string s;
    for (unsigned n = 1 + static_cast<unsigned>(below(4)); n > 0; --n) {
      s += below(4) == 0 && depth > 0 ? "(" + phrase(depth - 1) + ")" : operation();
      if (n > 1) s += below(4) == 0 ? " || " : " . ";
    }
    return s;
  };
  for (int k = 0; k < 1000; ++k) {
    std::string text = phrase(3);
    Circuit c = parse_circuit(text);
    EXPECT_EQ(parse_circuit(print(c)), c) << text;
    Canonical n = canonicalize(c);
    EXPECT_EQ(print(canonicalize(n.circuit).circuit), print(n.circuit)) << text;
    EXPECT_LE(n.canonical_ops, n.original_ops);
  }
}

// --- effects

std::string steps(std::string_view text) {
  std::string s;
  for (const Call& c : effects_of(calls_of(parse_circuit(text))).steps) s += print(c) + "; ";
  return s;
}

TEST(Effects, RangesAreExpandedAndMarksDoNothing) {
  EXPECT_EQ(steps("mark@c21 . mark@c[0..95]"), "");
  EXPECT_EQ(steps("merge@c[3..5]"), "merge@c03[c03,c03]; merge@c04[c04,c04]; merge@c05[c05,c05]; ") << "both ends count";
  EXPECT_EQ(steps("copy@c01@3->c02 . swap@c01<->c02@7"), "copy@c01@3->c02@3; swap@c01@7<->c02@7; ");
}

TEST(Effects, QuotedCallsWaitForEvaluate) {
  EXPECT_EQ(steps("quote@c01 . copy@c00->c01 . copy@c02->c03 . evaluate@c01 . copy@c04->c05"),
            "copy@c02->c03; copy@c00->c01; copy@c04->c05; ");
  EXPECT_EQ(steps("evaluate@c01 . copy@c00->c01"), "copy@c00->c01; ") << "evaluate without quote does nothing";
  EXPECT_EQ(steps("quote@c01 . copy@c00->c01 . quote@c01 . copy@c01->c02 . evaluate@c01"), "copy@c00->c01; copy@c01->c02; ");
  EXPECT_EQ(steps("quote@c[1..2] . copy@c00->c01 . copy@c01->c02 . copy@c03->c02 . evaluate@c02"),
            "copy@c00->c01; copy@c01->c02; copy@c03->c02; ")
      << "what a recorded call needs runs before it";
}

TEST(Effects, UnevaluatedQuotesAreReported) {
  Effects e = effects_of(calls_of(parse_circuit("quote@c09 . quote@c02 . copy@c01->c02 . mark@c03")));
  EXPECT_EQ(e.unevaluated, (std::vector<int>{2, 9}));
  ASSERT_EQ(e.recorded.size(), 1u);
  EXPECT_EQ(print(e.recorded[0]), "copy@c01->c02");
  EXPECT_TRUE(e.steps.empty());
}

// The effect of steps on a small model: each class holds a term over the classes' first contents.
std::vector<std::string> model(const std::vector<Call>& list) {
  std::vector<std::string> memory;
  for (int c = 0; c < num_classes; ++c) memory.push_back(fmt::format("c{}", c));
  auto at = [&](const Operand& o) -> std::string& { return memory[static_cast<size_t>(o.cls)]; };
  for (const Call& c : list) {
    if (c.generator == Generator::copy) at(c.to) = at(c.a);
    if (c.generator == Generator::swap) std::swap(at(c.a), at(c.b));
    if (c.generator == Generator::merge) at(c.to) = "(" + at(c.a) + "+" + at(c.b) + ")";
    if (c.generator == Generator::split) at(c.to) = "(" + at(c.a) + "-" + at(c.b) + ")";
  }
  return memory;
}

TEST(Effects, MemoryRulesKeepWhatACircuitDoes) {
  std::mt19937 random(2);
  size_t fired = 0;
  for (int k = 0; k < 1000; ++k) {
    std::string text;
    for (int n = 0; n < 16; ++n) {
      auto cls = [&] { return std::array{5, 6, 21, 7}[random() % 4]; };
      text += text.empty() ? "" : " . ";
      const bool often = random() % 4 != 0;
      const std::string operations[] = {fmt::format("copy@c{}->c{}", cls(), cls()),
                                        "copy@c05->c06",
                                        fmt::format("swap@c{}<->c{}", cls(), cls()),
                                        often ? "swap@c05<->c06" : fmt::format("merge@c{}[c{},c{}]", cls(), cls(), cls()),
                                        often ? "mark@c21" : fmt::format("quote@c{}", cls()),
                                        often ? "mark@c21" : fmt::format("evaluate@c{}", cls()),
                                        gate_texts[random() % 4]};
      text += operations[random() % 7];
    }
    Circuit before = parse_circuit(text);
    Canonical after = canonicalize(before, Rules::memory);
    fired += after.applied_rules.size();
    Effects a = effects_of(calls_of(before)), b = effects_of(calls_of(after.circuit));
    ASSERT_EQ(model(a.steps), model(b.steps)) << text;
    EXPECT_EQ(a.unevaluated, b.unevaluated);
  }
  EXPECT_GT(fired, 1000u);
}

}  // namespace
}  // namespace hologram::sigmatics

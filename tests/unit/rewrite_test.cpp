// tests/unit/rewrite_test.cpp: the rewrite engine on a language of words, not of graphs.
#include "rewrite/rewrite.h"

#include <gtest/gtest.h>

#include <memory>

namespace hologram::rewrite {
namespace {

/// Words over generators: a leaf is a letter, "." joins two words, "!" inverts one.
struct Word {
  char head;
  std::vector<const Word*> operands;
};

struct Words {
  using Term = const Word*;
  using Head = char;
  using Literal = char;

  std::map<std::pair<char, std::vector<const Word*>>, std::unique_ptr<Word>> made;

  Term make(char head, std::vector<Term> operands = {}) {
    auto& slot = made[{head, operands}];
    if (!slot) slot = std::make_unique<Word>(Word{head, std::move(operands)});
    return slot.get();
  }
  static char head(Term t) { return t->head; }
  static std::span<const Term> operands(Term t) { return t->operands; }
  static bool commutative(char head) { return head == '+'; }
  static bool is_constant(Term t) { return t->head == '1'; }
  static bool is(Term t, char literal) { return t->head == literal && t->operands.empty(); }
  Term literal(char c, Term) { return make(c); }
  Term build(char head, std::vector<Term> operands) { return make(head, std::move(operands)); }
  Term rebuild(Term t, std::vector<Term> operands) { return make(t->head, std::move(operands)); }
  static uint64_t weigh(Term t, std::span<const uint64_t> costs) {
    uint64_t sum = 0;
    for (uint64_t c : costs) sum += c;
    return t->operands.empty() ? (t->head == '1' ? 1 : least_cost) : t->head == '!' ? 2 * sum + 1 : sum + 2;
  }
};

using P = Pattern<Words>;
using R = Rule<Words>;

std::string text(const Word* w) {
  if (w->operands.empty()) return {w->head};
  if (w->operands.size() == 1) return w->head + text(w->operands[0]);
  return "(" + text(w->operands[0]) + w->head + text(w->operands[1]) + ")";
}

class RewriteTest : public testing::Test {
 protected:
  Words words;
  P x = P::variable(0), y = P::variable(1), one = P::literal('1');
  std::vector<R> rules = {
      {"unit", P::node('.', {one, x}), x},
      {"unit", P::node('.', {x, one}), x},
      {"involution", P::node('!', {P::node('!', {x})}), x},
      {"inverse", P::node('.', {x, P::node('!', {x})}), one},
      {"conjugate", P::node('!', {P::node('.', {x, y})}), P::node('.', {P::node('!', {y}), P::node('!', {x})})},
      {"absorb", P::node('+', {x, P::node('!', {x})}), one},
      {"grows", P::node('?', {x}), P::node('!', {P::node('!', {P::node('?', {x})})})},
  };

  const Word* leaf(char c) { return words.make(c); }
  const Word* join(const Word* a, const Word* b) { return words.make('.', {a, b}); }
  const Word* invert(const Word* a) { return words.make('!', {a}); }

  std::vector<const R*> all() {
    std::vector<const R*> out;
    for (const R& r : rules) out.push_back(&r);
    return out;
  }
};

TEST_F(RewriteTest, ReachesAFixedPointThroughNewTerms) {
  Rewriter<Words> r(words, all());
  // !(a . !b) becomes (!!b . !a) and then (b . !a); with an a behind it nothing cancels, with !b in
  // front it does.
  EXPECT_EQ(text(r.normalize(invert(join(leaf('a'), invert(leaf('b')))))), "(b.!a)");
  EXPECT_EQ(text(r.normalize(join(invert(invert(leaf('a'))), invert(leaf('a'))))), "1");
  EXPECT_EQ(text(r.normalize(join(join(leaf('1'), leaf('a')), leaf('1')))), "a");
  EXPECT_EQ(r.fired().at("conjugate"), 1);
}

TEST_F(RewriteTest, NormalTermsComeBackAsTheSamePointer) {
  Rewriter<Words> r(words, all());
  const Word* w = join(leaf('a'), invert(leaf('b')));
  EXPECT_EQ(r.normalize(w), w);
  EXPECT_TRUE(r.fired().empty());
  const Word* n = r.normalize(invert(join(w, w)));
  Rewriter<Words> again(words, all());
  EXPECT_EQ(again.normalize(n), n);
  EXPECT_TRUE(again.fired().empty());
}

TEST_F(RewriteTest, CommutativeHeadsMatchBothWays) {
  Rewriter<Words> r(words, all());
  EXPECT_EQ(text(r.normalize(words.make('+', {leaf('a'), invert(leaf('a'))}))), "1");
  EXPECT_EQ(text(r.normalize(words.make('+', {invert(leaf('a')), leaf('a')}))), "1");
  EXPECT_EQ(text(r.normalize(words.make('+', {invert(leaf('a')), leaf('b')}))), "(!a+b)");
}

TEST_F(RewriteTest, RefusesARuleThatDoesNotLowerTheCost) {
  Rewriter<Words> r(words, all());
  const Word* w = words.make('?', {leaf('a')});
  EXPECT_EQ(r.normalize(w), w) << "the rule would never end";
  EXPECT_EQ(r.refused().at("grows"), 1);
  EXPECT_TRUE(r.fired().empty());
}

TEST_F(RewriteTest, TheFirstRuleThatAppliesAnywhereComesFirst) {
  std::vector<R> ordered = {
      {"inner", P::node('.', {P::literal('a'), P::literal('b')}), P::literal('a')},
      {"outer", P::node('.', {x, P::literal('c')}), x},
  };
  std::vector<const R*> list{&ordered[0], &ordered[1]};
  // ((a.b).c).(a.b): the inner rule at both its places, left-most first, then the outer one.
  const Word* ab = join(leaf('a'), leaf('b'));
  const Word* t = join(join(ab, leaf('c')), ab);
  Rewriter<Words> r(words, list);
  const Word* n = r.normalize_in_order(t);
  EXPECT_EQ(text(n), "(a.a)");
  EXPECT_EQ(r.trace(), (std::vector<std::string_view>{"inner", "inner", "outer"}));
  EXPECT_EQ(r.normalize_in_order(n), n);

  // Of equal places the nearest to the root counts, so the outer rule takes (a.b).c whole when it
  // is alone, and the whole term before its parts.
  Rewriter<Words> only(words, {&ordered[1]});
  EXPECT_EQ(text(only.normalize_in_order(join(join(ab, leaf('c')), leaf('c')))), "(a.b)");
  EXPECT_EQ(only.fired(), (Counts{{"outer", 2}}));
  EXPECT_EQ(r.normalize_in_order(leaf('d')), leaf('d'));
}

TEST_F(RewriteTest, ConditionsAndFunctions) {
  std::vector<R> more = {
      {"only_a", P::node('!', {x}), one, [](const Match<Words>& m) { return m[0]->head == 'a'; }},
      {"swap", P::node('?', {P::constant(3)}), +[](Words& w, const Match<Words>&) -> std::optional<const Word*> { return w.make('z'); }},
  };
  Rewriter<Words> r(words, {&more[0], &more[1]});
  EXPECT_EQ(text(r.normalize(invert(leaf('a')))), "1");
  EXPECT_EQ(text(r.normalize(invert(leaf('b')))), "!b");
  EXPECT_EQ(text(r.normalize(words.make('?', {leaf('b')}))), "?b");
}

}  // namespace
}  // namespace hologram::rewrite

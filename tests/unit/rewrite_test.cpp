// tests/unit/rewrite_test.cpp: the order and the end of rewriting, on a language of words; canon and sigmatics try the rest.
#include "rewrite/rewrite.h"
#include "support/test.h"

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
  P x = P::variable(0);
  const Word* leaf(char c) { return words.make(c); }
  const Word* join(const Word* a, const Word* b) { return words.make('.', {a, b}); }
};

TEST_F(RewriteTest, RefusesARuleThatDoesNotLowerTheCost) {
  const R grows{"grows", P::node('?', {x}), P::node('!', {P::node('!', {P::node('?', {x})})})};
  Rewriter<Words> r(words, {&grows});
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

}  // namespace
}  // namespace hologram::rewrite

// sigmatics/canonical.cpp: rewriting of circuits by the rewrite engine.
//
// A run of operations is a term: each operation is a function of what follows it, the end is a
// leaf. So a rule on words, "X X = I", is the rule X(X(rest)) = I(rest) on terms.
#include <cmath>
#include <deque>
#include <map>

#include "rewrite/rewrite.h"
#include "sigmatics/circuit.h"

namespace hologram::sigmatics {
namespace {

// Letters of a word: the five gates, then what else the run has.
enum Letter : uint32_t { end_of_word, gate_i, gate_x, gate_z, gate_s, gate_c, first_other };

struct Cell {
  uint32_t letter;
  const Cell* rest;
};

/// Words of letters as terms of the rewrite engine.
class Words {
 public:
  using Term = const Cell*;
  using Head = uint32_t;
  struct Literal {};

  Term end() { return intern(end_of_word, nullptr); }
  Term intern(uint32_t letter, Term rest) {
    auto [it, fresh] = known_.try_emplace({letter, rest}, nullptr);
    if (fresh) it->second = &cells_.emplace_back(Cell{letter, rest});
    return it->second;
  }

  Head head(Term t) const { return t->letter; }
  std::span<const Term> operands(const Term& t) const { return {&t->rest, t->rest ? 1u : 0u}; }
  bool commutative(Head) const { return false; }
  bool is_constant(Term) const { return false; }
  bool is(Term, const Literal&) const { return false; }
  Term build(Head letter, std::vector<Term> rest) { return intern(letter, rest.at(0)); }
  Term rebuild(Term t, std::vector<Term> rest) { return intern(t->letter, rest.at(0)); }
  Term literal(const Literal&, Term like) { return like; }
  uint64_t weigh(Term, std::span<const uint64_t> rest) const {
    return 1 + (rest.empty() ? rewrite::least_cost : rest[0]);
  }

 private:
  std::deque<Cell> cells_;
  std::map<std::pair<uint32_t, Term>, Term> known_;
};

using Pattern = rewrite::Pattern<Words>;
using Rule = rewrite::Rule<Words>;

Pattern word(std::initializer_list<uint32_t> letters) {
  Pattern p = Pattern::variable(0);
  for (auto it = std::rbegin(letters); it != std::rend(letters); ++it)
    p = Pattern::node(*it, {std::move(p)});
  return p;
}

Rule rule(std::string_view name, std::initializer_list<uint32_t> from,
          std::initializer_list<uint32_t> to) {
  return Rule(name, word(from), word(to));
}

// The gates' rules in the order in which they are tried.
std::vector<Rule> make_gate_rules() {
  std::vector<Rule> all = {
      rule("HXH = Z", {gate_c, gate_x, gate_x, gate_c, gate_x}, {gate_z}),
      rule("H² = I", {gate_c, gate_x, gate_c, gate_x}, {gate_i}),
      rule("X² = I", {gate_x, gate_x}, {gate_i}),
      rule("Z² = I", {gate_z, gate_z}, {gate_i}),
      rule("S² = Z", {gate_s, gate_s}, {gate_z}),
      rule("SZS = I", {gate_s, gate_z, gate_s}, {gate_i}),
      rule("ZSZ = S", {gate_z, gate_s, gate_z}, {gate_s}),
      rule("I.I = I", {gate_i, gate_i}, {gate_i}),
  };
  for (uint32_t g : {gate_x, gate_z, gate_s, gate_c})
    all.push_back(rule("I.G = G", {gate_i, g}, {g}));
  for (uint32_t g : {gate_x, gate_z, gate_s, gate_c})
    all.push_back(rule("G.I = G", {g, gate_i}, {g}));
  return all;
}

const std::vector<Rule>& all_gate_rules() {
  static const std::vector<Rule> rules = make_gate_rules();
  return rules;
}

bool deletes_copies(const Rule& r) { return r.name == "HXH = Z" || r.name == "H² = I"; }

Call mark(int cls) { return {.generator = Generator::mark, .a = {cls}}; }

const Call* gate(uint32_t letter) {
  static const Call gates[] = {
      mark(0), mark(21), mark(42), mark(7), {.generator = Generator::copy, .a = {5}, .to = {6}},
  };
  return letter >= gate_i && letter < first_other ? &gates[letter - gate_i] : nullptr;
}

// One run of operations between groups.
class Run {
 public:
  Run(Rules which, Canonical& report) : which_(which), report_(report) {}

  void add(const Call& c) { letters_.push_back(letter_of(c)); }

  void finish(Circuit::Branch& out) {
    if (letters_.empty()) return;
    Words words;
    std::vector<Rule> extra = memory_rules();
    std::vector<const Rule*> rules;
    for (const Rule& r : all_gate_rules())
      if (which_ == Rules::gates || !deletes_copies(r)) rules.push_back(&r);
    for (const Rule& r : extra) rules.push_back(&r);
    Words::Term t = words.end();
    for (size_t k = letters_.size(); k-- > 0;) t = words.intern(letters_[k], t);
    rewrite::Rewriter<Words> rewriter(words, rules);
    t = rewriter.normalize_in_order(t);
    for (std::string_view name : rewriter.trace()) report_.applied_rules.emplace_back(name);
    for (; t->rest; t = t->rest) out.push_back({call_of(t->letter), {}});
    letters_.clear();
  }

 private:
  uint32_t letter_of(const Call& c) {
    for (uint32_t g = gate_i; g < first_other; ++g)
      if (c == *gate(g)) return g;
    for (size_t k = 0; k < others_.size(); ++k)
      if (others_[k] == c) return first_other + static_cast<uint32_t>(k);
    others_.push_back(c);
    return first_other + static_cast<uint32_t>(others_.size() - 1);
  }

  const Call& call_of(uint32_t letter) const {
    const Call* g = gate(letter);
    return g ? *g : others_[letter - first_other];
  }

  // A copy or exchange right after the same one.
  std::vector<Rule> memory_rules() const {
    std::vector<Rule> out;
    if (which_ != Rules::memory) return out;
    auto twice = [&](uint32_t letter, const Call& c) {
      if (c.generator == Generator::copy && c.a != c.to)
        out.push_back(rule("copy.copy = copy", {letter, letter}, {letter}));
      if (c.generator == Generator::swap)
        out.push_back(rule("swap.swap = I", {letter, letter}, {gate_i}));
    };
    twice(gate_c, *gate(gate_c));
    for (size_t k = 0; k < others_.size(); ++k)
      twice(first_other + static_cast<uint32_t>(k), others_[k]);
    return out;
  }

  Rules which_;
  Canonical& report_;
  std::vector<uint32_t> letters_;
  std::vector<Call> others_;
};

Circuit::Branch canonical(const Circuit::Branch& branch, Rules rules, Canonical& report) {
  Circuit::Branch out;
  Run run(rules, report);
  for (const Circuit::Item& item : branch) {
    if (!item.is_group()) {
      run.add(item.call);
      continue;
    }
    run.finish(out);
    Circuit::Item group;
    for (const Circuit::Branch& b : item.group) group.group.push_back(canonical(b, rules, report));
    out.push_back(std::move(group));
  }
  run.finish(out);
  return out;
}

std::string gate_word(const Pattern& p) {
  static constexpr std::string_view names[] = {"", "I", "X", "Z", "S", "C"};
  return p.kind == Pattern::Kind::node ? std::string(names[p.head]) + gate_word(p.operands[0]) : "";
}

}  // namespace

Canonical canonicalize(const Circuit& circuit, Rules rules) {
  Canonical out;
  out.original_ops = count_operations(circuit);
  require(out.original_ops <= max_operations,
          "canonicalize: a circuit of {} operations; expected at most {}", out.original_ops,
          max_operations);
  for (const Circuit::Branch& b : circuit.branches)
    out.circuit.branches.push_back(canonical(b, rules, out));
  out.canonical_ops = count_operations(out.circuit);
  double ratio = static_cast<double>(out.canonical_ops) / static_cast<double>(out.original_ops);
  out.reduction_pct = std::round(1e6 * (1 - ratio)) / 1e4;
  return out;
}

std::vector<RuleText> gate_rules() {
  std::vector<RuleText> out;
  for (const Rule& r : all_gate_rules())
    out.push_back({std::string(r.name), gate_word(r.from), gate_word(*r.to)});
  return out;
}

}  // namespace hologram::sigmatics

// rewrite/rewrite.h: a term rewriting engine: rules as data, applied to a fixed point.
//
// A Language L says what terms are. Terms are immutable and equal terms compare equal
// (hash-consing). It provides
//   types     Term (cheap to copy, hashable), Head (what kind of node), Literal (a leaf written in
//   a pattern) looking   Head head(Term), std::span<const Term> operands(Term), bool
//   commutative(Head), bool is_constant(Term),
//             bool is(Term, const Literal&)
//   building  Term build(Head, std::vector<Term>), Term rebuild(Term, std::vector<Term> operands),
//             Term literal(const Literal&, Term like)
//   cost      uint64_t weigh(Term, std::span<const uint64_t> operand_costs), monotone in the
//   operands' costs
//
// Termination: a rule must lower the cost of the term above the pattern's variables, whatever the
// variables cost; a replacement that does not is refused and counted. Idempotence: a rule looks at
// nothing but the term below its root, so a term in normal form stays in normal form.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace hologram::rewrite {

inline constexpr int max_variables = 6;
/// What a variable costs at least: the language's leaves cost so much, its constants less.
inline constexpr uint64_t least_cost = 4;

/// What a term must look like, or what is built in its place.
template <class L>
struct Pattern {
  enum class Kind : uint8_t {
    variable,  ///< any term; the same variable is the same term
    constant,  ///< a variable that is a constant
    literal,
    node,
    any_operands,  ///< a node with this head; its operands and their operands are free
  };
  Kind kind;
  int id = 0;
  typename L::Head head{};
  typename L::Literal value{};
  std::vector<Pattern> operands{};

  static Pattern variable(int id) { return {Kind::variable, id}; }
  static Pattern constant(int id) { return {Kind::constant, id}; }
  static Pattern literal(typename L::Literal value) { return {Kind::literal, 0, {}, value}; }
  static Pattern node(typename L::Head head, std::vector<Pattern> operands) {
    return {Kind::node, 0, head, {}, std::move(operands)};
  }
  static Pattern any_operands(typename L::Head head) { return {Kind::any_operands, 0, head}; }
};

/// The terms that the variables of a pattern stand for.
template <class L>
struct Match {
  using Term = typename L::Term;
  Term root;
  std::array<std::optional<Term>, max_variables> bound;
  const Term& operator[](int id) const { return *bound[static_cast<size_t>(id)]; }
};

/// pattern + condition + replacement. The replacement is a pattern, or a function where it needs
/// attributes.
template <class L>
struct Rule {
  using Term = typename L::Term;
  std::string_view name;
  Pattern<L> from;
  std::optional<Pattern<L>> to;
  bool (*when)(const Match<L>&) = nullptr;
  std::optional<Term> (*apply)(L&, const Match<L>&) = nullptr;
  uint32_t flags = 0;  ///< for the owner of the rules: when they are in force

  Rule(std::string_view n, Pattern<L> f, Pattern<L> t, bool (*w)(const Match<L>&) = nullptr,
       uint32_t fl = 0)
      : name(n), from(std::move(f)), to(std::move(t)), when(w), flags(fl) {}
  Rule(std::string_view n, Pattern<L> f, std::optional<Term> (*a)(L&, const Match<L>&),
       uint32_t fl = 0)
      : name(n), from(std::move(f)), apply(a), flags(fl) {}
};

/// How often rules fired, by name.
using Counts = std::map<std::string, int, std::less<>>;

/// Applies rules to terms of one language. Keeps what it has learnt, so one Rewriter serves a whole
/// graph.
template <class L>
class Rewriter {
 public:
  using Term = typename L::Term;
  using Head = typename L::Head;

  /// The rules are tried in this order; they and the language must outlive the rewriter.
  Rewriter(L& language, const std::vector<const Rule<L>*>& rules) : lang_(language), rules_(rules) {
    for (const Rule<L>* r : rules) by_head_[r->from.head].push_back(r);
  }

  /// The normal form of a term: no rule applies anywhere in it.
  Term normalize(Term t) {
    if (auto it = normal_.find(t); it != normal_.end()) return it->second;
    std::vector<Term> seen;
    for (;;) {
      seen.push_back(t);
      Term u = with_normal_operands(t);
      if (auto it = normal_.find(u); it != normal_.end()) {
        t = it->second;
        break;
      }
      if (!(u == t)) seen.push_back(u);
      std::optional<Term> next = step(u);
      t = next ? *next : u;
      if (!next) break;
      if (auto it = normal_.find(t); it != normal_.end()) {
        t = it->second;
        break;
      }
    }
    for (const Term& s : seen) normal_.insert_or_assign(s, t);
    normal_.insert_or_assign(t, t);
    return t;
  }

  /// The normal form by another strategy: the first rule (in the given order) that applies anywhere
  /// in the term, at the place nearest to the root and left-most, until none does. For languages of
  /// words, whose operations are unary: the cost is a step per rule and place.
  Term normalize_in_order(Term t) {
    while (std::optional<Term> next = step_in_order(t)) t = *next;
    return t;
  }

  /// Names of the rules that fired, in that order.
  const std::vector<std::string_view>& trace() const { return trace_; }
  const Counts& fired() const { return fired_; }
  /// Rules whose replacement would not have lowered the cost.
  const Counts& refused() const { return refused_; }

 private:
  // Patterns still to be matched against terms; a list on the stack.
  struct Goal {
    const Pattern<L>* pattern;
    Term term;
    const Goal* next;
  };

  Term with_normal_operands(Term t) {
    std::span<const Term> operands = lang_.operands(t);
    std::vector<Term> normal(operands.begin(), operands.end());
    bool changed = false;
    for (Term& x : normal) {
      Term y = normalize(x);
      changed = changed || !(x == y);
      x = y;
    }
    return changed ? lang_.rebuild(t, std::move(normal)) : t;
  }

  // The result of the first rule that applies at the root.
  std::optional<Term> step(Term t) {
    auto it = by_head_.find(lang_.head(t));
    if (it == by_head_.end()) return std::nullopt;
    for (const Rule<L>* r : it->second)
      if (std::optional<Term> result = apply(*r, t)) return result;
    return std::nullopt;
  }

  // The result of one rule at the root, if it applies.
  std::optional<Term> apply(const Rule<L>& r, Term t) {
    Match<L> m{t, {}};
    Goal goal{&r.from, t, nullptr};
    if (!solve(&goal, m)) return std::nullopt;
    if (r.when && !r.when(m)) return std::nullopt;
    std::optional<Term> result =
        r.apply ? r.apply(lang_, m) : std::optional<Term>(build(*r.to, m, t));
    if (!result || *result == t) return std::nullopt;
    if (!cheaper(r, m, *result)) {
      ++refused_[std::string(r.name)];
      return std::nullopt;
    }
    ++fired_[std::string(r.name)];
    trace_.push_back(r.name);
    return result;
  }

  // Where a walk stands: a term, and which of its operands it is in.
  struct Place {
    Term term;
    size_t operand;
  };

  std::optional<Term> step_in_order(Term root) {
    for (const Rule<L>* r : rules_) {
      std::vector<Place> path{{root, 0}};
      if (lang_.head(root) == r->from.head)
        if (std::optional<Term> result = apply(*r, root)) return result;
      while (!path.empty()) {
        Place& at = path.back();
        std::span<const Term> operands = lang_.operands(at.term);
        if (at.operand == operands.size()) {
          path.pop_back();
          if (!path.empty()) ++path.back().operand;
          continue;
        }
        Term below = operands[at.operand];
        if (lang_.head(below) == r->from.head)
          if (std::optional<Term> result = apply(*r, below)) return rebuild_path(path, *result);
        path.push_back({below, 0});
      }
    }
    return std::nullopt;
  }

  // The root of a path when the operand that it leads to becomes `t`.
  Term rebuild_path(const std::vector<Place>& path, Term t) {
    for (size_t k = path.size(); k-- > 0;) {
      std::span<const Term> old = lang_.operands(path[k].term);
      std::vector<Term> operands(old.begin(), old.end());
      operands[path[k].operand] = t;
      t = lang_.rebuild(path[k].term, std::move(operands));
    }
    return t;
  }

  bool solve(const Goal* goal, Match<L>& m) {
    using Kind = typename Pattern<L>::Kind;
    if (!goal) return true;
    const Pattern<L>& p = *goal->pattern;
    const Term& t = goal->term;
    switch (p.kind) {
      case Kind::variable:
      case Kind::constant: {
        auto& slot = m.bound[static_cast<size_t>(p.id)];
        if (slot) return *slot == t && solve(goal->next, m);
        if (p.kind == Kind::constant && !lang_.is_constant(t)) return false;
        slot = t;
        if (solve(goal->next, m)) return true;
        slot.reset();
        return false;
      }
      case Kind::literal:
        return lang_.is(t, p.value) && solve(goal->next, m);
      case Kind::any_operands:
        return lang_.head(t) == p.head && solve(goal->next, m);
      case Kind::node:
        return lang_.head(t) == p.head && solve_operands(*goal, m);
    }
    return false;
  }

  bool solve_operands(const Goal& goal, Match<L>& m) {
    const Pattern<L>& p = *goal.pattern;
    std::span<const Term> operands = lang_.operands(goal.term);
    if (operands.size() != p.operands.size()) return false;
    if (operands.size() == 2 && lang_.commutative(p.head)) {
      Goal b{&p.operands[1], operands[1], goal.next}, a{&p.operands[0], operands[0], &b};
      if (solve(&a, m)) return true;
      Goal d{&p.operands[1], operands[0], goal.next}, c{&p.operands[0], operands[1], &d};
      return solve(&c, m);
    }
    std::vector<Goal> goals;
    goals.reserve(operands.size());
    const Goal* next = goal.next;
    for (size_t i = operands.size(); i-- > 0;) {
      goals.push_back({&p.operands[i], operands[i], next});
      next = &goals.back();
    }
    return solve(next, m);
  }

  // Literals take their type from the first operand beside them that is not one.
  Term build(const Pattern<L>& p, const Match<L>& m, Term like) {
    using Kind = typename Pattern<L>::Kind;
    if (p.kind == Kind::literal) return lang_.literal(p.value, like);
    if (p.kind != Kind::node) return m[p.id];
    std::vector<std::optional<Term>> operands(p.operands.size());
    bool typed = false;
    for (size_t i = 0; i < operands.size(); ++i) {
      if (p.operands[i].kind == Kind::literal) continue;
      operands[i] = build(p.operands[i], m, like);
      if (!typed) like = *operands[i];
      typed = true;
    }
    std::vector<Term> built;
    for (size_t i = 0; i < operands.size(); ++i)
      built.push_back(operands[i] ? *operands[i] : lang_.literal(p.operands[i].value, like));
    return lang_.build(p.head, std::move(built));
  }

  // --- cost

  using Costs = std::unordered_map<Term, uint64_t>;

  void boundary_below(const Pattern<L>& p, Term t, std::vector<Term>& out) {
    using Kind = typename Pattern<L>::Kind;
    if (p.kind != Kind::any_operands) return;
    for (const Term& x : lang_.operands(t)) {
      std::span<const Term> below = lang_.operands(x);
      if (below.empty()) out.push_back(x);
      out.insert(out.end(), below.begin(), below.end());
    }
  }

  uint64_t cost(Term t, Costs& known) {
    if (auto it = known.find(t); it != known.end()) return it->second;
    std::vector<uint64_t> operands;
    for (const Term& x : lang_.operands(t)) operands.push_back(cost(x, known));
    uint64_t c = lang_.weigh(t, operands);
    known.emplace(t, c);
    return c;
  }

  // t is made of boundary terms and constants by at most `depth` nodes.
  bool covered(const Term& t, const std::vector<Term>& boundary, int depth) {
    std::span<const Term> operands = lang_.operands(t);
    return !operands.empty() && std::all_of(operands.begin(), operands.end(), [&](const Term& x) {
      return lang_.is_constant(x) ||
             std::find(boundary.begin(), boundary.end(), x) != boundary.end() ||
             (depth > 1 && covered(x, boundary, depth - 1));
    });
  }

  // Compares costs with every variable at least_cost, and with each in turn at 1000: weights are
  // linear with small coefficients, so that shows the order for all larger costs too.
  bool cheaper(const Rule<L>& rule, const Match<L>& m, Term result) {
    std::vector<Term> boundary;
    for (const auto& b : m.bound)
      if (b) boundary.push_back(*b);
    boundary_below(rule.from, m.root, boundary);
    std::erase_if(boundary, [&](const Term& b) { return b == m.root || lang_.is_constant(b); });
    // A variable may stand for a node of the pattern itself; it then costs what its own variables
    // make it cost.
    std::vector<Term> all = boundary;
    std::erase_if(boundary, [&](const Term& b) { return covered(b, all, 3); });
    for (size_t high = 0; high <= boundary.size(); ++high) {
      Costs old_costs;
      for (const Term& b : boundary) old_costs.insert_or_assign(b, least_cost);
      if (high < boundary.size()) old_costs.insert_or_assign(boundary[high], 1000);
      uint64_t old_cost = cost(m.root, old_costs);
      // Folding may leave an operand of a variable's term (neg of neg(x)): it costs less than the
      // term.
      Costs new_costs = old_costs;
      for (const Term& b : boundary)
        for (const Term& x : lang_.operands(b))
          if (!lang_.is_constant(x)) new_costs.emplace(x, old_costs.at(b) - 1);
      if (cost(result, new_costs) >= old_cost) return false;
    }
    return true;
  }

  L& lang_;
  std::vector<const Rule<L>*> rules_;
  std::unordered_map<Head, std::vector<const Rule<L>*>> by_head_;
  std::unordered_map<Term, Term> normal_;
  Counts fired_, refused_;
  std::vector<std::string_view> trace_;
};

}  // namespace hologram::rewrite

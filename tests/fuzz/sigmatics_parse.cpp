// tests/fuzz/sigmatics_parse.cpp: any text is an expression, a circuit or a SyntaxError; what
// parses prints, normalises and rewrites soundly.
#include "fuzz/input.h"
#include "sigmatics/effects.h"
#include "sigmatics/expression.h"

namespace {

using namespace hologram::sigmatics;

void require(bool holds) {
  if (!holds) std::abort();
}

// A mistake's position lies in the text.
void check_mistake(const SyntaxError& e, size_t size) {
  require(e.code() == hologram::ErrorCode::invalid_argument && e.position() <= size);
}

void expression(std::string_view text) {
  Expression e;
  try {
    e = parse_expression(text);
  } catch (const SyntaxError& error) {
    return check_mistake(error, text.size());
  }
  require(parse_expression(print(e)) == e);
  Expression n = normalize(e);
  require(normalize(n) == n && parse_expression(print(n)) == n);
  require(evaluate_literal(n).bytes == evaluate_literal(e).bytes);
  require(words(e).size() >= count_operations(e) && exact_words(e).size() >= count_operations(e));
}

void circuit(std::string_view text) {
  Circuit c;
  try {
    c = parse_circuit(text);
  } catch (const SyntaxError& error) {
    return check_mistake(error, text.size());
  }
  if (count_operations(c) > max_operations) return;
  std::string printed = print(c);
  require(print(parse_circuit(printed)) == printed);
  for (Rules rules : {Rules::gates, Rules::memory}) {
    Canonical n = canonicalize(c, rules);
    require(n.canonical_ops <= n.original_ops && n.canonical_ops == count_operations(n.circuit));
    require(print(canonicalize(n.circuit, rules).circuit) == print(n.circuit));
  }
  effects_of(calls_of(c));
}

}  // namespace

HOLOGRAM_FUZZ(text) {
  expression(text);
  circuit(text);
}

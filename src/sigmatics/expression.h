// sigmatics/expression.h: expressions: parser, literal and operational meaning, normal form.
//
//   phrase = par EOF          par = seq { "||" seq }          seq = term { "." term }
//   term   = prefix "@" par | "(" par ")" | op                op  = GENERATOR "@" sigil
//   sigil  = CLASS [ "^" [R | D | T] sign NUMBER ] [ "~" ] [ "@" NUMBER ]
//   prefix = [ R sign NUMBER ] [ D sign NUMBER ] [ T sign NUMBER ] [ "~" ], not empty
//
// A prefix takes the whole par after it. `^` without a letter is T.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sigmatics/classes.h"
#include "sigmatics/lexer.h"

namespace hologram::sigmatics {

/// The shifts of a prefix or sigil as they are written.
struct Shifts {
  int64_t r = 0, d = 0, t = 0;
  bool mirror = false;

  Transform transform() const { return Transform::of(r, d, t, mirror); }
  bool operator==(const Shifts&) const = default;
};

struct Expression {
  enum class Kind : uint8_t {
    op,        ///< generator @ sigil
    sequence,  ///< items, at least two
    parallel,  ///< items, at least two
    prefix,    ///< shifts @ items[0]
  };
  Kind kind = Kind::op;
  Generator generator = Generator::mark;
  int cls = 0;
  std::optional<int> page;
  Shifts shifts;  ///< of the sigil or the prefix
  std::vector<Expression> items;

  bool operator==(const Expression&) const = default;
};

/// Throws SyntaxError.
Expression parse_expression(std::string_view text);

/// Text that parses to an equal expression, classes with two digits.
std::string print(const Expression& e);

/// An operation of an expression after all transforms.
struct Leaf {
  Generator generator;
  int cls;
  std::optional<int> page;
};

/// The operations from left to right: the sigil's own shifts first, then the prefixes around it,
/// the inner ones before the outer ones.
std::vector<Leaf> leaves(const Expression& e);

/// Literal meaning.
struct Literal {
  std::vector<int> bytes;                     ///< canonical byte of each operation, left to right
  std::vector<int> classes;                   ///< their classes
  std::optional<std::vector<int>> addresses;  ///< belt addresses of those with a page, if any
};
Literal evaluate_literal(const Expression& e);

/// Operational meaning: words in the order of emission, the right-most item of a sequence first.
/// Prefixes enter and leave in the order R, D, T, ~; a nested prefix states the sum of the shifts
/// around it as the reference implementation does, unless these sums (which lose the order of D and
/// ~ across levels, and a level without ~ inside two that have an even number of them) would be
/// wrong somewhere in the phrase: then every level states its own.
std::vector<std::string> words(const Expression& e);

/// Words that can be carried out one by one: each level states its own shifts, as nested prefixes
/// of one shift each (~, T, D, R from the outside), and undoes them in reverse order by their
/// inverses.
std::vector<std::string> exact_words(const Expression& e);

/// The same expression without prefixes, shifts or nested sequences: transforms at the leaves.
Expression normalize(const Expression& e);

/// The number of operations.
size_t count_operations(const Expression& e);

/// Text, bytes, addresses and words for people.
std::string pretty(std::string_view text);

}  // namespace hologram::sigmatics

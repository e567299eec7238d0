// sigmatics/expression.cpp: parser and literal meaning of expressions.
#include "sigmatics/expression.h"

#include <algorithm>
#include <iterator>

namespace hologram::sigmatics {
namespace {

using Kind = Expression::Kind;

// Whether item k of a list is printed without parentheses. Every compound item has them, but a
// sequence of a parallel list, unless it ends in a prefix, which would reach over the items behind.
bool is_tight(const Expression& list, size_t k) {
  const Expression& x = list.items[k];
  return x.kind == Kind::op ||
         (list.kind == Kind::parallel && x.kind == Kind::sequence &&
          (k + 1 == list.items.size() || x.items.back().kind != Kind::prefix));
}

// How deep prefixes and parentheses of lists nest where e is printed: a measure of the expression,
// whatever text it came from.
int nesting(const Expression& e) {
  int deepest = 0;
  for (size_t k = 0; k < e.items.size(); ++k) {
    int own = e.kind == Kind::prefix || !is_tight(e, k);
    deepest = std::max(deepest, own + nesting(e.items[k]));
  }
  return deepest;
}

class ExpressionParser {
 public:
  explicit ExpressionParser(std::string_view text) : cursor_(tokenize(text)) {}

  Expression phrase() {
    Expression e = par();
    expect(TokenKind::eof);
    if (nesting(e) >= max_depth) too_deep(deepest_position_);
    return e;
  }

 private:
  const Token& expect(TokenKind kind) {
    const Token& t = cursor_.peek();
    if (t.kind != kind)
      syntax_fail(t.position, "Expected {} but got {} at position {}", name_of(kind),
                  name_of(t.kind), t.position);
    return cursor_.take();
  }

  // A level as it is printed takes at most two calls of par: a prefix and its parentheses.
  static constexpr int most_calls = 2 * max_depth;

  [[noreturn]] static void too_deep(size_t position) {
    syntax_fail(position, "Nested deeper than {} at position {}", max_depth, position);
  }

  static Expression list(Kind kind, std::vector<Expression> items) {
    if (items.size() == 1) return std::move(items[0]);
    Expression e;
    e.kind = kind;
    e.items = std::move(items);
    return e;
  }

  Expression par() {
    size_t where = cursor_.peek().position;
    if (++depth_ > deepest_) deepest_ = depth_, deepest_position_ = where;
    if (depth_ > most_calls) too_deep(where);
    std::vector<Expression> branches;
    do branches.push_back(seq());
    while (cursor_.take_if(TokenKind::parallel));
    --depth_;
    return list(Kind::parallel, std::move(branches));
  }

  Expression seq() {
    std::vector<Expression> terms;
    do terms.push_back(term());
    while (cursor_.take_if(TokenKind::dot));
    return list(Kind::sequence, std::move(terms));
  }

  Expression term() {
    switch (cursor_.peek().kind) {
      case TokenKind::rotate:
      case TokenKind::triality:
      case TokenKind::twist:
      case TokenKind::tilde:
        return prefix();
      case TokenKind::lparen: {
        cursor_.take();
        Expression e = par();
        expect(TokenKind::rparen);
        return e;
      }
      default:
        return op();
    }
  }

  Expression prefix() {
    Expression e;
    e.kind = Kind::prefix;
    if (cursor_.take_if(TokenKind::rotate)) e.shifts.r = shift();
    if (cursor_.take_if(TokenKind::triality)) e.shifts.d = shift();
    if (cursor_.take_if(TokenKind::twist)) e.shifts.t = shift();
    e.shifts.mirror = cursor_.take_if(TokenKind::tilde);
    expect(TokenKind::at);
    e.items.push_back(par());
    return e;
  }

  int64_t shift() {
    const Token& sign = cursor_.peek();
    if (sign.kind != TokenKind::plus && sign.kind != TokenKind::minus)
      syntax_fail(sign.position, "Expected + or - at position {}", sign.position);
    bool minus = cursor_.take().kind == TokenKind::minus;
    const Token& digits = expect(TokenKind::number);
    int64_t n = number_of(digits.text);
    if (n < 0)
      syntax_fail(digits.position, "Number {} out of range [0..{}] at position {}", digits.text,
                  max_number, digits.position);
    return minus ? -n : n;
  }

  Expression op() {
    Expression e;
    e.generator = generator_of(expect(TokenKind::generator));
    expect(TokenKind::at);
    const Token& cls = expect(TokenKind::cls);
    int64_t index = number_of(std::string_view(cls.text).substr(1));
    if (index < 0 || index >= num_classes)
      syntax_fail(cls.position, "Class index {} out of range [0..95] at position {}",
                  cls.text.substr(1), cls.position);
    e.cls = static_cast<int>(index);
    if (cursor_.take_if(TokenKind::caret)) {
      if (cursor_.take_if(TokenKind::rotate)) {
        e.shifts.r = shift();
      } else if (cursor_.take_if(TokenKind::triality)) {
        e.shifts.d = shift();
      } else {
        cursor_.take_if(TokenKind::twist);
        e.shifts.t = shift();
      }
    }
    e.shifts.mirror = cursor_.take_if(TokenKind::tilde);
    if (cursor_.take_if(TokenKind::at)) {
      const Token& page = expect(TokenKind::number);
      int64_t n = number_of(page.text);
      if (n < 0 || n >= num_pages)
        syntax_fail(page.position, "Page index {} out of range [0..47] at position {}", page.text,
                    page.position);
      e.page = static_cast<int>(n);
    }
    return e;
  }

  Cursor cursor_;
  int depth_ = 0, deepest_ = 0;
  size_t deepest_position_ = 0;
};

void collect(const Expression& e, const Transform& around, std::vector<Leaf>& out) {
  if (e.kind == Kind::op) {
    out.push_back({e.generator, compose(around, e.shifts.transform())(e.cls), e.page});
    return;
  }
  Transform inside = e.kind == Kind::prefix ? compose(around, e.shifts.transform()) : around;
  for (const Expression& x : e.items) collect(x, inside, out);
}

std::string signed_number(int64_t n) { return fmt::format("{:+}", n); }

std::string print_sigil(const Expression& e) {
  std::string s = fmt::format("{}@c{:02}", name_of(e.generator), e.cls);
  if (e.shifts.r) s += "^R" + signed_number(e.shifts.r);
  if (e.shifts.d) s += "^D" + signed_number(e.shifts.d);
  if (e.shifts.t) s += "^" + signed_number(e.shifts.t);
  if (e.shifts.mirror) s += "~";
  if (e.page) s += fmt::format("@{}", *e.page);
  return s;
}

std::string print_items(const Expression& e, std::string_view separator) {
  std::string s;
  for (size_t k = 0; k < e.items.size(); ++k) {
    if (k) s += separator;
    const Expression& x = e.items[k];
    s += is_tight(e, k) ? print(x) : "(" + print(x) + ")";
  }
  return s;
}

Expression with_leaves(const Expression& e, const Leaf*& next) {
  Expression out;
  out.kind = e.kind;
  switch (e.kind) {
    case Kind::op:
      out.generator = next->generator;
      out.cls = next->cls;
      out.page = next->page;
      ++next;
      return out;
    case Kind::prefix:
      return with_leaves(e.items[0], next);
    default:
      // An item of the same kind joins this list: both compositions are associative.
      for (const Expression& x : e.items) {
        Expression y = with_leaves(x, next);
        if (y.kind == e.kind)
          std::move(y.items.begin(), y.items.end(), std::back_inserter(out.items));
        else
          out.items.push_back(std::move(y));
      }
      return out;
  }
}

}  // namespace

Expression parse_expression(std::string_view text) { return ExpressionParser(text).phrase(); }

std::string print(const Expression& e) {
  switch (e.kind) {
    case Kind::op:
      return print_sigil(e);
    case Kind::sequence:
      return print_items(e, " . ");
    case Kind::parallel:
      return print_items(e, " || ");
    default: {
      std::string s;
      if (e.shifts.r) s += "R" + signed_number(e.shifts.r) + " ";
      if (e.shifts.d) s += "D" + signed_number(e.shifts.d) + " ";
      if (e.shifts.t) s += "T" + signed_number(e.shifts.t) + " ";
      if (e.shifts.mirror) s += "~";
      while (!s.empty() && s.back() == ' ') s.pop_back();
      if (s.empty()) s = "R+0";
      return s + "@(" + print(e.items[0]) + ")";
    }
  }
}

std::vector<Leaf> leaves(const Expression& e) {
  std::vector<Leaf> out;
  collect(e, {}, out);
  return out;
}

Literal evaluate_literal(const Expression& e) {
  Literal out;
  for (const Leaf& leaf : leaves(e)) {
    int byte = canonical_byte(leaf.cls);
    out.classes.push_back(leaf.cls);
    out.bytes.push_back(byte);
    if (!leaf.page) continue;
    if (!out.addresses) out.addresses.emplace();
    out.addresses->push_back(belt_address(*leaf.page, byte));
  }
  return out;
}

Expression normalize(const Expression& e) {
  std::vector<Leaf> all = leaves(e);
  const Leaf* next = all.data();
  return with_leaves(e, next);
}

size_t count_operations(const Expression& e) {
  if (e.kind == Kind::op) return 1;
  size_t n = 0;
  for (const Expression& x : e.items) n += count_operations(x);
  return n;
}

std::string pretty(std::string_view text) {
  Expression e = parse_expression(text);
  Literal literal = evaluate_literal(e);
  std::string out = fmt::format("Expression: {}\n\nLiteral Backend (Bytes):\n ", text);
  for (int b : literal.bytes) out += fmt::format(" 0x{:02X}", b);
  if (literal.addresses) {
    out += "\n  Addresses: ";
    for (size_t k = 0; k < literal.addresses->size(); ++k)
      out += fmt::format("{}{}", k ? ", " : "", (*literal.addresses)[k]);
  }
  out += "\n\nOperational Backend (Words):";
  for (const std::string& w : words(e)) out += "\n  " + w;
  return out;
}

}  // namespace hologram::sigmatics

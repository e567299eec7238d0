// base/expr_text.cpp: text form of integer expressions, both ways.
#include <cctype>

#include "base/error.h"
#include "base/expr.h"

namespace hologram {
namespace {

std::string atom_text(const Atom& a) {
  using K = Atom::Kind;
  switch (a.kind) {
    case K::symbol:
      return fmt::format("s{}", a.id);
    case K::axis:
      return fmt::format("i{}", a.id);
    case K::value:
      return fmt::format("v{}", a.id);
    case K::floor_div:
      return fmt::format("({} // {})", a.a->str(), a.b->str());
    case K::mod:
      return fmt::format("({} % {})", a.a->str(), a.b->str());
    case K::min:
      return fmt::format("min({}, {})", a.a->str(), a.b->str());
    case K::max:
      return fmt::format("max({}, {})", a.a->str(), a.b->str());
    case K::bounded:
      return fmt::format("<{}>", a.b->str());
  }
  return {};
}

class Parser {
 public:
  Parser(std::string_view text, const std::function<Expr(Atom::Kind, int)>& extent_of)
      : text_(text), extent_of_(extent_of) {}

  Expr parse() {
    Expr e = division();
    skip();
    if (at_ != text_.size()) error("the end of the expression");
    return e;
  }

 private:
  [[noreturn]] void error(std::string_view expected) {
    fail(ErrorCode::invalid_argument, "expression \"{}\": expected {} at position {}", text_,
         expected, at_);
  }

  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  bool take(std::string_view token) {
    skip();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }

  int64_t number() {
    skip();
    if (at_ == text_.size() || !std::isdigit(static_cast<unsigned char>(text_[at_])))
      error("a number");
    int64_t n = 0;
    while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))) {
      if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, text_[at_] - '0', &n))
        error("a number that fits 64 bits");
      ++at_;
    }
    return n;
  }

  // sum ('//' sum | '%' sum)?: the quotient forms stand in parentheses.
  Expr division() {
    if (++depth_ > 64) error("at most 64 nested parentheses");
    Expr a = sum();
    if (take("//"))
      a = floor_div(a, sum());
    else if (take("%"))
      a = mod(a, sum());
    --depth_;
    return a;
  }

  Expr sum() {
    Expr e = take("-") ? -product() : product();
    for (;;) {
      if (take("+"))
        e += product();
      else if (take("-"))
        e = e - product();
      else
        return e;
    }
  }

  Expr product() {
    Expr e = factor();
    while (take("*")) e *= factor();
    return e;
  }

  Expr pair(Expr (*combine)(const Expr&, const Expr&)) {
    Expr a = division();
    if (!take(",")) error("','");
    Expr b = division();
    if (!take(")")) error("')'");
    return combine(a, b);
  }

  Expr factor() {
    if (take("min(")) return pair(min);
    if (take("max(")) return pair(max);
    if (take("(")) {
      Expr e = division();
      if (!take(")")) error("')'");
      return e;
    }
    if (take("s")) return Expr::symbol(small_number());
    if (take("i")) return ranged(Atom::Kind::axis);
    if (take("v")) return ranged(Atom::Kind::value);
    return Expr(number());
  }

  Expr ranged(Atom::Kind kind) {
    int id = small_number();
    if (!extent_of_) error("no axis or value here");
    Expr extent = extent_of_(kind, id);
    return kind == Atom::Kind::axis ? Expr::axis(id, extent) : Expr::value(id, extent);
  }

  int small_number() {
    int64_t n = number();
    if (n > 0xffff) error("a number below 65536");
    return static_cast<int>(n);
  }

  std::string_view text_;
  const std::function<Expr(Atom::Kind, int)>& extent_of_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::string Expr::str() const {
  std::string out;
  auto append = [&](int64_t c, const std::string& body) {
    uint64_t size = c < 0 ? 0 - static_cast<uint64_t>(c) : static_cast<uint64_t>(c);
    out += out.empty() ? (c < 0 ? "-" : "") : (c < 0 ? " - " : " + ");
    if (body.empty())
      out += fmt::format("{}", size);
    else
      out += size == 1 ? body : fmt::format("{}*{}", size, body);
  };
  for (const Term& t : terms()) {
    std::string body;
    for (const AtomRef& a : t.atoms) body += (body.empty() ? "" : "*") + atom_text(*a);
    append(t.coefficient, body);
  }
  if (constant_ != 0 || out.empty()) append(constant_, "");
  return out;
}

Expr parse_expr(std::string_view text, const std::function<Expr(Atom::Kind, int)>& extent_of) {
  return Parser(text, extent_of).parse();
}

}  // namespace hologram

// sigmatics/circuit.cpp: parser and printer of circuits.
#include "sigmatics/circuit.h"

#include <algorithm>
#include <iterator>
#include <span>

namespace hologram::sigmatics {
namespace {

constexpr std::string_view variant_names[] = {"Add",  "Mul", "Min",  "Max",     "Abs",
                                              "Exp",  "Log", "Sqrt", "Sigmoid", "Tanh",
                                              "Gelu", "Sub", "Div"};

// What stands after the `@` of an operation, before it is known whether the generator takes it.
struct Target {
  std::vector<Operand> ones;
  TokenKind shape = TokenKind::cls;  ///< cls, arrow, exchange, lbracket or classes
  std::vector<uint8_t> range;
};

class CircuitParser {
 public:
  explicit CircuitParser(std::string_view text) : cursor_(tokenize(text, Dialect::circuit)) {}

  Circuit phrase() {
    prefix();
    Circuit c;
    c.branches = par();
    expect(TokenKind::eof);
    return c;
  }

 private:
  [[noreturn]] void unexpected(std::string_view wanted) const {
    const Token& t = cursor_.peek();
    if (t.kind == TokenKind::eof)
      syntax_fail(t.position, "UnexpectedEof expected {} at position {}", wanted, t.position);
    syntax_fail(t.position, "UnexpectedToken expected {} but got {} at position {}", wanted,
                symbol_of(t.kind), t.position);
  }

  const Token& expect(TokenKind kind) {
    if (!cursor_.at(kind)) unexpected(symbol_of(kind));
    return cursor_.take();
  }

  int64_t number() {
    const Token& t = expect(TokenKind::number);
    int64_t n = number_of(t.text);
    if (n < 0)
      syntax_fail(t.position, "InvalidNumber {} at position {}: expected at most {}", t.text,
                  t.position, max_number);
    return n;
  }

  int64_t shift() {
    bool minus = cursor_.take_if(TokenKind::minus);
    if (!minus) cursor_.take_if(TokenKind::plus);
    int64_t n = number();
    return minus ? -n : n;
  }

  void prefix() {
    if (cursor_.at(TokenKind::triality))
      syntax_fail(cursor_.peek().position, "InvalidGenerator D at position {}: circuits have no D",
                  cursor_.peek().position);
    bool any = false;
    int64_t r = 0, t = 0;
    if (cursor_.take_if(TokenKind::rotate)) r = shift(), any = true;
    if (cursor_.take_if(TokenKind::twist)) t = shift(), any = true;
    bool mirror = cursor_.take_if(TokenKind::tilde);
    if (any || mirror) expect(TokenKind::at);
    around_ = Transform::of(r, 0, t, mirror);
  }

  std::vector<Circuit::Branch> par() {
    size_t where = cursor_.peek().position;
    if (++depth_ > max_depth)
      syntax_fail(where, "UnexpectedToken at position {}: nested deeper than {}", where, max_depth);
    std::vector<Circuit::Branch> branches;
    do {
      Circuit::Branch b = seq();
      if (b.size() == 1 && b[0].is_group())  // (x || y) || z is x || y || z
        std::move(b[0].group.begin(), b[0].group.end(), std::back_inserter(branches));
      else
        branches.push_back(std::move(b));
    } while (cursor_.take_if(TokenKind::parallel));
    --depth_;
    return branches;
  }

  // A group of one branch joins its sequence.
  Circuit::Branch seq() {
    Circuit::Branch items;
    do {
      if (!cursor_.take_if(TokenKind::lparen)) {
        items.push_back({operation(), {}});
        continue;
      }
      std::vector<Circuit::Branch> group = par();
      expect(TokenKind::rparen);
      if (group.size() == 1)
        std::move(group[0].begin(), group[0].end(), std::back_inserter(items));
      else
        items.push_back({{}, std::move(group)});
    } while (cursor_.take_if(TokenKind::dot));
    return items;
  }

  int class_number(const Token& t, std::string_view digits) const {
    int64_t n = number_of(digits);
    if (n < 0 || n >= num_classes)
      syntax_fail(t.position, "InvalidClassIndex {} out of range [0..95] at position {}", digits,
                  t.position);
    return static_cast<int>(n);
  }

  // [ "^" [sign] n ] [ "~" ], and what stands around the phrase after it.
  Transform postfix() {
    int64_t t = cursor_.take_if(TokenKind::caret) ? shift() : 0;
    bool mirror = cursor_.take_if(TokenKind::tilde);
    return compose(around_, Transform::of(0, 0, t, mirror));
  }

  Operand one() {
    const Token& t = expect(TokenKind::cls);
    int cls = class_number(t, std::string_view(t.text).substr(1));
    Operand out{postfix()(cls)};
    if (cursor_.take_if(TokenKind::at)) {
      const Token& page = expect(TokenKind::number);
      int64_t n = number_of(page.text);
      if (n < 0 || n >= num_pages)
        syntax_fail(page.position, "InvalidPage {} out of range [0..47] at position {}", page.text,
                    page.position);
      out.page = static_cast<int>(n);
    }
    return out;
  }

  Target range() {
    size_t where = cursor_.take().position;
    expect(TokenKind::lbracket);
    auto bound = [&] {
      const Token& t = expect(TokenKind::number);
      return class_number(t, t.text);
    };
    int first = bound();
    expect(TokenKind::range);
    int last = bound();
    expect(TokenKind::rbracket);
    if (first >= last)
      syntax_fail(where, "InvalidRange {}..{} at position {}: expected first < last", first, last,
                  where);
    Target out{{}, TokenKind::classes, {}};
    Transform move = postfix();
    for (int c = first; c <= last; ++c) out.range.push_back(static_cast<uint8_t>(move(c)));
    return out;
  }

  Target target() {
    if (cursor_.at(TokenKind::classes)) return range();
    Target out{{one()}, TokenKind::cls, {}};
    for (TokenKind k : {TokenKind::arrow, TokenKind::exchange}) {
      if (!cursor_.take_if(k)) continue;
      out.ones.push_back(one());
      out.shape = k;
      return out;
    }
    if (cursor_.take_if(TokenKind::lbracket)) {
      out.shape = TokenKind::lbracket;
      out.ones.push_back(one());
      expect(TokenKind::comma);
      out.ones.push_back(one());
      expect(TokenKind::rbracket);
    }
    return out;
  }

  Call operation() {
    if (!cursor_.at(TokenKind::generator)) unexpected("GENERATOR");
    const Token& token = cursor_.take();
    Generator g = generator_of(token);
    size_t where = token.position;
    expect(TokenKind::at);
    Target t = target();
    if (t.shape == TokenKind::classes) {
      Call c{.generator = g, .range = t.range};
      return checked(c, where);
    }
    TokenKind wanted = g == Generator::copy                             ? TokenKind::arrow
                       : g == Generator::swap                           ? TokenKind::exchange
                       : g == Generator::merge || g == Generator::split ? TokenKind::lbracket
                                                                        : TokenKind::cls;
    if (t.shape == TokenKind::cls && wanted != TokenKind::cls) unexpected(symbol_of(wanted));
    if (t.shape != wanted)
      syntax_fail(where, "InvalidTarget of {} at position {}: {}", name_of(g), where, form_of(g));
    Call c{.generator = g, .a = t.ones[0]};
    if (g == Generator::copy) c.to = t.ones[1];
    if (g == Generator::swap) c.b = t.ones[1];
    if (wanted == TokenKind::lbracket) c.b = t.ones[1], c.to = t.ones[2];
    if (g == Generator::split) c.variant = Variant::sub;
    return checked(c, where);
  }

  static Call checked(const Call& c, size_t where) {
    try {
      check_call(c);
    } catch (const Error& e) {
      syntax_fail(where, "InvalidTarget at position {}: {}", where, e.what());
    }
    return c;
  }

 public:
  static std::string_view form_of(Generator g) {
    switch (g) {
      case Generator::copy:
        return "copy wants source->destination, as in copy@c05->c06";
      case Generator::swap:
        return "swap wants two classes, as in swap@c01<->c02";
      case Generator::merge:
        return "merge wants source[context,destination], as in merge@c00[c01,c02], or a range";
      case Generator::split:
        return "split wants source[context,destination], as in split@c00[c01,c02]";
      default:
        return "mark, quote and evaluate want a class or a range, as in mark@c21";
    }
  }

 private:
  Cursor cursor_;
  Transform around_;
  int depth_ = 0;
};

std::string print(const Operand& o) {
  return o.page < 0 ? fmt::format("c{:02}", o.cls) : fmt::format("c{:02}@{}", o.cls, o.page);
}

// The parts of a range in which classes ascend one by one.
std::string print_range(Generator g, std::span<const uint8_t> classes) {
  std::string out;
  while (!classes.empty()) {
    size_t n = 1;
    while (n < classes.size() && classes[n] == classes[n - 1] + 1) ++n;
    if (!out.empty()) out += " . ";
    if (n > 1)
      out += fmt::format("{}@c[{}..{}]", name_of(g), classes[0], classes[n - 1]);
    else if (g == Generator::merge)
      out += fmt::format("merge@c{0:02}[c{0:02},c{0:02}]", classes[0]);
    else
      out += fmt::format("{}@c{:02}", name_of(g), classes[0]);
    classes = classes.subspan(n);
  }
  return out;
}

std::string print_branches(const std::vector<Circuit::Branch>& branches) {
  std::string out;
  for (size_t b = 0; b < branches.size(); ++b) {
    if (b) out += " || ";
    for (size_t k = 0; k < branches[b].size(); ++k) {
      if (k) out += " . ";
      const Circuit::Item& item = branches[b][k];
      out += item.is_group() ? "(" + print_branches(item.group) + ")" : print(item.call);
    }
  }
  return out;
}

template <class F>
void each_call(const std::vector<Circuit::Branch>& branches, const F& f) {
  for (const Circuit::Branch& b : branches)
    for (const Circuit::Item& item : b) item.is_group() ? each_call(item.group, f) : f(item.call);
}

}  // namespace

std::string_view name_of(Variant v) { return variant_names[static_cast<size_t>(v)]; }

std::optional<Variant> variant_from_name(std::string_view name) {
  for (int k = 0; k < num_variants; ++k)
    if (variant_names[k] == name) return static_cast<Variant>(k);
  return std::nullopt;
}

void check_call(const Call& c) {
  bool merges = c.generator == Generator::merge, splits = c.generator == Generator::split;
  if (c.is_range()) {
    require(c.generator != Generator::copy && c.generator != Generator::swap && !splits,
            "{} takes no range: {}", name_of(c.generator), CircuitParser::form_of(c.generator));
    for (uint8_t k : c.range) parts_of(k);
  }
  bool of_split = c.variant == Variant::sub || c.variant == Variant::div;
  if (merges || splits)
    require(of_split == splits, "{} has no variant {}", name_of(c.generator), name_of(c.variant));
  for (const Operand* o : {&c.a, &c.b, &c.to}) {
    parts_of(o->cls);
    require(o->page >= -1 && o->page < num_pages, "Page index {} out of range [0..47]", o->page);
  }
}

std::string print(const Call& c) {
  if (c.is_range()) return print_range(c.generator, c.range);
  std::string out = fmt::format("{}@{}", name_of(c.generator), print(c.a));
  switch (c.generator) {
    case Generator::copy:
      return out + "->" + print(c.to);
    case Generator::swap:
      return out + "<->" + print(c.b);
    case Generator::merge:
    case Generator::split:
      return out + fmt::format("[{},{}]", print(c.b), print(c.to));
    default:
      return out;
  }
}

bool Circuit::operator==(const Circuit&) const = default;

Circuit parse_circuit(std::string_view text) { return CircuitParser(text).phrase(); }

std::string print(const Circuit& circuit) { return print_branches(circuit.branches); }

size_t count_operations(const Circuit& circuit) {
  size_t n = 0;
  each_call(circuit.branches, [&](const Call&) { ++n; });
  return n;
}

std::vector<Call> calls_of(const Circuit& circuit) {
  std::vector<Call> out;
  each_call(circuit.branches, [&](const Call& c) { out.push_back(c); });
  return out;
}

}  // namespace hologram::sigmatics

// sigmatics/lexer.cpp: characters to tokens.
#include "sigmatics/lexer.h"

#include <array>

namespace hologram::sigmatics {
namespace {

constexpr std::string_view generator_names[] = {"mark",  "copy",  "swap",    "merge",
                                                "split", "quote", "evaluate"};

struct KindText {
  std::string_view name, symbol;
};

constexpr KindText kind_texts[] = {
    {"DOT", "."},    {"PARALLEL", "||"},   {"LPAREN", "("},    {"RPAREN", ")"},
    {"AT", "@"},     {"CARET", "^"},       {"TILDE", "~"},     {"PLUS", "+"},
    {"MINUS", "-"},  {"NUMBER", "NUMBER"}, {"CLASS", "CLASS"}, {"GENERATOR", "GENERATOR"},
    {"ROTATE", "R"}, {"TRIALITY", "D"},    {"TWIST", "T"},     {"EOF", "EOF"},
    {"ARROW", "->"}, {"EXCHANGE", "<->"},  {"LBRACKET", "["},  {"RBRACKET", "]"},
    {"COMMA", ","},  {"RANGE", ".."},      {"CLASSES", "c["},
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

class Lexer {
 public:
  Lexer(std::string_view text, Dialect dialect) : text_(text), dialect_(dialect) {}

  std::vector<Token> run() {
    for (skip_blank(); at_ < text_.size(); skip_blank()) next();
    add(TokenKind::eof, 0);
    return std::move(tokens_);
  }

 private:
  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  // Bytes that continue a UTF-8 character are no position of their own.
  void advance(size_t bytes) {
    for (; bytes > 0; --bytes) position_ += (text_[at_++] & 0xC0) != 0x80;
  }

  void skip_blank() {
    for (;;) {
      char c = peek();
      if (at_ < text_.size() && (c == ' ' || c == '\t' || c == '\r' || c == '\n')) {
        advance(1);
      } else if (c == '/' && peek(1) == '/') {
        while (at_ < text_.size() && peek() != '\n') advance(1);
      } else {
        return;
      }
    }
  }

  void add(TokenKind kind, size_t bytes) {
    tokens_.push_back({kind, std::string(text_.substr(at_, bytes)), position_, bytes});
    advance(bytes);
  }

  size_t run_of(bool (*belongs)(char), size_t from = 0) const {
    size_t n = from;
    while (at_ + n < text_.size() && belongs(text_[at_ + n])) ++n;
    return n;
  }

  void next() {
    char c = peek();
    if (is_digit(c)) return add(TokenKind::number, run_of(is_digit));
    if (is_letter(c)) return word();
    // The longest symbol first.
    static constexpr std::array common = {TokenKind::parallel, TokenKind::lparen, TokenKind::rparen,
                                          TokenKind::at,       TokenKind::caret,  TokenKind::tilde,
                                          TokenKind::dot,      TokenKind::plus,   TokenKind::minus};
    static constexpr std::array circuit = {TokenKind::exchange, TokenKind::arrow,
                                           TokenKind::range,    TokenKind::lbracket,
                                           TokenKind::rbracket, TokenKind::comma};
    if (dialect_ == Dialect::circuit)
      for (TokenKind k : circuit)
        if (symbol(k)) return;
    for (TokenKind k : common)
      if (symbol(k)) return;
    size_t length = 1;
    while (at_ + length < text_.size() && (text_[at_ + length] & 0xC0) == 0x80) ++length;
    syntax_fail(position_, "Lexer error at position {}: unexpected '{}'", position_,
                text_.substr(at_, length));
  }

  bool symbol(TokenKind kind) {
    std::string_view s = symbol_of(kind);
    if (!text_.substr(at_).starts_with(s)) return false;
    add(kind, s.size());
    return true;
  }

  void word() {
    if (peek() == 'c' && is_digit(peek(1))) return add(TokenKind::cls, run_of(is_digit, 1));
    bool circuit = dialect_ == Dialect::circuit;
    if (circuit && peek() == 'c' && peek(1) == '[') return add(TokenKind::classes, 1);
    size_t n = run_of(circuit ? is_letter : [](char c) { return is_letter(c) || is_digit(c); });
    std::string_view w = text_.substr(at_, n);
    for (std::string_view name : generator_names)
      if (w == name) return add(TokenKind::generator, n);
    for (TokenKind k : {TokenKind::rotate, TokenKind::triality, TokenKind::twist})
      if (w == symbol_of(k)) return add(k, n);
    if (circuit)
      syntax_fail(position_, "InvalidGenerator {} at position {}: unexpected '{}'", w, position_,
                  w);
    syntax_fail(position_, "Lexer error at position {}: unexpected '{}'", position_, w);
  }

  std::string_view text_;
  Dialect dialect_;
  size_t at_ = 0, position_ = 0;
  std::vector<Token> tokens_;
};

}  // namespace

std::string_view name_of(Generator g) { return generator_names[static_cast<size_t>(g)]; }
std::string_view name_of(TokenKind kind) { return kind_texts[static_cast<size_t>(kind)].name; }
std::string_view symbol_of(TokenKind kind) { return kind_texts[static_cast<size_t>(kind)].symbol; }

std::vector<Token> tokenize(std::string_view text, Dialect dialect) {
  return Lexer(text, dialect).run();
}

Generator generator_of(const Token& token) {
  for (int k = 0; k < num_generators; ++k)
    if (token.text == generator_names[k]) return static_cast<Generator>(k);
  fail(ErrorCode::internal, "sigmatics: \"{}\" is no generator", token.text);
}

const Token& Cursor::take() {
  const Token& t = tokens_[at_];
  if (t.kind != TokenKind::eof) ++at_;
  return t;
}

bool Cursor::take_if(TokenKind kind) {
  if (!at(kind)) return false;
  take();
  return true;
}

int64_t number_of(std::string_view digits) {
  int64_t n = 0;
  for (char c : digits) {
    n = n * 10 + (c - '0');
    if (n > max_number) return -1;
  }
  return n;
}

}  // namespace hologram::sigmatics

// sigmatics/lexer.h: one strict lexer for expressions and circuits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace hologram::sigmatics {

/// A user's mistake in a text, at a position counted in characters from 0.
class SyntaxError : public Error {
 public:
  SyntaxError(size_t position, const std::string& message)
      : Error(ErrorCode::invalid_argument, message), position_(position) {}
  size_t position() const noexcept { return position_; }

 private:
  size_t position_;
};

template <class... Args>
[[noreturn]] void syntax_fail(size_t position, fmt::format_string<Args...> format, Args&&... args) {
  throw SyntaxError(position, fmt::format(format, std::forward<Args>(args)...));
}

enum class Generator : uint8_t { mark, copy, swap, merge, split, quote, evaluate };
inline constexpr int num_generators = 7;
std::string_view name_of(Generator g);

enum class TokenKind : uint8_t {
  dot,
  parallel,
  lparen,
  rparen,
  at,
  caret,
  tilde,
  plus,
  minus,
  number,
  cls,  ///< `c` and digits
  generator,
  rotate,
  triality,
  twist,
  eof,
  // circuits only
  arrow,
  exchange,
  lbracket,
  rbracket,
  comma,
  range,
  classes,  ///< the `c` of `c[`
};

/// "DOT", "PARALLEL", …
std::string_view name_of(TokenKind kind);
/// "'.'", "'->'", … for symbols, else the name.
std::string_view symbol_of(TokenKind kind);

struct Token {
  TokenKind kind;
  std::string text;
  size_t position;
  size_t length;
};

enum class Dialect : uint8_t {
  expression,  ///< words are letters and digits
  circuit,     ///< words are letters, so that R1 is R and 1; also -> <-> [ ] , ..
};

/// The tokens of a text, an EOF token last. Throws SyntaxError at the first character or word that
/// the dialect does not have. Blank: space, tab, CR, LF, and `//` to the end of the line.
std::vector<Token> tokenize(std::string_view text, Dialect dialect = Dialect::expression);

/// The generator of a GENERATOR token.
Generator generator_of(const Token& token);

/// Tokens one after the other.
class Cursor {
 public:
  explicit Cursor(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& peek() const { return tokens_[at_]; }
  bool at(TokenKind kind) const { return peek().kind == kind; }
  /// The current token; moves on, but not past EOF.
  const Token& take();
  /// Takes the token if it is of this kind.
  bool take_if(TokenKind kind);

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
};

/// How deep groups and prefixes may nest.
inline constexpr int max_depth = 256;
/// The largest number a shift may have.
inline constexpr int64_t max_number = (int64_t{1} << 53) - 1;

/// The value of a run of digits, or -1 when it is above max_number.
int64_t number_of(std::string_view digits);

}  // namespace hologram::sigmatics

// atlas/cursor.h: reads the text forms token by token, with positions.
#pragma once

#include <cctype>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace hologram::atlas {

/// A place in a text of lines. `;` (and `//`, where `slashes` says so) starts a comment that runs
/// to the end of the line.
class Cursor {
 public:
  explicit Cursor(std::string_view text, bool slashes = false) : text_(text), slashes_(slashes) {}

  /// Throws Error(invalid_argument) with line and column.
  template <class... Args>
  [[noreturn]] void error(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::invalid_argument, "line {}, column {}: {}", line_, at_ - line_start_ + 1,
         fmt::format(format, std::forward<Args>(args)...));
  }

  /// A place on the current line, to which back() returns.
  size_t here() {
    spaces();
    return at_;
  }
  void back(size_t place) { at_ = place; }

  /// Skips empty lines; true at the end of the text.
  bool at_end() {
    for (;;) {
      spaces();
      if (at_ == text_.size()) return true;
      if (text_[at_] != '\n') return false;
      newline();
    }
  }

  /// The line must end here.
  void end_line() {
    spaces();
    if (at_ == text_.size()) return;
    if (text_[at_] != '\n') error("expected the end of the line");
    newline();
  }

  bool line_ends() {
    spaces();
    return at_ == text_.size() || text_[at_] == '\n';
  }

  char peek() {
    spaces();
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool take(char c) {
    if (peek() != c || c == '\0') return false;
    ++at_;
    return true;
  }

  void expect(char c) {
    if (!take(c)) error("expected '{}'", c);
  }

  /// The next character without skipping spaces.
  char raw() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  /// Letters, digits and '_', starting with a letter or '_'; "" if there is none.
  std::string_view peek_word() {
    spaces();
    size_t end = at_;
    while (end < text_.size() && word_char(text_[end])) ++end;
    bool digit = end > at_ && std::isdigit(static_cast<unsigned char>(text_[at_]));
    return digit ? std::string_view() : text_.substr(at_, end - at_);
  }

  /// Letters, digits, '_' and '.'; "" if there is none.
  std::string_view dotted() {
    spaces();
    size_t end = at_;
    while (end < text_.size() && (word_char(text_[end]) || text_[end] == '.')) ++end;
    std::string_view w = text_.substr(at_, end - at_);
    at_ = end;
    return w;
  }

  std::string_view word(std::string_view what) {
    std::string_view w = peek_word();
    if (w.empty()) error("expected {}", what);
    at_ += w.size();
    return w;
  }

  bool take_word(std::string_view w) {
    if (peek_word() != w) return false;
    at_ += w.size();
    return true;
  }

  void expect_word(std::string_view w) {
    if (!take_word(w)) error("expected \"{}\"", w);
  }

  /// A decimal or 0x number of at most `limit`.
  uint64_t number(uint64_t limit = ~uint64_t{0}) {
    spaces();
    uint64_t base = text_.substr(at_, 2) == "0x" ? 16 : 10;
    size_t start = at_ + (base == 16 ? 2 : 0), end = start;
    uint64_t n = 0;
    for (; end < text_.size(); ++end) {
      int digit = digit_of(text_[end]);
      if (digit < 0 || static_cast<uint64_t>(digit) >= base) break;
      if (n > (~uint64_t{0} - static_cast<uint64_t>(digit)) / base)
        error("a number beyond 64 bits");
      n = n * base + static_cast<uint64_t>(digit);
    }
    if (end == start) error("expected a number");
    if (n > limit) error("expected a number of at most {}", limit);
    at_ = end;
    return n;
  }

  /// A letter and a number, as in b12.
  uint64_t prefixed(char letter, uint64_t limit) {
    spaces();
    if (raw() != letter) error("expected {} and a number", letter);
    ++at_;
    if (!std::isdigit(static_cast<unsigned char>(raw())))
      error("expected a number after {}", letter);
    return number(limit);
  }

  /// What stands between '[' and ']'.
  std::string_view bracketed() {
    expect('[');
    size_t end = text_.find_first_of("]\n", at_);
    if (end == std::string_view::npos || text_[end] != ']') error("expected ']'");
    std::string_view inside = text_.substr(at_, end - at_);
    at_ = end + 1;
    return inside;
  }

  /// Bytes of UTF-8 text that begins here, taken if equal.
  bool take_text(std::string_view s) {
    spaces();
    if (text_.substr(at_, s.size()) != s) return false;
    at_ += s.size();
    return true;
  }

 private:
  static bool word_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

  static int digit_of(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  }

  void spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
    if (at_ < text_.size() && (text_[at_] == ';' || (slashes_ && text_.substr(at_, 2) == "//")))
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
  }

  void newline() {
    ++at_;
    ++line_;
    line_start_ = at_;
  }

  std::string_view text_;
  bool slashes_;
  size_t at_ = 0, line_start_ = 0;
  int line_ = 1;
};

}  // namespace hologram::atlas

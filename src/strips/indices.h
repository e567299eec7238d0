// strips/indices.h: index expressions along the lanes of a strip.
//
// A strip is a run of coordinates of one axis, the lane axis, along which every quotient,
// remainder, minimum and comparison of coordinates that a program asks for is linear: where one of
// them would bend, a strip ends and the next begins.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/expr.h"

namespace hologram::strips {

/// at + step * lane.
struct Line {
  int64_t at = 0, step = 0;
};

/// The index expressions of one body, and what they are made of.
class Indices {
 public:
  explicit Indices(int lane_axis) : lane_axis_(lane_axis) {}

  struct Part {
    int64_t coefficient;
    int number;  ///< what is multiplied: of numbers_
  };
  struct Sum {
    int64_t constant = 0;
    std::vector<Part> parts;
    bool varies = false;  ///< along the lanes
  };

  /// An expression without values of the body; nothing for what is not rendered.
  std::optional<Sum> sum(const Expr& e);
  /// 1 where `e` is at least 0, else 0, as a number that does not bend in a strip.
  std::optional<int> at_least_zero(const Sum& e);

  /// All numbers for a strip that begins at these coordinates. Returns how many of `lanes` it has.
  int64_t evaluate(const int64_t* symbols, const int64_t* axes, int64_t lanes, Line* numbers) const;
  static Line value(const Sum& sum, const Line* numbers) {
    Line out{sum.constant, 0};
    for (const Part& p : sum.parts) {
      out.at += p.coefficient * numbers[p.number].at;
      out.step += p.coefficient * numbers[p.number].step;
    }
    return out;
  }
  int lane_axis() const { return lane_axis_; }
  size_t count() const { return numbers_.size(); }
  /// Whether every sum is linear along this axis too, with the same step everywhere.
  bool linear_along(int axis) const;
  /// That step.
  int64_t step_along(const Sum& sum, int axis) const;

 private:
  enum class Kind : uint8_t { symbol, axis, product, quotient, remainder, least, most, sign };
  struct Number {
    Kind kind;
    int id = 0;  // of a symbol or an axis
    Sum a, b;    // operands
    bool varies = false;
    AtomRef atom;  // that it stands for, if any
  };

  std::optional<int> number(const AtomRef& atom);
  int add(Number n);

  int lane_axis_;
  std::vector<Number> numbers_;
};

}  // namespace hologram::strips

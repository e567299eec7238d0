// schedule/lower/pieces.cpp: concatenations of what is cut from one tensor.
#include "schedule/lower/pieces.h"

#include <algorithm>
#include <tuple>

namespace hologram::schedule {

using ir::Op;
using ir::Value;

namespace {

constexpr int64_t longest = 1 << 16;  // axis whose places are compared one by one

// Follows an operand to what it is cut from. `line`: its element i is element slope * i + first.
Value source_of(Value v, size_t axis, Piece& line, const std::function<bool(Value)>& is_buffered) {
  auto others = [&](const auto& test) {
    for (size_t k = 0; k < v->shape.size(); ++k)
      if (k != axis && !test(k)) return false;
    return true;
  };
  for (; !is_buffered(v); v = v->input()) {
    const auto& [ints, exprs] = std::tie(v->attrs.ints, v->attrs.exprs);
    if (v->is(Op::slice)) {
      if (!exprs[axis].is_const() || !others([&](size_t k) {
            return exprs[k].is(0) && ints[k] == 1 && v->shape[k] == v->input()->shape[k];
          }))
        return v;
      line.first = ints[axis] * line.first + exprs[axis].constant_value();
      line.slope *= ints[axis];
    } else if (v->is(Op::flip)) {
      if (ints.size() != 1 || static_cast<size_t>(ints[0]) != axis || !v->shape[axis].is_const())
        return v;
      line.first = v->shape[axis].constant_value() - 1 - line.first;
      line.slope = -line.slope;
    } else if (v->is(Op::expand)) {
      if (!v->input()->shape[axis].is(1) ||
          !others([&](size_t k) { return v->shape[k] == v->input()->shape[k]; }))
        return v;
      line.first = line.slope = 0;
    } else {
      return v;
    }
  }
  return v;
}

int64_t element_at(const Piece& line, int64_t i) { return line.slope * i + line.first; }
Expr element_at(const Piece& line, const Expr& i) {
  return Expr(line.slope) * i + Expr(line.first);
}

// By place: where its element is.
std::vector<int64_t> places(const Pieces& pieces) {
  std::vector<int64_t> out;
  for (size_t k = 0; k < pieces.parts.size(); ++k) {
    const int64_t end = k + 1 < pieces.parts.size() ? pieces.parts[k + 1].begin : pieces.size;
    for (int64_t i = pieces.parts[k].begin; i < end; ++i)
      out.push_back(element_at(pieces.parts[k], i));
  }
  return out;
}

}  // namespace

std::optional<Pieces> pieces_of(Value concat, const std::function<bool(Value)>& is_buffered) {
  const auto axis = static_cast<size_t>(concat->attrs.ints[0]);
  Pieces out{nullptr, concat->attrs.ints[0], 0, {}};
  for (Value part : concat->inputs) {
    if (!part->shape[axis].is_const()) return std::nullopt;
    Piece line{out.size, 1, 0};
    Value of = source_of(part, axis, line, is_buffered);
    if (out.of && of != out.of) return std::nullopt;
    out.of = of;
    line.first -= line.slope * out.size;
    out.size += part->shape[axis].constant_value();
    if (out.size > longest) return std::nullopt;
    out.parts.push_back(line);
  }
  return out.of && out.of->shape[axis].is_const() ? std::optional(out) : std::nullopt;
}

namespace {

// The parts as lines that bend where one begins, each the maximum or the minimum of those before
// and the next.
std::optional<Expr> bent(const std::vector<Piece>& parts, const std::vector<int64_t>& wanted,
                         const Expr& i) {
  std::vector<int64_t> now;  // of the parts so far, at all places
  for (size_t k = 0; k < wanted.size(); ++k)
    now.push_back(element_at(parts[0], static_cast<int64_t>(k)));
  Expr place = element_at(parts[0], i);
  for (size_t p = 1; p < parts.size(); ++p) {
    const auto end = p + 1 < parts.size() ? static_cast<size_t>(parts[p + 1].begin) : wanted.size();
    auto bends = [&](auto choose) {
      std::vector<int64_t> next;
      for (size_t k = 0; k < now.size(); ++k) {
        next.push_back(choose(now[k], element_at(parts[p], static_cast<int64_t>(k))));
        if (k < end && next[k] != wanted[k]) return false;
      }
      now = std::move(next);
      return true;
    };
    if (bends([](int64_t a, int64_t b) { return std::max(a, b); }))
      place = max(place, element_at(parts[p], i));
    else if (bends([](int64_t a, int64_t b) { return std::min(a, b); }))
      place = min(place, element_at(parts[p], i));
    else
      return std::nullopt;
  }
  return place;
}

}  // namespace

std::optional<Expr> place_of(const Pieces& pieces, const Expr& i) {
  constexpr size_t most = 4;
  const std::vector<int64_t> wanted = places(pieces);
  if (wanted.empty()) return std::nullopt;
  // Both ends of what goes round are the tensor again.
  const int64_t n = pieces.of->shape[static_cast<size_t>(pieces.axis)].constant_value();
  bool round = n > 0;
  for (size_t k = 0; round && k < wanted.size(); ++k)
    round = wanted[k] == (wanted[0] + static_cast<int64_t>(k)) % n;
  if (round) return mod(i + Expr(wanted[0]), Expr(n));
  if (pieces.parts.size() > most) return std::nullopt;
  // A part of one element has any slope.
  std::vector<Piece> parts = pieces.parts;
  std::function<std::optional<Expr>(size_t)> from = [&](size_t p) -> std::optional<Expr> {
    if (p == parts.size()) return bent(parts, wanted, i);
    const Piece own = parts[p];
    const int64_t end = p + 1 < parts.size() ? parts[p + 1].begin : pieces.size;
    if (end - own.begin != 1) return from(p + 1);
    for (int64_t slope : {0, 1, -1}) {
      parts[p] = {own.begin, slope, element_at(own, own.begin) - slope * own.begin};
      if (auto found = from(p + 1)) return found;
    }
    parts[p] = own;
    return std::nullopt;
  };
  return from(0);
}

}  // namespace hologram::schedule

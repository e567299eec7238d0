// backend/cpu/products/digits_plan.cpp: which products take their left operand as digits.
#include <algorithm>
#include <numeric>

#include "backend/cpu/cost.h"
#include "backend/cpu/operands/runs.h"
#include "backend/cpu/products/digits.h"
#include "backend/cpu/products/panels.h"

namespace hologram::cpu {
namespace {

// The last value of `body`, up to the byte that it is made of.
atlas::Body until_byte(const atlas::Body& body, atlas::ValueId byte) {
  return {{body.instrs.begin(), body.instrs.begin() + static_cast<ptrdiff_t>(byte) + 1}};
}

// A load whose conditions always hold, as they do where a byte decides a value.
atlas::Body without_conditions(atlas::Instr load) {
  load.args[0] = atlas::no_value;
  return {{std::move(load)}};
}

// Where vectors of words are behind the first one, if the words of each lie side by side.
bool find_vectors(const Expr& place, int lane_axis, int lanes, int64_t (&vectors)[4]) {
  auto at = [&](int lane) {
    return place.substitute([&](const Atom& a) -> std::optional<Expr> {
      if (a.kind == Atom::Kind::axis && a.id == lane_axis) return Expr(lane);
      return std::nullopt;
    });
  };
  const Expr first = at(0);
  for (int lane = 0; lane < 4 * lanes; ++lane) {
    const Expr apart = at(lane) - first;
    int64_t& vector = vectors[lane / lanes];
    if (!apart.is_const()) return false;
    if (lane % lanes == 0) vector = apart.constant_value();
    if (apart.constant_value() != vector + int64_t{4} * (lane % lanes)) return false;
  }
  return true;
}

bool same_byte(const atlas::Body& a, const WholeNumber& x, const atlas::Body& b,
               const WholeNumber& y) {
  const atlas::Instr &i = a.instrs[x.byte], &j = b.instrs[y.byte];
  return i.buffer == j.buffer && i.expr == j.expr;
}

// The values that a word has, and what they are of their bytes.
struct Word {
  std::vector<atlas::Body> bodies;
  std::vector<WholeNumber> numbers;
};

// nullopt where they are no whole numbers, or not all of them alike.
std::optional<Word> word_of(const atlas::Program& program, const DigitProduct& plan,
                            const atlas::Body& value, int axis, const Expr& number) {
  Word word;
  for (int i = 0; i < plan.values(); ++i) {
    word.bodies.push_back(nested_axis(value, axis, number, Expr(i), plan.values()));
    auto found = find_whole_number(program, word.bodies.back());
    if (!found) return std::nullopt;
    word.numbers.push_back(*found);
    const WholeNumber& first = word.numbers[0];
    bool alike = found->offset == first.offset && found->flipped == first.flipped;
    if (!alike || plan.halves != (found->part != WholeNumber::all)) return std::nullopt;
  }
  return word;
}

}  // namespace

std::optional<DigitForm> digit_form(const atlas::Program& program, const DigitProduct& plan) {
  const atlas::ProductBlock& b = program.product();
  const int n_axis = b.batch_rank + 1, k_axis = n_axis + 1, inside_axis = k_axis + 5;
  DigitForm form;
  auto blocks = block_axis(b.rhs, n_axis, Expr(plan.n), plan.columns, k_axis + 1);
  form.in_blocks = blocks.has_value();
  form.whole = blocks ? std::move(*blocks) : b.rhs;
  Expr number = Expr::axis(k_axis + 3, Expr((plan.k + plan.segment - 1) / plan.segment)),
       inside = Expr::axis(inside_axis, Expr(plan.segment));
  auto factors =
      take_factors(nested_axis(form.whole, k_axis, number, inside, plan.segment), inside_axis);
  // Numbers without a scale are no weights that were rounded: a selection, say, which is exact.
  if (!factors || factors->scale.instrs.empty()) return std::nullopt;
  form.factors = std::move(*factors);

  const Expr word = Expr::axis(k_axis + 4, Expr(plan.segment / plan.values()));
  auto parts = word_of(program, plan, form.factors.value, inside_axis, word);
  if (auto moved = parts ? std::nullopt : take_point(form.factors, inside_axis)) {
    form.factors = std::move(*moved);
    parts = word_of(program, plan, form.factors.value, inside_axis, word);
  }
  if (!parts) return std::nullopt;
  const auto& [bodies, numbers] = *parts;
  form.number = numbers[0];
  if (plan.pairs && form.number.flipped) form.number.offset -= 128;  // signs are extended
  const int lane_axis = blocks ? k_axis + 2 : n_axis;
  for (int j = 0; j < 4; ++j) {
    const int first = plan.halves ? 2 * j : j;
    const auto at = static_cast<size_t>(first);
    form.until[j] = until_byte(bodies[at], numbers[at].byte);
    const Expr &place = form.until[j].instrs.back().expr, &word = form.until[0].instrs.back().expr;
    if (plan.in_words) {
      if (!(place - word).is(j) || !find_vectors(place, lane_axis, plan.lanes, form.vectors))
        return std::nullopt;
      form.until[j] = without_conditions(form.until[j].instrs.back());
    } else if (auto along = place.linear_in_axis(lane_axis); !along || !along->first.is(1)) {
      return std::nullopt;
    }
    if (!plan.halves) {
      form.places.push_back(first);
      continue;
    }
    if (numbers[at].part == numbers[at + 1].part ||
        !same_byte(bodies[at], numbers[at], bodies[at + 1], numbers[at + 1]))
      return std::nullopt;
    const bool low_first = numbers[at].part == WholeNumber::low;
    form.places.insert(form.places.begin() + j, low_first ? first : first + 1);
    form.places.push_back(low_first ? first + 1 : first);
  }
  const int64_t last[] = {(plan.n - 1) / plan.columns, plan.columns - 1,
                          (plan.k - 1) / plan.segment, (plan.k - 1) % plan.segment / plan.values(),
                          0};
  form.padded = form.in_blocks && std::ranges::all_of(form.until, [&](const atlas::Body& body) {
                  return reads_inside(program, body, last);
                });
  if (plan.in_words && !(form.in_blocks && form.padded)) return std::nullopt;
  return form;
}

std::optional<DigitProduct> plan_digit_product(const atlas::Program& program,
                                               const Target& target) {
  const atlas::ProductBlock& b = program.product();
  auto rank = static_cast<size_t>(b.batch_rank);
  const Expr &m = b.axes[rank].extent, &n = b.axes[rank + 1].extent, &k = b.axes[rank + 2].extent;
  if ((target.isa != Isa::avx512 && target.isa != Isa::avx2) || b.reproducible ||
      b.packed_rhs >= 0 || b.parts > 1 || program.has_tail() || !n.is_const() || !k.is_const() ||
      b.operand_type != DType::f32 || b.rhs_type() != DType::f32 || b.acc_type != DType::f32)
    return std::nullopt;
  DigitProduct p{m, n.constant_value(), k.constant_value()};
  p.lanes = target.vector_bytes / 4;
  p.columns = target.vector_bytes;
  if (m.is(0) || p.n < 1 || p.k < 1) return std::nullopt;
  const Steps steps = steps_of(b.rhs, b.batch_rank + 2);
  p.segment = steps.segment;
  p.in_words = steps.together > 2;
  p.halves = steps.together == (p.in_words ? 8 : 2);
  p.pairs = !target.i8_dots && b.precision > 0;
  p.digits = b.precision == 0 ? 3 : p.pairs ? 1 : 2;
  if (!target.i8_dots && !(p.in_words && word_columns(target, b, p.halves ? 4 : 8)))
    return std::nullopt;
  if (p.segment % p.values() || p.k % p.values() || !digit_form(program, p)) return std::nullopt;

  // Digits of a block of rows stay in the second-level cache.
  int64_t most = std::clamp<int64_t>(256 * 1024 / p.row_bytes(), 2, 64) / 2 * 2;
  p.rows = m.is_const() ? std::min(most, m.constant_value()) : most;
  p.row_blocks = ceil_div(m, Expr(p.rows));
  p.units = p.row_blocks * Expr((p.n + p.columns - 1) / p.columns);
  for (size_t a = 0; a < rank; ++a) p.units = p.units * b.axes[a].extent;
  return p;
}

Launch launch_of(const DigitProduct& p, const atlas::Program&, const Target& target) {
  // Memory gives a core some 32 bytes of weights in a nanosecond; a vector of sums is a dot for
  // each digit of a row's word, or what stands for it.
  const int64_t bytes = p.k * p.columns / (p.halves ? 2 : 1);
  const int each = target.i8_dots ? p.digits : p.pairs ? 6 : 3 * p.digits;
  const int64_t dots = p.k / 4 * p.columns / p.lanes * each * cost::multiply_add;
  Expr rows = min(p.m, Expr(p.rows));
  Expr work = max(rows * Expr(dots), Expr(bytes * 31)) + Expr(cost::unit);
  return {p.units, 1, work};
}

}  // namespace hologram::cpu

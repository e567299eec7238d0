// tests/unit/canon_test.cpp: each rule of the canonical form on an example.
#include "canon/canon.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "ir/scalar.h"
#include "unit/reference.h"

namespace hologram::canon {
namespace {

using ir::Attrs;
using ir::Graph;
using ir::Op;
using ir::Value;
using test::Tensor;

/// Short names for building graphs: parameters of each kind, and operations.
struct B {
  Graph& g;
  Expr n = Expr::symbol(0);
  Shape s = {2, 3};

  Value p(int index, DType t, Shape shape) const {
    Shape strides = contiguous_strides(shape);
    return g.parameter(index, t, std::move(shape), std::move(strides));
  }
  Value x() const { return p(0, DType::f32, s); }
  Value y() const { return p(1, DType::f32, s); }
  Value z() const { return p(2, DType::f32, s); }
  Value i() const { return p(3, DType::i32, s); }
  Value j() const { return p(4, DType::i32, s); }
  Value u() const { return p(5, DType::u8, s); }
  Value a() const { return p(6, DType::b8, s); }
  Value b() const { return p(7, DType::b8, s); }
  Value wide(int index = 8) const { return p(index, DType::f32, {2, n, 4}); }
  Value row() const { return p(9, DType::f32, {1, 3}); }
  Value none() const { return p(12, DType::f32, {0, 3}); }
  Value column() const { return p(10, DType::f32, {4, 1}); }
  Value f(double v) const { return g.number(DType::f32, v, s); }
  Value k(int64_t v) const { return g.integer(DType::i32, v, s); }
  Value t(bool v) const { return g.constant(DType::b8, v, s); }
  Value operator()(Op op, Value v) const { return g.unary(op, v); }
  Value operator()(Op op, Value v, Value w) const { return g.binary(op, v, w); }
  Value neg(Value v) const { return g.unary(Op::neg, v); }
  Value add(Value v, Value w) const { return g.binary(Op::add, v, w); }
  Value sub(Value v, Value w) const { return g.binary(Op::sub, v, w); }
  Value mul(Value v, Value w) const { return g.binary(Op::mul, v, w); }
  Value div(Value v, Value w) const { return g.binary(Op::div, v, w); }
};

using Build = std::function<Value(const B&)>;

struct Row {
  std::string_view rule;
  Build from, to;
  Options options = {};
};

const std::vector<Row>& rows() {
  using enum Op;
  static const std::vector<Row> table = {
      // dimensions of 0
      {"no_elements", [](const B& b) { return b.add(b.none(), b.none()); },
       [](const B& b) {
         return b.g.number(DType::f32, 0, {0, 3});
       }},
      {"reduce_nothing", [](const B& b) { return b.g.reduce(reduce_max, b.none(), {0}); },
       [](const B& b) {
         return b.g.number(DType::f32, -std::numeric_limits<double>::infinity(), {3});
       }},
      {"sum_nothing",
       [](const B& b) {
         return b.g.make(dot_general, {b.p(8, DType::f32, {2, 0}), b.none()});
       },
       [](const B& b) { return b.f(0); }},
      {"attend_nothing",
       [](const B& b) {
         Value k = b.p(8, DType::f32, {1, 0, 4}), q = b.p(9, DType::f32, {1, 2, 4});
         return b.g.make(attention_lse, {q, k, k}, {.ints = {0, 0}});
       },
       [](const B& b) {
         return b.g.number(DType::f32, -std::numeric_limits<double>::infinity(), {1, 2});
       }},
      {"concat_nothing",
       [](const B& b) {
         return b.g.concat({b.none(), b.x(), b.none()}, 0);
       },
       [](const B& b) { return b.x(); }},
      {"pad_nothing",
       [](const B& b) {
         return b.g.pad(b.none(), {1, 0}, b.s, ir::bits_of(DType::f32, 5));
       },
       [](const B& b) { return b.f(5); }},
      {"scatter_nothing",
       [](const B& b) {
         return b.g.make(scatter, {b.x(), b.p(8, DType::i64, {0}), b.none()}, {.ints = {0, 1}});
       },
       [](const B& b) { return b.x(); }},
      // sums
      {"add_same", [](const B& b) { return b.add(b.x(), b.x()); },
       [](const B& b) { return b.mul(b.x(), b.f(2)); }},
      {"add_neg", [](const B& b) { return b.add(b.neg(b.x()), b.y()); },
       [](const B& b) { return b.sub(b.y(), b.x()); }},
      {"sub_neg", [](const B& b) { return b.sub(b.x(), b.neg(b.y())); },
       [](const B& b) { return b.add(b.x(), b.y()); }},
      {"sub_constant", [](const B& b) { return b.sub(b.x(), b.f(3)); },
       [](const B& b) { return b.add(b.x(), b.f(-3)); }},
      {"sub_same", [](const B& b) { return b.sub(b.i(), b.i()); },
       [](const B& b) { return b.k(0); }},
      {"sub_of_neg", [](const B& b) { return b.sub(b.neg(b.i()), b.j()); },
       [](const B& b) { return b.neg(b.add(b.i(), b.j())); }},
      {"neg_sub", [](const B& b) { return b.neg(b.sub(b.i(), b.j())); },
       [](const B& b) { return b.sub(b.j(), b.i()); }},
      {"neg_add_constant", [](const B& b) { return b.neg(b.add(b.i(), b.k(5))); },
       [](const B& b) { return b.sub(b.k(-5), b.i()); }},
      {"add_constants", [](const B& b) { return b.add(b.add(b.i(), b.k(5)), b.k(6)); },
       [](const B& b) { return b.add(b.i(), b.k(11)); }},
      {"sub_constants", [](const B& b) { return b.sub(b.k(5), b.add(b.i(), b.k(6))); },
       [](const B& b) { return b.sub(b.k(-1), b.i()); }},
      // products
      {"mul_minus_one", [](const B& b) { return b.mul(b.x(), b.f(-1)); },
       [](const B& b) { return b.neg(b.x()); }},
      {"mul_neg_neg", [](const B& b) { return b.mul(b.neg(b.x()), b.neg(b.y())); },
       [](const B& b) { return b.mul(b.x(), b.y()); }},
      {"mul_neg_constant", [](const B& b) { return b.mul(b.neg(b.x()), b.f(3)); },
       [](const B& b) { return b.mul(b.x(), b.f(-3)); }},
      {"mul_neg", [](const B& b) { return b.mul(b.x(), b.neg(b.y())); },
       [](const B& b) { return b.neg(b.mul(b.x(), b.y())); }},
      {"neg_mul_constant", [](const B& b) { return b.neg(b.mul(b.x(), b.f(3))); },
       [](const B& b) { return b.mul(b.x(), b.f(-3)); }},
      {"mul_abs_abs", [](const B& b) { return b.mul(b(Op::abs, b.x()), b(Op::abs, b.x())); },
       [](const B& b) { return b.mul(b.x(), b.x()); }},
      {"mul_constants", [](const B& b) { return b.mul(b.mul(b.i(), b.k(5)), b.k(6)); },
       [](const B& b) { return b.mul(b.i(), b.k(30)); }},
      {"mul_zero", [](const B& b) { return b.mul(b.i(), b.k(0)); },
       [](const B& b) { return b.k(0); }},
      {"div_minus_one", [](const B& b) { return b.div(b.i(), b.k(-1)); },
       [](const B& b) { return b.neg(b.i()); }},
      {"div_neg_neg", [](const B& b) { return b.div(b.neg(b.x()), b.neg(b.y())); },
       [](const B& b) { return b.div(b.x(), b.y()); }},
      {"div_neg_constant", [](const B& b) { return b.div(b.neg(b.x()), b.f(3)); },
       [](const B& b) { return b.div(b.x(), b.f(-3)); }},
      {"div_constant_neg", [](const B& b) { return b.div(b.f(3), b.neg(b.x())); },
       [](const B& b) { return b.div(b.f(-3), b.x()); }},
      {"div_neg", [](const B& b) { return b.div(b.neg(b.x()), b.y()); },
       [](const B& b) { return b.neg(b.div(b.x(), b.y())); }},
      {"div_by_neg", [](const B& b) { return b.div(b.x(), b.neg(b.y())); },
       [](const B& b) { return b.neg(b.div(b.x(), b.y())); }},
      {"neg_div_constant", [](const B& b) { return b.neg(b.div(b.x(), b.f(3))); },
       [](const B& b) { return b.div(b.x(), b.f(-3)); }},
      {"neg_constant_div", [](const B& b) { return b.neg(b.div(b.f(3), b.x())); },
       [](const B& b) { return b.div(b.f(-3), b.x()); }},
      {"div_power_of_two", [](const B& b) { return b.div(b.x(), b.f(-8)); },
       [](const B& b) { return b.mul(b.x(), b.f(-0.125)); }},
      {"rem_one", [](const B& b) { return b(Op::rem, b.i(), b.k(1)); },
       [](const B& b) { return b.k(0); }},
      {"rem_neg", [](const B& b) { return b(Op::rem, b.neg(b.x()), b.y()); },
       [](const B& b) { return b.neg(b(Op::rem, b.x(), b.y())); }},
      {"rem_by_neg", [](const B& b) { return b(Op::rem, b.x(), b.neg(b.y())); },
       [](const B& b) { return b(Op::rem, b.x(), b.y()); }},
      {"fma_neg_neg",
       [](const B& b) {
         return b.g.make(fma, {b.neg(b.x()), b.neg(b.y()), b.z()});
       },
       [](const B& b) {
         return b.g.make(fma, {b.x(), b.y(), b.z()});
       }},
      // extrema
      {"min_constants", [](const B& b) { return b(Op::min, b(Op::min, b.x(), b.f(3)), b.f(2)); },
       [](const B& b) { return b(Op::min, b.x(), b.f(2)); }},
      {"max_constants", [](const B& b) { return b(Op::max, b(Op::max, b.x(), b.f(3)), b.f(2)); },
       [](const B& b) { return b(Op::max, b.x(), b.f(3)); }},
      {"min_same", [](const B& b) { return b(Op::min, b(Op::min, b.x(), b.y()), b.y()); },
       [](const B& b) { return b(Op::min, b.x(), b.y()); }},
      {"max_same", [](const B& b) { return b(Op::max, b(Op::max, b.x(), b.y()), b.x()); },
       [](const B& b) { return b(Op::max, b.x(), b.y()); }},
      {"min_absorbs", [](const B& b) { return b(Op::min, b.x(), b(Op::max, b.x(), b.f(2))); },
       [](const B& b) { return b.x(); }},
      {"max_absorbs", [](const B& b) { return b(Op::max, b.i(), b(Op::min, b.i(), b.j())); },
       [](const B& b) { return b.i(); }},
      {"min_zero", [](const B& b) { return b(Op::min, b.u(), b.g.integer(DType::u8, 0, b.s)); },
       [](const B& b) { return b.g.integer(DType::u8, 0, b.s); }},
      {"max_zero", [](const B& b) { return b(Op::max, b.u(), b.g.integer(DType::u8, 255, b.s)); },
       [](const B& b) { return b.g.integer(DType::u8, 255, b.s); }},
      {"minnum_integer", [](const B& b) { return b(minnum, b.i(), b.j()); },
       [](const B& b) { return b(Op::min, b.i(), b.j()); }},
      {"maxnum_integer", [](const B& b) { return b(maxnum, b.i(), b.j()); },
       [](const B& b) { return b(Op::max, b.i(), b.j()); }},
      {"max_neg_same", [](const B& b) { return b(Op::max, b.x(), b.neg(b.x())); },
       [](const B& b) { return b(Op::abs, b.x()); }},
      {"min_neg_same", [](const B& b) { return b(Op::min, b.neg(b.i()), b.i()); },
       [](const B& b) { return b.neg(b(Op::abs, b.i())); }},
      {"max_neg_neg", [](const B& b) { return b(Op::max, b.neg(b.x()), b.neg(b.y())); },
       [](const B& b) { return b.neg(b(Op::min, b.x(), b.y())); }},
      {"min_neg_neg", [](const B& b) { return b(Op::min, b.neg(b.x()), b.neg(b.y())); },
       [](const B& b) { return b.neg(b(Op::max, b.x(), b.y())); }},
      // signs and roundings
      {"abs_neg", [](const B& b) { return b(Op::abs, b.neg(b.x())); },
       [](const B& b) { return b(Op::abs, b.x()); }},
      {"abs_unsigned", [](const B& b) { return b(Op::abs, b.u()); },
       [](const B& b) { return b.u(); }},
      {"abs_positive", [](const B& b) { return b(Op::abs, b(exp, b.x())); },
       [](const B& b) { return b(exp, b.x()); }},
      {"abs_max_positive", [](const B& b) { return b(Op::abs, b(Op::max, b.x(), b.f(0))); },
       [](const B& b) { return b(Op::max, b.x(), b.f(0)); }},
      {"abs_copysign", [](const B& b) { return b(Op::abs, b(copysign, b.x(), b.y())); },
       [](const B& b) { return b(Op::abs, b.x()); }},
      {"copysign_same", [](const B& b) { return b(copysign, b.x(), b.x()); },
       [](const B& b) { return b.x(); }},
      {"copysign_neg", [](const B& b) { return b(copysign, b.neg(b.x()), b.y()); },
       [](const B& b) { return b(copysign, b.x(), b.y()); }},
      {"copysign_abs", [](const B& b) { return b(copysign, b(Op::abs, b.x()), b.y()); },
       [](const B& b) { return b(copysign, b.x(), b.y()); }},
      {"floor_neg", [](const B& b) { return b(floor, b.neg(b.x())); },
       [](const B& b) { return b.neg(b(ceil, b.x())); }},
      {"ceil_neg", [](const B& b) { return b(ceil, b.neg(b.x())); },
       [](const B& b) { return b.neg(b(floor, b.x())); }},
      {"trunc_neg", [](const B& b) { return b(trunc, b.neg(b.x())); },
       [](const B& b) { return b.neg(b(trunc, b.x())); }},
      {"round_neg", [](const B& b) { return b(round, b.neg(b.x())); },
       [](const B& b) { return b.neg(b(round, b.x())); }},
      {"round_rounded", [](const B& b) { return b(floor, b(round, b.x())); },
       [](const B& b) { return b(round, b.x()); }},
      {"round_integer", [](const B& b) { return b(floor, b.g.cast(b.i(), DType::f32)); },
       [](const B& b) { return b.g.cast(b.i(), DType::f32); }},
      // selections
      {"select_true_false", [](const B& b) { return b.g.select(b.a(), b.k(1), b.k(0)); },
       [](const B& b) { return b.g.cast(b.a(), DType::i32); }},
      {"select_false_true", [](const B& b) { return b.g.select(b.a(), b.t(false), b.t(true)); },
       [](const B& b) { return b(bit_not, b.a()); }},
      {"select_not", [](const B& b) { return b.g.select(b(bit_not, b.a()), b.x(), b.y()); },
       [](const B& b) { return b.g.select(b.a(), b.y(), b.x()); }},
      {"select_again",
       [](const B& b) { return b.g.select(b.a(), b.x(), b.g.select(b.a(), b.z(), b.y())); },
       [](const B& b) { return b.g.select(b.a(), b.x(), b.y()); }},
      {"select_or", [](const B& b) { return b.g.select(b.a(), b.t(true), b.b()); },
       [](const B& b) { return b(bit_or, b.a(), b.b()); }},
      {"select_and", [](const B& b) { return b.g.select(b.a(), b.b(), b.a()); },
       [](const B& b) { return b(bit_and, b.a(), b.b()); }},
      {"select_positive",
       [](const B& b) { return b.g.select(b(lt, b.f(0), b.x()), b.x(), b.f(0)); },
       [](const B& b) { return b(maxnum, b.x(), b.f(0)); }},
      // comparisons
      {"lt_same", [](const B& b) { return b(lt, b.x(), b.x()); },
       [](const B& b) { return b.t(false); }},
      {"le_same", [](const B& b) { return b(le, b.i(), b.i()); },
       [](const B& b) { return b.t(true); }},
      {"eq_same", [](const B& b) { return b(eq, b.i(), b.i()); },
       [](const B& b) { return b.t(true); }},
      {"ne_same", [](const B& b) { return b(ne, b.i(), b.i()); },
       [](const B& b) { return b.t(false); }},
      {"not_eq", [](const B& b) { return b(bit_not, b(eq, b.x(), b.y())); },
       [](const B& b) { return b(ne, b.x(), b.y()); }},
      {"not_ne", [](const B& b) { return b(bit_not, b(ne, b.x(), b.y())); },
       [](const B& b) { return b(eq, b.x(), b.y()); }},
      {"not_lt", [](const B& b) { return b(bit_not, b(lt, b.i(), b.j())); },
       [](const B& b) { return b(le, b.j(), b.i()); }},
      {"not_le", [](const B& b) { return b(bit_not, b(le, b.i(), b.j())); },
       [](const B& b) { return b(lt, b.j(), b.i()); }},
      {"eq_true", [](const B& b) { return b(eq, b.a(), b.t(true)); },
       [](const B& b) { return b.a(); }},
      {"eq_false", [](const B& b) { return b(eq, b.a(), b.t(false)); },
       [](const B& b) { return b(bit_not, b.a()); }},
      {"ne_true", [](const B& b) { return b(ne, b.a(), b.t(true)); },
       [](const B& b) { return b(bit_not, b.a()); }},
      {"ne_false", [](const B& b) { return b(ne, b.a(), b.t(false)); },
       [](const B& b) { return b.a(); }},
      {"ne_truth", [](const B& b) { return b(ne, b.a(), b.b()); },
       [](const B& b) { return b(bit_xor, b.a(), b.b()); }},
      {"eq_cast_truth", [](const B& b) { return b(eq, b.g.cast(b.a(), DType::i32), b.k(0)); },
       [](const B& b) { return b(bit_not, b.a()); }},
      {"ne_cast_truth", [](const B& b) { return b(ne, b.g.cast(b.a(), DType::f32), b.f(0)); },
       [](const B& b) { return b.a(); }},
      {"lt_cast_truth", [](const B& b) { return b(lt, b.f(0), b.g.cast(b.a(), DType::f32)); },
       [](const B& b) { return b.a(); }},
      {"ne_zero", [](const B& b) { return b(ne, b.x(), b.f(0)); },
       [](const B& b) { return b.g.cast(b.x(), DType::b8); }},
      {"cast_neg_to_truth", [](const B& b) { return b.g.cast(b.neg(b.x()), DType::b8); },
       [](const B& b) { return b.g.cast(b.x(), DType::b8); }},
      {"lt_neg_neg", [](const B& b) { return b(lt, b.neg(b.x()), b.neg(b.y())); },
       [](const B& b) { return b(lt, b.y(), b.x()); }},
      {"le_neg_neg", [](const B& b) { return b(le, b.neg(b.x()), b.neg(b.y())); },
       [](const B& b) { return b(le, b.y(), b.x()); }},
      {"lt_neg", [](const B& b) { return b(lt, b.neg(b.x()), b.f(2)); },
       [](const B& b) { return b(lt, b.f(-2), b.x()); }},
      {"le_neg", [](const B& b) { return b(le, b.neg(b.x()), b.f(2)); },
       [](const B& b) { return b(le, b.f(-2), b.x()); }},
      {"lt_constant_neg", [](const B& b) { return b(lt, b.f(2), b.neg(b.x())); },
       [](const B& b) { return b(lt, b.x(), b.f(-2)); }},
      {"le_constant_neg", [](const B& b) { return b(le, b.f(2), b.neg(b.x())); },
       [](const B& b) { return b(le, b.x(), b.f(-2)); }},
      {"eq_neg_neg", [](const B& b) { return b(eq, b.neg(b.i()), b.neg(b.j())); },
       [](const B& b) { return b(eq, b.i(), b.j()); }},
      {"ne_neg_neg", [](const B& b) { return b(ne, b.neg(b.x()), b.neg(b.y())); },
       [](const B& b) { return b(ne, b.x(), b.y()); }},
      {"eq_neg", [](const B& b) { return b(eq, b.neg(b.x()), b.f(2)); },
       [](const B& b) { return b(eq, b.x(), b.f(-2)); }},
      {"ne_neg", [](const B& b) { return b(ne, b.neg(b.x()), b.f(2)); },
       [](const B& b) { return b(ne, b.x(), b.f(-2)); }},
      {"lt_unsigned_zero", [](const B& b) { return b(lt, b.u(), b.g.integer(DType::u8, 0, b.s)); },
       [](const B& b) { return b.t(false); }},
      {"le_unsigned_zero", [](const B& b) { return b(le, b.g.integer(DType::u8, 0, b.s), b.u()); },
       [](const B& b) { return b.t(true); }},
      {"compare_ranges",
       [](const B& b) {
         Value i = b.g.iota(DType::i64, {b.n, 3}, 0);
         return b(le, b.g.integer(DType::i64, 0, {b.n, 3}), i);
       },
       [](const B& b) {
         return b.g.constant(DType::b8, 1, {b.n, 3});
       }},
      {"compare_ranges",  // [3, 5] and 2; [3, 5] and [2, 4], which overlap
       [](const B& b) {
         Value i = b.g.iota(DType::i32, {2, 3}, 1), far = b.add(i, b.k(3)), near = b.add(i, b.k(2));
         return b(bit_or, b(eq, far, b.k(2)), b(eq, far, b.g.flip(near, {1})));
       },
       [](const B& b) {
         Value i = b.g.iota(DType::i32, {2, 3}, 1), far = b.add(i, b.k(3)), near = b.add(i, b.k(2));
         return b(eq, far, b.g.flip(near, {1}));
       }},
      // bits
      {"truth_or", [](const B& b) { return b.add(b.a(), b.b()); },
       [](const B& b) { return b(bit_or, b.a(), b.b()); }},
      {"truth_and", [](const B& b) { return b.mul(b.a(), b.b()); },
       [](const B& b) { return b(bit_and, b.a(), b.b()); }},
      {"xor_true", [](const B& b) { return b(bit_xor, b.a(), b.t(true)); },
       [](const B& b) { return b(bit_not, b.a()); }},
      {"xor_same", [](const B& b) { return b(bit_xor, b.i(), b.i()); },
       [](const B& b) { return b.k(0); }},
      {"and_not", [](const B& b) { return b(bit_and, b.i(), b(bit_not, b.i())); },
       [](const B& b) { return b.k(0); }},
      {"or_not", [](const B& b) { return b(bit_or, b(bit_not, b.i()), b.i()); },
       [](const B& b) { return b.k(-1); }},
      {"and_absorbs", [](const B& b) { return b(bit_and, b.i(), b(bit_or, b.i(), b.j())); },
       [](const B& b) { return b.i(); }},
      {"or_absorbs", [](const B& b) { return b(bit_or, b.a(), b(bit_and, b.b(), b.a())); },
       [](const B& b) { return b.a(); }},
      {"and_same", [](const B& b) { return b(bit_and, b(bit_and, b.i(), b.j()), b.j()); },
       [](const B& b) { return b(bit_and, b.i(), b.j()); }},
      {"or_same", [](const B& b) { return b(bit_or, b(bit_or, b.i(), b.j()), b.i()); },
       [](const B& b) { return b(bit_or, b.i(), b.j()); }},
      {"xor_again", [](const B& b) { return b(bit_xor, b(bit_xor, b.i(), b.j()), b.i()); },
       [](const B& b) { return b.j(); }},
      {"and_constants", [](const B& b) { return b(bit_and, b(bit_and, b.i(), b.k(6)), b.k(3)); },
       [](const B& b) { return b(bit_and, b.i(), b.k(2)); }},
      {"or_constants", [](const B& b) { return b(bit_or, b(bit_or, b.i(), b.k(6)), b.k(3)); },
       [](const B& b) { return b(bit_or, b.i(), b.k(7)); }},
      {"xor_constants", [](const B& b) { return b(bit_xor, b(bit_xor, b.i(), b.k(6)), b.k(3)); },
       [](const B& b) { return b(bit_xor, b.i(), b.k(5)); }},
      {"and_zero", [](const B& b) { return b(bit_and, b.i(), b.k(0)); },
       [](const B& b) { return b.k(0); }},
      {"or_ones", [](const B& b) { return b(bit_or, b.a(), b.t(true)); },
       [](const B& b) { return b.t(true); }},
      // conversions
      {"cast_cast", [](const B& b) { return b.g.cast(b.g.cast(b.x(), DType::f64), DType::bf16); },
       [](const B& b) { return b.g.cast(b.x(), DType::bf16); }},
      {"cast_back",
       [](const B& b) { return b.g.cast(b.g.cast(b.x(), DType::bf16), DType::f32); },
       [](const B& b) { return b.x(); },
       {.fast = true}},
      {"bitcast_bitcast",
       [](const B& b) {
         return b.g.cast(b.g.cast(b.x(), DType::i32, bitcast), DType::u32, bitcast);
       },
       [](const B& b) { return b.g.cast(b.x(), DType::u32, bitcast); }},
      {"cast_iota", [](const B& b) { return b.g.cast(b.g.iota(DType::i64, {b.n}, 0), DType::f32); },
       [](const B& b) { return b.g.iota(DType::f32, {b.n}, 0); }},
      // movement
      {"reshape_reshape",
       [](const B& b) {
         return b.g.reshape(b.g.reshape(b.wide(), {b.n, 8}), {4, 2, b.n});
       },
       [](const B& b) {
         return b.g.reshape(b.wide(), {4, 2, b.n});
       }},
      {"permute_permute",
       [](const B& b) {
         return b.g.permute(b.g.permute(b.wide(), {1, 2, 0}), {1, 2, 0});
       },
       [](const B& b) {
         return b.g.permute(b.wide(), {2, 0, 1});
       }},
      {"expand_expand",
       [](const B& b) {
         return b.g.expand(b.g.expand(b.p(14, DType::f32, {1, 1}), {1, 4}), {b.n, 4});
       },
       [](const B& b) {
         return b.g.expand(b.p(14, DType::f32, {1, 1}), {b.n, 4});
       }},
      {"flip_flip",
       [](const B& b) {
         return b.g.flip(b.g.flip(b.x(), {0, 1}), {1});
       },
       [](const B& b) { return b.g.flip(b.x(), {0}); }},
      {"pad_pad",
       [](const B& b) {
         return b.g.pad(b.g.pad(b.x(), {1, 0}, {4, 3}, 0), {0, 2}, {4, 6}, 0);
       },
       [](const B& b) {
         return b.g.pad(b.x(), {1, 2}, {4, 6}, 0);
       }},
      {"permute_ones",
       [](const B& b) {
         return b.g.permute(b.row(), {1, 0});
       },
       [](const B& b) {
         return b.g.reshape(b.row(), {3, 1});
       }},
      {"reshape_expand",
       [](const B& b) {
         return b.g.reshape(b.g.expand(b.row(), {b.n, 3}), {b.n, 1, 3});
       },
       [](const B& b) {
         return b.g.expand(b.g.reshape(b.row(), {1, 1, 3}), {b.n, 1, 3});
       }},
      {"permute_expand",
       [](const B& b) {
         return b.g.permute(b.g.expand(b.row(), {b.n, 3}), {1, 0});
       },
       [](const B& b) {
         return b.g.expand(b.g.reshape(b.row(), {3, 1}), {3, b.n});
       }},
      {"reshape_permute",
       [](const B& b) {
         return b.g.reshape(b.g.permute(b.x(), {1, 0}), {3, 1, 2});
       },
       [](const B& b) {
         return b.g.permute(b.g.reshape(b.x(), {2, 3, 1}), {1, 2, 0});
       }},
      {"neg_outwards",
       [](const B& b) {
         return b.g.permute(b.neg(b.x()), {1, 0});
       },
       [](const B& b) {
         return b.neg(b.g.permute(b.x(), {1, 0}));
       }},
      {"movement_outwards",
       [](const B& b) {
         return b(exp, b.g.expand(b.row(), {b.n, 3}));
       },
       [](const B& b) {
         return b.g.expand(b(exp, b.row()), {b.n, 3});
       }},
      // slices
      {"slice_slice",
       [](const B& b) {
         return b.g.slice(b.g.slice(b.p(15, DType::f32, {20}), {2}, {9}, {2}), {1}, {3}, {3});
       },
       [](const B& b) { return b.g.slice(b.p(15, DType::f32, {20}), {4}, {3}, {6}); }},
      {"slice_expand",
       [](const B& b) {
         return b.g.slice(b.g.expand(b.row(), {b.n, 3}), {0, 1}, {1, 2}, {});
       },
       [](const B& b) {
         return b.g.slice(b.row(), {0, 1}, {1, 2}, {});
       }},
      {"slice_permute",
       [](const B& b) {
         return b.g.slice(b.g.permute(b.x(), {1, 0}), {1, 0}, {2, 2}, {});
       },
       [](const B& b) {
         return b.g.permute(b.g.slice(b.x(), {0, 1}, {2, 2}, {}), {1, 0});
       }},
      {"slice_reshape",
       [](const B& b) {
         return b.g.slice(b.g.reshape(b.x(), {2, 1, 3}), {0, 0, 1}, {2, 1, 2}, {});
       },
       [](const B& b) {
         return b.g.reshape(b.g.slice(b.x(), {0, 1}, {2, 2}, {}), {2, 1, 2});
       }},
      {"slice_concat",
       [](const B& b) {
         return b.g.slice(b.g.concat({b.x(), b.y()}, 0), {2, 0}, {2, 2}, {});
       },
       [](const B& b) {
         return b.g.slice(b.y(), {0, 0}, {2, 2}, {});
       }},
      {"slice_pad",
       [](const B& b) {
         return b.g.slice(b.g.pad(b.x(), {1, 1}, {4, 5}, 0), {1, 2}, {2, 2}, {});
       },
       [](const B& b) {
         return b.g.slice(b.x(), {0, 1}, {2, 2}, {});
       }},
      {"slice_iota",
       [](const B& b) {
         return b.g.slice(b.g.iota(DType::i64, {9, 2}, 0), {0, 1}, {4, 1}, {});
       },
       [](const B& b) {
         return b.g.iota(DType::i64, {4, 1}, 0);
       }},
      {"pad_to_slice",
       [](const B& b) {
         return b.g.pad(b.x(), {0, -1}, {2, 2}, 0);
       },
       [](const B& b) {
         return b.g.slice(b.x(), {0, 1}, {2, 2}, {});
       }},
      // reductions
      {"reduce_ones", [](const B& b) { return b.g.reduce(reduce_sum, b.row(), {0}); },
       [](const B& b) {
         return b.g.reshape(b.add(b.row(), b.g.number(DType::f32, 0, {1, 3})), {3});
       }},
      {"reduce_expand",
       [](const B& b) {
         return b.g.reduce(reduce_sum, b.g.expand(b.row(), {b.n, 3}), {1});
       },
       [](const B& b) { return b.g.expand(b.g.reduce(reduce_sum, b.row(), {1}), {b.n}); }},
      {"reduce_permute",
       [](const B& b) {
         return b.g.reduce(reduce_sum, b.g.permute(b.wide(), {2, 0, 1}), {1});
       },
       [](const B& b) {
         return b.g.permute(b.g.reduce(reduce_sum, b.wide(), {0}), {1, 0});
       }},
      {"reduce_reshape",
       [](const B& b) {
         return b.g.reduce(reduce_sum, b.g.reshape(b.x(), {2, 1, 3}), {2});
       },
       [](const B& b) {
         return b.g.reshape(b.g.reduce(reduce_sum, b.x(), {1}), {2, 1});
       }},
      {"reduce_constant",
       [](const B& b) {
         return b.g.reduce(reduce_sum, b.k(7), {0, 1});
       },
       [](const B& b) { return b.g.integer(DType::i32, 42); }},
      {"reduce_reduce",
       [](const B& b) {
         return b.g.reduce(reduce_max, b.g.reduce(reduce_max, b.wide(), {1}), {1});
       },
       [](const B& b) {
         return b.g.reduce(reduce_max, b.wide(), {1, 2});
       }},
      {"reduce_neg", [](const B& b) { return b.g.reduce(reduce_max, b.neg(b.x()), {1}); },
       [](const B& b) { return b.neg(b.g.reduce(reduce_min, b.x(), {1})); }},
      {"scan_one", [](const B& b) { return b.g.make(cummax, {b.row()}, {.ints = {0}}); },
       [](const B& b) { return b.row(); }},
      // concat, take, scatter, products
      {"concat_concat",
       [](const B& b) {
         return b.g.concat({b.g.concat({b.x(), b.y()}, 0), b.z()}, 0);
       },
       [](const B& b) {
         return b.g.concat({b.x(), b.y(), b.z()}, 0);
       }},
      {"concat_slices",
       [](const B& b) {
         Value left = b.g.slice(b.x(), {0, 0}, {2, 1}, {}),
               right = b.g.slice(b.x(), {0, 1}, {2, 2}, {});
         return b.g.concat({left, right}, 1);
       },
       [](const B& b) { return b.x(); }},
      {"take_iota",
       [](const B& b) {
         return b.g.make(take, {b.wide(), b.g.iota(DType::i64, {3}, 0)}, {.ints = {2}});
       },
       [](const B& b) {
         return b.g.slice(b.wide(), {0, 0, 0}, {2, b.n, 3}, {});
       }},
      {"take_constant",
       [](const B& b) {
         return b.g.make(take, {b.wide(), b.g.integer(DType::i64, -1)}, {.ints = {1}});
       },
       [](const B& b) {
         return b.g.reshape(b.g.slice(b.wide(), {0, b.n - Expr(1), 0}, {2, 1, 4}, {}), {2, 4});
       }},
      {"scatter_scatter",
       [](const B& b) {
         Value at = b.p(11, DType::i64, {2});
         return b.g.make(scatter,
                         {b.g.make(scatter, {b.x(), at, b.y()}, {.ints = {0, 1}}), at, b.z()},
                         {.ints = {0, 0}});
       },
       [](const B& b) {
         return b.g.make(scatter, {b.x(), b.p(11, DType::i64, {2}), b.z()}, {.ints = {0, 0}});
       }},
      {"scatter_iota",
       [](const B& b) {
         return b.g.make(scatter, {b.x(), b.g.iota(DType::i64, {3}, 0), b.y()}, {.ints = {1, 0}});
       },
       [](const B& b) { return b.y(); }},
      {"dot_bytes",
       [](const B& b) {
         Value l = b.p(12, DType::u8, {3, 5}), r = b.p(13, DType::i8, {5, 4});
         return b.g.make(dot_general, {b.g.cast(l, DType::i32), b.g.cast(r, DType::i32)});
       },
       [](const B& b) {
         return b.g.make(dot_general, {b.p(12, DType::u8, {3, 5}), b.p(13, DType::i8, {5, 4})}, {},
                         DType::i32);
       }},
      {"dot_transposed",
       [](const B& b) {
         Value l = b.p(12, DType::f32, {3, 5}), r = b.p(13, DType::f32, {4, 3});
         return b.g.permute(b.g.make(dot_general, {b.g.permute(l, {1, 0}), b.g.permute(r, {1, 0})}),
                            {1, 0});
       },
       [](const B& b) {
         return b.g.make(dot_general, {b.p(13, DType::f32, {4, 3}), b.p(12, DType::f32, {3, 5})});
       }},
      {"attention_grouped",
       [](const B& b) {
         Value q = b.p(16, DType::f32, {2, 6, b.n, 8});
         auto repeated = [&](int i) {
           Value five = b.g.reshape(b.p(i, DType::f32, {2, 3, 4, 8}), {2, 3, 1, 4, 8});
           return b.g.reshape(b.g.expand(five, {2, 3, 2, 4, 8}), {2, 6, 4, 8});
         };
         return b.g.make(attention, {q, repeated(17), repeated(18)}, {.ints = {1}});
       },
       [](const B& b) {
         Value q = b.p(16, DType::f32, {2, 6, b.n, 8});
         Value k = b.p(17, DType::f32, {2, 3, 4, 8}), v = b.p(18, DType::f32, {2, 3, 4, 8});
         return b.g.make(attention, {q, k, v}, {.ints = {1}});
       }},
      {"attention_grouped",
       [](const B& b) {
         Value q = b.p(16, DType::f32, {6, b.n, 8});
         auto repeated = [&](int i) {
           return b.g.expand(b.p(i, DType::f32, {1, 4, 8}), {6, 4, 8});
         };
         return b.g.make(attention, {q, repeated(17), repeated(18)});
       },
       [](const B& b) {
         Value q = b.p(16, DType::f32, {6, b.n, 8});
         Value k = b.p(17, DType::f32, {1, 4, 8}), v = b.p(18, DType::f32, {1, 4, 8});
         return b.g.make(attention, {q, k, v});
       }},
      {"attention_bias",
       [](const B& b) {
         Value q = b.p(16, DType::f32, {2, 6, 5, 8}), k = b.p(17, DType::f32, {2, 6, 4, 8});
         Value bias = b.g.expand(b.p(18, DType::b8, {2, 1, 1, 4}), {2, 6, 5, 4});
         return b.g.make(attention, {q, k, k, bias});
       },
       [](const B& b) {
         Value q = b.p(16, DType::f32, {2, 6, 5, 8}), k = b.p(17, DType::f32, {2, 6, 4, 8});
         return b.g.make(attention, {q, k, k, b.p(18, DType::b8, {2, 1, 1, 4})});
       }},
      // functions
      {"sigmoid", [](const B& b) { return b.div(b.f(1), b.add(b.f(1), b(exp, b.neg(b.x())))); },
       [](const B& b) { return b(sigmoid, b.x()); }},
      {"one_minus_sigmoid", [](const B& b) { return b.sub(b.f(1), b(sigmoid, b.x())); },
       [](const B& b) { return b(sigmoid, b.neg(b.x())); }},
      {"erfc", [](const B& b) { return b.sub(b.f(1), b(erf, b.x())); },
       [](const B& b) { return b(erfc, b.x()); }},
      {"erf", [](const B& b) { return b.sub(b.f(1), b(erfc, b.x())); },
       [](const B& b) { return b(erf, b.x()); }},
      {"expm1", [](const B& b) { return b.sub(b(exp, b.x()), b.f(1)); },
       [](const B& b) { return b(expm1, b.x()); }},
      {"log1p", [](const B& b) { return b(log, b.add(b.f(1), b.x())); },
       [](const B& b) { return b(log1p, b.x()); }},
      {"rsqrt", [](const B& b) { return b.div(b.f(1), b(sqrt, b.x())); },
       [](const B& b) { return b(rsqrt, b.x()); }},
      {"exp2", [](const B& b) { return b(pow, b.f(2), b.x()); },
       [](const B& b) { return b(exp2, b.x()); }},
      {"gelu",
       [](const B& b) {
         return b.mul(b.mul(b.f(0.5), b.x()),
                      b.add(b.f(1), b(erf, b.div(b.x(), b.f(1.4142135623730951)))));
       },
       [](const B& b) { return b(gelu, b.x()); }},
      {"pow_zero", [](const B& b) { return b(pow, b.x(), b.f(0)); },
       [](const B& b) { return b.f(1); }},
      {"pow_one", [](const B& b) { return b(pow, b.x(), b.f(1)); },
       [](const B& b) { return b.x(); }},
      {"pow_two", [](const B& b) { return b(pow, b.x(), b.f(2)); },
       [](const B& b) { return b.mul(b.x(), b.x()); }},
      {"pow_three", [](const B& b) { return b(pow, b.x(), b.f(3)); },
       [](const B& b) { return b.mul(b.x(), b.mul(b.x(), b.x())); }},
      {"pow_minus_one", [](const B& b) { return b(pow, b.x(), b.f(-1)); },
       [](const B& b) { return b.div(b.f(1), b.x()); }},
      {"pow_minus_two", [](const B& b) { return b(pow, b.x(), b.f(-2)); },
       [](const B& b) { return b.div(b.f(1), b.mul(b.x(), b.x())); }},
      {"pow_of_one", [](const B& b) { return b(pow, b.f(1), b.x()); },
       [](const B& b) { return b.f(1); }},
      {"odd_function", [](const B& b) { return b(tanh, b.neg(b.x())); },
       [](const B& b) { return b.neg(b(tanh, b.x())); }},
      {"even_function", [](const B& b) { return b(cos, b.neg(b.x())); },
       [](const B& b) { return b(cos, b.x()); }},
      {"atan2_neg", [](const B& b) { return b(atan2, b.neg(b.y()), b.x()); },
       [](const B& b) { return b.neg(b(atan2, b.y(), b.x())); }},
  };
  return table;
}

/// The operands of commutative operations stand in creation order: parameters come first, always in
/// the same order.
B with_parameters(Graph& g) {
  B b{g};
  b.x(), b.y(), b.z(), b.i(), b.j(), b.u(), b.a(), b.b();
  return b;
}

void finish(Graph& g, Value v) { g.outputs.push_back({v, contiguous_strides(v->shape)}); }

Report canonical(const Build& build, Graph& out, const Options& options = {}) {
  Graph in;
  finish(in, build(with_parameters(in)));
  Report report;
  canonicalize(in, out, report, options);
  verify(out);
  EXPECT_TRUE(report.refused.empty());
  return report;
}

TEST(Canon, EachRuleOnAnExample) {
  for (const Row& row : rows()) {
    Graph got, want;
    Report report = canonical(row.from, got, row.options);
    finish(want, row.to(with_parameters(want)));
    EXPECT_TRUE(report.fired.contains(row.rule)) << row.rule << " did not fire:\n" << print(got);
    EXPECT_EQ(fingerprint(got), fingerprint(want)) << row.rule << " gave\n"
                                                   << print(got) << "expected\n"
                                                   << print(want);
  }
}

TEST(Canon, NoRuleIsUntested) {
  std::set<std::string_view> tested;
  for (const Row& row : rows()) tested.insert(row.rule);
  for (std::string_view name : rule_names()) EXPECT_TRUE(tested.contains(name)) << name;
}

// Value-equality of the examples, the functions included, on points that are not special.
TEST(Canon, ExamplesKeepTheirValues) {
  std::vector<int64_t> symbols = {3};
  for (const Row& row : rows()) {
    Graph in, out;
    finish(in, row.from(with_parameters(in)));
    Report report;
    canonicalize(in, out, report, row.options);
    std::map<int, Tensor> data;
    for (const ir::Node& node : in.nodes()) {
      if (!node.is(Op::parameter)) continue;
      int index = static_cast<int>(node.attrs.ints[0]);
      std::vector<int64_t> shape;
      for (const Expr& d : node.shape) shape.push_back(d.eval(symbols));
      Tensor t = test::filled(node.dtype, shape, 0);
      for (size_t i = 0; i < t.size(); ++i)
        t.bits[i] =
            is_float(node.dtype)
                ? ir::bits_of(node.dtype, 0.3 + 0.37 * static_cast<double>(i) - index % 2)
                : ir::bits_of_integer(node.dtype, static_cast<int64_t>(i + 1) % 3 - (index == 11));
      if (index == 11) t.bits = {0, 1};
      data.emplace(index, t);
    }
    Tensor a = evaluate(in, data, symbols)[0], b = evaluate(out, data, symbols)[0];
    double tolerance = row.options.fast ? 1e-2 : 3e-7;
    EXPECT_TRUE(test::close(a, b, tolerance))
        << row.rule << ": " << text(a) << " became " << text(b);
  }
}

// What looks like a rule and is not one.
TEST(Canon, UnsoundRulesAreAbsent) {
  using enum Op;
  const Build keep[] = {
      [](const B& b) { return b.add(b.x(), b.f(0)); },
      [](const B& b) { return b.mul(b.x(), b.f(0)); },
      [](const B& b) { return b.sub(b.x(), b.x()); },
      [](const B& b) { return b.div(b.x(), b.x()); },
      [](const B& b) { return b.neg(b.sub(b.x(), b.y())); },
      [](const B& b) { return b.add(b.add(b.x(), b.f(1)), b.f(2)); },
      [](const B& b) { return b(eq, b.x(), b.x()); },
      [](const B& b) { return b(bit_not, b(lt, b.x(), b.y())); },
      [](const B& b) { return b(Op::min, b.x(), b(Op::max, b.x(), b.y())); },
      [](const B& b) { return b.div(b.x(), b.f(3)); },
      [](const B& b) { return b.g.cast(b.g.cast(b.x(), DType::bf16), DType::f32); },
      [](const B& b) { return b.g.cast(b.g.cast(b.i(), DType::f64), DType::i8); },
      [](const B& b) { return b(pow, b.x(), b.f(0.5)); },
      [](const B& b) { return b.g.reduce(reduce_sum, b.g.reduce(reduce_sum, b.x(), {1}), {0}); },
      [](const B& b) {
        return b.g.reduce(reduce_sum, b.g.permute(b.x(), {1, 0}), {0, 1});
      },
      [](const B& b) {
        return b.g.pad(b.g.pad(b.x(), {-1, 0}, {1, 3}, 0), {1, 0}, {2, 3}, 0);
      },
      [](const B& b) {
        return b.g.make(take, {b.x(), b.g.integer(DType::i64, 5)}, {.ints = {0}});
      },
      [](const B& b) { return b.div(b.i(), b.k(0)); },
  };
  for (const Build& build : keep) {
    Graph in, out;
    finish(in, build(with_parameters(in)));
    Report report;
    canonicalize(in, out, report);
    std::string fired = report.fired.empty() ? "" : report.fired.begin()->first;
    bool only_slices = fired == "pad_to_slice";
    EXPECT_TRUE(report.fired.empty() || only_slices) << fired << " fired on\n" << print(in);
  }
}

TEST(Canon, DeadNodesAndUnusedParametersGo) {
  Graph in, out;
  B b{in};
  b(Op::exp, b.y());
  finish(in, b.neg(b.x()));
  Report report;
  canonicalize(in, out, report);
  EXPECT_EQ(out.nodes().size(), 2u);
  EXPECT_EQ(out.num_parameters, 2) << "indices of parameters keep their meaning";
  EXPECT_EQ(report.nodes_before, 1u);
  EXPECT_EQ(report.nodes_after, 1u);
  EXPECT_EQ(report.passes, (std::vector<std::string_view>{"rewrite", "sweep"}));
}

TEST(Canon, OutputsIntoParametersStay) {
  Graph in, out;
  B b{in};
  Value y = b.y();
  in.outputs.push_back({b.add(b.x(), b.neg(b.z())), {}, 1});
  (void)y;
  Report report;
  canonicalize(in, out, report);
  verify(out);
  EXPECT_EQ(out.outputs.at(0).parameter, 1);
  EXPECT_TRUE(out.outputs[0].value->is(Op::sub));
}

TEST(Canon, LongChainsNeitherOverflowNorCrawl) {
  Graph in, out;
  B b{in};
  Value v = b.x();
  for (int i = 0; i < 20000; ++i) v = b(i % 2 ? Op::exp : Op::tanh, b.g.permute(v, {1, 0}));
  finish(in, v);
  Report report;
  canonicalize(in, out, report);
  EXPECT_EQ(report.nodes_after, 20000u) << "all permutations cancel";
}

}  // namespace
}  // namespace hologram::canon

// tests/unit/canon_test.cpp: each rule of the canonical form on an example.
#include "canon/canon.h"

#include "base/error.h"
#include "ir/scalar.h"
#include "support/test.h"
#include "unit/reference.h"

namespace hologram::canon {
namespace {

using ir::Graph;
using ir::Op;
using ir::Value;
using test::Tensor;

/// Builds graphs from terms: `add(neg(x), f(2))`. Any operation takes its operands and then its integers in braces, its dtype behind a
/// colon; sizes are expressions. `f`, `k` and `t` are constants, `p(number, dtype, sizes)` parameters, and what is used twice has a name:
/// `a = exp(x); mul(a, a)`.
class Terms {
 public:
  explicit Terms(Graph& graph) : g_(graph) {
    const Shape s = {2, 3};  // commutative operands stand in the order in which they are made: these first
    for (auto [name, index, type, shape] :
         {Leaf{"x", 0, DType::f32, s}, Leaf{"y", 1, DType::f32, s}, Leaf{"z", 2, DType::f32, s}, Leaf{"i", 3, DType::i32, s},
          Leaf{"j", 4, DType::i32, s}, Leaf{"u", 5, DType::u8, s}, Leaf{"a", 6, DType::b8, s}, Leaf{"b", 7, DType::b8, s}})
      named_[name] = parameter(index, type, shape);
  }

  Value read(std::string_view text) {
    rest_ = text;
    for (;;) {
      const std::string_view before = rest_, name = word();
      if (!take('=')) {
        rest_ = before;
        Value v = value();
        EXPECT_TRUE(rest_.empty()) << "not read: " << rest_;
        return v;
      }
      named_[std::string(name)] = value();
      expect(';');
    }
  }

 private:
  struct Leaf {
    const char* name;
    int index;
    DType type;
    Shape shape;
  };

  Value parameter(int index, DType type, const Shape& shape) { return g_.parameter(index, type, shape, contiguous_strides(shape)); }
  bool take(char c) {
    while (rest_.starts_with(' ')) rest_.remove_prefix(1);
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!take(c)) throw Error(ErrorCode::invalid_argument, fmt::format("expected {} before {}", c, rest_));
  }
  std::string_view until(std::string_view ends) {
    take(' ');
    const size_t n = std::min(rest_.find_first_of(ends), rest_.size());
    const std::string_view found = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return found;
  }
  std::string_view word() { return until(" (){},;=:"); }
  double number() {
    take(',');
    return std::atof(std::string(until(",)}")).c_str());
  }
  DType type() {
    take(',');
    return dtype_from_name(word()).value();
  }
  Shape sizes() {
    Shape out;
    take(',');
    if (!take('{')) return until(",)"), Shape{2, 3};  // s
    while (!take('}')) {
      out.push_back(parse_expr(until(",}")));
      take(',');
    }
    return out;
  }
  std::vector<int64_t> integers() {
    std::vector<int64_t> out;
    for (const Expr& e : sizes()) out.push_back(e.eval({}));
    return out;
  }
  Value value() {
    take(',');
    const std::string name(word());
    if (auto known = named_.find(name); known != named_.end() && !rest_.starts_with('(')) return known->second;
    if (name == "wide") return parameter(8, DType::f32, {2, Expr::symbol(0), 4});
    if (name == "row") return parameter(9, DType::f32, {1, 3});
    if (name == "none") return parameter(12, DType::f32, {0, 3});
    std::optional<DType> result;
    if (take(':')) result = type();
    expect('(');
    Value v = call(name, result);
    expect(')');
    return v;
  }
  Value call(const std::string& name, std::optional<DType> result) {
    const Shape s = {2, 3};
    if (name == "f") return g_.number(DType::f32, number(), s);
    if (name == "k") return g_.integer(DType::i32, static_cast<int64_t>(number()), s);
    if (name == "t") return g_.constant(DType::b8, word() == "true", s);
    if (name == "p" || name == "number" || name == "integer" || name == "constant") return leaf(name);
    if (name == "iota") {
      const DType t = type();
      const Shape shape = sizes();
      return g_.iota(t, shape, static_cast<int>(number()));
    }
    Value v = value();
    if (name == "cast" || name == "bitcast") return g_.cast(v, type(), *ir::op_from_name(name));
    if (name == "reshape") return g_.reshape(v, sizes());
    if (name == "expand") return g_.expand(v, sizes());
    if (name == "permute") return g_.permute(v, integers());
    if (name == "flip") return g_.flip(v, integers());
    if (name == "slice" || name == "pad") {
      const Shape first = sizes(), second = sizes();
      return name == "slice" ? g_.slice(v, first, second, integers()) : g_.pad(v, first, second, ir::bits_of(v->dtype, number()));
    }
    std::vector<Value> operands{v};
    ir::Attrs attrs;
    while (take(',')) {
      take(' ');
      if (rest_.starts_with('{'))
        attrs.ints = integers();
      else
        operands.push_back(value());
    }
    if (name == "concat") return g_.concat(operands, static_cast<int>(attrs.ints.at(0)));
    return g_.make(ir::op_from_name(name).value(), operands, attrs, result);
  }
  Value leaf(const std::string& name) {
    const int64_t index = name == "p" ? static_cast<int64_t>(number()) : 0;
    const DType t = type();
    if (name == "p") return parameter(static_cast<int>(index), t, sizes());
    const double v = number();
    const Shape shape = take(',') ? sizes() : Shape{};
    if (name == "number") return g_.number(t, v, shape);
    return name == "integer" ? g_.integer(t, static_cast<int64_t>(v), shape) : g_.constant(t, static_cast<uint64_t>(v), shape);
  }

  Graph& g_;
  std::map<std::string, Value, std::less<>> named_;
  std::string_view rest_;
};

struct Row {
  std::string_view rule, from, to;
  Options options = {};
};

const std::vector<Row>& rows() {
  static const std::vector<Row> table = {
      // dimensions of 0
      {"no_elements", "add(none, none)", "number(f32, 0, {0, 3})"},
      {"reduce_nothing", "reduce_max(none, {0})", "number(f32, -inf, {3})"},
      {"sum_nothing", "dot_general(p(8, f32, {2, 0}), none)", "f(0)"},
      {"attend_nothing", "k = p(8, f32, {1, 0, 4}); attention_lse(p(9, f32, {1, 2, 4}), k, k, {0, 0})", "number(f32, -inf, {1, 2})"},
      {"concat_nothing", "concat(none, x, none, {0})", "x"},
      {"pad_nothing", "pad(none, {1, 0}, s, 5)", "f(5)"},
      {"scatter_nothing", "scatter(x, p(8, i64, {0}), none, {0, 1})", "x"},
      // sums
      {"add_same", "add(x, x)", "mul(x, f(2))"},
      {"add_neg", "add(neg(x), y)", "sub(y, x)"},
      {"sub_neg", "sub(x, neg(y))", "add(x, y)"},
      {"sub_constant", "sub(x, f(3))", "add(x, f(-3))"},
      {"sub_same", "sub(i, i)", "k(0)"},
      {"sub_of_neg", "sub(neg(i), j)", "neg(add(i, j))"},
      {"neg_sub", "neg(sub(i, j))", "sub(j, i)"},
      {"neg_add_constant", "neg(add(i, k(5)))", "sub(k(-5), i)"},
      {"add_constants", "add(add(i, k(5)), k(6))", "add(i, k(11))"},
      {"sub_constants", "sub(k(5), add(i, k(6)))", "sub(k(-1), i)"},
      // products
      {"mul_minus_one", "mul(x, f(-1))", "neg(x)"},
      {"mul_neg_neg", "mul(neg(x), neg(y))", "mul(x, y)"},
      {"mul_neg_constant", "mul(neg(x), f(3))", "mul(x, f(-3))"},
      {"mul_neg", "mul(x, neg(y))", "neg(mul(x, y))"},
      {"neg_mul_constant", "neg(mul(x, f(3)))", "mul(x, f(-3))"},
      {"mul_abs_abs", "mul(abs(x), abs(x))", "mul(x, x)"},
      {"mul_constants", "mul(mul(i, k(5)), k(6))", "mul(i, k(30))"},
      {"mul_zero", "mul(i, k(0))", "k(0)"},
      {"div_minus_one", "div(i, k(-1))", "neg(i)"},
      {"div_neg_neg", "div(neg(x), neg(y))", "div(x, y)"},
      {"div_neg_constant", "div(neg(x), f(3))", "div(x, f(-3))"},
      {"div_constant_neg", "div(f(3), neg(x))", "div(f(-3), x)"},
      {"div_neg", "div(neg(x), y)", "neg(div(x, y))"},
      {"div_by_neg", "div(x, neg(y))", "neg(div(x, y))"},
      {"neg_div_constant", "neg(div(x, f(3)))", "div(x, f(-3))"},
      {"neg_constant_div", "neg(div(f(3), x))", "div(f(-3), x)"},
      {"div_power_of_two", "div(x, f(-8))", "mul(x, f(-0.125))"},
      {"rem_one", "rem(i, k(1))", "k(0)"},
      {"rem_neg", "rem(neg(x), y)", "neg(rem(x, y))"},
      {"rem_by_neg", "rem(x, neg(y))", "rem(x, y)"},
      {"fma_neg_neg", "fma(neg(x), neg(y), z)", "fma(x, y, z)"},
      // extrema
      {"min_constants", "min(min(x, f(3)), f(2))", "min(x, f(2))"},
      {"max_constants", "max(max(x, f(3)), f(2))", "max(x, f(3))"},
      {"min_same", "min(min(x, y), y)", "min(x, y)"},
      {"max_same", "max(max(x, y), x)", "max(x, y)"},
      {"min_absorbs", "min(x, max(x, f(2)))", "x"},
      {"max_absorbs", "max(i, min(i, j))", "i"},
      {"min_zero", "min(u, integer(u8, 0, s))", "integer(u8, 0, s)"},
      {"max_zero", "max(u, integer(u8, 255, s))", "integer(u8, 255, s)"},
      {"minnum_integer", "minnum(i, j)", "min(i, j)"},
      {"maxnum_integer", "maxnum(i, j)", "max(i, j)"},
      {"max_neg_same", "max(x, neg(x))", "abs(x)"},
      {"min_neg_same", "min(neg(i), i)", "neg(abs(i))"},
      {"max_neg_neg", "max(neg(x), neg(y))", "neg(min(x, y))"},
      {"min_neg_neg", "min(neg(x), neg(y))", "neg(max(x, y))"},
      // signs and roundings
      {"abs_neg", "abs(neg(x))", "abs(x)"},
      {"abs_unsigned", "abs(u)", "u"},
      {"abs_positive", "abs(exp(x))", "exp(x)"},
      {"abs_max_positive", "abs(max(x, f(0)))", "max(x, f(0))"},
      {"abs_copysign", "abs(copysign(x, y))", "abs(x)"},
      {"copysign_same", "copysign(x, x)", "x"},
      {"copysign_neg", "copysign(neg(x), y)", "copysign(x, y)"},
      {"copysign_abs", "copysign(abs(x), y)", "copysign(x, y)"},
      {"floor_neg", "floor(neg(x))", "neg(ceil(x))"},
      {"ceil_neg", "ceil(neg(x))", "neg(floor(x))"},
      {"trunc_neg", "trunc(neg(x))", "neg(trunc(x))"},
      {"round_neg", "round(neg(x))", "neg(round(x))"},
      {"round_rounded", "floor(round(x))", "round(x)"},
      {"round_integer", "floor(cast(i, f32))", "cast(i, f32)"},
      // selections
      {"select_true_false", "select(a, k(1), k(0))", "cast(a, i32)"},
      {"select_false_true", "select(a, t(false), t(true))", "bit_not(a)"},
      {"select_not", "select(bit_not(a), x, y)", "select(a, y, x)"},
      {"select_again", "select(a, x, select(a, z, y))", "select(a, x, y)"},
      {"select_or", "select(a, t(true), b)", "bit_or(a, b)"},
      {"select_and", "select(a, b, a)", "bit_and(a, b)"},
      {"select_positive", "select(lt(f(0), x), x, f(0))", "maxnum(x, f(0))"},
      // comparisons
      {"lt_same", "lt(x, x)", "t(false)"},
      {"le_same", "le(i, i)", "t(true)"},
      {"eq_same", "eq(i, i)", "t(true)"},
      {"ne_same", "ne(i, i)", "t(false)"},
      {"not_eq", "bit_not(eq(x, y))", "ne(x, y)"},
      {"not_ne", "bit_not(ne(x, y))", "eq(x, y)"},
      {"not_lt", "bit_not(lt(i, j))", "le(j, i)"},
      {"not_le", "bit_not(le(i, j))", "lt(j, i)"},
      {"eq_true", "eq(a, t(true))", "a"},
      {"eq_false", "eq(a, t(false))", "bit_not(a)"},
      {"ne_true", "ne(a, t(true))", "bit_not(a)"},
      {"ne_false", "ne(a, t(false))", "a"},
      {"ne_truth", "ne(a, b)", "bit_xor(a, b)"},
      {"eq_cast_truth", "eq(cast(a, i32), k(0))", "bit_not(a)"},
      {"ne_cast_truth", "ne(cast(a, f32), f(0))", "a"},
      {"lt_cast_truth", "lt(f(0), cast(a, f32))", "a"},
      {"ne_zero", "ne(x, f(0))", "cast(x, b8)"},
      {"cast_neg_to_truth", "cast(neg(x), b8)", "cast(x, b8)"},
      {"lt_neg_neg", "lt(neg(x), neg(y))", "lt(y, x)"},
      {"le_neg_neg", "le(neg(x), neg(y))", "le(y, x)"},
      {"lt_neg", "lt(neg(x), f(2))", "lt(f(-2), x)"},
      {"le_neg", "le(neg(x), f(2))", "le(f(-2), x)"},
      {"lt_constant_neg", "lt(f(2), neg(x))", "lt(x, f(-2))"},
      {"le_constant_neg", "le(f(2), neg(x))", "le(x, f(-2))"},
      {"eq_neg_neg", "eq(neg(i), neg(j))", "eq(i, j)"},
      {"ne_neg_neg", "ne(neg(x), neg(y))", "ne(x, y)"},
      {"eq_neg", "eq(neg(x), f(2))", "eq(x, f(-2))"},
      {"ne_neg", "ne(neg(x), f(2))", "ne(x, f(-2))"},
      {"lt_unsigned_zero", "lt(u, integer(u8, 0, s))", "t(false)"},
      {"le_unsigned_zero", "le(integer(u8, 0, s), u)", "t(true)"},
      {"compare_ranges", "le(integer(i64, 0, {s0, 3}), iota(i64, {s0, 3}, 0))", "constant(b8, 1, {s0, 3})"},
      // [3, 5] and 2; [3, 5] and [2, 4], which overlap
      {"compare_ranges",
       "at = iota(i32, {2, 3}, 1); far = add(at, k(3)); near = add(at, k(2)); bit_or(eq(far, k(2)), eq(far, flip(near, {1})))",
       "at = iota(i32, {2, 3}, 1); far = add(at, k(3)); near = add(at, k(2)); eq(far, flip(near, {1}))"},
      // bits
      {"truth_or", "add(a, b)", "bit_or(a, b)"},
      {"truth_and", "mul(a, b)", "bit_and(a, b)"},
      {"xor_true", "bit_xor(a, t(true))", "bit_not(a)"},
      {"xor_same", "bit_xor(i, i)", "k(0)"},
      {"and_not", "bit_and(i, bit_not(i))", "k(0)"},
      {"or_not", "bit_or(bit_not(i), i)", "k(-1)"},
      {"and_absorbs", "bit_and(i, bit_or(i, j))", "i"},
      {"or_absorbs", "bit_or(a, bit_and(b, a))", "a"},
      {"and_same", "bit_and(bit_and(i, j), j)", "bit_and(i, j)"},
      {"or_same", "bit_or(bit_or(i, j), i)", "bit_or(i, j)"},
      {"xor_again", "bit_xor(bit_xor(i, j), i)", "j"},
      {"and_constants", "bit_and(bit_and(i, k(6)), k(3))", "bit_and(i, k(2))"},
      {"or_constants", "bit_or(bit_or(i, k(6)), k(3))", "bit_or(i, k(7))"},
      {"xor_constants", "bit_xor(bit_xor(i, k(6)), k(3))", "bit_xor(i, k(5))"},
      {"and_zero", "bit_and(i, k(0))", "k(0)"},
      {"or_ones", "bit_or(a, t(true))", "t(true)"},
      // conversions
      {"cast_cast", "cast(cast(x, f64), bf16)", "cast(x, bf16)"},
      {"cast_back", "cast(cast(x, bf16), f32)", "x", {.fast = true}},
      {"bitcast_bitcast", "bitcast(bitcast(x, i32), u32)", "bitcast(x, u32)"},
      {"cast_iota", "cast(iota(i64, {s0}, 0), f32)", "iota(f32, {s0}, 0)"},
      // movement
      {"reshape_reshape", "reshape(reshape(wide, {s0, 8}), {4, 2, s0})", "reshape(wide, {4, 2, s0})"},
      {"permute_permute", "permute(permute(wide, {1, 2, 0}), {1, 2, 0})", "permute(wide, {2, 0, 1})"},
      {"expand_expand", "expand(expand(p(14, f32, {1, 1}), {1, 4}), {s0, 4})", "expand(p(14, f32, {1, 1}), {s0, 4})"},
      {"flip_flip", "flip(flip(x, {0, 1}), {1})", "flip(x, {0})"},
      {"pad_pad", "pad(pad(x, {1, 0}, {4, 3}, 0), {0, 2}, {4, 6}, 0)", "pad(x, {1, 2}, {4, 6}, 0)"},
      {"permute_ones", "permute(row, {1, 0})", "reshape(row, {3, 1})"},
      {"reshape_expand", "reshape(expand(row, {s0, 3}), {s0, 1, 3})", "expand(reshape(row, {1, 1, 3}), {s0, 1, 3})"},
      {"permute_expand", "permute(expand(row, {s0, 3}), {1, 0})", "expand(reshape(row, {3, 1}), {3, s0})"},
      {"reshape_permute", "reshape(permute(x, {1, 0}), {3, 1, 2})", "permute(reshape(x, {2, 3, 1}), {1, 2, 0})"},
      {"neg_outwards", "permute(neg(x), {1, 0})", "neg(permute(x, {1, 0}))"},
      {"movement_outwards", "exp(expand(row, {s0, 3}))", "expand(exp(row), {s0, 3})"},
      // slices
      {"slice_slice", "slice(slice(p(15, f32, {20}), {2}, {9}, {2}), {1}, {3}, {3})", "slice(p(15, f32, {20}), {4}, {3}, {6})"},
      {"slice_expand", "slice(expand(row, {s0, 3}), {0, 1}, {1, 2}, {})", "slice(row, {0, 1}, {1, 2}, {})"},
      {"slice_permute", "slice(permute(x, {1, 0}), {1, 0}, {2, 2}, {})", "permute(slice(x, {0, 1}, {2, 2}, {}), {1, 0})"},
      {"slice_reshape", "slice(reshape(x, {2, 1, 3}), {0, 0, 1}, {2, 1, 2}, {})", "reshape(slice(x, {0, 1}, {2, 2}, {}), {2, 1, 2})"},
      {"slice_concat", "slice(concat(x, y, {0}), {2, 0}, {2, 2}, {})", "slice(y, {0, 0}, {2, 2}, {})"},
      {"slice_pad", "slice(pad(x, {1, 1}, {4, 5}, 0), {1, 2}, {2, 2}, {})", "slice(x, {0, 1}, {2, 2}, {})"},
      {"slice_iota", "slice(iota(i64, {9, 2}, 0), {0, 1}, {4, 1}, {})", "iota(i64, {4, 1}, 0)"},
      {"pad_to_slice", "pad(x, {0, -1}, {2, 2}, 0)", "slice(x, {0, 1}, {2, 2}, {})"},
      // reductions
      {"reduce_ones", "reduce_sum(row, {0})", "reshape(add(row, number(f32, 0, {1, 3})), {3})"},
      {"reduce_expand", "reduce_sum(expand(row, {s0, 3}), {1})", "expand(reduce_sum(row, {1}), {s0})"},
      {"reduce_permute", "reduce_sum(permute(wide, {2, 0, 1}), {1})", "permute(reduce_sum(wide, {0}), {1, 0})"},
      {"reduce_reshape", "reduce_sum(reshape(x, {2, 1, 3}), {2})", "reshape(reduce_sum(x, {1}), {2, 1})"},
      {"reduce_constant", "reduce_sum(k(7), {0, 1})", "integer(i32, 42)"},
      {"reduce_reduce", "reduce_max(reduce_max(wide, {1}), {1})", "reduce_max(wide, {1, 2})"},
      {"reduce_neg", "reduce_max(neg(x), {1})", "neg(reduce_min(x, {1}))"},
      {"scan_one", "cummax(row, {0})", "row"},
      // concat, take, scatter, products
      {"concat_concat", "concat(concat(x, y, {0}), z, {0})", "concat(x, y, z, {0})"},
      {"concat_slices", "concat(slice(x, {0, 0}, {2, 1}, {}), slice(x, {0, 1}, {2, 2}, {}), {1})", "x"},
      {"take_iota", "take(wide, iota(i64, {3}, 0), {2})", "slice(wide, {0, 0, 0}, {2, s0, 3}, {})"},
      {"take_constant", "take(wide, integer(i64, -1), {1})", "reshape(slice(wide, {0, s0 - 1, 0}, {2, 1, 4}, {}), {2, 4})"},
      {"scatter_scatter", "at = p(11, i64, {2}); scatter(scatter(x, at, y, {0, 1}), at, z, {0, 0})",
       "scatter(x, p(11, i64, {2}), z, {0, 0})"},
      {"scatter_iota", "scatter(x, iota(i64, {3}, 0), y, {1, 0})", "y"},
      {"dot_bytes", "dot_general(cast(p(12, u8, {3, 5}), i32), cast(p(13, i8, {5, 4}), i32))",
       "dot_general:i32(p(12, u8, {3, 5}), p(13, i8, {5, 4}))"},
      {"dot_transposed", "permute(dot_general(permute(p(12, f32, {3, 5}), {1, 0}), permute(p(13, f32, {4, 3}), {1, 0})), {1, 0})",
       "dot_general(p(13, f32, {4, 3}), p(12, f32, {3, 5}))"},
      {"attention_grouped",
       "k = expand(reshape(p(17, f32, {2, 3, 4, 8}), {2, 3, 1, 4, 8}), {2, 3, 2, 4, 8}); v = expand(reshape(p(18, f32, {2, 3, 4, 8}), {2, "
       "3, 1, 4, 8}), {2, 3, 2, 4, 8}); attention(p(16, f32, {2, 6, s0, 8}), reshape(k, {2, 6, 4, 8}), reshape(v, {2, 6, 4, 8}), {1})",
       "attention(p(16, f32, {2, 6, s0, 8}), p(17, f32, {2, 3, 4, 8}), p(18, f32, {2, 3, 4, 8}), {1})"},
      {"attention_grouped",
       "attention(p(16, f32, {6, s0, 8}), expand(p(17, f32, {1, 4, 8}), {6, 4, 8}), expand(p(18, f32, {1, 4, 8}), {6, 4, 8}))",
       "attention(p(16, f32, {6, s0, 8}), p(17, f32, {1, 4, 8}), p(18, f32, {1, 4, 8}))"},
      {"attention_bias",
       "q = p(16, f32, {2, 6, 5, 8}); k = p(17, f32, {2, 6, 4, 8}); attention(q, k, k, expand(p(18, b8, {2, 1, 1, 4}), {2, 6, 5, 4}))",
       "q = p(16, f32, {2, 6, 5, 8}); k = p(17, f32, {2, 6, 4, 8}); attention(q, k, k, p(18, b8, {2, 1, 1, 4}))"},
      // functions
      {"sigmoid", "div(f(1), add(f(1), exp(neg(x))))", "sigmoid(x)"},
      {"one_minus_sigmoid", "sub(f(1), sigmoid(x))", "sigmoid(neg(x))"},
      {"erfc", "sub(f(1), erf(x))", "erfc(x)"},
      {"erf", "sub(f(1), erfc(x))", "erf(x)"},
      {"expm1", "sub(exp(x), f(1))", "expm1(x)"},
      {"log1p", "log(add(f(1), x))", "log1p(x)"},
      {"rsqrt", "div(f(1), sqrt(x))", "rsqrt(x)"},
      {"exp2", "pow(f(2), x)", "exp2(x)"},
      {"gelu", "mul(mul(f(0.5), x), add(f(1), erf(div(x, f(1.4142135623730951)))))", "gelu(x)"},
      {"pow_zero", "pow(x, f(0))", "f(1)"},
      {"pow_one", "pow(x, f(1))", "x"},
      {"pow_two", "pow(x, f(2))", "mul(x, x)"},
      {"pow_three", "pow(x, f(3))", "mul(x, mul(x, x))"},
      {"pow_minus_one", "pow(x, f(-1))", "div(f(1), x)"},
      {"pow_minus_two", "pow(x, f(-2))", "div(f(1), mul(x, x))"},
      {"pow_of_one", "pow(f(1), x)", "f(1)"},
      {"odd_function", "tanh(neg(x))", "neg(tanh(x))"},
      {"even_function", "cos(neg(x))", "cos(x)"},
      {"atan2_neg", "atan2(neg(y), x)", "neg(atan2(y, x))"},
  };
  return table;
}

void finish(Graph& g, Value v) { g.outputs.push_back({v, contiguous_strides(v->shape)}); }

Report canonical(std::string_view term, Graph& out, const Options& options = {}) {
  Graph in;
  finish(in, Terms(in).read(term));
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
    finish(want, Terms(want).read(row.to));
    EXPECT_TRUE(report.fired.contains(row.rule)) << row.rule << " did not fire:\n" << print(got);
    EXPECT_EQ(fingerprint(got), fingerprint(want)) << row.rule << " gave\n" << print(got) << "expected\n" << print(want);
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
    finish(in, Terms(in).read(row.from));
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
        t.bits[i] = is_float(node.dtype) ? ir::bits_of(node.dtype, 0.3 + 0.37 * static_cast<double>(i) - index % 2)
                                         : ir::bits_of_integer(node.dtype, static_cast<int64_t>(i + 1) % 3 - (index == 11));
      if (index == 11) t.bits = {0, 1};
      data.emplace(index, t);
    }
    Tensor a = evaluate(in, data, symbols)[0], b = evaluate(out, data, symbols)[0];
    double tolerance = row.options.fast ? 1e-2 : 3e-7;
    EXPECT_TRUE(test::close(a, b, tolerance)) << row.rule << ": " << text(a) << " became " << text(b);
  }
}

// What looks like a rule and is not one.
TEST(Canon, UnsoundRulesAreAbsent) {
  for (const char* term :
       {"add(x, f(0))", "mul(x, f(0))", "sub(x, x)", "div(x, x)", "neg(sub(x, y))", "add(add(x, f(1)), f(2))", "eq(x, x)",
        "bit_not(lt(x, y))", "min(x, max(x, y))", "div(x, f(3))", "cast(cast(x, bf16), f32)", "cast(cast(i, f64), i8)", "pow(x, f(0.5))",
        "reduce_sum(reduce_sum(x, {1}), {0})", "reduce_sum(permute(x, {1, 0}), {0, 1})",
        "pad(pad(x, {-1, 0}, {1, 3}, 0), {1, 0}, {2, 3}, 0)", "take(x, integer(i64, 5), {0})", "div(i, k(0))"}) {
    Graph in, out;
    finish(in, Terms(in).read(term));
    Report report;
    canonicalize(in, out, report);
    std::string fired = report.fired.empty() ? "" : report.fired.begin()->first;
    bool only_slices = fired == "pad_to_slice";
    EXPECT_TRUE(report.fired.empty() || only_slices) << fired << " fired on\n" << print(in);
  }
}

TEST(Canon, DeadNodesAndUnusedParametersGo) {
  Graph in, out;
  in.unary(Op::exp, in.parameter(1, DType::f32, {2, 3}, {3, 1}));
  finish(in, in.unary(Op::neg, in.parameter(0, DType::f32, {2, 3}, {3, 1})));
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
  in.outputs.push_back({Terms(in).read("add(x, neg(z))"), {}, 1});
  Report report;
  canonicalize(in, out, report);
  verify(out);
  EXPECT_EQ(out.outputs.at(0).parameter, 1);
  EXPECT_TRUE(out.outputs[0].value->is(Op::sub));
}

TEST(Canon, LongChainsNeitherOverflowNorCrawl) {
  Graph in, out;
  Value v = Terms(in).read("x");
  for (int i = 0; i < 20000; ++i) v = in.unary(i % 2 ? Op::exp : Op::tanh, in.permute(v, {1, 0}));
  finish(in, v);
  Report report;
  canonicalize(in, out, report);
  EXPECT_EQ(report.nodes_after, 20000u) << "all permutations cancel";
}

}  // namespace
}  // namespace hologram::canon

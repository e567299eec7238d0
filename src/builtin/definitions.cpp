// builtin/definitions.cpp: the operations of executors, as graphs.
#include "builtin/definitions.h"

#include <cmath>
#include <numbers>

namespace hologram::builtin {
namespace {

using ir::Graph;
using ir::Op;
using ir::Value;

Expr symbol(int id) { return Expr::symbol(id); }

Shape symbols(int first, int count) {
  Shape shape;
  for (int i = 0; i < count; ++i) shape.push_back(symbol(first + i));
  return shape;
}

Value input(Graph& g, int index, DType dtype, const Shape& shape) {
  return g.parameter(index, dtype, shape, contiguous_strides(shape));
}

void output(Graph& g, Value v) { g.outputs.push_back({v, contiguous_strides(v->shape), -1}); }

Value matmul(Graph& g, Value a, Value b) {
  return g.make(Op::dot_general, {a, b}, {{0}, {}, 0, ""});
}

/// Operands 0 and 1 with leading dimensions s3 and s4.
Value strided_product(Graph& g, DType dtype, bool transpose_a, bool transpose_b) {
  auto operand = [&](int index, const Expr& rows, const Expr& columns, bool transposed) {
    Expr leading = symbol(3 + index);
    Shape strides = transposed ? Shape{1, leading} : Shape{leading, 1};
    return g.parameter(index, dtype, {rows, columns}, strides);
  };
  return matmul(g, operand(0, symbol(0), symbol(2), transpose_a),
                operand(1, symbol(2), symbol(1), transpose_b));
}

Value softmax(Graph& g, Value x, int64_t axis) {
  auto wide = [&](Value reduced) {
    Shape shape = x->shape;
    shape[static_cast<size_t>(axis)] = Expr(1);
    return g.expand(g.reshape(reduced, shape), x->shape);
  };
  Value e = g.unary(Op::exp, g.binary(Op::sub, x, wide(g.reduce(Op::reduce_max, x, {axis}))));
  return g.binary(Op::div, e, wide(g.reduce(Op::reduce_sum, e, {axis})));
}

Value gelu_by_tanh(Graph& g, Value x) {
  auto number = [&](double v) { return g.number(x->dtype, v, x->shape); };
  auto mul = [&](Value a, Value b) { return g.binary(Op::mul, a, b); };
  auto add = [&](Value a, Value b) { return g.binary(Op::add, a, b); };
  Value cube = mul(mul(x, x), x);
  Value inner = mul(number(std::sqrt(2 / std::numbers::pi)), add(x, mul(number(0.044715), cube)));
  return mul(mul(number(0.5), x), add(number(1), g.unary(Op::tanh, inner)));
}

constexpr Elementwise compositions[] = {
    {relu, "relu", 1, 0},
    {gelu_tanh, "gelu_tanh", 1, 0},
    {clip, "clip", 1, 2},
    {scalar_add, "scalar_add", 1, 1},
    {scalar_mul, "scalar_mul", 1, 1},
};

}  // namespace

std::optional<Elementwise> elementwise(uint32_t id) {
  if (id >= relu && id < end_of_ids) return compositions[id - relu];
  if (id >= relu) return std::nullopt;
  auto op = static_cast<Op>(id);
  if (!ir::is_elementwise(op) || ir::info(op).kind == ir::OpKind::cast) return std::nullopt;
  return Elementwise{id, ir::name_of(op), ir::info(op).arity, 0};
}

std::optional<Elementwise> find_elementwise(std::string_view name) {
  for (const Elementwise& c : compositions)
    if (c.name == name) return c;
  if (auto op = ir::op_from_name(name)) return elementwise(static_cast<uint32_t>(*op));
  return std::nullopt;
}

void build_elementwise(Graph& g, uint32_t id, DType dtype) {
  g.num_symbols = 1;
  const Shape shape = symbols(0, 1);
  const Elementwise what = elementwise(id).value();
  std::vector<Value> in;
  for (int i = 0; i < what.arity; ++i) {
    bool condition = id == static_cast<uint32_t>(Op::select) && i == 0;
    in.push_back(input(g, i, condition ? DType::b8 : dtype, shape));
  }
  for (int i = 0; i < what.scalars; ++i)
    in.push_back(g.broadcast(input(g, what.arity + i, dtype, {}), shape));
  switch (id) {
    case relu:
      return output(g, g.binary(Op::max, in[0], g.number(dtype, 0, shape)));
    case gelu_tanh:
      return output(g, gelu_by_tanh(g, in[0]));
    case clip: {  // bounds are no NaN, so that one instruction does for each
      Value low = g.select(g.binary(Op::lt, in[0], in[1]), in[1], in[0]);
      return output(g, g.select(g.binary(Op::lt, in[2], low), in[2], low));
    }
    case scalar_add:
      return output(g, g.binary(Op::add, in[0], in[1]));
    case scalar_mul:
      return output(g, g.binary(Op::mul, in[0], in[1]));
    default:
      return output(g, g.make(static_cast<Op>(id), in));
  }
}

void build_convert(Graph& g, DType from, DType to) {
  g.num_symbols = 1;
  output(g, g.cast(input(g, 0, from, symbols(0, 1)), to));
}

void build_flat(Graph& g, Flat what) {
  g.num_symbols = 1;
  const Shape shape = symbols(0, 1);
  Value x = input(g, 0, DType::f32, shape);
  switch (what) {
    case Flat::sum:
      return output(g, g.reduce(Op::reduce_sum, x, {0}));
    case Flat::min:
      return output(g, g.reduce(Op::reduce_min, x, {0}));
    case Flat::max:
      return output(g, g.reduce(Op::reduce_max, x, {0}));
    case Flat::softmax:
      return output(g, softmax(g, x, 0));
    default:
      break;
  }
  Value t = input(g, 1, DType::f32, shape);
  auto number = [&](double v) { return g.number(DType::f32, v, shape); };
  auto log_of = [&](Value v) { return g.unary(Op::log, v); };
  Value term = nullptr;
  if (what == Flat::mse) {
    Value d = g.binary(Op::sub, x, t);
    term = g.binary(Op::mul, d, d);
  } else if (what == Flat::cross_entropy) {
    Value counts = g.binary(Op::ne, t, number(0));
    term = g.select(counts, g.binary(Op::mul, t, log_of(x)), number(0));
  } else {
    auto bounded = [&](Value v) { return g.binary(Op::max, log_of(v), number(-100)); };
    auto rest = [&](Value v) { return g.binary(Op::sub, number(1), v); };
    term = g.binary(Op::add, g.binary(Op::mul, t, bounded(x)),
                    g.binary(Op::mul, rest(t), bounded(rest(x))));
  }
  output(g, g.reduce(Op::reduce_sum, term, {0}));
}

namespace {

// Bytes and a mask of each.
Value masked_bytes(Graph& g, int mask) {
  g.num_symbols = 1;
  const Shape shape = symbols(0, 1);
  Value bytes = input(g, 0, DType::u8, shape);
  return g.binary(Op::bit_and, bytes, g.number(DType::u8, mask, shape));
}

}  // namespace

void build_canonical(Graph& g) { output(g, masked_bytes(g, 0xfe)); }
void build_any_odd(Graph& g) { output(g, g.reduce(Op::reduce_max, masked_bytes(g, 1), {0})); }

void build_mean(Graph& g) {
  Value sum = g.cast(input(g, 0, DType::f32, {}), DType::f64);
  output(g, g.cast(g.binary(Op::div, sum, input(g, 1, DType::f64, {})), DType::f32));
}

void build_along_axis(Graph& g, Op op, bool last) {
  g.num_symbols = last ? 2 : 3;
  Value x = input(g, 0, DType::f32, symbols(0, g.num_symbols));
  output(g, op == Op::exp ? softmax(g, x, 1) : g.reduce(op, x, {1}));
}

void build_gemm(Graph& g, DType dtype, bool transpose_a, bool transpose_b) {
  g.num_symbols = 5;
  output(g, strided_product(g, dtype, transpose_a, transpose_b));
}

void build_gemm_update(Graph& g, DType dtype, bool transpose_a, bool transpose_b, bool accumulate) {
  g.num_symbols = 6;
  const DType wide = compute_type(dtype);
  Value product = strided_product(g, dtype, transpose_a, transpose_b);
  Value c = g.parameter(2, dtype, product->shape, {symbol(5), Expr(1)});
  auto scaled = [&](Value v, int scalar) {
    return g.binary(Op::mul, g.cast(v, wide), g.broadcast(input(g, scalar, wide, {}), v->shape));
  };
  Value sum = scaled(product, 3);
  if (accumulate) sum = g.binary(Op::add, sum, scaled(c, 4));
  g.outputs.push_back({g.cast(sum, dtype), {}, 2});
}

void build_gemm(Graph& g, DType dtype) {
  g.num_symbols = 3;
  output(g, matmul(g, input(g, 0, dtype, {symbol(0), symbol(2)}),
                   input(g, 1, dtype, {symbol(2), symbol(1)})));
}

void build_matvec(Graph& g, DType dtype, bool long_rows) {
  g.num_symbols = 2;
  Value a = input(g, 0, dtype, {symbol(0), symbol(1)});
  if (!long_rows) return output(g, matmul(g, a, input(g, 1, dtype, {symbol(1), Expr(1)})));
  Value x = g.broadcast(input(g, 1, dtype, {symbol(1)}), a->shape);
  output(g, g.reduce(Op::reduce_sum, g.binary(Op::mul, a, x), {1}));
}

void build_copy(Graph& g, int bytes, int rank, bool last_contiguous, uint64_t flips) {
  const DType dtype = bytes == 1   ? DType::u8
                      : bytes == 2 ? DType::u16
                      : bytes == 4 ? DType::u32
                                   : DType::u64;
  g.num_symbols = 2 * rank;
  Shape strides = symbols(rank, rank);
  if (last_contiguous) {
    strides.back() = Expr(1);
    --g.num_symbols;
  }
  std::vector<int64_t> axes;
  for (int i = 0; i < rank; ++i)
    if (flips >> i & 1) axes.push_back(i);
  const Value x = g.parameter(0, dtype, symbols(0, rank), strides);
  output(g, axes.empty() ? x : g.flip(x, axes));
}

std::vector<Definition> precompiled() {
  std::vector<Definition> list;
  auto add = [&](std::string name, std::function<void(Graph&)> build) {
    list.push_back({std::move(name), std::move(build)});
  };
  for (uint32_t id = 0; id < end_of_ids; ++id) {
    auto what = elementwise(id);
    if (!what || (id < relu && ir::info(static_cast<Op>(id)).kind > ir::OpKind::ternary_float))
      continue;
    ir::OpKind kind = id < relu ? ir::info(static_cast<Op>(id)).kind : ir::OpKind::unary_float;
    if (kind == ir::OpKind::unary_bits || kind == ir::OpKind::binary_bits ||
        kind == ir::OpKind::binary_int || kind == ir::OpKind::select)
      continue;
    add(std::string(what->name), [id](Graph& g) { build_elementwise(g, id, DType::f32); });
  }
  // The common arithmetic and conversions on the other dtypes that arrays often have.
  constexpr DType others[] = {DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64};
  for (DType t : others)
    for (Op op : {Op::add, Op::sub, Op::mul, Op::div, Op::min, Op::max, Op::neg, Op::abs})
      add(fmt::format("{} {}", ir::name_of(op), name_of(t)),
          [=](Graph& g) { build_elementwise(g, static_cast<uint32_t>(op), t); });
  for (DType t :
       {DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64, DType::u8, DType::b8})
    for (bool back : {false, true})
      add(fmt::format("convert {} {}", name_of(t), back),
          [=](Graph& g) { build_convert(g, back ? t : DType::f32, back ? DType::f32 : t); });
  constexpr Flat flats[] = {Flat::sum,    Flat::min,           Flat::max,
                            Flat::mse,    Flat::cross_entropy, Flat::binary_cross_entropy,
                            Flat::softmax};
  for (Flat f : flats)
    add(fmt::format("flat {}", static_cast<int>(f)), [f](Graph& g) { build_flat(g, f); });
  add("mean", build_mean);
  for (Op op : {Op::reduce_sum, Op::reduce_min, Op::reduce_max, Op::reduce_prod, Op::exp})
    for (bool last : {false, true})
      add(fmt::format("along {} {}", ir::name_of(op), last),
          [op, last](Graph& g) { build_along_axis(g, op, last); });
  add("gemm", [](Graph& g) { build_gemm(g, DType::f32); });
  for (bool a : {false, true})
    for (bool b : {false, true}) {
      add(fmt::format("gemm {} {}", a, b), [a, b](Graph& g) { build_gemm(g, DType::f32, a, b); });
      for (bool update : {false, true})
        add(fmt::format("gemm update {} {} {}", a, b, update),
            [=](Graph& g) { build_gemm_update(g, DType::f32, a, b, update); });
    }
  for (bool long_rows : {false, true})
    add(fmt::format("matvec {}", long_rows),
        [=](Graph& g) { build_matvec(g, DType::f32, long_rows); });
  for (int bytes : {1, 2, 4, 8})
    for (int rank : {1, 2, 3, 4})
      for (bool last : {false, true})
        add(fmt::format("copy {} {} {}", bytes, rank, last),
            [=](Graph& g) { build_copy(g, bytes, rank, last); });
  return list;
}

}  // namespace hologram::builtin

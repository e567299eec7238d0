// tests/unit/random_graph.cpp: random graphs with the values that their nodes must have.
#include "unit/random_graph.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "ir/infer.h"
#include "ir/scalar.h"

namespace hologram::test {
namespace {

using ir::Attrs;
using ir::Op;
using ir::OpKind;

constexpr std::array types = {DType::b8,  DType::u8,   DType::i8,  DType::i16, DType::i32, DType::i64,
                              DType::f16, DType::bf16, DType::f32, DType::f64, DType::f32, DType::u32};

bool has_nan(const Tensor& t) {
  return std::any_of(t.bits.begin(), t.bits.end(), [&](uint64_t b) { return std::isnan(ir::as_double(t.dtype, b)); });
}

}  // namespace

RandomGraph::RandomGraph(uint64_t seed, int nodes, RandomGraphOptions options) : options_(options), random_(seed) {
  symbols = {pick(options.wide ? 40 : 3) + 1, pick(2) + 2};
  some_empty_ = pick(4) == 0;
  for (int i = 0; i < 3; ++i) add_parameter(any(types), shape());
  for (int i = 0; i < nodes; ++i) {
    try {
      step();
    } catch (const Error& e) {
      if (e.code() != ErrorCode::invalid_argument) throw;
    }
  }
  make_outputs();
}

void RandomGraph::make_outputs() {
  size_t outputs = std::min<size_t>(items_.size(), 4);
  std::vector<int> written;
  for (size_t i = items_.size() - outputs; i < items_.size(); ++i) {
    const Item& item = items_[i];
    ir::Output out{item.value, contiguous_strides(item.value->shape)};
    for (const ir::Node& n : graph.nodes()) {
      if (!options_.mutations || !n.is(Op::parameter) || pick(2)) continue;
      int index = static_cast<int>(n.attrs.ints[0]);
      bool fits = n.dtype == item.value->dtype && n.shape == item.value->shape;
      if (!fits || std::count(written.begin(), written.end(), index)) continue;
      written.push_back(index);
      out = {item.value, {}, index};
      break;
    }
    graph.outputs.push_back(std::move(out));
    expected.push_back(item.tensor);
  }
}

uint64_t RandomGraph::value(DType t) {
  if (t == DType::b8) return random_() & 1;
  constexpr double inf = std::numeric_limits<double>::infinity();
  constexpr std::array special = {
      0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, 3.0, 1e-40, 65504.0, inf, -inf, std::numeric_limits<double>::quiet_NaN()};
  if (is_float(t)) return ir::bits_of(t, pick(3) ? static_cast<double>(pick(41) - 20) / 8 : any(special));
  constexpr std::array<int64_t, 8> ints = {0, 1, -1, 2, 3, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(), 7};
  return ir::bits_of_integer(t, pick(3) ? pick(9) - 4 : any(ints));
}

Expr RandomGraph::dimension() {
  if (some_empty_ && pick(8) == 0) return 0;
  Expr s0 = Expr::symbol(0), s1 = Expr::symbol(1);
  std::array<Expr, 8> all = {1, 1, 2, 3, s0, s1, s0 + Expr(1), 1}, wide = {1, 2, 5, 16, 17, 64, s0, s1};
  return any(options_.wide ? wide : all);
}

Shape RandomGraph::shape() {
  Shape s(static_cast<size_t>(pick(options_.wide ? 3 : 4)));
  for (Expr& d : s) d = dimension();
  return s;
}

void RandomGraph::add(Op op, const std::vector<Item>& inputs, Attrs attrs, std::optional<DType> dtype, std::optional<Shape> shape) {
  std::vector<ir::Value> values;
  std::vector<const Tensor*> tensors;
  for (const Item& i : inputs) {
    values.push_back(i.value);
    tensors.push_back(&i.tensor);
  }
  OpKind kind = ir::info(op).kind;
  bool sums = kind == OpKind::reduce || kind == OpKind::scan || kind == OpKind::dot || (op == Op::scatter && attrs.ints.at(1) > 0);
  if (options_.exact && sums && is_float(inputs[0].value->dtype)) return;
  Attrs normal = attrs;
  ir::Type type = ir::infer(op, values, normal, dtype, shape);
  int64_t size = number(numel(type.shape));
  if (size > (options_.wide ? 20'000 : 600)) return;
  Tensor t = evaluate(op, normal, type.dtype, type.shape, tensors, symbols);
  items_.push_back({graph.make(op, values, attrs, dtype, shape), std::move(t)});
}

void RandomGraph::add_parameter(DType t, Shape s) {
  std::vector<int64_t> concrete;
  for (const Expr& d : s) concrete.push_back(number(d));
  Tensor data = filled(t, std::move(concrete), 0);
  for (uint64_t& b : data.bits) b = value(t);
  parameters.emplace(next_parameter_, data);
  items_.push_back({graph.parameter(next_parameter_++, t, s, contiguous_strides(s)), std::move(data)});
}

void RandomGraph::add_constant(DType t, Shape s) { add(Op::constant, {}, {.bits = value(t)}, t, std::move(s)); }

// Something of the type and shape of x: often an item, a constant or x itself.
RandomGraph::Item RandomGraph::like(const Item& x) {
  Shape s = x.value->shape;
  DType t = x.value->dtype;
  std::vector<const Item*> fits;
  for (const Item& i : items_)
    if (i.value->shape == s && i.value->dtype == t) fits.push_back(&i);
  int how = pick(6);
  if (how < 3 && !fits.empty()) return *any(fits);
  if (how == 3) {
    add_parameter(t, std::move(s));
  } else if (how == 4 && !s.empty()) {
    size_t axis = static_cast<size_t>(pick(static_cast<int>(s.size())));
    Shape small = s;
    small[axis] = 1;
    add_parameter(t, std::move(small));
    Item narrow = items_.back();
    add(Op::expand, {narrow}, {}, {}, std::move(s));
  } else {
    add_constant(t, std::move(s));
  }
  return items_.back();
}

// A value that the host copies.
void RandomGraph::host_copy() {
  Item x = any(items_);
  ir::Value call = graph.make(Op::host_call, {x.value}, {.ints = {0}, .text = "copy"});
  Shape strides = contiguous_strides(x.value->shape);
  ir::Value result = graph.make(Op::host_result, {call}, {.ints = {0}, .exprs = strides}, x.value->dtype, x.value->shape);
  items_.push_back({result, x.tensor});
}

void RandomGraph::step() {
  if (options_.host_calls && pick(12) == 0) return host_copy();
  switch (pick(10)) {
    case 0:
      return add_parameter(any(types), shape());
    case 1:
      return reduction();
    case 2:
      return indexing();
    case 3:
    case 4:
    case 5:
      return movement();
    case 6:
      return product();
    default:
      return elementwise();
  }
}

void RandomGraph::elementwise() {
  Op op = static_cast<Op>(pick(ir::num_ops));
  OpKind kind = ir::info(op).kind;
  if (!ir::is_elementwise(op) || !(options_.wide || ir::info(op).flags & ir::exact)) return elementwise();
  Item x = any(items_);
  if (op == Op::bitcast && is_float(x.value->dtype)) return;  // would show the sign of a NaN
  if (kind == OpKind::cast) return add(op, {x}, {}, any(types));
  if (kind == OpKind::select) {
    std::vector<Item> conditions;
    for (const Item& i : items_)
      if (i.value->dtype == DType::b8) conditions.push_back(i);
    if (conditions.empty()) return add_parameter(DType::b8, x.value->shape);
    Item c = any(conditions);
    std::vector<Item> fits;
    for (const Item& i : items_)
      if (i.value->shape == c.value->shape) fits.push_back(i);
    Item y = any(fits);
    return add(op, {c, y, like(y)});
  }
  std::vector<Item> inputs{x};
  while (static_cast<int>(inputs.size()) < ir::info(op).arity) inputs.push_back(like(x));
  std::shuffle(inputs.begin(), inputs.end(), random_);
  if (op == Op::copysign && has_nan(inputs[1].tensor)) return;  // would show the sign of a NaN
  add(op, inputs);
}

void RandomGraph::movement() {
  Item x = any(items_);
  int rank = x.value->rank();
  std::vector<int64_t> axes(static_cast<size_t>(rank));
  for (int i = 0; i < rank; ++i) axes[static_cast<size_t>(i)] = i;
  switch (pick(9)) {
    case 0:
      std::shuffle(axes.begin(), axes.end(), random_);
      return add(Op::permute, {x}, {.ints = axes});
    case 1:
      std::shuffle(axes.begin(), axes.end(), random_);
      axes.resize(static_cast<size_t>(pick(rank + 1)));
      return add(Op::flip, {x}, {.ints = axes});
    case 2: {
      Shape s = x.value->shape;
      for (Expr& d : s)
        if (d.is(1)) d = dimension();
      return add(Op::expand, {x}, {}, {}, s);
    }
    case 3:
    case 4:
      return slice(x);
    case 5:
      return pad(x);
    case 7:
      return window(x);
    case 6: {
      if (rank == 0) return;
      Item y = pick(2) ? like(x) : x;
      return add(Op::concat, {x, y}, {.ints = {pick(rank)}});
    }
    default:
      return reshape(x);
  }
}

void RandomGraph::slice(const Item& x) {
  Shape starts, sizes;
  std::vector<int64_t> steps;
  for (const Expr& d : x.value->shape) {
    int how = pick(3);
    Expr start(0), size = d;
    int64_t step = 1;
    if (how == 1 && d.is_const() && d.constant_value() > 0) {
      int64_t n = d.constant_value(), first = pick(static_cast<int>(n));
      step = pick(2) + 1;
      start = Expr(first);
      size = Expr((n - 1 - first) / step + 1);
    } else if (how == 2 && provably_nonnegative(d - Expr(1))) {
      start = pick(2) ? Expr(0) : d - Expr(1);
      size = Expr(1);
    }
    starts.push_back(start);
    sizes.push_back(size);
    steps.push_back(step);
  }
  add(Op::slice, {x}, {.ints = steps, .exprs = starts}, {}, sizes);
}

void RandomGraph::window(const Item& x) {
  if (x.value->rank() == 0 || x.value->rank() > 4) return;
  int axis = pick(x.value->rank());
  const Expr& d = x.value->shape[static_cast<size_t>(axis)];
  if (!d.is_const() || d.constant_value() < 1) return;
  int64_t n = d.constant_value(), step = pick(3) + 1, dilation = pick(2) + 1;
  int64_t size = pick(static_cast<int>((n - 1) / dilation) + 1) + 1;
  Shape shape = x.value->shape;
  shape[static_cast<size_t>(axis)] = Expr((n - 1 - dilation * (size - 1)) / step + 1);
  shape.push_back(Expr(size));
  add(Op::window, {x}, {.ints = {axis, step, dilation}}, {}, shape);
}

void RandomGraph::pad(const Item& x) {
  Shape low, sizes;
  for (const Expr& d : x.value->shape) {
    int64_t before = pick(4) - 1, after = pick(4) - 1;
    bool keep = d.is_const() && d.constant_value() + before + after <= 0;
    low.push_back(keep ? Expr(0) : Expr(before));
    sizes.push_back(keep ? d : d + Expr(before + after));
  }
  for (const Expr& d : sizes)
    if (number(d) < 1) return;
  uint64_t bits = value(x.value->dtype);
  add(Op::pad, {x}, {.exprs = low, .bits = bits}, {}, sizes);
}

void RandomGraph::reshape(const Item& x) {
  Shape s = x.value->shape;
  for (int i = 0; i < 2; ++i) {
    size_t at = static_cast<size_t>(pick(static_cast<int>(s.size()) + 1));
    int how = pick(3);
    if (how == 0 && s.size() < 4) {
      s.insert(s.begin() + static_cast<ptrdiff_t>(at), Expr(1));
    } else if (at < s.size() && (s[at].is(1) || (how == 1 && at + 1 < s.size()))) {
      if (at + 1 < s.size()) s[at + 1] *= s[at];
      if (s[at].is(1) || at + 1 < s.size()) s.erase(s.begin() + static_cast<ptrdiff_t>(at));
    }
  }
  add(Op::reshape, {x}, {}, {}, s);
}

void RandomGraph::reduction() {
  Item x = any(items_);
  Op op = static_cast<Op>(static_cast<int>(Op::reduce_sum) + pick(11));
  if (x.value->rank() == 0) return;
  std::vector<int64_t> axes;
  for (int i = 0; i < x.value->rank(); ++i)
    if (pick(2)) axes.push_back(i);
  if (ir::info(op).kind == OpKind::scan) axes = {pick(x.value->rank())};
  if (op == Op::argsort) {
    int axis = pick(x.value->rank());
    const Expr& n = x.value->shape[static_cast<size_t>(axis)];
    Expr count = n.is_const() && pick(2) ? Expr(pick(static_cast<int>(n.constant_value()) + 1)) : n;
    return add(op, {x}, {.ints = {axis, pick(2)}, .exprs = {count}});
  }
  add(op, {x}, {.ints = axes});
}

// Indices within [0, n) for the concrete n.
RandomGraph::Item RandomGraph::indices(const Expr& n) {
  DType t = pick(2) ? DType::i64 : DType::i32;
  int how = pick(4);
  if (how == 0) {
    add(Op::iota, {}, {.ints = {0}}, t, Shape{n});
  } else if (how == 1) {
    add(Op::constant, {}, {.bits = ir::bits_of_integer(t, pick(2) ? 0 : -1)}, t, shape());
  } else {
    return random_indices(t, n, shape());
  }
  return items_.back();
}

RandomGraph::Item RandomGraph::random_indices(DType t, const Expr& n, Shape s) {
  add_parameter(t, std::move(s));
  Item& i = items_.back();
  int64_t limit = number(n);
  for (uint64_t& b : i.tensor.bits) b = ir::bits_of_integer(t, pick(static_cast<int>(2 * limit)) - limit);
  parameters[next_parameter_ - 1] = i.tensor;
  return i;
}

void RandomGraph::indexing() {
  Item x = any(items_);
  if (x.value->rank() == 0) return;
  int axis = pick(x.value->rank());
  const Expr& n = x.value->shape[static_cast<size_t>(axis)];
  if (number(n) < 1) return;
  Item i = indices(n);
  int batch = pick(2) ? pick(axis + 1) : 0;
  if (batch > 0) {  // indices of their own for each point of the leading axes
    Shape lead(x.value->shape.begin(), x.value->shape.begin() + batch), wide = lead;
    wide.insert(wide.end(), i.value->shape.begin(), i.value->shape.end());
    if (pick(2)) {
      i = random_indices(i.value->dtype, n, wide);
    } else {
      Shape narrow(lead.size(), Expr(1));
      narrow.insert(narrow.end(), i.value->shape.begin(), i.value->shape.end());
      add(Op::reshape, {i}, {}, {}, narrow);
      i = items_.back();
      add(Op::expand, {i}, {}, {}, wide);
      i = items_.back();
    }
  }
  add(Op::take, {x, i}, {.ints = {axis, batch}});
  if (pick(2)) return;
  Item updates = like(items_.back());
  int mode = x.value->dtype == DType::b8 ? 0 : pick(5);
  add(Op::scatter, {x, i, updates}, {.ints = {axis, mode, batch}});
  if (pick(2)) return;
  Item again = like(updates);
  Item first = items_.back();
  add(Op::scatter, {first, i, again}, {.ints = {axis, 0, batch}});
}

void RandomGraph::product() {
  Item x = any(items_);
  int rank = x.value->rank();
  if (rank < 2 || x.value->dtype == DType::b8) return;
  Shape s = x.value->shape;
  size_t m = s.size() - 2, k = s.size() - 1;
  bool transposed = pick(2);
  s[m] = x.value->shape[transposed ? m : k];
  s[k] = dimension();
  if (transposed) std::swap(s[m], s[k]);
  add_parameter(x.value->dtype, s);
  Item y = items_.back();
  std::vector<int64_t> swap;
  for (int i = 0; i < rank; ++i) swap.push_back(i);
  std::swap(swap[m], swap[k]);
  if (!transposed) return add(Op::dot_general, {x, y});
  add(Op::permute, {x}, {.ints = swap});
  Item xt = items_.back();
  add(Op::permute, {y}, {.ints = swap});
  Item yt = items_.back();
  add(Op::dot_general, {xt, yt});
  Item d = items_.back();
  add(Op::permute, {d}, {.ints = swap});
}

}  // namespace hologram::test

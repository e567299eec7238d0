// tests/unit/reference.cpp: a slow evaluator of graphs on small concrete shapes.
#include "unit/reference.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "ir/fold.h"
#include "ir/scalar.h"
#include "support/functions.h"

namespace hologram::test {
namespace {

using ir::Attrs;
using ir::Op;
using ir::OpKind;
using Index = std::vector<int64_t>;

int64_t count(const Index& shape) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

size_t offset(const Index& shape, const Index& at) {
  int64_t o = 0;
  for (size_t i = 0; i < shape.size(); ++i) o = o * shape[i] + at[i];
  return static_cast<size_t>(o);
}

// Calls f(index) for each point in row-major order.
template <class F>
void for_each(const Index& shape, F f) {
  Index at(shape.size(), 0);
  for (int64_t n = count(shape); n > 0; --n) {
    f(at);
    for (size_t i = shape.size(); i-- > 0;) {
      if (++at[i] < shape[i]) break;
      at[i] = 0;
    }
  }
}

// The sign of a NaN is no part of its value, but copysign shows it: all NaNs are made the same.
uint64_t one_nan(DType t, uint64_t bits) {
  bool nan = is_float(t) && std::isnan(ir::as_double(t, bits));
  return nan ? ir::bits_of(t, std::numeric_limits<double>::quiet_NaN()) : bits;
}

uint64_t scalar(Op op, DType type, DType result, std::span<const uint64_t> args) {
  if (ir::info(op).flags & ir::exact) return one_nan(result, ir::eval_scalar(op, type, args, result));
  double x = ir::as_double(type, args[0]), y = args.size() > 1 ? ir::as_double(type, args[1]) : 0;
  return ir::bits_of(result, reference(op, x, y));
}

void elementwise(Op op, const std::vector<const Tensor*>& in, Tensor& out) {
  DType type = in[op == Op::select ? 1 : 0]->dtype;
  for (size_t i = 0; i < out.size(); ++i) {
    std::array<uint64_t, 3> args{};
    for (size_t k = 0; k < in.size(); ++k) args[k] = in[k]->bits[i];
    out.bits[i] = scalar(op, type, out.dtype, std::span(args.data(), in.size()));
  }
}

// The operand's element that stands at `at` in the result of a movement; nullptr outside (pad).
const uint64_t* moved(Op op, const Attrs& attrs, const std::vector<int64_t>& exprs, const Tensor& x, const Index& at) {
  Index from(x.shape.size());
  for (size_t i = 0; i < from.size(); ++i) {
    switch (op) {
      case Op::permute:
        from[static_cast<size_t>(attrs.ints[i])] = at[i];
        break;
      case Op::expand:
        from[i] = x.shape[i] == 1 ? 0 : at[i];
        break;
      case Op::slice:
        from[i] = exprs[i] + attrs.ints[i] * at[i];
        break;
      case Op::window:
        from[i] = static_cast<int64_t>(i) == attrs.ints[0] ? attrs.ints[1] * at[i] + attrs.ints[2] * at.back() : at[i];
        break;
      case Op::flip:
        from[i] =
            std::find(attrs.ints.begin(), attrs.ints.end(), static_cast<int64_t>(i)) != attrs.ints.end() ? x.shape[i] - 1 - at[i] : at[i];
        break;
      default:
        from[i] = at[i] - exprs[i];
        if (from[i] < 0 || from[i] >= x.shape[i]) return nullptr;
    }
  }
  return &x.bits[offset(x.shape, from)];
}

void movement(Op op, const Attrs& attrs, const std::vector<int64_t>& exprs, const std::vector<const Tensor*>& in, Tensor& out) {
  if (op == Op::reshape) {
    out.bits = in[0]->bits;
    return;
  }
  size_t n = 0;
  for_each(out.shape, [&](const Index& at) {
    if (op != Op::concat) {
      const uint64_t* p = moved(op, attrs, exprs, *in[0], at);
      out.bits[n++] = p ? *p : attrs.bits;
      return;
    }
    Index from = at;
    size_t axis = static_cast<size_t>(attrs.ints[0]);
    for (const Tensor* part : in) {
      if (from[axis] < part->shape[axis]) {
        out.bits[n++] = part->bits[offset(part->shape, from)];
        return;
      }
      from[axis] -= part->shape[axis];
    }
  });
}

uint64_t combine(Op op, DType t, uint64_t a, uint64_t b) {
  Op f = op == Op::reduce_sum || op == Op::cumsum     ? Op::add
         : op == Op::reduce_prod || op == Op::cumprod ? Op::mul
         : op == Op::reduce_max || op == Op::cummax   ? Op::max
                                                      : Op::min;
  return ir::eval_scalar(f, t, std::array{a, b}, t);
}

// a takes the place of b as the extremum so far.
bool wins(Op op, DType t, uint64_t a, uint64_t b) {
  bool a_nan = std::isnan(ir::as_double(t, a)), b_nan = std::isnan(ir::as_double(t, b));
  if (is_float(t) && (a_nan || b_nan)) return a_nan && !b_nan;
  bool max = op == Op::reduce_argmax;
  return ir::eval_scalar(Op::lt, t, std::array{max ? b : a, max ? a : b}, DType::b8) != 0;
}

void reduce(Op op, const Attrs& attrs, const Tensor& x, Tensor& out) {
  bool index = ir::info(op).kind == OpKind::reduce_index;
  std::vector<int64_t> seen(out.size(), 0);
  std::vector<uint64_t> best(out.size(), index ? 0 : *ir::reduction_identity(op, x.dtype));
  size_t n = 0;
  for_each(x.shape, [&](const Index& at) {
    Index to;
    for (size_t i = 0; i < at.size(); ++i)
      if (std::find(attrs.ints.begin(), attrs.ints.end(), static_cast<int64_t>(i)) == attrs.ints.end()) to.push_back(at[i]);
    size_t o = offset(out.shape, to);
    uint64_t v = x.bits[n++];
    if (!index) {
      best[o] = combine(op, x.dtype, best[o], v);
    } else if (seen[o] == 0 || wins(op, x.dtype, v, best[o])) {
      best[o] = v;
      out.bits[o] = static_cast<uint64_t>(seen[o]);
    }
    ++seen[o];
  });
  if (!index) out.bits = best;
}

void scan(Op op, const Attrs& attrs, const Tensor& x, Tensor& out) {
  size_t axis = static_cast<size_t>(attrs.ints[0]);
  for_each(x.shape, [&](const Index& at) {
    Index before = at;
    --before[axis];
    uint64_t so_far = at[axis] ? out.bits[offset(x.shape, before)] : *ir::reduction_identity(op, x.dtype);
    size_t o = offset(x.shape, at);
    out.bits[o] = combine(op, x.dtype, so_far, x.bits[o]);
  });
}

void sort(const Attrs& attrs, const Tensor& x, Tensor& out) {
  size_t axis = static_cast<size_t>(attrs.ints[0]), n = 0;
  auto before = [&](uint64_t a, uint64_t b) {
    if (attrs.ints[1]) std::swap(a, b);
    bool floats = is_float(x.dtype);
    if (floats && std::isnan(ir::as_double(x.dtype, a))) return false;
    if (floats && std::isnan(ir::as_double(x.dtype, b))) return true;
    return ir::eval_scalar(Op::lt, x.dtype, std::array{a, b}, DType::b8) != 0;
  };
  for_each(out.shape, [&](const Index& at) {
    // The element with as many before it as the place says.
    Index i = at, j = at;
    for (i[axis] = 0; i[axis] < x.shape[axis]; ++i[axis]) {
      int64_t place = 0;
      uint64_t mine = x.bits[offset(x.shape, i)];
      for (j[axis] = 0; j[axis] < x.shape[axis]; ++j[axis]) {
        uint64_t other = x.bits[offset(x.shape, j)];
        place += before(other, mine) || (!before(mine, other) && j[axis] < i[axis]);
      }
      if (place == at[axis]) out.bits[n] = static_cast<uint64_t>(i[axis]);
    }
    ++n;
  });
}

void product(const Tensor& l, const Tensor& r, Tensor& out) {
  DType t = out.dtype;
  auto load = [&](const Tensor& x, const Index& at) {
    return ir::eval_scalar(Op::cast, x.dtype, std::array{x.bits[offset(x.shape, at)]}, t);
  };
  size_t rank = out.shape.size(), n = 0;
  for_each(out.shape, [&](const Index& at) {
    uint64_t sum = 0;
    Index a = at, b = at;
    for (int64_t k = 0; k < l.shape[rank - 1]; ++k) {
      a[rank - 1] = b[rank - 2] = k;
      uint64_t term = ir::eval_scalar(Op::mul, t, std::array{load(l, a), load(r, b)}, t);
      sum = ir::eval_scalar(Op::add, t, std::array{sum, term}, t);
    }
    out.bits[n++] = sum;
  });
}

// softmax(scale * q k^T + bias) v in double.
void attend(const Attrs& attrs, const std::vector<const Tensor*>& in, Tensor& out) {
  const Tensor &q = *in[0], &k = *in[1], &v = *in[2];
  size_t h = q.shape.size() - 3, n = 0;
  int64_t group = q.shape[h] / k.shape[h], keys = k.shape[h + 1], depth = q.shape[h + 2];
  auto load = [](const Tensor& t, const Index& at) { return ir::as_double(t.dtype, t.bits[offset(t.shape, at)]); };
  for_each(out.shape, [&](const Index& at) {
    Index head = at;
    head[h] /= group;
    double top = 0, bottom = 0;
    for (int64_t j = 0; j < keys; ++j) {
      double score = 0;
      Index a = at, b = head;
      b[h + 1] = j;
      for (a[h + 2] = b[h + 2] = 0; a[h + 2] < depth; ++a[h + 2], ++b[h + 2]) score += load(q, a) * load(k, b);
      score *= std::bit_cast<double>(attrs.bits);
      if (auto cap = std::bit_cast<double>(attrs.ints[1]); cap > 0) score = cap * std::tanh(score / cap);
      bool keep = attrs.ints[0] == 0 || j <= at[h + 1];
      if (in.size() == 4) {
        Index where(at.begin() + static_cast<ptrdiff_t>(at.size() - in[3]->shape.size()), at.end());
        where.back() = j;
        for (size_t i = 0; i < where.size(); ++i) where[i] = in[3]->shape[i] == 1 ? 0 : where[i];
        double bias = load(*in[3], where);
        if (in[3]->dtype == DType::b8)
          keep = keep && bias != 0;
        else
          score += bias;
      }
      if (!keep) continue;
      b[h + 2] = at[h + 2];
      top += std::exp(score) * load(v, b);
      bottom += std::exp(score);
    }
    out.bits[n++] = ir::bits_of(out.dtype, bottom == 0 ? 0 : top / bottom);
  });
}

// The operand's index for a point of the result of a take; -1 in the axis for an index out of bounds.
Index gathered(const Tensor& x, const Tensor& indices, size_t axis, int64_t batch, const Index& at) {
  size_t k = indices.shape.size() - static_cast<size_t>(batch);
  Index where(at.begin(), at.begin() + batch);
  where.insert(where.end(), at.begin() + static_cast<ptrdiff_t>(axis), at.begin() + static_cast<ptrdiff_t>(axis + k));
  int64_t i = ir::as_integer(indices.dtype, indices.bits[offset(indices.shape, where)]), n = x.shape[axis];
  if (i < 0) i += n;
  Index from(at.begin(), at.begin() + static_cast<ptrdiff_t>(axis));
  from.push_back(i >= 0 && i < n ? i : -1);
  from.insert(from.end(), at.begin() + static_cast<ptrdiff_t>(axis + k), at.end());
  return from;
}

void take(const Attrs& attrs, const Tensor& x, const Tensor& indices, Tensor& out) {
  size_t axis = static_cast<size_t>(attrs.ints[0]), n = 0;
  for_each(out.shape, [&](const Index& at) {
    Index from = gathered(x, indices, axis, attrs.ints[1], at);
    out.bits[n++] = from[axis] < 0 ? 0 : x.bits[offset(x.shape, from)];
  });
}

void scatter(const Attrs& attrs, const std::vector<const Tensor*>& in, Tensor& out) {
  constexpr Op modes[] = {Op::reduce_sum, Op::reduce_sum, Op::reduce_prod, Op::reduce_max, Op::reduce_min};
  out.bits = in[0]->bits;
  size_t axis = static_cast<size_t>(attrs.ints[0]), n = 0;
  for_each(in[2]->shape, [&](const Index& at) {
    Index to = gathered(out, *in[1], axis, attrs.ints[2], at);
    uint64_t update = in[2]->bits[n++];
    if (to[axis] < 0) return;
    uint64_t& slot = out.bits[offset(out.shape, to)];
    slot = attrs.ints[1] == 0 ? update : combine(modes[attrs.ints[1]], out.dtype, slot, update);
  });
}

void leaf(Op op, const Attrs& attrs, Tensor& out) {
  size_t n = 0;
  for_each(out.shape, [&](const Index& at) {
    uint64_t coordinate = op == Op::iota ? static_cast<uint64_t>(at[static_cast<size_t>(attrs.ints[0])]) : 0;
    out.bits[n++] =
        op == Op::constant ? one_nan(out.dtype, attrs.bits) : ir::eval_scalar(Op::cast, DType::i64, std::array{coordinate}, out.dtype);
  });
}

}  // namespace

bool same(const Tensor& a, const Tensor& b) {
  if (a.dtype != b.dtype || a.shape != b.shape) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    bool nan = is_float(a.dtype) && std::isnan(ir::as_double(a.dtype, a.bits[i])) && std::isnan(ir::as_double(b.dtype, b.bits[i]));
    if (a.bits[i] != b.bits[i] && !nan) return false;
  }
  return true;
}

bool close(const Tensor& a, const Tensor& b, double tolerance) {
  if (a.dtype != b.dtype || a.shape != b.shape) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    double x = ir::as_double(a.dtype, a.bits[i]), y = ir::as_double(b.dtype, b.bits[i]);
    if (std::isnan(x) && std::isnan(y)) continue;
    if (x == y) continue;
    if (!(std::abs(x - y) <= tolerance * std::max({1.0, std::abs(x), std::abs(y)}))) return false;
  }
  return true;
}

std::string text(const Tensor& t) {
  std::string out = fmt::format("{}[{}]{{", name_of(t.dtype), fmt::join(t.shape, ", "));
  for (uint64_t b : t.bits) out += fmt::format(" {}", ir::as_double(t.dtype, b));
  return out + " }";
}

Tensor filled(DType dtype, std::vector<int64_t> shape, uint64_t bits) {
  size_t n = static_cast<size_t>(count(shape));
  return {dtype, std::move(shape), std::vector<uint64_t>(n, bits)};
}

Tensor evaluate(Op op, const Attrs& attrs, DType dtype, const Shape& shape, const std::vector<const Tensor*>& inputs,
                std::span<const int64_t> symbols) {
  Index concrete;
  for (const Expr& d : shape) concrete.push_back(d.eval(symbols));
  Tensor out = filled(dtype, std::move(concrete), 0);
  std::vector<int64_t> exprs;
  for (const Expr& e : attrs.exprs) exprs.push_back(e.eval(symbols));
  switch (ir::info(op).kind) {
    case OpKind::leaf:
      leaf(op, attrs, out);
      break;
    case OpKind::movement:
      movement(op, attrs, exprs, inputs, out);
      break;
    case OpKind::reduce:
    case OpKind::reduce_index:
      reduce(op, attrs, *inputs[0], out);
      break;
    case OpKind::scan:
      scan(op, attrs, *inputs[0], out);
      break;
    case OpKind::sort:
      sort(attrs, *inputs[0], out);
      break;
    case OpKind::dot:
      product(*inputs[0], *inputs[1], out);
      break;
    case OpKind::attention:
      attend(attrs, inputs, out);
      break;
    case OpKind::take:
      take(attrs, *inputs[0], *inputs[1], out);
      break;
    case OpKind::scatter:
      scatter(attrs, inputs, out);
      break;
    default:
      elementwise(op, inputs, out);
  }
  return out;
}

std::vector<Tensor> evaluate(const ir::Graph& graph, const std::map<int, Tensor>& parameters, std::span<const int64_t> symbols) {
  std::vector<Tensor> values(graph.nodes().size());
  for (ir::Value v : ir::live_nodes(graph)) {
    std::vector<const Tensor*> inputs;
    for (ir::Value x : v->inputs) inputs.push_back(&values[x->id]);
    values[v->id] = v->is(Op::parameter) ? parameters.at(static_cast<int>(v->attrs.ints[0]))
                                         : evaluate(v->op, v->attrs, v->dtype, v->shape, inputs, symbols);
  }
  std::vector<Tensor> out;
  for (const ir::Output& o : graph.outputs) out.push_back(values[o.value->id]);
  return out;
}

}  // namespace hologram::test

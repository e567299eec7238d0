// ir/infer.cpp: dtype and shape rules of operations.
#include "ir/infer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <utility>

#include "base/expr_format.h"
#include "ir/scalar.h"

namespace hologram::ir {
namespace {

// An operand in a message, which few are.
struct Text {
  Value v;
};
Text text(Value v) { return {v}; }

}  // namespace
}  // namespace hologram::ir

template <>
struct fmt::formatter<hologram::ir::Text> : fmt::formatter<std::string_view> {
  auto format(const hologram::ir::Text& t, format_context& context) const {
    return fmt::format_to(context.out(), "{}{}", hologram::name_of(t.v->dtype), t.v->shape);
  }
};

namespace hologram::ir {
namespace {

class Rule {
 public:
  Rule(Op op, const std::vector<Value>& inputs, Attrs& attrs, std::optional<DType> dtype,
       const std::optional<Shape>& shape)
      : op_(op), in_(inputs), attrs_(attrs), dtype_(dtype), shape_(shape) {}

  Type run() {
    arity();
    unused();
    if (shape_) dimensions(*shape_);
    Type t = type();
    if (dtype_ && *dtype_ != t.dtype)
      bad("the result is {}, not {}", name_of(t.dtype), name_of(*dtype_));
    if (shape_ && *shape_ != t.shape) bad("the result's shape is {}, not {}", t.shape, *shape_);
    return t;
  }

 private:
  template <class... Args>
  [[noreturn]] void bad(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::invalid_argument, "{}: {}", name_of(op_),
         fmt::format(format, std::forward<Args>(args)...));
  }

  template <class... Args>
  void need(bool condition, fmt::format_string<Args...> format, Args&&... args) const {
    if (!condition) bad(format, std::forward<Args>(args)...);
  }

  void arity() const {
    int n = info(op_).arity;
    need(n < 0 || static_cast<size_t>(n) == in_.size(), "takes {} operands, got {}", n, in_.size());
    for (size_t i = 0; i < in_.size(); ++i) need(in_[i] != nullptr, "operand {} is null", i);
    OpKind kind = info(op_).kind;
    if (kind == OpKind::external || kind == OpKind::external_result) return;
    for (size_t i = 0; i < in_.size(); ++i)
      need(in_[i]->dtype != DType::host,
           "operand {} is a value of the host; only host calls take it", i);
  }

  // Attributes that the op's row does not name must be left alone.
  void unused() const {
    std::string_view names = info(op_).attributes;
    auto has = [&](std::string_view kind) { return names.find(kind) != std::string_view::npos; };
    need(has("ints:") || attrs_.ints.empty(), "has no integer attributes, got {}",
         attrs_.ints.size());
    need(has("exprs:") || attrs_.exprs.empty(), "has no size attributes, got {}",
         attrs_.exprs.size());
    need(has("bits:") || attrs_.bits == 0, "has no scalar attribute, got {:#x}", attrs_.bits);
    need(has("text:") || attrs_.text.empty(), "has no name, got \"{}\"", attrs_.text);
  }

  void symbolic(const Expr& e, std::string_view what) const {
    if (e.is_const()) return;
    need(!e.any_atom([](const Atom& a) {
      return a.kind == Atom::Kind::axis || a.kind == Atom::Kind::value;
    }),
         "{} {} may contain symbols, not axes or values", what, e);
  }

  void dimensions(const Shape& shape) const {
    for (const Expr& d : shape) {
      symbolic(d, "dimension");
      need(!provably_less(d, Expr(0)), "dimension {} of {} is negative", d, shape);
    }
  }

  void count(std::string_view name, size_t got, size_t expected) const {
    need(got == expected, "attribute {} has {} entries, expected {}", name, got, expected);
  }

  // ints must be one axis of `rank`.
  int axis(int rank) const {
    count("axis", attrs_.ints.size(), 1);
    need(attrs_.ints[0] >= 0 && attrs_.ints[0] < rank, "axis {} is outside [0, {})", attrs_.ints[0],
         rank);
    return static_cast<int>(attrs_.ints[0]);
  }

  // ints must be distinct axes of `rank`.
  void axes(int rank) const {
    std::set<int64_t> seen;
    for (int64_t a : attrs_.ints) {
      need(a >= 0 && a < rank, "axis {} is outside [0, {})", a, rank);
      need(seen.insert(a).second, "axis {} occurs twice", a);
    }
  }

  const Shape& given() const {
    need(shape_.has_value(), "needs the result's shape");
    return *shape_;
  }

  DType given_dtype() const {
    need(dtype_.has_value(), "needs the result's dtype");
    return *dtype_;
  }

  void strides(DType dtype, size_t rank) const {
    count("strides", attrs_.exprs.size(), dtype == DType::host ? 0 : rank);
    for (const Expr& e : attrs_.exprs) symbolic(e, "stride");
  }

  void scalar_bits(DType t) const {
    int width = 8 * size_of(t);
    need(width == 64 || attrs_.bits >> width == 0, "value {:#x} does not fit {}", attrs_.bits,
         name_of(t));
    need(t != DType::b8 || attrs_.bits <= 1, "value {:#x} is not a truth value", attrs_.bits);
  }

  Type leaf() const {
    DType t = given_dtype();
    if (op_ == Op::parameter) {
      count("index", attrs_.ints.size(), 1);
      need(attrs_.ints[0] >= 0 && attrs_.ints[0] < (1 << 24), "index {} is outside [0, 2^24)",
           attrs_.ints[0]);
      strides(t, given().size());
      return {t, given()};
    }
    need(t != DType::host, "cannot make a value of the host");
    if (op_ == Op::constant) {
      scalar_bits(t);
    } else {
      need(t != DType::b8, "is not defined on b8");
      axis(static_cast<int>(given().size()));
    }
    return {t, given()};
  }

  // Operands from `first` on must agree in dtype and shape.
  void same(size_t first) const {
    for (size_t i = first + 1; i < in_.size(); ++i) {
      need(in_[i]->dtype == in_[first]->dtype && in_[i]->shape == in_[first]->shape,
           "operand {} is {}, expected {} like operand {}", i, text(in_[i]), text(in_[first]),
           first);
    }
  }

  Type elementwise() const {
    same(0);
    DType t = in_[0]->dtype;
    need(accepts(op_, t), "is not defined on {}", name_of(t));
    return {info(op_).kind == OpKind::compare ? DType::b8 : t, in_[0]->shape};
  }

  Type select() const {
    need(in_[0]->dtype == DType::b8, "operand 0 is {}, expected a condition of type b8",
         text(in_[0]));
    need(in_[0]->shape == in_[1]->shape, "operand 1 is {}, expected the condition's shape {}",
         text(in_[1]), in_[0]->shape);
    same(1);
    return {in_[1]->dtype, in_[1]->shape};
  }

  Type cast() const {
    DType from = in_[0]->dtype, to = given_dtype();
    need(to != DType::host, "cannot make a value of the host");
    if (op_ == Op::bitcast) {
      need(size_of(from) == size_of(to), "{} and {} differ in size", name_of(from), name_of(to));
      need(to != DType::b8 || from == to, "cannot reinterpret {} as b8", name_of(from));
    }
    return {to, in_[0]->shape};
  }

  Type reduce() {
    axes(in_[0]->rank());
    need(accepts(op_, in_[0]->dtype), "is not defined on {}", name_of(in_[0]->dtype));
    std::sort(attrs_.ints.begin(), attrs_.ints.end());
    Shape out;
    for (int i = 0; i < in_[0]->rank(); ++i)
      if (!std::binary_search(attrs_.ints.begin(), attrs_.ints.end(), i))
        out.push_back(in_[0]->shape[static_cast<size_t>(i)]);
    return {info(op_).kind == OpKind::reduce_index ? DType::i64 : in_[0]->dtype, out};
  }

  Type scan() const {
    need(accepts(op_, in_[0]->dtype), "is not defined on {}", name_of(in_[0]->dtype));
    axis(in_[0]->rank());
    return {in_[0]->dtype, in_[0]->shape};
  }

  Type sort() {
    while (!attrs_.ints.empty() && attrs_.ints.size() < 3) attrs_.ints.push_back(0);
    count("axis,descending,first", attrs_.ints.size(), 3);
    count("count", attrs_.exprs.size(), 1);
    const Shape& from = in_[0]->shape;
    int64_t axis = attrs_.ints[0];
    need(axis >= 0 && axis < in_[0]->rank(), "axis {} is outside [0, {})", axis, in_[0]->rank());
    need(attrs_.ints[1] == 0 || attrs_.ints[1] == 1, "descending is {}, expected 0 or 1",
         attrs_.ints[1]);
    const Expr& n = attrs_.exprs[0];
    symbolic(n, "count");
    Shape out = from;
    Expr& length = out[static_cast<size_t>(axis)];
    const int64_t first = attrs_.ints[2];
    need(first >= 0 && first <= INT32_MAX, "first is {}, expected 0 to {}", first, INT32_MAX);
    need(!provably_less(n, Expr(0)) && !provably_less(length, n + Expr(first)),
         "a count of {} from {} of {} elements", n, first, length);
    length = n;
    return {DType::i64, out};
  }

  void same_rank() const {
    need(given().size() == in_[0]->shape.size(), "operand {} and result shape {} differ in rank",
         text(in_[0]), given());
  }

  Type reshape() const {
    Expr from = numel(in_[0]->shape), to = numel(given());
    need(!provably_less(from, to) && !provably_less(to, from),
         "cannot turn {} ({} elements) into {} ({})", text(in_[0]), from, given(), to);
    return {in_[0]->dtype, given()};
  }

  Type permute() const {
    axes(in_[0]->rank());
    count("axes", attrs_.ints.size(), in_[0]->shape.size());
    Shape out;
    for (int64_t a : attrs_.ints) out.push_back(in_[0]->shape[static_cast<size_t>(a)]);
    return {in_[0]->dtype, out};
  }

  Type expand() const {
    same_rank();
    for (size_t i = 0; i < given().size(); ++i)
      need(in_[0]->shape[i].is(1) || in_[0]->shape[i] == given()[i],
           "axis {} of {} cannot become {}; only a dimension of 1 is repeated", i, text(in_[0]),
           given()[i]);
    return {in_[0]->dtype, given()};
  }

  Type slice() {
    same_rank();
    size_t rank = given().size();
    count("starts", attrs_.exprs.size(), rank);
    if (attrs_.ints.empty()) attrs_.ints.assign(rank, 1);
    count("steps", attrs_.ints.size(), rank);
    for (size_t i = 0; i < rank; ++i) {
      const Expr &start = attrs_.exprs[i], &n = given()[i], &d = in_[0]->shape[i];
      symbolic(start, "start");
      need(attrs_.ints[i] > 0, "step {} along axis {} is not positive", attrs_.ints[i], i);
      if (n.is(1)) attrs_.ints[i] = 1;
      if (!provably_nonnegative(n - Expr(1))) continue;
      Expr last = start + Expr(attrs_.ints[i]) * (n - Expr(1));
      need(!provably_less(start, Expr(0)) && !provably_less(d - Expr(1), last),
           "elements {} to {} along axis {} of {} are out of bounds", start, last, i, text(in_[0]));
    }
    return {in_[0]->dtype, given()};
  }

  Type pad() const {
    same_rank();
    count("low", attrs_.exprs.size(), given().size());
    for (const Expr& e : attrs_.exprs) symbolic(e, "low");
    scalar_bits(in_[0]->dtype);
    return {in_[0]->dtype, given()};
  }

  Type window() const {
    count("axis, step, dilation", attrs_.ints.size(), 3);
    int64_t axis = attrs_.ints[0], step = attrs_.ints[1], dilation = attrs_.ints[2];
    need(axis >= 0 && axis < in_[0]->rank(), "axis {} is outside [0, {})", axis, in_[0]->rank());
    need(step > 0 && dilation > 0, "step {} or dilation {} is not positive", step, dilation);
    need(given().size() == in_[0]->shape.size() + 1, "windows of {} cannot have the shape {}",
         text(in_[0]), given());
    const Expr &many = given()[static_cast<size_t>(axis)], &size = given().back();
    Shape rest = in_[0]->shape;
    const Expr n = std::exchange(rest[static_cast<size_t>(axis)], many);
    rest.push_back(size);
    need(rest == given(), "windows of {} cannot have the shape {}", text(in_[0]), given());
    Expr last = Expr(step) * (many - Expr(1)) + Expr(dilation) * (size - Expr(1));
    bool some = provably_nonnegative(many - Expr(1)) && provably_nonnegative(size - Expr(1));
    need(!some || !provably_less(n - Expr(1), last),
         "element {} along axis {} of {} is out of bounds", last, axis, text(in_[0]));
    return {in_[0]->dtype, given()};
  }

  Type concat() const {
    need(!in_.empty(), "needs at least one operand");
    size_t a = static_cast<size_t>(axis(in_[0]->rank()));
    Shape out = in_[0]->shape;
    for (size_t i = 1; i < in_.size(); ++i) {
      Shape want = in_[0]->shape;
      if (in_[i]->rank() == in_[0]->rank()) want[a] = in_[i]->shape[a];
      need(in_[i]->dtype == in_[0]->dtype && in_[i]->shape == want,
           "operand {} is {}, expected {} but for axis {}", i, text(in_[i]), text(in_[0]), a);
      out[a] += in_[i]->shape[a];
    }
    return {in_[0]->dtype, out};
  }

  Type movement() {
    switch (op_) {
      case Op::reshape:
        return reshape();
      case Op::permute:
        return permute();
      case Op::expand:
        return expand();
      case Op::slice:
        return slice();
      case Op::flip:
        axes(in_[0]->rank());
        std::sort(attrs_.ints.begin(), attrs_.ints.end());
        std::erase_if(attrs_.ints,
                      [&](int64_t a) { return in_[0]->shape[static_cast<size_t>(a)].is(1); });
        return {in_[0]->dtype, in_[0]->shape};
      case Op::pad:
        return pad();
      case Op::window:
        return window();
      default:
        return concat();
    }
  }

  void precision() {
    if (attrs_.ints.empty()) attrs_.ints = {0};
    count("precision", attrs_.ints.size(), 1);
    need(attrs_.ints[0] >= 0 && attrs_.ints[0] <= 2, "precision {} is none of 0, 1, 2",
         attrs_.ints[0]);
  }

  Type dot() {
    precision();
    const Shape &l = in_[0]->shape, &r = in_[1]->shape;
    need(l.size() >= 2 && l.size() == r.size(), "operands {} and {} need one rank of at least 2",
         text(in_[0]), text(in_[1]));
    size_t b = l.size() - 2;
    for (size_t i = 0; i < b; ++i)
      need(l[i] == r[i], "batch axis {} is {} in {} and {} in {}", i, l[i], text(in_[0]), r[i],
           text(in_[1]));
    need(l[b + 1] == r[b], "inner dimensions of {} and {} differ", text(in_[0]), text(in_[1]));
    Shape out(l.begin(), l.end());
    out[b + 1] = r[b + 1];
    return {dot_dtype(), out};
  }

  DType dot_dtype() const {
    DType x = in_[0]->dtype, y = in_[1]->dtype;
    bool bytes = (x == DType::i8 || x == DType::u8) && (y == DType::i8 || y == DType::u8);
    if (bytes && (dtype_ == DType::i32 || x != y)) return DType::i32;
    need(x == y, "operands {} and {} differ in dtype", text(in_[0]), text(in_[1]));
    need(x != DType::b8, "is not defined on b8");
    return dtype_ == DType::f32 && compute_type(x) == DType::f32 ? DType::f32 : x;
  }

  Type attention() {
    attrs_.ints.resize(std::max<size_t>(attrs_.ints.size(), 2));
    count("causal and softcap", attrs_.ints.size(), 2);
    need(in_.size() == 3 || in_.size() == 4, "takes 3 or 4 operands, got {}", in_.size());
    scores(attrs_.ints[0], attrs_.ints[1], in_.size() == 4 ? in_[3] : nullptr);
    Shape out = in_[0]->shape;
    if (op_ == Op::attention_lse) {
      out.pop_back();
      return {compute_type(in_[0]->dtype), out};
    }
    out.back() = in_[2]->shape.back();
    return {in_[0]->dtype, out};
  }

  Type attention_grad() {
    attrs_.ints.resize(std::max<size_t>(attrs_.ints.size(), 3));
    count("operand, causal and softcap", attrs_.ints.size(), 3);
    int64_t operand = attrs_.ints[0];
    need(operand >= 0 && operand < 3, "operand {} is outside [0, 3)", operand);
    need(in_.size() == 6 || in_.size() == 7, "takes 6 or 7 operands, got {}", in_.size());
    scores(attrs_.ints[1], attrs_.ints[2], in_.size() == 7 ? in_[6] : nullptr);
    Shape rows = in_[0]->shape, out = rows;
    out.back() = in_[2]->shape.back();
    rows.pop_back();
    need(in_[3]->dtype == in_[0]->dtype && in_[3]->shape == out, "gradient is {}, expected {}{}",
         text(in_[3]), name_of(in_[0]->dtype), out);
    for (size_t i = 4; i < 6; ++i)
      need(in_[i]->dtype == compute_type(in_[0]->dtype) && in_[i]->shape == rows,
           "operand {} is {}, expected {}{}", i, text(in_[i]), name_of(compute_type(in_[0]->dtype)),
           rows);
    return {in_[0]->dtype, in_[static_cast<size_t>(operand)]->shape};
  }

  // What attention and its gradients ask of q, k, v, the mask, the cap and the bias.
  void scores(int64_t causal, int64_t softcap, Value added) const {
    auto cap = std::bit_cast<double>(softcap);
    need(cap >= 0 && std::isfinite(cap), "softcap {} is not positive", cap);
    need(causal == 0 || causal == 1, "causal {} is neither 0 nor 1", causal);
    const Shape &q = in_[0]->shape, &k = in_[1]->shape, &v = in_[2]->shape;
    need(is_float(in_[0]->dtype), "operand 0 is {}, expected floats", text(in_[0]));
    for (size_t i = 0; i < 3; ++i)
      need(in_[i]->dtype == in_[0]->dtype && in_[i]->shape.size() == q.size() && q.size() >= 3,
           "operand {} is {}, expected the dtype of {} and one rank of at least 3", i, text(in_[i]),
           text(in_[0]));
    size_t b = q.size() - 3;
    for (size_t i = 0; i < b; ++i)
      need(q[i] == k[i] && q[i] == v[i], "batch axis {} of {}, {} and {} differs", i, text(in_[0]),
           text(in_[1]), text(in_[2]));
    need(k[b] == v[b] && k[b + 1] == v[b + 1], "keys {} and values {} differ", text(in_[1]),
         text(in_[2]));
    need(q[b + 2] == k[b + 2], "queries {} and keys {} differ in their last axis", text(in_[0]),
         text(in_[1]));
    need(q[b].exact_div(k[b]).has_value(), "{} heads are not a multiple of {} key heads", q[b],
         k[b]);
    if (added) bias(added, q, k[b + 1]);
  }

  void bias(Value added, const Shape& q, const Expr& keys) const {
    Shape scores = q;
    scores.back() = keys;
    const Shape& s = added->shape;
    need(added->dtype == DType::b8 || added->dtype == in_[0]->dtype, "bias {} is neither b8 nor {}",
         text(added), name_of(in_[0]->dtype));
    bool fits = s.size() <= scores.size();
    for (size_t i = 0; fits && i < s.size(); ++i) {
      const Expr& d = scores[scores.size() - s.size() + i];
      fits = s[i].is(1) || s[i] == d;
    }
    need(fits, "bias {} does not broadcast to {}", text(added), scores);
  }

  void indices() const {
    need(is_int(in_[1]->dtype), "indices are {}, expected integers", text(in_[1]));
  }

  // The operand's shape with axis `a` replaced by the dimensions of the indices behind `batch`
  // ones.
  Shape indexed(int64_t a, int64_t batch) const {
    const Shape &from = in_[0]->shape, &indices = in_[1]->shape;
    need(a >= 0 && a < in_[0]->rank(), "axis {} is outside [0, {})", a, in_[0]->rank());
    need(batch >= 0 && batch <= std::min<int64_t>(a, in_[1]->rank()), "batch {} is outside [0, {}]",
         batch, std::min<int64_t>(a, in_[1]->rank()));
    need(std::equal(indices.begin(), indices.begin() + batch, from.begin()),
         "the first {} dimensions of the indices {} are not those of {}", batch, indices, from);
    Shape out(from.begin(), from.begin() + a);
    out.insert(out.end(), indices.begin() + batch, indices.end());
    out.insert(out.end(), from.begin() + a + 1, from.end());
    return out;
  }

  Type take() {
    indices();
    if (attrs_.ints.size() == 1) attrs_.ints.push_back(0);
    count("axis,batch", attrs_.ints.size(), 2);
    return {in_[0]->dtype, indexed(attrs_.ints[0], attrs_.ints[1])};
  }

  Type scatter() {
    indices();
    while (!attrs_.ints.empty() && attrs_.ints.size() < 3) attrs_.ints.push_back(0);
    count("axis,mode,batch", attrs_.ints.size(), 3);
    int64_t mode = attrs_.ints[1];
    need(mode >= 0 && mode <= 4, "mode {} is outside [0, 4]", mode);
    Shape want = indexed(attrs_.ints[0], attrs_.ints[2]);
    need(in_[2]->dtype == in_[0]->dtype && in_[2]->shape == want, "updates are {}, expected {}{}",
         text(in_[2]), name_of(in_[0]->dtype), want);
    return {in_[0]->dtype, in_[0]->shape};
  }

  Type host_call() {
    if (attrs_.ints.size() == 1) attrs_.ints.push_back(0);
    count("callee,timing", attrs_.ints.size(), 2);
    need(attrs_.ints[1] >= 0 && attrs_.ints[1] <= 2, "timing {} is outside [0, 2]", attrs_.ints[1]);
    for (const Expr& e : attrs_.exprs) symbolic(e, "size");
    return {DType::host, {}};
  }

  Type host_result() const {
    need(in_[0]->is(Op::host_call), "operand 0 is a {}, expected a host_call", name_of(in_[0]->op));
    count("index", attrs_.ints.size(), 1);
    need(attrs_.ints[0] >= 0, "index {} is negative", attrs_.ints[0]);
    DType t = given_dtype();
    Shape shape = shape_.value_or(Shape{});
    strides(t, shape.size());
    return {t, shape};
  }

  Type type() {
    switch (info(op_).kind) {
      case OpKind::leaf:
        return leaf();
      case OpKind::select:
        return select();
      case OpKind::cast:
        return cast();
      case OpKind::movement:
        return movement();
      case OpKind::reduce:
      case OpKind::reduce_index:
        return reduce();
      case OpKind::scan:
        return scan();
      case OpKind::sort:
        return sort();
      case OpKind::dot:
        return dot();
      case OpKind::attention:
        return attention();
      case OpKind::attention_grad:
        return attention_grad();
      case OpKind::take:
        return take();
      case OpKind::scatter:
        return scatter();
      case OpKind::external:
        return host_call();
      case OpKind::external_result:
        return host_result();
      default:
        return elementwise();
    }
  }

  Op op_;
  const std::vector<Value>& in_;
  Attrs& attrs_;
  std::optional<DType> dtype_;
  const std::optional<Shape>& shape_;
};

}  // namespace

bool accepts(Op op, DType t) {
  if (t == DType::host) return false;
  switch (info(op).kind) {
    case OpKind::unary_float:
    case OpKind::binary_float:
    case OpKind::ternary_float:
      return is_float(t);
    case OpKind::unary_bits:
    case OpKind::binary_bits:
      return is_int(t) || t == DType::b8;
    case OpKind::binary_int:
      return is_int(t);
    default:
      break;
  }
  if (t != DType::b8) return true;
  return op != Op::neg && op != Op::sub && op != Op::div && op != Op::rem && op != Op::reduce_sum &&
         op != Op::reduce_prod && op != Op::cumsum && op != Op::cumprod;
}

Type infer(Op op, const std::vector<Value>& inputs, Attrs& attrs, std::optional<DType> dtype,
           const std::optional<Shape>& shape) {
  return Rule(op, inputs, attrs, dtype, shape).run();
}

}  // namespace hologram::ir

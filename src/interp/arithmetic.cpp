// interp/arithmetic.cpp: body arithmetic on batches: ir::eval_scalar, with loops for the
// commonest cases.
#include <bit>
#include <cmath>

#include "base/error.h"
#include "interp/lanes.h"
#include "ir/scalar.h"

namespace hologram::interp {
namespace {

using ir::Op;

template <class T>
struct Bits;
template <>
struct Bits<float> {
  using U = uint32_t;
};
template <>
struct Bits<double> {
  using U = uint64_t;
};

template <class T>
T get(uint64_t bits) {
  if constexpr (std::is_floating_point_v<T>)
    return std::bit_cast<T>(static_cast<typename Bits<T>::U>(bits));
  else
    return static_cast<T>(bits);
}

template <class T>
uint64_t put(T x) {
  if constexpr (std::is_floating_point_v<T>)
    return std::bit_cast<typename Bits<T>::U>(x);
  else
    return static_cast<std::make_unsigned_t<T>>(x);
}

struct Operands {
  const uint64_t *a, *b, *c;
  uint64_t* out;
  int n;
};

template <class T, class F>
bool map2(const Operands& o, F f) {
  for (int l = 0; l < o.n; ++l) o.out[l] = put<T>(f(get<T>(o.a[l]), get<T>(o.b[l])));
  return true;
}

template <class T, class F>
bool compare2(const Operands& o, F f) {
  for (int l = 0; l < o.n; ++l) o.out[l] = f(get<T>(o.a[l]), get<T>(o.b[l])) ? 1 : 0;
  return true;
}

template <class T>
bool compares(Op op, const Operands& o) {
  switch (op) {
    case Op::lt:
      return compare2<T>(o, [](T x, T y) { return x < y; });
    case Op::le:
      return compare2<T>(o, [](T x, T y) { return x <= y; });
    case Op::eq:
      return compare2<T>(o, [](T x, T y) { return x == y; });
    case Op::ne:
      return compare2<T>(o, [](T x, T y) { return x != y; });
    default:
      return false;
  }
}

template <class T>
bool floats(Op op, const Operands& o) {
  switch (op) {
    case Op::add:
      return map2<T>(o, [](T x, T y) { return x + y; });
    case Op::sub:
      return map2<T>(o, [](T x, T y) { return x - y; });
    case Op::mul:
      return map2<T>(o, [](T x, T y) { return x * y; });
    case Op::div:
      return map2<T>(o, [](T x, T y) { return x / y; });
    case Op::fma:
      for (int l = 0; l < o.n; ++l)
        o.out[l] = put<T>(std::fma(get<T>(o.a[l]), get<T>(o.b[l]), get<T>(o.c[l])));
      return true;
    default:
      return compares<T>(op, o);
  }
}

template <class T>
bool integers(Op op, const Operands& o) {
  using U = std::make_unsigned_t<T>;
  switch (op) {
    case Op::add:
      return map2<U>(o, [](U x, U y) { return static_cast<U>(x + y); });
    case Op::sub:
      return map2<U>(o, [](U x, U y) { return static_cast<U>(x - y); });
    case Op::mul:
      return map2<U>(o, [](U x, U y) { return static_cast<U>(x * y); });
    default:
      return compares<T>(op, o);
  }
}

// Loops that do what eval_scalar does; false for all others.
bool fast(const atlas::Instr& i, const Operands& o) {
  if (i.op == Op::select) {
    for (int l = 0; l < o.n; ++l) o.out[l] = o.a[l] ? o.b[l] : o.c[l];
    return true;
  }
  if (i.op == Op::bitcast) {
    std::copy_n(o.a, o.n, o.out);
    return true;
  }
  if (i.op == Op::bit_and || i.op == Op::bit_or || i.op == Op::bit_xor)
    return i.op == Op::bit_and  ? map2<uint64_t>(o, [](auto x, auto y) { return x & y; })
           : i.op == Op::bit_or ? map2<uint64_t>(o, [](auto x, auto y) { return x | y; })
                                : map2<uint64_t>(o, [](auto x, auto y) { return x ^ y; });
  switch (i.type) {
    case DType::f32:
      return floats<float>(i.op, o);
    case DType::f64:
      return floats<double>(i.op, o);
    case DType::i32:
      return integers<int32_t>(i.op, o);
    case DType::i64:
      return integers<int64_t>(i.op, o);
    default:
      return false;
  }
}

}  // namespace

void arithmetic(const atlas::Instr& i, const uint64_t* a, const uint64_t* b, const uint64_t* c,
                uint64_t* out, int n, bool* error) {
  if (fast(i, {a, b, c, out, n})) return;
  const ir::OpInfo& row = ir::info(i.op);
  check((row.flags & ir::exact) != 0, "interp: an op that expand_math should have replaced");
  bool cast = row.kind == ir::OpKind::cast;
  DType from = cast ? i.from : i.type, to = result_type(i);
  std::array<uint64_t, 3> args{};
  auto count = static_cast<size_t>(row.arity);
  for (int l = 0; l < n; ++l) {
    args = {a[l], b ? b[l] : 0, c ? c[l] : 0};
    out[l] = ir::eval_scalar(i.op, from, std::span(args).first(count), to, error);
  }
}

}  // namespace hologram::interp

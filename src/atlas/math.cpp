// atlas/math.cpp: appends the elementary functions of atlas/math/ to a body.
#include "atlas/math.h"

#include <bit>

#include "atlas/math/brief.h"
#include "atlas/math/functions.h"
#include "base/error.h"

namespace hologram::atlas {
namespace {

using math::dtype_of;

/// The arithmetic of math::Num that writes instructions.
class BodyArithmetic {
 public:
  template <class T>
  using Value = Val;

  explicit BodyArithmetic(BodyBuilder& builder) : builder_(builder) {}

  template <class T>
  Val constant(T c) {
    if constexpr (sizeof(T) == 8)
      return builder_.constant(dtype_of<T>, std::bit_cast<uint64_t>(c));
    else if constexpr (sizeof(T) == 4)
      return builder_.constant(dtype_of<T>, std::bit_cast<uint32_t>(c));
    else
      return builder_.constant(dtype_of<T>, c);
  }
  template <ir::Op op, class T, class... Rest>
  Val arithmetic(Rest... operands) {
    return builder_.op(op, operands...);
  }
  template <ir::Op op, class T>
  Val compare(Val x, Val y) {
    return builder_.op(op, x, y);
  }
  template <class T>
  Val select(Val c, Val x, Val y) {
    return builder_.select(c, x, y);
  }
  template <class To, class From>
  Val convert(Val x) {
    return builder_.cast(x, dtype_of<To>);
  }
  template <class To, class From>
  Val bits(Val x) {
    return builder_.bitcast(x, dtype_of<To>);
  }
  template <class T, size_t n>
  Val lookup(Val i, const std::array<T, n>& table) {
    std::vector<uint64_t> entries;
    for (T c : table) entries.push_back(std::bit_cast<uint32_t>(c));
    return builder_.lookup(dtype_of<T>, i, std::move(entries));
  }

 private:
  BodyBuilder& builder_;
};

template <class T>
Val emit(BodyArithmetic& b, ir::Op op, std::span<const Val> args) {
  using F = math::Num<BodyArithmetic, T>;
  bool known = false;
  Val result;
  if (args.size() == 1) result = math::elementary(op, F{&b, args[0]}, known).v;
  if (args.size() == 2) result = math::elementary(op, F{&b, args[0]}, F{&b, args[1]}, known).v;
  if (!known) fail(ErrorCode::internal, "emit_math: no sequence for {}", ir::name_of(op));
  return result;
}

}  // namespace

Val emit_math(BodyBuilder& b, ir::Op op, std::span<const Val> args) {
  BodyArithmetic arithmetic(b);
  DType type = args.empty() ? DType::host : args[0].type;
  if (type == DType::f32) return emit<float>(arithmetic, op, args);
  if (type == DType::f64) return emit<double>(arithmetic, op, args);
  fail(ErrorCode::internal, "emit_math: {} needs f32 or f64 operands, not {}", ir::name_of(op),
       name_of(type));
}

bool has_brief_math(ir::Op op) {
  return op == ir::Op::gelu || op == ir::Op::sin || op == ir::Op::cos;
}

Val emit_brief_math(BodyBuilder& b, ir::Op op, Val x) {
  BodyArithmetic arithmetic(b);
  bool known = false;
  Val result =
      math::brief_elementary(op, math::Num<BodyArithmetic, float>{&arithmetic, x}, known).v;
  check(known, "emit_brief_math: no sequence");
  return result;
}

}  // namespace hologram::atlas

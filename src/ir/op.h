// ir/op.h: the operation enumeration and its properties, from ops.def.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace hologram::ir {

enum class Op : uint8_t {
#define HOLOGRAM_OP(name, kind, arity, attributes, flags, doc) name,
#include "ir/ops.def"
};

inline constexpr int num_ops = 0
#define HOLOGRAM_OP(name, kind, arity, attributes, flags, doc) +1
#include "ir/ops.def"
    ;

/// Which dtype and shape rule an operation follows.
enum class OpKind : uint8_t {
  leaf,           ///< dtype and shape are given
  unary,          ///< any arithmetic dtype, same out
  unary_float,    ///< floats only
  unary_bits,     ///< integers and b8
  binary,         ///< two of one dtype and shape, same out
  binary_float,   ///< the same, floats only
  binary_bits,    ///< the same, integers and b8
  binary_int,     ///< the same, integers
  compare,        ///< two of one dtype and shape -> b8
  select,         ///< b8, then two of one dtype
  ternary_float,  ///< three of one float dtype
  cast,           ///< dtype is given
  movement,       ///< shape is given, dtype kept
  reduce,         ///< axes leave the shape
  reduce_index,   ///< the same, result i64
  scan,           ///< shape and dtype kept
  sort,           ///< one axis cut to a count, result i64
  dot,
  attention,
  attention_grad,
  take,
  scatter,
  external,
  external_result,
};

enum Flag : uint8_t {
  commutative = 1,
  idempotent = 2,  ///< f(f(x)) = f(x), or f(x, x) = x
  involution = 4,  ///< f(f(x)) = x
  exact = 8,       ///< one correctly rounded or exact machine operation; ir/scalar.h evaluates it
  odd = 16,        ///< f(-x) = -f(x)
  even = 32,       ///< f(-x) = f(x)
};

struct OpInfo {
  std::string_view name;
  OpKind kind;
  int arity;
  std::string_view attributes;
  uint8_t flags;
  std::string_view doc;
  double ulp32 = 0;  ///< bound of the error, in units in the last place; 0 for what is exact
  double ulp64 = 0;
};

const OpInfo& info(Op op);
inline std::string_view name_of(Op op) { return info(op).name; }
std::optional<Op> op_from_name(std::string_view name);

/// One value per element, computed from the elements at the same place (leaves apart).
inline bool is_elementwise(Op op) {
  OpKind k = info(op).kind;
  return k >= OpKind::unary && k <= OpKind::cast;
}

/// Elements of its operands at other places.
inline bool is_movement(Op op) { return info(op).kind == OpKind::movement; }

}  // namespace hologram::ir

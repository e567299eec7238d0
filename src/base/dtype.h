// base/dtype.h: element types.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace hologram {

/// Element types. `b8` is a truth value stored as a byte 0 or 1 (PyTorch's bool); `host` marks
/// values that only the host framework understands (complex, fp8, sparse, tuples): they pass
/// through extern calls and nothing else.
enum class DType : uint8_t { b8, u8, i8, i16, i32, i64, f16, bf16, f32, f64, u16, u32, u64, host };

inline constexpr int num_dtypes = 14;

/// Bytes per element; 0 for `host`.
int size_of(DType t);
/// "f32", "b8", …
std::string_view name_of(DType t);
std::optional<DType> dtype_from_name(std::string_view name);

constexpr bool is_float(DType t) {
  return t == DType::f16 || t == DType::bf16 || t == DType::f32 || t == DType::f64;
}
constexpr bool is_signed_int(DType t) {
  return t == DType::i8 || t == DType::i16 || t == DType::i32 || t == DType::i64;
}
constexpr bool is_unsigned_int(DType t) {
  return t == DType::u8 || t == DType::u16 || t == DType::u32 || t == DType::u64;
}
constexpr bool is_int(DType t) { return is_signed_int(t) || is_unsigned_int(t); }

/// The type in which arithmetic on `t` is done: f32 for f16 and bf16 (each operation then rounds),
/// else `t`.
constexpr DType compute_type(DType t) {
  return t == DType::f16 || t == DType::bf16 ? DType::f32 : t;
}

}  // namespace hologram

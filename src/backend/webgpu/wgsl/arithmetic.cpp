// backend/webgpu/wgsl/arithmetic.cpp: element-wise arithmetic as expressions of WGSL.
#include "backend/webgpu/wgsl/body.h"
#include "base/error.h"

namespace hologram::webgpu::wgsl {
namespace {

using ir::Op;
using Args = std::vector<std::string>;

std::string call(Unit& unit, std::string_view helper, const Args& a) {
  std::string list;
  for (const std::string& x : a) list += (list.empty() ? "" : ", ") + x;
  return fmt::format("{}({})", unit.helper(helper), list);
}

std::string infix(const Args& a, std::string_view op) {
  return fmt::format("({} {} {})", a[0], op, a[1]);
}

[[noreturn]] void undefined(Op op, std::string_view on) {
  fail(ErrorCode::internal, "webgpu: {} is not defined on {}", ir::name_of(op), on);
}

std::string float_text(Unit& unit, Op op, const Args& a) {
  switch (op) {
    case Op::neg:
      return fmt::format("bitcast<f32>(bitcast<u32>({}) ^ 0x80000000u)", a[0]);
    case Op::abs:
      return fmt::format("bitcast<f32>(bitcast<u32>({}) & 0x7fffffffu)", a[0]);
    case Op::floor:
    case Op::ceil:
    case Op::trunc:
    case Op::round:
    case Op::sqrt:
      return fmt::format("{}({})", ir::name_of(op), a[0]);
    case Op::fma:
      return call(unit, "fused", a);
    case Op::add:
      return infix(a, "+");
    case Op::sub:
      return infix(a, "-");
    case Op::mul:
      return infix(a, "*");
    case Op::div:
      return infix(a, "/");
    case Op::sign:
      return call(unit, "sign_of", a);
    case Op::rem:
      return call(unit, "rest_of", a);
    case Op::min:
      return call(unit, "smaller", a);
    case Op::max:
      return call(unit, "larger", a);
    case Op::minnum:
      return call(unit, "smaller_number", a);
    case Op::maxnum:
      return call(unit, "larger_number", a);
    case Op::copysign:
      return call(unit, "with_sign", a);
    case Op::nextafter:
      return call(unit, "next_after", a);
    case Op::eq:
      return call(unit, "eq", a);
    case Op::ne:
      return "!" + call(unit, "eq", a);
    case Op::lt:
      return call(unit, "lt", a);
    case Op::le:
      return call(unit, "le", a);
    default:
      undefined(op, "floats");
  }
}

std::string truth_text(Op op, const Args& a) {
  switch (op) {
    case Op::bit_not:
      return "!" + a[0];
    case Op::abs:
    case Op::sign:
      return a[0];
    case Op::add:
    case Op::max:
    case Op::maxnum:
    case Op::bit_or:
      return infix(a, "||");
    case Op::mul:
    case Op::min:
    case Op::minnum:
    case Op::bit_and:
      return infix(a, "&&");
    case Op::eq:
      return infix(a, "==");
    case Op::ne:
    case Op::bit_xor:
    case Op::sub:
      return infix(a, "!=");
    case Op::lt:
      return fmt::format("(!{} && {})", a[0], a[1]);
    case Op::le:
      return fmt::format("(!{} || {})", a[0], a[1]);
    default:
      undefined(op, "truth values");
  }
}

std::string shift_text(Op op, DType type, const Args& a) {
  const bool sign = is_signed_int(type);
  const int bits = 8 * size_of(type);
  const std::string by = sign ? fmt::format("bitcast<u32>({})", a[1]) : a[1];
  const std::string shifted =
      fmt::format("({} {} ({} & 31u))", a[0], op == Op::shl ? "<<" : ">>", by);
  const std::string out = op == Op::shr && sign ? fmt::format("({} >> 31u)", a[0])
                          : sign                ? "0"
                                                : "0u";
  return fmt::format("select({}, {}, {} < {}u)", out, shifted, by, bits);
}

// Of up to 32 bits, before the result is cut to its type.
std::string word_text(Unit& unit, Op op, DType type, const Args& a) {
  const bool sign = is_signed_int(type);
  const std::string_view suffix = sign ? "i32" : "u32";
  switch (op) {
    case Op::neg:
      return sign ? fmt::format("(-{})", a[0]) : fmt::format("(~{} + 1u)", a[0]);
    case Op::abs:
      return sign ? fmt::format("abs({})", a[0]) : a[0];
    case Op::sign:
      return sign ? fmt::format("sign({})", a[0]) : fmt::format("min({}, 1u)", a[0]);
    case Op::bit_not:
      return fmt::format("(~{})", a[0]);
    case Op::add:
      return infix(a, "+");
    case Op::sub:
      return infix(a, "-");
    case Op::mul:
      return infix(a, "*");
    case Op::div:
      return call(unit, fmt::format("div_{}", suffix), a);
    case Op::rem:
      return call(unit, fmt::format("rem_{}", suffix), a);
    case Op::min:
    case Op::minnum:
      return fmt::format("min({}, {})", a[0], a[1]);
    case Op::max:
    case Op::maxnum:
      return fmt::format("max({}, {})", a[0], a[1]);
    case Op::bit_and:
      return infix(a, "&");
    case Op::bit_or:
      return infix(a, "|");
    case Op::bit_xor:
      return infix(a, "^");
    case Op::shl:
    case Op::shr:
      return shift_text(op, type, a);
    case Op::eq:
      return infix(a, "==");
    case Op::ne:
      return infix(a, "!=");
    case Op::lt:
      return infix(a, "<");
    case Op::le:
      return infix(a, "<=");
    default:
      undefined(op, "integers");
  }
}

std::string pair_text(Unit& unit, Op op, DType type, const Args& a) {
  const bool sign = is_signed_int(type);
  const std::string s = sign ? "i64" : "u64";
  auto less = [&](const std::string& x, const std::string& y) {
    return call(unit, "lt_" + s, {x, y});
  };
  switch (op) {
    case Op::neg:
      return call(unit, "neg64", a);
    case Op::abs:
      return sign ? call(unit, "abs64", a) : a[0];
    case Op::sign: {
      const std::string zero = "vec2<u32>(0u, 0u)", one = "vec2<u32>(1u, 0u)";
      const std::string positive =
          fmt::format("select({}, {}, any({} != {}))", zero, one, a[0], zero);
      if (!sign) return positive;
      return fmt::format("select({}, vec2<u32>(4294967295u, 4294967295u), {}.y >> 31u == 1u)",
                         positive, a[0]);
    }
    case Op::bit_not:
      return fmt::format("(~{})", a[0]);
    case Op::add:
      return call(unit, "add64", a);
    case Op::sub:
      return call(unit, "sub64", a);
    case Op::mul:
      return call(unit, "mul64", a);
    case Op::div:
      return call(unit, "div_" + s, a);
    case Op::rem:
      return call(unit, "rem_" + s, a);
    case Op::min:
    case Op::minnum:
      return fmt::format("select({}, {}, {})", a[1], a[0], less(a[0], a[1]));
    case Op::max:
    case Op::maxnum:
      return fmt::format("select({}, {}, {})", a[0], a[1], less(a[0], a[1]));
    case Op::bit_and:
      return infix(a, "&");
    case Op::bit_or:
      return infix(a, "|");
    case Op::bit_xor:
      return infix(a, "^");
    case Op::shl:
      return call(unit, "shl64", a);
    case Op::shr:
      return call(unit, "shr_" + s, a);
    case Op::eq:
      return fmt::format("all({} == {})", a[0], a[1]);
    case Op::ne:
      return fmt::format("any({} != {})", a[0], a[1]);
    case Op::lt:
      return less(a[0], a[1]);
    case Op::le:
      return "!" + less(a[1], a[0]);
    default:
      undefined(op, "integers of 64 bits");
  }
}

// The value of a type narrower than a word that has these low bits.
std::string cut(DType type, const std::string& x) {
  if (size_of(type) >= 4 || !is_int(type)) return x;
  return fmt::format("extractBits({}, 0u, {}u)", x, 8 * size_of(type));
}

std::string low_word(const std::string& x, DType from) {
  if (size_of(from) == 8) return x + ".x";
  return is_signed_int(from) ? fmt::format("bitcast<u32>({})", x) : x;
}

std::string from_word(const std::string& word, DType to) {
  return cut(to, is_signed_int(to) ? fmt::format("bitcast<i32>({})", word) : word);
}

std::string rounded(Unit& unit, const std::string& x, DType to) {
  if (to == DType::bf16) return call(unit, "to_brain", {x});
  return to == DType::f16 ? call(unit, "to_half", {x}) : x;
}

std::string float_to_int(Unit& unit, Op how, const std::string& x, DType to) {
  const std::string_view tail = how == Op::cast_wrap ? "_wrap" : "";
  if (size_of(to) == 8)
    return call(unit, fmt::format("f_{}{}", is_signed_int(to) ? "i64" : "u64", tail), {x});
  if (how == Op::cast) {
    if (to == DType::u32) return call(unit, "f_u32", {x});
    const std::string word = call(unit, "f_i32", {x});
    if (to == DType::i32) return word;
    const int64_t high = (int64_t{1} << (8 * size_of(to) - (is_signed_int(to) ? 1 : 0))) - 1;
    const int64_t low = is_signed_int(to) ? -high - 1 : 0;
    const std::string inside = fmt::format("clamp({}, {}, {})", word, low, high);
    return is_signed_int(to) ? inside : fmt::format("bitcast<u32>({})", inside);
  }
  if (to == DType::u32 || to == DType::u8)
    return from_word(call(unit, "f_i64_wrap", {x}) + ".x", to);
  return from_word(fmt::format("bitcast<u32>({})", call(unit, "f_i32_wrap", {x})), to);
}

std::string int_to_int(Unit& unit, const std::string& x, DType from, DType to) {
  if (size_of(to) == 8) {
    if (size_of(from) == 8) return x;
    return is_signed_int(from) ? call(unit, "wide", {x}) : fmt::format("vec2<u32>({}, 0u)", x);
  }
  return from_word(low_word(x, from), to);
}

std::string bitcast_text(Unit& unit, const std::string& x, DType from, DType to) {
  if (from == DType::b8) return from_word(fmt::format("select(0u, 1u, {})", x), to);
  if (is_float(from) && is_float(to))
    unrendered("a bitcast from {} to {}", name_of(from), name_of(to));
  if (is_float(from)) {
    std::string bits =
        from == DType::f16 ? call(unit, "half", {x}) : fmt::format("bitcast<u32>({})", x);
    return from_word(from == DType::bf16 ? fmt::format("({} >> 16u)", bits) : bits, to);
  }
  if (!is_float(to)) return int_to_int(unit, x, from, to);
  const std::string word = low_word(x, from);
  if (to == DType::f16) return call(unit, "from_half", {fmt::format("({} & 0xffffu)", word)});
  return to == DType::bf16 ? fmt::format("bitcast<f32>({} << 16u)", word)
                           : fmt::format("bitcast<f32>({})", word);
}

}  // namespace

std::string cast_text(Unit& unit, Op how, const std::string& x, DType from, DType to) {
  require_held(from);
  require_held(to);
  if (from == to) return x;
  if (how == Op::bitcast) return bitcast_text(unit, x, from, to);
  if (is_float(from)) {
    if (is_float(to)) return rounded(unit, x, to);
    if (to == DType::b8) return "!" + call(unit, "eq", {x, "0.0"});
    return float_to_int(unit, how, x, to);
  }
  if (from == DType::b8) {
    if (is_float(to)) return fmt::format("select(0.0, 1.0, {})", x);
    return int_to_int(unit, fmt::format("select(0u, 1u, {})", x), DType::u32, to);
  }
  if (to == DType::b8)
    return size_of(from) == 8 ? fmt::format("any({} != vec2<u32>(0u, 0u))", x)
                              : fmt::format("({} != {})", x, is_signed_int(from) ? "0" : "0u");
  if (!is_float(to)) return int_to_int(unit, x, from, to);
  const std::string real = size_of(from) == 8
                               ? call(unit, is_signed_int(from) ? "i64_f" : "u64_f", {x})
                               : fmt::format("f32({})", x);
  return rounded(unit, real, to);
}

std::string arithmetic_text(Unit& unit, Op op, DType type, DType from, const Args& a) {
  require_held(type);
  if (ir::info(op).kind == ir::OpKind::cast) return cast_text(unit, op, a[0], from, type);
  if (op == Op::select) return fmt::format("select({}, {}, {})", a[2], a[1], a[0]);
  if (type == DType::b8) return truth_text(op, a);
  if (is_float(type)) return float_text(unit, op, a);
  if (size_of(type) == 8) return pair_text(unit, op, type, a);
  const std::string text = word_text(unit, op, type, a);
  return ir::info(op).kind == ir::OpKind::compare ? text : cut(type, text);
}

std::string combine_text(Unit& unit, Op reduce, DType type, const std::string& x,
                         const std::string& y) {
  const Op op = reduce == Op::reduce_sum    ? Op::add
                : reduce == Op::reduce_prod ? Op::mul
                : reduce == Op::reduce_max  ? Op::max
                                            : Op::min;
  return arithmetic_text(unit, op, type, type, {x, y});
}

std::string identity_text(Unit& unit, Op reduce, DType type) {
  const bool largest = reduce == Op::reduce_min;
  if (reduce == Op::reduce_sum) return constant_text(unit, type, 0);
  if (reduce == Op::reduce_prod) return is_float(type) ? "1.0" : constant_text(unit, type, 1);
  if (is_float(type))
    return fmt::format("{}(0x{}u)", unit.helper("special"), largest ? "7f800000" : "ff800000");
  const uint64_t top = uint64_t{1} << (8 * size_of(type) - 1);
  if (type == DType::b8) return largest ? "true" : "false";
  if (is_signed_int(type)) return constant_text(unit, type, largest ? top - 1 : top);
  return constant_text(unit, type, largest ? top - 1 + top : 0);
}

}  // namespace hologram::webgpu::wgsl

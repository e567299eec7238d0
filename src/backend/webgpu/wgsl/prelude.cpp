// backend/webgpu/wgsl/prelude.cpp: functions that rendered kernels call.
//
// WGSL may assume that there is no NaN: tests for it, and comparisons that decide on it, are made
// on bits. 64-bit integers are pairs of words, the lower one first. `zero` is 0 by the launch
// alone: a driver that knows the words of a launch (Mesa makes variants of a kernel for them) folds
// them.
#include "backend/webgpu/wgsl/prelude.h"

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace hologram::webgpu::wgsl {
namespace {

struct Helper {
  std::string_view name;
  std::vector<std::string_view> needs;
  std::string_view text;
};

const std::vector<Helper>& helpers() {
  static const auto* const all = new std::vector<Helper>{
      {"fault", {}, "fn fault(bits: u32) { atomicOr(&faults, bits); }\n"},
      {"hidden",
       {},
       R"(fn hidden(x: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) ^ zero); }
)"},
      // a + b and what its rounding leaves.
      {"two_sum",
       {"hidden"},
       R"(fn two_sum(a: f32, b: f32) -> vec2<f32> {
  let s = hidden(a + b);
  let t = hidden(s - a);
  return vec2<f32>(s, hidden(a - hidden(s - t)) + hidden(b - t));
}
)"},
      // Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms
      // using rounding to odd", 2008. Halves of factors have products without rounding. A product
      // that is too large may come back by c: it and c are scaled then.
      {"fused",
       {"hidden", "is_finite", "two_sum"},
       R"(override has_fma: bool = false;
fn fused(a: f32, b: f32, c: f32) -> f32 {
  if (has_fma) { return fma(a, b, c); }
  var x = a;
  var y = c;
  var scale = 1.0;
  var p = hidden(a * b);
  let s = hidden(p + c);
  if (!is_finite(s)) {
    if (!is_finite(a) || !is_finite(b)) { return s; }
    if (!is_finite(c)) { return c; }
    x = a * 0.25;
    y = c * 0.25;
    scale = 4.0;
    p = hidden(x * b);
    if (!is_finite(p)) { return p; }
  }
  let ah = bitcast<f32>(bitcast<u32>(x) & 0xfffff000u);
  let al = hidden(x - ah);
  let bh = bitcast<f32>(bitcast<u32>(b) & 0xfffff000u);
  let bl = hidden(b - bh);
  let e = al * bl - hidden(hidden(hidden(p - ah * bh) - al * bh) - ah * bl);
  let low = two_sum(y, e);
  let high = two_sum(p, low.x);
  let rest = two_sum(low.y, high.y);
  var odd = bitcast<u32>(rest.x);
  if (rest.y != 0.0 && (odd & 1u) == 0u) {
    odd = select(odd - 1u, odd + 1u, (rest.y > 0.0) == (rest.x > 0.0));
  }
  if (odd << 1u == 0u) { return high.x * scale; }
  return (high.x + bitcast<f32>(odd)) * scale;
}
)"},
      {"special",
       {},
       R"(fn special(bits: u32) -> f32 { return bitcast<f32>(bits ^ zero); }
)"},
      {"is_nan",
       {},
       R"(fn is_nan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }
)"},
      {"is_finite",
       {},
       R"(fn is_finite(x: f32) -> bool { return (bitcast<u32>(x) & 0x7f800000u) != 0x7f800000u; }
)"},
      {"lt",
       {"is_nan"},
       R"(fn lt(x: f32, y: f32) -> bool { return x < y && !is_nan(x) && !is_nan(y); }
)"},
      {"le",
       {"is_nan"},
       R"(fn le(x: f32, y: f32) -> bool { return x <= y && !is_nan(x) && !is_nan(y); }
)"},
      {"eq",
       {"is_nan"},
       R"(fn eq(x: f32, y: f32) -> bool { return x == y && !is_nan(x) && !is_nan(y); }
)"},
      {"larger",
       {"is_nan"},
       R"(fn larger(x: f32, y: f32) -> f32 {
  if (is_nan(x)) { return x; }
  if (is_nan(y)) { return y; }
  if (x == y) { return bitcast<f32>(bitcast<u32>(x) & bitcast<u32>(y)); }
  return select(y, x, x > y);
}
)"},
      {"smaller",
       {"is_nan"},
       R"(fn smaller(x: f32, y: f32) -> f32 {
  if (is_nan(x)) { return x; }
  if (is_nan(y)) { return y; }
  if (x == y) { return bitcast<f32>(bitcast<u32>(x) | bitcast<u32>(y)); }
  return select(y, x, x < y);
}
)"},
      // A number that is larger where x is, and of NaN the one that is given; and x from it.
      {"in_order",
       {"is_nan"},
       R"(fn in_order(x: f32, of_nan: u32) -> u32 {
  let bits = bitcast<u32>(x);
  return select(bits ^ select(0x80000000u, 0xffffffffu, bits >> 31u == 1u), of_nan, is_nan(x));
}
)"},
      {"from_order",
       {},
       R"(fn from_order(x: u32) -> f32 {
  return bitcast<f32>(x ^ select(0xffffffffu, 0x80000000u, x >> 31u == 1u));
}
)"},
      {"larger_number",
       {"is_nan", "larger"},
       R"(fn larger_number(x: f32, y: f32) -> f32 {
  if (is_nan(x)) { return y; }
  if (is_nan(y)) { return x; }
  return larger(x, y);
}
)"},
      {"smaller_number",
       {"is_nan", "smaller"},
       R"(fn smaller_number(x: f32, y: f32) -> f32 {
  if (is_nan(x)) { return y; }
  if (is_nan(y)) { return x; }
  return smaller(x, y);
}
)"},
      // A choice between -1 and a 0 that is known becomes the negative of 1 or 0: -0.
      {"sign_of",
       {"is_nan", "special"},
       R"(fn sign_of(x: f32) -> f32 {
  if (is_nan(x)) { return 0.0; }
  return select(select(special(0u), -1.0, x < 0.0), 1.0, x > 0.0);
}
)"},
      {"with_sign",
       {},
       R"(fn with_sign(x: f32, y: f32) -> f32 {
  return bitcast<f32>((bitcast<u32>(x) & 0x7fffffffu) | (bitcast<u32>(y) & 0x80000000u));
}
)"},
      {"next_after",
       {"is_nan"},
       R"(fn next_after(x: f32, y: f32) -> f32 {
  if (is_nan(x)) { return x; }
  if (is_nan(y)) { return y; }
  let a = bitcast<u32>(x);
  let b = bitcast<u32>(y);
  if ((a & 0x7fffffffu) == 0u) {
    if ((b & 0x7fffffffu) == 0u) { return y; }
    return bitcast<f32>((b & 0x80000000u) | 1u);
  }
  let x_key = select(bitcast<i32>(a), bitcast<i32>(0x80000000u - a), (a >> 31u) == 1u);
  let y_key = select(bitcast<i32>(b), bitcast<i32>(0x80000000u - b), (b >> 31u) == 1u);
  if (x_key == y_key) { return y; }
  let away = (x_key < y_key) == ((a >> 31u) == 0u);
  return bitcast<f32>(select(a - 1u, a + 1u, away));
}
)"},
      {"order_of",
       {"is_nan"},
       R"(fn order_of(x: f32) -> u32 {
  if (is_nan(x)) { return 0xffffffffu; }
  let u = bitcast<u32>(x);
  if ((u & 0x7fffffffu) == 0u) { return 0x80000000u; }
  return select(u | 0x80000000u, ~u, u >> 31u == 1u);
}
)"},
      // Shifts and subtractions of the mantissas: exact.
      {"rest_of",
       {"is_nan", "special"},
       R"(fn rest_of(x: f32, y: f32) -> f32 {
  let a = bitcast<u32>(x) & 0x7fffffffu;
  let b = bitcast<u32>(y) & 0x7fffffffu;
  if (a >= 0x7f800000u || b > 0x7f800000u || b == 0u) { return special(0x7fc00000u); }
  if (a < b) { return x; }
  var ea = i32(a >> 23u);
  var eb = i32(b >> 23u);
  var ma = a & 0x7fffffu;
  var mb = b & 0x7fffffu;
  if (ea == 0) { ea = 1; } else { ma = ma | 0x800000u; }
  if (eb == 0) { eb = 1; } else { mb = mb | 0x800000u; }
  for (; ea > eb; ea = ea - 1) {
    if (ma >= mb) { ma = ma - mb; }
    ma = ma << 1u;
  }
  if (ma >= mb) { ma = ma - mb; }
  if (ma == 0u) { return bitcast<f32>(bitcast<u32>(x) & 0x80000000u); }
  let up = min(i32(countLeadingZeros(ma)) - 8, eb - 1);
  ma = ma << u32(up);
  eb = eb - up;
  let bits = select(ma, (ma & 0x7fffffu) | (u32(eb) << 23u), ma >= 0x800000u);
  return bitcast<f32>(bits | (bitcast<u32>(x) & 0x80000000u));
}
)"},
      {"to_brain",
       {"is_nan"},
       R"(fn to_brain(x: f32) -> f32 {
  let u = bitcast<u32>(x);
  let r = select(u + 0x7fffu + ((u >> 16u) & 1u), u | 0x400000u, is_nan(x));
  return bitcast<f32>(r & 0xffff0000u);
}
)"},
      {"half",
       {},
       R"(fn half(x: f32) -> u32 {
  let u = bitcast<u32>(x);
  let a = u & 0x7fffffffu;
  let s = (u >> 16u) & 0x8000u;
  if (a > 0x7f800000u) {
    let payload = (a >> 13u) & 0x3ffu;
    return s | 0x7c00u | select(payload, 0x200u, payload == 0u);
  }
  if (a >= 0x477ff000u) { return s | 0x7c00u; }
  if (a >= 0x38800000u) { return s | ((a + 0xfffu + ((a >> 13u) & 1u) - 0x38000000u) >> 13u); }
  let e = a >> 23u;
  if (e < 102u) { return s; }
  let m = (a & 0x7fffffu) | 0x800000u;
  let by = 126u - e;
  let kept = m >> by;
  let lost = m & ((1u << by) - 1u);
  let middle = 1u << (by - 1u);
  return s | (kept + select(0u, 1u, lost > middle || (lost == middle && (kept & 1u) == 1u)));
}
)"},
      {"from_half",
       {},
       R"(fn from_half(h: u32) -> f32 {
  let s = (h & 0x8000u) << 16u;
  let a = h & 0x7fffu;
  if (a >= 0x7c00u) { return bitcast<f32>(s | 0x7f800000u | ((a & 0x3ffu) << 13u)); }
  if (a >= 0x400u) { return bitcast<f32>(s | ((a << 13u) + 0x38000000u)); }
  return bitcast<f32>(s | bitcast<u32>(f32(a) * 5.9604644775390625e-08));
}
)"},
      {"to_half",
       {"half", "from_half"},
       "fn to_half(x: f32) -> f32 { return from_half(half(x)); }\n"},
      // Float to integer: out of range saturates, or gives the least number.
      {"f_i32",
       {"is_nan"},
       R"(fn f_i32(x: f32) -> i32 {
  if (is_nan(x)) { return 0; }
  if (x >= 2147483648.0) { return 2147483647; }
  if (x < -2147483648.0) { return bitcast<i32>(0x80000000u); }
  return i32(x);
}
)"},
      {"f_i32_wrap",
       {"is_nan"},
       R"(fn f_i32_wrap(x: f32) -> i32 {
  if (is_nan(x) || x >= 2147483648.0 || x < -2147483648.0) { return bitcast<i32>(0x80000000u); }
  return i32(x);
}
)"},
      {"f_u32",
       {"is_nan"},
       R"(fn f_u32(x: f32) -> u32 {
  if (is_nan(x) || x <= 0.0) { return 0u; }
  if (x >= 4294967296.0) { return 0xffffffffu; }
  return u32(x);
}
)"},
      // The integer part's magnitude, for |x| < 2^64.
      {"f_pair",
       {},
       R"(fn f_pair(x: f32) -> vec2<u32> {
  let a = bitcast<u32>(x) & 0x7fffffffu;
  if (a < 0x3f800000u) { return vec2<u32>(0u, 0u); }
  let m = (a & 0x7fffffu) | 0x800000u;
  let e = i32(a >> 23u) - 150;
  if (e <= 0) { return vec2<u32>(m >> u32(-e), 0u); }
  if (e < 32) { return vec2<u32>(m << u32(e), select(m >> u32(32 - e), 0u, e < 8)); }
  return vec2<u32>(0u, m << u32(e - 32));
}
)"},
      {"f_i64",
       {"is_nan", "f_pair", "neg64"},
       R"(fn f_i64(x: f32) -> vec2<u32> {
  if (is_nan(x)) { return vec2<u32>(0u, 0u); }
  if (x >= 9223372036854775808.0) { return vec2<u32>(0xffffffffu, 0x7fffffffu); }
  if (x < -9223372036854775808.0) { return vec2<u32>(0u, 0x80000000u); }
  let a = f_pair(x);
  if (x < 0.0) { return neg64(a); }
  return a;
}
)"},
      {"f_i64_wrap",
       {"is_nan", "f_i64"},
       R"(fn f_i64_wrap(x: f32) -> vec2<u32> {
  if (is_nan(x) || x >= 9223372036854775808.0) { return vec2<u32>(0u, 0x80000000u); }
  return f_i64(x);
}
)"},
      {"f_u64",
       {"is_nan", "f_pair"},
       R"(fn f_u64(x: f32) -> vec2<u32> {
  if (is_nan(x) || x <= 0.0) { return vec2<u32>(0u, 0u); }
  if (x >= 18446744073709551616.0) { return vec2<u32>(0xffffffffu, 0xffffffffu); }
  return f_pair(x);
}
)"},
      {"f_u64_wrap",
       {"f_i64_wrap"},
       R"(fn f_u64_wrap(x: f32) -> vec2<u32> {
  if (x >= 9223372036854775808.0) {
    return f_i64_wrap(x - 9223372036854775808.0) ^ vec2<u32>(0u, 0x80000000u);
  }
  return f_i64_wrap(x);
}
)"},
      // To nearest even: what is below the upper word's reach only says whether a half is one.
      {"u64_f",
       {},
       R"(fn u64_f(x: vec2<u32>) -> f32 {
  if (x.y == 0u) { return f32(x.x); }
  let up = countLeadingZeros(x.y);
  var high = x.y;
  var low = x.x;
  if (up > 0u) {
    high = (x.y << up) | (x.x >> (32u - up));
    low = x.x << up;
  }
  if (low != 0u) { high = high | 1u; }
  return f32(high) * bitcast<f32>((159u - up) << 23u);
}
)"},
      {"i64_f",
       {"u64_f", "neg64"},
       R"(fn i64_f(x: vec2<u32>) -> f32 {
  if (x.y >> 31u == 1u) { return -u64_f(neg64(x)); }
  return u64_f(x);
}
)"},
      {"wide",
       {},
       R"(fn wide(x: i32) -> vec2<u32> { return vec2<u32>(bitcast<u32>(x), bitcast<u32>(x >> 31u)); }
)"},
      {"add64",
       {},
       R"(fn add64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
  let low = x.x + y.x;
  return vec2<u32>(low, x.y + y.y + select(0u, 1u, low < x.x));
}
)"},
      {"neg64",
       {},
       R"(fn neg64(x: vec2<u32>) -> vec2<u32> {
  return vec2<u32>(~x.x + 1u, ~x.y + select(0u, 1u, x.x == 0u));
}
)"},
      {"sub64",
       {"add64", "neg64"},
       "fn sub64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> { return add64(x, neg64(y)); }\n"},
      {"mul64",
       {},
       R"(fn mul64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
  let a = x.x & 0xffffu;
  let b = x.x >> 16u;
  let c = y.x & 0xffffu;
  let d = y.x >> 16u;
  let m = b * c + ((a * c) >> 16u);
  let n = a * d + (m & 0xffffu);
  let high = b * d + (m >> 16u) + (n >> 16u);
  return vec2<u32>(x.x * y.x, high + x.x * y.y + x.y * y.x);
}
)"},
      {"lt_u64",
       {},
       R"(fn lt_u64(x: vec2<u32>, y: vec2<u32>) -> bool {
  return x.y < y.y || (x.y == y.y && x.x < y.x);
}
)"},
      {"lt_i64",
       {},
       R"(fn lt_i64(x: vec2<u32>, y: vec2<u32>) -> bool {
  return bitcast<i32>(x.y) < bitcast<i32>(y.y) || (x.y == y.y && x.x < y.x);
}
)"},
      {"shl64",
       {},
       R"(fn shl64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
  if (y.y != 0u || y.x >= 64u) { return vec2<u32>(0u, 0u); }
  if (y.x == 0u) { return x; }
  if (y.x >= 32u) { return vec2<u32>(0u, x.x << (y.x - 32u)); }
  return vec2<u32>(x.x << y.x, (x.y << y.x) | (x.x >> (32u - y.x)));
}
)"},
      {"shr_u64",
       {},
       R"(fn shr_u64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
  if (y.y != 0u || y.x >= 64u) { return vec2<u32>(0u, 0u); }
  if (y.x == 0u) { return x; }
  if (y.x >= 32u) { return vec2<u32>(x.y >> (y.x - 32u), 0u); }
  return vec2<u32>((x.x >> y.x) | (x.y << (32u - y.x)), x.y >> y.x);
}
)"},
      {"shr_i64",
       {},
       R"(fn shr_i64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
  let fill = bitcast<u32>(bitcast<i32>(x.y) >> 31u);
  if (y.y != 0u || y.x >= 64u) { return vec2<u32>(fill, fill); }
  if (y.x == 0u) { return x; }
  let high = bitcast<u32>(bitcast<i32>(x.y) >> (y.x & 31u));
  if (y.x >= 32u) { return vec2<u32>(high, fill); }
  return vec2<u32>((x.x >> y.x) | (x.y << (32u - y.x)), high);
}
)"},
      {"quotient64",
       {"lt_u64", "sub64"},
       R"(fn quotient64(x: vec2<u32>, y: vec2<u32>, rest: ptr<function, vec2<u32>>) -> vec2<u32> {
  var q = vec2<u32>(0u, 0u);
  var r = vec2<u32>(0u, 0u);
  for (var k = 63; k >= 0; k = k - 1) {
    let word = select(x.x, x.y, k >= 32);
    let top = r.y >> 31u;
    r = vec2<u32>((r.x << 1u) | ((word >> (u32(k) & 31u)) & 1u), (r.y << 1u) | (r.x >> 31u));
    if (top == 1u || !lt_u64(r, y)) {
      r = sub64(r, y);
      if (k >= 32) { q.y = q.y | (1u << u32(k - 32)); } else { q.x = q.x | (1u << u32(k)); }
    }
  }
  *rest = r;
  return q;
}
)"},
      {"div_u64",
       {"quotient64", "fault"},
       R"(fn div_u64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
  if (y.x == 0u && y.y == 0u) { fault(2u); return vec2<u32>(0u, 0u); }
  var rest: vec2<u32>;
  return quotient64(x, y, &rest);
}
)"},
      {"rem_u64",
       {"quotient64", "fault"},
       R"(fn rem_u64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
  if (y.x == 0u && y.y == 0u) { fault(2u); return vec2<u32>(0u, 0u); }
  var rest: vec2<u32>;
  let q = quotient64(x, y, &rest);
  return rest;
}
)"},
      {"abs64",
       {"neg64"},
       R"(fn abs64(x: vec2<u32>) -> vec2<u32> {
  if (x.y >> 31u == 1u) { return neg64(x); }
  return x;
}
)"},
      {"div_i64",
       {"div_u64", "abs64", "neg64"},
       R"(fn div_i64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
  let q = div_u64(abs64(x), abs64(y));
  if (((x.y ^ y.y) >> 31u) == 1u) { return neg64(q); }
  return q;
}
)"},
      {"rem_i64",
       {"rem_u64", "abs64", "neg64"},
       R"(fn rem_i64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
  let r = rem_u64(abs64(x), abs64(y));
  if (x.y >> 31u == 1u) { return neg64(r); }
  return r;
}
)"},
      {"div_i32",
       {"fault"},
       R"(fn div_i32(x: i32, y: i32) -> i32 {
  if (y == 0) { fault(2u); return 0; }
  if (y == -1) { return bitcast<i32>(~bitcast<u32>(x) + 1u); }
  return x / y;
}
)"},
      {"rem_i32",
       {"fault"},
       R"(fn rem_i32(x: i32, y: i32) -> i32 {
  if (y == 0) { fault(2u); return 0; }
  if (y == -1) { return 0; }
  return x % y;
}
)"},
      {"div_u32",
       {"fault"},
       R"(fn div_u32(x: u32, y: u32) -> u32 {
  if (y == 0u) { fault(2u); return 0u; }
  return x / y;
}
)"},
      {"rem_u32",
       {"fault"},
       R"(fn rem_u32(x: u32, y: u32) -> u32 {
  if (y == 0u) { fault(2u); return 0u; }
  return x % y;
}
)"},
      // Of sizes and indices: a divisor of 0 gives 0.
      {"floor_div",
       {},
       R"(fn floor_div(x: i32, y: i32) -> i32 {
  if (y == 0) { return 0; }
  let q = x / y;
  return select(q, q - 1, q * y != x && ((x < 0) != (y < 0)));
}
)"},
      {"floor_mod",
       {"floor_div"},
       R"(fn floor_mod(x: i32, y: i32) -> i32 {
  if (y == 0) { return 0; }
  return x - floor_div(x, y) * y;
}
)"},
  };
  return *all;
}

const Helper& find(std::string_view name) {
  const auto at = std::ranges::find(helpers(), name, &Helper::name);
  if (at == helpers().end())
    fail(ErrorCode::internal, "webgpu: no helper \"{}\" in the prelude", name);
  return *at;
}

}  // namespace

std::string_view source_of(std::string_view name) { return find(name).text; }

std::span<const std::string_view> needs_of(std::string_view name) { return find(name).needs; }

bool reaches_fault(std::string_view name) {
  if (name == "fault") return true;
  return std::ranges::any_of(needs_of(name), reaches_fault);
}

}  // namespace hologram::webgpu::wgsl

// backend/cpu/variants.cpp: the targets that code is made for ahead of time.
#include "backend/cpu/variants.h"

#include "base/error.h"

namespace hologram::cpu {

Target with_dots(Target target, bool bf16, bool i8) {
  target.bf16_dots = target.bf16_rounding = bf16;
  target.i8_dots = i8;
  if (bf16) target.features += ",+avx512bf16";
  if (i8) target.features += target.isa == Isa::avx2 ? ",+avxvnni" : ",+avx512vnni";
  return target;
}

std::vector<Target> variants_of(std::string_view name) {
  const Target avx2 = generic_target(Isa::avx2), avx512 = generic_target(Isa::avx512);
  if (name == "sse42") return {generic_target(Isa::sse42)};
  if (name == "avx2") return {avx2, with_dots(avx2, false, true)};
  if (name == "avx512")
    return {avx512, with_dots(avx512, false, true), with_dots(avx512, true, true)};
  if (name == "amx")  // where dots of bfloat16 do not pay (dots_pay), and where they do
    return {with_tiles(with_dots(avx512, false, true)), with_tiles(with_dots(avx512, true, true))};
  if (name == "neon") return {generic_target(Isa::neon)};
  if (name == name_of(Isa::wasm)) return {generic_target(Isa::wasm)};
  fail(ErrorCode::invalid_argument,
       "\"{}\" is no instruction set: expected sse42, avx2, avx512, amx, neon or "
       "wasm32-simd128",
       name);
}

}  // namespace hologram::cpu

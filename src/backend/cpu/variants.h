// backend/cpu/variants.h: the targets that code is made for ahead of time. No LLVM in here.
#pragma once

#include <string_view>
#include <vector>

#include "backend/cpu/target.h"

namespace hologram::cpu {

/// A target of AVX2 or AVX-512 with dot products of bfloat16 numbers, of bytes, or both.
Target with_dots(Target target, bool bf16, bool i8);
/// The targets of an instruction set as HOLOGRAM_CPU_ISA names it: without and with the dot
/// products that processors of this set may have. Throws Error(invalid_argument) for an unknown
/// name.
std::vector<Target> variants_of(std::string_view name);

}  // namespace hologram::cpu

// codegen/target.h: what the kit asks of the machine that a function is for.
#pragma once

#include <cstdint>
#include <string>

namespace hologram::codegen {

/// How much LLVM is to do for a function. The bits that it computes are the same.
enum class Effort : uint8_t {
  full,
  quick,  ///< a third of the time, for code that takes up to a few times as long
};

/// The name of a kernel's function in its module and object.
inline constexpr const char* kernel_symbol = "hologram_kernel";

/// A backend's own target adds what only its emitters ask.
struct TargetTraits {
  std::string triple;
  std::string cpu;        ///< LLVM's name of the processor, for scheduling
  std::string features;   ///< LLVM's feature string
  int vector_bytes = 16;  ///< of the widest vector register
  bool fma = true;        ///< a multiply-add of floats rounded once is an instruction
  bool half = true;       ///< and so are conversions between f16 and f32
  bool masks = false;     ///< and loads and stores of some of a vector's lanes
  bool gathers = true;  ///< an instruction that loads scattered lanes is faster than loads of each
  /// The instruction for the larger of two floats gives the second one for NaN and equal ones.
  bool max_gives_second = false;
  /// Arithmetic gives an operand that is NaN, made quiet, or a NaN whose low half is 0.
  bool keeps_nan = false;
  /// A store of one lane that is not to be made is jumped over; else it goes to memory that nobody
  /// reads.
  bool jumps_stores = false;
};

}  // namespace hologram::codegen

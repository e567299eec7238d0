// builtin/kernels.h: machine code that came with the library, by content.
#pragma once

#include <span>
#include <string_view>

#include "atlas/abi.h"
#include "base/fingerprint.h"

namespace hologram::builtin {

/// A kernel of one instruction set. Entries are sorted by key within their set.
struct BuiltinKernel {
  std::string_view key;  ///< hexadecimal fingerprint of the program before expand_math
  atlas::KernelFn function;
  std::string_view launch;  ///< as the backend that it was compiled by writes it
};

/// The kernels for an instruction set ("avx2", …); none if the library was built for another
/// processor. Written by tools/kernelgen.cpp.
std::span<const BuiltinKernel> kernels(std::string_view isa);

/// The kernel for a program, or nullptr.
const BuiltinKernel* find_kernel(std::string_view isa, const Fingerprint& program);

}  // namespace hologram::builtin

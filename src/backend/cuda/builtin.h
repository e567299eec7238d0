// backend/cuda/builtin.h: kernels for GPUs that came with the library, by content.
#pragma once

#include <iterator>
#include <span>
#include <string>
#include <string_view>

namespace hologram::cuda {

/// For these compute capabilities there is machine code, where an assembler was at hand when the
/// library was built.
inline constexpr int builtin_capabilities[] = {80, 90};

/// A program's kernels.
struct BuiltinKernel {
  std::string_view key;     ///< hexadecimal fingerprint of the program before expand_math
  std::string_view stored;  ///< what to_text() gives of the Stored, which is PTX alone
  std::string_view cubins[std::size(builtin_capabilities)];  ///< empty: none
};

/// Their compressed form: kernels of one kind are alike, so that all together take a third of what
/// they take one by one.
std::string pack(std::span<const BuiltinKernel> kernels);
/// That of all kernels, written by tools/gpukernelgen.cpp; empty: there are none.
std::string_view packed_kernels();

/// Sorted by key; unpacked when they are first asked for.
std::span<const BuiltinKernel> builtin_kernels();
/// The one of a program, or null.
const BuiltinKernel* find_builtin(std::string_view key);

}  // namespace hologram::cuda

// compiler/library.h: what libhologram and libhologram_compiler agree on.
//
// libhologram_compiler holds what backends do through LLVM. Whatever compiles nothing never opens
// it: loading it takes several times as long as loading libhologram, which it links for all else.
#pragma once

#include <span>
#include <string_view>

namespace hologram::compiler {

/// The functions of one backend, its struct Compiler.
struct Part {
  std::string_view backend;
  const void* functions;
};

/// All of it, for who opened the library.
struct Contents {
  std::string_view sources;  ///< a hash of what both were built from
  std::span<const Part> parts;
};

/// The one symbol that leaves it, a function without arguments.
inline constexpr const char* contents_symbol = "hologram_compiler_contents";
using ContentsFn = const Contents*();

}  // namespace hologram::compiler

// compiler/contents.cpp: what leaves libhologram_compiler; CMake writes compiler/backends.inc.
#include "compiler/library.h"
#include "compiler/sources.h"

#define HOLOGRAM_COMPILER(name) \
  namespace hologram::name {    \
  struct Compiler;              \
  const Compiler& compiler();   \
  }
#include "compiler/backends.inc"
#undef HOLOGRAM_COMPILER

extern "C" [[gnu::visibility("default")]] const hologram::compiler::Contents*
hologram_compiler_contents() {
#define HOLOGRAM_COMPILER(name) {#name, &hologram::name::compiler()},
  static const hologram::compiler::Part parts[] = {
#include "compiler/backends.inc"
  };
#undef HOLOGRAM_COMPILER
  static const hologram::compiler::Contents contents{hologram::compiler::sources_hash, parts};
  return &contents;
}

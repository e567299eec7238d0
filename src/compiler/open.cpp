// compiler/open.cpp: what libhologram has in place of the backends' own compiler(): it opens
// libhologram_compiler, which lies beside it, when something is compiled for the first time.
#include <dlfcn.h>
#include <limits.h>
#include <link.h>

#include <algorithm>
#include <atomic>
#include <string>

#include "base/error.h"
#include "compiler/library.h"
#include "compiler/sources.h"

namespace hologram {
namespace {

// The folder that this code was loaded from.
std::string own_folder() {
  Dl_info info;
  link_map* map = nullptr;
  char folder[PATH_MAX];
  if (dladdr1(reinterpret_cast<const void*>(&own_folder), &info, reinterpret_cast<void**>(&map),
              RTLD_DL_LINKMAP) == 0 ||
      dlinfo(map, RTLD_DI_ORIGIN, folder) != 0)
    fail(ErrorCode::unavailable, "nothing can be compiled: libhologram's folder is unknown");
  return folder;
}

const compiler::Contents& open_library() {
  const std::string path = own_folder() + "/" HOLOGRAM_COMPILER_LIBRARY;
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) fail(ErrorCode::unavailable, "nothing can be compiled: {}", dlerror());
  const auto contents =
      reinterpret_cast<compiler::ContentsFn*>(dlsym(library, compiler::contents_symbol));
  if (!contents || contents()->sources != compiler::sources_hash)
    fail(ErrorCode::unavailable, "nothing can be compiled: {} is of another build than libhologram",
         path);
  return *contents();
}

const void* functions_of(std::string_view backend) {
  // No lock, which a fork would leave the child with: a library that several open is opened once.
  // Where it fails, the next call tries again. It is never closed.
  static std::atomic<const compiler::Contents*> opened = nullptr;
  const compiler::Contents* contents = opened;
  if (!contents) opened = contents = &open_library();
  return std::ranges::find(contents->parts, backend, &compiler::Part::backend)->functions;
}

}  // namespace

#define HOLOGRAM_COMPILER(name)                                                             \
  namespace name {                                                                          \
  struct Compiler;                                                                          \
  const Compiler& compiler();                                                               \
  const Compiler& compiler() { return *static_cast<const Compiler*>(functions_of(#name)); } \
  }
#include "compiler/backends.inc"
#undef HOLOGRAM_COMPILER

}  // namespace hologram

// backend/table.cpp: the backends of the build; CMake writes backend/backends.inc.
#include "backend/registry.h"

namespace hologram {

#define HOLOGRAM_BACKEND(name)                       \
  namespace name {                                   \
  std::unique_ptr<Backend> make_backend(int device); \
  int device_count();                                \
  }
#include "backend/backends.inc"
#undef HOLOGRAM_BACKEND

namespace {

#define HOLOGRAM_BACKEND(name) {#name, name::device_count, name::make_backend},
constexpr RegisteredBackend table[] = {
#include "backend/backends.inc"
};
#undef HOLOGRAM_BACKEND

}  // namespace

std::span<const RegisteredBackend> registered_backends() { return table; }

}  // namespace hologram

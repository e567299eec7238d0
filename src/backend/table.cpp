// backend/table.cpp: the backends of the build; CMake writes backend/backends.inc.
#include <vector>

#include "backend/registry.h"

namespace hologram {

#define HOLOGRAM_BACKEND(name)                       \
  namespace name {                                   \
  std::unique_ptr<Backend> make_backend(int device); \
  int device_count();                                \
  }
#define HOLOGRAM_INTERFACE(backend, name) \
  namespace backend {                     \
  HOLOGRAM_BACKEND(name)                  \
  }
#include "backend/backends.inc"
#undef HOLOGRAM_BACKEND
#undef HOLOGRAM_INTERFACE

namespace {

#define HOLOGRAM_BACKEND(name) {#name, name::device_count, name::make_backend},
#define HOLOGRAM_INTERFACE(backend, name)
constexpr RegisteredBackend table[] = {
#include "backend/backends.inc"
};
#undef HOLOGRAM_BACKEND
#undef HOLOGRAM_INTERFACE

#define HOLOGRAM_BACKEND(name)
#define HOLOGRAM_INTERFACE(backend, name) \
  RegisteredBackend{#name, backend::name::device_count, backend::name::make_backend},
const std::vector<RegisteredBackend> interfaces = {
#include "backend/backends.inc"
};

}  // namespace

std::span<const RegisteredBackend> registered_backends() { return table; }
std::span<const RegisteredBackend> registered_interfaces() { return interfaces; }

}  // namespace hologram

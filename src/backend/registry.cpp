// backend/registry.cpp: the table of backends; CMake writes backend/backends.inc.
#include "backend/registry.h"

#include <algorithm>

#include "base/error.h"

namespace hologram {

#define HOLOGRAM_BACKEND(name)             \
  namespace name {                         \
  std::unique_ptr<Backend> make_backend(); \
  int device_count();                      \
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

const RegisteredBackend* find_backend(std::string_view name) {
  auto it = std::find_if(std::begin(table), std::end(table),
                         [&](const RegisteredBackend& b) { return b.name == name; });
  return it == std::end(table) ? nullptr : it;
}

const RegisteredBackend& default_backend() {
  for (const RegisteredBackend& b : table)
    if (b.device_count() > 0) return b;
  fail(ErrorCode::unavailable, "none of the backends {} finds a device", backend_names());
}

std::string backend_names() {
  std::string names;
  for (const RegisteredBackend& b : table)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", b.name);
  return names;
}

std::unique_ptr<Backend> make_backend(std::string_view name) {
  const RegisteredBackend* b = find_backend(name);
  require(b != nullptr, "backend \"{}\" is unknown; expected one of {}", name, backend_names());
  return b->make();
}

}  // namespace hologram

// backend/registry.cpp: backends by name.
#include "backend/registry.h"

#include <algorithm>

#include "base/error.h"

namespace hologram {

const RegisteredBackend* find_backend(std::string_view name) {
  const auto table = registered_backends();
  const auto it = std::ranges::find(table, name, &RegisteredBackend::name);
  return it == table.end() ? nullptr : &*it;
}

const RegisteredBackend& default_backend() {
  for (const RegisteredBackend& b : registered_backends())
    if (b.device_count() > 0) return b;
  fail(ErrorCode::unavailable, "none of the backends {} finds a device", backend_names());
}

std::string backend_names() {
  std::string names;
  for (const RegisteredBackend& b : registered_backends())
    names += fmt::format("{}{}", names.empty() ? "" : ", ", b.name);
  return names;
}

std::unique_ptr<Backend> make_backend(std::string_view name) {
  const RegisteredBackend* b = find_backend(name);
  require(b != nullptr, "backend \"{}\" is unknown; expected one of {}", name, backend_names());
  return b->make();
}

}  // namespace hologram

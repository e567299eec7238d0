// backend/registry.cpp: backends by name.
#include "backend/registry.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/settings.h"

namespace hologram {

const RegisteredBackend* find_backend(std::string_view name) {
  for (const auto table : {registered_backends(), registered_interfaces()}) {
    const auto it = std::ranges::find(table, name, &RegisteredBackend::name);
    if (it != table.end()) return &*it;
  }
  return nullptr;
}

const RegisteredBackend& default_backend() {
  for (const std::string& name : settings::list("HOLOGRAM_AUTO")) {
    const RegisteredBackend* named = find_backend(name);
    if (named && named->device_count() > 0) return *named;
  }
  for (const RegisteredBackend& b : registered_backends())
    if (b.device_count() > 0) return b;
  fail(ErrorCode::unavailable, "none of the backends {} finds a device", backend_names());
}

std::string backend_names() {
  std::string names;
  for (const auto table : {registered_backends(), registered_interfaces()})
    for (const RegisteredBackend& b : table)
      names += fmt::format("{}{}", names.empty() ? "" : ", ", b.name);
  return names;
}

ChosenBackend choose_backend(std::string_view name) {
  ChosenBackend chosen;
  const size_t colon = name.find(':');
  chosen.name = name.substr(0, colon);
  chosen.backend = find_backend(chosen.name);
  if (colon == name.npos) return chosen;
  const std::string_view number = name.substr(colon + 1);
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), chosen.device);
  require(error == std::errc{} && end == number.data() + number.size() && chosen.device >= 0,
          "backend \"{}\": \"{}\" is no device's number", name, number);
  return chosen;
}

std::unique_ptr<Backend> ChosenBackend::make() const {
  const int count = device > 0 ? backend->device_count() : 0;
  if (count > 0 && device >= count)  // without any, the backend says why
    fail(ErrorCode::unavailable, "backend \"{0}\" has no device {1}: the last one is \"{0}:{2}\"",
         name, device, count - 1);
  return backend->make(device);
}

std::unique_ptr<Backend> make_backend(std::string_view name) {
  const ChosenBackend chosen = choose_backend(name);
  require(chosen.backend != nullptr, "backend \"{}\" is unknown; expected one of {}", name,
          backend_names());
  return chosen.make();
}

}  // namespace hologram

// backend/registry.h: the backends that this library was built with.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "backend/backend.h"

namespace hologram {

/// One backend of the build: a folder below src/backend that HOLOGRAM_BACKENDS names.
struct RegisteredBackend {
  std::string_view name;
  int (*device_count)();               ///< devices that it finds on this machine now
  std::unique_ptr<Backend> (*make)();  ///< throws Error(unavailable) where there is none
};

/// All of them, in the order in which "auto" tries them.
std::span<const RegisteredBackend> registered_backends();
/// The one of this name, or null.
const RegisteredBackend* find_backend(std::string_view name);
/// What "auto" means on this machine: the first backend with a device.
const RegisteredBackend& default_backend();
/// "cpu, interp, …", for messages.
std::string backend_names();
/// Throws Error(invalid_argument) for a name that is not registered, Error(unavailable) where the
/// machine lacks the device.
std::unique_ptr<Backend> make_backend(std::string_view name);

}  // namespace hologram

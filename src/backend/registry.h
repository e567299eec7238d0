// backend/registry.h: the backends that this library was built with.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "backend/backend.h"

namespace hologram {

/// In place of a device's number, of backends that compile for devices that are not here: webgpu.
inline constexpr int without_device = -1;

/// One backend of the build: a folder below src/backend that HOLOGRAM_BACKENDS names.
struct RegisteredBackend {
  std::string_view name;
  int (*device_count)();  ///< devices that it finds on this machine now
  /// For a device by its number. Throws Error(unavailable) where there is none.
  std::unique_ptr<Backend> (*make)(int device);
};

/// A device of a backend by name: "cuda:1"; without a number, the first one.
struct ChosenBackend {
  const RegisteredBackend* backend = nullptr;  ///< null: the build lacks it
  std::string name;                            ///< without the number
  int device = 0;

  /// Throws Error(unavailable), saying so, for a device that is not there.
  std::unique_ptr<Backend> make() const;
};

/// All of them, in the order in which "auto" tries them.
std::span<const RegisteredBackend> registered_backends();
/// Names for devices of one interface of a backend, "vulkan" for those of webgpu that it reaches by
/// Vulkan. Nothing tries them unasked.
std::span<const RegisteredBackend> registered_interfaces();
/// The backend or the interface of this name, or null.
const RegisteredBackend* find_backend(std::string_view name);
/// By name, with or without a device's number. Throws Error(invalid_argument) for what follows a
/// colon and is no number.
ChosenBackend choose_backend(std::string_view name);
/// What "auto" means on this machine: the first backend with a device, of those that HOLOGRAM_AUTO
/// names, separated by commas, then of all.
const RegisteredBackend& default_backend();
/// "cpu, interp, …", and interfaces behind them, for messages.
std::string backend_names();
/// By name, with or without a device's number. Throws Error(invalid_argument) for a name that is
/// not registered, Error(unavailable) where the machine lacks the device.
std::unique_ptr<Backend> make_backend(std::string_view name);

}  // namespace hologram

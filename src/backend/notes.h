// backend/notes.h: what a backend has to tell in words beside errors.
#pragma once

#include <mutex>
#include <string>
#include <vector>

namespace hologram {

/// Of all kernels and launchers of a backend, for Backend::notes(). Thread-safe.
class Notes {
 public:
  /// For a log and for who asks for the device. What is said already is not said again; of very
  /// many notes only the first are kept.
  void note(std::string words);
  std::vector<std::string> notes() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> notes_;
};

}  // namespace hologram

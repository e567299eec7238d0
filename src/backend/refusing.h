// backend/refusing.h: a backend that lacks some of a backend's work, and says so.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "backend/backend.h"

namespace hologram {

/// Refuses, as Error(unsupported), whatever makes or runs code; who derives from it overrides what
/// it does after all.
class RefusingBackend : public Backend {
 public:
  std::string compile(const atlas::Program&) const override { refuse(); }
  Kernel load(const atlas::Program&, std::string_view) const override { refuse(); }
  std::unique_ptr<Launcher> launcher(std::span<const atlas::EntryStep>,
                                     std::span<const std::shared_ptr<const Kernel>>,
                                     CodeStore&) const override {
    refuse();
  }
  std::unique_ptr<LaneKernel> compile_lanes(const atlas::LaneProgram&) const override { refuse(); }

 protected:
  /// `words`: of the refusal.
  explicit RefusingBackend(std::string_view words) : words_(words) {}

 private:
  [[noreturn]] void refuse() const { fail(ErrorCode::unsupported, "{}", words_); }

  const std::string_view words_;
};

}  // namespace hologram

// runtime/runtime.cpp: what compiled graphs share.
#include "runtime/runtime.h"

#include "backend/cpu/cpu.h"
#include "backend/interp/backend.h"
#include "base/error.h"

namespace hologram::runtime {
namespace {

std::unique_ptr<Backend> make_backend(std::string_view name) {
  if (name == "cpu") return cpu::make_backend();
  if (name == "interp") return interp::make_backend();
  fail(ErrorCode::invalid_argument,
       "Runtime: backend \"{}\" is unknown; expected \"cpu\" or \"interp\"", name);
}

}  // namespace

Runtime::Runtime(std::string_view backend)
    : backend_(make_backend(backend)),
      kernels_(*backend_, DiskCache::default_folder(), DiskCache::default_limit()) {}

}  // namespace hologram::runtime

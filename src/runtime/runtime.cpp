// runtime/runtime.cpp: what compiled graphs share.
#include "runtime/runtime.h"

#include "backend/cpu/cpu.h"
#include "backend/interp/backend.h"
#include "base/error.h"

namespace hologram::runtime {
namespace {

struct Built {
  std::string_view name;
  std::unique_ptr<Backend> (*make)();
};

/// What this library was built with and can run programs on, the fastest first.
constexpr Built built[] = {
    {"cpu", [] { return cpu::make_backend(); }},
    {"interp", [] { return interp::make_backend(); }},
};

std::unique_ptr<Backend> make_backend(std::string_view name) {
  for (const Built& b : built)
    if (b.name == name) return b.make();
  fail(ErrorCode::invalid_argument, "Runtime: backend \"{}\" is unknown; expected one of {}", name,
       fmt::join(Runtime::backends(), ", "));
}

}  // namespace

std::vector<std::string_view> Runtime::backends() {
  std::vector<std::string_view> names;
  for (const Built& b : built) names.push_back(b.name);
  return names;
}

Runtime::Runtime(std::string_view backend) : Runtime(make_backend(backend)) {}

Runtime::Runtime(std::unique_ptr<Backend> backend)
    : backend_(std::move(backend)),
      kernels_(*backend_, DiskCache::default_folder(), DiskCache::default_limit()) {}

}  // namespace hologram::runtime

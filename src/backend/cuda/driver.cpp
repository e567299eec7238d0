// backend/cuda/driver.cpp: opening the driver and devices.
#include "backend/cuda/driver.h"

#include <dlfcn.h>

#include <map>
#include <mutex>
#include <utility>

#include "backend/cuda/facts.h"
#include "base/error.h"
#include "base/settings.h"

namespace hologram::cuda {
namespace {

constexpr int oldest_driver = 12000;  // 12.0, NVIDIA's 525: reads PTX 8.0

template <class... Args>
[[noreturn]] void unavailable(fmt::format_string<Args...> format, Args&&... args) {
  fail(ErrorCode::unavailable, "backend \"cuda\" is not available: {}",
       fmt::format(format, std::forward<Args>(args)...));
}

std::string library_path() {
  const auto named = settings::text("HOLOGRAM_CUDA_DRIVER");
  if (named && named->empty()) unavailable("HOLOGRAM_CUDA_DRIVER is off");
  return named.value_or("libcuda.so.1");
}

std::unique_ptr<Driver> open(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) unavailable("no NVIDIA driver: {}", dlerror());
  auto d = std::make_unique<Driver>();
  d->path = path;
#define HOLOGRAM_CUDA_FIND(symbol, member, parameters)                        \
  d->member = reinterpret_cast<decltype(d->member)>(dlsym(library, #symbol)); \
  if (!d->member)                                                             \
    unavailable(                                                              \
        "the driver {} has no function {}: it is older "                      \
        "than CUDA 12.0",                                                     \
        path, #symbol);
  HOLOGRAM_CUDA_FUNCTIONS(HOLOGRAM_CUDA_FIND)
#undef HOLOGRAM_CUDA_FIND
  return d;
}

void require_here(const Driver& d, CuResult result, const char* what) {
  if (result != cu_success) unavailable("{}: {}", what, d.words_of(result));
}

void check_version(const Driver& d) {
  const int version = version_of(d);
  if (version < oldest_driver)
    unavailable("the NVIDIA driver is for CUDA {}.{}; it must be for {}.{} or later",
                version / 1000, version % 1000 / 10, oldest_driver / 1000,
                oldest_driver % 1000 / 10);
}

int attribute(const Driver& d, CuDevice device, int which) {
  int value = 0;
  require_here(d, d.device_attribute(&value, which, device), "asking a device");
  return value;
}

int count_devices(const Driver& d) {
  int count = 0;
  const CuResult found = d.device_count(&count);
  if (found == cu_no_device || (found == cu_success && count == 0))
    unavailable("the NVIDIA driver finds no device");
  require_here(d, found, "counting devices");
  return count;
}

int device_capability(const Driver& d, CuDevice device) {
  return attribute(d, device, cu_major) * 10 + attribute(d, device, cu_minor);
}

CuDevice checked_device(const Driver& d, int number) {
  const int count = count_devices(d);
  if (number >= count)
    unavailable("the NVIDIA driver finds {} devices and no number {}", count, number);
  CuDevice device = 0;
  require_here(d, d.device_get(&device, number), "opening a device");
  const int capability = device_capability(d, device);
  if (capability < least_capability)
    unavailable("device {} has compute capability {}.{}; it must be {}.{} or higher", number,
                capability / 10, capability % 10, least_capability / 10, least_capability % 10);
  if (attribute(d, device, cu_has_pools) == 0)
    unavailable("device {} has no memory pools (cuMemAllocAsync), as some virtual GPUs", number);
  return device;
}

// The pool of cuMemAllocAsync. By default it gives all that is free back to the system whenever
// somebody waits for the device, which each call does.
CuPool keeping_pool(const Driver& d, CuDevice device) {
  CuPool pool = nullptr;
  require_here(d, d.default_pool(&pool, device), "asking a device for its memory pool");
  uint64_t kept = UINT64_MAX;
  require_here(d, d.set_pool(pool, cu_pool_threshold, &kept), "having a memory pool keep memory");
  return pool;
}

std::unique_ptr<DeviceContext> open_device(const Driver& d, CuDevice device, int number) {
  char name[256] = {};
  require_here(d, d.device_name(name, sizeof name - 1, device), "asking a device for its name");
  size_t memory = 0;
  require_here(d, d.device_memory(&memory, device), "asking a device for its memory");
  CuContext context = nullptr;
  require_here(d, d.retain_context(&context, device), "making a context on a device");
  return std::unique_ptr<DeviceContext>(new DeviceContext{
      d, context, keeping_pool(d, device), number, name, attribute(d, device, cu_multiprocessors),
      device_capability(d, device), memory});
}

}  // namespace

int version_of(const Driver& d) {
  int version = 0;
  require_here(d, d.version(&version), "asking for the driver's version");
  return version;
}

std::string Driver::words_of(CuResult result) const {
  const char* text = nullptr;
  if (error_string(result, &text) != cu_success || !text) return fmt::format("error {}", result);
  return fmt::format("{} (error {})", text, result);
}

void Driver::require(CuResult result, const char* what) const {
  if (result == cu_success) return;
  fail(result == cu_out_of_memory ? ErrorCode::out_of_memory : ErrorCode::internal, "cuda: {}: {}",
       what, words_of(result));
}

const Driver& driver() {
  static std::mutex mutex;
  static auto* const opened = new std::map<std::string, std::unique_ptr<Driver>>;
  const std::string path = library_path();
  std::lock_guard lock(mutex);
  std::unique_ptr<Driver>& d = (*opened)[path];
  if (!d) d = open(path);
  check_version(*d);
  const CuResult started = d->init(0);
  if (started == cu_no_device) unavailable("the NVIDIA driver finds no device");
  require_here(*d, started, "starting the driver");
  return *d;
}

const DeviceContext& device_context(int number) {
  static std::mutex mutex;
  static auto* const opened =
      new std::map<std::pair<const Driver*, int>, std::unique_ptr<DeviceContext>>;
  const Driver& d = driver();
  std::lock_guard lock(mutex);
  const CuDevice device = checked_device(d, number);
  auto& kept = (*opened)[{&d, number}];
  if (!kept) kept = open_device(d, device, number);
  return *kept;
}

int usable_devices() {
  const Driver& d = driver();
  checked_device(d, 0);
  return count_devices(d);
}

Current::Current(const DeviceContext& device, std::nothrow_t) noexcept
    : driver_(device.driver), result_(driver_.get_context(&before_)) {
  if (result_ != cu_success || before_ == device.context) return;
  result_ = driver_.set_context(device.context);
  restores_ = result_ == cu_success && before_;  // a thread without a context may keep this one
}

Current::Current(const DeviceContext& device) : Current(device, std::nothrow) {
  driver_.require(result_, "making the device's context current");
}

Current::~Current() {
  if (restores_) driver_.set_context(before_);
}

}  // namespace hologram::cuda

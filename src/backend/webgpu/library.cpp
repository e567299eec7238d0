// backend/webgpu/library.cpp: opening wgpu-native and checking its version.
#include "backend/webgpu/library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>

#include "base/error.h"
#include "base/settings.h"

namespace hologram::webgpu {
namespace {

template <class... Args>
[[noreturn]] void no_library(fmt::format_string<Args...> format, Args&&... args) {
  fail(ErrorCode::unavailable, "backend \"webgpu\" is not available: {}",
       fmt::format(format, std::forward<Args>(args)...));
}

std::string library_path() {
  const auto named = settings::text("HOLOGRAM_WEBGPU_LIBRARY");
  if (named && named->empty()) no_library("HOLOGRAM_WEBGPU_LIBRARY is off");
  return named.value_or("libwgpu_native.so");
}

// The bytes of a version, the first one highest.
std::string version_words(uint32_t v) {
  return fmt::format("{}.{}.{}.{}", v >> 24, v >> 16 & 255, v >> 8 & 255, v & 255);
}

// Mesa's layer that puts the display's GPU first asks Wayland, and prints an error in processes
// without a session. Without a display or a wish of the user's it has nothing to say.
void quiet_device_selection() {
  const auto has = [](const char* name) { return !settings::foreign(name).empty(); };
  if (has("XDG_RUNTIME_DIR") || has("DISPLAY") || has("DRI_PRIME") || has("MESA_VK_DEVICE_SELECT"))
    return;
  setenv("NODEVICE_SELECT", "1", 0);
}

std::unique_ptr<Library> open(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) no_library("no wgpu-native, which `pip install wgpu` brings: {}", dlerror());
  auto out = std::make_unique<Library>();
  out->path = path;
#define HOLOGRAM_WEBGPU_FIND(name, result, parameters)                                            \
  out->api.name = reinterpret_cast<decltype(out->api.name)>(dlsym(handle, "wgpu" #name));         \
  if (!out->api.name) no_library("{} has no function wgpu" #name, path);                          \
  if (out->api.GetVersion && out->api.GetVersion() != checked_version)                            \
    no_library("{} is wgpu-native {}; it must be {}", path, version_words(out->api.GetVersion()), \
               version_words(checked_version));
  HOLOGRAM_WEBGPU_FUNCTIONS(HOLOGRAM_WEBGPU_FIND)
#undef HOLOGRAM_WEBGPU_FIND
  quiet_device_selection();
  out->api.SetLogLevel(0);  // what it has to say comes as errors
  InstanceExtras extras;
  extras.backends = full_interfaces;  // OpenGL would show the same devices again
  InstanceDescriptor wanted;
  wanted.next = &extras.chain;
  out->instance = out->api.CreateInstance(&wanted);
  if (!out->instance) no_library("{} makes no instance", path);
  return out;
}

}  // namespace

const Library& library() {
  static std::mutex mutex;
  static auto* const opened = new std::map<std::string, std::unique_ptr<Library>>;
  const std::string path = library_path();
  std::lock_guard lock(mutex);
  std::unique_ptr<Library>& found = (*opened)[path];
  if (!found) found = open(path);
  return *found;
}

}  // namespace hologram::webgpu

// emulator/spy_driver.cpp: a libcuda that passes all calls on, and tells of kernels
//
// HOLOGRAM_SPY_DRIVER           the driver itself, libcuda.so.1 by default
// HOLOGRAM_SPY_LOG              a file that gets a line of JSON for each kernel that is found in a
//                               module, for its first launch, and for each error
// HOLOGRAM_SPY_KEEP             a folder that gets each module's PTX or machine code
// HOLOGRAM_SPY_MULTIPROCESSORS  how many each device is said to have: plans as for a small device,
//                               also a single tile as work for all of it
// HOLOGRAM_SPY_INJECT           what=value,…, of which the fake driver takes fakecuda_inject's;
//                               hang=n: the wait behind n others never ends
//
// fakecuda_count has "maps", "launches" and "graphs" here too, for tests of which kernels run.
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "backend/cuda/driver.h"
#include "emulator/fake_driver.h"

namespace {

using namespace hologram::cuda;

std::string setting(const char* name, const char* otherwise = "") {
  const char* value = std::getenv(name);
  return value && *value ? value : otherwise;
}

// What is known of the process's calls. Never destroyed: calls may come until the very end.
struct Spy {
  void* driver = nullptr;
  int log = -1;
  std::mutex mutex;
  std::map<CuModule, std::string> modules;    // the names of their files
  std::map<CuFunction, std::string> kernels;  // "module: name"
  std::set<CuFunction> launched;
  std::map<CuGraph, int64_t> nodes;
  std::map<CuGraphExec, int64_t> launches_of;
  std::atomic<int64_t> maps{0}, launches{0}, graphs{0}, images{0}, waits_until_hang{-1};
};

// The function of the driver itself.
template <class F>
F real(const char* name);

Spy& spy() {
  static Spy* const made = [] {
    auto* s = new Spy;
    s->driver = dlopen(setting("HOLOGRAM_SPY_DRIVER", "libcuda.so.1").c_str(), RTLD_NOW);
    if (const std::string path = setting("HOLOGRAM_SPY_LOG"); !path.empty())
      s->log = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    std::istringstream wishes(setting("HOLOGRAM_SPY_INJECT"));
    for (std::string wish; std::getline(wishes, wish, ',');) {
      const std::string what = wish.substr(0, wish.find('='));
      const int64_t value = std::atoll(wish.substr(wish.find('=') + 1).c_str());
      if (what == "hang")
        s->waits_until_hang = value;
      else if (void* call = s->driver ? dlsym(s->driver, "fakecuda_inject") : nullptr)
        reinterpret_cast<decltype(&fakecuda_inject)>(call)(what.c_str(), value);
    }
    return s;
  }();
  return *made;
}

template <class F>
F real(const char* name) {
  return spy().driver ? reinterpret_cast<F>(dlsym(spy().driver, name)) : nullptr;
}

void tell(const std::string& line) {
  const std::string whole = line + "\n";
  if (spy().log >= 0 && write(spy().log, whole.data(), whole.size()) < 0) spy().log = -1;
}

CuResult told(CuResult result, const char* call, const std::string& of = "") {
  if (result != cu_success && result != cu_not_ready)
    tell(fmt::format(R"({{"error": {}, "call": "{}", "of": "{}"}})", result, call, of));
  return result;
}

int64_t image_bytes(const char* image) {
  if (std::memcmp(image,
                  "\x7f"
                  "ELF",
                  4) != 0)
    return static_cast<int64_t>(std::strlen(image));
  auto at = [&](int64_t offset, int bytes) {
    int64_t value = 0;
    std::memcpy(&value, image + offset, static_cast<size_t>(bytes));
    return value;
  };
  return std::max(at(0x28, 8) + at(0x3a, 2) * at(0x3c, 2),   // section headers,
                  at(0x20, 8) + at(0x36, 2) * at(0x38, 2));  // program headers: what is last
}

void keep(const std::string& name, const char* image) {
  const std::string folder = setting("HOLOGRAM_SPY_KEEP");
  if (folder.empty()) return;
  const int file = open((folder + "/" + name).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file < 0) return;
  if (write(file, image, static_cast<size_t>(image_bytes(image))) < 0)
    tell(fmt::format(R"({{"lost": "{}"}})", name));
  close(file);
}

CuResult load_module(CuModule* module, const void* image) {
  const auto* bytes = static_cast<const char*>(image);
  const bool elf = std::memcmp(bytes,
                               "\x7f"
                               "ELF",
                               4) == 0;
  const std::string name = fmt::format("{}_{}.{}", getpid(), spy().images++, elf ? "cubin" : "ptx");
  keep(name, bytes);
  const CuResult result =
      told(real<CuResult (*)(CuModule*, const void*)>("cuModuleLoadData")(module, image),
           "cuModuleLoadData", name);
  std::lock_guard lock(spy().mutex);
  if (result == cu_success) spy().modules[*module] = name;
  return result;
}

// Registers, bytes of local memory (spills and frames), static shared and constant memory and the
// most threads that a CTA may have.
CuResult find_function(CuFunction* function, CuModule module, const char* name) {
  const CuResult result = told(real<CuResult (*)(CuFunction*, CuModule, const char*)>(
                                   "cuModuleGetFunction")(function, module, name),
                               "cuModuleGetFunction", name);
  if (result != cu_success) return result;
  std::string line;
  const auto ask = real<CuResult (*)(int*, int, CuFunction)>("cuFuncGetAttribute");
  for (const auto& [what, number] : {std::pair{"registers", 4},
                                     {"local", 3},
                                     {"shared", 1},
                                     {"constant", 2},
                                     {"threads", 0},
                                     {"binary", 6}}) {
    int value = 0;
    if (ask && ask(&value, number, *function) == cu_success)
      line += fmt::format(R"(, "{}": {})", what, value);
  }
  std::lock_guard lock(spy().mutex);
  std::string& known = spy().kernels[*function] = spy().modules[module] + ": " + name;
  spy().launched.erase(*function);
  tell(fmt::format(R"({{"kernel": "{}"{}}})", known, line));
  return result;
}

void first_launch(CuFunction function, unsigned grid, unsigned block, unsigned shared) {
  std::lock_guard lock(spy().mutex);
  if (spy().launched.insert(function).second)
    tell(fmt::format(R"({{"launched": "{}", "grid": {}, "block": {}, "dynamic": {}}})",
                     spy().kernels[function], grid, block, shared));
}

CuResult launch(CuFunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                unsigned by, unsigned bz, unsigned shared, CuStream stream, void** parameters,
                void** extra) {
  first_launch(function, gx, bx, shared);
  ++spy().launches;
  const CuResult result = real<decltype(&launch)>("cuLaunchKernel")(
      function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra);
  if (result == cu_success) return result;
  std::lock_guard lock(spy().mutex);
  return told(result, "cuLaunchKernel", spy().kernels[function]);
}

CuResult add_kernel(CuGraphNode* node, CuGraph graph, const CuGraphNode* after, size_t num_after,
                    const CuKernelNode* kernel) {
  first_launch(kernel->function, kernel->grid[0], kernel->block[0], kernel->shared_bytes);
  {
    std::lock_guard lock(spy().mutex);
    ++spy().nodes[graph];
  }
  return told(
      real<decltype(&add_kernel)>("cuGraphAddKernelNode_v2")(node, graph, after, num_after, kernel),
      "cuGraphAddKernelNode_v2");
}

CuResult instantiate(CuGraphExec* exec, CuGraph graph, unsigned long long flags) {
  const CuResult result =
      told(real<decltype(&instantiate)>("cuGraphInstantiateWithFlags")(exec, graph, flags),
           "cuGraphInstantiateWithFlags");
  std::lock_guard lock(spy().mutex);
  if (result == cu_success) spy().launches_of[*exec] = std::exchange(spy().nodes[graph], 0);
  return result;
}

CuResult launch_graph(CuGraphExec exec, CuStream stream) {
  ++spy().graphs;
  {
    std::lock_guard lock(spy().mutex);
    spy().launches += spy().launches_of[exec];
  }
  return told(real<decltype(&launch_graph)>("cuGraphLaunch")(exec, stream), "cuGraphLaunch");
}

CuResult encode_map(CuTensorMap* map, int type, unsigned rank, void* address, const uint64_t* sizes,
                    const uint64_t* strides, const unsigned* box, const unsigned* steps,
                    int interleave, int swizzle, int promotion, int fill) {
  const CuResult result = real<decltype(&encode_map)>("cuTensorMapEncodeTiled")(
      map, type, rank, address, sizes, strides, box, steps, interleave, swizzle, promotion, fill);
  if (result == cu_success) ++spy().maps;
  std::string of = fmt::format("type {} swizzle {} address {}", type, swizzle, address);
  for (unsigned n = 0; n < rank; ++n)
    of += fmt::format(" | {} box {} stride {}", sizes[n], box[n], n ? strides[n - 1] : 0);
  return told(result, "cuTensorMapEncodeTiled", of);
}

CuResult device_attribute(int* value, int attribute, CuDevice device) {
  const CuResult result =
      real<decltype(&device_attribute)>("cuDeviceGetAttribute")(value, attribute, device);
  const std::string said = setting("HOLOGRAM_SPY_MULTIPROCESSORS");
  if (attribute == cu_multiprocessors && !said.empty()) *value = std::atoi(said.c_str());
  return result;
}

void wait_as_wished() {
  if (spy().waits_until_hang < 0 || spy().waits_until_hang-- > 0) return;
  for (;;) pause();
}

CuResult synchronize(CuStream stream) {
  wait_as_wished();
  return told(real<decltype(&synchronize)>("cuStreamSynchronize")(stream), "cuStreamSynchronize");
}

CuResult synchronize_all() {
  wait_as_wished();
  return told(real<decltype(&synchronize_all)>("cuCtxSynchronize")(), "cuCtxSynchronize");
}

CuResult wait_event(CuEvent event) {
  wait_as_wished();
  return told(real<decltype(&wait_event)>("cuEventSynchronize")(event), "cuEventSynchronize");
}

// What stands in for a function of the driver; else the function itself.
void* found(std::string_view name) {
  static const std::map<std::string_view, void*> own{
      {"cuModuleLoadData", reinterpret_cast<void*>(load_module)},
      {"cuModuleGetFunction", reinterpret_cast<void*>(find_function)},
      {"cuLaunchKernel", reinterpret_cast<void*>(launch)},
      {"cuGraphAddKernelNode_v2", reinterpret_cast<void*>(add_kernel)},
      {"cuGraphInstantiateWithFlags", reinterpret_cast<void*>(instantiate)},
      {"cuGraphLaunch", reinterpret_cast<void*>(launch_graph)},
      {"cuTensorMapEncodeTiled", reinterpret_cast<void*>(encode_map)},
      {"cuDeviceGetAttribute", reinterpret_cast<void*>(device_attribute)},
      {"cuStreamSynchronize", reinterpret_cast<void*>(synchronize)},
      {"cuCtxSynchronize", reinterpret_cast<void*>(synchronize_all)},
      {"cuEventSynchronize", reinterpret_cast<void*>(wait_event)}};
  void* const of_driver = real<void*>(name.data());
  const auto at = own.find(name);
  return of_driver && at != own.end() ? at->second : of_driver;
}

}  // namespace

// Each function is resolved where the backend asks for it, to `found`.
#define SPY_ON(symbol, member, parameters)                                           \
  extern "C" hologram::cuda::CuResult(*spy_on_##symbol()) parameters {               \
    return reinterpret_cast<hologram::cuda::CuResult(*) parameters>(found(#symbol)); \
  }                                                                                  \
  extern "C" hologram::cuda::CuResult symbol parameters __attribute__((ifunc("spy_on_" #symbol)));
HOLOGRAM_CUDA_FUNCTIONS(SPY_ON)
#undef SPY_ON

extern "C" int64_t fakecuda_count(const char* what) {
  const std::string_view name = what;
  if (name == "maps") return spy().maps;
  if (name == "launches") return spy().launches;
  return name == "graphs" ? spy().graphs.load() : -1;
}

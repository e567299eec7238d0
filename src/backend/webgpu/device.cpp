// backend/webgpu/device.cpp: adapters, and the device that is opened on one.
#include "backend/webgpu/device.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/settings.h"

namespace hologram::webgpu {
namespace {

template <class... Args>
[[noreturn]] void no_device(fmt::format_string<Args...> format, Args&&... args) {
  fail(ErrorCode::unavailable, "backend \"webgpu\" is not available: {}",
       fmt::format(format, std::forward<Args>(args)...));
}

AdapterInfo info_of(const Library& l, Adapter adapter) {
  AdapterInfo info;
  l.api.AdapterGetInfo(adapter, &info);
  return info;
}

std::string_view interface_name(uint32_t backend) {
  return backend == backend_vulkan  ? "Vulkan"
         : backend == backend_metal ? "Metal"
         : backend == backend_d3d12 ? "Direct3D 12"
                                    : "another interface";
}

// GPUs before processors.
std::vector<Adapter> adapters_of(const Library& l) {
  const AdapterChoice all;
  std::vector<Adapter> found(l.api.InstanceEnumerateAdapters(l.instance, &all, nullptr));
  found.resize(l.api.InstanceEnumerateAdapters(l.instance, &all, found.data()));
  std::ranges::stable_sort(found, {}, [&](Adapter a) { return info_of(l, a).type; });
  return found;
}

struct Named {
  std::string name;
  std::string_view interface;
};
std::vector<Named> named_adapters() {
  const Library& l = library();
  std::vector<Named> out;
  for (Adapter a : adapters_of(l)) {
    const AdapterInfo info = info_of(l, a);
    out.push_back({std::string(info.device.view()), interface_name(info.backend)});
    l.api.AdapterRelease(a);
  }
  return out;
}

void got_device(uint32_t status, Gpu gpu, StringView words, void* out, void* said) {
  if (status == success) *static_cast<Gpu*>(out) = gpu;
  *static_cast<std::string*>(said) = words.view();
}

}  // namespace

// What calls of this thread are told while checked() runs them.
struct DeviceContext::Heard {
  uint32_t type = 0;
  std::string words;
  static Heard*& here() {
    thread_local Heard* heard = nullptr;
    return heard;
  }
};

DeviceContext::DeviceContext(const Library& opened, Adapter adapter, int which)
    : library(opened), api(opened.api), number(which) {
  const AdapterInfo info = info_of(library, adapter);
  name = info.device.view();
  driver = info.description.view();
  interface = interface_name(info.backend);
  if (name.starts_with("llvmpipe")) most_rounds = 65535;  // gallivm's LP_MAX_TGSI_LOOP_ITERATIONS
  open(adapter, info.type);
}

void DeviceContext::open(Adapter adapter, uint32_t type) {
  api.AdapterGetLimits(adapter, &limits);
  f16 = api.AdapterHasFeature(adapter, feature_f16) != 0;
  // Processors work through a subgroup's threads one by one.
  const std::string_view on_gpus = type == adapter_cpu ? "never" : "always";
  subgroups =
      api.AdapterHasFeature(adapter, feature_subgroups) != 0 &&
      settings::text("HOLOGRAM_WEBGPU_SUBGROUPS").value_or(std::string(on_gpus)) == "always";
  // Of another device's memory, that which the host sees is the slow one to kernels.
  unified = (type == adapter_integrated || type == adapter_cpu) &&
            api.AdapterHasFeature(adapter, feature_mapped_storage) != 0 &&
            !settings::is_on("HOLOGRAM_WEBGPU_STAGING");
  limits.next = nullptr;
  storage_binding = limits.storage_binding;
  sure_bytes = storage_binding - binding_alignment;
  DeviceDescriptor wanted;
  std::vector<uint32_t> features;
  if (unified) features.push_back(feature_mapped_storage);
  if (subgroups) features.push_back(feature_subgroups);
  wanted.num_features = features.size();
  wanted.features = features.data();
  wanted.limits = &limits;
  wanted.lost = {nullptr, allow_spontaneous, lose, this, nullptr};
  wanted.error = {nullptr, hear, this, nullptr};
  std::string words;
  api.AdapterRequestDevice(adapter, &wanted,
                           {nullptr, allow_spontaneous, got_device, &gpu, &words});
  if (!gpu) no_device("adapter {} ({}) opens no device: {}", number, name, words);
  queue = api.DeviceGetQueue(gpu);
}

void DeviceContext::hear(const Gpu*, uint32_t type, StringView words, void* device, void*) {
  if (Heard* heard = Heard::here()) {
    if (heard->type == 0) *heard = {type, std::string(words.view())};
    return;
  }
  auto& self = *static_cast<DeviceContext*>(device);
  std::lock_guard lock(self.mutex_);
  if (self.unheard_.empty()) self.unheard_ = words.view();
}

void DeviceContext::lose(const Gpu*, uint32_t, StringView words, void* device, void*) {
  auto& self = *static_cast<DeviceContext*>(device);
  std::lock_guard lock(self.mutex_);
  self.unheard_ = fmt::format("the device is lost: {}", words.view());
}

void DeviceContext::checked(std::string_view what, const std::function<void()>& calls) const {
  Heard heard;
  Heard* const before = std::exchange(Heard::here(), &heard);
  calls();
  Heard::here() = before;
  if (heard.type != 0)
    fail(heard.type == error_out_of_memory ? ErrorCode::out_of_memory : ErrorCode::internal,
         "webgpu: {}: {}", what, heard.words);
}

void DeviceContext::tell_faults() const {
  std::string words;
  {
    std::lock_guard lock(mutex_);
    words = std::exchange(unheard_, {});
  }
  if (!words.empty()) fail(ErrorCode::internal, "webgpu: {}", words);
}

Buffer DeviceContext::make_buffer(uint64_t bytes, uint64_t usage) const {
  if (bytes > limits.buffer_bytes)
    fail(ErrorCode::out_of_memory,
         "webgpu: a block of {} bytes; {} allows {} in a buffer (maxBufferSize)", bytes, name,
         limits.buffer_bytes);
  BufferDescriptor wanted;
  wanted.usage = usage;
  wanted.bytes = bytes;
  Buffer made = nullptr;
  checked("making a buffer", [&] { made = api.DeviceCreateBuffer(gpu, &wanted); });
  if (!made) fail(ErrorCode::out_of_memory, "webgpu: no room for {} bytes", bytes);
  return made;
}

namespace {

struct Mapped {
  bool done = false, right = false;
  std::string words;
};

void got_bytes(uint32_t status, StringView words, void* out, void*) {
  *static_cast<Mapped*>(out) = {true, status == success, std::string(words.view())};
}

}  // namespace

// The queue takes it with the next work that is submitted: at once where buffers are mapped, as
// those who map it have to find it.
void DeviceContext::write(Buffer buffer, uint64_t begin, const void* from, size_t bytes) const {
  std::lock_guard lock(submitting_);
  checked("writing a buffer", [&] {
    api.QueueWriteBuffer(queue, buffer, begin, from, bytes);
    if (unified) api.QueueSubmitForIndex(queue, 0, nullptr);
  });
}

bool DeviceContext::map(Buffer buffer, uint64_t mode, uint64_t begin, uint64_t end, bool patient,
                        const std::function<void(void*)>& use) const {
  if (patient) wait();  // others may submit meanwhile
  std::lock_guard lock(submitting_);
  Mapped mapped;
  bool busy = false;
  checked("mapping a buffer", [&] {
    api.BufferMapAsync(buffer, mode, begin, end - begin,
                       {nullptr, allow_spontaneous, got_bytes, &mapped, nullptr});
    api.DevicePoll(gpu, patient ? 1 : 0, nullptr);
    busy = !mapped.done;
    if (busy) api.BufferUnmap(buffer);  // which ends the wish
    while (!mapped.done) api.DevicePoll(gpu, 1, nullptr);
  });
  if (busy) return false;
  if (!mapped.right) fail(ErrorCode::internal, "webgpu: mapping a buffer: {}", mapped.words);
  use(mode == map_read
          ? const_cast<void*>(api.BufferGetConstMappedRange(buffer, begin, end - begin))
          : api.BufferGetMappedRange(buffer, begin, end - begin));
  api.BufferUnmap(buffer);
  return true;
}

void DeviceContext::wait() const { api.DevicePoll(gpu, 1, nullptr); }

void DeviceContext::submit(const std::function<void(Encoder)>& record) const {
  checked("submitting work", [&] {
    const Encoder encoder = api.DeviceCreateCommandEncoder(gpu, nullptr);
    record(encoder);
    const Commands commands = api.CommandEncoderFinish(encoder, nullptr);
    api.CommandEncoderRelease(encoder);
    if (!commands) return;  // the reason has been heard
    std::lock_guard lock(submitting_);
    api.QueueSubmitForIndex(queue, 1, &commands);
    api.CommandBufferRelease(commands);
  });
}

int count_adapters(std::string_view interface) {
  const std::vector<Named> found = named_adapters();
  return static_cast<int>(std::ranges::count_if(
      found, [&](const Named& n) { return interface.empty() || n.interface == interface; }));
}

int adapter_number(std::string_view backend, std::string_view interface, int number) {
  std::vector<Named> found;
  try {
    found = named_adapters();
  } catch (const Error& e) {
    fail(e.code(), "backend \"{}\" is not available: {}", backend, e.what());
  }
  std::string others;
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i].interface == interface && number-- == 0) return static_cast<int>(i);
    others += fmt::format("{}{} by {}", i == 0 ? "" : ", ", found[i].name, found[i].interface);
  }
  fail(ErrorCode::unavailable,
       "backend \"{}\" is not available: {} finds no such adapter of {}; it finds {}", backend,
       library().path, interface, others.empty() ? "none" : others);
}

const DeviceContext& device_context(int number) {
  static std::mutex mutex;
  static auto* const opened =
      new std::map<std::pair<const Library*, int>, std::unique_ptr<DeviceContext>>;
  const Library& l = webgpu::library();
  std::lock_guard lock(mutex);
  auto& kept = (*opened)[{&l, number}];
  if (kept) return *kept;
  const std::vector<Adapter> found = adapters_of(l);
  if (found.empty())
    no_device("{} finds no adapter: no driver for Vulkan, Metal or Direct3D 12", l.path);
  if (number >= static_cast<int>(found.size()))
    no_device("{} finds {} adapters and no number {}", l.path, found.size(), number);
  kept = std::make_unique<DeviceContext>(l, found[static_cast<size_t>(number)], number);
  for (Adapter a : found) l.api.AdapterRelease(a);
  return *kept;
}

}  // namespace hologram::webgpu

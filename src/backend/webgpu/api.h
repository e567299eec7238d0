// backend/webgpu/api.h: declarations of webgpu.h as wgpu-native 29.0.1.1 has it, and the functions
// that are looked up in it.
//
// The layouts of its structures change between versions: library.cpp refuses any other one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hologram::webgpu {

inline constexpr uint32_t checked_version = 0x1d000101;  // 29.0.1.1

// Objects of the library.
using Instance = struct InstanceImpl*;
using Adapter = struct AdapterImpl*;
using Gpu = struct DeviceImpl*;
using Queue = struct QueueImpl*;
using Buffer = struct BufferImpl*;
using Shader = struct ShaderModuleImpl*;
using Pipeline = struct ComputePipelineImpl*;
using Layout = struct BindGroupLayoutImpl*;
using BindGroup = struct BindGroupImpl*;
using Encoder = struct CommandEncoderImpl*;
using Pass = struct ComputePassEncoderImpl*;
using Commands = struct CommandBufferImpl*;

struct StringView {
  const char* data = nullptr;
  size_t length = SIZE_MAX;  ///< SIZE_MAX: ended by 0, or nothing where data is null
  std::string_view view() const {
    if (!data) return {};
    return length == SIZE_MAX ? std::string_view(data) : std::string_view(data, length);
  }
};
inline StringView text_of(std::string_view s) { return {s.data(), s.size()}; }

struct Chained {
  const Chained* next = nullptr;
  uint32_t kind = 0;
};

enum : uint32_t {
  allow_spontaneous = 3,  // callbacks: as soon as it is known
  success = 1,            // of adapters, devices and mappings
  error_validation = 2,
  error_out_of_memory = 3,
  backend_d3d12 = 4,
  backend_metal = 5,
  backend_vulkan = 6,
  high_performance = 2,
  feature_f16 = 0x0b,
  feature_mapped_storage = 0x0003000e,  // of wgpu.h: MappablePrimaryBuffers
  feature_subgroups = 0x00030021,       // of wgpu.h; the standard's is unknown to it
  adapter_integrated = 2,
  adapter_cpu = 3,
  shader_source_wgsl = 2,
  instance_extras = 0x00030004,
};
enum : uint64_t {
  full_interfaces = 0x1 | 0x4 | 0x8,  // Vulkan, Metal, Direct3D 12
  map_read = 0x1,
  map_write = 0x2,
  copy_source = 0x4,
  copy_target = 0x8,
  uniform_use = 0x40,
  storage_use = 0x80,
};

/// What a call says when it is through: the result's status, perhaps an object, words, and what
/// stands here.
template <class Function>
struct Callback {
  const Chained* next = nullptr;
  uint32_t mode = allow_spontaneous;
  Function* call = nullptr;
  void* first = nullptr;
  void* second = nullptr;
};
using OnAdapter = void(uint32_t, Adapter, StringView, void*, void*);
using OnDevice = void(uint32_t, Gpu, StringView, void*, void*);
using OnMapped = void(uint32_t, StringView, void*, void*);
using OnLost = void(const Gpu*, uint32_t, StringView, void*, void*);
using OnError = void(const Gpu*, uint32_t, StringView, void*, void*);
using OnScope = void(uint32_t, uint32_t, StringView, void*, void*);

struct ErrorCallback {
  const Chained* next = nullptr;
  OnError* call = nullptr;
  void* first = nullptr;
  void* second = nullptr;
};

struct AdapterInfo {
  const Chained* next = nullptr;
  StringView vendor, architecture, device, description;
  uint32_t backend = 0, type = 0, vendor_id = 0, device_id = 0;
  uint32_t least_subgroup = 0, most_subgroup = 0;
};

struct Limits {
  const Chained* next = nullptr;
  uint32_t texture_1d, texture_2d, texture_3d, texture_layers;
  uint32_t bind_groups, bind_groups_and_vertices, bindings;
  uint32_t dynamic_uniforms, dynamic_storages, sampled_textures, samplers;
  uint32_t storage_buffers, storage_textures, uniform_buffers;
  uint64_t uniform_binding, storage_binding;
  uint32_t uniform_alignment, storage_alignment;
  uint32_t vertex_buffers;
  uint64_t buffer_bytes;
  uint32_t vertex_attributes, vertex_stride, stage_variables, color_attachments, color_bytes;
  uint32_t workgroup_memory, invocations, size_x, size_y, size_z, workgroups, immediate_bytes;
};

struct InstanceExtras {  // of wgpu.h; zeros stand for what is usual
  Chained chain{nullptr, instance_extras};
  uint64_t backends = 0, flags = 0;
  uint32_t d3d12_compiler = 0, gles_minor = 0, gl_fences = 0;
  StringView dxc_path;
  uint32_t dxc_model = 0, d3d12_swapchain = 0;
  const uint8_t* budget_for_devices = nullptr;
  const uint8_t* budget_for_loss = nullptr;
  struct {
    uint32_t type = 0;
    uint64_t handles[2] = {};
  } display;
};
struct InstanceDescriptor {
  const Chained* next = nullptr;
  size_t num_features = 0;
  const uint32_t* features = nullptr;
  const void* limits = nullptr;
};
struct QueueDescriptor {
  const Chained* next = nullptr;
  StringView label;
};
struct DeviceDescriptor {
  const Chained* next = nullptr;
  StringView label;
  size_t num_features = 0;
  const uint32_t* features = nullptr;
  const Limits* limits = nullptr;
  QueueDescriptor queue;
  Callback<OnLost> lost;
  ErrorCallback error;
};
struct AdapterOptions {
  const Chained* next = nullptr;
  uint32_t feature_level = 0, power = 0, fallback = 0, backend = 0;
  void* surface = nullptr;
};
struct AdapterChoice {  // WGPUInstanceEnumerateAdapterOptions
  const Chained* next = nullptr;
  uint64_t backends = 0;
};
struct BufferDescriptor {
  const Chained* next = nullptr;
  StringView label;
  uint64_t usage = 0, bytes = 0;
  uint32_t mapped = 0;
};
struct ShaderDescriptor {
  const Chained* next = nullptr;
  StringView label;
};
struct WgslSource {
  Chained chain{nullptr, shader_source_wgsl};
  StringView code;
};
struct Constant {  // WGPUConstantEntry
  const Chained* next = nullptr;
  StringView name;
  double value = 0;
};
struct PipelineDescriptor {
  const Chained* next = nullptr;
  StringView label;
  void* layout = nullptr;
  struct {
    const Chained* next = nullptr;
    Shader module = nullptr;
    StringView entry;
    size_t num_constants = 0;
    const Constant* constants = nullptr;
  } compute;
};
struct BindGroupEntry {
  const Chained* next = nullptr;
  uint32_t binding = 0;
  Buffer buffer = nullptr;
  uint64_t offset = 0, bytes = 0;
  void* sampler = nullptr;
  void* texture = nullptr;
};
struct BindGroupDescriptor {
  const Chained* next = nullptr;
  StringView label;
  Layout layout = nullptr;
  size_t num_entries = 0;
  const BindGroupEntry* entries = nullptr;
};
struct Future {
  uint64_t id;
};

// X(name without "wgpu", result, parameters)
#define HOLOGRAM_WEBGPU_FUNCTIONS(X)                                                            \
  X(GetVersion, uint32_t, (void))                                                               \
  X(SetLogLevel, void, (uint32_t))                                                              \
  X(CreateInstance, Instance, (const InstanceDescriptor*))                                      \
  X(InstanceEnumerateAdapters, size_t, (Instance, const AdapterChoice*, Adapter*))              \
  X(AdapterGetInfo, uint32_t, (Adapter, AdapterInfo*))                                          \
  X(AdapterGetLimits, uint32_t, (Adapter, Limits*))                                             \
  X(AdapterHasFeature, uint32_t, (Adapter, uint32_t))                                           \
  X(AdapterRequestDevice, Future, (Adapter, const DeviceDescriptor*, Callback<OnDevice>))       \
  X(AdapterRelease, void, (Adapter))                                                            \
  X(DeviceGetQueue, Queue, (Gpu))                                                               \
  X(DeviceCreateBuffer, Buffer, (Gpu, const BufferDescriptor*))                                 \
  X(DeviceCreateShaderModule, Shader, (Gpu, const ShaderDescriptor*))                           \
  X(DeviceCreateComputePipeline, Pipeline, (Gpu, const PipelineDescriptor*))                    \
  X(DeviceCreateBindGroup, BindGroup, (Gpu, const BindGroupDescriptor*))                        \
  X(DeviceCreateCommandEncoder, Encoder, (Gpu, const void*))                                    \
  X(DevicePoll, uint32_t, (Gpu, uint32_t, const uint64_t*))                                     \
  X(DevicePushErrorScope, void, (Gpu, uint32_t))                                                \
  X(DevicePopErrorScope, Future, (Gpu, Callback<OnScope>))                                      \
  X(ComputePipelineGetBindGroupLayout, Layout, (Pipeline, uint32_t))                            \
  X(CommandEncoderBeginComputePass, Pass, (Encoder, const void*))                               \
  X(CommandEncoderCopyBufferToBuffer, void,                                                     \
    (Encoder, Buffer, uint64_t, Buffer, uint64_t, uint64_t))                                    \
  X(CommandEncoderClearBuffer, void, (Encoder, Buffer, uint64_t, uint64_t))                     \
  X(CommandEncoderFinish, Commands, (Encoder, const void*))                                     \
  X(ComputePassEncoderSetPipeline, void, (Pass, Pipeline))                                      \
  X(ComputePassEncoderSetBindGroup, void, (Pass, uint32_t, BindGroup, size_t, const uint32_t*)) \
  X(ComputePassEncoderDispatchWorkgroups, void, (Pass, uint32_t, uint32_t, uint32_t))           \
  X(ComputePassEncoderEnd, void, (Pass))                                                        \
  X(QueueSubmitForIndex, uint64_t, (Queue, size_t, const Commands*))                            \
  X(QueueWriteBuffer, void, (Queue, Buffer, uint64_t, const void*, size_t))                     \
  X(BufferMapAsync, Future, (Buffer, uint64_t, size_t, size_t, Callback<OnMapped>))             \
  X(BufferGetMappedRange, void*, (Buffer, size_t, size_t))                                      \
  X(BufferGetConstMappedRange, const void*, (Buffer, size_t, size_t))                           \
  X(BufferUnmap, void, (Buffer))                                                                \
  X(BufferRelease, void, (Buffer))                                                              \
  X(ShaderModuleRelease, void, (Shader))                                                        \
  X(ComputePipelineRelease, void, (Pipeline))                                                   \
  X(BindGroupLayoutRelease, void, (Layout))                                                     \
  X(BindGroupRelease, void, (BindGroup))                                                        \
  X(CommandEncoderRelease, void, (Encoder))                                                     \
  X(ComputePassEncoderRelease, void, (Pass))                                                    \
  X(CommandBufferRelease, void, (Commands))

/// The functions of an opened library, under their names without "wgpu".
struct Api {
#define HOLOGRAM_WEBGPU_MEMBER(name, result, parameters) result(*name) parameters = nullptr;
  HOLOGRAM_WEBGPU_FUNCTIONS(HOLOGRAM_WEBGPU_MEMBER)
#undef HOLOGRAM_WEBGPU_MEMBER
};

}  // namespace hologram::webgpu

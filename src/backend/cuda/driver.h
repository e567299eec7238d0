// backend/cuda/driver.h: the CUDA driver, opened at run time: the part of it that is used here.
//
// Types and prototypes are those of NVIDIA's cuda.h by its stable binary interface; nothing of the
// toolkit is needed to build.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>

namespace hologram::cuda {

using CuDevice = int;
using CuPointer = uint64_t;
using CuContext = struct CuContextObject*;
using CuStream = struct CuStreamObject*;
using CuEvent = struct CuEventObject*;
using CuGraph = struct CuGraphObject*;
using CuGraphNode = struct CuGraphNodeObject*;
using CuGraphExec = struct CuGraphExecObject*;
using CuPool = struct CuPoolObject*;
using CuModule = struct CuModuleObject*;
using CuFunction = struct CuFunctionObject*;
using CuResult = int;

/// CUDA_KERNEL_NODE_PARAMS_v2.
struct CuKernelNode {
  CuFunction function;
  unsigned grid[3], block[3], shared_bytes;
  void** parameters;
  void** extra;
  void* kernel;  ///< of a library; null where `function` says it
  CuContext context;
};

/// CUtensorMap.
struct alignas(128) CuTensorMap {
  uint64_t opaque[16];
  bool operator==(const CuTensorMap&) const = default;
};

/// Numbers of cuda.h.
inline constexpr CuResult cu_success = 0, cu_out_of_memory = 2, cu_no_device = 100;
inline constexpr CuResult cu_not_ready = 600;
/// Of an image: it is none, has none for the device, is no PTX, of a later version, or would have
/// to be compiled, which is forbidden.
inline constexpr CuResult cu_refusals[] = {200, 209, 218, 222, 223};
inline constexpr unsigned cu_event_no_timing = 2;           // CUevent_flags
inline constexpr int cu_major = 75, cu_minor = 76;          // CUdevice_attribute
inline constexpr int cu_multiprocessors = 16;               // CUdevice_attribute
inline constexpr int cu_has_pools = 115;                    // CUdevice_attribute
inline constexpr int cu_pool_threshold = 4;                 // CUmemPool_attribute
inline constexpr int cu_pool_reserved = 5;                  // CUmemPool_attribute
inline constexpr int cu_pointer_memory_type = 2;            // CUpointer_attribute
inline constexpr int cu_pointer_device = 9;                 // CUpointer_attribute
inline constexpr unsigned cu_memory_device = 2;             // CUmemorytype
inline constexpr unsigned cu_stream_non_blocking = 1;       // CUstream_flags
inline constexpr int cu_most_dynamic_shared = 8;            // CUfunction_attribute
inline constexpr int cu_map_byte = 0;                       // CUtensorMapDataType
inline constexpr int cu_map_float16 = 6;                    // CUtensorMapDataType
inline constexpr int cu_map_float32 = 7;                    // CUtensorMapDataType
inline constexpr int cu_map_bfloat16 = 9;                   // CUtensorMapDataType
inline constexpr int cu_map_swizzle_64 = 2;                 // CUtensorMapSwizzle
inline constexpr int cu_map_swizzle_128 = 3;                // CUtensorMapSwizzle
inline constexpr int cu_map_promotion_256 = 3;              // CUtensorMapL2promotion
inline constexpr unsigned cu_host_portable_mapped = 1 | 2;  // CU_MEMHOSTALLOC_*

// clang-format off
/// name in the library, member, parameters
#define HOLOGRAM_CUDA_FUNCTIONS(f)                                                                \
  f(cuInit, init, (unsigned flags))                                                               \
  f(cuDriverGetVersion, version, (int* version))                                                  \
  f(cuDeviceGetCount, device_count, (int* count))                                                 \
  f(cuDeviceGet, device_get, (CuDevice* device, int number))                                      \
  f(cuDeviceGetAttribute, device_attribute, (int* value, int attribute, CuDevice device))         \
  f(cuDeviceGetName, device_name, (char* name, int room, CuDevice device))                        \
  f(cuDeviceTotalMem_v2, device_memory, (size_t* bytes, CuDevice device))                         \
  f(cuDevicePrimaryCtxRetain, retain_context, (CuContext* context, CuDevice device))              \
  f(cuCtxSetCurrent, set_context, (CuContext context))                                            \
  f(cuCtxGetCurrent, get_context, (CuContext* context))                                           \
  f(cuCtxSynchronize, synchronize_all, ())                                                        \
  f(cuDeviceGetDefaultMemPool, default_pool, (CuPool* pool, CuDevice device))                     \
  f(cuMemPoolSetAttribute, set_pool, (CuPool pool, int attribute, void* value))                   \
  f(cuMemPoolGetAttribute, ask_pool, (CuPool pool, int attribute, void* value))                   \
  f(cuMemPoolTrimTo, trim_pool, (CuPool pool, size_t kept))                                       \
  f(cuMemAllocAsync, allocate, (CuPointer* block, size_t bytes, CuStream stream))                 \
  f(cuMemFreeAsync, free, (CuPointer block, CuStream stream))                                     \
  f(cuMemHostAlloc, host_allocate, (void** block, size_t bytes, unsigned flags))                  \
  f(cuMemHostGetDevicePointer_v2, device_pointer, (CuPointer* to, void* host, unsigned flags))    \
  f(cuMemFreeHost, host_free, (void* block))                                                      \
  f(cuMemcpyAsync, copy, (CuPointer to, CuPointer from, size_t bytes, CuStream stream))           \
  f(cuMemsetD8Async, fill_bytes,                                                                  \
    (CuPointer to, unsigned char value, size_t count, CuStream stream))                           \
  f(cuMemsetD16Async, fill_halves,                                                                \
    (CuPointer to, unsigned short value, size_t count, CuStream stream))                          \
  f(cuMemsetD32Async, fill_words,                                                                 \
    (CuPointer to, unsigned value, size_t count, CuStream stream))                                \
  f(cuPointerGetAttribute, pointer_attribute, (void* value, int attribute, CuPointer p))          \
  f(cuStreamCreate, make_stream, (CuStream* stream, unsigned flags))                              \
  f(cuStreamDestroy_v2, free_stream, (CuStream stream))                                           \
  f(cuStreamSynchronize, synchronize, (CuStream stream))                                          \
  f(cuStreamIsCapturing, capture_status, (CuStream stream, int* status))                          \
  f(cuStreamWaitEvent, wait_for, (CuStream stream, CuEvent event, unsigned flags))                \
  f(cuEventCreate, make_event, (CuEvent* event, unsigned flags))                                  \
  f(cuEventDestroy_v2, free_event, (CuEvent event))                                               \
  f(cuEventRecord, record, (CuEvent event, CuStream stream))                                      \
  f(cuEventQuery, reached, (CuEvent event))                                                       \
  f(cuEventSynchronize, wait_event, (CuEvent event))                                              \
  f(cuGraphCreate, make_graph, (CuGraph* graph, unsigned flags))                                  \
  f(cuGraphDestroy, free_graph, (CuGraph graph))                                                  \
  f(cuGraphAddKernelNode_v2, add_kernel,                                                          \
    (CuGraphNode* node, CuGraph graph, const CuGraphNode* after, size_t num_after,                \
     const CuKernelNode* kernel))                                                                 \
  f(cuGraphInstantiateWithFlags, instantiate,                                                     \
    (CuGraphExec* exec, CuGraph graph, unsigned long long flags))                                 \
  f(cuGraphExecKernelNodeSetParams_v2, set_kernel,                                                \
    (CuGraphExec exec, CuGraphNode node, const CuKernelNode* kernel))                             \
  f(cuGraphLaunch, launch_graph, (CuGraphExec exec, CuStream stream))                             \
  f(cuGraphExecDestroy, free_exec, (CuGraphExec exec))                                            \
  f(cuLaunchHostFunc, call_host, (CuStream stream, void (*call)(void*), void* data))              \
  f(cuModuleLoadData, load_module, (CuModule* module, const void* image))                         \
  f(cuModuleUnload, unload_module, (CuModule module))                                             \
  f(cuModuleGetFunction, function, (CuFunction* function, CuModule module, const char* name))     \
  f(cuLaunchKernel, launch,                                                                       \
    (CuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,    \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, CuStream stream,                  \
     void** parameters, void** extra))                                                            \
  f(cuFuncSetAttribute, set_attribute, (CuFunction function, int attribute, int value))           \
  f(cuTensorMapEncodeTiled, encode_map,                                                           \
    (CuTensorMap* map, int type, unsigned rank, void* address, const uint64_t* sizes,             \
     const uint64_t* strides, const unsigned* box, const unsigned* steps, int interleave,         \
     int swizzle, int promotion, int fill))                                                       \
  f(cuTensorMapReplaceAddress, move_map, (CuTensorMap* map, void* address))                       \
  f(cuGetErrorString, error_string, (CuResult error, const char** text))
// clang-format on

/// An open driver. Members are functions of the library.
struct Driver {
#define HOLOGRAM_CUDA_MEMBER(symbol, member, parameters) CuResult(*member) parameters = nullptr;
  HOLOGRAM_CUDA_FUNCTIONS(HOLOGRAM_CUDA_MEMBER)
#undef HOLOGRAM_CUDA_MEMBER
  std::string path;

  /// Throws Error(out_of_memory) or Error(internal) "cuda: `what`: the driver's words" unless
  /// `result` is success.
  void require(CuResult result, const char* what) const;
  /// "out of memory (error 2)".
  std::string words_of(CuResult result) const;
};

/// For which CUDA a driver is: 12040 for 12.4. Throws Error(unavailable).
int version_of(const Driver& driver);

/// The driver HOLOGRAM_CUDA_DRIVER names, or this system's, opened at the first call that finds it
/// and never closed. Throws Error(unavailable) saying what is missing: the library, a function of
/// it, a version from 12.0 on, or its start.
const Driver& driver();

/// A device and its context. Never destroyed.
struct DeviceContext {
  const Driver& driver;
  CuContext context;
  CuPool pool;  ///< that cuMemAllocAsync takes memory from; keeps what is freed
  int number;   ///< the driver's
  std::string name;
  int multiprocessors;
  int capability;      ///< 90 for 9.0
  size_t memory;       ///< bytes
};

/// While it lives, a device's context is the calling thread's; then the one that was.
class Current {
 public:
  /// Throws Error(internal) with the driver's words.
  explicit Current(const DeviceContext& device);
  /// Tells by ok() instead.
  Current(const DeviceContext& device, std::nothrow_t) noexcept;
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  bool ok() const { return result_ == cu_success; }

 private:
  const Driver& driver_;
  CuContext before_ = nullptr;
  bool restores_ = false;
  CuResult result_;
};

/// A device by its number. Throws Error(unavailable) where there is none or its compute capability
/// is below 8.0.
const DeviceContext& device_context(int number = 0);
/// How many devices the driver finds. Throws as device_context(0) does, but makes no context.
int usable_devices();

}  // namespace hologram::cuda

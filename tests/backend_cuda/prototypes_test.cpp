// tests/backend_cuda/prototypes_test.cpp: driver.h beside NVIDIA's cuda.h, where there is one
#include "backend/cuda/driver.h"
#include "support/test.h"

#if __has_include(<cuda.h>)
#include <cuda.h>

namespace hologram::cuda {
namespace {

// Types are passed in the same way; their names differ.
template <class A, class B>
constexpr bool alike =
    sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>&& std::is_floating_point_v<A> == std::is_floating_point_v<B>;

template <class R, class... A, class S, class... B>
constexpr bool same(R (*)(A...), S (*)(B...)) {
  if constexpr (sizeof...(A) != sizeof...(B))
    return false;
  else
    return alike<R, S> && (alike<A, B> && ...);
}

#define HOLOGRAM_CUDA_CHECK(symbol, member, parameters) static_assert(same(decltype(Driver::member){}, decltype(&::symbol){}), #symbol);
HOLOGRAM_CUDA_FUNCTIONS(HOLOGRAM_CUDA_CHECK)
#undef HOLOGRAM_CUDA_CHECK

static_assert(sizeof(CuKernelNode) == sizeof(CUDA_KERNEL_NODE_PARAMS_v2));
static_assert(offsetof(CuKernelNode, grid) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, gridDimX));
static_assert(offsetof(CuKernelNode, block) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, blockDimX));
static_assert(offsetof(CuKernelNode, shared_bytes) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, sharedMemBytes));
static_assert(offsetof(CuKernelNode, parameters) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, kernelParams));
static_assert(offsetof(CuKernelNode, kernel) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, kern));
static_assert(offsetof(CuKernelNode, context) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, ctx));

static_assert(cu_success == CUDA_SUCCESS && cu_out_of_memory == CUDA_ERROR_OUT_OF_MEMORY && cu_no_device == CUDA_ERROR_NO_DEVICE &&
              cu_not_ready == CUDA_ERROR_NOT_READY);
static_assert(cu_major == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR && cu_minor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR &&
              cu_multiprocessors == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(sizeof(CuTensorMap) == sizeof(CUtensorMap) && alignof(CuTensorMap) >= alignof(CUtensorMap) &&
              cu_most_dynamic_shared == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES && cu_map_byte == CU_TENSOR_MAP_DATA_TYPE_UINT8 &&
              cu_map_float16 == CU_TENSOR_MAP_DATA_TYPE_FLOAT16 && cu_map_bfloat16 == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 &&
              cu_map_swizzle_128 == CU_TENSOR_MAP_SWIZZLE_128B && cu_map_promotion_256 == CU_TENSOR_MAP_L2_PROMOTION_L2_256B &&
              CU_TENSOR_MAP_INTERLEAVE_NONE == 0 && CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE == 0);
static_assert(cu_has_pools == CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED && cu_pool_threshold == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD &&
              cu_pool_reserved == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
static_assert(cu_refusals[0] == CUDA_ERROR_INVALID_IMAGE && cu_refusals[1] == CUDA_ERROR_NO_BINARY_FOR_GPU &&
              cu_refusals[2] == CUDA_ERROR_INVALID_PTX && cu_refusals[3] == CUDA_ERROR_UNSUPPORTED_PTX_VERSION &&
              cu_refusals[4] == CUDA_ERROR_JIT_COMPILATION_DISABLED);
static_assert(cu_pointer_memory_type == CU_POINTER_ATTRIBUTE_MEMORY_TYPE && cu_pointer_device == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL &&
              cu_memory_device == CU_MEMORYTYPE_DEVICE);
static_assert(cu_stream_non_blocking == CU_STREAM_NON_BLOCKING && cu_event_no_timing == CU_EVENT_DISABLE_TIMING &&
              cu_host_portable_mapped == (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
static_assert(CU_STREAM_CAPTURE_STATUS_NONE == 0 && sizeof(CUstreamCaptureStatus) == sizeof(int));

TEST(CudaDriver, IsDeclaredAsNvidiaDeclaresIt) { SUCCEED() << "when this was compiled"; }

}  // namespace
}  // namespace hologram::cuda

#else

TEST(CudaDriver, IsDeclaredAsNvidiaDeclaresIt) { GTEST_SKIP() << "no cuda.h"; }

#endif

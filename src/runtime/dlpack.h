// runtime/dlpack.h: the DLPack 1.x C structures and exchange table (data-apis.org, "DLPack: Open In
// Memory Tensor Structure"), written from the standard.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hologram::dlpack {

struct Version {
  uint32_t major, minor;
};

/// `external`: of a framework's extension; PyTorch's PrivateUse1.
enum DeviceType : int32_t { cpu = 1, cuda = 2, cuda_host = 3, external = 12 };

/// Whether tensors of the type lie in the host's memory; `external` ones are ours.
inline bool in_host_memory(int32_t type) { return type == cpu || type == external; }

struct Device {
  int32_t type;
  int32_t id;
};

enum TypeCode : uint8_t {
  code_int = 0,
  code_uint = 1,
  code_float = 2,
  code_bfloat = 4,
  code_complex = 5,
  code_bool = 6
};

struct DataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

struct Tensor {
  void* data;
  Device device;
  int32_t ndim;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};

/// Bits of ManagedTensor::flags.
enum Flags : uint64_t { read_only = 1, is_copied = 2 };

/// DLManagedTensorVersioned.
struct ManagedTensor {
  Version version;
  void* context;
  void (*deleter)(ManagedTensor* self);
  uint64_t flags;
  Tensor tensor;
};

struct ExchangeHeader {
  Version version;
  ExchangeHeader* previous;
};

/// DLPackExchangeAPI: functions that a framework offers on its tensor type as capsule
/// `__dlpack_c_exchange_api__`. They return 0 or set a Python exception.
struct Exchange {
  ExchangeHeader header;
  int (*allocate)(Tensor* prototype, ManagedTensor** out, void* error_context,
                  void (*set_error)(void* context, const char* kind, const char* message));
  int (*managed_from_object)(void* object, ManagedTensor** out);
  int (*object_from_managed)(ManagedTensor* tensor, void** out);
  int (*view_of_object)(void* object, Tensor* out);
  int (*current_stream)(int32_t device_type, int32_t device_id, void** out);
};

static_assert(sizeof(DataType) == 4 && sizeof(Device) == 8 && sizeof(Tensor) == 48);
static_assert(offsetof(ManagedTensor, tensor) == 32);

}  // namespace hologram::dlpack

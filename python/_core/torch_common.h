// python/_core/torch_common.h: what the callables over PyTorch's tensors share.
#pragma once

#include <nanobind/nanobind.h>

#include "device_memory.h"
#include "runtime/dlpack.h"
#include "runtime/executable.h"

namespace hologram::python {

/// The DLPack 1.x exchange table in a capsule (torch.Tensor.__dlpack_c_exchange_api__). Throws.
inline const dlpack::Exchange* exchange_of(nanobind::handle capsule) {
  auto* exchange = static_cast<const dlpack::Exchange*>(
      PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  if (!exchange) nanobind::raise_python_error();
  while (exchange && exchange->header.version.major != 1)
    exchange = reinterpret_cast<const dlpack::Exchange*>(exchange->header.previous);
  require(exchange != nullptr, "the tensor type offers no DLPack 1.x exchange table");
  return exchange;
}

/// Takes over the caller's thread count, which `threads()` tells (None: as it is), where it has
/// changed. False with a Python exception.
inline bool follow_threads(nanobind::handle threads, runtime::Executable& executable) {
  if (threads.is_none()) return true;
  PyObject* wanted = PyObject_CallNoArgs(threads.ptr());
  if (!wanted) return false;
  auto n = static_cast<int>(PyLong_AsLong(wanted));
  Py_DECREF(wanted);
  if (n == -1 && PyErr_Occurred()) return false;
  host::ThreadPool& pool = executable.runtime().threads();
  if (n > 0 && n != pool.num_threads()) pool.set_num_threads(n);
  return true;
}

/// What a compiled graph raises for an index out of range: an IndexError and a RuntimeError, since
/// eager's operators raise the one or the other.
PyObject* index_error();

/// Whether a call ended well; else with a Python exception, for faults in the data eager's.
bool succeeded(const runtime::Outcome& outcome);

/// A buffer on its way into a tensor: sizes and strides are the caller's to fill.
struct Exported {
  dlpack::ManagedTensor managed;
  void* block = nullptr;                 // of the memory pool; null when borrowed
  std::shared_ptr<DeviceMemory> memory;  // of the extensions' device
  int64_t shape_and_strides[1];
};

/// Room for `rank` sizes and strides. Takes over `block`, also where it returns null (with a Python
/// exception).
Exported* new_exported(size_t rank, void* block);

/// A tensor over `data` in a device's memory; owns the block that `exported` holds. Null with a
/// Python exception.
PyObject* export_tensor(const dlpack::Exchange& exchange, Exported* exported, DType dtype,
                        size_t rank, void* data, dlpack::Device device = {dlpack::cpu, 0});
PyObject* export_tensor(const dlpack::Exchange& exchange, Exported* exported,
                        dlpack::DataType dtype, size_t rank, void* data, dlpack::Device device);

}  // namespace hologram::python

// python/_core/device_tensors.cpp: tensors of PyTorch's device for extensions, over memory of the
// host.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "bindings.h"
#include "device_queue.h"
#include "host/memory_pool.h"
#include "torch_common.h"

namespace nb = nanobind;

namespace hologram::python {
namespace {

/// The device's tensor over the memory of one of the host's, found by its address from now on.
nb::object adopted(const dlpack::Exchange& exchange, dlpack::ManagedTensor* managed) {
  const dlpack::Tensor& t = managed->tensor;
  const auto [begin, end] = extent(t);
  PyObject* out = nullptr;
  if (auto memory = DeviceMemory::of_tensor(managed, static_cast<size_t>(end - begin))) {
    out = device_tensor(memory, memory->begin(), Layout::of(t));
  } else {
    managed->tensor.device = {dlpack::external, 0};
    void* made = nullptr;
    if (exchange.object_from_managed(managed, &made) != 0) managed->deleter(managed);
    out = static_cast<PyObject*>(made);
  }
  if (!out) nb::raise_python_error();
  return nb::steal(out);
}

/// A tensor of another device type over the same memory, which it keeps alive.
nb::object retyped(nb::handle tensor, nb::handle capsule, int32_t type) {
  const dlpack::Exchange* exchange = exchange_of(capsule);
  dlpack::ManagedTensor* managed = nullptr;
  if (exchange->managed_from_object(tensor.ptr(), &managed) != 0) nb::raise_python_error();
  if (type == dlpack::external && managed->tensor.device.type == dlpack::cpu)
    return adopted(*exchange, managed);
  if (!dlpack::in_host_memory(managed->tensor.device.type)) {
    managed->deleter(managed);
    throw nb::value_error("retyped: a tensor in the host's memory is expected");
  }
  if (managed->tensor.device.type == dlpack::external) {
    try {
      DeviceQueue::of_process().settle(managed->tensor);
    } catch (...) {
      managed->deleter(managed);
      throw;
    }
  }
  managed->tensor.device = {type, 0};
  void* out = nullptr;
  if (exchange->object_from_managed(managed, &out) != 0) {
    managed->deleter(managed);
    nb::raise_python_error();
  }
  return nb::steal(static_cast<PyObject*>(out));
}

/// An uninitialised tensor in the runtime's pool. `dtype`: DLPack's code and bits.
nb::object pool_tensor(const std::shared_ptr<runtime::Runtime>& runtime, nb::handle capsule,
                       std::pair<int, int> dtype, const std::vector<int64_t>& sizes,
                       const std::vector<int64_t>& strides, int32_t type) {
  const dlpack::Exchange* exchange = exchange_of(capsule);
  int64_t last = 0;
  bool empty = false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    empty = empty || sizes[i] == 0;
    last += (sizes[i] - 1) * strides[i];
  }
  const int64_t bytes = empty ? 0 : (last + 1) * ((dtype.second + 7) / 8);
  void* block = runtime->memory().allocate(static_cast<size_t>(bytes));
  Exported* e = new_exported(sizes.size(), block);
  if (!e) nb::raise_python_error();
  std::ranges::copy(sizes, e->shape_and_strides);
  std::ranges::copy(strides, e->shape_and_strides + sizes.size());
  const dlpack::DataType kind{static_cast<uint8_t>(dtype.first), static_cast<uint8_t>(dtype.second),
                              1};
  PyObject* out = export_tensor(*exchange, e, kind, sizes.size(), block, {type, 0});
  if (!out) nb::raise_python_error();
  return nb::steal(out);
}

}  // namespace

void bind_device_tensors(nb::module_& m) {
  m.def("retyped", &retyped, nb::arg("tensor"), nb::arg("exchange"), nb::arg("type"),
        "A tensor over the memory of a tensor of the host or of its external device, on the device "
        "of "
        "DLPack's type; exchange: torch.Tensor.__dlpack_c_exchange_api__.");
  m.def("pool_tensor", &pool_tensor, nb::arg("runtime"), nb::arg("exchange"), nb::arg("dtype"),
        nb::arg("sizes"), nb::arg("strides"), nb::arg("type"),
        "An uninitialised tensor in the runtime's memory pool, on the device of DLPack's type. "
        "dtype: "
        "DLPack's code and bits.");
}

}  // namespace hologram::python

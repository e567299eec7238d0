// python/_core/torch_common.cpp: results as PyTorch's tensors, without its headers.
#include "torch_common.h"

#include <cstdlib>
#include <new>
#include <utility>

#include "tensor_words.h"

namespace hologram::python {
namespace {

dlpack::DataType dlpack_type(DType t) {
  auto bits = static_cast<uint8_t>(8 * size_of(t));
  if (t == DType::b8) return {dlpack::code_bool, 8, 1};
  if (t == DType::bf16) return {dlpack::code_bfloat, 16, 1};
  if (is_float(t)) return {dlpack::code_float, bits, 1};
  return {is_signed_int(t) ? dlpack::code_int : dlpack::code_uint, bits, 1};
}

void delete_exported(dlpack::ManagedTensor* self) {
  auto* e = static_cast<Exported*>(self->context);
  host::MemoryPool::deallocate(e->block);
  e->memory.~shared_ptr();
  std::free(e);
}

}  // namespace

PyObject* index_error() {
  static PyObject* const type = [] {
    PyObject* bases = PyTuple_Pack(2, PyExc_IndexError, PyExc_RuntimeError);
    PyObject* made =
        PyErr_NewExceptionWithDoc("hologram._core.IndexOutOfRange",
                                  "An index was out of range in a compiled graph.", bases, nullptr);
    Py_DECREF(bases);
    return made;
  }();
  return type;
}

bool succeeded(const runtime::Outcome& outcome) {
  if (PyErr_Occurred()) return false;  // of a host call
  if (outcome.faults & atlas::index_out_of_range)
    PyErr_SetString(index_error(), "index out of range in a compiled graph");
  else if (outcome.faults & atlas::integer_division_by_zero)
    PyErr_SetString(PyExc_RuntimeError, "ZeroDivisionError");
  else if (outcome.status != 0)
    PyErr_Format(PyExc_RuntimeError, "hologram: a kernel failed with status %d", outcome.status);
  else
    return true;
  return false;
}

Exported* new_exported(size_t rank, void* block) {
  auto* e = static_cast<Exported*>(std::malloc(sizeof(Exported) + 2 * rank * sizeof(int64_t)));
  if (e) {
    new (&e->memory) std::shared_ptr<DeviceMemory>;
    e->block = block;
  } else {
    host::MemoryPool::deallocate(block);
    PyErr_NoMemory();
  }
  return e;
}

PyObject* export_tensor(const dlpack::Exchange& exchange, Exported* exported, DType dtype,
                        size_t rank, void* data, dlpack::Device device) {
  return export_tensor(exchange, exported, dlpack_type(dtype), rank, data, device);
}

PyObject* export_tensor(const dlpack::Exchange& exchange, Exported* exported,
                        dlpack::DataType dtype, size_t rank, void* data, dlpack::Device device) {
  int64_t* sizes = exported->shape_and_strides;
  if (device.type == dlpack::external && exported->block)
    exported->memory = DeviceMemory::of_block(std::exchange(exported->block, nullptr));
  exported->managed = {{1, 1},
                       exported,
                       delete_exported,
                       0,
                       {data, device, static_cast<int32_t>(rank), dtype, sizes, sizes + rank, 0}};
  void* out = nullptr;
  if (exchange.object_from_managed(&exported->managed, &out) != 0) {
    delete_exported(&exported->managed);
    return nullptr;
  }
  if (device.type == dlpack::cpu) TensorWords::of_process().let_resize(static_cast<PyObject*>(out));
  return static_cast<PyObject*>(out);
}

}  // namespace hologram::python

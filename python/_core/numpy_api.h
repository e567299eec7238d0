// python/_core/numpy_api.h: the few entries of NumPy's C interface that are used, found at run
// time.
#pragma once

#include <nanobind/nanobind.h>

#include "hologram/hologram.h"

namespace hologram::python::numpy {

/// The head of an ndarray and of its dtype, as NumPy's binary interface fixes them.
struct Array {
  PyObject_HEAD char* data;
  int ndim;
  Py_ssize_t* shape;
  Py_ssize_t* strides;  ///< in bytes
  PyObject* base;
  struct Descr* descr;
  int flags;
};
struct Descr {
  PyObject_HEAD PyTypeObject* scalar_type;
  char kind, type, byteorder, former_flags;
  int type_num;
};
inline constexpr int c_contiguous = 0x1, aligned = 0x100, writeable = 0x400;

/// Whether the object is an ndarray. Imports NumPy at first use; throws nanobind::python_error.
bool is_array(PyObject* object);
/// Whether it is one whose operations are ndarray's: no masked array, matrix or user's subclass.
bool is_plain_array(PyObject* object);
inline Array* as_array(PyObject* object) { return reinterpret_cast<Array*>(object); }
/// The dtype of an array in the machine's byte order; false for others than ours.
bool dtype_of(const Array& array, hologram_dtype& dtype);
/// A new row-major array, of its own memory if `data` is null; else over `data`, which `base`
/// (stolen) keeps alive. Throws nanobind::python_error, and Failure for bfloat16 without ml_dtypes.
nanobind::object make_array(hologram_dtype dtype, int ndim, const Py_ssize_t* shape,
                            void* data = nullptr, PyObject* base = nullptr);
/// numpy.ascontiguousarray.
nanobind::object contiguous(nanobind::handle array);

}  // namespace hologram::python::numpy

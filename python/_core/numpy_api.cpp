// python/_core/numpy_api.cpp: NumPy's C interface through its function table.
#include "numpy_api.h"

#include <array>

#include "sdk.h"

namespace nb = nanobind;

namespace hologram::python::numpy {
namespace {

/// Positions in the table, fixed since NumPy 1.7.
enum Entry { array_type = 2, descr_from_type = 45, new_from_descr = 94, set_base_object = 282 };

struct Api {
  PyTypeObject *array = nullptr, *mapped = nullptr;
  PyObject* (*descr_from_type)(int) = nullptr;
  PyObject* (*new_from_descr)(PyTypeObject*, PyObject* descr, int ndim, const Py_ssize_t* shape,
                              const Py_ssize_t* strides, void* data, int flags,
                              PyObject* object) = nullptr;
  int (*set_base_object)(PyObject* array, PyObject* base) = nullptr;
  std::array<PyObject*, 13> descrs{};  ///< by dtype, but for bfloat16
  PyObject* ascontiguous = nullptr;
};

constexpr int type_numbers[] = {0,  2,  1,  3, 5, sizeof(long) == 8 ? 7 : 9, 23,
                                -1, 11, 12, 4, 6, sizeof(long) == 8 ? 8 : 10};

Api load() {
  nb::module_ np = nb::module_::import_("numpy");
  nb::object capsule;
  try {
    capsule = nb::module_::import_("numpy._core._multiarray_umath").attr("_ARRAY_API");
  } catch (nb::python_error&) {  // before NumPy 2
    capsule = nb::module_::import_("numpy.core._multiarray_umath").attr("_ARRAY_API");
  }
  auto** table = static_cast<void**>(PyCapsule_GetPointer(capsule.ptr(), nullptr));
  if (!table) nb::raise_python_error();
  Api api;
  api.array = static_cast<PyTypeObject*>(table[array_type]);
  api.mapped = reinterpret_cast<PyTypeObject*>(np.attr("memmap").inc_ref().ptr());
  api.descr_from_type = reinterpret_cast<decltype(api.descr_from_type)>(table[descr_from_type]);
  api.new_from_descr = reinterpret_cast<decltype(api.new_from_descr)>(table[new_from_descr]);
  api.set_base_object = reinterpret_cast<decltype(api.set_base_object)>(table[set_base_object]);
  for (size_t i = 0; i < api.descrs.size(); ++i)
    if (type_numbers[i] >= 0) api.descrs[i] = api.descr_from_type(type_numbers[i]);
  api.ascontiguous = np.attr("ascontiguousarray").inc_ref().ptr();
  return api;
}

const Api& api() {
  static const Api* loaded = nullptr;  // guarded by the GIL
  if (!loaded) [[unlikely]]
    loaded = new Api(load());
  return *loaded;
}

// NumPy's dtype of bfloat16, null without ml_dtypes. Importing that package takes longer than a
// first call may: it is asked for where there is bfloat16.
PyObject* bfloat16() {
  static PyObject* found = nullptr;  // guarded by the GIL, as the next one
  static bool asked = false;
  if (asked) return found;
  try {
    nb::object dtype = nb::module_::import_("numpy").attr("dtype");
    found = dtype(nb::module_::import_("ml_dtypes").attr("bfloat16")).release().ptr();
  } catch (nb::python_error&) {  // the package is optional
  }
  asked = true;
  return found;
}

constexpr int first_of_packages = 256;  // type numbers from here on are not NumPy's own

}  // namespace

bool is_array(PyObject* object) { return PyObject_TypeCheck(object, api().array); }

bool is_plain_array(PyObject* object) {
  return Py_TYPE(object) == api().array || Py_TYPE(object) == api().mapped;
}

bool dtype_of(const Array& array, hologram_dtype& dtype) {
  const Descr* d = array.descr;
  if (d->byteorder == '>') return false;
  for (int i = 0; i < 13; ++i) {
    const bool of_package = i == HOLOGRAM_BF16;
    if (of_package && d->type_num < first_of_packages) continue;
    const auto* mine = reinterpret_cast<const Descr*>(
        of_package ? bfloat16() : api().descrs[static_cast<size_t>(i)]);
    if (!mine) continue;
    // long and long long are one type to us.
    const bool wide = (i == HOLOGRAM_I64 || i == HOLOGRAM_U64) && d->kind == mine->kind &&
                      d->type_num >= (sizeof(long) == 8 ? 7 : 9) && d->type_num <= 10;
    const bool same = mine == d || mine->type_num == d->type_num || wide;
    if (!same) continue;
    dtype = static_cast<hologram_dtype>(i);
    return true;
  }
  return false;
}

nb::object make_array(hologram_dtype dtype, int ndim, const Py_ssize_t* shape, void* data,
                      PyObject* base) {
  nb::object owner = nb::steal(base);
  const Api& a = api();
  PyObject* descr = dtype == HOLOGRAM_BF16 ? bfloat16() : a.descrs[dtype];
  if (!descr)
    throw Failure{HOLOGRAM_UNSUPPORTED,
                  "NumPy has no bfloat16; install ml_dtypes, or use __dlpack__ or to_bytes()"};
  Py_INCREF(descr);
  PyObject* array =
      a.new_from_descr(a.array, descr, ndim, shape, nullptr, data, data ? writeable : 0, nullptr);
  if (!array) nb::raise_python_error();
  nb::object result = nb::steal(array);
  if (owner.is_valid() && a.set_base_object(array, owner.release().ptr()) != 0)
    nb::raise_python_error();
  return result;
}

nb::object contiguous(nb::handle array) { return nb::handle(api().ascontiguous)(array); }

}  // namespace hologram::python::numpy

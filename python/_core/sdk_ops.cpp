// python/_core/sdk_ops.cpp: hologram.ops: functions on buffers, called by Python's vector protocol.
#include <cmath>
#include <cstring>
#include <iterator>
#include <string_view>

#include "builtin/definitions.h"
#include "ir/op.h"
#include "sdk.h"

namespace nb = nanobind;

namespace hologram::python {
namespace {

using Handle = hologram_handle;

enum class Form { binary, unary, clip, scalar, reduce, loss, gemm, matvec };

/// One function: how it is called and what runs it on float32.
struct Row {
  const char* name;
  Form form;
  const char* doc;
  const char* operation;  ///< for hologram_elementwise on other dtypes, nullptr where there is none
  hologram_status (*binary)(Handle, Handle, Handle, Handle, uint64_t);
  hologram_status (*unary)(Handle, Handle, Handle, uint64_t);
  hologram_status (*scalar)(Handle, Handle, Handle, uint64_t, float);
  hologram_status (*reduce)(Handle, Handle, Handle, uint64_t, float*);
  hologram_status (*loss)(Handle, Handle, Handle, Handle, uint64_t, float*);
};

#define BINARY(name, operation, doc)                                                          \
  {                                                                                           \
    "vector_" #name, Form::binary, doc, operation, hologram_vector_##name##_f32_u64, nullptr, \
        nullptr, nullptr, nullptr                                                             \
  }
#define UNARY(name, c_name, operation, doc)                                                     \
  {                                                                                             \
#name, Form::unary, doc, operation, nullptr, hologram_##c_name##_f32_u64, nullptr, nullptr, \
        nullptr                                                                                 \
  }
#define REDUCE(name, doc)                                                                    \
  {                                                                                          \
#name, Form::reduce, doc, nullptr, nullptr, nullptr, nullptr, hologram_##name##_f32_u64, \
        nullptr                                                                              \
  }
#define LOSS(name, doc) \
  { #name, Form::loss, doc, nullptr, nullptr, nullptr, nullptr, nullptr, hologram_##name##_f32_u64 }

const Row rows[] = {
    BINARY(add, "add", "c = a + b"),
    BINARY(sub, "sub", "c = a - b"),
    BINARY(mul, "mul", "c = a * b"),
    BINARY(div, "div",
           "c = a / b; integers truncate, and ZeroDivisionError follows the whole result"),
    BINARY(min, "min", "c = the smaller of a and b; NaN if either is"),
    BINARY(max, "max", "c = the larger of a and b; NaN if either is"),
    UNARY(vector_abs, vector_abs, "abs", "c = |a|"),
    UNARY(vector_neg, vector_neg, "neg", "c = -a"),
    UNARY(vector_relu, vector_relu, "relu", "c = max(a, 0)"),
    {"vector_clip", Form::clip, "c = min(max(a, min_val), max_val)", nullptr, nullptr, nullptr,
     nullptr, nullptr, nullptr},
    {"scalar_add", Form::scalar, "c = a + scalar", nullptr, nullptr, nullptr,
     hologram_scalar_add_f32_u64, nullptr, nullptr},
    {"scalar_mul", Form::scalar, "c = a * scalar", nullptr, nullptr, nullptr,
     hologram_scalar_mul_f32_u64, nullptr, nullptr},
    UNARY(sigmoid, sigmoid, "sigmoid", "1 / (1 + exp(-x))"),
    UNARY(tanh, tanh, "tanh", "Hyperbolic tangent"),
    UNARY(gelu, gelu, "gelu", "x (1 + erf(x / sqrt 2)) / 2"),
    UNARY(gelu_tanh, gelu_tanh, "gelu_tanh", "x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2"),
    UNARY(softmax, softmax, nullptr, "Softmax over all n elements"),
    REDUCE(reduce_sum, "Sum"),
    REDUCE(reduce_min, "Smallest element; NaN if any is"),
    REDUCE(reduce_max, "Largest element; NaN if any is"),
    LOSS(mse_loss, "mean((pred - target)^2)"),
    LOSS(cross_entropy_loss, "-mean(target log(pred)) over probabilities"),
    LOSS(binary_cross_entropy_loss,
         "-mean(target log(pred) + (1 - target) log(1 - pred)), logarithms at least -100"),
    {"gemm", Form::gemm, "C (m x n) = A (m x k) B (k x n), row-major", nullptr, nullptr, nullptr,
     nullptr, nullptr, nullptr},
    {"matvec", Form::matvec, "y (m) = A (m x n) x (n)", nullptr, nullptr, nullptr, nullptr, nullptr,
     nullptr},
};
#undef BINARY
#undef UNARY
#undef REDUCE
#undef LOSS

/// Parameters by form; those from `required` on may be left out.
struct Signature {
  const char* names[8];
  int count, required, buffers;
};
const Signature signatures[] = {
    {{"executor", "a", "b", "c", "n"}, 5, 4, 3},
    {{"executor", "a", "c", "n"}, 4, 3, 2},
    {{"executor", "a", "c", "min_val", "max_val", "n"}, 6, 5, 2},
    {{"executor", "a", "c", "scalar", "n"}, 5, 4, 2},
    {{"executor", "input", "output", "n"}, 4, 3, 2},
    {{"executor", "pred", "target", "output", "n"}, 5, 4, 3},
    {{"executor", "a", "b", "c", "m", "n", "k"}, 7, 7, 3},
    {{"executor", "a", "x", "y", "m", "n"}, 6, 6, 3},
};
/// The functions of form unary that are not called vector_* name their buffers so.
const Signature named_unary = {{"executor", "input", "output", "n"}, 4, 3, 2};

const Signature& signature_of(const Row& row) {
  if (row.form == Form::unary && std::string_view(row.name).substr(0, 7) != "vector_")
    return named_unary;
  return signatures[static_cast<int>(row.form)];
}

bool complain(PyObject* type, const Row& row, const char* format, const char* what) {
  PyErr_Format(type, (std::string("%s: ") + format).c_str(), row.name, what);
  return false;
}

/// Spreads the arguments over the parameters, nullptr for what was left out; `stream` is one by
/// name alone.
bool spread(const Row& row, const Signature& s, PyObject* const* args, Py_ssize_t given,
            PyObject* keywords, PyObject** out, PyObject*& stream) {
  if (given > s.count) return complain(PyExc_TypeError, row, "too many arguments%s", "");
  for (int i = 0; i < s.count; ++i) out[i] = i < given ? args[i] : nullptr;
  for (Py_ssize_t k = 0; keywords && k < PyTuple_Size(keywords); ++k) {
    PyObject* name = PyTuple_GetItem(keywords, k);
    if (PyUnicode_CompareWithASCIIString(name, "stream") == 0) {
      stream = args[given + k];
      continue;
    }
    int i = 0;
    while (i < s.count && PyUnicode_CompareWithASCIIString(name, s.names[i]) != 0) ++i;
    if (i == s.count || out[i])
      return complain(PyExc_TypeError, row, "unexpected argument '%s'",
                      PyUnicode_AsUTF8AndSize(name, nullptr));
    out[i] = args[given + k];
  }
  for (int i = 0; i < s.required; ++i)
    if (!out[i]) return complain(PyExc_TypeError, row, "argument '%s' is missing", s.names[i]);
  return true;
}

bool integer(const Row& row, const char* name, PyObject* object, uint64_t& out) {
  PyObject* index = PyNumber_Index(object);
  if (!index) return complain(PyExc_TypeError, row, "'%s' must be an integer", name);
  const long long v = PyLong_AsLongLong(index);
  Py_DECREF(index);
  if (v == -1 && PyErr_Occurred()) return false;
  if (v < 0) return complain(PyExc_ValueError, row, "'%s' must not be negative", name);
  out = static_cast<uint64_t>(v);
  return true;
}

bool number(const Row& row, const char* name, PyObject* object, double& out) {
  out = PyFloat_AsDouble(object);
  if (out == -1.0 && PyErr_Occurred())
    return complain(PyExc_TypeError, row, "'%s' must be a number", name);
  return true;
}

/// What another dtype than float32 takes: a compiled graph, from hologram._generic.
PyObject* generic(const Row& row, PyObject** arguments, int count) {
  static PyObject* function = nullptr;  // guarded by the GIL
  if (!function) {
    PyObject* module = PyImport_ImportModule("hologram._generic");
    if (!module) return nullptr;
    function = PyObject_GetAttrString(module, "run");
    Py_DECREF(module);
    if (!function) return nullptr;
  }
  PyObject* tuple = PyTuple_New(count + 1);
  if (!tuple) return nullptr;
  PyTuple_SetItem(tuple, 0, PyUnicode_FromString(row.name));
  for (int i = 0; i < count; ++i)
    PyTuple_SetItem(tuple, i + 1, Py_NewRef(arguments[i] ? arguments[i] : Py_None));
  PyObject* result = PyObject_Call(function, tuple, nullptr);
  Py_DECREF(tuple);
  return result;
}

PyObject* finish(hologram_status status) {
  if (status == HOLOGRAM_OK) [[likely]]
    Py_RETURN_NONE;
  set_exception(status);
  return nullptr;
}

hologram_status launch(const Row& row, Handle executor, PyBuffer* const* b, uint64_t n,
                       const double* numbers, float* result) {
  MaybeRelease others(n >= long_length);
  switch (row.form) {
    case Form::binary:
      return row.binary(executor, b[0]->handle, b[1]->handle, b[2]->handle, n);
    case Form::unary:
      return row.unary(executor, b[0]->handle, b[1]->handle, n);
    case Form::clip:
      return hologram_vector_clip_f32_u64(executor, b[0]->handle, b[1]->handle, n,
                                          static_cast<float>(numbers[0]),
                                          static_cast<float>(numbers[1]));
    case Form::scalar:
      return row.scalar(executor, b[0]->handle, b[1]->handle, n, static_cast<float>(numbers[0]));
    case Form::reduce:
      return row.reduce(executor, b[0]->handle, b[1]->handle, n, result);
    default:
      return row.loss(executor, b[0]->handle, b[1]->handle, b[2]->handle, n, result);
  }
}

hologram_status other_dtype(const Row& row, Handle executor, const Handle* inputs, int count,
                            Handle output, uint64_t n) {
  MaybeRelease others(n >= long_length);
  return hologram_elementwise(executor, row.operation, inputs, static_cast<size_t>(count), output,
                              n);
}

PyObject* products(const Row& row, Handle executor, PyBuffer* const* b, PyObject** at) {
  uint64_t sizes[3] = {};
  const int count = row.form == Form::gemm ? 3 : 2;
  for (int i = 0; i < count; ++i)
    if (!integer(row, signature_of(row).names[4 + i], at[4 + i], sizes[i])) return nullptr;
  hologram_status status;
  {
    MaybeRelease others(true);
    status = row.form == Form::gemm
                 ? hologram_gemm_f32_u64(executor, b[0]->handle, b[1]->handle, b[2]->handle,
                                         sizes[0], sizes[1], sizes[2])
                 : hologram_matvec_f32_u64(executor, b[0]->handle, b[1]->handle, b[2]->handle,
                                           sizes[0], sizes[1]);
  }
  return finish(status);
}

/// The handle of a hologram.Stream; 0 with an exception for another object.
Handle stream_handle(const Row& row, PyObject* stream) {
  PyObject* number = PyObject_GetAttrString(stream, "handle");
  const unsigned long long handle = number ? PyLong_AsUnsignedLongLong(number) : 0;
  Py_XDECREF(number);
  if (handle == 0 || PyErr_Occurred()) {
    PyErr_Clear();
    complain(PyExc_TypeError, row, "argument '%s' must be a Stream", "stream");
    return 0;
  }
  return handle;
}

PyObject* call_operation(PyObject* self, PyObject* const* args, Py_ssize_t given,
                         PyObject* keywords) {
  const Row& row = *static_cast<const Row*>(PyCapsule_GetPointer(self, nullptr));
  const Signature& s = signature_of(row);
  PyObject *at[8], *stream = nullptr;
  if (!spread(row, s, args, given, keywords, at, stream)) return nullptr;
  PyExecutor* executor = as_executor(at[0]);
  if (!executor) {
    complain(PyExc_TypeError, row, "the first argument must be an Executor%s", "");
    return nullptr;
  }
  PyBuffer* b[3];
  bool single = true;
  for (int i = 0; i < s.buffers; ++i) {
    b[i] = as_buffer(at[1 + i]);
    if (!b[i]) {
      complain(PyExc_TypeError, row, "argument '%s' must be a Buffer", s.names[1 + i]);
      return nullptr;
    }
    if (!b[i]->handle) {
      PyErr_Format(hologram_error, "%s: argument '%s' was freed", row.name, s.names[1 + i]);
      return nullptr;
    }
    single &= b[i]->dtype == HOLOGRAM_F32;
  }
  if (!executor->handle) {
    PyErr_Format(hologram_error, "%s: this Executor was cleaned up", row.name);
    return nullptr;
  }
  const bool product = row.form == Form::gemm || row.form == Form::matvec;
  const bool on_stream = stream && stream != Py_None;
  Handle place = executor->handle;
  if (on_stream && (place = stream_handle(row, stream)) == 0) return nullptr;
  if (!single && !row.operation) {
    if (!on_stream) return generic(row, at, s.count);
    complain(PyExc_NotImplementedError, row, "on a stream it takes %s alone", "float32");
    return nullptr;
  }
  if (product) return products(row, place, b, at);

  double numbers[2];
  const int scalars = s.required - 1 - s.buffers;
  for (int i = 0; i < scalars; ++i)
    if (!number(row, s.names[1 + s.buffers + i], at[1 + s.buffers + i], numbers[i])) return nullptr;
  uint64_t n = 0;
  PyObject* wanted = at[s.count - 1];
  if (wanted && wanted != Py_None) {
    if (!integer(row, "n", wanted, n)) return nullptr;
  } else {
    const bool scalar_result = row.form == Form::reduce || row.form == Form::loss;
    const hologram_status status =
        hologram_buffer_length_u64(b[scalar_result ? 0 : s.buffers - 1]->handle, &n);
    if (status != HOLOGRAM_OK) return finish(status);
  }
  if (!single) {
    const Handle inputs[] = {b[0]->handle, b[1]->handle};
    return finish(other_dtype(row, place, inputs, s.buffers - 1, b[s.buffers - 1]->handle, n));
  }
  float result = 0;
  const hologram_status status = launch(row, place, b, n, numbers, on_stream ? nullptr : &result);
  if (status == HOLOGRAM_OK && !on_stream && (row.form == Form::reduce || row.form == Form::loss))
    return PyFloat_FromDouble(static_cast<double>(result));
  return finish(status);
}

std::string documentation(const Row& row) {
  const Signature& s = signature_of(row);
  std::string text = std::string(row.name) + "(";
  for (int i = 0; i < s.count; ++i)
    text += std::string(i ? ", " : "") + s.names[i] + (i >= s.required ? "=None" : "");
  text += std::string(", *, stream=None)\n--\n\n") + row.doc + ".\n\n";
  switch (row.form) {
    case Form::gemm:
    case Form::matvec:
      text +=
          "Buffers of one float dtype, large enough for the sizes; the result overlaps no operand.";
      break;
    case Form::reduce:
    case Form::loss:
      text +=
          "Over the first n elements, by default all of the first buffer. Returns the result and "
          "stores it in output[0]; with a stream, the latter alone.";
      break;
    default:
      text +=
          "The first n elements, by default all of the result. Buffers of one dtype; the result "
          "may "
          "be an operand itself.";
  }
  return text +
         "\n\nstream: a Stream of the executor, on which the call is left without waiting for it "
         "(None: it ends with its work)."
         "\n\nRaises:\n    TypeError: not an Executor or Buffer.\n    ValueError: a buffer is too "
         "small, of another dtype or of another executor.\n    HologramError: the executor or a "
         "buffer was freed.";
}

}  // namespace

void bind_sdk_ops(nb::module_& m) {
  nb::module_ ops = m.def_submodule("buffer_ops", "Functions on buffers of one executor.");
  for (const Row& row : rows) {
    // Python keeps pointers to these as long as the process lives.
    auto* text = new std::string(documentation(row));
    auto* def = new PyMethodDef{
        row.name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call_operation)),
        METH_FASTCALL | METH_KEYWORDS, text->c_str()};
    nb::object self = nb::steal(PyCapsule_New(const_cast<Row*>(&row), nullptr, nullptr));
    nb::object name = nb::str("hologram.ops");
    PyObject* function = PyCFunction_NewEx(def, self.ptr(), name.ptr());
    if (!function) nb::raise_python_error();
    ops.attr(row.name) = nb::steal(function);
  }
}

}  // namespace hologram::python

// python/_core/module.cpp: entry point of the native module hologram._core
#include <nanobind/nanobind.h>

#include "base/error.h"
#include "base/version.h"
#include "bindings.h"

namespace nb = nanobind;

namespace {

// The Python exception for an Error's code.
PyObject* exception_for(hologram::ErrorCode code) {
  using hologram::ErrorCode;
  switch (code) {
    case ErrorCode::invalid_argument:
      return PyExc_ValueError;
    case ErrorCode::out_of_memory:
      return PyExc_MemoryError;
    case ErrorCode::not_found:
      return PyExc_KeyError;
    case ErrorCode::unsupported:
      return PyExc_NotImplementedError;
    case ErrorCode::division_by_zero:
      return PyExc_ZeroDivisionError;
    case ErrorCode::io:
      return PyExc_OSError;
    default:
      return PyExc_RuntimeError;
  }
}

}  // namespace

NB_MODULE(_core, m) {
  m.doc() = "Native part of the hologram package.";
  m.attr("__version__") = HOLOGRAM_VERSION;
  m.def(
      "version", [] { return HOLOGRAM_VERSION; }, "Version of the native library, as 'X.Y.Z'.");
  nb::set_leak_warnings(false);  // tensors kept by the interpreter at exit are no leak of ours
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const hologram::Error& e) {
      PyErr_SetString(exception_for(e.code()), e.what());
    }
  });
  hologram::python::bind_settings(m);
  hologram::python::bind_graph(m);
  hologram::python::bind_executable(m);
  hologram::python::bind_trace(m);
  hologram::python::bind_torch_call(m);
  hologram::python::bind_device_tensors(m);
  hologram::python::bind_device_operators(m);
  hologram::python::bind_sigmatics(m);
  hologram::python::bind_atlas(m);
  hologram::python::bind_step_loop(m);
  hologram::python::bind_freeze_guard(m);
  hologram::python::bind_draws(m);
  hologram::python::bind_sdk(m);
  hologram::python::bind_array_call(m);
  hologram::python::bind_archive(m);
}

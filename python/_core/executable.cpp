// python/_core/executable.cpp: Python names for runtimes and compiled graphs.
#include "runtime/executable.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"

namespace nb = nanobind;

namespace hologram::python {
namespace {

using runtime::CompileOptions;
using runtime::Executable;
using runtime::Runtime;

std::shared_ptr<Executable> compile(const ir::Graph& graph, std::shared_ptr<Runtime> runtime,
                                    std::vector<bool> static_parameters, bool reproducible, bool fast) {
  CompileOptions options{reproducible, fast, std::move(static_parameters)};
  nb::gil_scoped_release release;
  return Executable::compile(graph, options, std::move(runtime));
}

nb::dict report_of(const Executable& e) {
  const runtime::CompileReport& r = e.report();
  nb::dict out;
  out["milliseconds"] = r.milliseconds;
  out["ops_before"] = r.ops_before;
  out["ops_canonical"] = r.ops_canonical;
  out["kernels"] = r.kernels;
  out["steps"] = r.steps;
  out["memory_hits"] = r.memory_hits;
  out["disk_hits"] = r.disk_hits;
  out["compiled"] = r.compiled;
  out["rules"] = r.rules;
  return out;
}

nb::dict memory_stats(Runtime& r) {
  auto s = r.memory().stats();
  nb::dict out;
  out["in_use"] = s.in_use;
  out["peak"] = s.peak;
  out["cached"] = s.cached;
  out["limit"] = s.limit;
  out["hits"] = s.hits;
  out["misses"] = s.misses;
  return out;
}

}  // namespace

void bind_executable(nb::module_& m) {
  nb::class_<Runtime>(m, "Runtime", "Backend, threads, memory and kernel cache that compiled graphs share.")
      .def(nb::init<std::string_view>(), nb::arg("backend") = "cpu")
      .def_prop_ro("backend", [](Runtime& r) { return std::string(r.backend().name()); })
      .def_prop_ro("code_key", [](Runtime& r) { return r.backend().code_key(); })
      .def_prop_rw(
          "num_threads", [](Runtime& r) { return r.threads().num_threads(); },
          [](Runtime& r, int n) { r.threads().set_num_threads(n); })
      .def("memory_stats", &memory_stats, "Bytes in use, at peak and cached by the output pool, and its hits.")
      .def("release_memory", [](Runtime& r) { return r.memory().release(); },
           "Gives all cached memory back to the system; returns the bytes.")
      .def("clear_kernels", [](Runtime& r) { r.kernels().clear(); }, "Forgets kernels that nothing uses.");
  nb::class_<Executable>(m, "Executable", "A compiled graph.")
      .def_prop_ro("report", &report_of)
      .def_prop_ro("cached_bytes", &Executable::cached_bytes)
      .def_prop_ro("arena_bytes", [](Executable& e) { return e.plan().arena_bytes.str(); })
      .def_prop_ro("eager_bytes", [](Executable& e) { return e.plan().eager_bytes.str(); })
      .def("plan", [](Executable& e) { return schedule::print(e.plan()); }, "Text of the plan.");
  m.def("compile", &compile, nb::arg("graph"), nb::arg("runtime"), nb::arg("static_parameters") = std::vector<bool>(),
        nb::arg("reproducible") = false, nb::arg("fast") = false, "Compiles a graph into an Executable.");
}

}  // namespace hologram::python

// python/_core/executable.cpp: Python names for runtimes and compiled graphs.
#include "runtime/executable.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "archive/trust.h"
#include "backend/registry.h"
#include "base/fingerprint.h"
#include "bindings.h"
#include "host/pages.h"
#include "schedule/estimate.h"

namespace nb = nanobind;

namespace hologram::python {
namespace {

using runtime::CompileOptions;
using runtime::Executable;
using runtime::Runtime;

std::shared_ptr<Executable> compile(const ir::Graph& graph, std::shared_ptr<Runtime> runtime,
                                    std::vector<bool> static_parameters, bool reproducible,
                                    bool fast, std::optional<bool> graphs, bool host_operands,
                                    bool quickly) {
  CompileOptions options{reproducible, fast,          std::move(static_parameters),
                         graphs,       host_operands, quickly};
  nb::gil_scoped_release release;
  auto executable = Executable::compile(graph, options, std::move(runtime));
  tell_notices();
  return executable;
}

nb::dict report_of(const runtime::CompileReport& r) {
  nb::dict out;
  out["milliseconds"] = r.milliseconds;
  out["ops_before"] = r.ops_before;
  out["ops_canonical"] = r.ops_canonical;
  out["kernels"] = r.kernels;
  out["steps"] = r.steps;
  out["memory_hits"] = r.memory_hits;
  out["builtin"] = r.builtin;
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
  const runtime::CompiledBytes compiled = r.compiled_bytes();
  out["code"] = compiled.code;
  out["code_cached"] = compiled.code_cached;
  out["plans"] = compiled.plans;
  return out;
}

nb::list shape_list(const Shape& shape) {
  nb::list out;
  for (const Expr& e : shape) out.append(e.str());
  return out;
}

// The slots that a step reads and those that it writes, of a plan with its programs.
std::pair<std::vector<int>, std::vector<int>> accesses(const schedule::Plan& plan,
                                                       const schedule::Step& step) {
  if (step.kind != schedule::StepKind::kernel) return {step.arguments, step.results};
  std::pair<std::vector<int>, std::vector<int>> out;
  size_t k = 0;
  for (const atlas::Buffer& b : plan.programs[static_cast<size_t>(step.program)].buffers) {
    if (b.access == atlas::Access::scratch) continue;
    const int slot = step.buffers[k++];
    if (b.access != atlas::Access::write) out.first.push_back(slot);
    if (b.access != atlas::Access::read) out.second.push_back(slot);
  }
  return out;
}

// By step: the operations that it computes, with the number of the graph's node each was made for.
nb::list operations_of(const Executable& e, size_t step) {
  nb::list out;
  const auto& all = e.report().operations;
  if (step < all.size())
    for (const auto& [name, node] : all[step]) out.append(nb::make_tuple(std::string(name), node));
  return out;
}

// Steps and slots as plain data, for explain().
nb::dict describe_plan(const Executable& e) {
  const schedule::Plan& plan = e.plan();
  const bool whole =
      !plan.programs.empty();  // plans that were stored with machine code have no programs
  static constexpr const char* kinds[] = {"input", "output", "arena", "host", "cached"};
  nb::list slots, steps;
  for (const auto& s : plan.slots) {
    nb::dict d;
    d["kind"] = kinds[static_cast<int>(s.kind)];
    d["index"] = s.index;
    d["dtype"] = std::string(name_of(s.dtype));
    d["shape"] = shape_list(s.shape);
    d["bytes"] = s.bytes.str();
    d["boundary"] = s.boundary;
    d["name"] = s.name;
    slots.append(d);
  }
  for (const auto& s : plan.steps) {
    nb::dict d;
    bool kernel = s.kind == schedule::StepKind::kernel;
    d["kind"] = kernel ? "kernel" : "host";
    d["name"] = s.name;
    d["program"] = s.program;
    d["slots"] = kernel ? s.buffers : s.arguments;
    d["after"] = s.after;
    d["cached"] = s.cached >= 0;
    d["operations"] = operations_of(e, steps.size());
    if (whole || !kernel) {
      auto [reads, writes] = accesses(plan, s);
      d["reads"] = reads;
      d["writes"] = writes;
    }
    if (kernel && !whole) {
      d["flop"] = d["bytes"] = "0";
      d["moved"] = nb::list();
    } else if (kernel) {
      schedule::Estimate cost = schedule::estimate(plan.programs[static_cast<size_t>(s.program)]);
      auto named = [&](const Expr& x) {
        return x.substitute([&](const Atom& a) -> std::optional<Expr> {
          if (a.kind == Atom::Kind::symbol) return s.symbols[static_cast<size_t>(a.id)];
          return std::nullopt;
        });
      };
      d["flop"] = named(cost.flop).str();
      d["bytes"] = named(cost.bytes).str();
      nb::list moved;  // by slot
      for (const Expr& bytes : cost.moved) moved.append(named(bytes).str());
      d["moved"] = moved;
    }
    steps.append(d);
  }
  nb::dict out;
  out["slots"] = slots;
  out["steps"] = steps;
  out["arena_bytes"] = plan.arena_bytes.str();
  out["boundary_bytes"] = plan.boundary_bytes;
  out["eager_bytes"] = plan.eager_bytes.str();
  return out;
}

// By step: FLOP and bytes at these values of the symbols.
nb::list costs(const Executable& e, const std::vector<int64_t>& symbols) {
  const schedule::Plan& plan = e.plan();
  std::vector<schedule::Estimate> estimates;
  for (const atlas::Program& p : plan.programs) estimates.push_back(schedule::estimate(p));
  nb::list out;
  for (const schedule::Step& s : plan.steps) {
    int64_t flop = 0, bytes = 0;
    if (s.kind == schedule::StepKind::kernel && !estimates.empty()) {
      std::vector<int64_t> own;
      for (const Expr& x : s.symbols) own.push_back(x.eval(symbols));
      const schedule::Estimate& cost = estimates[static_cast<size_t>(s.program)];
      flop = cost.flop.eval(own);
      bytes = cost.bytes.eval(own);
    }
    out.append(nb::make_tuple(flop, bytes));
  }
  return out;
}

// One stage of every program's translation: "atlas", "llvm", "asm", "ptx", "sass" or "wgsl";
// nothing for a stage that the backend lacks.
std::vector<std::string> dump(const Executable& e, std::string_view stage) {
  std::vector<std::string> out;
  for (const atlas::Program& p : e.plan().programs) {
    if (stage == "atlas") {
      out.push_back(atlas::disassemble(p));
      continue;
    }
    constexpr std::string_view stages[] = {"llvm", "asm", "ptx", "sass", "wgsl"};
    require(std::ranges::find(stages, stage) != std::end(stages),
            "dump: stage \"{}\" is unknown; expected atlas, llvm, asm, ptx, sass or wgsl", stage);
    if (auto text = e.runtime().backend().dump(p, stage)) out.push_back(std::move(*text));
  }
  return out;
}

nb::dict cache_info() {
  auto info =
      runtime::DiskCache(runtime::DiskCache::default_folder(), runtime::DiskCache::default_limit())
          .info();
  nb::dict out;
  out["folder"] = info.folder.string();
  out["entries"] = info.entries;
  out["bytes"] = info.bytes;
  out["limit"] = info.limit;
  out["problem"] = info.problem;
  return out;
}

uint64_t cache_clear() {
  return runtime::DiskCache(runtime::DiskCache::default_folder(),
                            runtime::DiskCache::default_limit())
      .clear();
}

/// Of this runtime's cache: see DiskCache::place_of_archive.
nb::object cache_place(Runtime& runtime, std::string_view name, bool make) {
  const auto path = runtime.kernels().disk().place_of_archive(fingerprint(name), make);
  return path ? nb::cast(path->string()) : nb::none();
}

}  // namespace

void bind_executable(nb::module_& m) {
  nb::class_<Runtime>(m, "Runtime",
                      "Backend, threads, memory and kernel cache that compiled graphs share.")
      .def(
          "__init__",
          [](Runtime* self, std::string_view backend) {
            new (self) Runtime(backend);
            tell_notices();
          },
          nb::arg("backend") = "cpu")
      .def_static(
          "backends",
          [](bool interfaces) {
            nb::list names;
            for (const RegisteredBackend& b : registered_backends())
              names.append(nb::str(b.name.data(), b.name.size()));
            for (const RegisteredBackend& b : registered_interfaces())
              if (interfaces) names.append(nb::str(b.name.data(), b.name.size()));
            return names;
          },
          nb::arg("interfaces") = false,
          "The backends of this build, in the order in which \"auto\" tries them, and behind them "
          "names for devices of one interface of a backend.")
      .def_prop_ro("backend", [](Runtime& r) { return std::string(r.backend().name()); })
      .def_prop_ro("code_key", [](Runtime& r) { return r.backend().code_key(); })
      .def_prop_ro("target", [](Runtime& r) { return r.backend().target(); })
      .def_prop_ro(
          "counts",
          [](Runtime& r) {
            nb::dict out;
            for (const auto& [name, count] : r.backend().counts())
              out[nb::str(name.data(), name.size())] = count;
            return out;
          },
          "How often things happened on the device so far, by name.")
      .def_prop_ro(
          "description", [](Runtime& r) { return r.backend().describe(); },
          "The device and what compiles for it, in words; empty: nothing beyond its name.")
      .def_prop_rw(
          "num_threads", [](Runtime& r) { return r.threads().num_threads(); },
          [](Runtime& r, int n) { r.threads().set_num_threads(n); })
      .def("memory_stats", &memory_stats,
           "Bytes in use, at peak and cached by the output pool, and its hits; bytes of machine "
           "code "
           "in use and of kernels kept for later, and of plans.")
      .def(
          "release_memory", [](Runtime& r) { return r.release_memory(); },
          "Gives all cached memory back to the system; returns the bytes.")
      .def(
          "drop_code_pages", [](Runtime&) { host::drop_code_pages(); },
          "Gives back the module's read-only pages; what is used again comes from the page cache.")
      .def(
          "trim_heap", [](Runtime&) { host::trim_heap(); },
          "Gives what the C library keeps of freed memory back to the system.")
      .def(
          "page_out",
          [](Runtime&, uintptr_t address, size_t bytes) {
            host::page_out(reinterpret_cast<const void*>(address), bytes);
          },
          nb::arg("address"), nb::arg("bytes"),
          "Asks the system to take pages back; content stays. For memory that lies in a file.")
      .def("cache_place", &cache_place, nb::arg("name"), nb::arg("make") = false,
           "Where the cache on disk has, or may have, the archive of this name; None: nowhere.")
      .def(
          "cache_placed", [](Runtime& r, uint64_t bytes) { r.kernels().disk().placed(bytes); },
          nb::arg("bytes"), "So many bytes were written there: others may go.")
      .def_prop_ro(
          "code_key", [](Runtime& r) { return r.backend().code_key(); },
          "The target and the code generator: what names machine code apart from its program.")
      .def_prop_ro("cache_limit", [](Runtime& r) { return r.kernels().disk().limit(); })
      .def(
          "start_recording", [](Runtime& r) { r.kernels().disk().start_recording(); },
          "Notes which entries of the kernel cache are used, until stop_recording().")
      .def(
          "stop_recording",
          [](Runtime& r) {
            nb::list out;
            for (const auto& [key, code] : r.kernels().disk().stop_recording())
              out.append(nb::make_tuple(key.hex(), nb::bytes(code.data(), code.size())));
            return out;
          },
          "(key, code) of each that was used.")
      .def(
          "give_code",
          [](Runtime& r, std::string_view key, const nb::bytes& code) {
            r.kernels().disk().give(archive::parse_fingerprint(key), {code.c_str(), code.size()});
          },
          nb::arg("key"), nb::arg("code"),
          "Puts an entry that stop_recording() told, perhaps on another machine, into the cache.")
      .def(
          "clear_kernels", [](Runtime& r) { r.kernels().clear(); },
          "Forgets kernels that nothing uses.");
  nb::class_<Executable>(m, "Executable", "A compiled graph.")
      .def_prop_ro("backend",
                   [](Executable& e) { return std::string(e.runtime().backend().name()); })
      .def_prop_ro(
          "device", [](Executable& e) { return e.runtime().backend().describe(); },
          "The device that it runs on, in words; empty: nothing beyond the backend's name.")
      .def_prop_ro("report", [](Executable& e) { return report_of(e.report()); })
      .def(
          "finish",
          [](Executable& e) {
            nb::gil_scoped_release release;
            runtime::CompileReport report = e.finish();
            nb::gil_scoped_acquire acquire;
            return report_of(report);
          },
          "Compiles well what was made quickly, for calls that begin from then on; returns what "
          "that did, in the form of `report`.")
      .def_prop_ro("provisional", &Executable::is_provisional,
                   "Whether finish() has something to do.")
      .def_prop_ro("cached_bytes", &Executable::cached_bytes)
      .def_prop_ro(
          "cached_values",
          [](Executable& e) {
            nb::dict out;
            for (const auto& [value, bytes] : e.cached_values())
              out[nb::int_(reinterpret_cast<uintptr_t>(value))] = bytes;
            return out;
          },
          "Of what is computed from parameters alone, bytes by address: graphs may have one in "
          "common.")
      .def_prop_ro("arena_bytes", [](Executable& e) { return e.plan().arena_bytes.str(); })
      .def_prop_ro("eager_bytes", [](Executable& e) { return e.plan().eager_bytes.str(); })
      .def("use_overwritten", &Executable::use_overwritten,
           "Lets calls keep intermediates in arguments that they write before they read them.")
      .def("describe", &describe_plan, "Steps and buffers of the plan as plain data.")
      .def("costs", &costs, nb::arg("symbols"),
           "By step of describe(): FLOP and bytes at these values of the symbols.")
      .def("dump", &dump, nb::arg("stage"),
           "Text of every kernel: 'atlas', 'llvm' or 'asm'; of a GPU's, 'ptx', 'sass' or 'wgsl'.")
      .def(
          "plan", [](Executable& e) { return schedule::print(e.plan()); }, "Text of the plan.");
  m.def(
      "fingerprint",
      [](const nb::bytes& data) {
        return fingerprint(std::string_view(data.c_str(), data.size())).hex();
      },
      nb::arg("data"), "Names a content: its BLAKE2b-256 as hexadecimal digits.");
  m.def("cache_info", &cache_info,
        "Folder, entries and bytes of the kernel cache on disk, and why it is not used, if so.");
  m.def("cache_clear", &cache_clear,
        "Removes every kernel from the cache on disk; returns how many.");
  m.def(
      "compile", &compile, nb::arg("graph"), nb::arg("runtime"),
      nb::arg("static_parameters") = std::vector<bool>(), nb::arg("reproducible") = false,
      nb::arg("fast") = false, nb::arg("graphs") = nb::none(), nb::arg("host_operands") = false,
      nb::arg("quickly") = false,
      "Compiles a graph into an Executable. `graphs`: whether a GPU gets runs of launches as one; "
      "None: where that is likely to be faster. `host_operands`: whether calls bring arrays of the "
      "host, of which a device keeps copies of the static ones. `quickly`: kernels that are not in "
      "the cache may be slow ones until finish().");
}

}  // namespace hologram::python

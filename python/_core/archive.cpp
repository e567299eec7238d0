// python/_core/archive.cpp: Python names for .holo archives.
#include "archive/archive.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "archive/faults.h"
#include "archive/function.h"
#include "archive/precompile.h"
#include "archive/trust.h"
#include "archive/writer.h"
#include "arrays.h"
#include "base/version.h"
#include "bindings.h"
#include "ir/graph.h"
#include "loop_operands.h"
#include "runtime/runtime.h"
#include "sdk.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace hologram::python {
namespace {

using archive::Archive;
using archive::Function;
using archive::Session;
using archive::Weights;
using archive::Writer;

hologram_dtype public_dtype(DType t) { return static_cast<hologram_dtype>(t); }

DType dtype_named(std::string_view name) {
  auto t = dtype_from_name(name);
  require(t.has_value(), "dtype \"{}\" is unknown", name);
  return *t;
}

nb::list signature_list(const std::vector<archive::Signature>& list, const archive::Method& m) {
  nb::list out;
  for (const archive::Signature& s : list) {
    nb::list shape;
    for (const Expr& e : s.shape)
      shape.append(e.is_const() ? nb::object(nb::int_(e.constant_value()))
                                : nb::object(nb::cast(archive::named(e, m))));
    nb::dict d;
    d["name"] = s.name;
    d["dtype"] = dtype_name(public_dtype(s.dtype));
    d["shape"] = nb::tuple(shape);
    out.append(d);
  }
  return out;
}

nb::dict method_info(const archive::Method& m) {
  nb::dict d, sizes;
  d["name"] = m.name;
  d["inputs"] = signature_list(m.inputs, m);
  d["results"] = signature_list(m.results, m);
  for (const archive::Symbol& s : m.symbols)
    sizes[s.name.c_str()] = nb::make_tuple(s.least, s.most);
  d["sizes"] = sizes;
  d["structure"] = m.structure;
  d["reproducible"] = m.reproducible;
  return d;
}

nb::list tensor_list(const Archive& a) {
  nb::list out;
  for (const archive::Tensor& t : a.index().tensors) {
    nb::dict d;
    nb::list shape, strides;
    for (int64_t n : t.shape) shape.append(n);
    d["name"] = t.name;
    d["dtype"] = dtype_name(public_dtype(t.dtype));
    for (int64_t n : t.strides) strides.append(n);
    d["shape"] = nb::tuple(shape);
    d["strides"] = nb::tuple(strides);
    d["offset"] = t.offset;
    d["bytes"] = t.bytes;
    d["state"] = t.state;
    out.append(d);
  }
  return out;
}

/// One argument of a call: a row-major array that stays alive.
struct Input {
  nb::object kept;
  const void* data = nullptr;
  std::vector<int64_t> shape;
};

/// Whether an array of this dtype is one of `want`: uint16 holds the bits of bfloat16, which NumPy
/// alone lacks.
bool fits(hologram_dtype dtype, DType want) {
  return dtype == public_dtype(want) || (dtype == HOLOGRAM_U16 && want == DType::bf16);
}

Input take(const archive::Signature& want, nb::handle object) {
  if (!numpy::is_array(object.ptr()))
    throw Failure{HOLOGRAM_INVALID_ARGUMENT, fmt::format("input \"{}\" is no array", want.name)};
  const numpy::Array* a = numpy::as_array(object.ptr());
  hologram_dtype dtype;
  const bool known = numpy::dtype_of(*a, dtype);
  if (!known || !fits(dtype, want.dtype))
    throw Failure{HOLOGRAM_INVALID_ARGUMENT,
                  fmt::format("input \"{}\" is {}, expected {}", want.name,
                              known ? dtype_name(dtype) : "of a dtype that Hologram lacks",
                              dtype_name(public_dtype(want.dtype)))};
  nb::object kept = row_major(object);
  const void* data = numpy::as_array(kept.ptr())->data;
  return {std::move(kept), data, {a->shape, a->shape + a->ndim}};
}

/// Operations without a kernel as calls of a Python function: host(callee, operands, sizes,
/// strides) with operands as (bytes, dtype, shape, strides), → by result its address and what keeps
/// it.
class PythonHost final : public runtime::Host {
 public:
  PythonHost(const schedule::Plan& plan, nb::handle function) : plan_(plan), function_(function) {}

  int32_t call(const schedule::Step& step, runtime::Frame& frame) override {
    nb::gil_scoped_acquire own;
    const auto numbers = [&](const Shape& shape) {
      nb::list out;
      for (const Expr& e : shape) out.append(e.eval(frame.symbols));
      return out;
    };
    nb::list operands, strides;
    for (const int slot : step.arguments) operands.append(operand(slot, frame, numbers));
    for (const int slot : step.results)
      strides.append(slot < 0 ? nb::object(nb::none()) : numbers(slot_of(slot).strides));
    const nb::object made = function_(step.callee, operands, numbers(step.sizes), strides);
    for (size_t i = 0; i < step.results.size(); ++i) {
      if (step.results[i] < 0) continue;
      const nb::object result = made[i];
      frame.slots[static_cast<size_t>(step.results[i])] =
          reinterpret_cast<void*>(nb::cast<uintptr_t>(result[0]));
      kept_.append(result[1]);
    }
    return 0;
  }

 private:
  const schedule::Slot& slot_of(int slot) const { return plan_.slots[static_cast<size_t>(slot)]; }

  template <class Numbers>
  nb::tuple operand(int slot, runtime::Frame& frame, const Numbers& numbers) const {
    const schedule::Slot& s = slot_of(slot);
    const Py_ssize_t bytes = s.bytes.eval(frame.symbols);
    nb::object memory = numpy::make_array(
        HOLOGRAM_U8, 1, &bytes, frame.slots[static_cast<size_t>(slot)], Py_NewRef(Py_None));
    return nb::make_tuple(memory, name_of(s.dtype), numbers(s.shape), numbers(s.strides));
  }

  const schedule::Plan& plan_;
  nb::handle function_;
  nb::list kept_;
};

/// `bits`: results of bfloat16 as uint16 arrays.
nb::list call(Function& f, const nb::list& arrays, Session* session, nb::object host, bool bits) {
  const archive::Method& m = f.method();
  if (arrays.size() != m.inputs.size())
    throw Failure{HOLOGRAM_INVALID_ARGUMENT, fmt::format("\"{}\" takes {} arrays, got {}", m.name,
                                                         m.inputs.size(), arrays.size())};
  std::vector<Input> inputs;
  std::vector<std::vector<int64_t>> shapes;
  std::vector<const void*> addresses;
  for (size_t i = 0; i < m.inputs.size(); ++i) {
    inputs.push_back(take(m.inputs[i], arrays[i]));
    shapes.push_back(inputs.back().shape);
    addresses.push_back(inputs.back().data);
  }
  const std::vector<int64_t> symbols = f.symbols_of(shapes);
  nb::list made;
  std::vector<void*> places(m.results.size());
  for (size_t i = 0; i < places.size(); ++i) {
    const archive::Signature& r = m.results[i];
    const DType dtype = bits && r.dtype == DType::bf16 ? DType::u16 : r.dtype;
    const ResultArray result =
        new_result(f.executable().runtime(), public_dtype(dtype), f.shape_of(r, symbols));
    places[i] = result.data;
    made.append(result.array);
  }
  PythonHost calls(f.executable().plan(), host);
  nb::gil_scoped_release others;
  archive::raise_faults(
      f.run(addresses, symbols, places, session, host.is_none() ? nullptr : &calls), m, addresses,
      symbols);
  return made;
}

/// A tensor's content: an array of bytes that keeps the archive open and that nobody may write.
nb::object tensor_bytes(const std::shared_ptr<const Archive>& a, size_t number) {
  if (number >= a->index().tensors.size()) throw nb::index_error("tensors");
  const archive::Tensor& t = a->index().tensors[number];
  auto* owner = new std::shared_ptr<const Archive>(a);
  PyObject* keeper = PyCapsule_New(owner, nullptr, [](PyObject* capsule) {
    delete static_cast<std::shared_ptr<const Archive>*>(PyCapsule_GetPointer(capsule, nullptr));
  });
  if (!keeper) {
    delete owner;
    nb::raise_python_error();
  }
  const auto n = static_cast<Py_ssize_t>(t.bytes);
  nb::object array =
      numpy::make_array(HOLOGRAM_U8, 1, &n, const_cast<std::byte*>(a->data(t)), keeper);
  array.attr("setflags")("write"_a = false);
  return array;
}

// --- writing

std::vector<archive::Signature> to_signatures(const nb::list& list) {
  std::vector<archive::Signature> out;
  for (nb::handle h : list)
    out.push_back({nb::cast<std::string>(h[0]), dtype_named(nb::cast<std::string_view>(h[1])),
                   to_shape(h[2])});
  return out;
}

uint32_t add_method(Writer& writer, std::string name, const ir::Graph& graph,
                    const nb::list& symbols, const nb::list& inputs, const nb::list& results,
                    const nb::list& parameters, const nb::list& guards, std::string structure,
                    bool reproducible, bool fast) {
  archive::Method m;
  m.name = std::move(name);
  m.reproducible = reproducible;
  m.fast = fast;
  for (nb::handle h : symbols)
    m.symbols.push_back(
        {nb::cast<std::string>(h[0]), nb::cast<int64_t>(h[1]), nb::cast<int64_t>(h[2])});
  m.inputs = to_signatures(inputs);
  m.results = to_signatures(results);
  for (nb::handle h : parameters)
    m.parameters.push_back({nb::cast<std::string_view>(h[0]) == "input"
                                ? archive::Source::Kind::input
                                : archive::Source::Kind::tensor,
                            nb::cast<uint32_t>(h[1])});
  m.guards = to_shape(guards);
  m.structure = std::move(structure);
  return writer.add_method(std::move(m), ir::print(graph));
}

void add_loop(Writer& writer, uint32_t method, uint32_t callee, const ir::Graph& graph,
              const nb::list& operands, std::vector<int> results, nb::handle steps,
              const nb::list& sizes, bool descending) {
  archive::Loop loop{method, callee, 0, descending, {}, std::move(results), 0, to_shape(sizes)};
  loop.operands = loop_operands(operands);
  loop.steps = PyLong_Check(steps.ptr()) ? Expr(nb::cast<int64_t>(steps)) : nb::cast<Expr>(steps);
  writer.add_loop(std::move(loop), ir::print(graph));
}

uint32_t add_tensor(Writer& writer, std::string name, std::string_view dtype,
                    std::vector<int64_t> shape, std::vector<int64_t> strides, uint64_t address,
                    uint64_t bytes, bool state) {
  archive::Tensor t;
  t.name = std::move(name);
  t.dtype = dtype_named(dtype);
  t.shape = std::move(shape);
  t.strides = std::move(strides);
  t.state = state;
  nb::gil_scoped_release others;
  return writer.add_tensor(std::move(t), {reinterpret_cast<const std::byte*>(address), bytes});
}

void precompile(Writer& writer, runtime::Runtime& runtime, const std::vector<std::string>& isas) {
  nb::gil_scoped_release others;
  archive::precompile(writer, runtime.backend(), isas, &runtime.kernels().disk());
}

void precompile_here(Writer& writer, runtime::Runtime& runtime) {
  nb::gil_scoped_release others;
  archive::precompile_here(writer, runtime.backend(), &runtime.kernels().disk());
}

nb::list precompiled_list(const Archive& a) {
  nb::list out;
  for (const archive::Precompiled& p : a.index().precompiled) {
    nb::dict d;
    d["method"] = a.index().methods[p.method].name;
    d["target"] = p.target;
    d["generator"] = p.generator;
    d["plan"] = p.plan;
    d["code"] = p.code;
    d["plan_offset"] = a.index().sections[p.plan].offset;
    d["plan_bytes"] = a.index().sections[p.plan].bytes;
    d["code_offset"] = a.index().sections[p.code].offset;
    d["code_bytes"] = a.index().sections[p.code].bytes;
    const std::string_view code = a.section(p.code);
    if (p.target == "webgpu wgsl")  // its first line says what there is (docs/webgpu.md)
      d["about"] = nb::bytes(code.data(), std::min(code.find('\n'), code.size()));
    out.append(d);
  }
  return out;
}

void replace(Weights& weights, std::string_view name, nb::handle object) {
  const numpy::Array* a = numpy::as_array(object.ptr());
  hologram_dtype dtype;
  require(numpy::dtype_of(*a, dtype), "\"{}\" has a dtype that Hologram lacks", name);
  require(is_row_major(*a), "\"{}\" is no row-major array", name);
  auto given = static_cast<DType>(dtype);
  for (const archive::Tensor& t : weights.archive().index().tensors)
    if (t.name == name && fits(dtype, t.dtype)) given = t.dtype;
  weights.replace(name, given, {a->shape, a->shape + a->ndim},
                  reinterpret_cast<const std::byte*>(a->data));
}

/// What reading raises: FileNotFoundError, OSError, HologramError for damaged files.
template <class F>
auto reading(const F& f) {
  try {
    return f();
  } catch (const Error& e) {
    if (e.code() != ErrorCode::not_found)
      throw Failure{static_cast<hologram_status>(e.code()), e.what()};
    PyErr_SetString(PyExc_FileNotFoundError, e.what());
    throw nb::python_error();
  }
}

archive::Verify verify_named(std::string_view name) {
  if (name == "index") return archive::Verify::index;
  require(name == "full", "verify: \"{}\" is neither \"index\" nor \"full\"", name);
  return archive::Verify::full;
}

}  // namespace

void bind_archive(nb::module_& m) {
  nb::class_<Session>(m, "ArchiveSession", "State that methods of an archive keep.")
      .def("__init__",
           [](Session* at, std::shared_ptr<Archive> a) { new (at) Session(std::move(a)); })
      .def("reset", &Session::reset, "Back to the state in the archive.");
  nb::class_<Function>(m, "ArchiveFunction", "A method of an archive, compiled.")
      .def("__call__", &call, "arrays"_a, "session"_a.none() = nb::none(),
           "host"_a.none() = nb::none(), "bits"_a = false)
      .def_prop_ro(
          "executable", [](Function& f) { return f.executable().shared_from_this(); },
          "What its calls run.")
      .def_prop_ro("has_state", &Function::has_state)
      .def_prop_ro("precompiled", &Function::precompiled,
                   "Whether it runs machine code of the archive.")
      .def_prop_ro("cached_bytes", &Function::cached_bytes);
  nb::class_<Archive>(m, "Archive", "An open .holo archive.")
      .def_static(
          "open",
          [](const std::string& path, std::string_view verify) {
            const archive::Verify how = verify_named(verify);
            return reading([&] {
              nb::gil_scoped_release others;
              return std::const_pointer_cast<Archive>(Archive::open(path, how));
            });
          },
          "path"_a, "verify"_a = "index")
      .def_static(
          "from_bytes",
          [](const nb::bytes& bytes, std::string_view verify) {
            const archive::Verify how = verify_named(verify);
            return reading([&] {
              std::string copy(bytes.c_str(), bytes.size());
              return std::const_pointer_cast<Archive>(Archive::from_bytes(std::move(copy), how));
            });
          },
          "bytes"_a, "verify"_a = "index")
      .def_prop_ro("name", &Archive::name)
      .def_prop_ro("size", &Archive::size)
      .def_prop_ro("producer", [](Archive& a) { return a.index().producer; })
      .def_prop_ro("fingerprint", [](Archive& a) { return a.fingerprint().hex(); })
      .def_prop_ro("methods",
                   [](Archive& a) {
                     nb::list out;
                     for (const archive::Method& x : a.index().methods) out.append(method_info(x));
                     return out;
                   })
      .def_prop_ro("tensors", &tensor_list)
      .def(
          "tensor",
          [](std::shared_ptr<Archive> a, size_t number) { return tensor_bytes(a, number); },
          "number"_a)
      .def("graph",
           [](Archive& a, std::string_view name) {
             return std::string(a.section(a.method(name).graph));
           })
      .def("verify",
           [](Archive& a) {
             reading([&] {
               nb::gil_scoped_release others;
               a.verify_all();
             });
           })
      .def(
          "function",
          [](std::shared_ptr<Archive> a, std::string_view name,
             std::shared_ptr<runtime::Runtime> runtime, bool trusted,
             std::shared_ptr<Weights> weights, bool host) {
            if (!weights) weights = std::make_shared<Weights>(a);
            require(&weights->archive() == a.get(), "the weights are another archive's");
            return reading([&] {
              nb::gil_scoped_release others;
              return std::make_shared<Function>(std::move(weights), a->method(name),
                                                std::move(runtime), trusted, host);
            });
          },
          "name"_a, "runtime"_a, "trusted"_a = false, "weights"_a.none() = nb::none(),
          "host"_a = false)
      .def_prop_ro("precompiled", &precompiled_list)
      .def(
          "with_targets",
          [](Archive& a, const std::string& path, runtime::Runtime& runtime,
             const std::vector<std::string>& isas) {
            return reading([&] {
              nb::gil_scoped_release others;
              return archive::with_targets(a, path, runtime.backend(), isas,
                                           &runtime.kernels().disk())
                  .hex();
            });
          },
          "path"_a, "runtime"_a, "isas"_a,
          "Writes the archive with machine code for more instruction sets; its fingerprint.")
      .def(
          "verify_code",
          [](Archive& a, const runtime::Runtime& runtime) {
            reading([&] {
              nb::gil_scoped_release others;
              archive::verify_code(a, runtime.backend());
            });
          },
          "runtime"_a, "Compiles every method again and compares the bytes.");
  m.def(
      "archive_is_trusted",
      [](std::string_view f) { return archive::is_trusted(archive::parse_fingerprint(f)); },
      "fingerprint"_a, "Whether the user's list of trusted archives names it.");
  m.def(
      "archive_trust",
      [](std::string_view f, std::string_view note) {
        reading([&] { archive::trust(archive::parse_fingerprint(f), note); });
      },
      "fingerprint"_a, "note"_a, "Adds an archive to the user's list.");
  nb::class_<Weights>(m, "ArchiveWeights", "What an archive's tensors are for those who call it.")
      .def(nb::new_(
          [](std::shared_ptr<Archive> a) { return std::make_shared<Weights>(std::move(a)); }))
      .def("replace", &replace, "name"_a, "array"_a);
  nb::class_<Writer>(m, "ArchiveWriter", "Writes a .holo archive; the file appears in finish().")
      .def("__init__",
           [](Writer* at, const std::string& path) {
             new (at) Writer(path, "hologram " HOLOGRAM_VERSION);
           })
      .def("add_tensor", &add_tensor, "name"_a, "dtype"_a, "shape"_a, "strides"_a, "address"_a,
           "bytes"_a, "state"_a = false)
      .def("precompile", &precompile, "runtime"_a, "isas"_a,
           "Adds machine code of all methods for these instruction sets; none named: the usual "
           "ones.")
      .def("precompile_here", &precompile_here, "runtime"_a,
           "Adds machine code of all methods for this runtime alone, threads included.")
      .def("add_method", &add_method, "name"_a, "graph"_a, "symbols"_a, "inputs"_a, "results"_a,
           "parameters"_a, "guards"_a, "structure"_a, "reproducible"_a = false, "fast"_a = false,
           "Returns the method's number.")
      .def("add_loop", &add_loop, "method"_a, "callee"_a, "graph"_a, "operands"_a, "results"_a,
           "steps"_a, "sizes"_a, "descending"_a,
           "Says that host call `callee` of a method is this graph at each of so many steps. "
           "operands: as step_loop's roles; results: numbers of the graph's, -1: an empty array; "
           "sizes: values of the graph's symbols.")
      .def(
          "finish", [](Writer& w) { return w.finish().hex(); },
          nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace hologram::python

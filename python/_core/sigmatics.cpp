// python/_core/sigmatics.cpp: Python names for the sigil algebra.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "atlas/class_graph.h"
#include "bindings.h"
#include "runtime/circuit.h"
#include "sigmatics/expression.h"

namespace nb = nanobind;

namespace hologram::python {
namespace {

using namespace sigmatics;  // NOLINT(google-build-using-namespace): the module wraps all of it

nb::tuple from_transform(const Transform& t) { return nb::make_tuple(t.r, t.d, t.t, t.mirror); }

nb::dict evaluate(std::string_view text) {
  Expression e = parse_expression(text);
  Literal literal = evaluate_literal(e);
  nb::dict out;
  out["bytes"] = literal.bytes;
  out["addresses"] = literal.addresses;
  out["classes"] = literal.classes;
  out["words"] = words(e);
  return out;
}

nb::list tokens(std::string_view text, bool circuit) {
  nb::list out;
  for (const Token& t : tokenize(text, circuit ? Dialect::circuit : Dialect::expression))
    out.append(nb::make_tuple(name_of(t.kind), t.text, t.position, t.length));
  return out;
}

nb::dict from_operand(const Operand& o) {
  nb::dict out;
  out["class"] = o.cls;
  out["page"] = o.page < 0 ? nb::object(nb::none()) : nb::cast(o.page);
  return out;
}

Operand to_operand(nb::handle h) {
  Operand o{nb::cast<int>(h["class"])};
  if (!h["page"].is_none()) o.page = nb::cast<int>(h["page"]);
  return o;
}

nb::dict from_call(const Call& c) {
  nb::dict out;
  out["generator"] = name_of(c.generator);
  out["a"] = from_operand(c.a);
  out["b"] = from_operand(c.b);
  out["to"] = from_operand(c.to);
  out["variant"] = name_of(c.variant);
  out["range"] = std::vector<int>(c.range.begin(), c.range.end());
  return out;
}

Generator generator_named(std::string_view name) {
  for (int k = 0; k < num_generators; ++k)
    if (name_of(static_cast<Generator>(k)) == name) return static_cast<Generator>(k);
  fail(ErrorCode::invalid_argument, "generator \"{}\" is unknown", name);
}

Call to_call(nb::handle h) {
  Call c;
  c.generator = generator_named(nb::cast<std::string_view>(h["generator"]));
  c.a = to_operand(h["a"]);
  c.b = to_operand(h["b"]);
  c.to = to_operand(h["to"]);
  auto name = nb::cast<std::string_view>(h["variant"]);
  auto variant = variant_from_name(name);
  require(variant.has_value(), "variant \"{}\" is unknown", name);
  c.variant = *variant;
  for (nb::handle k : h["range"]) c.range.push_back(static_cast<uint8_t>(nb::cast<int>(k)));
  return c;
}

nb::list from_calls(const std::vector<Call>& calls) {
  nb::list out;
  for (const Call& c : calls) out.append(from_call(c));
  return out;
}

std::vector<Call> to_calls(nb::handle list) {
  std::vector<Call> out;
  for (nb::handle h : list) out.push_back(to_call(h));
  return out;
}

nb::dict compile_text(std::string_view text, bool keep_memory) {
  Circuit circuit = parse_circuit(text);
  Canonical c = canonicalize(circuit, keep_memory ? Rules::memory : Rules::gates);
  nb::dict out;
  out["original_ops"] = c.original_ops;
  out["canonical_ops"] = c.canonical_ops;
  out["reduction_pct"] = c.reduction_pct;
  out["applied_rules"] = c.applied_rules;
  out["original_text"] = print(circuit);
  out["canonical_text"] = print(c.circuit);
  out["original_calls"] = from_calls(calls_of(circuit));
  out["calls"] = from_calls(calls_of(c.circuit));
  return out;
}

nb::dict from_effects(const Effects& e) {
  nb::dict out;
  out["steps"] = from_calls(e.steps);
  out["unevaluated"] = e.unevaluated;
  out["recorded"] = from_calls(e.recorded);
  return out;
}

using Memory = nb::ndarray<float, nb::shape<96, 3072>, nb::c_contig, nb::device::cpu>;

struct FreeAligned {
  void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{64}); }
};

// Runs on an aligned copy where the array is not aligned itself.
nb::dict run_calls(nb::handle calls, const Memory& memory,
                   const std::shared_ptr<runtime::Runtime>& runtime) {
  Effects effects = effects_of(to_calls(calls));
  {
    nb::gil_scoped_release release;
    auto kernels = runtime::lower_circuit(effects.steps);
    auto* data = reinterpret_cast<std::byte*>(memory.data());
    constexpr auto size = static_cast<size_t>(atlas::boundary_bytes);
    if (reinterpret_cast<uintptr_t>(data) % 64 == 0) {
      runtime::run_circuit(*runtime, kernels, {data, size});
    } else {
      std::unique_ptr<std::byte, FreeAligned> copy(
          static_cast<std::byte*>(::operator new (size, std::align_val_t{64})));
      std::memcpy(copy.get(), data, size);
      runtime::run_circuit(*runtime, kernels, {copy.get(), size});
      std::memcpy(data, copy.get(), size);
    }
  }
  return from_effects(effects);
}

std::vector<std::string> atlas_text(nb::handle calls) {
  std::vector<std::string> out;
  for (const auto& k : runtime::lower_circuit(effects_of(to_calls(calls)).steps))
    out.push_back(atlas::disassemble(k.program));
  return out;
}

int checked_class(int64_t cls) {
  parts_of(cls);
  return static_cast<int>(cls);
}

std::vector<int> neighbours(int64_t cls) {
  auto list = atlas::class_neighbours(checked_class(cls));
  return {list.begin(), list.end()};
}

// The Python exception of a SyntaxError: a ValueError with the attribute `position`.
void translate(const std::exception_ptr& p, void* type) {
  try {
    std::rethrow_exception(p);
  } catch (const SyntaxError& e) {
    std::string_view text = e.what();
    PyObject* message =
        PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
    PyObject* error =
        message ? PyObject_CallFunctionObjArgs(static_cast<PyObject*>(type), message, nullptr)
                : nullptr;
    Py_XDECREF(message);
    if (!error) return;
    nb::object position = nb::cast(e.position());
    if (PyObject_SetAttrString(error, "position", position.ptr()) == 0)
      PyErr_SetObject(static_cast<PyObject*>(type), error);
    Py_DECREF(error);
  }
}

void bind_classes(nb::module_& m) {
  m.def("class_index", [](int h2, int d, int l) { return class_index({h2, d, l}); });
  m.def("class_parts", [](int64_t c) {
    Parts p = parts_of(c);
    return nb::make_tuple(p.h2, p.d, p.l);
  });
  m.def("class_of_byte", &class_of_byte);
  m.def("canonical_byte", &canonical_byte);
  m.def("members", &members);
  m.def("equivalent", &equivalent);
  m.def("belt_address", &belt_address);
  m.def("belt_place", [](int64_t address) {
    BeltPlace p = belt_place(address);
    return nb::make_tuple(p.page, p.byte);
  });
  m.def("classes_for", [](int64_t length, int64_t first) {
    ClassRun r = classes_for(length, first);
    return nb::make_tuple(r.first, r.count);
  });
  m.def("mirror", [](int64_t c) { return atlas::class_mirror(checked_class(c)); });
  m.def("modality_mirror", &modality_mirror);
  m.def("complement", &complement);
  m.def("triality_orbit", &triality_orbit);
  m.def("neighbours", &neighbours);
  m.def("describe_class", &describe_class);
  m.def("transform", [](int64_t c, int64_t r, int64_t d, int64_t t, bool mirror) {
    return Transform::of(r, d, t, mirror)(c);
  });
  m.def("compose", [](nb::tuple outer, nb::tuple inner) {
    auto of = [](const nb::tuple& x) {
      return Transform::of(nb::cast<int64_t>(x[0]), nb::cast<int64_t>(x[1]),
                           nb::cast<int64_t>(x[2]), nb::cast<bool>(x[3]));
    };
    return from_transform(compose(of(outer), of(inner)));
  });
}

}  // namespace

void bind_sigmatics(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("sigmatics", "The sigil algebra.");
  PyObject* error = PyErr_NewExceptionWithDoc(
      "hologram.sigmatics.SigmaticsError",
      "A mistake in an expression or circuit; `position` counts characters from 0.",
      PyExc_ValueError, nullptr);
  if (!error) nb::raise_python_error();
  m.attr("SigmaticsError") = nb::steal(error);
  nb::register_exception_translator(translate, error);
  bind_classes(m);
  m.def("evaluate", &evaluate, nb::arg("text"));
  m.def("exact_words", [](std::string_view t) { return exact_words(parse_expression(t)); });
  m.def("normalize", [](std::string_view t) { return print(normalize(parse_expression(t))); });
  m.def("print_expression", [](std::string_view t) { return print(parse_expression(t)); });
  m.def("pretty", &pretty, nb::arg("text"));
  m.def("tokens", &tokens, nb::arg("text"), nb::arg("circuit") = false);
  m.def("compile", &compile_text, nb::arg("text"), nb::arg("keep_memory") = false);
  m.def("effects", [](nb::handle calls) { return from_effects(effects_of(to_calls(calls))); });
  m.def("print_call", [](nb::handle call) { return print(to_call(call)); });
  m.def("atlas_text", &atlas_text, nb::arg("calls"));
  m.def("run", &run_calls, nb::arg("calls"), nb::arg("memory").noconvert(), nb::arg("runtime"));
  m.def("gate_rules", [] {
    nb::list out;
    for (const RuleText& r : gate_rules()) out.append(nb::make_tuple(r.name, r.from, r.to));
    return out;
  });
}

}  // namespace hologram::python

// python/_core/array_call.cpp: compiled graphs called with NumPy arrays and Buffers.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "capi/objects.h"
#include "ir/sizes.h"
#include "runtime/executable.h"
#include "sdk.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace hologram::python {
namespace {

using runtime::Executable;

enum class Kind { array, number, fixed, bound };

/// What one argument must be for the graph to apply to it.
struct Argument {
  Kind kind = Kind::fixed;
  hologram_dtype dtype = HOLOGRAM_F32;
  /// arrays: per dimension ~symbol (at least 2 elements), or the size itself.
  std::vector<int64_t> dims;
  /// fixed: equal to this, of the same type; bound: this array, which calls do not pass and nobody
  /// writes.
  nb::object value;
};

struct Result {
  hologram_dtype dtype;
  Shape shape;
};

/// Memory during one call: of a kept Python object on the host, or of a buffer where that is.
struct Operand {
  void* data = nullptr;
  size_t bytes = 0;
  nb::object kept;
  runtime::StorageRef storage;

  /// Takes a buffer; gives the runtime of its executor.
  const runtime::Runtime* take(const PyBuffer& buffer) {
    auto b = capi::need_buffer(buffer.alive());
    storage = b->storage;
    data = b->data;
    bytes = b->bytes();
    return &b->executor->operations->runtime();
  }
  bool meets(const void* other, size_t length) const {
    const auto a = reinterpret_cast<uintptr_t>(data), b = reinterpret_cast<uintptr_t>(other);
    return a < b + length && b < a + bytes;
  }
};

/// Memory for a result whose own place an operand lies in, where the graph reads it; `take_over`
/// brings the result there, on a device without the host.
class Aside {
 public:
  Aside(runtime::Runtime& runtime, void* place, size_t bytes)
      : device_(runtime.device()), place_(place), bytes_(bytes) {
    block_ = device_ ? device_->allocate(bytes, nullptr) : runtime.memory().allocate(bytes);
    if (device_) device_->wait(nullptr);  // the call's own stream may use it from now on
  }
  Aside(Aside&& other) noexcept
      : device_(other.device_),
        place_(other.place_),
        bytes_(other.bytes_),
        block_(std::exchange(other.block_, nullptr)) {}
  Aside& operator=(Aside&&) = delete;
  ~Aside() {
    device_ ? device_->deallocate(block_, nullptr) : host::MemoryPool::deallocate(block_);
  }

  void* block() const { return block_; }
  void take_over() const {
    if (device_)
      device_->copy(place_, block_, bytes_, nullptr);
    else
      std::memcpy(place_, block_, bytes_);
  }

 private:
  Memory* device_;
  void* place_;
  size_t bytes_;
  void* block_;
};

/// An Executable together with the arguments it is right for.
class ArrayCall {
 public:
  ArrayCall(std::shared_ptr<Executable> executable, const ir::Graph& graph,
            const nb::list& arguments, const nb::list& results, const nb::list& guards)
      : executable_(std::move(executable)),
        sizes_(graph, "hologram.jit: the function"),
        num_symbols_(graph.num_symbols) {
    for (nb::handle g : guards) guards_.push_back(nb::cast<Expr>(g));
    for (nb::handle h : arguments) {
      nb::tuple t = nb::cast<nb::tuple>(h);
      Argument a;
      const auto kind = nb::cast<std::string>(t[0]);
      if (kind == "array") {
        a.kind = Kind::array;
        a.dtype = dtype_of(t[1]);
        a.dims = nb::cast<std::vector<int64_t>>(t[2]);
      } else if (kind == "number") {
        a.kind = Kind::number;
      } else if (kind == "bound") {
        a.kind = Kind::bound;
        const nb::object array = t[1];
        a.value = row_major(array);
      } else {
        a.value = t[1];
      }
      if (a.kind == Kind::bound) ++num_bound_;
      if (a.kind != Kind::fixed) ++num_parameters_;
      arguments_.push_back(std::move(a));
    }
    for (nb::handle h : results) {
      nb::tuple t = nb::cast<nb::tuple>(h);
      Result r{dtype_of(t[0]), {}};
      for (nb::handle d : nb::cast<nb::tuple>(t[1]))
        r.shape.push_back(PyLong_Check(d.ptr()) ? Expr(nb::cast<int64_t>(d)) : nb::cast<Expr>(d));
      results_.push_back(std::move(r));
    }
  }

  /// The results as a list, or None when the arguments ask for another graph. `out`: None, or where
  /// they go, by result, None for new memory.
  nb::object call(const nb::tuple& arguments, nb::object out) {
    if (arguments.size() + num_bound_ != arguments_.size()) return nb::none();
    std::vector<Operand> operands(num_parameters_);
    std::vector<double> numbers(num_parameters_);
    std::vector<int64_t> symbols(static_cast<size_t>(num_symbols_), -1);
    size_t p = 0, given = 0;
    const runtime::Runtime* place = nullptr;
    for (const Argument& a : arguments_) {
      if (a.kind == Kind::bound) {
        operands[p++].data = numpy::as_array(a.value.ptr())->data;
        continue;
      }
      PyObject* object = arguments[given++].ptr();
      if (a.kind == Kind::fixed) {
        if (!equal(a.value.ptr(), object)) return nb::none();
      } else if (a.kind == Kind::number) {
        if (!PyFloat_CheckExact(object)) return nb::none();
        numbers[p] = PyFloat_AsDouble(object);
        operands[p].data = &numbers[p];
        ++p;
      } else if (!take(a, object, symbols, operands[p++], place)) {
        return nb::none();
      }
    }
    static const runtime::Runtime* const best = &capi::shared_operations()->runtime();
    if ((place ? place : best) != &executable_->runtime()) return nb::none();
    for (const Expr& g : guards_)
      if (g.eval(symbols) < 0) return nb::none();
    sizes_.check(symbols);
    return run(operands, symbols, std::move(out));
  }

  const std::shared_ptr<Executable>& executable() const { return executable_; }

  /// Computes what is kept of bound arrays, where no call has done so.
  void keep() {
    if (num_bound_ == 0 || num_symbols_ != 0 || executable_->runtime().device()) return;
    runtime::Kept kept = executable_->kept();
    if (std::ranges::find(kept, nullptr) == kept.end()) return;
    std::vector<void*> inputs;
    for (const Argument& a : arguments_)
      if (a.kind != Kind::fixed)
        inputs.push_back(a.kind == Kind::bound ? numpy::as_array(a.value.ptr())->data : nullptr);
    std::vector<void*> none(results_.size());
    Given results(none);
    Executable::Arguments with{inputs.data(), nullptr, &kept};
    with.only_kept = true;
    nb::gil_scoped_release others;
    auto frame = executable_->lease();
    const runtime::Outcome outcome = executable_->run(with, results, nullptr, *frame);
    executable_->give_back(std::move(frame));
    if (outcome.status == 0 && outcome.faults == 0) executable_->keep(std::move(kept));
  }

 private:
  static bool equal(PyObject* a, PyObject* b) {
    if (a == b) return true;
    if (Py_TYPE(a) != Py_TYPE(b)) return false;
    const int same = PyObject_RichCompareBool(a, b, Py_EQ);
    if (same < 0) PyErr_Clear();  // arrays inside have no single answer
    return same > 0;
  }

  static bool fits(const Argument& a, int ndim, const Py_ssize_t* shape,
                   std::vector<int64_t>& symbols) {
    if (static_cast<size_t>(ndim) != a.dims.size()) return false;
    for (size_t d = 0; d < a.dims.size(); ++d) {
      const int64_t want = a.dims[d];
      if (want >= 0) {
        if (shape[d] != want) return false;
        continue;
      }
      int64_t& bound = symbols[static_cast<size_t>(~want)];
      if (shape[d] < 2 || (bound >= 0 && bound != shape[d])) return false;
      bound = shape[d];
    }
    return true;
  }

  // `place`: where the buffers among the arguments are; they agree, as _jit.py has seen to.
  static bool take(const Argument& a, PyObject* object, std::vector<int64_t>& symbols,
                   Operand& operand, const runtime::Runtime*& place) {
    if (PyBuffer* b = as_buffer(object)) {
      const auto n = static_cast<Py_ssize_t>(b->size());
      if (b->dtype != a.dtype || !fits(a, 1, &n, symbols)) return false;
      const runtime::Runtime* own = operand.take(*b);
      if (place && place != own) return false;
      place = own;
      return true;
    }
    if (!numpy::is_plain_array(object)) return false;
    const numpy::Array* array = numpy::as_array(object);
    hologram_dtype dtype;
    if (!numpy::dtype_of(*array, dtype) || dtype != a.dtype ||
        !fits(a, array->ndim, array->shape, symbols))
      return false;
    operand.kept = row_major(object);
    operand.data = numpy::as_array(operand.kept.ptr())->data;
    operand.bytes = static_cast<size_t>(item_size(dtype));
    for (int i = 0; i < array->ndim; ++i) operand.bytes *= static_cast<size_t>(array->shape[i]);
    return true;
  }

  class Given : public runtime::Outputs {
   public:
    explicit Given(const std::vector<void*>& places) : places_(places) {}
    void* allocate(int index, size_t, runtime::Frame&) override {
      return places_[static_cast<size_t>(index)];
    }

   private:
    const std::vector<void*>& places_;
  };

  nb::object run(const std::vector<Operand>& operands, const std::vector<int64_t>& symbols,
                 nb::handle out) {
    std::vector<void*> inputs, places;
    for (const Operand& o : operands) inputs.push_back(o.data);
    nb::list made;
    std::vector<Operand> held(results_.size());
    std::vector<Aside> aside;
    nb::tuple given;
    if (!out.is_none()) {
      given = nb::cast<nb::tuple>(out);
      if (given.size() != results_.size())
        throw nb::value_error("hologram.jit: out must name as many arrays as there are results");
    }
    size_t total = 0;
    for (size_t i = 0; i < results_.size(); ++i) {
      const Result& r = results_[i];
      std::vector<int64_t> shape;
      auto bytes = static_cast<size_t>(item_size(r.dtype));
      for (const Expr& n : r.shape) {
        shape.push_back(n.eval(symbols));
        bytes *= static_cast<size_t>(shape.back());
      }
      total += bytes;
      if (given.is_valid() && given.size() > 0 && !given[i].is_none()) {
        nb::object array = nb::borrow(given[i]);
        void* place = check_out(r, shape, array, held[i]);
        const auto meets = [&](const Operand& o) { return o.meets(place, bytes); };
        if (std::ranges::any_of(operands, meets))
          place = aside.emplace_back(executable_->runtime(), place, bytes).block();
        places.push_back(place);
        made.append(array);
      } else {
        const ResultArray result = new_result(executable_->runtime(), r.dtype, shape);
        places.push_back(result.data);
        made.append(result.array);
      }
    }
    Given results(places);
    runtime::Outcome outcome;
    {
      MaybeRelease others(total >= (size_t{1} << 17) || long_inputs(symbols));
      auto frame = executable_->lease();
      auto kept = num_bound_ ? executable_->kept() : runtime::Kept();
      const bool complete =
          std::ranges::all_of(kept, [](const auto& value) { return value != nullptr; });
      Executable::Arguments with{inputs.data(), symbols.data(), num_bound_ ? &kept : nullptr};
      const std::vector<uint8_t> all(kept.size(), 1);
      if (num_bound_ && executable_->take_first()) with.passing = &all;
      outcome = executable_->run(with, results, nullptr, *frame);
      executable_->give_back(std::move(frame));
      if (!complete && outcome.status == 0 && outcome.faults == 0)
        executable_->keep(std::move(kept));
      if (outcome.status == 0)
        for (const Aside& a : aside) a.take_over();
    }
    if (outcome.status != 0) throw Failure{HOLOGRAM_INTERNAL, "hologram.jit: a kernel failed"};
    if (outcome.faults & atlas::index_out_of_range)
      throw nb::index_error("hologram.jit: an index was out of range");
    if (outcome.faults & atlas::integer_division_by_zero)
      throw Failure{HOLOGRAM_DIVISION_BY_ZERO, "hologram.jit: integer division by zero"};
    return made;
  }

  static bool long_inputs(const std::vector<int64_t>& symbols) {
    for (int64_t s : symbols)
      if (s >= static_cast<int64_t>(long_length)) return true;
    return false;
  }

  void* check_out(const Result& r, const std::vector<int64_t>& shape, nb::handle object,
                  Operand& held) const {
    hologram_dtype dtype;
    void* data = nullptr;
    if (PyBuffer* b = as_buffer(object.ptr())) {
      Py_ssize_t n = 1;
      for (int64_t size : shape) n *= size;
      if (b->dtype != r.dtype || b->size() != static_cast<uint64_t>(n))
        throw nb::value_error("hologram.jit: out has another dtype or size than the result");
      const runtime::Runtime* own = held.take(*b);
      if (own->device() && own != &executable_->runtime())
        throw nb::value_error("hologram.jit: out is on another device than the arguments");
      data = held.data;
    } else {
      if (!numpy::is_array(object.ptr()))
        throw nb::type_error("hologram.jit: out must be arrays or Buffers");
      const numpy::Array& a = *numpy::as_array(object.ptr());
      const bool same = numpy::dtype_of(a, dtype) && dtype == r.dtype && is_row_major(a) &&
                        (a.flags & numpy::writeable) != 0 &&
                        std::equal(shape.begin(), shape.end(), a.shape, a.shape + a.ndim);
      if (!same)
        throw nb::value_error(
            "hologram.jit: out must be writable, row-major, and of the result's dtype and shape");
      data = a.data;
    }
    return data;
  }

  std::shared_ptr<Executable> executable_;
  ir::SizeCheck sizes_;
  int num_symbols_;
  size_t num_parameters_ = 0, num_bound_ = 0;
  std::vector<Argument> arguments_;
  std::vector<Result> results_;
  std::vector<Expr> guards_;  ///< sizes for which the graph is right: none negative
};

}  // namespace

void bind_array_call(nb::module_& m) {
  nb::class_<ArrayCall>(m, "ArrayCall", "A compiled graph for NumPy arrays and Buffers.")
      .def(nb::init<std::shared_ptr<Executable>, const ir::Graph&, nb::list, nb::list, nb::list>(),
           "executable"_a, "graph"_a, "arguments"_a, "results"_a, "guards"_a)
      .def("__call__", &ArrayCall::call, "arguments"_a, "out"_a = nb::none(),
           "The results as a list, or None when the arguments ask for another graph.")
      .def("keep", &ArrayCall::keep,
           "Computes what is kept of bound arrays, where no call has done so.")
      .def_prop_ro("executable", &ArrayCall::executable);
}

}  // namespace hologram::python

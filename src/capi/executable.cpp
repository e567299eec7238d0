// capi/executable.cpp: compiling graphs and running them on tensors and buffers.
#include <algorithm>
#include <cstring>

#include "archive/faults.h"
#include "capi/json.h"
#include "capi/streams.h"

using namespace hologram;
using namespace hologram::capi;

namespace {

std::unique_ptr<ExecutableObject> compile(const std::shared_ptr<ExecutorState>& executor,
                                          const ir::Graph& graph, uint32_t flags) {
  require((flags & ~(HOLOGRAM_REPRODUCIBLE | HOLOGRAM_FAST)) == 0, "flags {:#x} are unknown",
          flags);
  ir::verify(graph);
  auto sizes = std::make_unique<const ir::SizeCheck>(graph, "the graph");
  auto object = std::make_unique<ExecutableObject>();
  object->parameters.resize(static_cast<size_t>(graph.num_parameters));
  for (ir::Value v : ir::live_nodes(graph)) {
    const ir::OpKind kind = ir::info(v->op).kind;
    if (kind == ir::OpKind::external || kind == ir::OpKind::external_result ||
        v->dtype == DType::host)
      fail(ErrorCode::unsupported, "{}: there is no host framework to call", ir::name_of(v->op));
    if (v->is(ir::Op::parameter))
      object->parameters[static_cast<size_t>(v->attrs.ints[0])] = {v->dtype, v->shape,
                                                                   v->attrs.exprs, true, false};
  }
  for (const ir::Output& o : graph.outputs) {
    if (o.parameter >= 0) {
      object->parameters[static_cast<size_t>(o.parameter)].mutated = true;
      object->result_of_output.push_back(-1);
    } else {
      object->result_of_output.push_back(static_cast<int>(object->results.size()));
      object->results.push_back({o.value->dtype, o.value->shape, o.strides, true, false});
    }
  }
  object->num_symbols = graph.num_symbols;
  object->sizes = std::move(sizes);
  runtime::CompileOptions options;
  options.reproducible = (flags & HOLOGRAM_REPRODUCIBLE) != 0;
  options.fast = (flags & HOLOGRAM_FAST) != 0;
  object->executable =
      runtime::Executable::compile(graph, options, executor->operations->shared_runtime());
  object->executor = executor;
  return object;
}

runtime::Executable& executable_of(const ExecutableObject& e) {
  return e.function ? e.function->executable() : *e.executable;
}

std::vector<int64_t> evaluate(const Shape& shape, const std::vector<int64_t>& symbols) {
  std::vector<int64_t> values;
  for (const Expr& e : shape) values.push_back(e.eval(symbols));
  return values;
}

/// One call: its operands, held as long as it lasts.
class Call : public runtime::Outputs {
 public:
  /// `stream`: where it is left; null: run() ends when it is done.
  Call(ExecutableObject& executable, const int64_t* symbols, size_t num_symbols,
       StreamObject* stream = nullptr)
      : e_(executable), stream_(stream), symbols_(static_cast<size_t>(executable.num_symbols)) {
    bound_.resize(symbols_.size(), symbols != nullptr);
    require(!symbols || num_symbols == symbols_.size(), "there are {} symbols, got {} values",
            symbols_.size(), num_symbols);
    if (symbols) std::copy_n(symbols, num_symbols, symbols_.begin());
  }

  void run(const hologram_handle* inputs, size_t num_inputs, hologram_handle* outputs,
           size_t num_outputs) {
    require(num_inputs == e_.parameters.size(), "the graph has {} parameters, got {} inputs",
            e_.parameters.size(), num_inputs);
    require(num_outputs == e_.results.size(), "the graph has {} results, got room for {}",
            e_.results.size(), num_outputs);
    require((inputs || num_inputs == 0) && (outputs || num_outputs == 0),
            "inputs and outputs must not be NULL");
    for (size_t i = 0; i < num_inputs; ++i) take_input(i, inputs[i]);
    if (e_.function) symbols_ = e_.function->symbols_of(shapes());
    for (size_t i = 0; i < symbols_.size(); ++i)
      require(bound_[i] || e_.function, "no input says what s{} is; use run_with_symbols", i);
    if (e_.sizes) e_.sizes->check(symbols_);
    for (size_t i = 0; i < num_inputs; ++i) check_input(i);
    for (size_t i = 0; i < num_outputs; ++i) take_output(i, outputs[i]);
    if (stream_) {
      if (e_.function && !e_.function->may_be_left()) stream_->settle();
      stream_->run(uses(), code(), [&](std::atomic<int32_t>* faults) {
        const int32_t set = e_.function ? run_method(faults) : run_graph(faults);
        faults->fetch_or(set, std::memory_order_relaxed);
      });
      e_.executor->kernel_calls.add(executable_of(e_).plan().steps.size());
      return publish_results(outputs);
    }
    const int32_t faults = e_.function ? run_method() : run_graph();
    e_.executor->kernel_calls.add(executable_of(e_).plan().steps.size());
    raise(faults);
    publish_results(outputs);
  }

  void* allocate(int index, size_t, runtime::Frame&) override {
    return result_addresses_[static_cast<size_t>(e_.result_of_output[static_cast<size_t>(index)])];
  }

 private:
  struct Operand {
    Pin<TensorObject> tensor;
    Pin<BufferObject> buffer;
    std::unique_ptr<TensorObject> copy;
  };

  // On the stream, if there is one: faults that show up later go to `late`.
  int32_t run_graph(std::atomic<int32_t>* late = nullptr) {
    auto frame = e_.executable->lease();
    runtime::Executable::Arguments arguments{addresses_.data(), symbols_.data()};
    const Stream queue = stream_ ? stream_->queue() : nullptr;
    if (stream_ && e_.executor->device()) {
      arguments.queue = &queue;
      arguments.faults = late;
    }
    const auto [status, faults] = e_.executable->run(arguments, *this, nullptr, *frame);
    e_.executable->give_back(std::move(frame));
    runtime::raise_status(status);
    return faults;
  }

  void raise(int32_t faults) const {
    if (!e_.function) return runtime::raise_faults(faults);
    std::vector<const void*> inputs(addresses_.begin(), addresses_.end());
    if (e_.executor->device()) inputs.clear();
    archive::raise_faults(faults, e_.function->method(), inputs, symbols_);
  }

  // What the call's operands lie in.
  std::vector<runtime::StorageRef> uses() const {
    std::vector<runtime::StorageRef> out;
    for (const auto* list : {&operands_, &results_})
      for (const Operand& o : *list)
        out.push_back(o.copy ? o.copy->storage : o.tensor ? o.tensor->storage : o.buffer->storage);
    return out;
  }

  int32_t run_method(std::atomic<int32_t>* late = nullptr) {
    const std::vector<const void*> inputs(addresses_.begin(), addresses_.end());
    const Stream queue = stream_ ? stream_->queue() : nullptr;
    const bool left = stream_ && e_.executor->device() && e_.function->may_be_left();
    return e_.function->run(inputs, symbols_, result_addresses_, e_.session.get(), nullptr,
                            left ? &queue : nullptr, left ? late : nullptr);
  }

  // What a call that is left on a stream needs until it is done.
  std::shared_ptr<const void> code() const {
    if (!e_.function) return e_.executable;
    return std::make_shared<
        const std::pair<std::shared_ptr<archive::Function>, std::shared_ptr<archive::Session>>>(
        e_.function, e_.session);
  }

  // A method's inputs; a buffer stands for an array of its length, or of a fixed shape.
  std::vector<std::vector<int64_t>> shapes() const {
    std::vector<std::vector<int64_t>> out;
    for (size_t i = 0; i < operands_.size(); ++i) {
      const Shape& wanted = e_.parameters[i].shape;
      const bool fixed = std::ranges::all_of(wanted, [](const Expr& e) { return e.is_const(); });
      if (operands_[i].tensor)
        out.push_back(operands_[i].tensor->shape);
      else if (fixed)
        out.push_back(evaluate(wanted, {}));
      else
        out.push_back({static_cast<int64_t>(operands_[i].buffer->length)});
    }
    return out;
  }

  template <class T>
  static void require_owner(const T& object, const ExecutableObject& e, size_t i) {
    require(object.executor == e.executor, "operand {} belongs to another executor", i);
  }

  void bind(size_t input, const Expr& dim, int64_t size) {
    const Atom* atom = dim.as_atom();
    if (!atom || atom->kind != Atom::Kind::symbol) return;
    const auto s = static_cast<size_t>(atom->id);
    require(!bound_[s] || symbols_[s] == size, "input {}: s{} is {} here and {} elsewhere", input,
            s, size, symbols_[s]);
    bound_[s] = true;
    symbols_[s] = size;
  }

  void take_input(size_t i, hologram_handle handle) {
    const Signature& p = e_.parameters[i];
    Operand o;
    if (HandleTable::kind_of(handle) == Kind::buffer) {
      o.buffer = need_buffer(handle, "inputs");
      require_owner(*o.buffer, e_, i);
      if (p.shape.size() == 1) bind(i, p.shape[0], static_cast<int64_t>(o.buffer->length));
    } else {
      o.tensor = need_tensor(handle, "inputs");
      require_owner(*o.tensor, e_, i);
      if (p.used) {
        require(o.tensor->shape.size() == p.shape.size(), "input {} has {} dimensions, expected {}",
                i, o.tensor->shape.size(), str(p.shape));
        for (size_t d = 0; d < p.shape.size(); ++d) bind(i, p.shape[d], o.tensor->shape[d]);
      }
    }
    operands_.push_back(std::move(o));
  }

  void check_input(size_t i) {
    const Signature& p = e_.parameters[i];
    Operand& o = operands_[i];
    void* data = o.tensor ? o.tensor->data() : o.buffer->data;
    const DType dtype = o.tensor ? o.tensor->dtype : o.buffer->dtype;
    if (p.used) {
      require(dtype == p.dtype, "input {} is {}, expected {}", i, name_of(dtype), name_of(p.dtype));
      const std::vector<int64_t> shape = evaluate(p.shape, symbols_),
                                 strides = evaluate(p.strides, symbols_);
      const int64_t n = checked_numel(shape);
      if (o.tensor) {
        require(o.tensor->shape == shape, "input {} has the shape {}, expected {} = {}", i,
                write_integers(o.tensor->shape), str(p.shape), write_integers(shape));
        bool same = true;
        for (size_t d = 0; d < shape.size(); ++d)
          same &= shape[d] <= 1 || o.tensor->strides[d] == strides[d];
        if (!same && n != 0) {
          require(!p.mutated && strides == row_major(shape),
                  "input {} has the strides {}, expected {}", i, write_integers(o.tensor->strides),
                  write_integers(strides));
          if (stream_) stream_->settle();  // the copy is made at once
          o.copy = contiguous(*o.tensor);
          data = o.copy->data();
        }
      } else {
        require(strides == row_major(shape) || n == 0, "input {} is not row-major; use a tensor",
                i);
        require(o.buffer->length == static_cast<uint64_t>(n),
                "input {} has {} elements, expected {} = {}", i, o.buffer->length, str(p.shape),
                write_integers(shape));
      }
      spans_.push_back({data, static_cast<size_t>(n * size_of(dtype))});
    }
    addresses_.push_back(data);
  }

  void take_output(size_t i, hologram_handle handle) {
    const Signature& r = e_.results[i];
    const std::vector<int64_t> shape = evaluate(r.shape, symbols_);
    const int64_t n = checked_numel(shape);
    const auto bytes = static_cast<size_t>(n * size_of(r.dtype));
    const bool dense = evaluate(r.strides, symbols_) == row_major(shape) || n == 0;
    require(dense, "result {} is not row-major, which this interface does not offer", i);
    Operand o;
    void* data = nullptr;
    if (handle == 0) {
      o.copy = make_tensor(e_.executor, r.dtype, shape);
      data = o.copy->data();
    } else if (HandleTable::kind_of(handle) == Kind::buffer) {
      o.buffer = need_buffer(handle, "outputs");
      require_owner(*o.buffer, e_, i);
      require(o.buffer->dtype == r.dtype && o.buffer->length == static_cast<uint64_t>(n),
              "output {} is {}[{}], expected {}{}", i, name_of(o.buffer->dtype), o.buffer->length,
              name_of(r.dtype), write_integers(shape));
      data = o.buffer->data;
    } else {
      o.tensor = need_tensor(handle, "outputs");
      require_owner(*o.tensor, e_, i);
      require(o.tensor->dtype == r.dtype && o.tensor->shape == shape && o.tensor->contiguous(),
              "output {} is {}{}, expected {}{} in row-major order", i, name_of(o.tensor->dtype),
              write_integers(o.tensor->shape), name_of(r.dtype), write_integers(shape));
      data = o.tensor->data();
    }
    for (const auto& [begin, size] : spans_)
      require(!meet(begin, size, data, bytes), "output {} overlaps an input or another output", i);
    spans_.push_back({data, bytes});
    result_addresses_.push_back(data);
    results_.push_back(std::move(o));
  }

  void publish_results(hologram_handle* outputs) {
    std::vector<std::pair<size_t, hologram_handle>> made;
    try {
      for (size_t i = 0; i < results_.size(); ++i)
        if (results_[i].copy) made.emplace_back(i, publish(tensors, std::move(results_[i].copy)));
    } catch (...) {
      for (const auto& [i, handle] : made) tensors.remove(handle);
      throw;
    }
    for (const auto& [i, handle] : made) outputs[i] = handle;
  }

  ExecutableObject& e_;
  StreamObject* const stream_;
  std::vector<int64_t> symbols_;
  std::vector<bool> bound_;
  std::vector<Operand> operands_, results_;
  std::vector<void*> addresses_, result_addresses_;
  std::vector<std::pair<void*, size_t>> spans_;
};

std::string report_of(const ExecutableObject& e) {
  const runtime::CompileReport& r = executable_of(e).report();
  std::string text = fmt::format(
      "{{\"ops_before\": {}, \"ops_canonical\": {}, \"kernels\": {}, \"steps\": {}, "
      "\"from_memory\": {}, \"builtin\": {}, \"from_disk\": {}, \"compiled\": {}",
      r.ops_before, r.ops_canonical, r.kernels, r.steps, r.memory_hits, r.builtin, r.disk_hits,
      r.compiled);
  auto list = [&](std::string_view name, const auto& map) {
    text += fmt::format(", \"{}\": {{", name);
    std::string_view comma;
    for (const auto& [key, value] : map) {
      text += fmt::format("{}\"{}\": {}", comma, key, value);
      comma = ", ";
    }
    text += "}";
  };
  list("milliseconds", r.milliseconds);
  list("rules", r.rules);
  return text + "}";
}

}  // namespace

extern "C" {

hologram_status hologram_graph_compile(hologram_handle executor, hologram_handle graph,
                                       uint32_t flags, hologram_handle* executable) {
  return guarded(__func__, [&] {
    require_out(executable, "executable");
    auto pin = need_executor(executor);
    auto g = need_graph(graph);
    // A copy: the caller's graph may grow meanwhile.
    auto copy = [&] {
      std::lock_guard lock(g->mutex);
      return ir::Graph(g->graph);
    };
    *executable = publish(executables, compile(pin->state, copy(), flags));
  });
}

hologram_status hologram_executable_num_inputs(hologram_handle executable, uint32_t* count) {
  return guarded(__func__, [&] {
    require_out(count, "count");
    *count = static_cast<uint32_t>(need_executable(executable)->parameters.size());
  });
}
hologram_status hologram_executable_num_outputs(hologram_handle executable, uint32_t* count) {
  return guarded(__func__, [&] {
    require_out(count, "count");
    *count = static_cast<uint32_t>(need_executable(executable)->results.size());
  });
}
hologram_status hologram_executable_run(hologram_handle executable, const hologram_handle* inputs,
                                        size_t num_inputs, hologram_handle* outputs,
                                        size_t num_outputs) {
  return guarded(__func__, [&] {
    auto e = need_executable(executable);
    Call(*e, nullptr, 0).run(inputs, num_inputs, outputs, num_outputs);
  });
}
hologram_status hologram_executable_run_with_symbols(hologram_handle executable,
                                                     const hologram_handle* inputs,
                                                     size_t num_inputs, const int64_t* symbols,
                                                     size_t num_symbols, hologram_handle* outputs,
                                                     size_t num_outputs) {
  return guarded(__func__, [&] {
    auto e = need_executable(executable);
    require(symbols != nullptr || num_symbols == 0, "symbols must not be NULL");
    const int64_t none = 0;
    for (size_t i = 0; i < num_symbols; ++i)
      require(symbols[i] >= 0, "s{} must not be negative, got {}", i, symbols[i]);
    Call(*e, symbols ? symbols : &none, num_symbols).run(inputs, num_inputs, outputs, num_outputs);
  });
}
hologram_status hologram_executable_run_on_stream(hologram_handle executable,
                                                  hologram_handle stream,
                                                  const hologram_handle* inputs, size_t num_inputs,
                                                  hologram_handle* outputs, size_t num_outputs) {
  return guarded(__func__, [&] {
    auto e = need_executable(executable);
    auto s = need_stream(stream);
    require(s->executor == e->executor, "the stream belongs to another executor");
    Call(*e, nullptr, 0, &*s).run(inputs, num_inputs, outputs, num_outputs);
  });
}
hologram_status hologram_executable_report(hologram_handle executable, char* json, size_t capacity,
                                           size_t* needed) {
  return guarded(__func__, [&] {
    give_text(report_of(*need_executable(executable)), json, capacity, needed);
  });
}
hologram_status hologram_executable_cleanup(hologram_handle executable) {
  return guarded(__func__, [&] {
    if (!executables.remove(executable)) report_handle(executables, executable, "executable");
  });
}

}  // extern "C"

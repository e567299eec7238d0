// python/_core/torch_call_state.h: one call of a compiled graph in progress.
#pragma once

#include "host/memory_pool.h"
#include "torch_call.h"

namespace hologram::python {

/// Its arguments, the tensors of its slots, its results. Used under the GIL, but for allocate().
class TorchCall::State final : public runtime::Outputs,
                               public runtime::Host,
                               public runtime::Observer {
 public:
  State(TorchCall& owner, runtime::Frame& frame) : owner_(owner), frame_(frame) {
    const auto& plan = owner.executable_->plan();
    parameters_.resize(static_cast<size_t>(plan.num_parameters));
    objects_.resize(plan.slots.size());
    blocks_.resize(plan.outputs.size());
    symbols_.resize(static_cast<size_t>(plan.num_symbols));
    arguments_.resize(static_cast<size_t>(plan.num_parameters));
  }
  ~State() override {
    for (PyObject* o : objects_) Py_XDECREF(o);
    for (PyObject* o : arguments_) Py_XDECREF(o);
    for (void* b : blocks_) host::MemoryPool::deallocate(b);
    Py_XDECREF(record_);
  }

  bool read(PyObject* list);
  bool read(PyObject* const* arguments, size_t count);
  PyObject* run();

  void* allocate(int index, size_t bytes, runtime::Frame&) override {
    if (owner_.place_.on_device()) return allocate_there(index);
    return blocks_[static_cast<size_t>(index)] =
               owner_.executable_->runtime().memory().allocate(bytes);
  }
  /// The framework's: of its allocator, or of a tensor, whose maker says what is wrong. Without an
  /// allocator only while the stream is captured: what the capture owns is used again by it alone.
  std::shared_ptr<void> device_memory(size_t bytes, runtime::Frame& frame) override;
  int32_t call(const schedule::Step& step, runtime::Frame& frame) override;
  void begin(const schedule::Step& step) override;
  void end() override;

 private:
  /// Itself while the profiler is on, else null.
  runtime::Observer* observer();
  const schedule::Plan& plan() const { return owner_.executable_->plan(); }
  /// Those of the arguments that the call writes.
  bool move_versions(PyObject* const* arguments);
  /// Takes the arguments that `argument(i)` gives, borrowed, with new versions for some of `moved`.
  template <class Argument>
  bool read_each(const Argument& argument, PyObject* const* moved = nullptr);
  bool read_tensor(PyObject* o, size_t parameter);
  bool is_there(const dlpack::Tensor& t, const char* what);
  /// Replaces the exception of a fault of data by what the host's table says of it: the operator,
  /// the index.
  void describe(int32_t faults);
  void* allocate_there(int index);
  PyObject* empty(int slot);
  void* address_of(PyObject* made, const char* what);
  void keep(PyObject* o, size_t parameter);
  bool check_stamps();
  void tell_of_writes();
  PyObject* object_of(int slot);
  PyObject* result_of(const Result& r);
  PyObject* view_of(PyObject* base, const Result& r);
  PyObject* make_tensor(const schedule::Slot& slot, void* data, void* block);
  bool adopt(int slot, PyObject* object);
  int32_t call_with_lock(const schedule::Step& step);

  TorchCall& owner_;
  runtime::Frame& frame_;
  std::vector<void*> parameters_;
  std::vector<int64_t> symbols_;
  std::vector<PyObject*> objects_;    // by slot, owned
  std::vector<PyObject*> arguments_;  // by parameter: those that are returned, owned
  std::vector<void*> blocks_;         // by output
  Stamps::Checked checked_;
  PyThreadState* saved_ = nullptr;
  PyObject* record_ = nullptr;  // of the step that runs, while the profiler is on
};

}  // namespace hologram::python

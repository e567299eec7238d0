// python/_core/torch_call.h: a compiled graph as a callable: a list of tensors in, a list of
// tensors out.
//
// Tensors are read and made through the DLPack C exchange table of torch.Tensor, so that one binary
// serves all PyTorch versions that have it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runtime/dlpack.h"
#include "runtime/executable.h"
#include "stamps.h"
#include "tensor_words.h"

namespace hologram::python {

/// Used under the GIL.
class TorchCall {
 public:
  /// How one positional argument is used.
  enum class ArgKind : uint8_t { tensor, symbol, negated, object, ignored };

  struct Arg {
    ArgKind kind;
    int index;
  };

  /// What one result is.
  enum class ResultKind : uint8_t {
    output,
    argument,
    argument_view,
    output_view,
    again,
    none,
    integer
  };

  /// How a view belongs to its base: for autograd too, not for autograd, with a version counter of
  /// its own.
  enum class Bond : uint8_t { view, detached, apart };

  struct Result {
    ResultKind kind;
    int index = -1;        // plan output that is returned itself or viewed, parameter of such an
                           // argument, or the earlier result that this one is
    Expr value = Expr(0);  // integer, or how far behind its base a view begins
    Shape sizes = {}, strides = {};  // of a view
    nanobind::object dtype = {};     // of a view; null: its base's
    Bond bond = Bond::view;
  };

  /// C functions of PyTorch's stable interface (aoti_torch/c/shim.h), which return 0 or have
  /// failed: memory of its caching allocator on the current device and that device's current
  /// stream.
  struct Allocator {
    int32_t (*set_device)(int32_t device, void** guard);
    int32_t (*reset_device)(void* guard);
    int32_t (*allocate)(uint64_t bytes, void** block);
    int32_t (*free)(void* block);

    /// Null: it has failed.
    void* allocate_on(int32_t device, size_t bytes) const;
  };

  /// Where the tensors of a call are. On a device, work goes to the queue that the framework says
  /// it uses now, and memory for results is the framework's.
  struct Place {
    dlpack::Device device{dlpack::cpu, 0};
    nanobind::object empty;              // callable: (sizes, strides, dtype) -> tensor there
    std::optional<Allocator> allocator;  // none: the device's pool has what calls need
    bool on_device() const { return !dlpack::in_host_memory(device.type); }
  };

  /// `host`: callable (callee, operands, sizes, strides) -> list of tensors; `constants`: pairs
  /// (parameter, tensor); `threads`: callable that tells the wanted thread count, or None.
  TorchCall(std::shared_ptr<runtime::Executable> executable, const dlpack::Exchange* exchange,
            std::vector<Arg> args, std::vector<Result> results, PyObject* host,
            nanobind::list constants, nanobind::object threads, Place place);
  ~TorchCall() { Py_DECREF(host_); }
  TorchCall(const TorchCall&) = delete;
  TorchCall& operator=(const TorchCall&) = delete;

  /// Runs the graph on a list, which is cleared, or on `n` arguments that the caller keeps, where
  /// it moves versions too.
  PyObject* call(PyObject* list);
  PyObject* call(PyObject* const* arguments, size_t n);
  PyObject* host() const { return host_; }
  /// Raises what earlier calls on a device's queue have flagged since.
  bool raise_late() const;

  /// Lets calls go on with what is kept of the arguments at `positions`, and of those alone: see
  /// Executable::read_as_kept. Gives the positions that are no longer read.
  std::vector<size_t> release(const std::vector<size_t>& positions);
  /// What calls keep stays, however long none comes: for release().
  void hold() { stamps_.hold(); }
  /// The arguments whose versions calls move; move(tensors) does it where Python has to.
  void move_versions(std::vector<size_t> positions, nanobind::object move) {
    moved_ = std::move(positions);
    move_ = std::move(move);
  }
  /// `ready` is called once, before the second call.
  void before_second(nanobind::object ready) { before_second_ = std::move(ready); }

 private:
  class State;
  friend class State;

  template <class Read>
  PyObject* call_with(const Read& read);

  std::shared_ptr<runtime::Executable> executable_;
  const dlpack::Exchange* exchange_;
  std::vector<Arg> args_;
  std::vector<Result> results_;
  PyObject* host_;
  nanobind::list constants_;  // operands that belong to the graph
  nanobind::object threads_;
  Place place_;
  Stamps stamps_;
  nanobind::object before_second_;  // null: nothing
  bool called_ = false;
  std::vector<size_t> moved_;  // positions of arguments
  nanobind::object move_;
  std::vector<int> parameter_slot_, output_slot_;
  /// Where elements began at the call before; of what graphs write nothing is known.
  struct Elements {
    TensorPlace place;
    void* begin = nullptr;
  };
  std::vector<Elements> elements_;      // by parameter
  std::vector<char> returned_;          // by parameter: whether a result is the argument itself
  std::vector<char> writes_;            // by parameter: whether the graph writes it
  std::vector<int> written_;            // slots of parameters that the graph writes
  std::vector<const void*> unwatched_;  // by written_: where they were, when nobody watched
  int64_t unwatched_since_ = -1;        // Writes::changes() then
};

/// Sets the maker of the context manager that PyTorch's profiler takes around each step while it is
/// on; None: it is off. With the interpreter's lock.
void set_recorder(nanobind::object maker);

}  // namespace hologram::python

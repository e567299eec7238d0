// python/_core/device_queue.h: calls of operators on the device that wait until somebody looks.
//
// Calls with all sizes known are noted, and their results are memory that nothing has been written
// to. Whatever reads such memory, or what a queued call writes, has the queue run first: as one
// graph, which writes the results that somebody still holds. Sequences of calls are kept as a tree,
// so that noting a call takes a step in it, and the same sequence finds its compiled graph.
#pragma once

#include <nanobind/nanobind.h>

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "device_key.h"
#include "device_memory.h"
#include "runtime/runtime.h"

namespace hologram::python {

/// Dtype, sizes and strides.
struct Layout {
  dlpack::DataType dtype{};
  std::vector<int64_t> sizes{}, strides{};

  static Layout of(const dlpack::Tensor& t);
  bool operator==(const dlpack::Tensor& t) const;
  int64_t bytes() const;  // from the first element to the last
  bool is_contiguous() const;
};

/// What serves calls of an operator with arguments of one key.
struct Served {
  enum class Gives : uint8_t { first, one, tuple, list };

  nanobind::object call;    // of the flat arguments; None: the operator is PyTorch's
  nanobind::object direct;  // of a list of the tensors, giving a list; null where there is none
  Gives gives = Gives::one;
  bool waits = false;                // whether calls may be queued
  bool known = false;                // the results' layouts
  std::vector<Layout> results = {};  // unless it gives its first argument
};

/// One call in a sequence of them, which all that have begun alike share. A view, where `served` is
/// null: of `slots[0]`, `offset` elements behind its beginning.
struct Sequence {
  Sequence* before = nullptr;
  std::shared_ptr<Served> served = {};
  std::vector<uint16_t> slots = {};  // of the arguments that are tensors or open numbers
  Layout view = {};
  int64_t offset = 0;
  std::unordered_map<std::string, std::unique_ptr<Sequence>> next = {};
  int met = 0;                                      // how often the queue ran that ended here
  std::map<std::string, nanobind::object> calls{};  // by what is written
};

/// A sequence of calls that is to run, with the memory of its values.
class Batch {
 public:
  struct Value {
    enum class Kind : uint8_t { given, number, made, view };
    Kind kind = Kind::given;
    std::shared_ptr<DeviceMemory> memory =
        {};  // of `given`; of `made` when it runs, if anyone holds it
    std::weak_ptr<DeviceMemory> promised = {};  // of `made` and `view`
    char* data = nullptr;
    Layout layout = {};
    double number = 0;
  };

  bool must_run() const { return writes_ != std::string(writes_.size(), '\0'); }
  nanobind::object call() const;
  void keep(nanobind::object call) { end_->calls[writes_] = std::move(call); }
  int met() { return ++end_->met; }
  /// Tensors: what is given, then the memory of what is made, in the order of values.
  nanobind::list arguments() const;
  nanobind::list steps() const;
  nanobind::list values() const;

 private:
  friend class DeviceQueue;
  std::shared_ptr<Sequence> tree_ = {};
  Sequence* end_ = nullptr;
  std::vector<Value> values_ = {};
  std::string writes_ = {};  // by value: 1 where it has to be written
  std::shared_ptr<runtime::Runtime> runtime_ = {};
};

/// The queue of this process. Used under the GIL.
class DeviceQueue {
 public:
  static DeviceQueue& of_process();

  /// flush: callable without arguments that runs what is queued, and waits for those who do so.
  void open(std::shared_ptr<runtime::Runtime> runtime, nanobind::object flush);
  void set_on(bool on) { on_ = on; }
  bool on() const { return on_; }

  /// Notes a call; gives its results, or null where it has to run at once. May run what is queued.
  PyObject* add(const std::shared_ptr<Served>& served, const DeviceArguments& given);

  /// Has whatever fills a tensor's memory, or is to write or read it, run first. Throws.
  void settle(const dlpack::Tensor& t) {
    if (steps_ != 0 || running_ != 0) settle_slowly(t);
  }
  void flush();

  /// What is queued, for a thread that runs it; null where there is nothing.
  std::unique_ptr<Batch> take();
  void done() {
    if (--running_ == 0) runner_ = 0;
  }
  /// A thread that works for the one that runs the queue, and so does not wait for it; 0: none.
  void set_helper(unsigned long thread) { helper_ = thread; }

 private:
  static constexpr size_t most_steps = 128, most_sequences = 1 << 15;
  static constexpr size_t most_kept_bytes = size_t{64} << 20;  // of what nobody but the queue holds

  using Value = Batch::Value;
  bool sort_out(const DeviceArguments& given, bool writes);
  bool can_view(const DeviceMemory& memory, const dlpack::Tensor& t) const;
  uint16_t slot_of(DeviceMemory& memory, const dlpack::Tensor& t);
  uint16_t new_value(Value value, DeviceMemory* memory);
  template <class Make>
  void advance(const Make& make);
  std::vector<std::shared_ptr<DeviceMemory>> promise(const Served& served);
  bool keeps_too_much() const;
  void settle_slowly(const dlpack::Tensor& t);
  void begin();

  bool on_ = false;
  std::shared_ptr<runtime::Runtime> runtime_;
  nanobind::object flush_;
  std::shared_ptr<Sequence> tree_ = std::make_shared<Sequence>();
  size_t sequences_ = 0;
  Sequence* at_ = nullptr;
  size_t steps_ = 0;
  uint64_t batch_ = 1;
  std::vector<Value> values_;
  std::vector<std::shared_ptr<DeviceMemory>>
      memories_;                 // of the arguments of the call that is added
  std::string step_;             // the key of the step that is taken
  std::vector<uint16_t> slots_;  // its arguments
  int running_ = 0;
  unsigned long runner_ = 0;  // the thread that runs a batch
  unsigned long helper_ = 0;
};

/// A tensor of the device over memory that it holds.
PyObject* device_tensor(const std::shared_ptr<DeviceMemory>& memory, void* data,
                        const Layout& layout);

}  // namespace hologram::python

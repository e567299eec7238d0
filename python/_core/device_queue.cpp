// python/_core/device_queue.cpp: calls of operators that wait, and what has them run.
#include "device_queue.h"

#include <pythread.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "host/memory_pool.h"

namespace nb = nanobind;

namespace hologram::python {
namespace {

template <class Parts>
void put(std::string& key, const Parts& parts) {
  key.append(reinterpret_cast<const char*>(parts.data()), parts.size() * sizeof(*parts.data()));
}

nb::object results(const Served& served, const std::vector<std::shared_ptr<DeviceMemory>>& made) {
  nb::list all;
  for (size_t i = 0; i < made.size(); ++i) {
    PyObject* tensor = device_tensor(made[i], made[i]->begin(), served.results[i]);
    if (!tensor) nb::raise_python_error();
    if (served.gives == Served::Gives::one) return nb::steal(tensor);
    all.append(nb::steal(tensor));
  }
  if (served.gives == Served::Gives::tuple) return nb::tuple(all);
  return all;
}

}  // namespace

DeviceQueue& DeviceQueue::of_process() {
  static DeviceQueue& queue = *new DeviceQueue;  // holds Python's objects, which end before statics
  return queue;
}

void DeviceQueue::open(std::shared_ptr<runtime::Runtime> runtime, nb::object flush) {
  runtime_ = std::move(runtime);
  flush_ = std::move(flush);
}

void DeviceQueue::flush() { flush_(); }

void DeviceQueue::settle_slowly(const dlpack::Tensor& t) {
  if (running_ != 0 && PyThread_get_thread_ident() == helper_) return;
  if (running_ == 0 || PyThread_get_thread_ident() == runner_) {
    if (steps_ == 0) return;
    const std::shared_ptr<DeviceMemory> memory = DeviceMemory::find(t.data);
    if (!memory || memory->batch != batch_) return;
  }
  flush();
}

// Whether a tensor of memory that the queue writes can be told as a view of the value that covers
// it, which is the first one there.
bool DeviceQueue::can_view(const DeviceMemory& memory, const dlpack::Tensor& t) const {
  const Value& base = values_[memory.values.front()];
  const auto [begin, end] = extent(t);
  return base.kind != Value::Kind::view && base.data == memory.begin() &&
         std::memcmp(&base.layout.dtype, &t.dtype, sizeof t.dtype) == 0 &&
         base.layout.is_contiguous() && begin >= base.data &&
         end <= base.data + base.layout.bytes();
}

// Finds the memory of each argument. False: the call cannot wait. Runs what is queued where a call
// that reads or writes these could not be told beside it.
bool DeviceQueue::sort_out(const DeviceArguments& given, bool writes) {
  memories_.clear();
  for (const dlpack::Tensor& t : given.tensors) {
    std::shared_ptr<DeviceMemory> memory = DeviceMemory::find(t.data);
    if (!memory) return false;
    memories_.push_back(std::move(memory));
  }
  if (steps_ == 0) return true;
  bool fits = values_.size() + given.tensors.size() + given.numbers.size() < UINT16_MAX / 2;
  for (size_t i = 0; i < memories_.size() && fits; ++i) {
    const DeviceMemory& m = *memories_[i];
    if (m.batch != batch_) continue;
    auto is_it = [&, &t = given.tensors[i]](uint32_t v) {
      return values_[v].data == t.data && values_[v].layout == t;
    };
    const bool known = std::ranges::any_of(m.values, is_it);
    const bool made = values_[m.values.front()].kind == Value::Kind::made;
    if (!known && (made || m.written)) fits = can_view(m, given.tensors[i]);
    if (writes && i == 0)  // in place: all else in its memory has to be a view of what is written
      fits = fits && is_it(m.values.front()) &&
             std::all_of(m.values.begin() + 1, m.values.end(),
                         [&](uint32_t v) { return values_[v].kind == Value::Kind::view; });
  }
  if (fits) return true;
  flush();
  return sort_out(given, writes);  // other threads may have queued calls meanwhile
}

uint16_t DeviceQueue::new_value(Value value, DeviceMemory* memory) {
  const auto slot = static_cast<uint16_t>(values_.size());
  values_.push_back(std::move(value));
  if (memory) {
    if (memory->batch != batch_) {
      memory->batch = batch_;
      memory->written = false;
      memory->values.clear();
    }
    memory->values.push_back(slot);
  }
  return slot;
}

uint16_t DeviceQueue::slot_of(DeviceMemory& memory, const dlpack::Tensor& t) {
  auto* data = static_cast<char*>(t.data);
  Value value{.data = data, .layout = Layout::of(t)};
  if (memory.batch == batch_) {
    for (uint32_t v : memory.values)
      if (values_[v].data == data && values_[v].layout == t) return static_cast<uint16_t>(v);
    const auto first = static_cast<uint16_t>(memory.values.front());
    if (values_[first].kind == Value::Kind::made || memory.written) {
      const int64_t offset = (data - values_[first].data) / std::max(1, t.dtype.bits / 8);
      step_ = "v";
      for (const auto* part : {&value.layout.sizes, &value.layout.strides}) put(step_, *part);
      put(step_, std::span(&offset, 1));
      put(step_, std::span(&first, 1));
      advance([&] { return Sequence{.slots = {first}, .view = value.layout, .offset = offset}; });
      value.kind = Value::Kind::view;
      value.promised = memory.weak_from_this();
      return new_value(std::move(value), &memory);
    }
  }
  value.memory = memory.shared_from_this();
  return new_value(std::move(value), &memory);
}

template <class Make>
void DeviceQueue::advance(const Make& make) {
  std::unique_ptr<Sequence>& next = at_->next[step_];
  if (!next) {
    next = std::make_unique<Sequence>(make());
    next->before = at_;
    ++sequences_;
  }
  at_ = next.get();
}

void DeviceQueue::begin() {
  if (sequences_ >= most_sequences) {
    tree_ = std::make_shared<Sequence>();
    sequences_ = 0;
  }
  at_ = tree_.get();
}

// Notes the results of a call, which lie in new memory.
std::vector<std::shared_ptr<DeviceMemory>> DeviceQueue::promise(const Served& served) {
  std::vector<std::shared_ptr<DeviceMemory>> made;
  for (const Layout& layout : served.results) {
    const auto bytes = static_cast<size_t>(layout.bytes());
    made.push_back(DeviceMemory::of_block(runtime_->memory().allocate(bytes)));
    Value value{.kind = Value::Kind::made, .data = made.back()->begin(), .layout = layout};
    value.promised = made.back();
    new_value(std::move(value), made.back().get());
  }
  return made;
}

PyObject* DeviceQueue::add(const std::shared_ptr<Served>& served, const DeviceArguments& given) {
  if (running_ != 0 && PyThread_get_thread_ident() == helper_) return nullptr;
  const bool writes = served->gives == Served::Gives::first;
  if (!sort_out(given, writes)) return nullptr;
  if (steps_ == 0) begin();
  slots_.clear();
  for (size_t i = 0; i < given.tensors.size(); ++i)
    slots_.push_back(slot_of(*memories_[i], given.tensors[i]));
  for (double number : given.numbers)
    slots_.push_back(new_value({.kind = Value::Kind::number, .number = number}, nullptr));
  const Served* address = served.get();
  step_ = "c";
  put(step_, std::span(&address, 1));
  put(step_, slots_);
  advance([&] { return Sequence{.served = served, .slots = slots_}; });
  ++steps_;
  if (writes) memories_[0]->written = true;
  memories_.clear();
  const auto made = promise(*served);
  // From here on Python may collect garbage, and so call operators: the queue has to be in order.
  nb::object out = writes ? nb::borrow(given.objects[0]) : results(*served, made);
  if (steps_ >= most_steps || (steps_ % 8 == 0 && keeps_too_much())) flush();
  return out.release().ptr();
}

bool DeviceQueue::keeps_too_much() const {
  size_t bytes = 0;
  for (const Value& v : values_)
    if (v.memory && v.memory.use_count() == 1) bytes += v.memory->bytes();
  return bytes > most_kept_bytes;
}

std::unique_ptr<Batch> DeviceQueue::take() {
  ++running_;
  runner_ = PyThread_get_thread_ident();
  if (steps_ == 0) return nullptr;
  auto batch = std::make_unique<Batch>();
  batch->tree_ = tree_;
  batch->end_ = at_;
  batch->values_.swap(values_);
  batch->runtime_ = runtime_;
  ++batch_;
  steps_ = 0;
  for (Value& v : batch->values_) {
    bool written = false;
    if (v.kind == Value::Kind::made) {
      v.memory = v.promised.lock();
      written = v.memory != nullptr;
    } else if (v.kind == Value::Kind::given) {
      // The first value of memory that the queue has written is the one it was written by.
      written = v.memory->written && v.memory.use_count() > 1;
    }
    batch->writes_.push_back(written ? '\1' : '\0');
  }
  return batch;
}

}  // namespace hologram::python

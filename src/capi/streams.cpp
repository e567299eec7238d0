// capi/streams.cpp: work that calls do not wait for.
#include "capi/streams.h"

#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>

using namespace hologram;
using namespace hologram::capi;

namespace hologram::capi {
namespace {

constexpr size_t most_uses = 4096;                 // that a stream keeps before it is waited for
constexpr size_t most_pinned = size_t{256} << 20;  // bytes of its pinned memory, likewise

// Queues that stream objects made, by device. One whose queue was given on by
// hologram_stream_from_native may go before the object that took it.
std::mutex made_mutex;
std::map<std::pair<Memory*, Stream>, std::weak_ptr<void>> made;

std::shared_ptr<void> make_queue(Memory& device) {
  const Stream queue = device.make_stream();
  std::shared_ptr<void> owner(queue, [&device](void* q) {
    {
      std::lock_guard lock(made_mutex);
      made.erase({&device, q});
    }
    device.free_stream(q);
  });
  std::lock_guard lock(made_mutex);
  made[{&device, queue}] = owner;
  return owner;
}

// The owner of a queue that is ours; null for another library's.
std::shared_ptr<void> owner_of(Memory& device, Stream queue) {
  std::lock_guard lock(made_mutex);
  const auto found = made.find({&device, queue});
  return found == made.end() ? nullptr : found->second.lock();
}

}  // namespace

constinit HandleTable streams{Kind::stream,
                              [](void* object) { delete static_cast<StreamObject*>(object); }};
constinit HandleTable events{Kind::event,
                             [](void* object) { delete static_cast<EventObject*>(object); }};

StreamObject::StreamObject(std::shared_ptr<ExecutorState> of, const Stream* native)
    : executor(std::move(of)) {
  Memory* device = executor->device();
  if (!device) return;
  if (native && !device->has_stream(*native))
    fail(ErrorCode::invalid_argument, "{} is no stream of the executor's device", *native);
  owner_ = native ? owner_of(*device, *native) : make_queue(*device);
  queue_ = native ? *native : owner_.get();
  last_ = device->make_event();
}

StreamObject::~StreamObject() {
  settle_locked();
  if (Memory* device = executor->device()) {
    for (const auto& [bytes, block] : spare_) device->deallocate_host(block);
    device->free_event(last_);
    owner_.reset();
  }
  executor->leave(*this);
}

// A stream that nobody waits for does not grow for ever.
void StreamObject::make_room(size_t bytes) {
  if (uses_.size() > most_uses || (bytes > 0 && !taken_.empty() && pinned_ + bytes > most_pinned))
    settle_locked();
}

void* StreamObject::take_block(size_t bytes) {
  make_room(bytes);
  auto it = spare_.lower_bound(bytes);
  if (it == spare_.end() || it->first > 2 * bytes + 4096) {
    void* block = executor->device()->allocate_host(bytes);
    pinned_ += bytes;
    taken_.emplace(bytes, block);
    return block;
  }
  void* block = it->second;
  taken_.insert(spare_.extract(it));
  return block;
}

void StreamObject::settle_locked() noexcept {
  Memory* device = executor->device();
  if (!device) return;
  try {
    device->wait(queue_);
    for (const Landing& l : landings_) std::memcpy(l.to, l.from, l.bytes);
  } catch (...) {
    keep(std::current_exception());
  }
  landings_.clear();
  uses_.clear();
  codes_.clear();
  spare_.merge(taken_);
  while (pinned_ > most_pinned && !spare_.empty()) {
    pinned_ -= spare_.begin()->first;
    device->deallocate_host(spare_.begin()->second);
    spare_.erase(spare_.begin());
  }
}

void StreamObject::settle() {
  std::lock_guard lock(mutex_);
  settle_locked();
}

void StreamObject::wait() {
  std::lock_guard lock(mutex_);
  settle_locked();
  const int32_t faults = faults_.exchange(0, std::memory_order_relaxed);
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  runtime::raise_faults(faults);
}

bool StreamObject::done() {
  Memory* device = executor->device();
  if (!device) return true;
  std::lock_guard lock(mutex_);
  device->record(last_, queue_);
  return device->reached(last_);
}

void StreamObject::put(const runtime::StorageRef& storage, void* to, const void* from,
                       size_t bytes) {
  Memory* device = executor->device();
  if (!device) return executor->copy(to, from, bytes);
  if (bytes == 0) return;
  std::lock_guard lock(mutex_);
  void* block = take_block(bytes);
  std::memcpy(block, from, bytes);
  uses_.push_back(storage);
  device->copy_later(to, block, bytes, queue_);
}

void StreamObject::copy_out(void* to, const BufferObject& from) {
  const size_t bytes = from.bytes();
  Memory* device = executor->device();
  if (!device) return executor->copy(to, from.data, bytes);
  if (bytes == 0) return;
  std::lock_guard lock(mutex_);
  void* block = take_block(bytes);
  uses_.push_back(from.storage);
  device->copy_later(block, from.data, bytes, queue_);
  landings_.push_back({to, block, bytes});
}

void StreamObject::record(Event event) {
  if (Memory* device = executor->device()) device->record(event, queue_);
}

void StreamObject::wait_for(Event event) {
  if (Memory* device = executor->device()) device->wait_for(event, queue_);
}

EventObject::EventObject(std::shared_ptr<ExecutorState> of) : executor(std::move(of)) {
  if (Memory* device = executor->device()) event = device->make_event();
}

EventObject::~EventObject() {
  if (Memory* device = executor->device()) device->free_event(event);
  executor->leave(*this);
}

}  // namespace hologram::capi

namespace {

hologram_handle make_stream(hologram_handle executor, const Stream* native) {
  auto pin = need_executor(executor);
  if (native && !pin->state->device())
    fail(ErrorCode::unsupported, "the executor works in host memory, which has no streams");
  return publish(streams, std::make_unique<StreamObject>(pin->state, native));
}

void require_same(const StreamObject& stream, const ExecutorState& executor,
                  std::string_view what) {
  require(stream.executor.get() == &executor, "the stream belongs to another executor than the {}",
          what);
}

void wait_until(const EventObject& e) {
  Memory* device = e.executor->device();
  while (device && !device->reached(e.event))
    std::this_thread::sleep_for(std::chrono::microseconds(20));
}

}  // namespace

extern "C" {

hologram_status hologram_stream_create(hologram_handle executor, hologram_handle* stream) {
  return guarded(__func__, [&] {
    require_out(stream, "stream");
    *stream = make_stream(executor, nullptr);
  });
}
hologram_status hologram_stream_from_native(hologram_handle executor, void* native,
                                            hologram_handle* stream) {
  return guarded(__func__, [&] {
    require_out(stream, "stream");
    const Stream given = native;
    *stream = make_stream(executor, &given);
  });
}
hologram_status hologram_stream_native(hologram_handle stream, void** native) {
  return guarded(__func__, [&] {
    require_out(native, "native");
    *native = need_stream(stream)->queue();
  });
}
hologram_status hologram_stream_synchronize(hologram_handle stream) {
  return guarded(__func__, [&] { need_stream(stream)->wait(); });
}
hologram_status hologram_stream_query(hologram_handle stream, uint8_t* done) {
  return guarded(__func__, [&] {
    require_out(done, "done");
    *done = need_stream(stream)->done();
  });
}
hologram_status hologram_stream_cleanup(hologram_handle stream) {
  return guarded(__func__, [&] {
    if (!streams.remove(stream)) report_handle(streams, stream, "stream");
  });
}

hologram_status hologram_event_create(hologram_handle executor, hologram_handle* event) {
  return guarded(__func__, [&] {
    require_out(event, "event");
    *event = publish(events, std::make_unique<EventObject>(need_executor(executor)->state));
  });
}
hologram_status hologram_event_record(hologram_handle event, hologram_handle stream) {
  return guarded(__func__, [&] {
    auto e = need_event(event);
    auto s = need_stream(stream);
    require_same(*s, *e->executor, "event");
    s->record(e->event);
  });
}
hologram_status hologram_stream_wait_event(hologram_handle stream, hologram_handle event) {
  return guarded(__func__, [&] {
    auto s = need_stream(stream);
    auto e = need_event(event);
    require_same(*s, *e->executor, "event");
    s->wait_for(e->event);
  });
}
hologram_status hologram_event_synchronize(hologram_handle event) {
  return guarded(__func__, [&] { wait_until(*need_event(event)); });
}
hologram_status hologram_event_query(hologram_handle event, uint8_t* done) {
  return guarded(__func__, [&] {
    require_out(done, "done");
    auto e = need_event(event);
    Memory* device = e->executor->device();
    *done = !device || device->reached(e->event);
  });
}
hologram_status hologram_event_cleanup(hologram_handle event) {
  return guarded(__func__, [&] {
    if (!events.remove(event)) report_handle(events, event, "event");
  });
}

hologram_status hologram_stream_copy_from_bytes(hologram_handle stream, hologram_handle buffer,
                                                const void* bytes, size_t size) {
  return guarded(__func__, [&] {
    auto s = need_stream(stream);
    auto b = need_buffer(buffer);
    require_same(*s, *b->executor, "buffer");
    require(bytes != nullptr || size == 0, "bytes must not be NULL");
    require(size == b->bytes(), "size must be {} (the buffer's), got {}", b->bytes(), size);
    s->put(b->storage, b->data, bytes, size);
    b->executor->bytes_in.add(size);
  });
}
hologram_status hologram_stream_copy_to_bytes(hologram_handle stream, hologram_handle buffer,
                                              void* bytes, size_t size) {
  return guarded(__func__, [&] {
    auto s = need_stream(stream);
    auto b = need_buffer(buffer);
    require_same(*s, *b->executor, "buffer");
    require(bytes != nullptr || size == 0, "bytes must not be NULL");
    require(size == b->bytes(), "size must be {} (the buffer's), got {}", b->bytes(), size);
    s->copy_out(bytes, *b);
    b->executor->bytes_out.add(size);
  });
}

}  // extern "C"

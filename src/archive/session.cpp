// archive/session.cpp: state between calls of methods.
#include <algorithm>
#include <cstring>

#include "archive/function.h"
#include "base/error.h"

namespace hologram::archive {

Session::Session(std::shared_ptr<const Archive> archive) : archive_(std::move(archive)) {
  for (const Tensor& t : archive_->index().tensors)
    copies_.push_back(t.state ? std::make_unique<std::byte[]>(std::max<uint64_t>(t.bytes, 1))
                              : nullptr);
  reset();
}

Session::~Session() {
  try {
    leave_device();
  } catch (const Error&) {  // told where that work is waited for
  }
}

void Session::leave_device() {
  if (!on_) return;
  Memory& device = *on_->device();
  device.wait_for_all();
  for (size_t i = 0; i < copies_.size(); ++i) {
    if (const uint64_t bytes = archive_->index().tensors[i].bytes; there_[i] && bytes > 0)
      device.copy(copies_[i].get(), there_[i], bytes, nullptr);
    device.deallocate(there_[i], nullptr);
  }
  device.free_event(last_);
  there_.clear();
  last_ = nullptr;
  on_ = nullptr;
}

void Session::move_to(const std::shared_ptr<runtime::Runtime>& runtime, const Stream* queue) {
  Memory* device = runtime->device();
  if (on_ && on_->device() != device) leave_device();
  if (!device) return;
  if (on_) {
    if (queue)
      device->wait_for(last_, *queue);
    else
      device->wait_for_all();
    return;
  }
  on_ = runtime;
  there_.assign(copies_.size(), nullptr);
  last_ = device->make_event();
  for (size_t i = 0; i < copies_.size(); ++i) {
    const uint64_t bytes = archive_->index().tensors[i].bytes;
    if (!copies_[i]) continue;
    there_[i] = device->allocate(bytes, nullptr);
    if (bytes > 0) device->copy(there_[i], copies_[i].get(), bytes, nullptr);
  }
}

void Session::used_on(const Stream& queue) { on_->device()->record(last_, queue); }

void Session::reset() {
  std::lock_guard lock(mutex_);
  leave_device();
  for (size_t i = 0; i < copies_.size(); ++i)
    if (const Tensor& t = archive_->index().tensors[i]; copies_[i] && t.bytes > 0)
      std::memcpy(copies_[i].get(), archive_->data(t), t.bytes);
}

}  // namespace hologram::archive

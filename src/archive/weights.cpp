// archive/weights.cpp: what an archive's tensors are for those who call it.
#include "archive/weights.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace hologram::archive {
namespace {

// Row-major elements to where a tensor's strides have them, dimension by dimension.
const std::byte* scatter(const Tensor& t, size_t dimension, std::byte* to, const std::byte* from) {
  const auto size = static_cast<size_t>(size_of(t.dtype));
  if (dimension == t.shape.size()) {
    std::memcpy(to, from, size);
    return from + size;
  }
  const auto n = static_cast<size_t>(t.shape[dimension]);
  if (dimension + 1 == t.shape.size() && t.strides[dimension] == 1) {
    std::memcpy(to, from, n * size);
    return from + n * size;
  }
  const size_t step = static_cast<size_t>(t.strides[dimension]) * size;
  for (size_t i = 0; i < n; ++i) from = scatter(t, dimension + 1, to + i * step, from);
  return from;
}

}  // namespace

Weights::Weights(std::shared_ptr<const Archive> archive)
    : archive_(std::move(archive)), replaced_(archive_->index().tensors.size()) {}

void Weights::replace(std::string_view name, DType dtype, std::span<const int64_t> shape,
                      const std::byte* elements) {
  const std::vector<Tensor>& all = archive_->index().tensors;
  const auto found = std::ranges::find(all, name, &Tensor::name);
  if (found == all.end())
    fail(ErrorCode::not_found, "{} has no tensor \"{}\"", archive_->name(), name);
  const Tensor& t = *found;
  require(!t.state, "\"{}\" is state: it belongs to sessions", name);
  require(dtype == t.dtype && std::ranges::equal(shape, t.shape), "\"{}\" is {}[{}], got {}[{}]",
          name, name_of(t.dtype), fmt::join(t.shape, ", "), name_of(dtype), fmt::join(shape, ", "));
  std::shared_ptr<std::byte[]> copy(new std::byte[std::max<uint64_t>(t.bytes, 1)]());
  if (t.bytes > 0) scatter(t, 0, copy.get(), elements);
  std::lock_guard lock(mutex_);
  replaced_[static_cast<size_t>(found - all.begin())] = std::move(copy);
  version_.fetch_add(1, std::memory_order_release);
}

Weights::Content Weights::content(uint32_t tensor) const {
  std::lock_guard lock(mutex_);
  if (const auto& r = replaced_[tensor]) return {r.get(), r};
  return {archive_->data(archive_->index().tensors[tensor]), nullptr};
}

// The copy keeps what it was made of, so that the address stays that content's while it lives.
std::shared_ptr<void> Weights::on_device(uint32_t tensor, const Content& content,
                                         const std::shared_ptr<runtime::Runtime>& runtime) const {
  Memory* device = runtime->device();
  std::lock_guard lock(mutex_);
  std::weak_ptr<void>& known = on_devices_[{device, content.data}];
  if (std::shared_ptr<void> copy = known.lock()) return copy;
  const auto bytes = static_cast<size_t>(archive_->index().tensors[tensor].bytes);
  std::shared_ptr<void> copy(
      device->allocate(bytes, nullptr),
      [runtime, replaced = content.replaced, archive = archive_](void* block) {
        Memory* owner = runtime->device();
        try {  // calls on streams may still read it
          owner->wait_for_all();
        } catch (const Error&) {  // told where that work is waited for
        }
        owner->deallocate(block, nullptr);
      });
  if (bytes > 0) device->copy(copy.get(), content.data, bytes, nullptr);
  known = copy;
  return copy;
}

}  // namespace hologram::archive

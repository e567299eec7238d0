// backend/webgpu/addresses.cpp: which addresses stand for which buffers.
#include "backend/webgpu/addresses.h"

#include <algorithm>

#include "base/error.h"

namespace hologram::webgpu {
namespace {

// Sizes that blocks come in, so that a freed one serves others: eight between powers of two.
size_t class_of(size_t bytes) {
  size_t step = binding_alignment;
  while (step * 16 <= bytes) step *= 2;
  return (std::max<size_t>(bytes, 1) + step - 1) / step * step;
}

}  // namespace

Addresses::Addresses(char* first, size_t bytes, std::function<void(Buffer)> drop)
    : first_(first), space_(bytes), drop_(std::move(drop)) {
  free_.add(binding_alignment, space_ - binding_alignment);  // the first one belongs to no block
}

Addresses::~Addresses() {
  for (const auto& [offset, block] : used_) drop_(block.buffer);
  for (const auto& [bytes, kept] : kept_) drop_(kept.second.buffer);
}

bool Addresses::contains(const void* address) const {
  const auto* p = static_cast<const char*>(address);
  return p >= first_ && static_cast<size_t>(p - first_) < space_;
}

Place Addresses::place_of(const void* address) const {
  const auto offset = static_cast<size_t>(static_cast<const char*>(address) - first_);
  std::lock_guard lock(mutex_);
  auto at = used_.upper_bound(offset);
  if (!contains(address) || at == used_.begin()) check(false, "webgpu: an address of no block");
  --at;
  if (offset - at->first > at->second.bytes)  // by a plan that another process made
    fail(ErrorCode::corrupt, "webgpu: a buffer behind the end of its block of {} bytes",
         at->second.bytes);
  return {at->second.buffer, offset - at->first, at->second.bytes};
}

void* Addresses::allocate(size_t bytes, const std::function<Buffer(size_t)>& make) {
  const size_t size = class_of(bytes);
  {
    std::lock_guard lock(mutex_);
    if (const auto kept = kept_.find(size); kept != kept_.end()) {
      const auto [offset, block] = kept->second;
      kept_.erase(kept);
      used_[offset] = block;
      return first_ + offset;
    }
  }
  const Block block{make(size), size};
  std::lock_guard lock(mutex_);
  if (const auto offset = free_.take(size)) {
    used_[*offset] = block;
    return first_ + *offset;
  }
  drop_(block.buffer);
  fail(ErrorCode::out_of_memory, "webgpu: no addresses for {} bytes", bytes);
}

void Addresses::deallocate(void* block) noexcept {
  if (!block) return;
  const auto offset = static_cast<size_t>(static_cast<char*>(block) - first_);
  std::lock_guard lock(mutex_);
  const auto at = used_.find(offset);
  if (at == used_.end()) return;
  kept_.emplace(at->second.bytes, std::pair(offset, at->second));
  used_.erase(at);
}

size_t Addresses::release() noexcept {
  std::lock_guard lock(mutex_);
  size_t bytes = 0;
  for (const auto& [size, kept] : kept_) {
    drop_(kept.second.buffer);
    free_.add(kept.first, size);
    bytes += size;
  }
  kept_.clear();
  return bytes;
}

}  // namespace hologram::webgpu

// backend/on_host.h: a step that a device leaves to the host.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "atlas/program.h"
#include "backend/launcher.h"
#include "backend/memory.h"

namespace hologram {

/// Runs a kernel of the host on copies of a step's buffers (`bytes` of each; scratch is none of the
/// step's), and copies what it writes back. The kernel's status.
inline int32_t run_on_copies(Memory& memory, const CallFrame& frame, const atlas::EntryStep& step,
                             std::span<const atlas::Buffer> buffers,
                             std::span<const uint64_t> bytes, atlas::KernelFn function,
                             int64_t total, int64_t grain) {
  struct Free {
    void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{64}); }
  };
  std::vector<std::unique_ptr<std::byte, Free>> blocks;
  std::vector<void*> copies;
  const auto place = [&](size_t n) {
    return frame.buffers[step.first_buffer + static_cast<int64_t>(n)];
  };
  for (size_t b = 0; b < buffers.size(); ++b) {
    if (buffers[b].access == atlas::Access::scratch) continue;
    blocks.emplace_back(static_cast<std::byte*>(
        ::operator new (std::max<size_t>(bytes[b], 1), std::align_val_t{64})));
    copies.push_back(blocks.back().get());
    memory.copy(copies.back(), place(copies.size() - 1), bytes[b], frame.stream);
  }
  const int32_t status =
      frame.context->parallel_for(frame.context, function, copies.data(),
                                  frame.arguments + step.first_argument, total, grain);
  if (status != 0) return status;
  size_t n = 0;
  for (size_t b = 0; b < buffers.size(); ++b) {
    if (buffers[b].access == atlas::Access::scratch) continue;
    if (buffers[b].access != atlas::Access::read)
      memory.copy(place(n), copies[n], bytes[b], frame.stream);
    ++n;
  }
  return 0;
}

}  // namespace hologram

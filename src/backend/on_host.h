// backend/on_host.h: steps that a device leaves to the host.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "backend/memory.h"
#include "backend/steps.h"
#include "host/context.h"

namespace hologram {

/// A kernel of the host, where a device renders none.
struct HostKernel {
  Kernel kernel;
  atlas::KernelFn function = nullptr;  ///< null: the device runs it
  std::vector<atlas::Buffer> buffers;  ///< that are not scratch

  explicit operator bool() const { return function != nullptr; }
};

/// Its launch for some sizes.
struct HostLaunch {
  int64_t total = 0, grain = 1;
  std::vector<uint64_t> bytes;  ///< by buffer
};

inline HostLaunch host_launch(const HostKernel& k, std::span<const int64_t> symbols, int threads) {
  HostLaunch out;
  out.total = std::max<int64_t>(k.kernel.total.eval(symbols), 0);
  out.grain = host::chunk_of(out.total, k.kernel.grain.eval(symbols),
                             k.kernel.unit_work.eval(symbols), threads);
  for (const atlas::Buffer& b : k.buffers) out.bytes.push_back(bytes_of(b, b.extent, symbols));
  return out;
}

/// Runs it on copies of a step's buffers, and copies what it writes back. The kernel's status.
inline int32_t run_on_copies(Memory& memory, const CallFrame& frame, const atlas::EntryStep& step,
                             const HostKernel& k, const HostLaunch& launch) {
  if (launch.total <= 0) return 0;
  struct Free {
    void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{64}); }
  };
  std::vector<std::unique_ptr<std::byte, Free>> blocks;
  std::vector<void*> copies;
  void* const* const places = frame.buffers + step.first_buffer;
  for (size_t b = 0; b < k.buffers.size(); ++b) {
    blocks.emplace_back(static_cast<std::byte*>(
        ::operator new (std::max<size_t>(launch.bytes[b], 1), std::align_val_t{64})));
    copies.push_back(blocks.back().get());
    memory.copy(copies[b], places[b], launch.bytes[b], frame.stream);
  }
  const int32_t status =
      frame.context->parallel_for(frame.context, k.function, copies.data(),
                                  frame.arguments + step.first_argument, launch.total, launch.grain);
  if (status != 0) return status;
  for (size_t b = 0; b < k.buffers.size(); ++b)
    if (k.buffers[b].access != atlas::Access::read)
      memory.copy(places[b], copies[b], launch.bytes[b], frame.stream);
  return 0;
}

}  // namespace hologram

// interp/interp.cpp: entry of the interpreter for block programs.
#include "interp/interp.h"

#include <memory>

#include "base/error.h"
#include "interp/lanes.h"

namespace hologram::interp {

void run(const atlas::Program& program, void* const* bufs, const int64_t* syms,
         std::atomic<int32_t>* sticky) {
  Frame frame;
  frame.symbols = {syms, static_cast<size_t>(program.num_symbols)};
  std::vector<std::unique_ptr<char[]>> scratch;
  for (const atlas::Buffer& b : program.buffers) {
    Memory m{.dtype = b.dtype, .extent = eval_uniform(b.extent, frame)};
    if (b.access == atlas::Access::scratch) {
      int64_t bytes = 0;
      if (m.extent < 0 || __builtin_mul_overflow(m.extent, size_of(b.dtype), &bytes) || bytes >> 40)
        fail(ErrorCode::out_of_memory, "interp: a scratch buffer of {} elements", m.extent);
      // A pattern that no correct program shows: contents are undefined.
      scratch.push_back(std::make_unique_for_overwrite<char[]>(static_cast<size_t>(bytes)));
      std::fill_n(scratch.back().get(), bytes, static_cast<char>(0xcb));
      m.base = scratch.back().get();
      m.owned = true;
    } else {
      m.base = static_cast<char*>(*bufs++);
    }
    frame.memory.push_back(m);
  }
  std::visit([&](const auto& block) { run_block(block, frame); }, program.block);
  if (sticky && frame.sticky) sticky->fetch_or(frame.sticky, std::memory_order_relaxed);
}

}  // namespace hologram::interp

// runtime/run_program.cpp: one block program on the calling thread.
#include "runtime/run_program.h"

#include <atomic>
#include <memory>
#include <new>
#include <vector>

#include "base/error.h"
#include "runtime/executable.h"

namespace hologram::runtime {
namespace {

constexpr std::align_val_t scratch_alignment{64};

struct FreeScratch {
  void operator()(void* p) const { ::operator delete(p, scratch_alignment); }
};
using Scratch = std::unique_ptr<void, FreeScratch>;

int32_t run_here(const atlas::Context* context, atlas::KernelFn kernel, void* const* bufs,
                 const int64_t* syms, int64_t total, int64_t) {
  return kernel(context, bufs, syms, 0, total);
}

void* make_scratch(const atlas::Context* context, int64_t bytes) {
  auto& blocks = *static_cast<std::vector<Scratch>*>(context->runtime);
  if (bytes < 0) return nullptr;
  void* p = ::operator new(static_cast<size_t>(bytes), scratch_alignment, std::nothrow);
  if (p) blocks.emplace_back(p);
  return p;
}

int32_t no_host(const atlas::Context*, int64_t) {
  return static_cast<int32_t>(ErrorCode::unsupported);
}

// Whether the buffer serves as buffer number k of the program.
void check_buffer(const atlas::Program& program, size_t k, const Bytes& bytes,
                  std::span<const int64_t> symbols) {
  const atlas::Buffer& b = program.buffers[k];
  int64_t needs = 0, extent = b.extent.eval(symbols);
  auto size = static_cast<int64_t>(size_of(b.dtype));
  require(extent >= 0 && !__builtin_mul_overflow(extent, size, &needs),
          "run_program: buffer b{} has {} elements", k, extent);
  require(static_cast<uint64_t>(needs) <= bytes.size(),
          "run_program: buffer b{} needs {} bytes; got {}", k, needs, bytes.size());
  require(reinterpret_cast<uintptr_t>(bytes.data()) % static_cast<uintptr_t>(size) == 0,
          "run_program: buffer b{} must be aligned to {} bytes", k, size);
}

}  // namespace

void run_program(Runtime& runtime, const atlas::Program& program, std::span<const Bytes> buffers,
                 std::span<const int64_t> symbols) {
  require(symbols.size() == static_cast<size_t>(program.num_symbols),
          "run_program: {} symbols; expected {}", symbols.size(), program.num_symbols);
  std::vector<void*> addresses{nullptr};
  size_t passed = 0;
  for (size_t k = 0; k < program.buffers.size(); ++k) {
    if (program.buffers[k].access == atlas::Access::scratch) continue;
    require(passed < buffers.size(), "run_program: no buffer for b{}", k);
    check_buffer(program, k, buffers[passed], symbols);
    addresses.push_back(buffers[passed++].data());
  }
  require(passed == buffers.size(), "run_program: {} buffers; expected {}", buffers.size(), passed);

  std::shared_ptr<const CompiledKernel> kernel = runtime.kernels().get(program);
  addresses[0] = const_cast<void*>(kernel->keep.get());
  std::atomic<int32_t> sticky{0};
  std::vector<Scratch> scratch;
  atlas::Context context{run_here, make_scratch, no_host, &sticky, &scratch};
  int64_t total = kernel->total.eval(symbols);
  int32_t status =
      total > 0 ? kernel->function(&context, addresses.data() + 1, symbols.data(), 0, total) : 0;
  if (status != 0)
    fail(static_cast<ErrorCode>(status), "run_program: the kernel failed on backend {}",
         runtime.backend().name());
  raise_faults(sticky.load(std::memory_order_relaxed));
}

}  // namespace hologram::runtime

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

// Copies of the buffers on a device, in place of their addresses; nothing where there is none.
class OnDevice {
 public:
  OnDevice(Memory* device, const atlas::Program& program, std::span<const Bytes> buffers,
           std::vector<void*>& addresses)
      : device_(device), buffers_(buffers) {
    if (!device) return;
    for (const atlas::Buffer& b : program.buffers)
      if (b.access != atlas::Access::scratch) written_.push_back(b.access != atlas::Access::read);
    for (size_t i = 0; i < buffers.size(); ++i) {
      blocks_.push_back(device->allocate(buffers[i].size(), nullptr));
      device->copy(blocks_[i], buffers[i].data(), buffers[i].size(), nullptr);
      addresses[i] = blocks_[i];
    }
  }
  ~OnDevice() {
    for (void* block : blocks_) device_->deallocate(block, nullptr);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  void copy_back() const {
    for (size_t i = 0; i < blocks_.size(); ++i)
      if (written_[i]) device_->copy(buffers_[i].data(), blocks_[i], buffers_[i].size(), nullptr);
  }

 private:
  Memory* device_;
  std::span<const Bytes> buffers_;
  std::vector<void*> blocks_;
  std::vector<bool> written_;
};

// The kernel as a plan of one step.
int32_t launch(Runtime& runtime, std::shared_ptr<const Kernel> kernel,
               const atlas::Context& context, std::span<void* const> buffers,
               std::span<const int64_t> symbols) {
  const atlas::EntryStep step{0, 0, 0, static_cast<int64_t>(symbols.size()), -1};
  const std::shared_ptr<const Kernel> kernels[] = {std::move(kernel)};
  auto launcher =
      runtime.backend().launcher(std::span(&step, 1), kernels, runtime.kernels().disk());
  auto prepared = launcher->prepare(symbols.data(), 1);
  Memory* device = runtime.device();
  const size_t bytes = launcher->workspace_bytes(*prepared);
  const std::shared_ptr<void> workspace(bytes > 0 ? device->allocate(bytes, nullptr) : nullptr,
                                        [=](void* p) {
                                          if (p) device->deallocate(p, nullptr);
                                        });
  CallFrame frame{};
  frame.workspace = workspace.get();
  frame.context = &context;
  frame.buffers = buffers.data();
  frame.arguments = symbols.data();
  frame.sticky = context.sticky_error;
  const int32_t status = launcher->run(frame, *prepared);
  if (device) device->wait(frame.stream);
  return status;
}

}  // namespace

void run_program(Runtime& runtime, const atlas::Program& program, std::span<const Bytes> buffers,
                 std::span<const int64_t> symbols) {
  require(symbols.size() == static_cast<size_t>(program.num_symbols),
          "run_program: {} symbols; expected {}", symbols.size(), program.num_symbols);
  std::vector<void*> addresses;
  size_t passed = 0;
  for (size_t k = 0; k < program.buffers.size(); ++k) {
    if (program.buffers[k].access == atlas::Access::scratch) continue;
    require(passed < buffers.size(), "run_program: no buffer for b{}", k);
    check_buffer(program, k, buffers[passed], symbols);
    addresses.push_back(buffers[passed++].data());
  }
  require(passed == buffers.size(), "run_program: {} buffers; expected {}", buffers.size(), passed);

  std::shared_ptr<const Kernel> kernel = runtime.kernels().get(program);
  std::atomic<int32_t> sticky{0};
  std::vector<Scratch> scratch;
  const atlas::Context context{run_here, make_scratch, no_host, &sticky, &scratch};
  int32_t status = 0;
  if (atlas::KernelFn function = runtime.backend().host_function(*kernel)) {
    const int64_t total = kernel->total.eval(symbols);
    if (total > 0) status = function(&context, addresses.data(), symbols.data(), 0, total);
  } else {
    const OnDevice memory(runtime.device(), program, buffers, addresses);
    status = launch(runtime, std::move(kernel), context, addresses, symbols);
    if (status == 0) memory.copy_back();
  }
  if (status != 0)
    fail(static_cast<ErrorCode>(status), "run_program: the kernel failed on backend {}",
         runtime.backend().name());
  raise_faults(sticky.load(std::memory_order_relaxed));
}

}  // namespace hologram::runtime

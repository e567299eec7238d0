// rt/wasm/gpu.cpp: memory, kernels and launches on a device that belongs to the host language.
#include "rt/wasm/gpu.h"

#include <algorithm>
#include <deque>

#include "backend/refusing.h"
#include "backend/steps.h"
#include "backend/webgpu/addresses.h"
#include "backend/webgpu/stored.h"
#include "base/error.h"
#include "host/memory_pool.h"

#define HOLOGRAM_IMPORT(name) \
  extern "C" __attribute__((import_module("hologram"), import_name(#name)))

// Buffers have numbers; 0 is none.
HOLOGRAM_IMPORT(gpu_make) uint32_t gpu_make(uint32_t bytes);
HOLOGRAM_IMPORT(gpu_drop) void gpu_drop(uint32_t buffer);
HOLOGRAM_IMPORT(gpu_write)
void gpu_write(uint32_t buffer, uint32_t offset, const void* from, uint32_t bytes);
/// Makes whole words zero.
HOLOGRAM_IMPORT(gpu_clear) void gpu_clear(uint32_t buffer, uint32_t offset, uint32_t bytes);
HOLOGRAM_IMPORT(gpu_copy)
void gpu_copy(uint32_t from, uint32_t from_offset, uint32_t to, uint32_t offset, uint32_t bytes);
/// The bytes are at `to` when the host language has waited for them.
HOLOGRAM_IMPORT(gpu_read)
void gpu_read(uint32_t buffer, uint32_t offset, void* to, uint32_t bytes);
/// A kernel's number. Its pipelines are made while others are.
HOLOGRAM_IMPORT(gpu_kernel) uint32_t gpu_kernel(const char* text, uint32_t bytes);
HOLOGRAM_IMPORT(gpu_drop_kernel) void gpu_drop_kernel(uint32_t kernel);
/// `commands`: Commands below, one behind the other, `count` numbers in all.
HOLOGRAM_IMPORT(gpu_submit)
void gpu_submit(const int32_t* words, uint32_t num_words, const uint32_t* commands, uint32_t count);

namespace hologram::wasm {
namespace {

using webgpu::Addresses;
using webgpu::Buffer;
using webgpu::Place;

// The upper half of what 32 bits address stands for the device's memory: the runtime's own memory
// has to stay below.
char* const first_address = reinterpret_cast<char*>(uintptr_t{1} << 31);
constexpr size_t space = (size_t{1} << 31) - 256;

uint32_t number_of(Buffer b) { return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(b)); }
uint32_t in_words(uint64_t bytes) { return static_cast<uint32_t>((bytes + 3) / 4 * 4); }

bool reads = false;
std::deque<uint32_t> fault_words;  // where bits arrive; addresses stay

class GpuMemory final : public Memory {
 public:
  explicit GpuMemory(const Gpu& gpu)
      : gpu_(gpu), addresses_(first_address, space, [](Buffer b) { gpu_drop(number_of(b)); }) {}

  Place place_of(const void* address) const { return addresses_.place_of(address); }
  Device device() const override { return {15, 0}; }  // DLPack's kDLWebGPU
  uint64_t capacity() const override { return space; }
  bool contains(const void* address) const override { return addresses_.contains(address); }
  Stream make_stream() override { return nullptr; }
  void free_stream(Stream) noexcept override {}
  void* allocate(size_t bytes, Stream) override {
    if (__builtin_wasm_memory_size(0) > reinterpret_cast<uintptr_t>(first_address) >> 16)
      fail(ErrorCode::out_of_memory, "WebGPU beside more than 2 GiB in WebAssembly's memory");
    return addresses_.allocate(bytes, [&](size_t whole) {
      if (whole > gpu_.buffer_bytes)
        fail(ErrorCode::out_of_memory,
             "a block of {} bytes; the device allows {} in a buffer (maxBufferSize)", whole,
             gpu_.buffer_bytes);
      return reinterpret_cast<Buffer>(static_cast<uintptr_t>(gpu_make(whole)));
    });
  }
  void deallocate(void* block, Stream) noexcept override { addresses_.deallocate(block); }
  size_t release() noexcept override { return addresses_.release(); }

  // Blocks begin and end at words, and what is written behind the bytes is no one's.
  void copy(void* to, const void* from, size_t bytes, Stream) override {
    if (bytes == 0) return;
    const bool there = contains(to), here = contains(from);
    const Place target = there ? whole_words(to) : Place{};
    const Place source = here ? whole_words(from) : Place{};
    if (there && here)
      gpu_copy(number_of(source.buffer), source.offset, number_of(target.buffer), target.offset,
               in_words(bytes));
    else if (there)
      gpu_write(number_of(target.buffer), target.offset, from, bytes);
    else if (here && reads)
      gpu_read(number_of(source.buffer), source.offset, to, bytes);
    else if (!here)
      std::copy_n(static_cast<const char*>(from), bytes, static_cast<char*>(to));
  }
  void clear_words(void* words, size_t bytes) const {
    const Place place = whole_words(words);
    gpu_clear(number_of(place.buffer), static_cast<uint32_t>(place.offset), in_words(bytes));
  }
  void copy_later(void* to, const void* from, size_t bytes, Stream stream) override {
    copy(to, from, bytes, stream);
  }
  // One queue, and nothing that the host may read yet.
  void wait(Stream) override {}
  void wait_for_all() override {}
  void* allocate_host(size_t bytes) override { return host::MemoryPool().allocate(bytes); }
  void deallocate_host(void* block) noexcept override { host::MemoryPool::deallocate(block); }
  Event make_event() override { return nullptr; }
  void free_event(Event) noexcept override {}
  void record(Event, Stream) override {}
  void wait_for(Event, Stream) override {}
  bool reached(Event) override { return true; }

 private:
  Place whole_words(const void* address) const {
    const Place place = place_of(address);
    check(place.offset % 4 == 0, "webgpu: a copy that begins within a word");
    return place;
  }

  const Gpu& gpu_;
  Addresses addresses_;
};

struct GpuKernel : webgpu::RenderedKernel {
  uint32_t number = 0;
  ~GpuKernel() {
    if (number) gpu_drop_kernel(number);
  }
};

struct Sizes final : Prepared {
  std::vector<webgpu::StepSizes> steps;
  uint64_t workspace = 0;
};

// What gpu_submit() reads: the kernel's number, the dispatch's, place and bytes of its words, the
// grid's two sizes, how many bindings there are and, of each, number, buffer, offset and bytes. Of
// a copy: 0, two buffers with offsets as gpu_copy() has them, bytes.
class Commands {
 public:
  explicit Commands(GpuMemory& memory) : memory_(memory) {}
  ~Commands() {
    for (void* block : blocks_) memory_.deallocate(block, nullptr);
  }
  Commands(const Commands&) = delete;
  Commands& operator=(const Commands&) = delete;

  void add(const webgpu::Dispatched& d) {
    std::vector<webgpu::Binding> bindings = d.bindings;
    for (size_t b = 0; b < bindings.size(); ++b) keep_apart(*d.kernel, bindings, b);
    const auto& kernel = static_cast<const GpuKernel&>(*d.kernel);
    put({kernel.number, static_cast<uint32_t>(d.dispatch), static_cast<uint32_t>(d.words),
         static_cast<uint32_t>(word_bytes(kernel)), d.x, d.y,
         static_cast<uint32_t>(bindings.size())});
    for (const webgpu::Binding& b : bindings) {
      const Place place = memory_.place_of(b.address);
      put({static_cast<uint32_t>(1 + b.buffer), number_of(place.buffer),
           static_cast<uint32_t>(place.offset), static_cast<uint32_t>(b.bytes)});
    }
  }
  void submit(const std::vector<int32_t>& words) {
    gpu_submit(words.data(), words.size(), numbers_.data(), numbers_.size());
  }

 private:
  void put(std::initializer_list<uint32_t> numbers) { numbers_.insert(numbers_.end(), numbers); }

  // Bindings of a launch may not overlap in browsers: one that is read is read from a copy.
  void keep_apart(const webgpu::RenderedKernel& kernel, std::vector<webgpu::Binding>& bindings,
                  size_t b) {
    webgpu::Binding& own = bindings[b];
    const bool overlaps = std::ranges::any_of(bindings, [&](const webgpu::Binding& other) {
      return &other != &own && own.address < other.address + other.bytes &&
             other.address < own.address + own.bytes;
    });
    if (!overlaps) return;
    const auto number = static_cast<size_t>(own.buffer);
    if (number >= kernel.buffers.size() || kernel.buffers[number].access != atlas::Access::read)
      return;  // another one of them is read
    const Place from = memory_.place_of(own.address);
    blocks_.push_back(memory_.allocate(own.bytes, nullptr));
    const Place to = memory_.place_of(blocks_.back());
    put({0, number_of(from.buffer), static_cast<uint32_t>(from.offset), number_of(to.buffer),
         static_cast<uint32_t>(to.offset), static_cast<uint32_t>(own.bytes)});
    own.address = static_cast<const std::byte*>(blocks_.back());
  }

  GpuMemory& memory_;
  std::vector<uint32_t> numbers_;
  std::vector<void*> blocks_;
};

class GpuLauncher final : public Launcher {
 public:
  GpuLauncher(std::span<const atlas::EntryStep> steps,
              std::span<const std::shared_ptr<const Kernel>> kernels, GpuMemory& memory,
              const Gpu& gpu)
      : steps_(steps, kernels), memory_(memory), gpu_(gpu) {
    size_t buffers = 0;
    for (const atlas::EntryStep& s : steps_) {
      if (s.kernel < 0) fail(ErrorCode::unsupported, "a step of its plan runs on the host");
      faults_ = faults_ || kernel_of(s).module.faults;
      buffers = std::max(buffers, kernel_of(s).buffers.size());
    }
    spare_ = static_cast<std::byte*>(memory_.allocate(webgpu::spare_bytes(buffers), nullptr));
    memory_.clear_words(spare_, sizeof(uint32_t));
  }
  ~GpuLauncher() override { memory_.deallocate(spare_, nullptr); }
  GpuLauncher(const GpuLauncher&) = delete;
  GpuLauncher& operator=(const GpuLauncher&) = delete;

  std::unique_ptr<Prepared> prepare(const int64_t* arguments, int) const override {
    auto sizes = std::make_unique<Sizes>();
    for (const atlas::EntryStep& s : steps_)
      sizes->steps.push_back(webgpu::sizes_of(kernel_of(s), steps_.symbols_of(s, arguments), gpu_));
    sizes->workspace = webgpu::place_workspaces(sizes->steps);
    return sizes;
  }
  size_t workspace_bytes(const Prepared& prepared) const override {
    return static_cast<const Sizes&>(prepared).workspace;
  }
  int32_t run(CallFrame& frame, const Prepared& prepared) const override {
    return recorded(frame, prepared, [&](auto&& add) { return walk(frame, steps_, add); });
  }
  int32_t run_step(CallFrame& frame, const Prepared& prepared, size_t step) const override {
    return recorded(frame, prepared, [&](auto&& add) { return add(step); });
  }

 private:
  const GpuKernel& kernel_of(const atlas::EntryStep& step) const { return *steps_.code_of(step); }

  // Submits the steps that `run` adds.
  template <class F>
  int32_t recorded(CallFrame& frame, const Prepared& prepared, F&& run) const {
    const auto& sizes = static_cast<const Sizes&>(prepared);
    webgpu::Batch batch(spare_, gpu_);
    run([&](size_t s) {
      batch.add(kernel_of(steps_[s]), frame, steps_[s], sizes.steps[s]);
      return 0;
    });
    Commands commands(memory_);
    for (const webgpu::Dispatched& d : batch.dispatches()) commands.add(d);
    commands.submit(batch.words());
    if (!faults_) return 0;
    memory_.copy(&fault_words.emplace_back(0), spare_, sizeof(uint32_t), nullptr);
    memory_.clear_words(spare_, sizeof(uint32_t));
    return 0;
  }

  const Steps<GpuKernel> steps_;
  GpuMemory& memory_;
  const Gpu& gpu_;
  bool faults_ = false;
  std::byte* spare_ = nullptr;
};

class GpuBackend final : public RefusingBackend {
 public:
  explicit GpuBackend(Gpu gpu)
      : RefusingBackend("in WebAssembly, stored kernels are run and none is made"),
        gpu_(std::move(gpu)),
        memory_(gpu_) {}

  std::string_view name() const override { return "webgpu"; }
  std::string code_key() const override { return target(); }
  std::string target() const override { return std::string(webgpu::stored_target); }
  Memory* memory() const override { return &memory_; }
  const schedule::Machine& machine() const override { return schedule::plain_machine(); }

  Kernel load(const atlas::Program&, std::string_view code) const override {
    if (!code.starts_with(webgpu::text_mark))
      fail(ErrorCode::unsupported, "a kernel of it is left to the host");
    webgpu::wgsl::Stored stored = webgpu::wgsl::read(code);
    for (const webgpu::wgsl::Dispatch& d : stored.module.dispatches)
      if (d.buffers.size() + 1 > gpu_.storage_buffers)
        fail(ErrorCode::unsupported, "a kernel of {} buffers; the device binds {}",
             d.buffers.size() + 1, gpu_.storage_buffers);
    auto kernel = std::make_shared<GpuKernel>();
    kernel->buffers = std::move(stored.buffers);
    kernel->num_symbols = static_cast<size_t>(stored.num_symbols);
    kernel->module = std::move(stored.module);
    kernel->number = gpu_kernel(code.data(), code.size());
    kernel->module.text.clear();
    return {kernel.get(), Expr(1), Expr(1), Expr(1), kernel, 0, kernel->takes()};
  }
  std::unique_ptr<Launcher> launcher(std::span<const atlas::EntryStep> steps,
                                     std::span<const std::shared_ptr<const Kernel>> kernels,
                                     CodeStore&) const override {
    return std::make_unique<GpuLauncher>(steps, kernels, memory_, gpu_);
  }

 private:
  const Gpu gpu_;
  mutable GpuMemory memory_;
};

}  // namespace

std::unique_ptr<Backend> make_gpu_backend(Gpu gpu) {
  return std::make_unique<GpuBackend>(std::move(gpu));
}

void set_gpu_reads(bool on) { reads = on; }

int32_t take_gpu_faults() {
  int32_t bits = 0;
  for (const uint32_t word : fault_words) bits |= static_cast<int32_t>(word);
  fault_words.clear();
  return bits;
}

}  // namespace hologram::wasm

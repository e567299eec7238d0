// tests/support/ptx/fake_driver.cpp: a libcuda whose device is the PTX machine.
//
// A device's memory stands at addresses that nobody can read or write; the bytes are elsewhere.
// Streams are late queues. What is freed is overwritten.
#include "support/ptx/fake_driver.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <span>
#include <thread>
#include <utility>

#include "backend/cuda/driver.h"
#include "backend/null/late_events.h"
#include "support/ptx/fake_cubin.h"
#include "support/ptx/machine.h"
#include "support/ptx/tensor_map.h"
#include "support/ptx/values.h"

namespace {

enum Result {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  no_device = 100,
  invalid_device = 101,
  invalid_image = 200,
  no_binary = 209,
  invalid_ptx = 218,
  invalid_context = 201,
  invalid_handle = 400,
  not_found = 500,
  not_ready = 600,
  launch_failed = 719,
  not_supported = 801,
  capture_unsupported = 900,
};

constexpr size_t space = size_t{1} << 36;  // of addresses; memory is taken as it is touched
constexpr size_t alignment = 256;

using Queues = hologram::null::LateQueues;
using Queue = Queues::Queue;

class Device;

struct LoadedModule {
  Device* device = nullptr;
  std::string text;
  ptx::Module module;
  uint64_t globals = 0;
};

struct Function {
  std::shared_ptr<LoadedModule> owner;
  const ptx::Kernel* kernel;
  int64_t most_dynamic;  ///< bytes of shared memory that a launch may add
};

// What is one for all devices: what tests ask for, and memory of the host that devices see.
class Common {
 public:
  static Common& instance() {
    static auto* const common = new Common;
    return *common;
  }

  void pin(void* p, size_t bytes) {
    std::lock_guard lock(mutex_);
    pinned_[reinterpret_cast<uint64_t>(p)] = bytes;
  }
  bool unpin(void* p) {
    std::lock_guard lock(mutex_);
    return pinned_.erase(reinterpret_cast<uint64_t>(p)) == 1;
  }
  uint8_t* find_pinned(uint64_t address, size_t bytes) {
    std::lock_guard lock(mutex_);
    auto it = pinned_.upper_bound(address);
    if (it == pinned_.begin()) return nullptr;
    --it;
    if (address + bytes > it->first + it->second) return nullptr;
    return reinterpret_cast<uint8_t*>(address);
  }

  int64_t injected(const std::string& what, int64_t otherwise) {
    std::lock_guard lock(mutex_);
    auto it = injected_.find(what);
    return it == injected_.end() ? otherwise : it->second;
  }
  // Whether it is this one's turn to fail.
  bool strikes(const std::string& what) {
    std::lock_guard lock(mutex_);
    auto it = injected_.find(what);
    return it != injected_.end() && it->second-- == 0;
  }
  // How many have not had their turn.
  int64_t pending() {
    std::lock_guard lock(mutex_);
    return std::ranges::count_if(injected_, [](const auto& i) { return i.second >= 0; });
  }
  void inject(const std::string& what, int64_t value) {
    std::lock_guard lock(mutex_);
    if (what == "nothing")
      injected_.clear();
    else
      injected_[what] = value;
  }

  std::string report() {
    std::lock_guard lock(mutex_);
    return report_;
  }
  void set_report(const std::string& text) {
    std::lock_guard lock(mutex_);
    report_ = text;
  }

  std::atomic<int64_t> waits{0}, cubins{0}, graphs{0}, patches{0}, edges{0}, roots{0}, pinned{0},
      maps{0}, fills{0}, allocations{0};

 private:
  std::mutex mutex_;
  std::map<uint64_t, size_t> pinned_;
  std::map<std::string, int64_t> injected_;
  std::string report_ = "unspecified launch failure";
};

Common& common() { return Common::instance(); }

// A device, its context too: addresses, memory and streams of its own.
class Device final : public ptx::Blocks {
 public:
  static constexpr int most = 2;
  static Device& number(int n) {
    static Device* const all[most] = {new Device(0), new Device(1)};
    return *all[n];
  }
  // Whose memory it is; null: the host's.
  static Device* of(uint64_t address) {
    for (int n = 0; n < most; ++n)
      if (number(n).contains(address)) return &number(n);
    return nullptr;
  }

  uint8_t* find(uint64_t address, size_t bytes) override {
    if (!contains(address)) return common().find_pinned(address, bytes);
    std::lock_guard lock(mutex_);
    const uint64_t offset = address - reinterpret_cast<uint64_t>(addresses_);
    auto it = used_.upper_bound(offset);
    if (it == used_.begin()) return nullptr;
    --it;
    if (offset + bytes > it->first + it->second) return nullptr;
    return bytes_ + offset;
  }

  bool contains(uint64_t address) const {
    const auto base = reinterpret_cast<uint64_t>(addresses_);
    return address >= base && address < base + space;
  }

  // 0: no room.
  uint64_t allocate(size_t bytes) {
    const size_t size = (std::max<size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
    std::lock_guard lock(mutex_);
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      if (it->second < size) continue;
      const auto [offset, room] = *it;
      free_.erase(it);
      if (room > size) free_[offset + size] = room - size;
      used_[offset] = bytes;
      std::memset(bytes_ + offset, 0xcb, size);
      return reinterpret_cast<uint64_t>(addresses_) + offset;
    }
    return 0;
  }

  bool release(uint64_t address) {
    std::lock_guard lock(mutex_);
    size_t offset = address - reinterpret_cast<uint64_t>(addresses_);
    auto it = used_.find(offset);
    if (it == used_.end()) return false;
    size_t size = (std::max<size_t>(it->second, 1) + alignment - 1) / alignment * alignment;
    used_.erase(it);
    std::memset(bytes_ + offset, 0xcd, size);
    auto next = free_.lower_bound(offset);
    if (next != free_.end() && next->first == offset + size) {
      size += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin())
      if (auto before = std::prev(next); before->first + before->second == offset) {
        before->second += size;
        return true;
      }
    free_[offset] = size;
    return true;
  }

  // Also between devices.
  static void copy(uint64_t to, uint64_t from, size_t bytes) {
    std::memmove(host(to), host(from), bytes);
  }

  Queues& queues() { return queues_; }
  /// What fails is told of by the next wait; work behind it is done all the same.
  void push(Queue* q, Queues::Work work) { queues_.push(q, std::move(work), true); }

  int run(const Function& f, ptx::Dim3 grid, ptx::Dim3 block,
          const std::vector<uint8_t>& parameters, int64_t shared_bytes) {
    try {
      machine_.run({*f.kernel, grid, block, parameters, shared_bytes});
      return success;
    } catch (const ptx::Fault& fault) {
      common().set_report(std::string("unspecified launch failure: ") + fault.what());
      return launch_failed;
    }
  }

  int64_t capability() const {
    return common().injected("capability" + std::to_string(number_),
                             common().injected("capability", 80));
  }
  /// As assemblers call it.
  std::string gpu() const {
    return "sm_" + std::to_string(capability()) + (capability() == 90 ? "a" : "");
  }
  /// Whether PTX for this target runs here: "sm_80" on what is later, "sm_90a" on 9.0 alone.
  bool runs(const std::string& target) const {
    return target.ends_with('a') ? target == gpu() : std::atoi(target.c_str() + 3) <= capability();
  }
  /// Bytes of shared memory that a CTA may have.
  int64_t most_shared() const { return (capability() >= 90 ? 227 : 163) << 10; }
  int number() const { return number_; }

  int64_t count(const std::string& what) {
    std::lock_guard lock(mutex_);
    return what == "launches"       ? launches.load()
           : what == "instructions" ? static_cast<int64_t>(machine_.executed())
                                    : static_cast<int64_t>(used_.size());
  }

  std::atomic<int64_t> launches{0};

 private:
  explicit Device(int number) : number_(number), machine_(*this, 1) {
    auto map = [](int protection) {
      return static_cast<uint8_t*>(
          mmap(nullptr, space, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    };
    addresses_ = map(PROT_NONE);
    bytes_ = map(PROT_READ | PROT_WRITE);
    free_[0] = space;
  }

  static uint8_t* host(uint64_t p) {
    Device* d = of(p);
    return d ? d->bytes_ + (p - reinterpret_cast<uint64_t>(d->addresses_))
             : reinterpret_cast<uint8_t*>(p);
  }

  const int number_;
  std::mutex mutex_;
  uint8_t *addresses_ = nullptr, *bytes_ = nullptr;
  std::map<size_t, size_t> used_, free_;  // offset → bytes
  Queues queues_;
  ptx::Machine machine_;
};

thread_local Device* current = nullptr;

struct Graph;

struct Stream {
  Device* device;
  Queue* queue;
  Graph* capture = nullptr;  // what its work is recorded in
};

// A kernel's launch as it is kept until it runs.
struct KernelWork {
  Function kernel;
  ptx::Dim3 grid, block;
  std::vector<uint8_t> parameters;
  int64_t shared_bytes = 0;
};

// A kernel that was added to a graph, behind others.
struct Node {
  std::vector<const Node*> after;
  KernelWork work;
};
struct Graph {
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<Queues::Work> captured;
};
struct GraphExec {
  std::map<const Node*, Node> nodes;
};

// Of a stream's device or, for null, of the current one; null: there is none.
Device* device_of(const Stream* s) { return s ? s->device : current; }
Queue* queue_of(const Stream* s) { return s ? s->queue : nullptr; }

// Puts work on a stream; an error without a context.
int push(Stream* s, Queues::Work work) {
  Device* d = device_of(s);
  if (!d) return invalid_context;
  if (s && s->capture) {
    s->capture->captured.push_back(std::move(work));
    return success;
  }
  d->push(queue_of(s), std::move(work));
  return success;
}

// How many streams are captured: what would wait or allocate is forbidden on every thread.
std::atomic<int> captures{0};

Queues::Work work_of(Device* d, KernelWork work) {
  ++d->launches;
  const bool fails = common().strikes("kernel");
  return [=, work = std::move(work)] {
    if (!fails)
      return d->run(work.kernel, work.grid, work.block, work.parameters, work.shared_bytes);
    common().set_report("unspecified launch failure");
    return static_cast<int>(launch_failed);
  };
}

KernelWork kernel_work(const Function& f, ptx::Dim3 grid, ptx::Dim3 block, void** parameters,
                       unsigned shared_bytes) {
  KernelWork work{f, grid, block, {}, shared_bytes};
  work.parameters.resize(static_cast<size_t>(f.kernel->parameter_bytes));
  for (size_t k = 0; k < f.kernel->parameters.size(); ++k)
    std::memcpy(work.parameters.data() + f.kernel->places[k], parameters[k],
                static_cast<size_t>(f.kernel->parameters[k]));
  return work;
}

KernelWork kernel_work(const hologram::cuda::CuKernelNode& n) {
  return kernel_work(*reinterpret_cast<const Function*>(n.function),
                     {n.grid[0], n.grid[1], n.grid[2]}, {n.block[0], n.block[1], n.block[2]},
                     n.parameters, n.shared_bytes);
}

// The nodes in an order left to chance in which each is behind those that it follows.
std::vector<const Node*> any_order(const GraphExec& exec) {
  static std::minstd_rand chance;
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  std::vector<const Node*> order;
  std::set<const Node*> done;
  while (order.size() < exec.nodes.size()) {
    std::vector<const Node*> ready;
    for (const auto& [key, node] : exec.nodes)
      if (!done.contains(key) &&
          std::ranges::all_of(node.after, [&](const Node* n) { return done.contains(n); }))
        ready.push_back(key);
    const Node* next = ready[chance() % ready.size()];
    done.insert(next);
    order.push_back(next);
  }
  return order;
}

int devices() { return static_cast<int>(common().injected("devices", 1)); }

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default"))) int

extern "C" __attribute__((visibility("default"))) void fakecuda_inject(const char* what,
                                                                       int64_t value) {
  common().inject(what, value);
}
extern "C" __attribute__((visibility("default"))) int64_t fakecuda_count(const char* what) {
  const std::string word = what;
  if (word == "waits") return common().waits;
  if (word == "cubins") return common().cubins;
  if (word == "graphs") return common().graphs;
  if (word == "patches") return common().patches;
  if (word == "edges") return common().edges;
  if (word == "roots") return common().roots;
  if (word == "fills") return common().fills;
  if (word == "injected") return common().pending();
  if (word == "pinned") return common().pinned;
  if (word == "maps") return common().maps;
  if (word == "allocations") return common().allocations;
  if (word.back() == '0' || word.back() == '1')
    return Device::number(word.back() - '0').count(word.substr(0, word.size() - 1));
  int64_t sum = 0;
  for (int n = 0; n < Device::most; ++n) sum += Device::number(n).count(word);
  return sum;
}

EXPORT cuInit(unsigned) { return static_cast<int>(common().injected("init", success)); }
EXPORT cuDriverGetVersion(int* version) {
  *version = static_cast<int>(common().injected("version", 12040));
  return success;
}
EXPORT cuDeviceGetCount(int* count) {
  *count = devices();
  return success;
}
EXPORT cuDeviceGet(int* out, int number) {
  *out = number;
  return number >= 0 && number < devices() ? success : invalid_device;
}
EXPORT cuDeviceGetAttribute(int* value, int attribute, int device) {
  if (device < 0 || device >= Device::most) return invalid_device;
  const auto capability = static_cast<int>(Device::number(device).capability());
  *value = attribute == 75 ? capability / 10 : attribute == 76 ? capability % 10 : 4;
  return success;
}
EXPORT cuDeviceGetName(char* name, int room, int device) {
  std::snprintf(name, static_cast<size_t>(room), "Fake GPU %d", device);
  return success;
}
EXPORT cuDeviceTotalMem_v2(size_t* bytes, int device) {
  if (device < 0 || device >= Device::most) return invalid_device;
  *bytes = space / 2;
  return success;
}
EXPORT cuDevicePrimaryCtxRetain(Device** context, int device) {
  if (device < 0 || device >= Device::most) return invalid_device;
  *context = &Device::number(device);
  return success;
}
EXPORT cuCtxSetCurrent(Device* context) {
  current = context;
  return success;
}
EXPORT cuCtxGetCurrent(Device** context) {
  *context = current;
  return success;
}
EXPORT cuCtxSynchronize() {
  return current ? current->queues().wait_for_all() : static_cast<int>(invalid_context);
}

EXPORT cuMemAllocAsync(uint64_t* block, size_t bytes, Stream* stream) {
  Device* d = device_of(stream);
  if (!d) return invalid_context;
  if (captures > 0) return capture_unsupported;  // a node of the graph, which nobody here wants
  if (common().strikes("allocate") || bytes > space / 2) return out_of_memory;
  *block = d->allocate(bytes);
  ++common().allocations;
  return *block ? success : out_of_memory;
}
EXPORT cuMemFreeAsync(uint64_t block, Stream* stream) {
  Device* d = Device::of(block);
  if (!d || d != device_of(stream)) return invalid_value;
  return push(stream, [=] { return d->release(block) ? success : invalid_value; });
}
EXPORT cuMemHostAlloc(void** block, size_t bytes, unsigned) {
  if (!current) return invalid_context;
  if (captures > 0) return capture_unsupported;
  if (common().strikes("pin")) return out_of_memory;
  ++common().pinned;
  *block = ::operator new (bytes, std::align_val_t{64});
  common().pin(*block, bytes);
  return success;
}
EXPORT cuMemFreeHost(void* block) {
  if (!common().unpin(block)) return invalid_value;
  ::operator delete (block, std::align_val_t{64});
  return success;
}
EXPORT cuMemHostGetDevicePointer_v2(uint64_t* to, void* host, unsigned) {
  *to = reinterpret_cast<uint64_t>(host);
  return success;
}
EXPORT cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, Stream* stream) {
  for (uint64_t p : {to, from})
    if (Device* d = Device::of(p); d && !d->find(p, bytes)) return invalid_value;
  return push(stream, [=] {
    Device::copy(to, from, bytes);
    return success;
  });
}
int fill(uint64_t to, const void* element, size_t size, size_t count, Stream* stream) {
  const size_t bytes = size * count;
  Device* d = Device::of(to);
  if (!d || !d->find(to, bytes) || to % size != 0) return invalid_value;
  ++common().fills;
  std::vector<std::byte> values(bytes);
  for (size_t k = 0; k < bytes; k += size) std::memcpy(values.data() + k, element, size);
  return push(stream, [to, values = std::move(values)] {
    Device::copy(to, reinterpret_cast<uint64_t>(values.data()), values.size());
    return success;
  });
}
EXPORT cuMemsetD8Async(uint64_t to, unsigned char value, size_t count, Stream* stream) {
  return fill(to, &value, sizeof value, count, stream);
}
EXPORT cuMemsetD16Async(uint64_t to, unsigned short value, size_t count, Stream* stream) {
  return fill(to, &value, sizeof value, count, stream);
}
EXPORT cuMemsetD32Async(uint64_t to, unsigned value, size_t count, Stream* stream) {
  return fill(to, &value, sizeof value, count, stream);
}
EXPORT cuPointerGetAttribute(void* value, int attribute, uint64_t p) {
  const Device* d = Device::of(p);
  if (!d && !common().find_pinned(p, 1)) return invalid_value;
  if (attribute == 9)
    *static_cast<int*>(value) = d ? d->number() : 0;
  else
    *static_cast<unsigned*>(value) = d ? 2 : 1;
  return success;
}
EXPORT cuStreamCreate(Stream** stream, unsigned) {
  if (!current) return invalid_context;
  *stream = new Stream{current, current->queues().make()};
  return success;
}
EXPORT cuStreamDestroy_v2(Stream* stream) {
  stream->device->queues().free(stream->queue);
  delete stream;
  return success;
}
EXPORT cuStreamSynchronize(Stream* stream) {
  Device* d = device_of(stream);
  if (!d) return invalid_context;
  ++common().waits;
  if (stream && stream->capture) return capture_unsupported;
  return d->queues().wait(queue_of(stream));
}
EXPORT cuLaunchHostFunc(Stream* stream, void (*call)(void*), void* data) {
  return push(stream, [=] {
    call(data);
    return success;
  });
}

EXPORT cuModuleLoadData(std::shared_ptr<LoadedModule>** module, const void* image) {
  if (!current) return invalid_context;
  if (captures > 0) return capture_unsupported;
  auto m = std::make_shared<LoadedModule>();
  m->device = current;
  const auto* contents = static_cast<const char*>(image);
  if (contents[0] == '\x7f') {
    auto text = ptx::from_fake_cubin(contents, current->gpu());
    if (!text) return invalid_image;
    m->text = std::move(*text);
    ++common().cubins;
  } else {
    m->text = contents;
  }
  try {
    m->module = ptx::read(m->text, 0);
    if (!current->runs(m->module.target)) return no_binary;
    if (const int64_t bytes = m->module.global_bytes) {
      m->globals = current->allocate(static_cast<size_t>(bytes));
      m->module = ptx::read(m->text, m->globals);
      for (auto& [name, v] : m->module.globals) {
        if (v.space == ptx::Space::shared) continue;
        uint8_t* at = current->find(m->globals + static_cast<uint64_t>(v.offset),
                                    static_cast<size_t>(v.bytes));
        std::fill_n(at, v.bytes, uint8_t{0});
        std::copy(v.init.begin(), v.init.end(), at);
      }
    }
    for (auto& [name, kernel] : m->module.kernels)
      for (ptx::Instr& i : kernel.code) i.code = ptx::code_of(i);
  } catch (const ptx::Fault& fault) {
    common().set_report(std::string("a PTX JIT compilation failed: ") + fault.what());
    return invalid_ptx;
  }
  *module = new std::shared_ptr<LoadedModule>(std::move(m));
  return success;
}
EXPORT cuModuleUnload(std::shared_ptr<LoadedModule>* module) {
  if (current != (*module)->device) return invalid_context;
  if ((*module)->globals) current->release((*module)->globals);
  delete module;
  return success;
}
EXPORT cuModuleGetFunction(Function** function, std::shared_ptr<LoadedModule>* module,
                           const char* name) {
  auto it = (*module)->module.kernels.find(name);
  if (it == (*module)->module.kernels.end()) return not_found;
  // Lives as long as the process: a few bytes.
  *function = new Function{*module, &it->second, (int64_t{48} << 10) - it->second.own_shared_bytes};
  return success;
}
EXPORT cuLaunchKernel(Function* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                      unsigned bz, unsigned shared, Stream* stream, void** parameters, void**) {
  if (common().strikes("launch")) {
    common().set_report("too many resources requested for launch");
    return 701;
  }
  if (!gx || !gy || !gz || !bx || !by || !bz || shared > f->most_dynamic) return invalid_value;
  Device* d = f->owner->device;
  if (current != d || device_of(stream) != d) return invalid_handle;
  return push(stream, work_of(d, kernel_work(*f, {gx, gy, gz}, {bx, by, bz}, parameters, shared)));
}
EXPORT cuFuncSetAttribute(Function* f, int attribute, int value) {
  constexpr int max_dynamic_shared = 8;
  if (attribute != max_dynamic_shared || value < 0) return invalid_value;
  if (value + f->kernel->own_shared_bytes > f->owner->device->most_shared()) return invalid_value;
  f->most_dynamic = value;
  return success;
}
EXPORT cuTensorMapEncodeTiled(void* map, int type, unsigned rank, void* address,
                              const uint64_t* sizes, const uint64_t* strides, const unsigned* box,
                              const unsigned* steps, int interleave, int swizzle, int, int fill) {
  static constexpr uint8_t bytes_of[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2};
  static constexpr uint8_t patterns[] = {0, 32, 64, 128};
  if (!current) return invalid_context;
  if (current->capability() < 90) return not_supported;
  if (type < 0 || type > 9 || rank < 1 || rank > 5 || interleave != 0 || swizzle < 0 ||
      swizzle > 3 || fill != 0 || reinterpret_cast<uint64_t>(map) % 128 != 0)
    return invalid_value;
  ptx::TensorMap m;
  m.address = reinterpret_cast<uint64_t>(address);
  m.rank = static_cast<uint8_t>(rank), m.element = bytes_of[type], m.swizzle = patterns[swizzle];
  bool legal = m.address % 16 == 0;
  for (unsigned d = 0; d < rank; ++d) {
    legal = legal && sizes[d] >= 1 && sizes[d] <= uint64_t{1} << 32 && box[d] >= 1 &&
            box[d] <= 256 && steps[d] == 1;
    m.last[d] = static_cast<uint32_t>(sizes[d] - 1);
    m.box[d] = static_cast<uint16_t>(box[d]);
    if (d == 0) continue;
    const uint64_t stride = strides[d - 1];
    legal = legal && stride % 16 == 0 && stride > 0 && stride < uint64_t{1} << 40;
    m.low[d - 1] = static_cast<uint32_t>(stride / 16);
    m.high[d - 1] = static_cast<uint16_t>(stride / 16 >> 32);
  }
  const unsigned row = box[0] * m.element;
  if (!legal || row % 16 != 0 || (m.swizzle && row > m.swizzle)) return invalid_value;
  std::memset(map, 0, 128);
  std::memcpy(map, &m, sizeof m);
  ++common().maps;
  return success;
}
EXPORT cuTensorMapReplaceAddress(void* map, void* address) {
  const auto p = reinterpret_cast<uint64_t>(address);
  if (p % 16 != 0) return invalid_value;
  std::memcpy(map, &p, sizeof p);
  return success;
}

EXPORT cuEventCreate(hologram::null::LateEvent** event, unsigned) {
  if (!current) return invalid_context;
  *event = new hologram::null::LateEvent;
  return success;
}
EXPORT cuEventDestroy_v2(hologram::null::LateEvent* event) {
  delete event;
  return success;
}
EXPORT cuEventRecord(hologram::null::LateEvent* event, Stream* stream) {
  Device* d = device_of(stream);
  if (!d) return invalid_context;
  event->record(d->queues(), queue_of(stream));
  return success;
}
EXPORT cuStreamWaitEvent(Stream* stream, hologram::null::LateEvent* event, unsigned) {
  Device* d = device_of(stream);
  if (!d) return invalid_context;
  event->hold_up(d->queues(), queue_of(stream));
  return success;
}
EXPORT cuEventQuery(hologram::null::LateEvent* event) {
  return event->reached() ? success : not_ready;
}
EXPORT cuEventSynchronize(hologram::null::LateEvent* event) {
  while (!event->reached()) std::this_thread::sleep_for(std::chrono::microseconds(20));
  return success;
}

EXPORT cuStreamIsCapturing(Stream* stream, int* status) {
  *status = stream && stream->capture ? 1 : 0;
  return success;
}
EXPORT cuStreamBeginCapture_v2(Stream* stream, int) {
  stream->capture = new Graph;
  ++captures;
  return success;
}
EXPORT cuStreamEndCapture(Stream* stream, Graph** graph) {
  *graph = std::exchange(stream->capture, nullptr);
  --captures;
  return success;
}
extern "C" __attribute__((visibility("default"))) void fakecuda_replay(void* graph, void* stream) {
  for (const Queues::Work& work : static_cast<Graph*>(graph)->captured)
    push(static_cast<Stream*>(stream), work);
}

EXPORT cuGraphCreate(Graph** graph, unsigned) {
  *graph = new Graph;
  return success;
}
EXPORT cuGraphDestroy(Graph* graph) {
  delete graph;
  return success;
}
EXPORT cuGraphAddKernelNode_v2(Node** node, Graph* graph, Node* const* after, size_t num_after,
                               const hologram::cuda::CuKernelNode* kernel) {
  std::vector<const Node*> kept;
  for (const Node* n : std::span(after, num_after))
    if (!common().strikes("edge")) kept.push_back(n);
  common().edges += static_cast<int64_t>(kept.size());
  common().roots += num_after == 0;
  graph->nodes.push_back(std::make_unique<Node>(Node{std::move(kept), kernel_work(*kernel)}));
  *node = graph->nodes.back().get();
  return success;
}
EXPORT cuGraphInstantiateWithFlags(GraphExec** exec, Graph* graph, unsigned long long) {
  if (common().strikes("instantiate")) return out_of_memory;
  if (captures > 0) return capture_unsupported;
  auto made = std::make_unique<GraphExec>();
  for (const auto& node : graph->nodes) made->nodes.emplace(node.get(), *node);
  *exec = made.release();
  return success;
}
EXPORT cuGraphExecDestroy(GraphExec* exec) {
  delete exec;
  return success;
}
EXPORT cuGraphExecKernelNodeSetParams_v2(GraphExec* exec, Node* node,
                                         const hologram::cuda::CuKernelNode* kernel) {
  auto place = exec->nodes.find(node);
  if (place == exec->nodes.end() || common().strikes("patch")) return invalid_value;
  place->second.work = kernel_work(*kernel);
  ++common().patches;
  return success;
}
EXPORT cuGraphLaunch(GraphExec* exec, Stream* stream) {
  if (common().strikes("graph")) return out_of_memory;
  Device* d = device_of(stream);
  if (!d || current != d) return invalid_context;
  ++common().graphs;
  for (const Node* node : any_order(*exec))
    if (const int pushed = push(stream, work_of(d, exec->nodes.at(node).work))) return pushed;
  return success;
}
EXPORT cuGetErrorString(int error, const char** text) {
  thread_local std::string words;
  words = error == out_of_memory     ? "out of memory"
          : error == no_device       ? "no CUDA-capable device is detected"
          : error == invalid_device  ? "invalid device ordinal"
          : error == invalid_value   ? "invalid argument"
          : error == invalid_context ? "invalid device context"
          : error == invalid_handle  ? "invalid resource handle"
          : error == not_found       ? "named symbol not found"
          : error == invalid_image   ? "device kernel image is invalid"
          : error == no_binary       ? "no kernel image is available for execution on the device"
          : error == not_supported   ? "operation not supported"
          : error == capture_unsupported ? "operation not permitted when stream is capturing"
                                         : common().report();
  *text = words.c_str();
  return success;
}

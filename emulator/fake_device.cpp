// emulator/fake_device.cpp: memory and contexts of the fake libcuda's devices.
#include "emulator/fake_device.h"

#include <sys/mman.h>

#include <cstring>
#include <set>
#include <utility>

#include "emulator/fake_kernels.h"

namespace fakecuda {
namespace {

constexpr size_t alignment = 256;

size_t rounded(size_t bytes) {
  return (std::max<size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
}

}  // namespace

Common& common() {
  static auto* const one = new Common;
  return *one;
}

Device*& current() {
  thread_local Device* device = nullptr;
  return device;
}

Device& Device::number(int n) {
  static Device* const all[most] = {new Device(0), new Device(1)};
  return *all[n];
}

Device* Device::of(uint64_t address) {
  for (int n = 0; n < most; ++n)
    if (number(n).contains(address)) return &number(n);
  return nullptr;
}

Device::Device(int number) : number_(number), machine_(*this, 1) {
  auto map = [](int protection) {
    return static_cast<uint8_t*>(
        mmap(nullptr, space, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  };
  addresses_ = map(PROT_NONE);
  bytes_ = map(PROT_READ | PROT_WRITE);
  free_.add(0, space);
}

uint8_t* Device::host(uint64_t p) {
  Device* d = of(p);
  return d ? d->bytes_ + (p - reinterpret_cast<uint64_t>(d->addresses_))
           : reinterpret_cast<uint8_t*>(p);
}

uint8_t* Device::find(uint64_t address, size_t bytes) {
  if (!contains(address)) return common().find_pinned(address, bytes);
  std::lock_guard lock(mutex_);
  const uint64_t offset = address - reinterpret_cast<uint64_t>(addresses_);
  auto it = used_.upper_bound(offset);
  if (it == used_.begin()) return nullptr;
  --it;
  if (offset + bytes > it->first + it->second) return nullptr;
  return bytes_ + offset;
}

uint64_t Device::allocate(size_t bytes) {
  const size_t size = rounded(bytes);
  std::lock_guard lock(mutex_);
  const auto offset = free_.take(size);
  if (!offset) return 0;
  used_[*offset] = bytes;
  used_bytes_ += size;
  if (used_bytes_ > reserved_) reserved_ = used_bytes_, ++grown_;
  std::memset(bytes_ + *offset, 0xcb, size);
  return reinterpret_cast<uint64_t>(addresses_) + *offset;
}

bool Device::release(uint64_t address) {
  std::lock_guard lock(mutex_);
  size_t offset = address - reinterpret_cast<uint64_t>(addresses_);
  auto it = used_.find(offset);
  if (it == used_.end()) return false;
  size_t size = rounded(it->second);
  used_.erase(it);
  used_bytes_ -= size;
  std::memset(bytes_ + offset, 0xcd, size);
  free_.add(offset, size);
  return true;
}

uint64_t Device::reserved() {
  std::lock_guard lock(mutex_);
  return reserved_;
}

void Device::set_threshold(uint64_t bytes) { threshold_ = bytes; }

void Device::trim(uint64_t kept) {
  std::lock_guard lock(mutex_);
  reserved_ = std::min(reserved_, std::max(used_bytes_, kept));
}

void Device::copy(uint64_t to, uint64_t from, size_t bytes) {
  std::memmove(host(to), host(from), bytes);
}

void Device::push(Queue* q, Queues::Work work) {
  queues_.push(
      q, [this, work = std::move(work)] { return broken_ ? success : work(); }, true);
}

int Device::breaks(int error, const std::string& report) {
  common().set_report(report);
  broken_ = error;
  return error;
}

int Device::run(const Function& f, ptx::Dim3 grid, ptx::Dim3 block,
                const std::vector<uint8_t>& parameters, int64_t shared_bytes) {
  try {
    machine_.run({*f.kernel, grid, block, parameters, shared_bytes});
    return success;
  } catch (const ptx::Fault& fault) {
    return breaks(launch_failed, std::string("unspecified launch failure: ") + fault.what());
  }
}

int64_t Device::capability() const {
  return common().injected("capability" + std::to_string(number_),
                           common().injected("capability", 80));
}

int64_t Device::count(const std::string& what) {
  std::lock_guard lock(mutex_);
  return what == "launches"       ? launches.load()
         : what == "reserved"     ? static_cast<int64_t>(reserved_)
         : what == "grown"        ? grown_
         : what == "instructions" ? static_cast<int64_t>(machine_.executed())
                                  : static_cast<int64_t>(used_.size());
}

namespace {

struct Captures {
  std::mutex mutex;
  std::set<Stream*> streams;
};
Captures& captures() {
  static auto* const all = new Captures;
  return *all;
}

}  // namespace

int forbidden_in_captures() {
  std::lock_guard lock(captures().mutex);
  for (Stream* s : captures().streams) s->spoilt = true;
  return captures().streams.empty() ? success : capture_unsupported;
}

bool capturing() {
  std::lock_guard lock(captures().mutex);
  return !captures().streams.empty();
}

void begin_capture(Stream* s) {
  std::lock_guard lock(captures().mutex);
  s->capture = new Graph;
  s->spoilt = false;
  captures().streams.insert(s);
}

Graph* end_capture(Stream* s) {
  std::lock_guard lock(captures().mutex);
  captures().streams.erase(s);
  Graph* const graph = std::exchange(s->capture, nullptr);
  return s->spoilt ? nullptr : graph;
}

int push(Stream* s, Queues::Work work) {
  Device* d = device_of(s);
  if (const int no = refused(d)) return no;
  if (s && s->capture) {
    if (s->spoilt) return capture_invalidated;
    s->capture->captured.push_back(std::move(work));
    return success;
  }
  d->push(queue_of(s), std::move(work));
  return success;
}

}  // namespace fakecuda

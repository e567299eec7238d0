// backend/cuda/faults.cpp: words that kernels store faults into and the host sees.
#include "backend/cuda/faults.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

namespace hologram::cuda {

struct Faults::Words {
  volatile int32_t* host = nullptr;
  CuPointer device = 0;
  const DeviceContext* owner = nullptr;
  std::atomic<int32_t>* sticky = nullptr;
  bool captured = false;
};

// Words are kept while the process lives; a page of them is pinned at a time.
struct Faults::Pool {
  std::mutex mutex;
  std::vector<Words*> free;

  Words* take(const DeviceContext& device) {
    std::lock_guard lock(mutex);
    auto place = find(device);
    if (place == free.end()) {
      add(device);
      place = find(device);
    }
    Words* const found = *place;
    free.erase(place);
    return found;
  }
  void stock(const DeviceContext& device) {
    std::lock_guard lock(mutex);
    if (find(device) == free.end()) add(device);
  }
  std::vector<Words*>::iterator find(const DeviceContext& device) {
    return std::ranges::find(free, &device, &Words::owner);
  }
  void add(const DeviceContext& device) {
    constexpr size_t page = 4096, bytes = words * sizeof(int32_t);
    void* host = nullptr;
    CuPointer there = 0;
    const Driver& d = device.driver;
    d.require(d.host_allocate(&host, page, cu_host_portable_mapped), "allocating words for faults");
    d.require(d.device_pointer(&there, host, 0), "mapping words for faults");
    std::memset(host, 0, page);
    for (size_t at = 0; at < page; at += bytes)
      free.push_back(new Words{reinterpret_cast<int32_t*>(static_cast<char*>(host) + at),
                               there + at, &device});
  }
  void give(Words* w) {
    std::lock_guard lock(mutex);
    free.push_back(w);
  }
};

Faults::Pool& Faults::pool() {
  static auto* const p = new Pool;
  return *p;
}

Faults::Faults(const DeviceContext& device) : device_(device) {
  const Current here(device);
  words_ = pool().take(device);
}

void Faults::stock(const DeviceContext& device) {
  const Current here(device);
  pool().stock(device);
}

CuPointer Faults::address() const { return words_->device; }

int32_t Faults::bits_of(const Words& w) {
  int32_t bits = 0;
  for (int k = 0; k < words; ++k) {
    if (w.host[k] == 0) continue;
    bits |= 1 << k;
    w.host[k] = 0;
  }
  return bits;
}

int32_t Faults::take() { return bits_of(*words_); }

void Faults::read(void* data) {
  auto* w = static_cast<Words*>(data);
  const int32_t bits = bits_of(*w);
  if (bits && w->sticky) w->sticky->fetch_or(bits, std::memory_order_relaxed);
  if (!w->captured) pool().give(w);
}

void Faults::collect(CuStream stream, std::atomic<int32_t>* sticky, bool captured) {
  words_->sticky = sticky;
  words_->captured = captured;
  device_.driver.require(device_.driver.call_host(stream, read, words_),
                         "reading the words of faults");
  words_ = nullptr;
}

// Words that kernels may still write to are not used again.
Faults::~Faults() = default;

}  // namespace hologram::cuda

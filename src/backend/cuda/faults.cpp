// backend/cuda/faults.cpp: words that kernels store faults into and the host sees.
#include "backend/cuda/faults.h"

#include <mutex>
#include <vector>

namespace hologram::cuda {

struct Faults::Words {
  volatile int32_t* host = nullptr;
  CuPointer device = 0;
  const DeviceContext* owner = nullptr;
  std::atomic<int32_t>* sticky = nullptr;
};

// Words are kept while the process lives.
struct Faults::Pool {
  std::mutex mutex;
  std::vector<Words*> free;

  Words* take(const DeviceContext& device) {
    {
      std::lock_guard lock(mutex);
      for (size_t k = free.size(); k-- > 0;)
        if (free[k]->owner == &device) {
          Words* found = free[k];
          free.erase(free.begin() + static_cast<std::ptrdiff_t>(k));
          return found;
        }
    }
    auto made = std::make_unique<Words>();
    void* host = nullptr;
    const Driver& d = device.driver;
    d.require(d.host_allocate(&host, words * sizeof(int32_t), cu_host_portable_mapped),
              "allocating words for faults");
    d.require(d.device_pointer(&made->device, host, 0), "mapping words for faults");
    made->host = static_cast<int32_t*>(host);
    for (int k = 0; k < words; ++k) made->host[k] = 0;
    made->owner = &device;
    return made.release();
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
  pool().give(w);
}

void Faults::collect(CuStream stream, std::atomic<int32_t>* sticky) {
  words_->sticky = sticky;
  device_.driver.require(device_.driver.call_host(stream, read, words_),
                         "reading the words of faults");
  words_ = nullptr;
}

// Words that kernels may still write to are not used again.
Faults::~Faults() = default;

}  // namespace hologram::cuda

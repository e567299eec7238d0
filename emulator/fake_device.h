// emulator/fake_device.h: the devices of the fake libcuda: their memory, contexts and
// streams, and the work that is put on these.
//
// A device's memory stands at addresses that nobody can read or write; the bytes are elsewhere.
// Streams are late queues. What is freed is overwritten. A kernel that fails breaks the context:
// from then on every call gives its error, and what is under way is left out.
#pragma once

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/null/late_events.h"
#include "base/free_ranges.h"
#include "emulator/machine.h"

#define EXPORT extern "C" __attribute__((visibility("default"))) int

namespace fakecuda {

/// Of cuda.h.
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
  out_of_resources = 701,
  launch_failed = 719,
  not_supported = 801,
  capture_unsupported = 900,
  capture_invalidated = 901,
};

inline constexpr size_t space = size_t{1} << 36;  // of addresses; memory is taken as it is touched

using Queues = hologram::null::LateQueues;
using Queue = Queues::Queue;

class Device;

struct LoadedModule {
  Device* device = nullptr;
  std::string text;
  ptx::Module module;
  uint64_t globals = 0;
  std::atomic<bool> unloaded = false;
};

struct Function {
  std::shared_ptr<LoadedModule> owner;
  const ptx::Kernel* kernel;
  int64_t most_dynamic;  ///< bytes of shared memory that a launch may add
};

/// What is one for all devices: what tests ask for, and memory of the host that devices see.
class Common {
 public:
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
      maps{0}, fills{0}, allocations{0}, to_host{0}, to_device{0}, within{0}, modules{0};

 private:
  std::mutex mutex_;
  std::map<uint64_t, size_t> pinned_;
  std::map<std::string, int64_t> injected_;
  std::string report_ = "unspecified launch failure";
};
Common& common();

/// A device, its context too: addresses, memory and streams of its own.
class Device final : public ptx::Blocks {
 public:
  static constexpr int most = 2;
  static Device& number(int n);
  /// Whose memory it is; null: the host's.
  static Device* of(uint64_t address);

  uint8_t* find(uint64_t address, size_t bytes) override;
  bool contains(uint64_t address) const {
    const auto base = reinterpret_cast<uint64_t>(addresses_);
    return address >= base && address < base + space;
  }
  /// 0: no room.
  uint64_t allocate(size_t bytes);
  bool release(uint64_t address);
  /// Of the pool that blocks are taken from: what it holds of the system's memory, and how much of
  /// that it keeps, though unused, when somebody waits for the device.
  uint64_t reserved();
  void set_threshold(uint64_t bytes);
  void trim(uint64_t kept);
  void trim() { trim(threshold_); }
  /// Also between devices.
  static void copy(uint64_t to, uint64_t from, size_t bytes);

  Queues& queues() { return queues_; }
  /// Puts work on a queue, which is left out if the context is broken by then.
  void push(Queue* q, Queues::Work work);
  /// The error that broke the context, or 0.
  int broken() const { return broken_; }
  int breaks(int error, const std::string& report);
  /// As a context that is made anew.
  void mend() {
    queues_.wait_for_all();
    broken_ = 0;
  }
  int run(const Function& f, ptx::Dim3 grid, ptx::Dim3 block,
          const std::vector<uint8_t>& parameters, int64_t shared_bytes);

  int64_t capability() const;
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
  int64_t count(const std::string& what);

  std::atomic<int64_t> launches{0};

 private:
  explicit Device(int number);
  static uint8_t* host(uint64_t p);

  const int number_;
  std::mutex mutex_;
  uint8_t *addresses_ = nullptr, *bytes_ = nullptr;
  std::map<size_t, size_t> used_;  // offset → bytes
  hologram::FreeRanges free_;
  uint64_t used_bytes_ = 0, reserved_ = 0;
  int64_t grown_ = 0;  // how often the pool took memory of the system
  std::atomic<uint64_t> threshold_{0};
  std::atomic<int> broken_{0};
  Queues queues_;
  ptx::Machine machine_;
};

/// The calling thread's.
Device*& current();

struct Graph;

struct Stream {
  Device* device;
  Queue* queue;
  Graph* capture = nullptr;  // what its work is recorded in
  bool spoilt = false;       // that capture
};

/// Of a stream's device or, for null, of the current one; null: there is none.
inline Device* device_of(const Stream* s) { return s ? s->device : current(); }
inline Queue* queue_of(const Stream* s) { return s ? s->queue : nullptr; }
/// What a call gives that gets no further: there is no context, or a broken one. 0: it may go on.
inline int refused(const Device* d) { return d ? d->broken() : invalid_context; }

/// Puts work on a stream, or into what it is recorded in.
int push(Stream* s, Queues::Work work);

/// While a stream is captured, what may wait for the device is forbidden on every thread, and
/// spoils all captures: then this gives the error.
int forbidden_in_captures();
/// Whether a stream is captured now.
bool capturing();
/// Begins and ends a capture; null: it was spoilt.
void begin_capture(Stream* s);
Graph* end_capture(Stream* s);

}  // namespace fakecuda

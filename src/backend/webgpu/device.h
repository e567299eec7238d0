// backend/webgpu/device.h: adapters, and the device that is opened on one.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "backend/webgpu/batch.h"
#include "backend/webgpu/library.h"

namespace hologram::webgpu {

/// An open device with its queue. Thread-safe; lives as long as the process. Its name: "llvmpipe
/// (LLVM 15)".
class DeviceContext : public Bounds {
 public:
  DeviceContext(const Library& opened, Adapter adapter, int number);
  DeviceContext(const DeviceContext&) = delete;
  DeviceContext& operator=(const DeviceContext&) = delete;

  const Library& library;
  const Api& api;
  int number;
  std::string driver, interface;  ///< the driver's words, "Vulkan"
  Limits limits{};
  bool f16 = false;
  bool subgroups = false;  ///< whether kernels use them
  /// Whether its memory is the host's, and buffers that kernels work on may be mapped.
  bool unified = false;
  Gpu gpu = nullptr;
  Queue queue = nullptr;

  /// Runs calls of the library; throws Error with `what` and the library's words where one of them
  /// found a fault.
  void checked(std::string_view what, const std::function<void()>& calls) const;
  /// Throws what has gone wrong since the last call and no checked() heard of: a lost device.
  void tell_faults() const;
  /// A buffer of so many bytes. Throws Error(out_of_memory), naming the limit it exceeds.
  Buffer make_buffer(uint64_t bytes, uint64_t usage) const;
  /// Puts a write of so many bytes on the queue; begin and bytes are multiples of 4.
  void write(Buffer buffer, uint64_t begin, const void* from, size_t bytes) const;
  /// Runs `use` on the bytes [begin, end), multiples of 8 and of 4, of a buffer that may be mapped
  /// by `mode`, to read or to write; nothing is submitted meanwhile. Where submitted work still
  /// needs the buffer, it is waited for or, not `patient`, nothing happens, and false is returned.
  bool map(Buffer buffer, uint64_t mode, uint64_t begin, uint64_t end, bool patient,
           const std::function<void(void*)>& use) const;
  /// Returns when all that was submitted is done.
  void wait() const;
  /// Puts what `record` writes into an encoder on the queue.
  void submit(const std::function<void(Encoder)>& record) const;

 private:
  struct Heard;
  static void hear(const Gpu*, uint32_t type, StringView words, void* device, void*);
  static void lose(const Gpu*, uint32_t reason, StringView words, void* device, void*);
  void open(Adapter adapter, uint32_t type);

  mutable std::mutex submitting_;  // no buffer is mapped then
  mutable std::mutex mutex_;       // of what is unheard
  mutable std::string unheard_;
};

/// How many adapters there are of an interface, "Vulkan", or of all. Throws Error(unavailable)
/// without a library.
int count_adapters(std::string_view interface = {});
/// The number among all adapters of number `number` of an interface. Throws Error(unavailable),
/// naming the backend that was asked for and the adapters there are.
int adapter_number(std::string_view backend, std::string_view interface, int number);
/// The device of adapter `number`, opened once: GPUs before processors. Throws Error(unavailable).
const DeviceContext& device_context(int number);

}  // namespace hologram::webgpu

// runtime/staging.h: operands in host memory for a plan that runs on a device.
#pragma once

#include <map>
#include <vector>

#include "runtime/executable.h"

namespace hologram::runtime {

/// Copies what a call has in host memory to the device and back: parameters that are not kept
/// there, results, and the operands of calls to the host. What lies on the device already is used
/// in place.
class Staging final : public Outputs, public Host {
 public:
  /// Copies the parameters. All must outlive this object.
  Staging(const Executable& executable, Memory& device, const Executable::Arguments& arguments,
          Outputs& outputs, Host* host, Frame& frame);
  ~Staging() override;
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// The arguments with addresses on the device.
  Executable::Arguments arguments() const;
  void* allocate(int index, size_t bytes, Frame& frame) override;
  int32_t call(const schedule::Step& step, Frame& frame) override;
  /// Copies results, and parameters that the plan writes, to where the caller has them.
  void copy_back();

 private:
  struct Copy {
    void* host;
    void* device;
    size_t bytes;
  };
  void* to_device(void* host, size_t bytes);
  bool take_copy(size_t parameter, size_t bytes, Kept& kept);
  size_t bytes_of(int slot) const;
  void* host_side(int slot);

  const Executable& executable_;
  Memory& device_;
  const Executable::Arguments& given_;
  Outputs& outputs_;
  Host* host_;
  Frame& frame_;
  Stream stream_;
  std::vector<void*> parameters_;
  std::vector<bool> written_;     // of the parameters, by the plan; others may be read-only
  std::vector<void*> blocks_;     // of the device
  std::vector<Copy> back_;        // to copy back
  std::map<int, void*> results_;  // by output: where the caller has it
  std::map<int, void*> visible_;  // by slot: host memory for calls to the host
  std::vector<void*> pooled_;     // what of it is the pool's
};

}  // namespace hologram::runtime

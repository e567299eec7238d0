// archive/weights.h: what an archive's tensors are for those who call it: the file's, or others.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "archive/archive.h"
#include "runtime/packed_files.h"
#include "runtime/runtime.h"

namespace hologram::archive {

/// The tensors that methods of an open archive read. The file is never written. Thread-safe.
class Weights {
 public:
  explicit Weights(std::shared_ptr<const Archive> archive);

  /// Puts a copy of these elements, in row-major order, in a tensor's place; calls that begin
  /// afterwards read it. Another name of the same content keeps it. Throws Error(not_found) for an
  /// unknown name, Error(invalid_argument) for another dtype or shape, and for state.
  void replace(std::string_view name, DType dtype, std::span<const int64_t> shape,
               const std::byte* elements);

  struct Content {
    const std::byte* data = nullptr;
    std::shared_ptr<const std::byte[]> replaced;  ///< owns it; null: it is the file's
  };
  Content content(uint32_t tensor) const;
  /// A copy of it in the memory of the runtime's device, one for all who hold it.
  std::shared_ptr<void> on_device(uint32_t tensor, const Content& content,
                                  const std::shared_ptr<runtime::Runtime>& runtime) const;
  /// Grows with every replacement.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  const Archive& archive() const { return *archive_; }
  /// What methods computed from the file's tensors alone.
  runtime::PackedTable& packed() const { return packed_; }

 private:
  std::shared_ptr<const Archive> archive_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<const std::byte[]>> replaced_;  // by tensor
  std::atomic<uint64_t> version_{0};
  mutable std::map<std::pair<Memory*, const std::byte*>, std::weak_ptr<void>> on_devices_;
  mutable runtime::PackedTable packed_;
};

}  // namespace hologram::archive

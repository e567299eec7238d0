// capi/place.h: where an operation is put: on an executor or on one of its streams.
#pragma once

#include "capi/streams.h"

namespace hologram::capi {

/// What an operation is called with first. On an executor it ends with its work; on a stream it is
/// put there, and its errors are told where that is waited for.
class Place {
 public:
  /// Throws Error(not_found) or Error(invalid_argument) for a handle of neither.
  explicit Place(hologram_handle handle);

  ExecutorState& executor() const { return *executor_; }
  /// Null: the operation ends with its work.
  StreamObject* stream() const { return stream_ ? stream_.get() : nullptr; }
  Pin<BufferObject> buffer(hologram_handle handle, std::string_view argument) const;

  /// What a call's operands lie in: a stream keeps it until the call is done.
  using Uses = std::vector<runtime::StorageRef>;
  /// Runs a compiled operation on device addresses, or host memory where there is no stream.
  void run(const std::shared_ptr<runtime::Executable>& operation, void* const* inputs,
           const int64_t* symbols, void* const* outputs, Uses uses) const;
  /// Over `length` elements; nothing of `arguments` is the host's where a stream is a device's.
  void run(const runtime::DirectKernel& kernel, void* const* arguments, uint64_t length,
           Uses uses) const;
  /// Copies the host's bytes to `to`, which lies in `storage`.
  void put(const runtime::StorageRef& storage, void* to, const void* from, size_t bytes) const;
  /// Copies within the executor's memory, which has to stay: `uses`.
  void move(void* to, const void* from, size_t bytes, Uses uses) const;
  /// A number of the host's where operations on a device's stream find it; else nothing.
  runtime::StorageRef number(const void* value, size_t bytes) const;

 private:
  std::shared_ptr<ExecutorState> executor_;
  mutable Pin<StreamObject> stream_;
};

}  // namespace hologram::capi

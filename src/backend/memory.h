// backend/memory.h: the memory of a device that the host does not see.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hologram {

/// One of a device's queues of work: what is put on it is done in order. Null: the device's own.
using Stream = void*;
/// A mark in a stream's work.
using Event = void*;

/// A device by DLPack's numbers.
struct Device {
  int32_t type = 1;
  int32_t id = 0;
};

/// Memory that kernels of a backend work on and that the host reaches by copies alone. Thread-safe.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual Device device() const = 0;
  /// Bytes that its blocks can have together.
  virtual uint64_t capacity() const = 0;
  /// Whether an address lies in this memory.
  virtual bool contains(const void* address) const = 0;

  virtual Stream make_stream() = 0;
  /// The stream's work is done when this returns.
  virtual void free_stream(Stream stream) noexcept = 0;
  /// False where it is known to be no stream of this device; most devices cannot tell.
  virtual bool has_stream(Stream) { return true; }

  /// A block of at least `bytes` bytes, aligned to 64, for work on `stream` and on others once they
  /// have waited for it; contents undefined. Throws Error(out_of_memory).
  virtual void* allocate(size_t bytes, Stream stream) = 0;
  /// The block may serve others when what is on `stream` now is done; null is ignored.
  virtual void deallocate(void* block, Stream stream) noexcept = 0;
  /// Gives what is kept of such blocks for later ones back to the system; how many bytes.
  virtual size_t release() noexcept { return 0; }
  /// Copies behind what is on `stream`. Either side may be host memory, which the caller may use
  /// again, or read, when this returns.
  virtual void copy(void* to, const void* from, size_t bytes, Stream stream) = 0;
  /// Returns when what is on `stream` now is done. Throws the Error of work on it that failed since
  /// the last call, as copy() does.
  virtual void wait(Stream stream) = 0;
  /// Returns when what is on any stream now is done.
  virtual void wait_for_all() = 0;

  /// Host memory that copy_later() reads and writes without a copy of its own.
  virtual void* allocate_host(size_t bytes) = 0;
  /// Nothing on any stream may use the block any more; null is ignored.
  virtual void deallocate_host(void* block) noexcept = 0;
  /// Puts a copy on `stream` and returns. A side in host memory is of allocate_host(), and is used
  /// until the stream has come so far.
  virtual void copy_later(void* to, const void* from, size_t bytes, Stream stream) = 0;
  /// Puts a fill on `stream`: an element of 1, 2 or 4 bytes, which the number of bytes is a
  /// multiple of, over and over. False, and nothing: the device has no such command.
  virtual bool fill_later(void*, uint32_t /*element*/, size_t /*size*/, size_t /*bytes*/, Stream) {
    return false;
  }

  virtual Event make_event() = 0;
  virtual void free_event(Event event) noexcept = 0;
  /// Marks the end of what is on `stream` now.
  virtual void record(Event event, Stream stream) = 0;
  /// What is put on `stream` from now on begins behind the mark that was recorded last.
  virtual void wait_for(Event event, Stream stream) = 0;
  /// Whether that mark has been reached; of an event without one, yes.
  virtual bool reached(Event event) = 0;
  /// Whether what is put on `stream` is recorded by its owner, to be run later and again: nothing
  /// may be waited for.
  virtual bool captured(Stream) { return false; }
};

}  // namespace hologram

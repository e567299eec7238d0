// capi/handles.h: 64-bit names for objects, safe against every wrong use.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "hologram/hologram.h"

namespace hologram::capi {

enum class Kind : uint8_t {
  executor = 1,
  buffer,
  tensor,
  graph,
  executable,
  archive,
  session,
  stream,
  event
};

/// "buffer", …
const char* name_of(Kind kind);

/// One place for an object. `state` is generation (32 bits) | alive | dying | locked | waiting |
/// pins: a pin is one addition whose result tells whether the handle was still right. The object
/// dies with the last pin or hold after removal (it waits in a list while a hold alone keeps it),
/// and only then the place is used again, under the next generation.
struct alignas(64) Slot {
  static constexpr uint32_t alive = 1u << 31, dying = 1u << 30, locked = 1u << 29;
  static constexpr uint32_t waiting = 1u << 28, pins = waiting - 1;

  std::atomic<uint64_t> state{0};
  std::atomic<hologram_handle> live{0};  ///< the handle while it is alive and not locked, else 0
  std::atomic<void*> object{nullptr};
  std::atomic<uint32_t> next_free{0};
  uint32_t index = 0;
};

/// The handles of one kind. Lock-free; memory for places is never given back. Constant-initialised
/// and trivially destructible, so that calls during the process's start and end are safe.
class HandleTable {
 public:
  constexpr HandleTable(Kind kind, void (*destroy)(void*)) : kind_(kind), destroy_(destroy) {}

  /// Reserves a handle for an object to be published. Throws Error(out_of_memory) when 2^24 live
  /// ones exist.
  hologram_handle reserve();
  /// Makes a reserved handle alive.
  void publish(hologram_handle handle, void* object) noexcept;
  /// Gives back a reserved handle that was not published.
  void cancel(hologram_handle handle) noexcept;

  /// The object's place, kept until unpin(), or nullptr when the handle is not one of this table,
  /// stale, or locked.
  Slot* pin(hologram_handle handle) noexcept {
    Slot* slot = find(handle);
    if (!slot) return nullptr;
    const uint64_t before = slot->state.fetch_add(1, std::memory_order_acquire);
    if (before >> 31 == (static_cast<uint64_t>(generation_of(handle)) << 1 | 1)) [[likely]]
      return slot;
    unpin(slot);
    return nullptr;
  }
  void unpin(Slot* slot) noexcept {
    const uint64_t before = slot->state.fetch_sub(1, std::memory_order_acq_rel);
    if ((static_cast<uint32_t>(before) & ~Slot::waiting) == (Slot::dying | 1)) [[unlikely]]
      last_unpin(slot, before - 1);
  }

  /// What a call holds: up to three objects for the price of one atomic operation, which writes
  /// their places into a record of the table where remove() and lock() look.
  struct Hold {
    static constexpr int most = 3;
    int record = -1;  ///< held by no other call meanwhile; -1: nothing is held
    void* objects[most];
  };
  static constexpr int num_records = 32;
  /// Holds the objects of `n` handles, or none of them: when one is wrong, or when all records that
  /// were tried are taken. Pin them then. For calls that are short beside a free: a removed object
  /// stays until release().
  template <int n>
  Hold hold(const hologram_handle* handles) noexcept {
    static_assert(n >= 1 && n <= Hold::most);
    Hold held;
    uint64_t word = 0;
    uint32_t large = 0;
#pragma GCC unroll 3
    for (int i = 0; i < n; ++i) {
      large |= index_of(handles[i]) + 1;
      word |= uint64_t{index_of(handles[i]) + 1} << hold_bits * i;
    }
    if (large > hold_mask) [[unlikely]]
      return held;
    const int record = claim(word);
    if (record < 0) [[unlikely]]
      return held;
#pragma GCC unroll 3
    for (int i = 0; i < n; ++i) {
      // Sequentially consistent like claim() and remove(): either this sees the object removed, or
      // the remover sees the record.
      const uint32_t index = index_of(handles[i]);
      Slot* chunk = chunks_[index >> chunk_bits].load(std::memory_order_acquire);
      const uint32_t place = index & (chunk_size - 1);
      if (!chunk || handles[i] == 0 ||
          chunk[place].live.load(std::memory_order_seq_cst) != handles[i]) [[unlikely]] {
        free_record(record);
        return held;
      }
      held.objects[i] = chunk[place].object.load(std::memory_order_relaxed);
    }
    held.record = record;
    return held;
  }
  void release(const Hold& held) noexcept {
    if (held.record >= 0) free_record(held.record);
  }

  /// Kills the handle: it is not found from now on. False if it was not alive.
  bool remove(hologram_handle handle) noexcept;
  /// For a pinned slot: keeps all others out until unlock(). False when others use it.
  bool lock(Slot* slot) noexcept;
  void unlock(Slot* slot) noexcept;
  /// Whether the handle is alive, locked or not.
  bool exists(hologram_handle handle) noexcept;

  /// Removes every live handle.
  void clear() noexcept;
  uint64_t live() const noexcept { return live_.load(std::memory_order_relaxed); }
  Kind kind() const noexcept { return kind_; }

  static Kind kind_of(hologram_handle handle) { return static_cast<Kind>(handle >> 56); }

 private:
  static constexpr uint32_t chunk_bits = 10, chunk_size = 1u << chunk_bits, num_chunks = 1u << 14;
  static constexpr uint32_t no_index = ~0u;

  static uint32_t index_of(hologram_handle h) { return static_cast<uint32_t>(h & 0xffffff); }
  static uint32_t generation_of(hologram_handle h) { return static_cast<uint32_t>(h >> 24); }

  Slot* find(hologram_handle handle) noexcept {
    if (kind_of(handle) != kind_) [[unlikely]]
      return nullptr;
    const uint32_t index = index_of(handle);
    Slot* chunk = chunks_[index >> chunk_bits].load(std::memory_order_acquire);
    return chunk ? chunk + (index & (chunk_size - 1)) : nullptr;
  }
  hologram_handle handle_of(uint32_t index, uint32_t generation) const {
    return static_cast<uint64_t>(kind_) << 56 | static_cast<uint64_t>(generation) << 24 | index;
  }
  Slot& at(uint32_t index) noexcept {
    return chunks_[index >> chunk_bits].load(std::memory_order_acquire)[index & (chunk_size - 1)];
  }
  static constexpr int hold_bits = 21;
  static constexpr uint32_t hold_mask = (1u << hold_bits) - 1;
  struct alignas(64) Record {
    std::atomic<uint64_t> word{0};  ///< index + 1 of up to three places, 21 bits each
  };

  /// Writes `word` into a free record. Threads have stacks of their own, megabytes apart: cheaper
  /// to tell apart than by a number that each would have to keep.
  int claim(uint64_t word) noexcept {
    const auto stack = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
    const auto first = static_cast<uint32_t>(stack >> 23 ^ stack >> 20);
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t record = (first + i) % num_records;
      uint64_t none = 0;
      if (records_[record].word.compare_exchange_strong(none, word, std::memory_order_seq_cst,
                                                        std::memory_order_relaxed)) [[likely]]
        return static_cast<int>(record);
    }
    return -1;
  }
  void free_record(int record) noexcept {
    records_[static_cast<size_t>(record)].word.store(0, std::memory_order_release);
    if (waiting_.load(std::memory_order_relaxed) != no_index) [[unlikely]]
      reclaim_waiting();
  }
  /// Whether a record names the place.
  bool held(uint32_t index) const noexcept;

  uint32_t take_free() noexcept;
  void give_free(uint32_t index) noexcept;
  uint32_t create();
  void last_unpin(Slot* slot, uint64_t state) noexcept;
  bool reclaim(Slot* slot, uint64_t expected) noexcept;
  bool wait(Slot* slot) noexcept;
  void reclaim_waiting() noexcept;

  const Kind kind_;
  void (*const destroy_)(void*);
  std::atomic<uint32_t> created_{0};
  std::atomic<uint64_t> live_{0};
  std::atomic<uint64_t> free_{no_index};     // tag | index of the first free place
  std::atomic<uint32_t> waiting_{no_index};  // the first removed place that a call still held
  std::array<Record, num_records> records_{};
  std::array<std::atomic<Slot*>, num_chunks> chunks_{};
};

/// A pinned object.
template <class T>
class Pin {
 public:
  Pin() = default;
  Pin(HandleTable& table, hologram_handle handle) noexcept
      : table_(&table), slot_(table.pin(handle)) {}
  Pin(Pin&& other) noexcept : table_(other.table_), slot_(other.slot_) { other.slot_ = nullptr; }
  Pin& operator=(Pin&& other) noexcept {
    std::swap(table_, other.table_);
    std::swap(slot_, other.slot_);
    return *this;
  }
  ~Pin() {
    if (slot_) table_->unpin(slot_);
  }
  explicit operator bool() const noexcept { return slot_ != nullptr; }
  T* get() const noexcept { return static_cast<T*>(slot_->object.load(std::memory_order_relaxed)); }
  T* operator->() const noexcept { return get(); }
  T& operator*() const noexcept { return *get(); }
  Slot* slot() const noexcept { return slot_; }

 private:
  HandleTable* table_ = nullptr;
  Slot* slot_ = nullptr;
};

}  // namespace hologram::capi

// capi/handles.cpp: places, generations and the list of free places.
#include "capi/handles.h"

#include <new>
#include <random>

#include "base/error.h"

namespace hologram::capi {
namespace {

constexpr auto relaxed = std::memory_order_relaxed;

/// Where the generations of new places start: different in each process, so that a handle of
/// another one, or a guessed number, is not taken for one of ours.
uint32_t first_generation(uint32_t index) {
  static const uint32_t seed = [] {
    try {
      return static_cast<uint32_t>(std::random_device{}());
    } catch (...) {  // no source of randomness: where the system has put us will do
      return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(&seed) >> 12);
    }
  }();
  uint64_t x = (static_cast<uint64_t>(seed) << 32 | index) * 0x9e3779b97f4a7c15u;
  return static_cast<uint32_t>((x ^ x >> 29) >> 16);
}

}  // namespace

const char* name_of(Kind kind) {
  constexpr const char* names[] = {"executor", "buffer",  "tensor", "graph", "executable",
                                   "archive",  "session", "stream", "event"};
  const auto i = static_cast<size_t>(kind) - 1;
  return i < std::size(names) ? names[i] : "unknown";
}

uint32_t HandleTable::take_free() noexcept {
  uint64_t head = free_.load(std::memory_order_acquire);
  while (static_cast<uint32_t>(head) != no_index) {
    const uint32_t next = at(static_cast<uint32_t>(head)).next_free.load(relaxed);
    const uint64_t successor = ((head >> 32) + 1) << 32 | next;
    if (free_.compare_exchange_weak(head, successor, std::memory_order_acquire))
      return static_cast<uint32_t>(head);
  }
  return no_index;
}

void HandleTable::give_free(uint32_t index) noexcept {
  uint64_t head = free_.load(relaxed);
  do at(index).next_free.store(static_cast<uint32_t>(head), relaxed);
  while (!free_.compare_exchange_weak(head, ((head >> 32) + 1) << 32 | index,
                                      std::memory_order_release, relaxed));
}

uint32_t HandleTable::create() {
  uint32_t index = created_.load(relaxed);
  do {
    if (index >= chunk_size * num_chunks)
      fail(ErrorCode::out_of_memory, "{} {}s are alive; no more handles", index, name_of(kind_));
    auto& chunk = chunks_[index >> chunk_bits];
    if (chunk.load(std::memory_order_acquire) == nullptr) {
      auto* fresh = new Slot[chunk_size];
      for (uint32_t i = 0; i < chunk_size; ++i) {
        fresh[i].index = (index & ~(chunk_size - 1)) + i;
        const uint64_t generation = first_generation(fresh[i].index);
        fresh[i].state.store(generation << 32, relaxed);
      }
      Slot* none = nullptr;
      if (!chunk.compare_exchange_strong(none, fresh, std::memory_order_acq_rel)) delete[] fresh;
    }
  } while (!created_.compare_exchange_weak(index, index + 1));
  return index;
}

hologram_handle HandleTable::reserve() {
  uint32_t index = take_free();
  if (index == no_index) index = create();
  return handle_of(index, static_cast<uint32_t>(at(index).state.load(relaxed) >> 32));
}

void HandleTable::publish(hologram_handle handle, void* object) noexcept {
  Slot& slot = at(index_of(handle));
  slot.object.store(object, relaxed);
  live_.fetch_add(1, relaxed);
  slot.live.store(handle, std::memory_order_release);
  // Pins of a stale handle may come and go meanwhile, so the state is added to.
  slot.state.fetch_or(Slot::alive, std::memory_order_release);
}

void HandleTable::cancel(hologram_handle handle) noexcept { give_free(index_of(handle)); }

bool HandleTable::remove(hologram_handle handle) noexcept {
  Slot* slot = pin(handle);
  if (!slot) return false;
  uint64_t state = slot->state.load(relaxed);
  bool ours;
  do ours = (state & Slot::alive) != 0;
  while (ours &&
         !slot->state.compare_exchange_weak(state, (state & ~uint64_t{Slot::alive}) | Slot::dying,
                                            std::memory_order_seq_cst, relaxed));
  if (ours) {
    slot->live.store(0, std::memory_order_seq_cst);
    live_.fetch_sub(1, relaxed);
  }
  unpin(slot);
  return ours;
}

bool HandleTable::held(uint32_t index) const noexcept {
  for (const Record& record : records_) {
    uint64_t word = record.word.load(std::memory_order_seq_cst);
    for (; word != 0; word >>= hold_bits)
      if ((word & hold_mask) == index + 1) return true;
  }
  return false;
}

void HandleTable::last_unpin(Slot* slot, uint64_t state) noexcept {
  if (state & Slot::waiting) return reclaim_waiting();
  if (!held(slot->index)) {
    reclaim(slot, state);
  } else if (slot->state.compare_exchange_strong(state, state | Slot::waiting,
                                                 std::memory_order_acq_rel)) {
    if (wait(slot)) reclaim_waiting();
  }
}

/// Whoever turns the generation owns the dead object; a late pin of the stale handle makes this
/// fail, and its end tries again.
bool HandleTable::reclaim(Slot* slot, uint64_t expected) noexcept {
  const uint64_t next = ((expected >> 32) + 1) << 32;
  if (!slot->state.compare_exchange_strong(expected, next, std::memory_order_acq_rel)) return false;
  void* object = slot->object.exchange(nullptr, relaxed);
  give_free(slot->index);
  destroy_(object);
  return true;
}

/// Lists a place for the call that holds it to reclaim; true when there is nothing to wait for any
/// more. That call may have looked at the list just before, its record's end still on the way from
/// its core: hence the second looks, for a microsecond. (Should that be too short, the end of any
/// other call finds the place.)
bool HandleTable::wait(Slot* slot) noexcept {
  uint32_t head = waiting_.load(relaxed);
  do slot->next_free.store(head, relaxed);
  while (!waiting_.compare_exchange_weak(head, slot->index, std::memory_order_seq_cst, relaxed));
  for (int i = 0; i < 64; ++i)
    if ((slot->state.load(std::memory_order_seq_cst) & Slot::pins) == 0 && !held(slot->index))
      return true;
  return false;
}

void HandleTable::reclaim_waiting() noexcept {
  bool again;
  do {
    again = false;
    uint32_t index = waiting_.exchange(no_index, std::memory_order_seq_cst);
    while (index != no_index) {
      Slot* slot = &at(index);
      index = slot->next_free.load(relaxed);
      const uint64_t state = slot->state.load(relaxed);
      if ((state & Slot::pins) != 0 || held(slot->index) || !reclaim(slot, state))
        again |= wait(slot);
    }
  } while (again);
}

bool HandleTable::lock(Slot* slot) noexcept {
  uint64_t state = slot->state.load(relaxed);
  if ((state & Slot::pins) != 1 || !(state & Slot::alive)) return false;
  if (!slot->state.compare_exchange_strong(state, (state & ~uint64_t{Slot::alive}) | Slot::locked,
                                           std::memory_order_acq_rel))
    return false;
  slot->live.store(0, std::memory_order_seq_cst);
  if (!held(slot->index)) return true;
  unlock(slot);
  return false;
}

void HandleTable::unlock(Slot* slot) noexcept {
  // First this: once the place is alive again it may be removed.
  const auto generation = static_cast<uint32_t>(slot->state.load(relaxed) >> 32);
  slot->live.store(handle_of(slot->index, generation), std::memory_order_release);
  slot->state.fetch_xor(Slot::alive | Slot::locked, std::memory_order_acq_rel);
}

bool HandleTable::exists(hologram_handle handle) noexcept {
  Slot* slot = find(handle);
  if (!slot) return false;
  const uint64_t state = slot->state.load(relaxed);
  return static_cast<uint32_t>(state >> 32) == generation_of(handle) &&
         (state & (Slot::alive | Slot::locked)) != 0;
}

void HandleTable::clear() noexcept {
  const uint32_t count = created_.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < count; ++i) {
    Slot* chunk = chunks_[i >> chunk_bits].load(std::memory_order_acquire);
    if (!chunk) continue;
    const uint64_t state = chunk[i & (chunk_size - 1)].state.load(relaxed);
    if (state & Slot::alive) remove(handle_of(i, static_cast<uint32_t>(state >> 32)));
  }
}

}  // namespace hologram::capi

// capi/handles.cpp: places, generations and the list of free places.
#include "capi/handles.h"

#include <new>
#include <random>

#include "base/error.h"

namespace hologram::capi {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

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
  constexpr const char* names[] = {"executor", "buffer", "tensor", "graph", "executable"};
  const auto i = static_cast<size_t>(kind) - 1;
  return i < std::size(names) ? names[i] : "unknown";
}

uint32_t HandleTable::take_free() noexcept {
  uint64_t head = free_.load(std::memory_order_acquire);
  while (static_cast<uint32_t>(head) != kNone) {
    const uint32_t next = at(static_cast<uint32_t>(head)).next_free.load(kRelaxed);
    const uint64_t successor = ((head >> 32) + 1) << 32 | next;
    if (free_.compare_exchange_weak(head, successor, std::memory_order_acquire))
      return static_cast<uint32_t>(head);
  }
  return kNone;
}

void HandleTable::give_free(uint32_t index) noexcept {
  uint64_t head = free_.load(kRelaxed);
  do at(index).next_free.store(static_cast<uint32_t>(head), kRelaxed);
  while (!free_.compare_exchange_weak(head, ((head >> 32) + 1) << 32 | index,
                                      std::memory_order_release, kRelaxed));
}

uint32_t HandleTable::create() {
  uint32_t index = created_.load(kRelaxed);
  do {
    if (index >= kChunk * kChunks)
      fail(ErrorCode::out_of_memory, "{} {}s are alive; no more handles", index, name_of(kind_));
    auto& chunk = chunks_[index >> kChunkBits];
    if (chunk.load(std::memory_order_acquire) == nullptr) {
      auto* fresh = new Slot[kChunk];
      for (uint32_t i = 0; i < kChunk; ++i) {
        fresh[i].index = (index & ~(kChunk - 1)) + i;
        const uint64_t generation = first_generation(fresh[i].index);
        fresh[i].state.store(generation << 32, kRelaxed);
      }
      Slot* none = nullptr;
      if (!chunk.compare_exchange_strong(none, fresh, std::memory_order_acq_rel)) delete[] fresh;
    }
  } while (!created_.compare_exchange_weak(index, index + 1));
  return index;
}

hologram_handle HandleTable::reserve() {
  uint32_t index = take_free();
  if (index == kNone) index = create();
  return handle_of(index, static_cast<uint32_t>(at(index).state.load(kRelaxed) >> 32));
}

void HandleTable::publish(hologram_handle handle, void* object) noexcept {
  Slot& slot = at(index_of(handle));
  slot.object.store(object, kRelaxed);
  live_.fetch_add(1, kRelaxed);
  slot.live.store(handle, std::memory_order_release);
  // Pins of a stale handle may come and go meanwhile, so the state is added to.
  slot.state.fetch_or(Slot::kAlive, std::memory_order_release);
}

void HandleTable::cancel(hologram_handle handle) noexcept { give_free(index_of(handle)); }

bool HandleTable::remove(hologram_handle handle) noexcept {
  Slot* slot = pin(handle);
  if (!slot) return false;
  uint64_t state = slot->state.load(kRelaxed);
  bool ours;
  do ours = (state & Slot::kAlive) != 0;
  while (ours &&
         !slot->state.compare_exchange_weak(state, (state & ~uint64_t{Slot::kAlive}) | Slot::kDying,
                                            std::memory_order_seq_cst, kRelaxed));
  if (ours) {
    slot->live.store(0, std::memory_order_seq_cst);
    live_.fetch_sub(1, kRelaxed);
  }
  unpin(slot);
  return ours;
}

bool HandleTable::held(uint32_t index) const noexcept {
  for (const Record& record : records_) {
    uint64_t word = record.word.load(std::memory_order_seq_cst);
    for (; word != 0; word >>= kHoldBits)
      if ((word & kHoldMask) == index + 1) return true;
  }
  return false;
}

void HandleTable::last_unpin(Slot* slot, uint64_t state) noexcept {
  if (state & Slot::kWaiting) return reclaim_waiting();
  if (!held(slot->index)) {
    reclaim(slot, state);
  } else if (slot->state.compare_exchange_strong(state, state | Slot::kWaiting,
                                                 std::memory_order_acq_rel)) {
    if (wait(slot)) reclaim_waiting();
  }
}

/// Whoever turns the generation owns the dead object; a late pin of the stale handle makes this
/// fail, and its end tries again.
bool HandleTable::reclaim(Slot* slot, uint64_t expected) noexcept {
  const uint64_t next = ((expected >> 32) + 1) << 32;
  if (!slot->state.compare_exchange_strong(expected, next, std::memory_order_acq_rel)) return false;
  void* object = slot->object.exchange(nullptr, kRelaxed);
  give_free(slot->index);
  destroy_(object);
  return true;
}

/// Lists a place for the call that holds it to reclaim; true when there is nothing to wait for any
/// more. That call may have looked at the list just before, its record's end still on the way from
/// its core: hence the second looks, for a microsecond. (Should that be too short, the end of any
/// other call finds the place.)
bool HandleTable::wait(Slot* slot) noexcept {
  uint32_t head = waiting_.load(kRelaxed);
  do slot->next_free.store(head, kRelaxed);
  while (!waiting_.compare_exchange_weak(head, slot->index, std::memory_order_seq_cst, kRelaxed));
  for (int i = 0; i < 64; ++i)
    if ((slot->state.load(std::memory_order_seq_cst) & Slot::kPins) == 0 && !held(slot->index))
      return true;
  return false;
}

void HandleTable::reclaim_waiting() noexcept {
  bool again;
  do {
    again = false;
    uint32_t index = waiting_.exchange(kNone, std::memory_order_seq_cst);
    while (index != kNone) {
      Slot* slot = &at(index);
      index = slot->next_free.load(kRelaxed);
      const uint64_t state = slot->state.load(kRelaxed);
      if ((state & Slot::kPins) != 0 || held(slot->index) || !reclaim(slot, state))
        again |= wait(slot);
    }
  } while (again);
}

bool HandleTable::lock(Slot* slot) noexcept {
  uint64_t state = slot->state.load(kRelaxed);
  if ((state & Slot::kPins) != 1 || !(state & Slot::kAlive)) return false;
  if (!slot->state.compare_exchange_strong(state, (state & ~uint64_t{Slot::kAlive}) | Slot::kLocked,
                                           std::memory_order_acq_rel))
    return false;
  slot->live.store(0, std::memory_order_seq_cst);
  if (!held(slot->index)) return true;
  unlock(slot);
  return false;
}

void HandleTable::unlock(Slot* slot) noexcept {
  // First this: once the place is alive again it may be removed.
  const auto generation = static_cast<uint32_t>(slot->state.load(kRelaxed) >> 32);
  slot->live.store(handle_of(slot->index, generation), std::memory_order_release);
  slot->state.fetch_xor(Slot::kAlive | Slot::kLocked, std::memory_order_acq_rel);
}

bool HandleTable::exists(hologram_handle handle) noexcept {
  Slot* slot = find(handle);
  if (!slot) return false;
  const uint64_t state = slot->state.load(kRelaxed);
  return static_cast<uint32_t>(state >> 32) == generation_of(handle) &&
         (state & (Slot::kAlive | Slot::kLocked)) != 0;
}

void HandleTable::clear() noexcept {
  const uint32_t count = created_.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < count; ++i) {
    Slot* chunk = chunks_[i >> kChunkBits].load(std::memory_order_acquire);
    if (!chunk) continue;
    const uint64_t state = chunk[i & (kChunk - 1)].state.load(kRelaxed);
    if (state & Slot::kAlive) remove(handle_of(i, static_cast<uint32_t>(state >> 32)));
  }
}

}  // namespace hologram::capi

// emulator/clocks.h: what happened before what, within a CTA.
//
// Agents are threads, the part that each warp has of its group's products under way, and the copies
// that complete at each mbarrier. An agent's clock says how far it is. Who waits for another knows
// its clock then: what was done up to it is ordered before all that follows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace ptx {

/// By agent: up to which clock its accesses are known to be done.
class Clocks {
 public:
  bool empty() const { return known_.empty(); }
  void reset(size_t agents) { known_.assign(agents, 0); }
  void clear() { known_.clear(); }
  uint32_t operator[](size_t agent) const { return agent < known_.size() ? known_[agent] : 0; }
  /// What others know as well.
  void meet(const Clocks& other) {
    known_.resize(std::min(known_.size(), other.known_.size()));
    for (size_t n = 0; n < known_.size(); ++n) known_[n] = std::min(known_[n], other.known_[n]);
  }
  void raise(size_t agent, uint32_t clock) {
    if (agent >= known_.size()) known_.resize(agent + 1, 0);
    known_[agent] = std::max(known_[agent], clock);
  }
  void join(const Clocks& other) {
    if (known_.size() < other.known_.size()) known_.resize(other.known_.size(), 0);
    for (size_t n = 0; n < other.known_.size(); ++n)
      known_[n] = std::max(known_[n], other.known_[n]);
  }

 private:
  std::vector<uint32_t> known_;
};

/// Accesses of up to 32 neighbouring agents at one clock.
struct Stamp {
  uint32_t cta = 0;
  uint32_t agent = 0;  ///< the first of them
  uint32_t mask = 0;   ///< 0: nobody
  uint32_t clock = 0;
  bool operator==(const Stamp&) const = default;
};

/// What is known of a byte: who wrote and read it last.
struct Shadow {
  uint64_t run = 0;  ///< number of the launch; other launches' accesses are forgotten
  Stamp writer, readers[3];
  bool by_thread = false;     ///< the last write was no asynchronous copy's
  bool many_readers = false;  ///< of more warps than `readers` has, before barrier `many_barrier`
  bool barrier = false;       ///< of an mbarrier
  uint32_t many_barrier = 0;
  bool operator==(const Shadow&) const = default;
};

}  // namespace ptx

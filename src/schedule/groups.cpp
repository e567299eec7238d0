// schedule/groups.cpp: steps that may run at the same time.
#include "schedule/groups.h"

#include <algorithm>
#include <set>

namespace hologram::schedule {
namespace {

constexpr int most_steps = 4096;  // of a group

struct Touched {
  std::vector<int> read, written;
};

Touched touched_by(const Step& step, const Plan& plan) {
  Touched out;
  size_t k = 0;
  for (const atlas::Buffer& b : plan.programs[static_cast<size_t>(step.program)].buffers) {
    if (b.access == atlas::Access::scratch) continue;
    const int slot = step.buffers[k++];
    (b.access == atlas::Access::read ? out.read : out.written).push_back(slot);
  }
  return out;
}

bool may_join(const Step& step, const Plan& plan, const Machine& machine) {
  if (step.kind != StepKind::kernel || step.cached >= 0) return false;
  if (plan.programs[static_cast<size_t>(step.program)].kind() != atlas::BlockKind::loop)
    return false;
  for (int slot : touched_by(step, plan).written) {
    const Slot& s = plan.slots[static_cast<size_t>(slot)];
    if (s.kind == SlotKind::input || s.kind == SlotKind::output) continue;
    if (s.kind != SlotKind::arena || !s.bytes.is_const() ||
        s.bytes.constant_value() > machine.small_bytes)
      return false;
  }
  return true;
}

// The steps of the group so far.
class Group {
 public:
  bool fits(const Touched& t) const {
    auto none = [](const std::vector<int>& slots, const std::set<int>& of) {
      return std::ranges::none_of(slots, [&](int slot) { return of.count(slot) > 0; });
    };
    return size_ < most_steps && none(t.read, written_) && none(t.written, written_) &&
           none(t.written, read_);
  }
  void add(const Touched& t) {
    read_.insert(t.read.begin(), t.read.end());
    written_.insert(t.written.begin(), t.written.end());
    ++size_;
  }

 private:
  std::set<int> read_, written_;
  int size_ = 0;
};

}  // namespace

void group_steps(Plan& plan, const Machine& machine) {
  int number = 0;
  for (size_t s = 0; s < plan.steps.size();) {
    Group group;
    size_t end = s;
    for (; end < plan.steps.size() && may_join(plan.steps[end], plan, machine); ++end) {
      const Touched t = touched_by(plan.steps[end], plan);
      if (!group.fits(t)) break;
      group.add(t);
    }
    if (end - s > 1) {
      for (size_t i = s; i < end; ++i) plan.steps[i].group = number;
      ++number;
    }
    s = std::max(end, s + 1);
  }
}

}  // namespace hologram::schedule

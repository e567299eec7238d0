// atlas/empty.cpp: programs that have nothing to store.
#include "atlas/empty.h"

#include <algorithm>

namespace hologram::atlas {
namespace {

bool none(const Axis& a) { return a.extent.is(0); }

// Whether one of the first `count` axes, or of `others` counted from there, has no points.
bool none_of(const std::vector<Axis>& axes, int count, const std::vector<int>& others) {
  return std::any_of(axes.begin(), axes.begin() + count, none) ||
         std::any_of(others.begin(), others.end(),
                     [&](int k) { return none(axes[static_cast<size_t>(count + k)]); });
}

// Whether all that stores has nothing to store, or no points to store it at.
template <class B>
bool is_idle(const B& b) {
  if constexpr (requires { b.stages; }) {
    return b.stages.empty() || none_of(b.axes, b.parallel_rank, {});
  } else {
    bool tail = false;  // then what stores is the tail, at the epilogue's points
    if constexpr (requires { b.tail; }) tail = !b.tail.stages.empty();
    for (const BodyField<B>& row : Form<B>::bodies) {
      BodyRole role = row.role(b);
      if (role.value || ((b.*row.body).instrs.empty() && !tail)) continue;
      if (!none_of(b.axes, b.batch_rank, role.axes)) return false;
    }
    return true;
  }
}

}  // namespace

bool is_empty(const Program& p) {
  return std::visit([](const auto& block) { return is_idle(block); }, p.block);
}

}  // namespace hologram::atlas

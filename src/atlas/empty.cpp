// atlas/empty.cpp: programs that have nothing to store.
#include "atlas/empty.h"

#include <algorithm>
#include <optional>

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
    // A tail may store for rows without columns; without rows the epilogue stores nothing, too.
    if constexpr (requires { b.tail; })
      if (!b.tail.stages.empty()) return is_idle(b.tail);
    for (const BodyField<B>& row : Form<B>::bodies) {
      BodyRole role = row.role(b);
      if (role.value || (b.*row.body).instrs.empty()) continue;
      if (!none_of(b.axes, b.batch_rank, role.axes)) return false;
    }
    return true;
  }
}

}  // namespace

bool is_empty(const Program& p) {
  return std::visit([](const auto& block) { return is_idle(block); }, p.block);
}

void drop_columnless_product(Program& p) {
  std::optional<Block> tail;
  std::visit(
      [&](const auto& b) {
        if constexpr (requires { b.tail; })
          if (!b.tail.stages.empty() && none(b.axes[static_cast<size_t>(b.batch_rank) + 1]))
            tail = b.tail;
      },
      p.block);
  if (tail) p.block = *std::move(tail);
}

}  // namespace hologram::atlas

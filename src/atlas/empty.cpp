// atlas/empty.cpp: programs that have nothing to store.
#include "atlas/empty.h"

#include <algorithm>
#include <initializer_list>

namespace hologram::atlas {
namespace {

bool none(const Axis& a) { return a.extent.is(0); }

// Whether one of the first `batch` axes, or of `others` counted from there, has no points.
bool none_of(const std::vector<Axis>& axes, int batch, std::initializer_list<int> others) {
  return std::any_of(axes.begin(), axes.begin() + batch, none) ||
         std::any_of(others.begin(), others.end(),
                     [&](int k) { return none(axes[static_cast<size_t>(batch + k)]); });
}

// A body that stores nothing, or has no points to store.
bool idle(const Body& body, const std::vector<Axis>& axes, int batch,
          std::initializer_list<int> others) {
  return body.instrs.empty() || none_of(axes, batch, others);
}

bool is_empty(const AttentionBlock& b) {  // query, key, depth, value depth
  return idle(b.epilogue, b.axes, b.batch_rank, {0, 3}) && idle(b.lse, b.axes, b.batch_rank, {0});
}

bool is_empty(const AttentionGradBlock& b) {  // member, query, key, depth, value depth
  return idle(b.dq, b.axes, b.batch_rank, {0, 1, 3}) && idle(b.dk, b.axes, b.batch_rank, {2, 3}) &&
         idle(b.dv, b.axes, b.batch_rank, {2, 4});
}

}  // namespace

bool is_empty(const Program& p) {
  switch (p.kind) {
    case BlockKind::loop:
      return none_of(p.loop.axes, p.loop.parallel_rank, {});
    case BlockKind::product:
      return none_of(p.product.axes, p.product.batch_rank, {0, 1});
    case BlockKind::attention:
      return is_empty(p.attention);
    case BlockKind::attention_grad:
      return is_empty(p.attention_grad);
    case BlockKind::sort:
      return none_of(p.sort.axes, p.sort.batch_rank, {1});
  }
  return false;
}

}  // namespace hologram::atlas

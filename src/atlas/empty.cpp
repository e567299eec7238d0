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

bool is_empty(const LoopBlock& b) { return none_of(b.axes, b.parallel_rank, {}); }

bool is_empty(const ProductBlock& b) { return none_of(b.axes, b.batch_rank, {0, 1}); }

bool is_empty(const AttentionBlock& b) {  // query, key, depth, value depth
  return idle(b.epilogue, b.axes, b.batch_rank, {0, 3}) && idle(b.lse, b.axes, b.batch_rank, {0});
}

bool is_empty(const AttentionGradBlock& b) {  // member, query, key, depth, value depth
  return idle(b.dq, b.axes, b.batch_rank, {0, 1, 3}) && idle(b.dk, b.axes, b.batch_rank, {2, 3}) &&
         idle(b.dv, b.axes, b.batch_rank, {2, 4});
}

bool is_empty(const SortBlock& b) { return none_of(b.axes, b.batch_rank, {1}); }

}  // namespace

bool is_empty(const Program& p) {
  return std::visit([](const auto& block) { return is_empty(block); }, p.block);
}

}  // namespace hologram::atlas

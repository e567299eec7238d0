// interp/loop.cpp: loop blocks.
#include <algorithm>

#include "base/error.h"
#include "interp/lanes.h"
#include "ir/scalar.h"

namespace hologram::interp {
namespace {

using atlas::Code;
using atlas::Stage;
using atlas::StageKind;

// Whether running a serial body instruction by instruction over a batch equals running it element
// by element.
bool batches_serially(const atlas::Body& body) {
  std::vector<int> stored, loaded, accumulated;
  for (const atlas::Instr& i : body.instrs) {
    auto& list = i.code == Code::store ? stored : i.code == Code::load ? loaded : accumulated;
    if (i.code != Code::store && i.code != Code::load && i.code != Code::accumulate) continue;
    if (i.code != Code::load && std::count(list.begin(), list.end(), i.buffer)) return false;
    list.push_back(i.buffer);
  }
  return std::none_of(stored.begin(), stored.end(),
                      [&](int b) { return std::count(loaded.begin(), loaded.end(), b) != 0; });
}

struct StageRunner {
  const Stage& stage;
  BodyRunner body;
  std::vector<Reducer> reducers;
  size_t first_accumulator;
  int batch;

  StageRunner(const Stage& s, size_t first) : stage(s), body(s.body), first_accumulator(first) {
    for (const atlas::Reduction& r : s.reductions) reducers.emplace_back(r.op, r.type, r.tree);
    batch = s.kind == StageKind::serial_row && !batches_serially(s.body) ? 1 : lanes;
  }

  void run_rows(Frame& frame, const Walk& rows) {
    for (size_t k = 0; k < stage.running.size(); ++k)
      frame.accumulators[first_accumulator + stage.reductions.size() + k] =
          ir::identity_of(stage.running[k].first, stage.running[k].second);
    frame.scan = stage.kind == StageKind::scan;
    if (frame.scan) {
      frame.carries.resize(frame.accumulators.size());
      for (size_t k = 0; k < stage.running.size(); ++k)
        frame.carries[first_accumulator + k] =
            first_carry(stage.running[k].first, stage.running[k].second);
    }
    for (int64_t at = 0; at < rows.total(); at += batch) {
      int n = static_cast<int>(std::min<int64_t>(batch, rows.total() - at));
      rows.coordinates(frame, at, n);
      body.run(frame, n);
      for (size_t k = 0; k < reducers.size(); ++k) {
        const atlas::Reduction& r = stage.reductions[k];
        reducers[k].push(body.value(r.value),
                         r.position == atlas::no_value ? nullptr : body.value(r.position), n);
      }
    }
    for (size_t k = 0; k < reducers.size(); ++k)
      frame.accumulators[first_accumulator + k] = reducers[k].finish();
    frame.scan = false;
  }
};

std::vector<int64_t> extents_of(const atlas::LoopBlock& block, size_t from, size_t to,
                                const Frame& frame) {
  std::vector<int64_t> extents;
  for (size_t k = from; k < to; ++k) extents.push_back(eval_uniform(block.axes[k].extent, frame));
  return extents;
}

// A parallel point's coordinates hold for every lane of its row batches.
void spread(Frame& frame, size_t axes) {
  for (size_t k = 0; k < axes; ++k) frame.axes[k].fill(frame.axes[k][0]);
}

}  // namespace

void run_block(const atlas::LoopBlock& block, Frame& frame) {
  auto rank = static_cast<size_t>(block.parallel_rank);
  frame.axes.resize(block.axes.size());
  std::vector<StageRunner> stages;
  stages.reserve(block.stages.size());
  size_t accumulators = 0;
  bool points_only = std::none_of(frame.memory.begin(), frame.memory.end(),
                                  [](const Memory& m) { return m.owned; });
  for (const Stage& s : block.stages) {
    stages.emplace_back(s, accumulators);
    accumulators += s.reductions.size() + s.running.size();
    points_only = points_only && s.kind == StageKind::point;
  }
  frame.accumulators.assign(accumulators, 0);

  Walk points(extents_of(block, 0, rank, frame), 0);
  if (points_only) {
    for (int64_t at = 0; at < points.total(); at += lanes) {
      int n = static_cast<int>(std::min<int64_t>(lanes, points.total() - at));
      points.coordinates(frame, at, n);
      for (StageRunner& s : stages) s.body.run(frame, n);
    }
    return;
  }
  for (int64_t at = 0; at < points.total(); ++at) {
    points.coordinates(frame, at, 1);
    spread(frame, rank);
    Walk rows(extents_of(block, rank, block.axes.size(), frame), block.parallel_rank);
    for (StageRunner& s : stages)
      if (s.stage.kind == StageKind::point)
        s.body.run(frame, 1);
      else
        s.run_rows(frame, rows);
  }
}

}  // namespace hologram::interp

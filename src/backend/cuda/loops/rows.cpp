// backend/cuda/loops/rows.cpp: the stages of a block, by teams of threads.
#include "backend/cuda/loops/rows.h"

#include <algorithm>

#include "backend/cuda/loops/points.h"
#include "backend/cuda/loops/reduce.h"
#include "backend/cuda/loops/scan.h"
#include "codegen/nest.h"

namespace hologram::cuda {
namespace {

using atlas::LoopBlock;
using atlas::Stage;
using atlas::StageKind;

class RowEmitter {
 public:
  RowEmitter(CudaFunction& k, Mapping mapping)
      : k_(k),
        ir_(k.ir),
        block_(k.program.loop()),
        rank_(block_.parallel_rank),
        team_(k, mapping) {}

  void run() {
    const bool loops = CudaFunction::has_scratch(k_.program);
    if (loops) k_.place_scratch(team_.number());
    k_.root().seek();
    if (team_.mapping() == Mapping::columns) {
      Value* exists = ir_.CreateICmpSLT(team_.number(), k_.total());
      Value* last = ir_.CreateSub(k_.total(), k_.i64(1));
      Scope point(k_.root(), false);
      point.set_lanes(-1, 1, exists);
      stages(point, ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, team_.number(), last));
      point.seek();
      k_.root().move_to(ir_.GetInsertBlock());
    } else {
      Value* step = loops ? k_.teams() : k_.i64(int64_t{1} << 62);
      emit_loop(k_.root(), team_.number(), k_.total(), step, false,
                [&](Scope& point, Value* number) {
                  stages(point, number);
                  point.seek();
                  team_.sync();
                });
    }
    k_.root().seek();
    k_.finish();
  }

 private:
  void stages(Scope& point, Value* number) {
    fix_axes(point, block_.axes, 0, rank_, number);
    int accumulators = 0;
    for (const Stage& s : block_.stages) {
      point.seek();
      if (&s != &block_.stages[0]) team_.sync();
      emit(point, s, accumulators);
      accumulators += static_cast<int>(s.reductions.size() + s.running.size());
    }
  }

  void emit(Scope& point, const Stage& s, int first) {
    if (s.kind == StageKind::point) {
      emit_if(point, team_.leads(), [&](Scope& scope) { emit_body(scope, s.body); });
      return;
    }
    Value* count = rows(point);
    auto fix = [&](Scope& scope, Value* row) {
      fix_axes(scope, block_.axes, rank_, static_cast<int>(block_.axes.size()), row);
    };
    if (s.kind == StageKind::scan) return emit_scan(point, team_, s, first, count, fix);
    if (s.kind == StageKind::serial_row) return serial(point, s, first, count, fix);
    if (s.reductions.empty()) {
      emit_loop(point, team_.rank(), count, k_.i64(team_.size()), false,
                [&](Scope& scope, Value* row) {
                  fix(scope, row);
                  emit_body(scope, s.body);
                });
      return;
    }
    const std::vector<Value*> results = emit_reductions(point, team_, s, count, fix);
    for (size_t n = 0; n < results.size(); ++n)
      point.set_accumulator(first + static_cast<int>(n), {results[n], false});
  }

  // How many elements a row has.
  Value* rows(Scope& point) {
    Value* v = emit_expr(point, gpu::row_of(block_)).v;
    point.seek();
    return v;
  }

  // One member walks the row; the others get its accumulators.
  void serial(Scope& point, const Stage& s, int first, Value* count,
              const std::function<void(Scope&, Value*)>& fix) {
    std::vector<Value*> slots;
    for (const auto& [op, type] : s.running) {
      slots.push_back(k_.slot(k_.type_of(type), "running"));
      ir_.CreateStore(k_.identity(op, type), slots.back());
    }
    emit_if(point, team_.leads(), [&](Scope& leader) {
      emit_loop(leader, k_.i64(0), count, k_.i64(1), false, [&](Scope& scope, Value* row) {
        fix(scope, row);
        for (size_t n = 0; n < slots.size(); ++n)
          scope.set_running(first + static_cast<int>(n), slots[n], false);
        emit_body(scope, s.body);
      });
    });
    for (size_t n = 0; n < slots.size(); ++n) {
      point.seek();
      Value* v = ir_.CreateLoad(k_.type_of(s.running[n].second), slots[n]);
      if (team_.mapping() == Mapping::team) v = team_.from(v, k_.i64(0));
      point.set_accumulator(first + static_cast<int>(n), {v, false});
    }
  }

  CudaFunction& k_;
  llvm::IRBuilder<>& ir_;
  const LoopBlock& block_;
  int rank_;
  Team team_;
};

}  // namespace

void emit_rows(CudaFunction& k, Mapping mapping) { RowEmitter(k, mapping).run(); }

}  // namespace hologram::cuda

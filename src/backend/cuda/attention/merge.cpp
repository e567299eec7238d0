// backend/cuda/attention/merge.cpp: parts of attention as one.
//
// With the largest maximum M of the parts, a part counts exp(maximum - M) times.
#include "backend/cuda/attention/merge.h"

#include "backend/cuda/attention/rows.h"
#include "backend/cuda/parts.h"
#include "codegen/nest.h"

namespace hologram::cuda {
namespace {

static_assert(most_parts <= merge_threads);

class Merge {
 public:
  Merge(CudaFunction& k, const AttentionPlan& plan)
      : k_(k),
        ir_(k.ir),
        plan_(plan),
        rows_(k, plan, merge_threads, true),
        type_(k.type_of(plan.type)) {}

  void run() {
    Scope& scope = rows_.scope();
    scope.seek();
    maxima_ = k_.shared(type_, most_parts, "rows");
    weights_ = k_.shared(type_, most_parts, "rows");
    totals_ = k_.shared(type_, most_parts, "rows");
    parts_ = ir_.CreateTrunc(k_.teams(), ir_.getInt32Ty());
    Value* mine = k_.thread();
    Value* has = ir_.CreateICmpULT(mine, parts_);
    emit_if(scope, has, [&](Scope& some) {
      some.seek();
      const int values = plan_.rows * plan_.columns;
      Value* row = rows_.row_each();
      auto load = [&](int first) {
        return ir_.CreateLoad(type_, place(mine, ir_.CreateAdd(row, number(first))));
      };
      ir_.CreateStore(load(values), at(maxima_, mine));
      ir_.CreateStore(load(values + plan_.rows), at(totals_, mine));
    });
    scope.seek();
    rows_.barrier();
    Value* largest = over_parts(scope, rows_.lowest(), [&](Value* part, Value* now) {
      return rows_.larger(ir_.CreateLoad(type_, at(maxima_, part)), now);
    });
    Value* finite = rows_.finite(largest);
    emit_if(scope, has, [&](Scope& some) {
      some.seek();
      Value* maximum = ir_.CreateLoad(type_, at(maxima_, mine));
      ir_.CreateStore(rows_.exponential(some, maximum, finite), at(weights_, mine));
    });
    scope.seek();
    rows_.barrier();
    Value* total = over_parts(scope, rows_.zero(), [&](Value* part, Value* now) {
      return multiply_add(k_, plan_.type, ir_.CreateLoad(type_, at(weights_, part)),
                          ir_.CreateLoad(type_, at(totals_, part)), now);
    });
    AttentionRows::Results results;
    results.sum = [&](Value* row, Value* column) { return sum(row, column); };
    results.maximum = [&](Value*) { return largest; };
    results.total = [&](Value*) { return total; };
    rows_.finish_row(results);
    k_.root().move_to(ir_.GetInsertBlock());
    k_.root().seek();
    k_.finish();
  }

 private:
  Value* number(int n) { return ir_.getInt32(static_cast<uint32_t>(n)); }
  Value* at(Value* memory, Value* n) { return ir_.CreateGEP(type_, memory, n); }
  // Element n of what part `part` (i32) of the unit has left.
  Value* place(Value* part, Value* n) {
    Value* team = ir_.CreateAdd(ir_.CreateMul(rows_.unit(), k_.teams()),
                                ir_.CreateZExt(part, ir_.getInt64Ty()));
    return at(k_.workspace(team), n);
  }

  Value* over_parts(Scope& scope, Value* start,
                    const std::function<Value*(Value* part, Value* now)>& add) {
    Value* out = emit_loop(
        scope, number(0), parts_, number(1), true, {start},
        [&](Scope& round, Value* part, const std::vector<Value*>& now) -> std::vector<Value*> {
          round.seek();
          return {add(part, now[0])};
        })[0];
    scope.seek();
    return out;
  }

  // The builder stands in a scope of one column, and stays there.
  Value* sum(Value* row, Value* column) {
    Value* n = ir_.CreateAdd(ir_.CreateMul(row, number(plan_.columns)), column);
    return add_parts(
        k_, parts_, rows_.zero(),
        [&](Value* part) { return ir_.CreateLoad(type_, place(part, n)); },
        [&](Value* part, Value* value, Value* total) {
          Value* weight = ir_.CreateLoad(type_, at(weights_, part));
          return multiply_add(k_, plan_.type, weight, value, total);
        });
  }

  CudaFunction& k_;
  llvm::IRBuilder<>& ir_;
  const AttentionPlan& plan_;
  AttentionRows rows_;
  llvm::Type* type_;
  Value *maxima_ = nullptr, *weights_ = nullptr, *totals_ = nullptr;  // of each part, shared
  Value* parts_ = nullptr;                                            // i32
};

}  // namespace

void emit_merge(CudaFunction& k, const AttentionPlan& plan) { Merge(k, plan).run(); }

}  // namespace hologram::cuda

// codegen/product_stream.cpp: a few rows times a large matrix that is read once, as it lies.
//
// A unit is a batch point and a block of columns. Its sums stay in the first-level cache while
// several rows of the matrix stream past side by side, each of them contiguous; walking down
// panels instead would touch another page with every row.
#include "codegen/product_stream.h"

#include <algorithm>

#include "codegen/nest.h"
#include "codegen/numbers.h"
#include "codegen/pack.h"

namespace hologram::codegen {
namespace {

class StreamEmitter : Numbers {
 public:
  StreamEmitter(Kernel& kernel, const StreamProduct& plan)
      : Numbers(kernel),
        p_(kernel.program.product),
        plan_(plan),
        type_(p_.acc_type),
        vector_(k_.lane_type(type_, plan.lanes)),
        align_(static_cast<uint64_t>(size_of(type_))) {}

  void run() {
    n_ = number(plan_.n);
    depth_ = number(plan_.k);
    blocks_ = number(ceil_div(plan_.n, plan_.columns));
    lhs_row_ = number(plan_.lhs.x_stride);
    lhs_k_ = number(plan_.lhs.y_stride);
    rhs_k_ = number(plan_.rhs.y_stride);
    k_.root().seek();
    int64_t room = plan_.m * plan_.columns;
    sums_ = k_.slot(k_.memory_type(type_), "sums", room);
    chains_ = k_.slot(k_.memory_type(type_), "chains", room);
    emit_loop(k_.root(), k_.begin, k_.end, k_.i64(1), true,
              [&](Scope& scope, Value* unit) { emit_unit(scope, unit); });
    k_.root().seek();
    k_.finish();
  }

 private:
  Value* at(Value* base, Value* index) { return element(k_, type_, base, index); }
  Value* load(Value* p) { return k_.ir.CreateAlignedLoad(vector_, p, align_); }
  void store(Value* v, Value* p) { k_.ir.CreateAlignedStore(v, p, align_); }
  // Row r of sums that start at `base`.
  Value* row_of(Value* base, int64_t r, Value* offset) {
    return at(base, add(offset, r * plan_.columns));
  }

  void emit_unit(Scope& scope, Value* unit) {
    scope.seek();
    Value* batch = div(unit, blocks_);
    n_begin_ = mul(sub(unit, mul(batch, blocks_)), plan_.columns);
    count_ = least(sub(n_, n_begin_), k_.i64(plan_.columns));
    set_batch_axes(scope, p_.axes, p_.batch_rank, batch);
    Value *lhs = emit_expr(scope, plan_.lhs.base).v, *rhs = emit_expr(scope, plan_.rhs.base).v;
    scope.seek();
    lhs_ = at(k_.buffer(plan_.lhs.buffer), lhs);
    rhs_ = at(k_.buffer(plan_.rhs.buffer), add(rhs, n_begin_));
    clear(scope, sums_);
    emit_loop(scope, k_.i64(0), depth_, k_.i64(product_k_block), false,
              [&](Scope& s, Value* begin) { emit_block(s, begin); });
    epilogue(scope);
  }

  void clear(Scope& scope, Value* base) {
    emit_loop(scope, k_.i64(0), count_, k_.i64(plan_.lanes), true, [&](Scope& s, Value* offset) {
      s.seek();
      for (int64_t r = 0; r < plan_.m; ++r)
        store(llvm::Constant::getNullValue(vector_), row_of(base, r, offset));
    });
  }

  // The chains of one k-block; those of the first are the sums so far.
  void emit_block(Scope& scope, Value* begin) {
    scope.seek();
    Value* later = k_.ir.CreateICmpNE(begin, k_.i64(0));
    Value* chains = k_.ir.CreateSelect(later, chains_, sums_);
    emit_if(scope, later, [&](Scope& s) { clear(s, chains_); });
    scope.seek();
    Value* end = least(depth_, add(begin, product_k_block));
    Value* whole = add(begin, k_.ir.CreateAnd(sub(end, begin), k_.i64(-plan_.streams)));
    emit_loop(scope, begin, whole, k_.i64(plan_.streams), false,
              [&](Scope& s, Value* k) { emit_steps(s, k, plan_.streams, chains); });
    emit_loop(scope, whole, end, k_.i64(1), false,
              [&](Scope& s, Value* k) { emit_steps(s, k, 1, chains); });
    emit_if(scope, later, [&](Scope& s) {
      emit_loop(s, k_.i64(0), count_, k_.i64(plan_.lanes), true, [&](Scope& v, Value* offset) {
        v.seek();
        for (int64_t r = 0; r < plan_.m; ++r) {
          Value *sum = load(row_of(sums_, r, offset)), *chain = load(row_of(chains_, r, offset));
          sum = is_float(type_) ? k_.ir.CreateFAdd(sum, chain) : k_.ir.CreateAdd(sum, chain);
          store(sum, row_of(sums_, r, offset));
        }
      });
    });
  }

  // Rows k … k + steps of the matrix.
  void emit_steps(Scope& scope, Value* k, int steps, Value* chains) {
    scope.seek();
    std::vector<Value*> left;
    for (int64_t r = 0; r < plan_.m; ++r)
      for (int u = 0; u < steps; ++u) {
        Value* p = at(lhs_, add(mul(lhs_row_, r), mul(add(k, u), lhs_k_)));
        Value* x = k_.ir.CreateAlignedLoad(k_.type_of(type_), p, align_);
        left.push_back(k_.ir.CreateVectorSplat(static_cast<unsigned>(plan_.lanes), x));
      }
    std::vector<Value*> rows;
    for (int u = 0; u < steps; ++u) rows.push_back(at(rhs_, mul(add(k, u), rhs_k_)));
    for_vectors(scope, count_, plan_.lanes, [&](Scope& s, Value* offset, Value* mask) {
      s.seek();
      std::vector<Value*> right;
      for (Value* row : rows) {
        Value* p = at(row, offset);
        right.push_back(mask ? static_cast<Value*>(k_.ir.CreateMaskedLoad(
                                   vector_, p, align_, mask, llvm::Constant::getNullValue(vector_)))
                             : load(p));
      }
      for (int64_t r = 0; r < plan_.m; ++r) {
        Value* sum = load(row_of(chains, r, offset));
        for (int u = 0; u < steps; ++u)
          sum = multiply_add(k_, type_, left[static_cast<size_t>(r * steps + u)],
                             right[static_cast<size_t>(u)], sum);
        store(sum, row_of(chains, r, offset));
      }
    });
  }

  void epilogue(Scope& scope) {
    int m_axis = p_.batch_rank, n_axis = m_axis + 1;
    for_vectors(scope, count_, plan_.lanes, [&](Scope& s, Value* offset, Value* mask) {
      s.seek();
      s.set_axis(n_axis, add(n_begin_, offset));
      s.set_lanes(n_axis, plan_.lanes, mask);
      emit_loop(s, k_.i64(0), k_.i64(plan_.m), k_.i64(1), true, [&](Scope& row, Value* r) {
        row.seek();
        row.set_axis(m_axis, r);
        row.set_accumulator(0, {load(at(sums_, add(mul(r, plan_.columns), offset))), true});
        emit_body(row, p_.epilogue);
      });
    });
  }

  const atlas::ProductBlock& p_;
  const StreamProduct& plan_;
  DType type_;
  llvm::Type* vector_;
  llvm::Align align_;
  Value *n_ = nullptr, *depth_ = nullptr, *blocks_ = nullptr, *lhs_row_ = nullptr,
        *lhs_k_ = nullptr, *rhs_k_ = nullptr;
  Value *sums_ = nullptr, *chains_ = nullptr;  // rows x columns of the unit, of this k-block
  // Of the current unit.
  Value *lhs_ = nullptr, *rhs_ = nullptr, *n_begin_ = nullptr, *count_ = nullptr;
};

}  // namespace

void emit_stream_product(Kernel& k, const StreamProduct& plan) { StreamEmitter(k, plan).run(); }

}  // namespace hologram::codegen

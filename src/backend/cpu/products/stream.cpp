// backend/cpu/products/stream.cpp: a few rows times a large matrix that is read once, as it lies.
//
// A unit is a batch point and a block of columns. Its sums stay in the first-level cache while
// several rows of the matrix stream past side by side, each of them contiguous; walking down
// panels instead would touch another page with every row. Where k is the contiguous axis, squares
// of the matrix are transposed in registers and the sums stay there.
//
// At most four rows and a matrix of more than 128 KiB; up to 16 KiB of columns a unit; eight, four
// or two rows of the matrix side by side.
#include "backend/cpu/products/stream.h"

#include <algorithm>

#include "backend/cpu/operands/index_builder.h"
#include "backend/cpu/operands/pack.h"
#include "codegen/nest.h"

namespace hologram::cpu {
namespace {

class StreamEmitter : IndexBuilder {
 public:
  StreamEmitter(CpuFunction& kernel, const StreamProduct& plan)
      : IndexBuilder(kernel),
        p_(kernel.program.product()),
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
    rhs_n_ = number(plan_.rhs.x_stride);
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
  Value* masked_load(Value* p, Value* mask) {
    return k_.ir.CreateMaskedLoad(vector_, p, align_, mask, llvm::Constant::getNullValue(vector_));
  }
  // Element (r, k) of the left operand in every lane.
  Value* left(int64_t r, Value* k) {
    Value* p = at(lhs_, add(mul(lhs_row_, r), mul(k, lhs_k_)));
    Value* x = k_.ir.CreateAlignedLoad(k_.type_of(type_), p, align_);
    return k_.ir.CreateVectorSplat(static_cast<unsigned>(plan_.lanes), x);
  }
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
    rhs_ = at(k_.buffer(plan_.rhs.buffer), add(rhs, mul(n_begin_, rhs_n_)));
    if (plan_.turned) {
      emit_turned(scope);
    } else {
      clear(scope, sums_);
      emit_loop(scope, k_.i64(0), depth_, k_.i64(atlas::product_block), false,
                [&](Scope& s, Value* begin) { emit_block(s, begin); });
    }
    epilogue(scope);
  }

  // Two groups of columns at a time, whose chains overlap.
  void emit_turned(Scope& scope) {
    constexpr int groups = 2;
    int64_t width = int64_t{groups} * plan_.lanes;
    scope.seek();
    Value* whole = k_.ir.CreateAnd(count_, k_.i64(-width));
    Value* last = add(count_, -1);
    auto fill = [&](Scope& s, Value* offset, bool inside) {
      s.seek();
      Value* first = at(rhs_, mul(offset, rhs_n_));
      std::vector<Value*> rows;
      for (int64_t i = 0; i < width; ++i)
        rows.push_back(inside ? at(first, mul(rhs_n_, i))
                              : at(rhs_, mul(least(add(offset, i), last), rhs_n_)));
      std::vector<Value*> sums = turned_sums(s, rows, groups);
      s.seek();
      for (int g = 0; g < groups; ++g)
        for (int64_t r = 0; r < plan_.m; ++r)
          store(sums[static_cast<size_t>(g * plan_.m + r)],
                row_of(sums_, r, add(offset, int64_t{g} * plan_.lanes)));
    };
    emit_loop(scope, k_.i64(0), whole, k_.i64(width), false,
              [&](Scope& s, Value* offset) { fill(s, offset, true); });
    if (plan_.n.is_const() && plan_.n.constant_value() % width == 0) return;
    scope.seek();
    emit_if(scope, k_.ir.CreateICmpNE(whole, count_), [&](Scope& s) { fill(s, whole, false); });
  }

  // The sums of all rows for the columns whose elements start at `rows`.
  std::vector<Value*> turned_sums(Scope& scope, const std::vector<Value*>& rows, int groups) {
    std::vector<Value*> zero(static_cast<size_t>(groups * plan_.m),
                             llvm::Constant::getNullValue(vector_));
    auto joined = [&](std::vector<Value*> sums, const std::vector<Value*>& chains) {
      for (size_t i = 0; i < sums.size(); ++i)
        sums[i] = is_float(type_) ? k_.ir.CreateFAdd(sums[i], chains[i])
                                  : k_.ir.CreateAdd(sums[i], chains[i]);
      return sums;
    };
    if (!plan_.k.is_const()) {
      auto end_of = [&](Value* begin) { return least(depth_, add(begin, atlas::product_block)); };
      std::vector<Value*> first = open_chains(scope, rows, k_.i64(0), end_of(k_.i64(0)), zero);
      return emit_loop(scope, k_.i64(atlas::product_block), depth_, k_.i64(atlas::product_block),
                       false, first, [&](Scope& s, Value* begin, std::vector<Value*> so_far) {
                         s.seek();
                         auto chains = open_chains(s, rows, begin, end_of(begin), zero);
                         s.seek();
                         return joined(std::move(so_far), chains);
                       });
    }
    int64_t depth = plan_.k.constant_value(),
            whole = depth / atlas::product_block * atlas::product_block;
    if (depth < atlas::product_block) return turned_chains(scope, rows, k_.i64(0), depth, zero);
    std::vector<Value*> sums = turned_chains(scope, rows, k_.i64(0), atlas::product_block, zero);
    sums =
        emit_loop(scope, k_.i64(atlas::product_block), k_.i64(whole), k_.i64(atlas::product_block),
                  true, sums, [&](Scope& s, Value* begin, std::vector<Value*> so_far) {
                    auto chains = turned_chains(s, rows, begin, atlas::product_block, zero);
                    s.seek();
                    return joined(std::move(so_far), chains);
                  });
    if (whole == depth) return sums;
    auto chains = turned_chains(scope, rows, k_.i64(whole), depth - whole, zero);
    scope.seek();
    return joined(std::move(sums), chains);
  }

  std::vector<Value*> turned_chains(Scope& scope, const std::vector<Value*>& rows, Value* begin,
                                    int64_t depth, const std::vector<Value*>& zero) {
    int64_t lanes = plan_.lanes, whole = depth / lanes * lanes;
    scope.seek();
    auto chains = emit_loop(scope, begin, add(begin, whole), k_.i64(lanes), whole > 0, zero,
                            [&](Scope& s, Value* k, std::vector<Value*> so_far) {
                              s.seek();
                              return turned_steps(rows, k, lanes, std::move(so_far));
                            });
    scope.seek();
    if (whole == depth) return chains;
    return turned_steps(rows, add(begin, whole), depth - whole, std::move(chains));
  }

  // The same for bounds that only a call knows.
  std::vector<Value*> open_chains(Scope& scope, const std::vector<Value*>& rows, Value* begin,
                                  Value* end, const std::vector<Value*>& zero) {
    const int64_t lanes = plan_.lanes;
    scope.seek();
    Value* whole = add(begin, k_.ir.CreateAnd(sub(end, begin), k_.i64(-lanes)));
    auto chains = emit_loop(scope, begin, whole, k_.i64(lanes), false, zero,
                            [&](Scope& s, Value* k, std::vector<Value*> so_far) {
                              s.seek();
                              return turned_steps(rows, k, lanes, std::move(so_far));
                            });
    return emit_loop(scope, whole, end, k_.i64(lanes), false, chains,
                     [&](Scope& s, Value* k, std::vector<Value*> so_far) {
                       s.seek();
                       return turned_steps(rows, k, lanes - 1, std::move(so_far), sub(end, k));
                     });
  }

  // Steps k … k + count, at most as many as there are lanes. `open`: how many of them there are, if
  // only a call knows.
  std::vector<Value*> turned_steps(const std::vector<Value*>& rows, Value* k, int64_t count,
                                   std::vector<Value*> chains, Value* open = nullptr) {
    auto lanes = static_cast<size_t>(plan_.lanes);
    Value* mask = nullptr;
    if (count < plan_.lanes) mask = lane_mask(k_, open ? open : k_.i64(count), plan_.lanes);
    // Steps that there are not multiply by what the last one reads, for nothing.
    auto step = [&](int64_t u) {
      return open ? least(k_.i64(u), sub(open, k_.i64(1))) : k_.i64(u);
    };
    for (size_t g = 0; g < rows.size() / lanes; ++g) {
      std::vector<Value*> square;
      for (size_t i = 0; i < lanes; ++i) {
        Value* p = at(rows[g * lanes + i], k);
        square.push_back(mask ? masked_load(p, mask) : load(p));
      }
      transpose_square(k_, square);
      for (int64_t u = 0; u < count; ++u)
        for (int64_t r = 0; r < plan_.m; ++r) {
          Value*& chain = chains[g * static_cast<size_t>(plan_.m) + static_cast<size_t>(r)];
          Value* next = multiply_add(k_, type_, left(r, add(k, step(u))),
                                     square[static_cast<size_t>(u)], chain);
          chain =
              open ? k_.ir.CreateSelect(k_.ir.CreateICmpSLT(k_.i64(u), open), next, chain) : next;
        }
    }
    return chains;
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
    Value* end = least(depth_, add(begin, atlas::product_block));
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
    std::vector<Value*> left_values;
    for (int64_t r = 0; r < plan_.m; ++r)
      for (int u = 0; u < steps; ++u) {
        left_values.push_back(left(r, add(k, u)));
      }
    std::vector<Value*> rows;
    for (int u = 0; u < steps; ++u) rows.push_back(at(rhs_, mul(add(k, u), rhs_k_)));
    for_vectors(scope, count_, plan_.lanes, [&](Scope& s, Value* offset, Value* mask) {
      s.seek();
      std::vector<Value*> right;
      for (Value* row : rows) {
        Value* p = at(row, offset);
        right.push_back(mask ? masked_load(p, mask) : load(p));
      }
      for (int64_t r = 0; r < plan_.m; ++r) {
        Value* sum = load(row_of(chains, r, offset));
        for (int u = 0; u < steps; ++u)
          sum = multiply_add(k_, type_, left_values[static_cast<size_t>(r * steps + u)],
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
        *lhs_k_ = nullptr, *rhs_k_ = nullptr, *rhs_n_ = nullptr;
  Value *sums_ = nullptr, *chains_ = nullptr;  // rows x columns of the unit, of this k-block
  // Of the current unit.
  Value *lhs_ = nullptr, *rhs_ = nullptr, *n_begin_ = nullptr, *count_ = nullptr;
};

}  // namespace

void emit(CpuFunction& k, const StreamProduct& plan) { StreamEmitter(k, plan).run(); }

}  // namespace hologram::cpu

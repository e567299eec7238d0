// backend/cpu/products/narrow.cpp: a few rows times weights of few bits, widened in registers.
//
// A unit is a batch point and a few vectors of columns, whose sums stay in registers. The right
// operand's body runs in the loop over k; what depends on columns alone, or on a group of k
// (scales, zero points), is computed outside of it, and where the bits are not promised applied to
// the group's sum: the sum of x (v s + z) is s times that of x v, and z times that of x.
//
// The axis k is taken apart by the divisors that the body contains, so that scales are loaded once
// per group, two steps share a byte and every choice between halves is a constant. 16 weights of
// four bits then cost half a widening, a shift every other time, a look-up (operands/nibbles) and a
// multiply-add. A unit of which a sum is not finite (an infinity or NaN among the rows, an overflow
// before the scale) is computed again as the expression says. Where columns end within a vector (a
// vocabulary of 50,257) the last unit has code of its own, with masks; AVX2, which has none for
// bytes, reads those of padded blocks without. Blocks of columns are fetched 8 KiB ahead.
#include "backend/cpu/products/narrow.h"

#include <algorithm>

#include "backend/cpu/operands/index_builder.h"
#include "backend/cpu/operands/nibbles.h"
#include "backend/cpu/operands/pack.h"
#include "backend/cpu/operands/runs.h"
#include "backend/cpu/products/factors.h"
#include "codegen/nest.h"

namespace hologram::cpu {
namespace {

class NarrowEmitter : IndexBuilder {
 public:
  NarrowEmitter(CpuFunction& kernel, const NarrowProduct& plan)
      : IndexBuilder(kernel),
        p_(kernel.program.product()),
        plan_(plan),
        type_(p_.acc_type),
        vector_(k_.lane_type(type_, plan.lanes)),
        align_(static_cast<uint64_t>(size_of(type_))),
        m_axis_(p_.batch_rank),
        n_axis_(m_axis_ + 1),
        k_axis_(m_axis_ + 2),
        lhs_(strided_load(p_.lhs, m_axis_, k_axis_)) {
    if (lhs_ && (p_.operand_type != type_)) lhs_ = std::nullopt;
    take_apart();
  }

  void run() {
    k_.root().seek();
    sums_ = k_.slot(k_.memory_type(type_), "sums", plan_.m * columns());
    if (lhs_) {
      row_ = number(lhs_->x_stride);
      step_ = number(lhs_->y_stride);
    } else {
      int64_t stride = (plan_.k + plan_.lanes - 1) / plan_.lanes * plan_.lanes;
      row_ = k_.i64(stride);
      step_ = k_.i64(1);
      scratch_ = emit_scratch(k_.root(), k_.i64(plan_.m * stride * size_of(type_)));
      k_.root().seek();
      have_ = k_.slot(k_.ir.getInt64Ty(), "have");
      k_.ir.CreateStore(k_.i64(-1), have_);
    }
    emit_loop(k_.root(), k_.begin, k_.end, k_.i64(1), true,
              [&](Scope& scope, Value* unit) { emit_units(scope, unit); });
    k_.root().seek();
    k_.finish();
  }

 private:
  using Values = std::vector<Value*>;

  int64_t columns() const { return int64_t{plan_.lanes} * plan_.vectors; }
  Value* at(Value* base, Value* index) { return element(k_, type_, base, index); }

  // The body for each of the steps that go together: column = group * lanes + lane, k = (segment
  // number * rounds + round) * steps + step.
  void take_apart() {
    auto blocks = block_axis(p_.rhs, n_axis_, Expr(plan_.n), plan_.lanes, k_axis_ + 1);
    in_groups_ = blocks.has_value();
    const atlas::Body& body = blocks ? *blocks : p_.rhs;
    lane_axis_ = blocks ? k_axis_ + 2 : n_axis_;
    Expr number = Expr::axis(k_axis_ + 3, Expr((plan_.k + plan_.segment - 1) / plan_.segment)),
         round = Expr::axis(k_axis_ + 4, Expr(plan_.segment / plan_.steps));
    Expr inside = Expr::axis(k_axis_ + 5, Expr(plan_.segment));
    atlas::Body segments = nested_axis(body, k_axis_, number, inside, plan_.segment);
    // Conditions on columns are decided where a vector's place in its unit decides them.
    auto of_columns = [&](const atlas::Instr& i) {
      return i.code == atlas::Code::index && i.expr.has_axis(k_axis_ + 1);
    };
    by_vector_ = blocks && plan_.n % columns() == 0 && std::ranges::any_of(body.instrs, of_columns);
    Expr unit = Expr::axis(k_axis_ + 6, Expr(plan_.n / columns()));
    for (int v = 0; v < (by_vector_ ? plan_.vectors : 1); ++v) {
      atlas::Body b =
          by_vector_ ? nested_axis(segments, k_axis_ + 1, unit, Expr(v), plan_.vectors) : segments;
      for (int step = 0; step < plan_.steps; ++step)
        whole_.bodies.push_back(nested_axis(b, k_axis_ + 5, round, Expr(step), plan_.steps));
      auto f = take_factors(b, k_axis_ + 5);
      if (f && !f->scale.instrs.empty()) factors_.push_back(std::move(*f));
    }
    find_tables(whole_);
    if (p_.reproducible || p_.operand_type != type_ || type_ != DType::f32 ||
        factors_.size() * static_cast<size_t>(plan_.steps) != whole_.bodies.size())
      factors_.clear();
    for (const Factors& f : factors_)
      for (int step = 0; step < plan_.steps; ++step)
        values_.bodies.push_back(nested_axis(f.value, k_axis_ + 5, round, Expr(step), plan_.steps));
    find_tables(values_);
    // Where columns end within a vector, but not what is loaded of them.
    const int64_t last[] = {(plan_.n - 1) / plan_.lanes,
                            plan_.lanes - 1,
                            (plan_.k - 1) / plan_.segment,
                            (plan_.k - 1) % plan_.segment / plan_.steps,
                            0,
                            0};
    padded_ = in_groups_ && !by_vector_ && !k_.target.masks &&
              std::ranges::all_of(values_.bodies, [&](const atlas::Body& b) {
                return reads_inside(k_.program, b, last);
              });
  }

  // The right operand's body by step, or by vector and step; for each of them the tables, and what
  // leads to their bytes.
  struct Form {
    std::vector<atlas::Body> bodies;
    std::vector<std::vector<NibbleTable>> tables;
    std::vector<std::vector<atlas::Body>> until_byte;
  };

  void find_tables(Form& form) {
    if (k_.target.isa != Isa::avx512 || plan_.lanes != 16) return;
    for (const atlas::Body& b : form.bodies) {
      form.tables.push_back(find_nibbles(k_.program, b));
      form.until_byte.emplace_back();
      for (const NibbleTable& t : form.tables.back())
        form.until_byte.back().push_back(
            {{b.instrs.begin(), b.instrs.begin() + static_cast<ptrdiff_t>(t.byte) + 1}});
    }
  }

  // The right operand's vector v at `step` as seen from `scope`.
  Value* right(Scope& scope, int64_t step, int v) {
    auto number = static_cast<size_t>(by_vector_ ? v * plan_.steps + step : step);
    const Form& form = factored_ ? values_ : whole_;
    const atlas::Body& body = form.bodies[number];
    for (size_t n = 0; !form.tables.empty() && n < form.tables[number].size(); ++n) {
      LaneValue byte = emit_body(scope, form.until_byte[number][n]).back();
      scope.seek();
      Value* bytes = splat(k_, byte, plan_.lanes);
      Value* found = look_up(k_, form.tables[number][n], bytes);
      scope.preset(&body, form.tables[number][n].value, {found, true});
    }
    LaneValue value = emit_body(scope, body).back();
    scope.seek();
    Value* w = splat(k_, value, plan_.lanes);
    return p_.rhs_type() == type_ ? w : emit_cast(k_, ir::Op::cast, w, p_.rhs_type(), type_);
  }

  // The last unit of columns that end within a vector has code of its own, with masks.
  void emit_units(Scope& scope, Value* unit) {
    if (plan_.n % plan_.lanes == 0) return emit_unit(scope, unit);
    scope.seek();
    int64_t blocks = (plan_.n + columns() - 1) / columns();
    Value* number = sub(unit, mul(div(unit, k_.i64(blocks)), blocks));
    Value* last = k_.ir.CreateICmpEQ(number, k_.i64(blocks - 1));
    Value* whole = k_.ir.CreateNot(last);
    emit_if(scope, whole, [&](Scope& s) { emit_unit(s, unit); });
    masked_ = true;
    emit_if(scope, last, [&](Scope& s) { emit_unit(s, unit); });
    masked_ = false;
  }

  void emit_unit(Scope& scope, Value* unit) {
    scope.seek();
    int64_t blocks = (plan_.n + columns() - 1) / columns();
    Value* batch = div(unit, k_.i64(blocks));
    n_begin_ = mul(sub(unit, mul(batch, blocks)), columns());
    set_batch_axes(scope, p_.axes, p_.batch_rank, batch);
    left_operand(scope, batch);
    if (!factors_.empty()) {
      factored_ = true;
      all_blocks(scope);
      factored_ = false;
      // Infinities and NaN among the rows, and what overflowed before it was scaled.
      scope.seek();
      emit_if(scope, not_finite(), [&](Scope& s) { all_blocks(s); });
    } else {
      all_blocks(scope);
    }
    epilogue(scope);
  }

  // The first block's sums are written, the others' added.
  void all_blocks(Scope& scope) {
    int64_t whole = plan_.k / atlas::product_block * atlas::product_block;
    if (whole == 0) return block(scope, k_.i64(0), plan_.k, true);
    block(scope, k_.i64(0), atlas::product_block, true);
    if (whole > atlas::product_block)
      emit_loop(scope, k_.i64(atlas::product_block), k_.i64(whole), k_.i64(atlas::product_block),
                true,
                [&](Scope& s, Value* begin) { block(s, begin, atlas::product_block, false); });
    if (plan_.k > whole) block(scope, k_.i64(whole), plan_.k - whole, false);
  }

  Value* not_finite() {
    Value* all = llvm::Constant::getNullValue(vector_);  // 0 times a finite number is 0
    for (int64_t n = 0; n < plan_.m * plan_.vectors; ++n) {
      Value* x = k_.ir.CreateAlignedLoad(vector_, at(sums_, k_.i64(n * plan_.lanes)), align_);
      all = multiply_add(k_, type_, x, llvm::Constant::getNullValue(vector_), all);
    }
    return k_.ir.CreateOrReduce(k_.ir.CreateFCmpUNO(all, all));
  }

  // Points left_ at the rows of the left operand, which anything but a plain load writes to scratch
  // first.
  void left_operand(Scope& scope, Value* batch) {
    if (lhs_) {
      Value* base = emit_expr(scope, lhs_->base).v;
      scope.seek();
      left_ = at(k_.buffer(lhs_->buffer), base);
      return;
    }
    left_ = scratch_;
    scope.seek();
    Value* have = k_.ir.CreateLoad(k_.ir.getInt64Ty(), have_);
    emit_if(scope, k_.ir.CreateICmpNE(have, batch), [&](Scope& s) {
      s.seek();
      k_.ir.CreateStore(batch, have_);
      Operand operand{p_.lhs, p_.operand_type, type_, plan_.lanes};
      emit_loop(s, k_.i64(0), k_.i64(plan_.m), k_.i64(1), true, [&](Scope& row, Value* r) {
        row.seek();
        row.set_axis(m_axis_, r);
        operand.gather(row, {k_axis_, k_.i64(0), k_.i64(plan_.k)}, at(scratch_, mul(r, row_)));
      });
    });
    scope.seek();
  }

  // Column of vector v; the last unit's vectors behind the matrix compute its last columns again.
  Value* column(int v) {
    return least(add(n_begin_, int64_t{v} * plan_.lanes),
                 k_.i64((plan_.n - 1) / plan_.lanes * plan_.lanes));
  }

  // Which lanes of the vector at `column` are columns; null where all are.
  Value* lanes_from(Value* column) {
    if (!masked_) return nullptr;
    return lane_mask(k_, sub(k_.i64(plan_.n), column), plan_.lanes);
  }

  // The chains of one block of k.
  void block(Scope& scope, Value* begin, int64_t depth, bool first) {
    scope.seek();
    Values chains(static_cast<size_t>(plan_.m * plan_.vectors),
                  llvm::Constant::getNullValue(vector_));
    int64_t whole = depth / plan_.segment;
    Value* number = div(begin, k_.i64(plan_.segment));
    if (whole)
      chains = emit_loop(scope, number, add(number, whole), k_.i64(1), true, chains,
                         [&](Scope& s, Value* i, Values so_far) {
                           return segment(s, i, plan_.segment, std::move(so_far));
                         });
    if (depth % plan_.segment) {
      scope.seek();
      Scope last(scope, false);
      chains = segment(last, add(number, whole), depth % plan_.segment, std::move(chains));
      scope.move_to(k_.ir.GetInsertBlock());
    }
    scope.seek();
    for (int64_t r = 0; r < plan_.m; ++r)
      for (int v = 0; v < plan_.vectors; ++v) {
        Value* p = at(sums_, k_.i64(r * columns() + int64_t{v} * plan_.lanes));
        Value* x = chains[index(r, v)];
        if (!first) {
          Value* sum = k_.ir.CreateAlignedLoad(vector_, p, align_);
          x = is_float(type_) ? k_.ir.CreateFAdd(sum, x) : k_.ir.CreateAdd(sum, x);
        }
        k_.ir.CreateAlignedStore(x, p, align_);
      }
  }

  size_t index(int64_t r, int v) const { return static_cast<size_t>(r * plan_.vectors + v); }

  // k from number * segment on, `depth` of them.
  Values segment(Scope& scope, Value* number, int64_t depth, Values chains) {
    scope.seek();
    scope.set_axis(k_axis_ + 3, number);
    using Scopes = std::vector<std::unique_ptr<Scope>>;
    auto scopes = [&](bool padded) {
      Scopes out;
      for (int v = 0; v < plan_.vectors; ++v) {
        out.push_back(std::make_unique<Scope>(scope, false));
        Scope& s = *out.back();
        if (in_groups_) {
          s.set_axis(k_axis_ + 1, div(column(v), k_.i64(plan_.lanes)));
          s.set_axis(k_axis_ + 2, k_.i64(0));
          s.set_axis(k_axis_ + 6, div(n_begin_, k_.i64(columns())));
        } else {
          s.set_axis(n_axis_, column(v));
        }
        s.set_lanes(lane_axis_, plan_.lanes, padded ? nullptr : lanes_from(column(v)));
      }
      return out;
    };
    const Scopes vectors = scopes(false);
    const bool apart = masked_ && factored_ && padded_;
    const Scopes whole = apart ? scopes(true) : Scopes{};
    const Scopes& weights = apart ? whole : vectors;
    Value* first = at(left_, mul(mul(number, plan_.segment), step_));
    Values before, scales, zeros;
    if (factored_) {  // sums of x v, and behind them those of x
      before = chains;
      for (int v = 0; v < plan_.vectors; ++v) {
        const Factors& f = factors_[by_vector_ ? static_cast<size_t>(v) : 0];
        auto factor = [&](const atlas::Body& body) {
          Scope inner(*vectors[static_cast<size_t>(v)], false);
          LaneValue x = emit_body(inner, body).back();
          scope.seek();
          return splat(k_, x, plan_.lanes);
        };
        scales.push_back(factor(f.scale));
        if (has_zeros()) zeros.push_back(factor(f.zero));
      }
      size_t count = chains.size() + static_cast<size_t>(has_zeros() ? plan_.m : 0);
      chains.assign(count, llvm::Constant::getNullValue(vector_));
    }
    int64_t rounds = depth / plan_.steps;
    if (rounds)
      chains = emit_loop(scope, k_.i64(0), k_.i64(rounds), k_.i64(1), true, chains,
                         [&](Scope& s, Value* i, Values so_far) {
                           s.seek();
                           return round(weights, first, i, plan_.steps, std::move(so_far));
                         });
    if (int64_t rest = depth % plan_.steps) {
      scope.seek();
      chains = round(weights, first, k_.i64(rounds), rest, std::move(chains));
      scope.move_to(k_.ir.GetInsertBlock());
    }
    return factored_ ? scaled(scope, std::move(before), chains, scales, zeros) : chains;
  }

  bool has_zeros() const { return !factors_.front().zero.instrs.empty(); }

  // `before` and the sums of one segment with their scales and zeros.
  Values scaled(Scope& scope, Values before, const Values& sums, const Values& scales,
                const Values& zeros) {
    scope.seek();
    for (int64_t r = 0; r < plan_.m; ++r)
      for (int v = 0; v < plan_.vectors; ++v) {
        auto at_v = static_cast<size_t>(v);
        Value*& sum = before[index(r, v)];
        sum = multiply_add(k_, type_, scales[at_v], sums[index(r, v)], sum);
        if (zeros.empty()) continue;
        Value* of_row = sums[index(plan_.m, 0) + static_cast<size_t>(r)];
        sum = multiply_add(k_, type_, zeros[at_v], of_row, sum);
      }
    return before;
  }

  // `steps` steps of k, at the builder's block.
  Values round(const std::vector<std::unique_ptr<Scope>>& vectors, Value* first, Value* number,
               int64_t steps, Values chains) {
    Values left;  // by step and row
    auto take_rows = [&](int64_t step) {
      Value* k = add(mul(number, plan_.steps), step);
      for (int64_t r = 0; r < plan_.m; ++r) {
        Value* p = at(first, add(mul(row_, r), mul(k, step_)));
        Value* x = k_.ir.CreateAlignedLoad(k_.type_of(type_), p, align_);
        left.push_back(k_.ir.CreateVectorSplat(static_cast<unsigned>(plan_.lanes), x));
        if (chains.size() == index(plan_.m, 0)) continue;
        Value*& sum = chains[index(plan_.m, 0) + static_cast<size_t>(r)];
        sum = k_.ir.CreateFAdd(sum, left.back());
      }
    };
    auto multiply = [&](int64_t step, int v) {
      Scope inner(*vectors[static_cast<size_t>(v)], false);
      inner.set_axis(k_axis_ + 4, number);
      // What follows in the blocks of columns, which are of bytes.
      if (factored_ && in_groups_ && step == 0 && v * plan_.lanes % plan_.stream == 0)
        fetch_columns(inner, values_.bodies[0], 1, bytes_ahead * plan_.stream / 64);
      Value* w = right(inner, step, v);
      for (int64_t r = 0; r < plan_.m; ++r)
        chains[index(r, v)] = multiply_add(k_, type_, left[static_cast<size_t>(step * plan_.m + r)],
                                           w, chains[index(r, v)]);
    };
    // What steps share of a vector is used at once where few rows leave registers for it.
    if (steps * plan_.m <= 4) {
      for (int64_t step = 0; step < steps; ++step) take_rows(step);
      for (int v = 0; v < plan_.vectors; ++v)
        for (int64_t step = 0; step < steps; ++step) multiply(step, v);
    } else {
      for (int64_t step = 0; step < steps; ++step) {
        take_rows(step);
        for (int v = 0; v < plan_.vectors; ++v) multiply(step, v);
      }
    }
    return chains;
  }

  void epilogue(Scope& scope) {
    scope.seek();
    Value* count = least(sub(k_.i64(plan_.n), n_begin_), k_.i64(columns()));
    emit_loop(scope, k_.i64(0), count, k_.i64(plan_.lanes), true, [&](Scope& s, Value* offset) {
      s.seek();
      s.set_axis(n_axis_, add(n_begin_, offset));
      s.set_lanes(n_axis_, plan_.lanes, lanes_from(add(n_begin_, offset)));
      emit_loop(s, k_.i64(0), k_.i64(plan_.m), k_.i64(1), true, [&](Scope& row, Value* r) {
        row.seek();
        row.set_axis(m_axis_, r);
        Value* p = at(sums_, add(mul(r, columns()), offset));
        row.set_accumulator(0, {k_.ir.CreateAlignedLoad(vector_, p, align_), true});
        emit_body(row, p_.epilogue);
      });
    });
  }

  const atlas::ProductBlock& p_;
  const NarrowProduct& plan_;
  DType type_;
  llvm::Type* vector_;
  llvm::Align align_;
  int m_axis_, n_axis_, k_axis_, lane_axis_ = -1;
  bool in_groups_ = false;
  std::optional<StridedLoad> lhs_;
  bool by_vector_ = false;
  Form whole_, values_;
  std::vector<Factors> factors_;  // one, or one for each vector; none: not taken apart
  bool padded_ = false;           // whether all lanes of the last vector's values can be read
  bool masked_ = false;           // whether the unit that is being emitted ends within a vector
  bool factored_ = false;         // which form is being emitted
  Value *row_ = nullptr, *step_ = nullptr, *sums_ = nullptr, *scratch_ = nullptr, *have_ = nullptr;
  // Of the current unit.
  Value *left_ = nullptr, *n_begin_ = nullptr;
};

}  // namespace

void emit(CpuFunction& k, const NarrowProduct& plan) { NarrowEmitter(k, plan).run(); }

}  // namespace hologram::cpu

// backend/cpu/products/digits.cpp: rows of float32 times weights that are whole numbers of few
// bits.
//
// A unit is a batch point, a block of rows and as many columns as a vector has bytes. A thread
// writes the rows of its block as digits once. In a segment of k each row's values are taken in
// units of 2^-21 of the power of two below its largest one: whole numbers x = d0 + 256 d1 + 65536
// d2 with digits from -128 to 127; of two digits, units of 2^-13, where the product's precision is
// not the highest. Sums of digits times weights are exact in 32 bits.
//
// Four bytes of a column are a word, zipped from four rows of the weights in registers; halves of
// bytes take a mask, and a shift, besides. So 64 weights of 8 bits take a load, two zips, an
// exclusive or and three dots, where loads, conversions and multiply-adds are twelve instructions.
// Behind a segment the digits' sums become float32, times the unit and the scale; a zero point,
// added behind the scale or taken from the numbers before it, takes the sum of the row's values.
// Two rows share what is zipped, and from nine on all do where it takes halves of bytes (or AVX2).
//
// Without dot instructions AVX2 takes few rows of weights whose words lie in memory as such
// (Machine::word_columns). Products of halves of bytes, at most 15, and of digits fit eightfold
// into 16 bits, so that 128 weights take nine instructions a digit. Where 14 bits of a row do, they
// are one digit of 16 bits, which multiply-adds of pairs multiply with bytes, and with halves of
// them where they lie: high ones give 16 times the product, in sums of their own. 64 halves of
// bytes take a shift, four masks and eight instructions more.
//
// At most eight rows fetch 8 KiB ahead, where hardware alone is not faster, as it stops at the end
// of a page, and with it scales and what the epilogue reads of the columns that come next.
#include "backend/cpu/products/digits.h"

#include <llvm/IR/Intrinsics.h>

#include "backend/cpu/operands/index_builder.h"
#include "backend/cpu/operands/pack.h"
#include "backend/cpu/products/digit_rows.h"
#include "backend/cpu/products/digit_words.h"
#include "backend/cpu/products/micro.h"
#include "codegen/nest.h"

namespace hologram::cpu {
namespace {

constexpr int words = 4;  // vectors of a unit's columns
constexpr int64_t line = 64;
using Values = std::vector<Value*>;

class DigitEmitter : IndexBuilder {
 public:
  DigitEmitter(CpuFunction& kernel, const DigitProduct& plan)
      : IndexBuilder(kernel),
        p_(kernel.program.product()),
        plan_(plan),
        form_(*digit_form(kernel.program, plan)),
        m_axis_(p_.batch_rank),
        n_axis_(m_axis_ + 1),
        k_axis_(m_axis_ + 2),
        vector_(k_.lane_type(DType::f32, plan.lanes)),
        ints_(k_.widen(k_.ir.getInt32Ty(), plan.lanes)),
        lhs_(strided_load(p_.lhs, m_axis_, k_axis_)) {
    if (lhs_ && !lhs_->y_stride.is(1)) lhs_ = std::nullopt;
  }

  void run() {
    m_ = number(plan_.m);
    row_blocks_ = number(plan_.row_blocks);
    k_.root().seek();
    const int64_t row = (plan_.k + plan_.lanes - 1) / plan_.lanes * plan_.lanes * 4;
    const int64_t rows = plan_.rows * plan_.row_bytes();
    const int64_t sums = plan_.rows * plan_.columns * 4;
    const int64_t wide = shared() ? plan_.segment * plan_.columns : 0;
    row_ = emit_scratch(k_.root(), k_.i64(row + rows + sums + wide));
    have_ = emit_block_note(k_.root(), row_);
    k_.root().seek();
    digits_ = byte(row_, k_.i64(row));
    sums_ = byte(digits_, k_.i64(rows));
    wide_ = byte(sums_, k_.i64(sums));
    digit_rows_.emplace(k_, plan_, form_);
    if (lhs_) row_stride_ = number(lhs_->x_stride);
    emit_loop(k_.root(), k_.begin, k_.end, k_.i64(1), true,
              [&](Scope& scope, Value* unit) { emit_units(scope, unit); });
    k_.root().seek();
    k_.finish();
  }

 private:
  // Whether a segment's widened weights are written to memory for all rows to read.
  bool shared() const { return plan_.rows > 8 && (plan_.halves || together() == 1); }
  // Rows whose sums registers hold.
  int together() const {
    if (plan_.pairs) return static_cast<int>(std::min<int64_t>(plan_.rows, 8 / chains()));
    return plan_.lanes >= 16 ? 2 : 1;
  }
  // Of a row and a vector of columns.
  int chains() const { return plan_.pairs ? (plan_.halves ? 2 : 1) : plan_.digits; }
  Value* byte(Value* base, Value* offset) { return element(k_, DType::u8, base, offset); }
  Value* splat_of(Value* scalar) {
    return k_.ir.CreateVectorSplat(static_cast<unsigned>(plan_.lanes), scalar);
  }
  Value* splat_of(float x) { return llvm::ConstantFP::get(vector_, x); }
  Value* splat_of(uint32_t x) { return llvm::ConstantInt::get(ints_, x); }
  Value* load(llvm::Type* type, Value* p) {
    return k_.ir.CreateAlignedLoad(type, p, llvm::Align(4));
  }
  void store(Value* x, Value* p) { k_.ir.CreateAlignedStore(x, p, llvm::Align(4)); }

  // The last block of columns that end within a vector has code of its own, with masks.
  void emit_units(Scope& scope, Value* unit) {
    scope.seek();
    const int64_t blocks = (plan_.n + plan_.columns - 1) / plan_.columns;
    Value* rows = div(unit, k_.i64(blocks));
    Value* block = sub(unit, mul(rows, blocks));
    if (plan_.n % plan_.columns == 0) return emit_unit(scope, rows, block);
    Value* last = k_.ir.CreateICmpEQ(block, k_.i64(blocks - 1));
    Value* whole = k_.ir.CreateNot(last);
    emit_if(scope, whole, [&](Scope& s) { emit_unit(s, rows, block); });
    masked_ = true;
    emit_if(scope, last, [&](Scope& s) { emit_unit(s, rows, block); });
    masked_ = false;
  }

  void emit_unit(Scope& scope, Value* number, Value* block) {
    scope.seek();
    Value* batch = div(number, row_blocks_);
    Value* row_block = sub(number, mul(batch, row_blocks_));
    set_batch_axes(scope, p_.axes, p_.batch_rank, batch);
    scope.seek();
    row_begin_ = mul(row_block, plan_.rows);
    rows_ = least(sub(m_, row_begin_), k_.i64(plan_.rows));
    if (plan_.m.is(plan_.rows)) {
      row_begin_ = k_.i64(0);
      rows_ = k_.i64(plan_.rows);
    }
    block_ = block;
    n_begin_ = mul(block, plan_.columns);
    Value *have = k_.ir.CreateLoad(k_.ir.getInt64Ty(), have_), *note = add(number, 1);
    emit_if(scope, k_.ir.CreateICmpNE(have, note), [&](Scope& s) {
      fetch_first(s);
      s.seek();
      k_.ir.CreateStore(note, have_);
      each_row(
          s, [&](Scope& row, Value* r) { digit_rows_->write(row, row_at(row, r), digits_of(r)); });
    });
    if (fetches()) fetch_results(scope, plan_.columns);
    scope.seek();
    k_.ir.CreateMemSetInline(sums_, llvm::Align(4), k_.ir.getInt8(0),
                             k_.i64(plan_.rows * plan_.columns * 4));
    const int64_t whole = plan_.k / plan_.segment;
    emit_loop(scope, k_.i64(0), k_.i64(whole), k_.i64(1), true,
              [&](Scope& s, Value* i) { segment(s, i, plan_.segment); });
    if (plan_.k % plan_.segment) {
      scope.seek();
      Scope last(scope, false);
      segment(last, k_.i64(whole), plan_.k % plan_.segment);
      scope.move_to(k_.ir.GetInsertBlock());
    }
    each_row(scope, [&](Scope& row, Value* r) { finish_row(row, r); });
  }

  void each_row(Scope& scope, const std::function<void(Scope&, Value*)>& fill) {
    emit_loop(scope, k_.i64(0), rows_, k_.i64(1), true, [&](Scope& s, Value* r) {
      s.seek();
      fill(s, r);
    });
  }

  Value* digits_of(Value* row) { return byte(digits_, mul(row, plan_.row_bytes())); }
  Value* sums_of(Value* row) {
    return element(k_, DType::f32, sums_, mul(row, int64_t{plan_.columns}));
  }
  // The left operand's row `r` of the block, where it lies or as a copy.
  Value* row_at(Scope& scope, Value* r) {
    scope.seek();
    Value* m = add(row_begin_, r);
    if (lhs_) {
      Value* base = emit_expr(scope, lhs_->base).v;
      scope.seek();
      return element(k_, DType::f32, k_.buffer(lhs_->buffer), add(base, mul(m, row_stride_)));
    }
    scope.set_axis(m_axis_, m);
    Operand operand{p_.lhs, p_.operand_type, DType::f32, plan_.lanes};
    operand.gather(scope, {k_axis_, k_.i64(0), k_.i64(plan_.k)}, row_);
    scope.seek();
    return row_;
  }

  // Points `s` at the unit's first column, and says along which axis columns run.
  int set_first_column(Scope& s) {
    s.seek();
    if (form_.in_blocks) s.set_axis(k_axis_ + 1, block_);
    const int axis = form_.in_blocks ? k_axis_ + 2 : n_axis_;
    s.set_axis(axis, form_.in_blocks ? k_.i64(0) : n_begin_);
    return axis;
  }

  // Lays the lanes of `s` along the unit's columns; `padded`: those behind the last one too.
  void set_columns(Scope& s, bool padded = false) {
    s.seek();
    Value* mask =
        masked_ && !padded ? lane_mask(k_, sub(k_.i64(plan_.n), n_begin_), plan_.columns) : nullptr;
    const int axis = set_first_column(s);
    s.set_lanes(axis, plan_.columns, mask);
  }

  // Adds one segment to the sums of all rows.
  void segment(Scope& scope, Value* number, int64_t depth) {
    scope.seek();
    scope.set_axis(k_axis_ + 3, number);
    Scope columns(scope, false), weights(scope, false);
    set_columns(columns);
    if (plan_.in_words)
      set_first_column(weights);
    else
      set_columns(weights, form_.padded && !k_.target.masks);
    // Scales lie in the order of segments, in blocks of columns, or one for each column.
    const int64_t bytes = depth * plan_.columns / (plan_.halves ? 2 : 1);
    const int64_t later = (bytes_ahead + bytes - 1) / bytes * plan_.columns;
    auto of_columns = [&](const atlas::Body& body) -> Values {
      if (body.instrs.empty()) return {};
      LaneValue x = emit_body(columns, body).back();
      if (fetches()) fetch_columns(columns, body, plan_.columns, later);
      scope.seek();
      Values parts = quarters(k_, splat(k_, x, plan_.columns));
      return plan_.in_words ? parts : as_words(k_, parts);
    };
    Segment g{
        number, depth, &weights, of_columns(form_.factors.scale), of_columns(form_.factors.zero),
        nullptr};
    scope.seek();
    if (plan_.in_words) g.ahead = ahead_of(number);
    if (shared()) write_wide(scope, g);
    scope.seek();
    const int some = plan_.rows > 1 ? together() : 1;
    Value* whole = some > 1 ? mul(div(rows_, k_.i64(some)), some) : k_.i64(0);
    if (some > 1)
      emit_loop(scope, k_.i64(0), whole, k_.i64(some), false,
                [&](Scope& s, Value* row) { add_rows(s, g, row, some); });
    emit_loop(scope, whole, rows_, k_.i64(1), false,
              [&](Scope& s, Value* row) { add_rows(s, g, row, 1); });
  }

  struct Segment {
    Value* number;
    int64_t depth;
    Scope* weights;
    Values scales, zeros;
    Value* ahead;  // words: how far behind a word is what is fetched with it
  };

  // A unit's words are two streams of memory: half as far ahead in each, at last in the next
  // unit's.
  Value* ahead_of(Value* number) {
    const int64_t all = (plan_.k + plan_.segment - 1) / plan_.segment, stream = form_.vectors[2];
    const int64_t bytes = plan_.segment / plan_.values() * line;
    const int64_t later = std::min((bytes_ahead / 2 + bytes - 1) / bytes, all);
    Value* inside = k_.ir.CreateICmpSLT(number, k_.i64(all - later));
    return k_.ir.CreateSelect(inside, k_.i64(later * bytes), k_.i64(later * bytes + stream));
  }

  int64_t word_bytes() const { return int64_t{plan_.values()} * plan_.columns; }
  void write_wide(Scope& scope, const Segment& g) {
    emit_loop(scope, k_.i64(0), k_.i64(g.depth / plan_.values()), k_.i64(1), true,
              [&](Scope& s, Value* word) {
                s.seek();
                Value* to = byte(wide_, mul(word, word_bytes()));
                for (Value* x : widened(g, word)) {
                  store(x, to);
                  to = byte(to, k_.i64(plan_.columns));
                }
              });
  }

  // As many as registers have room for beside the sums.
  Values read_wide(Value* word, int half) {
    Values out;
    for (int64_t v = int64_t{half} * words; v < int64_t{half + 1} * words; ++v)
      out.push_back(load(ints_, byte(wide_, add(mul(word, word_bytes()), v * plan_.columns))));
    return out;
  }

  void add_rows(Scope& scope, const Segment& g, Value* row, int count) {
    scope.seek();
    Values rows, sums;
    for (int r = 0; r < count; ++r) {
      rows.push_back(digits_of(add(row, r)));
      auto start = [&](int j) {
        if (j >= plan_.digits) return splat_of(uint32_t{0});
        return splat_of(load(k_.ir.getInt32Ty(),
                             digit_rows_->note_of(rows.back(), g.number, DigitRows::starts + j)));
      };
      for (int v = 0; v < words; ++v)
        for (int j = 0; j < chains(); ++j) sums.push_back(start(j));
    }
    Value* first = mul(g.number, plan_.segment);
    if (plan_.pairs) {
      by_pairs(scope, g, rows, first, sums);
    } else if (!k_.target.i8_dots) {
      sums = without_dots(scope, g, rows, first, std::move(sums));
    } else {
      sums = emit_loop(scope, k_.i64(0), k_.i64(g.depth / plan_.values()), k_.i64(1), true, sums,
                       [&](Scope& s, Value* word, Values so_far) {
                         s.seek();
                         Values bytes;
                         if (!shared()) bytes = widened(g, word);
                         Value* at = add(first, mul(word, plan_.values()));
                         for (int half = 0; half < plan_.values() / 4; ++half) {
                           Values read = shared() ? read_wide(word, half) : Values{};
                           multiply(rows, add(at, int64_t{half} * 4),
                                    shared() ? read.data() : &bytes[half * words], so_far);
                         }
                         return so_far;
                       });
    }
    scope.seek();
    for (int r = 0; r < count; ++r)
      add_sums(rows[static_cast<size_t>(r)], add(row, r), g,
               &sums[static_cast<size_t>(r * words * chains())]);
  }

  void multiply(const Values& rows, Value* at, Value* const* bytes, Values& chains) {
    size_t n = 0;
    for (Value* row : rows) {
      Values x;
      for (int j = 0; j < plan_.digits; ++j) {
        Value* p = byte(row, add(at, j * plan_.plane_bytes()));
        x.push_back(splat_of(load(k_.ir.getInt32Ty(), p)));
      }
      for (int v = 0; v < words; ++v)
        for (Value* digit : x) {
          chains[n] = dot_bytes(k_, chains[n], bytes[v], digit);
          ++n;
        }
    }
  }

  // Rows of 16 bits times pairs of numbers, as many vectors of columns at a time as leave
  // registers.
  void by_pairs(Scope& scope, const Segment& g, const Values& rows, Value* first, Values& sums) {
    const auto each = static_cast<size_t>(chains()), count = rows.size();
    const size_t some = count > 1 ? 1 : plan_.halves ? 2 : words;
    for (size_t v = 0; v < words; v += some) {
      Values part;
      for (size_t r = 0; r < count; ++r)
        part.insert(part.end(), &sums[(r * words + v) * each],
                    &sums[(r * words + v + some) * each]);
      scope.seek();
      part = emit_loop(
          scope, k_.i64(0), k_.i64(g.depth / plan_.values()), k_.i64(1), true, std::move(part),
          [&](Scope& s, Value* word, Values so_far) {
            Values x = words_at(g, word, v, some);
            s.seek();
            Value* at = mul(add(first, mul(word, plan_.values())), 2);
            size_t n = 0;
            for (Value* row : rows)
              for (Value* w : x) {
                const Values pairs = pairs_of(k_, w, plan_.halves, form_.number.flipped);
                for (size_t i = 0; i < pairs.size(); ++i) {
                  Value* y = splat_of(
                      load(k_.ir.getInt32Ty(), byte(row, add(at, static_cast<int64_t>(4 * i)))));
                  so_far[n + i % each] = dot_pairs(k_, so_far[n + i % each], pairs[i], y);
                }
                n += each;
              }
            return so_far;
          });
      for (size_t r = 0; r < count; ++r)
        std::copy_n(&part[r * some * each], some * each, &sums[(r * words + v) * each]);
    }
  }

  // Halves of bytes by pairs: two words of each column go together where there are as many.
  Values without_dots(Scope& scope, const Segment& g, const Values& rows, Value* first,
                      Values chains) {
    const int64_t all = g.depth / plan_.values(), some = all % 2 ? 1 : 2;
    return emit_loop(scope, k_.i64(0), k_.i64(all), k_.i64(some), true, std::move(chains),
                     [&](Scope& s, Value* word, Values so_far) {
                       std::vector<Values> bytes;  // by halves of words
                       for (int64_t w = 0; w < some; ++w) bytes.push_back(widened(g, add(word, w)));
                       s.seek();
                       size_t n = 0;
                       for (Value* row : rows) {
                         auto digit = [&](int64_t at, int j) {
                           Value* p = byte(row, add(add(first, mul(word, plan_.values())),
                                                    at * 4 + j * plan_.plane_bytes()));
                           return splat_of(load(k_.ir.getInt32Ty(), p));
                         };
                         for (int v = 0; v < words; ++v)
                           for (int j = 0; j < plan_.digits; ++j) {
                             std::vector<HalvesTimes> products;
                             for (int64_t half = 0; half < 2 * some; ++half)
                               products.push_back({bytes[static_cast<size_t>(half / 2)]
                                                        [static_cast<size_t>(half % 2 * words + v)],
                                                   digit(half, j)});
                             so_far[n] = dot_halves(k_, so_far[n], products);
                             ++n;
                           }
                       }
                       return so_far;
                     });
  }

  // Where the words of a unit's columns are.
  Value* word_address(Scope& first_column, Value* word) {
    Scope inner(first_column, false);
    inner.set_axis(k_axis_ + 4, word);
    const atlas::Instr& i = form_.until[0].instrs.back();
    Value* at = emit_expr(inner, i.expr).v;
    inner.seek();
    return byte(k_.buffer(i.buffer), at);
  }

  // Words of the unit's vectors of columns from number v on.
  Values words_at(const Segment& g, Value* word, size_t v, size_t count) {
    Value* p = word_address(*g.weights, word);
    Values out;
    for (size_t i = v; i < v + count; ++i) {
      const int64_t at = form_.vectors[i];
      out.push_back(load(ints_, byte(p, k_.i64(at))));
      if (at % line == 0 && fetches()) emit_fetch(k_, byte(p, g.ahead), at);
    }
    return out;
  }

  // Four vectors of the columns' bytes.
  Values bytes_of(const Segment& g, Value* word) {
    Scope inner(*g.weights, false);
    inner.set_axis(k_axis_ + 4, word);
    Values rows;
    for (const atlas::Body& body : form_.until) {
      LaneValue bytes = emit_body(inner, body).back();
      inner.seek();
      rows.push_back(splat(k_, bytes, plan_.columns));
      fetch_ahead(rows.back());
    }
    return rows;
  }

  // A word of each column: four of its bytes, or their halves that come first and those that come
  // last. Zipped, word i of group g of four is column 16 g + 4 v + i in vector v; so are sums,
  // until a row is finished.
  Values widened(const Segment& g, Value* word) {
    Values out = plan_.in_words ? words_at(g, word, 0, words) : zipped(k_, bytes_of(g, word));
    if (plan_.halves) return halves_of(k_, out);
    if (form_.number.flipped)
      for (Value*& x : out) x = k_.ir.CreateXor(x, splat_of(uint32_t{0x80808080}));
    return out;
  }

  // Few rows wait for memory alone.
  bool fetches() const {
    return k_.target.processor->row_fetch && plan_.m.is_const() && plan_.m.constant_value() <= 8;
  }

  void fetch_ahead(Value* bytes) {
    if (auto* read = llvm::dyn_cast<llvm::LoadInst>(bytes); read && fetches())
      emit_fetch(k_, read->getPointerOperand(), bytes_ahead);
  }

  // What the first unit begins with, while the rows' digits are written.
  void fetch_first(Scope& scope) {
    if (!fetches()) return;
    scope.seek();
    Scope columns(scope, false);
    columns.set_axis(k_axis_ + 3, k_.i64(0));
    columns.set_axis(k_axis_ + 4, k_.i64(0));
    if (plan_.in_words) {
      set_first_column(columns);
      Value* p = word_address(columns, k_.i64(0));
      for (int64_t stream : form_.vectors)
        for (int64_t at = 0; stream % line == 0 && at < bytes_ahead / 2; at += line)
          emit_fetch(k_, p, stream + at);
    }
    set_columns(columns);
    for (const atlas::Body* body : {&form_.factors.scale, &form_.factors.zero})
      fetch_columns(columns, *body, plan_.columns, 0);
    fetch_columns(columns, {{form_.until[0].instrs.back()}}, bytes_ahead, 0);
    fetch_results(scope, 0);
  }

  // What the epilogue of the columns `later` on reads.
  void fetch_results(Scope& scope, int64_t later) {
    scope.seek();
    Scope results(scope, false);
    results.set_axis(m_axis_, row_begin_);
    set_results(results, n_begin_, plan_.lanes);
    fetch_columns(results, p_.epilogue, plan_.columns, later);
    scope.seek();
  }

  void add_sums(Value* row, Value* r, const Segment& g, Value* const* parts) {
    auto& ir = k_.ir;
    Values t;
    for (int v = 0; v < words; ++v) {
      Value* x = nullptr;
      Values sums(parts + v * chains(), parts + (v + 1) * chains());
      if (plan_.pairs && plan_.halves) sums = {ir.CreateAdd(sums[0], ir.CreateAShr(sums[1], 4))};
      for (size_t j = sums.size(); j-- > 0;) {
        Value* part = ir.CreateSIToFP(sums[j], vector_);
        x = x ? multiply_add(k_, DType::f32, x, splat_of(256.0F), part) : part;
      }
      t.push_back(x);
    }
    Value* unit =
        splat_of(load(ir.getFloatTy(), digit_rows_->note_of(row, g.number, DigitRows::step)));
    Value* sum = g.zeros.empty()
                     ? nullptr
                     : splat_of(load(ir.getFloatTy(),
                                     digit_rows_->note_of(row, g.number, DigitRows::total)));
    for (size_t v = 0; v < words; ++v) add_scaled(r, g, v, ir.CreateFMul(t[v], unit), sum);
  }

  // Adds `t` times the scale, and the sum of the row's values times the zero, to vector v of row r.
  void add_scaled(Value* r, const Segment& g, size_t v, Value* t, Value* sum) {
    Value* p = element(k_, DType::f32, sums_of(r), k_.i64(static_cast<int64_t>(v) * plan_.lanes));
    Value* x = multiply_add(k_, DType::f32, g.scales[v], t, load(vector_, p));
    if (!g.zeros.empty()) x = multiply_add(k_, DType::f32, g.zeros[v], sum, x);
    store(x, p);
  }

  // Sums that are not finite (a segment without a unit, an overflow before the scale) are computed
  // again as the expression says; then the epilogue.
  void finish_row(Scope& scope, Value* r) {
    Value* zero = llvm::Constant::getNullValue(vector_);
    Value *all = zero, *sums = sums_of(r);
    auto part = [&](int v) {
      return element(k_, DType::f32, sums, k_.i64(int64_t{v} * plan_.lanes));
    };
    Values columns;
    for (int v = 0; v < words; ++v) columns.push_back(load(vector_, part(v)));
    if (!plan_.in_words) columns = in_order(k_, columns);
    for (int v = 0; v < words; ++v) {
      store(columns[static_cast<size_t>(v)], part(v));
      all = multiply_add(k_, DType::f32, columns[static_cast<size_t>(v)], zero, all);
    }
    Value* not_finite = k_.ir.CreateOrReduce(k_.ir.CreateFCmpUNO(all, all));
    emit_if(scope, not_finite, [&](Scope& s) { as_written(s, row_at(s, r), sums); });
    epilogue(scope, r, sums);
  }

  void as_written(Scope& scope, Value* x, Value* sums) {
    llvm::Type* type = k_.lane_type(DType::f32, plan_.columns);
    scope.seek();
    Scope columns(scope, false);
    set_columns(columns);
    scope.seek();
    Values sum =
        emit_loop(scope, k_.i64(0), k_.i64(plan_.k), k_.i64(1), true,
                  {llvm::Constant::getNullValue(type)}, [&](Scope& s, Value* at, Values so_far) {
                    s.seek();
                    Scope inner(columns, false);
                    inner.set_axis(k_axis_, at);
                    LaneValue value = emit_body(inner, form_.whole).back();
                    inner.seek();
                    Value* w = splat(k_, value, plan_.columns);
                    Value* one = load(k_.ir.getFloatTy(), element(k_, DType::f32, x, at));
                    one = k_.ir.CreateVectorSplat(static_cast<unsigned>(plan_.columns), one);
                    return Values{multiply_add(k_, DType::f32, one, w, so_far[0])};
                  });
    scope.seek();
    store(sum[0], sums);
  }

  // Lays `lanes` of `s` along the results from column n on.
  void set_results(Scope& s, Value* n, int lanes) {
    s.set_axis(n_axis_, n);
    s.set_lanes(n_axis_, lanes, masked_ ? lane_mask(k_, sub(k_.i64(plan_.n), n), lanes) : nullptr);
  }

  // A whole unit's vectors side by side: one behind the other, chains of instructions wait.
  void epilogue(Scope& scope, Value* r, Value* sums) {
    const int lanes = masked_ ? plan_.lanes : static_cast<int>(plan_.columns);
    scope.seek();
    scope.set_axis(m_axis_, add(row_begin_, r));
    Value* count = k_.i64(plan_.columns);
    if (masked_) count = least(sub(k_.i64(plan_.n), n_begin_), count);
    emit_loop(scope, k_.i64(0), count, k_.i64(lanes), true, [&](Scope& s, Value* offset) {
      s.seek();
      set_results(s, add(n_begin_, offset), lanes);
      llvm::Type* type = k_.lane_type(DType::f32, lanes);
      s.set_accumulator(0, {load(type, element(k_, DType::f32, sums, offset)), true});
      emit_body(s, p_.epilogue);
    });
  }

  const atlas::ProductBlock& p_;
  const DigitProduct& plan_;
  DigitForm form_;
  int m_axis_, n_axis_, k_axis_;
  llvm::Type *vector_, *ints_;  // a vector of float32, and as words
  std::optional<StridedLoad> lhs_;
  Value *m_ = nullptr, *row_blocks_ = nullptr, *row_stride_ = nullptr;
  Value *row_ = nullptr, *digits_ = nullptr, *sums_ = nullptr, *wide_ = nullptr, *have_ = nullptr;
  std::optional<DigitRows> digit_rows_;
  bool masked_ = false;  // whether the unit that is being emitted ends within a vector
  // Of the current unit.
  Value *row_begin_ = nullptr, *rows_ = nullptr, *block_ = nullptr, *n_begin_ = nullptr;
};

}  // namespace

void emit(CpuFunction& k, const DigitProduct& plan) { DigitEmitter(k, plan).run(); }

}  // namespace hologram::cpu

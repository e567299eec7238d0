// backend/cpu/products/digits.cpp: rows of float32 times weights that are whole numbers of few
// bits.
//
// A unit is a batch point, a block of rows and as many columns as a vector has bytes. A thread
// writes the rows of its block as digits once. In a segment of k each row's values are taken in
// units of 2^-21 of the power of two below its largest one: whole numbers x = d0 + 256 d1 + 65536
// d2 with digits from -128 to 127. Sums of digits times weights are exact in 32 bits.
//
// Four bytes of a column are a word, zipped from four rows of the weights in registers; halves of
// bytes take a mask, and a shift, besides. So 64 weights of 8 bits take a load, two zips, an
// exclusive or and three dots, where loads, conversions and multiply-adds are twelve instructions.
// Behind a segment the digits' sums become float32, times the unit and the scale; a zero point,
// added behind the scale or taken from the numbers before it, takes the sum of the row's values.
// Two rows share what is zipped, and from nine on all do where it takes halves of bytes (or AVX2).
//
// At most eight rows fetch 8 KiB ahead, as hardware stops at the end of a page, and with it scales
// and what the epilogue reads of the columns that come next, which hardware does not foresee.
#include "backend/cpu/products/digits.h"

#include <llvm/IR/Intrinsics.h>

#include <array>

#include "backend/cpu/operands/index_builder.h"
#include "backend/cpu/operands/pack.h"
#include "backend/cpu/products/micro.h"
#include "codegen/memory.h"
#include "codegen/nest.h"

namespace hologram::cpu {
namespace {

constexpr int digits = DigitProduct::digits, words = 4;  // words: vectors of a unit's columns
using Values = std::vector<Value*>;

// What is known of a row's segment, in words of 32 bits: what sums of each digit begin with, the
// unit, and the sum of the values.
enum Note : int64_t { starts = 0, step = digits, total, notes = 8 };

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
    largest_ = k_.slot(ints_, "largest");
    for (Value*& sum : digit_sums_) sum = k_.slot(ints_, "digit_sum");
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
  int together() const { return plan_.lanes >= 16 ? 2 : 1; }

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
      each_row(s, [&](Scope& row, Value* r) { write_digits(row, row_at(row, r), digits_of(r)); });
    });
    if (few()) fetch_results(scope, plan_.columns);
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
  Value* note_of(Value* row_digits, Value* segment, int64_t which) {
    Value* notes_at = byte(row_digits, k_.i64(digits * plan_.plane_bytes()));
    return element(k_, DType::i32, notes_at, add(mul(segment, notes), which));
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

  Value* row_vector(Value* x, Value* offset, Value* mask) {
    Value* p = element(k_, DType::f32, x, offset);
    if (!mask) return load(vector_, p);
    return k_.ir.CreateMaskedLoad(vector_, p, llvm::Align(4), mask,
                                  llvm::Constant::getNullValue(vector_));
  }

  // The digits of a row's segments, and what is to be known of these.
  void write_digits(Scope& scope, Value* x, Value* out) {
    const int64_t segments = (plan_.k + plan_.segment - 1) / plan_.segment;
    emit_loop(scope, k_.i64(0), k_.i64(segments), k_.i64(1), true, [&](Scope& s, Value* segment) {
      s.seek();
      Value* begin = mul(segment, plan_.segment);
      Value* count = k_.i64(plan_.segment);
      if (plan_.k % plan_.segment) count = least(sub(k_.i64(plan_.k), begin), count);
      Value* from = element(k_, DType::f32, x, begin);
      k_.ir.CreateStore(splat_of(uint32_t{0}), largest_);
      for (Value* sum : digit_sums_) k_.ir.CreateStore(splat_of(uint32_t{0}), sum);
      for_vectors(s, count, plan_.lanes, [&](Scope& v, Value* offset, Value* mask) {
        v.seek();
        Value* bits = k_.ir.CreateBitCast(row_vector(from, offset, mask), ints_);
        bits = k_.ir.CreateAnd(bits, splat_of(uint32_t{0x7fffffff}));
        Value* so_far = k_.ir.CreateLoad(ints_, largest_);
        k_.ir.CreateStore(k_.ir.CreateBinaryIntrinsic(llvm::Intrinsic::umax, bits, so_far),
                          largest_);
      });
      s.seek();
      auto number = [&](uint32_t n) { return k_.ir.getInt32(n); };
      Value* bits = k_.ir.CreateIntMaxReduce(k_.ir.CreateLoad(ints_, largest_), false);
      Value* exponent = k_.ir.CreateLShr(bits, number(23));
      Value* from_24 = k_.ir.CreateBinaryIntrinsic(llvm::Intrinsic::umax, exponent, number(24));
      auto power = [&](Value* e) {
        return k_.ir.CreateBitCast(k_.ir.CreateShl(e, number(23)), k_.ir.getFloatTy());
      };
      Value* per_unit = power(k_.ir.CreateSub(number(275), from_24));
      Value* unit = power(k_.ir.CreateSub(from_24, number(21)));
      // Infinities, NaN, and values whose unit would be no normal number.
      Value* other =
          k_.ir.CreateAnd(k_.ir.CreateICmpUGT(k_.ir.CreateSub(exponent, number(24)), number(230)),
                          k_.ir.CreateICmpNE(bits, number(0)));
      unit = k_.ir.CreateSelect(other, llvm::ConstantFP::getNaN(unit->getType()), unit);
      for_vectors(s, count, plan_.lanes, [&](Scope& v, Value* offset, Value* mask) {
        v.seek();
        digits_of_vector(row_vector(from, offset, mask), per_unit, byte(out, add(begin, offset)));
      });
      s.seek();
      write_notes(out, segment, unit);
    });
  }

  // Stores the digits of the numbers x, and adds them to their sums.
  void digits_of_vector(Value* x, Value* per_unit, Value* out) {
    auto& ir = k_.ir;
    // 1.5 * 2^23 has a last place of 1; with 128 added to each digit, no digit borrows.
    constexpr float rounder = 12582912;
    constexpr uint32_t rounder_bits = 0x4b400000, biases = 0x808080;
    Value* sum = multiply_add(k_, DType::f32, x, splat_of(per_unit), splat_of(rounder));
    Value* all = ir.CreateAdd(ir.CreateBitCast(sum, ints_), splat_of(biases - rounder_bits));
    all = ir.CreateXor(all, splat_of(biases));
    for (int j = 0; j < digits; ++j) {
      Value* digit = ir.CreateAShr(ir.CreateShl(all, static_cast<uint64_t>(24 - 8 * j)), 24);
      Value*& slot = digit_sums_[static_cast<size_t>(j)];
      ir.CreateStore(ir.CreateAdd(ir.CreateLoad(ints_, slot), digit), slot);
      Value* bytes = ir.CreateTrunc(digit, k_.widen(ir.getInt8Ty(), plan_.lanes));
      if (plan_.halves) {
        std::vector<int> order;
        for (int l = 0; l < plan_.lanes; ++l)
          order.push_back(l / 8 * 8 + form_.places[static_cast<size_t>(l % 8)]);
        bytes = ir.CreateShuffleVector(bytes, order);
      }
      ir.CreateAlignedStore(bytes, byte(out, k_.i64(j * plan_.plane_bytes())), llvm::Align(1));
    }
  }

  void write_notes(Value* out, Value* segment, Value* unit) {
    auto& ir = k_.ir;
    llvm::Type* type = ir.getFloatTy();
    Value* sum = nullptr;
    for (int j = digits; j-- > 0;) {
      Value* of_digit =
          ir.CreateAddReduce(ir.CreateLoad(ints_, digit_sums_[static_cast<size_t>(j)]));
      Value* start = ir.CreateMul(of_digit, ir.getInt32(static_cast<uint32_t>(-offset())));
      store(start, note_of(out, segment, starts + j));
      Value* part = ir.CreateSIToFP(of_digit, type);
      sum = sum ? multiply_add(k_, DType::f32, sum, llvm::ConstantFP::get(type, 256), part) : part;
    }
    store(unit, note_of(out, segment, step));
    store(ir.CreateFMul(sum, unit), note_of(out, segment, total));
  }

  // What is taken from the bytes as the dot instruction reads them.
  int offset() const { return form_.number.offset; }

  // Lays the lanes of `s` along the unit's columns.
  void set_columns(Scope& s) {
    s.seek();
    Value* mask = masked_ ? lane_mask(k_, sub(k_.i64(plan_.n), n_begin_), plan_.columns) : nullptr;
    int axis = n_axis_;
    if (form_.in_blocks) {
      s.set_axis(k_axis_ + 1, block_);
      axis = k_axis_ + 2;
    }
    s.set_axis(axis, form_.in_blocks ? k_.i64(0) : n_begin_);
    s.set_lanes(axis, plan_.columns, mask);
  }

  // Adds one segment to the sums of all rows.
  void segment(Scope& scope, Value* number, int64_t depth) {
    scope.seek();
    scope.set_axis(k_axis_ + 3, number);
    Scope columns(scope, false);
    set_columns(columns);
    // Scales lie in the order of segments, in blocks of columns, or one for each column.
    const int64_t bytes = depth * plan_.columns / (plan_.halves ? 2 : 1);
    const int64_t later = (ahead + bytes - 1) / bytes * plan_.columns;
    auto of_columns = [&](const atlas::Body& body) -> Values {
      if (body.instrs.empty()) return {};
      LaneValue x = emit_body(columns, body).back();
      if (few()) fetch_columns(columns, body, plan_.columns, later);
      scope.seek();
      return as_words(parts(splat(k_, x, plan_.columns)));
    };
    Segment g{number, depth, &columns, of_columns(form_.factors.scale),
              of_columns(form_.factors.zero)};
    if (shared()) write_wide(scope, g);
    scope.seek();
    Value* whole = together() == 2 && plan_.rows > 1 ? k_.ir.CreateAnd(rows_, k_.i64(-2)) : nullptr;
    if (whole)
      emit_loop(scope, k_.i64(0), whole, k_.i64(2), false,
                [&](Scope& s, Value* row) { add_rows(s, g, row, 2); });
    emit_loop(scope, whole ? whole : k_.i64(0), rows_, k_.i64(1), false,
              [&](Scope& s, Value* row) { add_rows(s, g, row, 1); });
  }

  struct Segment {
    Value* number;
    int64_t depth;
    Scope* columns;
    Values scales, zeros;
  };

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

  // A vector of all columns as vectors of `lanes`.
  Values parts(Value* x) {
    Values out;
    for (int v = 0; v < words; ++v) {
      std::vector<int> lanes;
      for (int l = 0; l < plan_.lanes; ++l) lanes.push_back(v * plan_.lanes + l);
      out.push_back(k_.ir.CreateShuffleVector(x, lanes));
    }
    return out;
  }

  void add_rows(Scope& scope, const Segment& g, Value* row, int count) {
    scope.seek();
    Values rows, chains;
    for (int r = 0; r < count; ++r) {
      rows.push_back(digits_of(add(row, r)));
      for (int v = 0; v < words; ++v)
        for (int j = 0; j < digits; ++j)
          chains.push_back(
              splat_of(load(k_.ir.getInt32Ty(), note_of(rows.back(), g.number, starts + j))));
    }
    Value* first = mul(g.number, plan_.segment);
    chains = emit_loop(scope, k_.i64(0), k_.i64(g.depth / plan_.values()), k_.i64(1), true, chains,
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
    scope.seek();
    for (int r = 0; r < count; ++r)
      add_sums(rows[static_cast<size_t>(r)], add(row, r), g,
               &chains[static_cast<size_t>(r * words * digits)]);
  }

  void multiply(const Values& rows, Value* at, Value* const* bytes, Values& chains) {
    size_t n = 0;
    for (Value* row : rows) {
      std::array<Value*, digits> x{};
      for (int j = 0; j < digits; ++j) {
        Value* p = byte(row, add(at, j * plan_.plane_bytes()));
        x[static_cast<size_t>(j)] = splat_of(load(k_.ir.getInt32Ty(), p));
      }
      for (int v = 0; v < words; ++v)
        for (Value* digit : x) {
          chains[n] = dot_bytes(k_, chains[n], bytes[v], digit);
          ++n;
        }
    }
  }

  // A word of each column: four of its bytes, or their halves that come first and those that come
  // last. Word i of group g of four is column 16 g + 4 v + i in vector v; so are sums, until a row
  // is finished.
  Values widened(const Segment& g, Value* word) {
    auto& ir = k_.ir;
    Scope inner(*g.columns, false);
    inner.set_axis(k_axis_ + 4, word);
    Values rows;
    for (const atlas::Body& body : form_.until) {
      LaneValue bytes = emit_body(inner, body).back();
      inner.seek();
      rows.push_back(splat(k_, bytes, plan_.columns));
      fetch_ahead(rows.back());
    }
    auto zip = [&](Value* a, Value* b, int size, bool upper) {  // within 16 bytes
      const int in_group = 16 / size, all = plan_.columns / size;
      auto* type = llvm::FixedVectorType::get(ir.getIntNTy(static_cast<unsigned>(8 * size)),
                                              static_cast<unsigned>(all));
      std::vector<int> order;
      for (int l = 0; l < all; ++l) {
        const int from = l / in_group * in_group + (upper ? in_group / 2 : 0) + l % in_group / 2;
        order.push_back(l % 2 ? all + from : from);
      }
      return ir.CreateShuffleVector(ir.CreateBitCast(a, type), ir.CreateBitCast(b, type), order);
    };
    Values out;
    for (bool upper : {false, true}) {
      Value *low = zip(rows[0], rows[1], 1, upper), *high = zip(rows[2], rows[3], 1, upper);
      for (bool half : {false, true})
        out.push_back(ir.CreateBitCast(zip(low, high, 2, half), ints_));
    }
    if (plan_.halves) return halves_of(std::move(out));
    if (form_.number.flipped)
      for (Value*& x : out) x = ir.CreateXor(x, splat_of(uint32_t{0x80808080}));
    return out;
  }

  // The low halves of bytes, then the high ones: form_.places has their order.
  Values halves_of(Values bytes) {
    Values out;
    for (int shift : {0, 4})
      for (Value* x : bytes) {
        if (shift) x = k_.ir.CreateLShr(x, static_cast<uint64_t>(shift));
        out.push_back(k_.ir.CreateAnd(x, splat_of(uint32_t{0x0f0f0f0f})));
      }
    return out;
  }

  // Few rows wait for memory alone. Hardware stops at the end of each page.
  static constexpr int64_t ahead = 8192;  // bytes
  bool few() const { return plan_.m.is_const() && plan_.m.constant_value() <= 8; }

  void fetch(Value* p, int64_t from) {
    p = k_.ir.CreateGEP(k_.ir.getInt8Ty(), p, k_.i64(from));
    k_.ir.CreateIntrinsic(llvm::Intrinsic::prefetch, {k_.ir.getPtrTy()},
                          {p, k_.ir.getInt32(0), k_.ir.getInt32(3), k_.ir.getInt32(1)});
  }

  void fetch_ahead(Value* bytes) {
    if (auto* read = llvm::dyn_cast<llvm::LoadInst>(bytes); read && few())
      fetch(read->getPointerOperand(), ahead);
  }

  // What a body reads along the lanes of `scope`: so many elements, `later` elements on.
  void fetch_columns(Scope& scope, const atlas::Body& body, int64_t count, int64_t later) {
    for (const atlas::Instr& i : body.instrs) {
      if (i.code != atlas::Code::load || i.args[0] != atlas::no_value) continue;
      scope.seek();
      auto p = vector_address(scope, i.buffer, i.expr);
      const int64_t size = size_of(k_.program.buffers[static_cast<size_t>(i.buffer)].dtype);
      for (int64_t at = 0; p && at < count * size; at += 64) fetch(*p, later * size + at);
    }
  }

  // What the first unit begins with, while the rows' digits are written.
  void fetch_first(Scope& scope) {
    if (!few()) return;
    scope.seek();
    Scope columns(scope, false);
    columns.set_axis(k_axis_ + 3, k_.i64(0));
    columns.set_axis(k_axis_ + 4, k_.i64(0));
    set_columns(columns);
    for (const atlas::Body* body : {&form_.factors.scale, &form_.factors.zero})
      fetch_columns(columns, *body, plan_.columns, 0);
    fetch_columns(columns, {{form_.until[0].instrs.back()}}, ahead, 0);
    fetch_results(scope, 0);
  }

  // What the epilogue of the columns `later` on reads.
  void fetch_results(Scope& scope, int64_t later) {
    scope.seek();
    Scope results(scope, false);
    results.set_axis(m_axis_, row_begin_);
    set_results(results, n_begin_);
    fetch_columns(results, p_.epilogue, plan_.columns, later);
    scope.seek();
  }

  // Vectors whose lane l of vector v is element from(v, l) of all of them.
  Values shuffled(const Values& t, const std::function<int(int, int)>& from) {
    Values out;
    for (int v = 0; v < words; ++v) {
      std::vector<int> low, high, both;
      for (int l = 0; l < plan_.lanes; ++l) {
        const int place = from(v, l), half = 2 * plan_.lanes;
        low.push_back(place < half ? place : -1);
        high.push_back(place < half ? -1 : place - half);
        both.push_back(place < half ? l : plan_.lanes + l);
      }
      out.push_back(k_.ir.CreateShuffleVector(k_.ir.CreateShuffleVector(t[0], t[1], low),
                                              k_.ir.CreateShuffleVector(t[2], t[3], high), both));
    }
    return out;
  }

  // From columns in their order to that of widened(), and back.
  Values as_words(const Values& t) {
    return shuffled(t, [](int v, int l) { return 16 * (l / 4) + 4 * v + l % 4; });
  }
  Values in_order(const Values& t) {
    return shuffled(t, [&](int v, int l) {
      const int column = v * plan_.lanes + l;
      return column % 16 / 4 * plan_.lanes + column / 16 * 4 + column % 4;
    });
  }

  void add_sums(Value* row, Value* r, const Segment& g, Value* const* chains) {
    auto& ir = k_.ir;
    Values t;
    for (int v = 0; v < words; ++v) {
      Value* x = nullptr;
      for (int j = digits; j-- > 0;) {
        Value* part = ir.CreateSIToFP(chains[v * digits + j], vector_);
        x = x ? multiply_add(k_, DType::f32, x, splat_of(256.0F), part) : part;
      }
      t.push_back(x);
    }
    Value* unit = splat_of(load(ir.getFloatTy(), note_of(row, g.number, step)));
    Value* sum =
        g.zeros.empty() ? nullptr : splat_of(load(ir.getFloatTy(), note_of(row, g.number, total)));
    for (int v = 0; v < words; ++v) {
      const auto n = static_cast<size_t>(v);
      Value* p = element(k_, DType::f32, sums_of(r), k_.i64(int64_t{v} * plan_.lanes));
      Value* x = load(vector_, p);
      x = multiply_add(k_, DType::f32, g.scales[n], ir.CreateFMul(t[n], unit), x);
      if (sum) x = multiply_add(k_, DType::f32, g.zeros[n], sum, x);
      store(x, p);
    }
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
    columns = in_order(columns);
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

  // Lays the lanes of `s` along the results from column n on.
  void set_results(Scope& s, Value* n) {
    s.set_axis(n_axis_, n);
    s.set_lanes(n_axis_, plan_.lanes,
                masked_ ? lane_mask(k_, sub(k_.i64(plan_.n), n), plan_.lanes) : nullptr);
  }

  void epilogue(Scope& scope, Value* r, Value* sums) {
    scope.seek();
    scope.set_axis(m_axis_, add(row_begin_, r));
    Value* count = masked_ ? sub(k_.i64(plan_.n), n_begin_) : k_.i64(plan_.columns);
    emit_loop(scope, k_.i64(0), count, k_.i64(plan_.lanes), true, [&](Scope& s, Value* offset) {
      s.seek();
      set_results(s, add(n_begin_, offset));
      s.set_accumulator(0, {load(vector_, element(k_, DType::f32, sums, offset)), true});
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
  Value* largest_ = nullptr;
  std::array<Value*, digits> digit_sums_{};
  bool masked_ = false;  // whether the unit that is being emitted ends within a vector
  // Of the current unit.
  Value *row_begin_ = nullptr, *rows_ = nullptr, *block_ = nullptr, *n_begin_ = nullptr;
};

}  // namespace

void emit(CpuFunction& k, const DigitProduct& plan) { DigitEmitter(k, plan).run(); }

}  // namespace hologram::cpu

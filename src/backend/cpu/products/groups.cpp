// backend/cpu/products/groups.cpp: narrow operands copied as groups of k for the dot instructions.
//
// bfloat16: the instruction is two multiply-adds, the upper halves' first, so the bits are those of
// the chain, except that it takes subnormal numbers for 0. Where the bits are promised each unit
// looks in its operands for numbers other than 0 below 2^-56 (three instructions per 64 bytes of a
// panel; rows while they are copied). If there are any, and for at most four rows, which wait for
// memory anyway, kernels of the same shape widen the words in registers and use multiply-adds; no
// result depends on which of them runs. What was found in a block of rows stands beside it, for all
// chunks that share the block. Elsewhere the instruction always runs: GELU's tails are that small,
// and multiply-adds take 1.8 times as long.
//
// Bytes: where both operands have the same type the left one's signs are flipped, and sums start
// from -128 (unsigned bytes: 128) times the sum of the column, which each unit computes first.
// Units have up to 256 rows and few panels, so that this is 0.4 % of the arithmetic.
//
// Windows whose runs are no whole words (seven runs of 21 bytes) are put together in registers by
// masked loads, up to 16 runs and 512 bytes a row; others are copied run by run.
//
// Without the instruction of bytes AVX2 sums products of words of 16 bits in pairs, exactly (that
// of bytes without sums of four saturates): copies are of words, panels that are packed ahead of
// bytes, which a load widens. SSE4.2 and NEON widen to 32 bits.
#include "backend/cpu/products/groups.h"

#include <llvm/IR/Intrinsics.h>

#include <algorithm>
#include <functional>

#include "backend/cpu/products/micro.h"
#include "codegen/nest.h"

namespace hologram::cpu {
namespace {

// Products of numbers that are 0 or at least 2^-56 are multiples of 2^-126, and so are their sums:
// nothing subnormal arises.
constexpr uint64_t least_safe_bits = (127 - 56) << 7;

}  // namespace

GroupPacker::GroupPacker(CpuFunction& kernel, const ProductPlan& plan, Value* notes)
    : IndexBuilder(kernel),
      p_(kernel.program.product()),
      plan_(plan),
      t_(plan.tile),
      group_(plan.group),
      m_axis_(p_.batch_rank),
      n_axis_(m_axis_ + 1),
      k_axis_(m_axis_ + 2),
      runs_(split_axis(p_.lhs, k_axis_, plan.k, k_axis_ + 1)),
      halves_(k_.widen(k_.ir.getInt16Ty(), 2 * t_.lanes)),
      depth_(number(plan.k)),
      steps_(number(plan.steps)),
      least_(notes) {
  k_.root().seek();
}

void GroupPacker::start_block(Scope& scope) {
  scope.seek();
  if (least_) k_.ir.CreateStore(llvm::Constant::getAllOnesValue(halves_), least_);
}

// The least of `least` and |x| - 1 as unsigned bits, by which 0 is the largest.
Value* GroupPacker::smaller(Value* x, Value* least) {
  x = k_.ir.CreateAnd(k_.ir.CreateBitCast(x, halves_), llvm::ConstantInt::get(halves_, 0x7fff));
  x = k_.ir.CreateSub(x, llvm::ConstantInt::get(halves_, 1));
  return k_.ir.CreateBinaryIntrinsic(llvm::Intrinsic::umin, x, least);
}

Value* GroupPacker::any_tiny(Value* least) {
  return k_.ir.CreateOrReduce(
      k_.ir.CreateICmpULT(least, llvm::ConstantInt::get(halves_, least_safe_bits - 1)));
}

void GroupPacker::store_words(Value* x, Value* mask, Value* out, Value* offset) {
  if (mask) x = k_.ir.CreateSelect(mask, x, llvm::Constant::getNullValue(x->getType()));
  if (least_) k_.ir.CreateStore(smaller(x, k_.ir.CreateLoad(halves_, least_)), least_);
  const auto lanes =
      static_cast<int>(llvm::cast<llvm::FixedVectorType>(x->getType())->getNumElements());
  x = widens() ? widen_bytes(k_, x, p_.operand_type == DType::i8)
               : k_.ir.CreateBitCast(x, words(lanes / group_));
  x = reverse_groups(k_, x, group_);
  if (plan_.flips_lhs) x = k_.ir.CreateXor(x, llvm::ConstantInt::get(x->getType(), 0x80808080));
  k_.ir.CreateAlignedStore(x, word(out, div(offset, k_.i64(group_))), llvm::Align(4));
}

void GroupPacker::pack_run(Scope& scope, const Level& run, Value* offset, bool as_words,
                           Value* out) {
  const DType type = p_.operand_type;
  auto piece = [&](Scope& s, Value* at, int lanes) {
    s.seek();
    Scope one(s, false);
    one.set_axis(run.axis, at);
    one.set_lanes(run.axis, lanes, nullptr);
    Value* x = splat(k_, emit_body(one, runs_->body).back(), lanes);
    s.move_to(k_.ir.GetInsertBlock());
    Value* to = add(offset, at);
    if (as_words) return store_words(x, nullptr, out, to);
    k_.ir.CreateAlignedStore(x, element(k_, type, out, to),
                             llvm::Align(static_cast<uint64_t>(size_of(type))));
  };
  int lanes = t_.lanes * group_;
  int64_t done = run.extent / lanes * lanes;
  if (done)
    emit_loop(scope, k_.i64(0), k_.i64(done), k_.i64(lanes), true,
              [&](Scope& s, Value* at) { piece(s, at, lanes); });
  for (; lanes > 0; lanes /= 2)
    if (run.extent - done >= lanes) {
      piece(scope, k_.i64(done), lanes);
      done += lanes;
    }
}

bool GroupPacker::by_pieces() const {
  constexpr int64_t most_runs = 16, most_bytes = 512;
  const int64_t run = runs_->levels.back().extent, depth = plan_.k.constant_value();
  const auto& instrs = runs_->body.instrs;
  return k_.target.isa == Isa::avx512 && run % group_ != 0 && depth <= most_runs * run &&
         depth * size_of(p_.operand_type) <= most_bytes &&
         std::ranges::none_of(instrs, [](const atlas::Instr& i) {
           return i.code == atlas::Code::load && i.args[0] != atlas::no_value;
         });
}

void GroupPacker::pack_pieces(Scope& scope, Value* out) {
  const int64_t run = runs_->levels.back().extent, depth = plan_.k.constant_value();
  const int lanes = t_.lanes * group_;
  llvm::Type* type = k_.lane_type(p_.operand_type, lanes);
  for (int64_t at = 0; at < depth; at += lanes) {
    Value* x = llvm::Constant::getNullValue(type);
    for (int64_t r = at / run; r * run < std::min<int64_t>(at + lanes, depth); ++r) {
      scope.seek();
      std::vector<llvm::Constant*> inside;
      for (int64_t l = at; l < at + lanes; ++l)
        inside.push_back(k_.ir.getInt1(l >= r * run && l < (r + 1) * run));
      Value* mask = llvm::ConstantVector::get(inside);
      Scope one(scope, false);
      for (const Level& l : runs_->levels)  // that of the run is set below
        one.set_axis(l.axis, k_.i64(r * run / l.stride % l.extent));
      one.set_axis(runs_->levels.back().axis, k_.i64(at - r * run));
      one.set_lanes(runs_->levels.back().axis, lanes, mask);
      Value* piece = splat(k_, emit_body(one, runs_->body).back(), lanes);
      scope.move_to(k_.ir.GetInsertBlock());
      x = k_.ir.CreateSelect(mask, piece, x);
    }
    store_words(x, nullptr, out, k_.i64(at));
  }
}

void GroupPacker::pack_runs(Scope& scope, Value* out) {
  if (by_pieces()) return pack_pieces(scope, out);
  const size_t last = runs_->levels.size() - 1;
  const bool as_words = runs_->levels[last].extent % group_ == 0 && !least_;
  // As they are at first: bytes that become words stand in the second half of these.
  Value* first = out;
  if (!as_words && widens()) first = word(out, div(round_up(steps_, t_.lanes), k_.i64(2)));
  std::function<void(Scope&, size_t, Value*)> nest = [&](Scope& s, size_t level, Value* offset) {
    const Level& l = runs_->levels[level];
    if (level == last) return pack_run(s, l, offset, as_words, first);
    emit_loop(s, k_.i64(0), k_.i64(l.extent), k_.i64(1), true, [&](Scope& inner, Value* i) {
      inner.set_axis(l.axis, i);
      inner.seek();
      nest(inner, level + 1, add(offset, mul(i, l.stride)));
    });
  };
  nest(scope, 0, k_.i64(0));
  if (as_words) return;
  const int lanes = t_.lanes * group_;
  for_vectors(scope, depth_, lanes, [&](Scope& s, Value* offset, Value* mask) {
    s.seek();
    Value* x = k_.ir.CreateAlignedLoad(k_.lane_type(p_.operand_type, lanes),
                                       element(k_, p_.operand_type, first, offset), llvm::Align(4));
    store_words(x, mask, out, offset);
  });
}

void GroupPacker::pack_row(Scope& scope, Value* out) {
  if (runs_) return pack_runs(scope, out);
  int lanes = t_.lanes * group_;
  for_vectors(scope, depth_, lanes, [&](Scope& s, Value* offset, Value* mask) {
    s.seek();
    s.set_axis(k_axis_, offset);
    s.set_lanes(k_axis_, lanes, mask);
    LaneValue value = emit_body(s, p_.lhs).back();
    s.seek();
    store_words(splat(k_, value, lanes), mask, out, offset);
  });
}

// Words of group `step` of k at the lanes [at, at + t_.lanes) of `axis`.
Value* GroupPacker::gather_group(Scope& scope, const atlas::Body& body, DType of, int axis,
                                 Value* at, Value* mask, Value* step) {
  scope.seek();
  bool whole = plan_.k.is_const() && plan_.k.constant_value() % group_ == 0;
  Value *first = mul(step, group_), *last = add(depth_, -1), *sum = nullptr;
  for (int j = 0; j < group_; ++j) {
    Value* k = add(first, j);
    Scope one(scope, false);
    one.set_axis(k_axis_, whole ? k : least(k, last));
    one.set_axis(axis, at);
    one.set_lanes(axis, t_.lanes, mask);
    LaneValue value = emit_body(one, body).back();
    scope.seek();
    Value* x = splat(k_, value, t_.lanes);
    if (widens()) {
      llvm::Type* type = k_.widen(k_.ir.getInt16Ty(), t_.lanes);
      x = of == DType::i8 ? k_.ir.CreateSExt(x, type) : k_.ir.CreateZExt(x, type);
    }
    x = k_.ir.CreateZExt(x, words(t_.lanes));
    if (j && !whole)
      x = k_.ir.CreateSelect(k_.ir.CreateICmpSLE(k, last), x,
                             llvm::Constant::getNullValue(x->getType()));
    x = k_.ir.CreateShl(x, static_cast<uint64_t>(32 / group_ * (group_ - 1 - j)));
    sum = sum ? k_.ir.CreateOr(sum, x) : x;
  }
  return sum;
}

void GroupPacker::pack_step(Scope& scope, Value* step, Value* m_begin, Value* rows, Value* out) {
  for_vectors(scope, rows, t_.lanes, [&](Scope& s, Value* offset, Value* mask) {
    s.seek();
    Value* x = gather_group(s, p_.lhs, p_.operand_type, m_axis_, add(m_begin, offset), mask, step);
    if (mask) x = k_.ir.CreateSelect(mask, x, llvm::Constant::getNullValue(x->getType()));
    if (least_) k_.ir.CreateStore(smaller(x, k_.ir.CreateLoad(halves_, least_)), least_);
    if (plan_.flips_lhs) x = k_.ir.CreateXor(x, llvm::ConstantInt::get(x->getType(), 0x80808080));
    k_.ir.CreateAlignedStore(x, word(out, offset), llvm::Align(4));
  });
}

void GroupPacker::pack_panel(Scope& scope, Value* n_begin, Value* columns, Value* out) {
  scope.seek();
  emit_loop(scope, k_.i64(0), steps_, k_.i64(1), false, [&](Scope& step, Value* i) {
    step.seek();
    Value* row = word(out, mul(i, t_.panel));
    for_vectors(step, columns, t_.lanes, [&](Scope& s, Value* offset, Value* mask) {
      s.seek();
      Value* x = gather_group(s, p_.rhs, p_.rhs_type(), n_axis_, add(n_begin, offset), mask, i);
      k_.ir.CreateAlignedStore(x, word(row, offset), llvm::Align(4));
    });
  });
  scope.seek();
}

void GroupPacker::turn_panel(Scope& scope, Value* base, Value* n_begin, Value* columns,
                             Value* out) {
  int lanes = t_.lanes;
  int64_t steps = plan_.steps.constant_value(), whole = steps / lanes * lanes;
  llvm::Align align(static_cast<uint64_t>(size_of(p_.operand_type)));
  scope.seek();
  Value* stride = number(plan_.rhs_load->x_stride);
  scope.seek();
  Value* buffer = element(k_, p_.operand_type, k_.buffer(plan_.rhs_load->buffer), base);
  for (int v = 0; v < t_.vectors; ++v) {
    scope.seek();
    std::vector<Value*> rows;
    for (int l = 0; l < lanes; ++l) {
      Value* column = least(k_.i64(v * lanes + l), add(columns, -1));
      rows.push_back(element(k_, p_.operand_type, buffer, mul(add(n_begin, column), stride)));
    }
    auto square = [&](Value* step, int64_t count) {
      Value* mask = count < lanes ? lane_mask(k_, k_.i64(count), lanes) : nullptr;
      llvm::Type* type = widens() ? k_.widen(k_.ir.getInt16Ty(), lanes) : words(lanes);
      std::vector<Value*> values;
      for (Value* row : rows) {
        Value* p = element(k_, p_.operand_type, row, mul(step, group_));
        values.push_back(mask ? static_cast<Value*>(k_.ir.CreateMaskedLoad(type, p, align, mask))
                              : k_.ir.CreateAlignedLoad(type, p, align));
        if (widens()) values.back() = widen_bytes(k_, values.back(), p_.rhs_type() == DType::i8);
      }
      transpose_square(k_, values);
      for (int64_t u = 0; u < count; ++u) {
        Value* to = word(out, add(mul(add(step, u), t_.panel), int64_t{v} * lanes));
        Value* x = reverse_groups(k_, values[static_cast<size_t>(u)], group_);
        k_.ir.CreateAlignedStore(x, to, llvm::Align(4));
      }
    };
    emit_loop(scope, k_.i64(0), k_.i64(whole), k_.i64(lanes), true, [&](Scope& s, Value* step) {
      s.seek();
      square(step, lanes);
    });
    scope.seek();
    if (whole < steps) square(k_.i64(whole), steps - whole);
  }
}

void GroupPacker::column_sums(Scope& scope, Value* panel, Value* out) {
  // Several chains side by side: the instruction takes four or five cycles, and two start per
  // cycle.
  constexpr int64_t together = 4;
  auto vectors = static_cast<size_t>(t_.vectors);
  llvm::Type* sums = words(t_.lanes);
  // 128, or -128 if that operand is signed.
  llvm::Constant* signs = llvm::ConstantInt::get(sums, 0x80808080);
  auto load = [&](Value* step, size_t v) {
    Value* index = add(mul(step, t_.panel), static_cast<int64_t>(v) * t_.lanes);
    return k_.ir.CreateAlignedLoad(sums, word(panel, index), llvm::Align(4));
  };
  auto loop = [&](Value* begin, Value* end, int64_t count, std::vector<Value*> start) {
    return emit_loop(scope, begin, end, k_.i64(count), false, start,
                     [&](Scope& s, Value* step, std::vector<Value*> chains) {
                       s.seek();
                       for (size_t i = 0; i < chains.size(); ++i) {
                         Value* at = add(step, static_cast<int64_t>(i / vectors));
                         Value* y = load(at, i % vectors);
                         chains[i] = plan_.unsigned_rhs ? dot_bytes(k_, chains[i], y, signs)
                                                        : dot_bytes(k_, chains[i], signs, y);
                       }
                       return chains;
                     });
  };
  scope.seek();
  Value* whole = k_.ir.CreateAnd(steps_, k_.i64(-together));
  std::vector<Value*> zeros(vectors * together, llvm::Constant::getNullValue(sums));
  std::vector<Value*> chains = loop(k_.i64(0), whole, together, std::move(zeros));
  scope.seek();
  for (size_t i = vectors; i < chains.size(); ++i)
    chains[i % vectors] = k_.ir.CreateAdd(chains[i % vectors], chains[i]);
  chains.resize(vectors);
  chains = loop(whole, steps_, 1, std::move(chains));
  scope.seek();
  for (size_t v = 0; v < vectors; ++v)
    k_.ir.CreateAlignedStore(k_.ir.CreateNeg(chains[v]),
                             word(out, k_.i64(static_cast<int64_t>(v) * t_.lanes)), llvm::Align(4));
}

Value* GroupPacker::has_tiny(Scope& scope, Value* panels, Value* count) {
  scope.seek();
  auto load = [&](Value* index) {
    return k_.ir.CreateAlignedLoad(words(t_.lanes), word(panels, index), llvm::Align(4));
  };
  std::vector<Value*> start(static_cast<size_t>(t_.vectors),
                            llvm::Constant::getAllOnesValue(halves_));
  std::vector<Value*> found = emit_loop(scope, k_.i64(0), count, k_.i64(t_.panel), false, start,
                                        [&](Scope& s, Value* i, std::vector<Value*> so_far) {
                                          s.seek();
                                          for (int v = 0; v < t_.vectors; ++v)
                                            so_far[static_cast<size_t>(v)] =
                                                smaller(load(add(i, int64_t{v} * t_.lanes)),
                                                        so_far[static_cast<size_t>(v)]);
                                          return so_far;
                                        });
  scope.seek();
  Value* least = k_.ir.CreateLoad(halves_, least_);
  for (Value* v : found) least = k_.ir.CreateBinaryIntrinsic(llvm::Intrinsic::umin, v, least);
  return any_tiny(least);
}

}  // namespace hologram::cpu

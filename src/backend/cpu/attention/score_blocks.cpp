// backend/cpu/attention/score_blocks.cpp: what attention and its gradients share.
#include "backend/cpu/attention/score_blocks.h"

#include "atlas/builder.h"
#include "atlas/math.h"
#include "backend/cpu/exponential.h"
#include "backend/cpu/operands/pack.h"
#include "codegen/nest.h"

namespace hologram::cpu {

atlas::Body exp_of_difference(const Target& target, DType type) {
  atlas::Body body;
  atlas::BodyBuilder b(body);
  atlas::Val x = b.sub(b.accumulator(0, type), b.accumulator(1, type));
  b.finish(renders(target, ir::Op::exp, type) ? b.op(ir::Op::exp, x)
                                              : atlas::emit_math(b, ir::Op::exp, std::array{x}));
  return body;
}

atlas::Body log_of_sum(DType type) {
  atlas::Body body;
  atlas::BodyBuilder b(body);
  atlas::Val sum = b.accumulator(1, type);
  b.finish(b.add(b.accumulator(0, type), atlas::emit_math(b, ir::Op::log, std::array{sum})));
  return body;
}

ScoreBlocks::ScoreBlocks(CpuFunction& kernel, const TileModel& tile, DType type)
    : IndexBuilder(kernel), t_(tile), type_(type) {}

void ScoreBlocks::place_regions(const Regions& regions) {
  std::vector<Value*> offsets;
  Value* size = k_.i64(0);
  for (auto& [where, count] : regions) {
    offsets.push_back(size);
    size = add(size, round_up(count, 16));
  }
  Value* memory = emit_scratch(k_.root(), mul(size, size_of(type_)));
  for (size_t i = 0; i < regions.size(); ++i) *regions[i].first = at(memory, offsets[i]);
}

void ScoreBlocks::multiply(Scope& scope, int use, Value* rows, const std::vector<int64_t>& counts,
                           int64_t most, const Matrix& a, const Panels& b, Value* depth,
                           const Out& out) {
  scope.seek();
  Cover cover = emit_cover(k_, t_, rows, counts);
  std::set<int> heights;
  for (int64_t c : counts)
    for (int h : exact_heights(t_, c)) heights.insert(h);
  if (counts.empty())
    for (int h : tile_heights(t_, most)) heights.insert(h);
  emit_loop(scope, k_.i64(0), cover.tiles, k_.i64(1), true, [&](Scope& s, Value* tile) {
    s.seek();
    Value* first = cover.first(k_, tile);
    call_tile(s, use, first, cover.height_of(k_, tile), heights, a, b, depth, out, nullptr);
  });
  scope.seek();
}

void ScoreBlocks::multiply_add(Scope& scope, int use, Value* rows,
                               const std::vector<int64_t>& counts, const Matrix& a, const Panels& b,
                               Value* depth, const Out& out, Value* scale) {
  scope.seek();
  // One vector leaves accumulators for twice the rows.
  int64_t most = b.vectors == 1 ? t_.max_rows * t_.vectors : t_.max_rows;
  Value* tiles = div(add(rows, k_.i64(most - 1)), k_.i64(most));
  std::set<int> heights;
  for (int64_t c : counts) {
    int64_t t = (c + most - 1) / most;
    heights.insert({static_cast<int>(c / t), static_cast<int>((c + t - 1) / t)});
  }
  emit_loop(scope, k_.i64(0), tiles, k_.i64(1), true, [&](Scope& s, Value* tile) {
    s.seek();
    Value* first = div(mul(tile, rows), tiles);
    Value* height = sub(div(mul(add(tile, k_.i64(1)), rows), tiles), first);
    call_tile(s, use, first, height, heights, a, b, depth, out, scale);
  });
  scope.seek();
}

void ScoreBlocks::for_panels(Scope& scope, Value* columns,
                             const std::function<void(Scope&, Value* panel, int vectors)>& each) {
  int64_t rest = fixed(columns).value_or(0) % t_.panel;
  bool narrow = rest > 0 && rest <= t_.lanes;
  scope.seek();
  Value* whole = div(narrow ? columns : add(columns, t_.panel - 1), k_.i64(t_.panel));
  emit_loop(scope, k_.i64(0), whole, k_.i64(1), false,
            [&](Scope& s, Value* panel) { each(s, panel, 0); });
  if (narrow) each(scope, whole, 1);
  scope.seek();
}

void ScoreBlocks::call_tile(Scope& scope, int use, Value* first, Value* height,
                            const std::set<int>& heights, const Matrix& a, const Panels& b,
                            Value* depth, const Out& out, Value* scale) {
  int64_t row = out.row ? out.row : int64_t{t_.panel} * b.span;
  std::map<int64_t, llvm::Function*> kernels;
  for (int h : heights) {
    llvm::Function*& f = micro_[{use, h, b.vectors}];
    MicroKernel m{.tile = t_,
                  .type = type_,
                  .storage = b.storage,
                  .rows = h,
                  .panels = b.span,
                  .vectors = b.vectors,
                  .a_row = fixed(a.row),
                  .a_k = fixed(a.k),
                  .b_k = fixed(b.k),
                  .b_panel = fixed(b.panel),
                  .depth = fixed(depth),
                  .dots = dots_,
                  .accumulate = scale != nullptr,
                  .lines_ahead = b.lines_ahead,
                  .out_row = row};
    if (!f) f = m.emit(k_);
    kernels[h] = f;
  }
  Value* factors = scale ? at(scale, first) : at(out.base, k_.i64(0));
  std::vector<Value*> arguments{
      at(a.base, mul(first, a.row)), a.row,  a.k, b.base, b.k, b.panel, depth,
      at(out.base, mul(first, row)), factors};
  if (b.lines_ahead) arguments.insert(arguments.end(), {b.ahead, b.ahead_k});
  call_one(scope, height, kernels, arguments);
}

void ScoreBlocks::fill(Scope& scope, Value* base, Value* count, llvm::Constant* value) {
  emit_loop(scope, k_.i64(0), count, k_.i64(t_.lanes), false, [&](Scope& s, Value* i) {
    s.seek();
    store(value, at(base, i));
  });
}

Value* ScoreBlocks::combine(Scope& scope, const atlas::Body& body, LaneValue x, LaneValue y) {
  scope.set_accumulator(0, x);
  scope.set_accumulator(1, y);
  Value* v = emit_body(scope, body).back().v;
  scope.seek();
  return v;
}

Value* ScoreBlocks::score_of(Scope& scope, const atlas::Body& body, Value* scaled) {
  scope.set_accumulator(0, {scaled, true});
  LaneValue v = emit_body(scope, body).back();
  scope.seek();
  return splat(k_, v, t_.lanes);
}

Value* ScoreBlocks::scaled(Value* score, double scale) {
  if (scale == 1.0) return score;
  return k_.ir.CreateFMul(score, llvm::ConstantFP::get(score->getType(), scale));
}

Value* ScoreBlocks::lane_numbers(Value* first) {
  std::vector<llvm::Constant*> numbers;
  for (int l = 0; l < t_.lanes; ++l) numbers.push_back(k_.ir.getInt32(static_cast<uint32_t>(l)));
  return k_.ir.CreateAdd(spread(k_.ir.CreateTrunc(first, k_.ir.getInt32Ty())),
                         llvm::ConstantVector::get(numbers));
}

}  // namespace hologram::cpu

// backend/cpu/operands/pack.cpp: operand bodies written out as blocks of memory, straight or
// transposed.
#include "backend/cpu/operands/pack.h"

#include <llvm/IR/Intrinsics.h>

#include "backend/cpu/products/plan.h"
#include "base/error.h"
#include "codegen/memory.h"
#include "codegen/nest.h"

namespace hologram::cpu {
namespace {

llvm::Align alignment(DType t) { return llvm::Align(static_cast<uint64_t>(size_of(t))); }

}  // namespace

Value* emit_scratch(Scope& scope, Value* bytes) {
  CpuFunction& k = function_of(scope);
  scope.seek();
  Value* context = k.function->getArg(0);
  llvm::Type* pointer = k.ir.getPtrTy();
  Value* service = k.context_field(ContextField::scratch);
  auto* type = llvm::FunctionType::get(pointer, {pointer, k.ir.getInt64Ty()}, false);
  Value* memory = k.ir.CreateCall(type, service, {context, bytes});
  llvm::BasicBlock *none = k.block("no_scratch"), *some = k.block("scratch");
  k.ir.CreateCondBr(k.ir.CreateIsNull(memory), none, some);
  k.ir.SetInsertPoint(none);
  k.leave(static_cast<int>(ErrorCode::out_of_memory));
  k.ir.SetInsertPoint(some);
  scope.move_to(some);
  return memory;
}

Value* emit_block_note(Scope& scope, Value* memory) {
  CpuFunction& k = function_of(scope);
  scope.seek();
  Value* own = k.slot(k.ir.getInt64Ty(), "block_note");
  k.ir.CreateStore(k.i64(0), own);
  Value* launch = k.context_field(ContextField::launch);
  Value* kept = k.ir.CreateGEP(k.ir.getInt8Ty(), memory, k.i64(-8));
  return k.ir.CreateSelect(k.ir.CreateICmpNE(launch, k.i64(0)), kept, own);
}

Value* element(CpuFunction& k, DType t, Value* base, Value* index) {
  return k.ir.CreateInBoundsGEP(k.memory_type(t), base, index);
}

void emit_fetch(CpuFunction& k, Value* p, int64_t from, FetchTo to) {
  p = k.ir.CreateGEP(k.ir.getInt8Ty(), p, k.i64(from));
  k.ir.CreateIntrinsic(
      llvm::Intrinsic::prefetch, {k.ir.getPtrTy()},
      {p, k.ir.getInt32(0), k.ir.getInt32(static_cast<uint32_t>(to)), k.ir.getInt32(1)});
}

void fetch_columns(Scope& scope, const atlas::Body& body, int64_t count, int64_t later) {
  CpuFunction& k = function_of(scope);
  for (const atlas::Instr& i : body.instrs) {
    if (i.code != atlas::Code::load || i.args[0] != atlas::no_value) continue;
    scope.seek();
    auto p = vector_address(scope, i.buffer, i.expr);
    const int64_t size = size_of(k.program.buffers[static_cast<size_t>(i.buffer)].dtype);
    for (int64_t at = 0; p && at < count * size; at += 64) emit_fetch(k, *p, later * size + at);
  }
}

Value* lane_mask(CpuFunction& k, Value* remaining, int lanes) {
  std::vector<llvm::Constant*> numbers;
  for (int l = 0; l < lanes; ++l)
    numbers.push_back(llvm::ConstantInt::get(k.ir.getInt64Ty(), static_cast<uint64_t>(l)));
  return k.ir.CreateICmpSLT(llvm::ConstantVector::get(numbers),
                            k.ir.CreateVectorSplat(static_cast<unsigned>(lanes), remaining));
}

void for_vectors(Scope& scope, Value* count, int lanes,
                 const std::function<void(Scope&, Value* offset, Value* mask)>& fill) {
  CpuFunction& k = function_of(scope);
  scope.seek();
  Value* whole = k.ir.CreateAnd(count, k.i64(-lanes));
  Value* some_left = k.ir.CreateICmpNE(whole, count);
  emit_loop(scope, k.i64(0), whole, k.i64(lanes), false,
            [&](Scope& inner, Value* offset) { fill(inner, offset, nullptr); });
  emit_if(scope, some_left, [&](Scope& inner) {
    inner.seek();
    Value* mask = lane_mask(k, k.ir.CreateSub(count, whole), lanes);
    fill(inner, whole, mask);
  });
}

void transpose_square(CpuFunction& k, std::vector<Value*>& rows) {
  auto count = static_cast<unsigned>(rows.size());
  // Each round exchanges the off-diagonal quarters of squares of 2 * half.
  for (unsigned half = count / 2; half >= 1; half /= 2) {
    std::vector<int> low, high;
    for (unsigned l = 0; l < count; ++l) {
      bool upper = l & half;
      low.push_back(static_cast<int>(upper ? count + l - half : l));
      high.push_back(static_cast<int>(upper ? count + l : l + half));
    }
    for (unsigned i = 0; i < count; ++i) {
      if (i & half) continue;
      Value *a = rows[i], *b = rows[i + half];
      rows[i] = k.ir.CreateShuffleVector(a, b, low);
      rows[i + half] = k.ir.CreateShuffleVector(a, b, high);
    }
  }
}

Value* reverse_groups(CpuFunction& k, Value* v, int group) {
  if (group == 4) return k.ir.CreateUnaryIntrinsic(llvm::Intrinsic::bswap, v);
  llvm::Value* by = llvm::ConstantInt::get(v->getType(), 16);
  return k.ir.CreateIntrinsic(llvm::Intrinsic::fshl, {v->getType()}, {v, v, by});
}

void Operand::vector(Scope& scope, int axis, Value* at, Value* mask, Value* out) const {
  CpuFunction& k = function_of(scope);
  if (groups >= 0) {
    scope.set_axis(groups, k.ir.CreateUDiv(at, k.i64(lanes)));
    axis = groups + 1;
    at = k.i64(0);
  }
  scope.set_axis(axis, at);
  scope.set_lanes(axis, lanes, mask);
  LaneValue value = emit_body(scope, body).back();
  scope.seek();
  Value* v = splat(k, value, lanes);
  if (from != type) v = emit_cast(k, ir::Op::cast, v, from, type);
  k.ir.CreateAlignedStore(v, out, alignment(type));
}

void Operand::gather(Scope& scope, const Run& y, Value* out) const {
  CpuFunction& k = function_of(scope);
  for_vectors(scope, y.count, lanes, [&](Scope& inner, Value* offset, Value* mask) {
    inner.seek();
    Value* at = k.ir.CreateNSWAdd(y.begin, offset);
    vector(inner, y.axis, at, mask, element(k, type, out, offset));
  });
}

void Operand::gather_whole(Scope& scope, const Run& y, int vectors, Value* out) const {
  CpuFunction& k = function_of(scope);
  for (int v = 0; v < vectors; ++v) {
    scope.seek();
    Scope inner(scope, false);
    Value* at = k.ir.CreateNSWAdd(y.begin, k.i64(int64_t{v} * lanes));
    vector(inner, y.axis, at, nullptr, element(k, type, out, k.i64(int64_t{v} * lanes)));
  }
  scope.seek();
}

void Operand::transpose(Scope& scope, const Run& x, const Run& y, Value* square, Value* out,
                        int64_t stride) const {
  CpuFunction& k = function_of(scope);
  emit_loop(scope, k.i64(0), x.count, k.i64(lanes), true, [&](Scope& group, Value* x_offset) {
    group.seek();
    Value* left = k.ir.CreateNSWSub(x.count, x_offset);
    Value* rows = k.ir.CreateSelect(k.ir.CreateICmpSLT(left, k.i64(lanes)), left, k.i64(lanes));
    for_vectors(group, y.count, lanes, [&](Scope& s, Value* y_offset, Value* mask) {
      auto values = square_rows(s, x, x_offset, rows, y, y_offset, mask, square);
      s.seek();
      Value* index = k.ir.CreateNSWAdd(k.ir.CreateNSWMul(y_offset, k.i64(stride)), x_offset);
      Value* limit = mask ? k.ir.CreateNSWSub(y.count, y_offset) : nullptr;
      store_transposed(s, std::move(values), square, element(k, type, out, index), stride, limit);
    });
  });
}

// lanes rows of lanes elements: rows x_offset … of x, columns y_offset … of y; rows behind the last
// are any others.
std::vector<Value*> Operand::square_rows(Scope& scope, const Run& x, Value* x_offset, Value* rows,
                                         const Run& y, Value* y_offset, Value* mask,
                                         Value* square) const {
  CpuFunction& k = function_of(scope);
  scope.seek();
  llvm::Type* row_type = k.lane_type(type, lanes);
  Value *x_at = k.ir.CreateNSWAdd(x.begin, x_offset), *y_at = k.ir.CreateNSWAdd(y.begin, y_offset);
  std::vector<Value*> values;
  auto load = strided_load(body, x.axis, y.axis);
  if (from == type && load && load->y_stride.is(1)) {
    Value *base = emit_expr(scope, load->base).v, *row = emit_expr(scope, load->x_stride).v;
    scope.seek();
    Value* last = k.ir.CreateNSWSub(rows, k.i64(1));
    base = k.ir.CreateNSWAdd(k.ir.CreateNSWAdd(base, k.ir.CreateNSWMul(x_at, row)), y_at);
    for (int i = 0; i < lanes; ++i) {
      Value* number = k.i64(i);
      if (i) number = k.ir.CreateSelect(k.ir.CreateICmpSLT(number, rows), number, last);
      Value* p = element(k, type, k.buffer(load->buffer),
                         k.ir.CreateNSWAdd(base, k.ir.CreateNSWMul(number, row)));
      values.push_back(
          mask ? static_cast<Value*>(k.ir.CreateMaskedLoad(row_type, p, alignment(type), mask))
               : k.ir.CreateAlignedLoad(row_type, p, alignment(type)));
    }
    return values;
  }
  emit_loop(scope, k.i64(0), rows, k.i64(1), true, [&](Scope& inner, Value* i) {
    inner.seek();
    inner.set_axis(x.axis, k.ir.CreateNSWAdd(x_at, i));
    vector(inner, y.axis, y_at, mask, element(k, type, square, k.ir.CreateNSWMul(i, k.i64(lanes))));
  });
  scope.seek();
  for (int i = 0; i < lanes; ++i) {
    Value* p = element(k, type, square, k.i64(int64_t{i} * lanes));
    values.push_back(k.ir.CreateAlignedLoad(row_type, p, alignment(type)));
  }
  return values;
}

// Row i of the transpose of `rows` to out[i * stride …]; only the first `limit` rows if given.
void Operand::store_transposed(Scope& scope, std::vector<Value*> rows, Value* square, Value* out,
                               int64_t stride, Value* limit) const {
  CpuFunction& k = function_of(scope);
  auto count = static_cast<unsigned>(lanes);
  llvm::Type* row_type = k.lane_type(type, lanes);
  transpose_square(k, rows);
  if (!limit) {
    for (unsigned i = 0; i < count; ++i)
      k.ir.CreateAlignedStore(rows[i], element(k, type, out, k.i64(int64_t{i} * stride)),
                              alignment(type));
    return;
  }
  for (unsigned i = 0; i < count; ++i)
    k.ir.CreateAlignedStore(rows[i], element(k, type, square, k.i64(int64_t{i} * lanes)),
                            alignment(type));
  emit_loop(scope, k.i64(0), limit, k.i64(1), true, [&](Scope& s, Value* i) {
    s.seek();
    Value* from_row = element(k, type, square, k.ir.CreateNSWMul(i, k.i64(lanes)));
    Value* v = k.ir.CreateAlignedLoad(row_type, from_row, alignment(type));
    k.ir.CreateAlignedStore(v, element(k, type, out, k.ir.CreateNSWMul(i, k.i64(stride))),
                            alignment(type));
  });
  scope.seek();
}

}  // namespace hologram::cpu

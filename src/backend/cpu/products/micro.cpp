// backend/cpu/products/micro.cpp: register kernels of products and attention.
#include "backend/cpu/products/micro.h"

#include <llvm/IR/IntrinsicsX86.h>

#include <array>
#include <numeric>

#include "backend/cpu/operands/dots.h"
#include "backend/cpu/operands/pack.h"

namespace hologram::cpu {

Fixed fixed(Value* v) {
  if (auto* c = llvm::dyn_cast<llvm::ConstantInt>(v)) return c->getSExtValue();
  return std::nullopt;
}

Value* dot_bytes(CpuFunction& k, Value* sums, Value* x, Value* y) {
  auto& ir = k.ir;
  bool wide = k.target.isa == Isa::avx512;
  return ir.CreateIntrinsic(
      wide ? llvm::Intrinsic::x86_avx512_vpdpbusd_512 : llvm::Intrinsic::x86_avx512_vpdpbusd_256,
      {}, {sums, x, y});
}

Value* widen_bytes(CpuFunction& k, Value* x, bool is_signed) {
  auto& ir = k.ir;
  const auto bits = static_cast<int>(x->getType()->getPrimitiveSizeInBits().getFixedValue());
  llvm::Type* words = k.widen(ir.getInt16Ty(), bits / 8);
  x = ir.CreateBitCast(x, k.widen(ir.getInt8Ty(), bits / 8));
  x = is_signed ? ir.CreateSExt(x, words) : ir.CreateZExt(x, words);
  return ir.CreateBitCast(x, k.widen(ir.getInt32Ty(), bits / 16));
}

Value* dot_halves(CpuFunction& k, Value* sums, std::span<const HalvesTimes> products) {
  auto& ir = k.ir;
  const auto bytes = static_cast<unsigned>(k.target.vector_bytes);
  auto* type = llvm::FixedVectorType::get(ir.getInt8Ty(), bytes);
  auto* words = llvm::FixedVectorType::get(ir.getInt16Ty(), bytes / 2);
  Value* all = nullptr;
  for (const auto& [halves, numbers] : products) {
    Value* pairs =
        ir.CreateIntrinsic(llvm::Intrinsic::x86_avx2_pmadd_ub_sw, {},
                           {ir.CreateBitCast(halves, type), ir.CreateBitCast(numbers, type)});
    all = all ? ir.CreateAdd(all, pairs) : pairs;
  }
  return dot_pairs(k, sums, all, llvm::ConstantInt::get(words, 1));
}

Value* dot_pairs(CpuFunction& k, Value* sums, Value* x, Value* y) {
  auto& ir = k.ir;
  auto* type = k.widen(ir.getInt16Ty(), k.target.vector_bytes / 2);
  Value* pairs = ir.CreateIntrinsic(llvm::Intrinsic::x86_avx2_pmadd_wd, {},
                                    {ir.CreateBitCast(x, type), ir.CreateBitCast(y, type)});
  return ir.CreateAdd(sums, pairs);
}

namespace {

class MicroWriter {
 public:
  MicroWriter(CpuFunction& k, const MicroKernel& m) : k_(k), m_(m), ir_(k.ir) {
    vector_ = k.lane_type(m.type, m.tile.lanes);
    stored_ = k.widen(k.memory_type(m.storage), m.tile.lanes);
    columns_ = m.panels == 1 && m.vectors > 0 ? m.vectors : m.panels * m.tile.vectors;
  }

  llvm::Function* run() {
    llvm::IRBuilderBase::InsertPointGuard guard(ir_);
    create();
    auto* entry = block("entry");
    auto* done = block("done");
    ir_.SetInsertPoint(entry);
    if (m_.accumulate || of_bytes() || (m_.depth && *m_.depth <= k_block())) {
      finish(chain(a_, b_, ahead_, depth_, start()), m_.adds ? ir_.getFalse() : nullptr);
      ir_.CreateBr(done);
    } else {
      blocks(entry, done);
    }
    ir_.SetInsertPoint(done);
    ir_.CreateRetVoid();
    return function_;
  }

 private:
  using Tile = std::vector<Value*>;

  void create() {
    llvm::Type *p = ir_.getPtrTy(), *w = ir_.getInt64Ty();
    std::vector<llvm::Type*> args{p, w, w, p, w, w, w, p, p};
    if (m_.lines_ahead) args.insert(args.end(), {p, w});
    auto* type = llvm::FunctionType::get(ir_.getVoidTy(), args, false);
    std::string name = "tile_" + std::to_string(m_.rows) + "x" + std::to_string(columns_);
    function_ = llvm::Function::Create(type, llvm::Function::InternalLinkage, name, k_.module);
    function_->setDSOLocal(true);
    llvm::AttrBuilder attributes(k_.context, k_.function->getAttributes().getFnAttrs());
    function_->addFnAttrs(attributes);
    function_->addFnAttr(llvm::Attribute::NoInline);
    for (unsigned a : {0u, 3u, 7u, 8u}) function_->addParamAttr(a, llvm::Attribute::NoAlias);
    for (unsigned a : {0u, 3u, 8u}) function_->addParamAttr(a, llvm::Attribute::ReadOnly);
    auto number = [&](const Fixed& f, unsigned arg) -> Value* {
      return f ? static_cast<Value*>(k_.i64(*f)) : function_->getArg(arg);
    };
    a_ = function_->getArg(0);
    a_row_ = number(m_.a_row, 1);
    a_k_ = number(m_.a_k, 2);
    b_ = function_->getArg(3);
    b_k_ = number(m_.b_k, 4);
    b_panel_ = number(m_.b_panel, 5);
    depth_ = number(m_.depth, 6);
    out_ = function_->getArg(7);
    if (!m_.lines_ahead) return;
    ahead_ = function_->getArg(9);
    ahead_k_ = function_->getArg(10);
  }

  llvm::BasicBlock* block(const char* name) {
    return llvm::BasicBlock::Create(k_.context, name, function_);
  }

  bool half(int column) const { return m_.half_last && m_.panels == 1 && column == columns_ - 1; }
  llvm::Type* accumulator_type(int column) {
    return half(column) ? k_.lane_type(m_.type, m_.tile.lanes / 2) : vector_;
  }

  size_t at(int row, int column) const { return static_cast<size_t>(row * columns_ + column); }

  Value* out_pointer(int row, int column) {
    int64_t width = m_.out_row ? m_.out_row : int64_t{m_.panels} * m_.tile.panel;
    return element(k_, m_.type, out_, k_.i64(row * width + column * m_.tile.lanes));
  }

  llvm::Align alignment(DType t) const { return llvm::Align(static_cast<uint64_t>(size_of(t))); }

  Tile load_out() {
    Tile t;
    for (int r = 0; r < m_.rows; ++r)
      for (int c = 0; c < columns_; ++c)
        t.push_back(
            ir_.CreateAlignedLoad(accumulator_type(c), out_pointer(r, c), alignment(m_.type)));
    return t;
  }

  Tile start() {
    if (m_.accumulate) {
      Tile t = load_out();
      for (int r = 0; r < m_.rows; ++r) {
        Value* scale = scalar(element(k_, m_.type, function_->getArg(8), k_.i64(r)));
        for (int c = 0; c < columns_; ++c) t[at(r, c)] = ir_.CreateFMul(t[at(r, c)], scale);
      }
      return t;
    }
    Tile t;
    for (int r = 0; r < m_.rows; ++r)
      for (int c = 0; c < columns_; ++c)
        t.push_back(llvm::Constant::getNullValue(accumulator_type(c)));
    for (int c = 0; m_.from_row && c < columns_; ++c) {
      Value* p = element(k_, m_.type, function_->getArg(8), k_.i64(int64_t{c} * m_.tile.lanes));
      Value* v = ir_.CreateAlignedLoad(vector_, p, alignment(m_.type));
      for (int r = 0; r < m_.rows; ++r) t[at(r, c)] = v;
    }
    return t;
  }

  bool floating() const { return is_float(m_.type); }
  int64_t k_block() const { return atlas::product_block / group_of(m_.dots); }
  // Sums of bytes are exact: one chain.
  bool of_bytes() const { return m_.dots == Dots::bytes || m_.dots == Dots::words; }

  // The number at p in every lane.
  Value* scalar(Value* p) {
    llvm::Align align = m_.dots == Dots::bf16 ? llvm::Align(2) : alignment(m_.type);
    Value* x = ir_.CreateAlignedLoad(k_.type_of(m_.type), p, align);
    return ir_.CreateVectorSplat(static_cast<unsigned>(m_.tile.lanes), x);
  }

  // The sum of a group's products, added to z. A pair of bfloat16 is two multiply-adds, the upper
  // half's first, which is how the instruction adds them.
  Value* add_group(Value* x, Value* y, Value* z) {
    llvm::Type* words = k_.widen(ir_.getInt32Ty(), m_.tile.lanes);
    if (m_.dots == Dots::bytes)
      return m_.unsigned_rhs ? dot_bytes(k_, z, y, x) : dot_bytes(k_, z, x, y);
    if (m_.dots == Dots::words) {
      llvm::Type* pairs = k_.widen(ir_.getInt16Ty(), 2 * m_.tile.lanes);
      return ir_.CreateAdd(
          z, ir_.CreateIntrinsic(llvm::Intrinsic::x86_avx2_pmadd_wd, {},
                                 {ir_.CreateBitCast(x, pairs), ir_.CreateBitCast(y, pairs)}));
    }
    if (!m_.exact) return dot_bf16(k_, z, x, y);
    auto upper = [&](Value* v) {
      v = ir_.CreateAnd(ir_.CreateBitCast(v, words), llvm::ConstantInt::get(words, 0xffff0000));
      return ir_.CreateBitCast(v, vector_);
    };
    auto lower = [&](Value* v) {
      return ir_.CreateBitCast(ir_.CreateShl(ir_.CreateBitCast(v, words), 16), vector_);
    };
    z = multiply_add(k_, m_.type, upper(x), upper(y), z);
    return multiply_add(k_, m_.type, lower(x), lower(y), z);
  }

  Value* lower_half(Value* v) {
    std::vector<int> lanes(static_cast<size_t>(m_.tile.lanes / 2));
    std::iota(lanes.begin(), lanes.end(), 0);
    return ir_.CreateShuffleVector(v, lanes);
  }

  // The right operand as arithmetic takes it.
  Value* widened(Value* v) {
    if (m_.storage == m_.type) return v;
    if (m_.dots == Dots::words) return widen_bytes(k_, v, !m_.unsigned_rhs);
    return emit_cast(k_, ir::Op::cast, v, m_.storage, m_.type);
  }

  // Whether two vectors of bfloat16 side by side are widened by two shuffles with zeros, half of
  // what one by one takes: of each 16 bytes the first four go to one vector, the others to the
  // next.
  bool zips() const {
    return m_.storage == DType::bf16 && m_.type == DType::f32 && m_.dots == Dots::none &&
           columns_ % 2 == 0 && m_.tile.vectors % 2 == 0 && m_.tile.lanes % 4 == 0 && !m_.half_last;
  }

  // Two vectors of a row's columns in the order of zips(), or back from it.
  void reorder(Tile& t, bool back) {
    if (!zips()) return;
    const int lanes = m_.tile.lanes;
    std::array<std::vector<int>, 2> order;
    for (int i = 0; i < 2 * lanes; ++i) {
      const int zipped = i / 8 * 4 + i % 4 + (i % 8 < 4 ? 0 : lanes);
      const int from = i % lanes / 4 * 8 + i % 4 + (i < lanes ? 0 : 4);
      order[static_cast<size_t>(i / lanes)].push_back(back ? zipped : from);
    }
    for (size_t i = 0; i < t.size(); i += 2) {
      Value *x = t[i], *y = t[i + 1];
      t[i] = ir_.CreateShuffleVector(x, y, order[0]);
      t[i + 1] = ir_.CreateShuffleVector(x, y, order[1]);
    }
  }

  void push_zipped(Value* p, Tile& columns) {
    const int lanes = m_.tile.lanes;
    llvm::Type* words = k_.widen(ir_.getInt16Ty(), 2 * lanes);
    Value* x = ir_.CreateAlignedLoad(words, p, alignment(m_.storage));
    for (int half : {0, 4}) {
      std::vector<int> order;
      for (int i = 0; i < lanes; ++i) {
        const int from = i / 4 * 8 + i % 4 + half;
        order.insert(order.end(), {2 * lanes + from, from});
      }
      Value* wide = ir_.CreateShuffleVector(x, llvm::Constant::getNullValue(words), order);
      columns.push_back(ir_.CreateBitCast(wide, vector_));
    }
  }

  // The multiply-adds of one k, on accumulators `t`.
  void step(Value* a, Value* b, Tile& t) {
    Tile columns;
    for (int c = 0; c < columns_; ++c) {
      int panel = c / m_.tile.vectors, in_panel = c % m_.tile.vectors;
      Value* p = panel ? element(k_, m_.storage, b, ir_.CreateNSWMul(b_panel_, k_.i64(panel))) : b;
      p = element(k_, m_.storage, p, k_.i64(in_panel * m_.tile.lanes));
      if (zips()) {
        if (c % 2 == 0) push_zipped(p, columns);
        continue;
      }
      llvm::Type* type =
          half(c) ? k_.widen(k_.memory_type(m_.storage), m_.tile.lanes / 2) : stored_;
      Value* v = ir_.CreateAlignedLoad(type, p, alignment(m_.storage));
      columns.push_back(widened(v));
    }
    for (int r = 0; r < m_.rows; ++r) {
      Value* p = element(k_, m_.type, a, ir_.CreateNSWMul(a_row_, k_.i64(r)));
      Value* x = scalar(p);
      // The lower half is then the same register, not a broadcast of its own.
      if (half(columns_ - 1)) x = ir_.CreateUnaryIntrinsic(llvm::Intrinsic::arithmetic_fence, x);
      for (int c = 0; c < columns_; ++c) {
        Value* factor = half(c) ? lower_half(x) : x;
        t[at(r, c)] =
            m_.dots == Dots::none
                ? multiply_add(k_, m_.type, factor, columns[static_cast<size_t>(c)], t[at(r, c)])
                : add_group(factor, columns[static_cast<size_t>(c)], t[at(r, c)]);
      }
    }
  }

  // Of a round of the loop, where what the loop itself takes is much beside a step: one of words,
  // or of AVX2's 12 multiply-adds on a core that another thread shares.
  int64_t steps_together() const {
    const bool low = m_.dots == Dots::words && m_.rows * columns_ <= 8;
    const bool plain = m_.dots == Dots::none && k_.target.isa == Isa::avx2 && m_.panels == 1;
    const int64_t steps = low ? 2 : plain ? 4 : 1;
    return m_.depth && *m_.depth % steps == 0 ? steps : 1;
  }

  // `count` steps from a and b on; leaves the builder behind the loop.
  Tile chain(Value* a, Value* b, Value* ahead, Value* count, Tile from) {
    reorder(from, false);
    llvm::BasicBlock *before = ir_.GetInsertBlock(), *head = block("k"), *exit = block("chain");
    bool some = m_.depth && *m_.depth > 0;
    if (some)
      ir_.CreateBr(head);
    else
      ir_.CreateCondBr(ir_.CreateICmpSGT(count, k_.i64(0)), head, exit);
    ir_.SetInsertPoint(head);
    auto* left = ir_.CreatePHI(ir_.getInt64Ty(), 2);
    auto* pa = ir_.CreatePHI(ir_.getPtrTy(), 2);
    auto* pb = ir_.CreatePHI(ir_.getPtrTy(), 2);
    left->addIncoming(count, before);
    pa->addIncoming(a, before);
    pb->addIncoming(b, before);
    std::vector<llvm::PHINode*> accumulators;
    Tile t;
    for (Value* v : from) {
      accumulators.push_back(ir_.CreatePHI(v->getType(), 2));
      accumulators.back()->addIncoming(v, before);
      t.push_back(accumulators.back());
    }
    llvm::PHINode* fetched = ahead ? ir_.CreatePHI(ir_.getPtrTy(), 2) : nullptr;
    Value *a_now = pa, *b_now = pb, *ahead_now = fetched;
    for (int64_t s = 0; s < steps_together(); ++s) {
      if (ahead_now) {
        for (int64_t i = 0; i < m_.lines_ahead; ++i)
          emit_fetch(k_, ahead_now, 64 * i, FetchTo::second_level);
        ahead_now = ir_.CreateGEP(ir_.getInt8Ty(), ahead_now, ahead_k_);
      }
      step(a_now, b_now, t);
      a_now = element(k_, m_.type, a_now, a_k_);
      b_now = element(k_, m_.storage, b_now, b_k_);
    }
    if (fetched) {
      fetched->addIncoming(ahead, before);
      fetched->addIncoming(ahead_now, head);
    }
    pa->addIncoming(a_now, ir_.GetInsertBlock());
    pb->addIncoming(b_now, ir_.GetInsertBlock());
    Value* next = ir_.CreateNSWSub(left, k_.i64(steps_together()));
    left->addIncoming(next, ir_.GetInsertBlock());
    for (size_t i = 0; i < t.size(); ++i) accumulators[i]->addIncoming(t[i], ir_.GetInsertBlock());
    llvm::BasicBlock* last = ir_.GetInsertBlock();
    ir_.CreateCondBr(ir_.CreateICmpSGT(next, k_.i64(0)), head, exit);
    ir_.SetInsertPoint(exit);
    for (size_t i = 0; i < t.size(); ++i) {
      auto* phi = ir_.CreatePHI(t[i]->getType(), 2);
      if (!some) phi->addIncoming(from[i], before);
      phi->addIncoming(t[i], last);
      t[i] = phi;
    }
    reorder(t, true);
    return t;
  }

  // Writes the tile; `first` (i1) says whether to write or to add behind what is there (null:
  // write).
  void finish(const Tile& t, Value* first) {
    auto store = [&](const Tile& values) {
      for (int r = 0; r < m_.rows; ++r)
        for (int c = 0; c < columns_; ++c)
          ir_.CreateAlignedStore(values[at(r, c)], out_pointer(r, c), alignment(m_.type));
    };
    if (!first) return store(t);
    llvm::BasicBlock *write = block("write"), *add = block("add"), *exit = block("stored");
    ir_.CreateCondBr(first, write, add);
    ir_.SetInsertPoint(write);
    store(t);
    ir_.CreateBr(exit);
    ir_.SetInsertPoint(add);
    Tile sums = load_out();
    for (size_t i = 0; i < sums.size(); ++i)
      sums[i] = floating() ? ir_.CreateFAdd(sums[i], t[i]) : ir_.CreateAdd(sums[i], t[i]);
    store(sums);
    ir_.CreateBr(exit);
    ir_.SetInsertPoint(exit);
  }

  void blocks(llvm::BasicBlock* entry, llvm::BasicBlock* done) {
    auto* head = block("k_block");
    ir_.CreateBr(head);
    ir_.SetInsertPoint(head);
    auto* begin = ir_.CreatePHI(ir_.getInt64Ty(), 2);
    begin->addIncoming(k_.i64(0), entry);
    Value* left = ir_.CreateNSWSub(depth_, begin);
    Value* size = k_.i64(k_block());
    Value* count = ir_.CreateSelect(ir_.CreateICmpSLT(left, size), left, size);
    Value* a = element(k_, m_.type, a_, ir_.CreateNSWMul(begin, a_k_));
    Value* b = element(k_, m_.storage, b_, ir_.CreateNSWMul(begin, b_k_));
    Value* ahead = ahead_;
    if (ahead) ahead = ir_.CreateGEP(ir_.getInt8Ty(), ahead, ir_.CreateNSWMul(begin, ahead_k_));
    Value* first = m_.adds ? ir_.getFalse() : ir_.CreateICmpEQ(begin, k_.i64(0));
    finish(chain(a, b, ahead, count, start()), first);
    Value* next = ir_.CreateNSWAdd(begin, size);
    begin->addIncoming(next, ir_.GetInsertBlock());
    ir_.CreateCondBr(ir_.CreateICmpSLT(next, depth_), head, done);
  }

  CpuFunction& k_;
  const MicroKernel& m_;
  llvm::IRBuilder<>& ir_;
  llvm::Type *vector_, *stored_;
  int columns_;
  llvm::Function* function_ = nullptr;
  Value *a_ = nullptr, *a_row_ = nullptr, *a_k_ = nullptr, *b_ = nullptr, *b_k_ = nullptr,
        *b_panel_ = nullptr, *depth_ = nullptr, *out_ = nullptr, *ahead_ = nullptr,
        *ahead_k_ = nullptr;
};

}  // namespace

llvm::Function* MicroKernel::emit(CpuFunction& k) const { return MicroWriter(k, *this).run(); }

Cover emit_cover(CpuFunction& k, const TileModel& tile, Value* rows,
                 const std::vector<int64_t>& counts) {
  auto& ir = k.ir;
  auto divide_up = [&](Value* a, Value* b) {
    return ir.CreateUDiv(ir.CreateNSWAdd(a, ir.CreateNSWSub(b, k.i64(1))), b);
  };
  if (!counts.empty()) {
    Value *height = nullptr, *lower = nullptr;
    for (int64_t count : counts) {
      Value *exact = k.i64(tile_height(tile, count, true)), *from = k.i64(lower_from(tile, count));
      Value* here = ir.CreateICmpEQ(rows, k.i64(count));
      height = height ? ir.CreateSelect(here, exact, height) : exact;
      lower = lower ? ir.CreateSelect(here, from, lower) : from;
    }
    return {rows, height, divide_up(rows, height), tile.two_heights ? lower : nullptr};
  }
  Value* tiles = divide_up(rows, k.i64(tile.max_rows));
  Value* split = divide_up(rows, tiles);
  Value* even = ir.CreateAnd(ir.CreateNSWAdd(split, k.i64(1)), k.i64(-2));
  Value* half = ir.CreateLShr(ir.CreateNSWAdd(rows, k.i64(1)), 1);
  half = ir.CreateSelect(ir.CreateICmpEQ(half, k.i64(5)), k.i64(6), half);
  Value* odd = ir.CreateTrunc(split, ir.getInt1Ty());
  Value* halves = ir.CreateAnd(ir.CreateICmpEQ(tiles, k.i64(1)), odd);
  Value* height = ir.CreateSelect(halves, half, even);
  height = ir.CreateSelect(ir.CreateICmpSLE(split, k.i64(4)), split, height);
  return {rows, height, divide_up(rows, height)};
}

Value* Cover::begin(CpuFunction& k, Value* tile) const {
  Value* all = k.ir.CreateNSWMul(tile, height);
  if (!lower) return all;
  Value* less = k.ir.CreateNSWSub(tile, lower);
  less = k.ir.CreateSelect(k.ir.CreateICmpSGT(less, k.i64(0)), less, k.i64(0));
  return k.ir.CreateNSWSub(all, less);
}

Value* Cover::first(CpuFunction& k, Value* tile) const {
  Value *last = k.ir.CreateNSWSub(rows, height_of(k, tile)), *from = begin(k, tile);
  return k.ir.CreateSelect(k.ir.CreateICmpSLT(from, last), from, last);
}

Value* Cover::height_of(CpuFunction& k, Value* tile) const {
  if (!lower) return height;
  Value* less = k.ir.CreateZExt(k.ir.CreateICmpSGE(tile, lower), k.ir.getInt64Ty());
  return k.ir.CreateNSWSub(height, less);
}

void call_one(Scope& scope, Value* shape, const std::map<int64_t, llvm::Function*>& kernels,
              const std::vector<Value*>& args) {
  CpuFunction& k = function_of(scope);
  scope.seek();
  if (kernels.size() == 1) {
    k.ir.CreateCall(kernels.begin()->second, args);
    return;
  }
  llvm::BasicBlock *exit = k.block("tile_done"), *first = k.block("tile");
  auto* chosen = k.ir.CreateSwitch(shape, first, static_cast<unsigned>(kernels.size()));
  for (auto& [number, function] : kernels) {
    llvm::BasicBlock* block = first;
    if (number != kernels.begin()->first) {
      block = k.block("tile");
      chosen->addCase(k.ir.getInt64(static_cast<uint64_t>(number)), block);
    }
    k.ir.SetInsertPoint(block);
    k.ir.CreateCall(function, args);
    k.ir.CreateBr(exit);
  }
  k.ir.SetInsertPoint(exit);
  scope.move_to(exit);
}

}  // namespace hologram::cpu

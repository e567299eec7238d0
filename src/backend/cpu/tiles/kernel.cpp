// backend/cpu/tiles/kernel.cpp: AMX: tile configuration and register kernels of 32 × 32 sums.
//
// Two tiles of 16 rows times two of 16 columns, 64 bytes of k a step: four sums, two tiles of each
// operand; one tile of rows where no more are left. Terms come in an order in which neighbours
// share an operand: 14 tile loads for 24 tile products of three terms, 8 for 12 of two, 4 for 4 of
// one. A block of 16 steps is surrounded by four tilezero and four tilestored.
//
// Each step fetches the operands of the step but one behind it to the first-level cache: with two
// and three terms rows and columns (128 lines for 12 products, 192 for 24), with one term and bytes
// rows alone (32 for 4), since a panel's block of 32 KB stays there by itself.
#include "backend/cpu/tiles/kernel.h"

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <array>

#include "atlas/tile_math.h"

namespace hologram::cpu {
namespace {

using llvm::Intrinsic::ID;

// Tiles 6 and 7 hold the columns of b; by default 0 to 3 the sums, 4 and 5 the rows of a.
constexpr int b_tile = 6;

class TileWriter {
 public:
  TileWriter(CpuFunction& k, const TileKernel& t) : k_(k), t_(t), ir_(k.ir) {}

  llvm::Function* run() {
    llvm::IRBuilderBase::InsertPointGuard guard(ir_);
    create();
    auto *entry = block("entry"), *head = block("step"), *exit = block("steps_done");
    ir_.SetInsertPoint(entry);
    for_sums([&](int tile, int64_t out) {
      if (t_.accumulates)
        load(tile, at(out_, out), k_.i64(out_row()));
      else
        ir_.CreateIntrinsic(llvm::Intrinsic::x86_tilezero, {}, {number(tile)});
    });
    ir_.CreateCondBr(ir_.CreateICmpSGT(steps_, k_.i64(0)), head, exit);
    ir_.SetInsertPoint(head);
    auto *a = ir_.CreatePHI(ir_.getPtrTy(), 2), *b = ir_.CreatePHI(ir_.getPtrTy(), 2),
         *ahead = ir_.CreatePHI(ir_.getPtrTy(), 2);
    auto* left = ir_.CreatePHI(ir_.getInt64Ty(), 2);
    a->addIncoming(a_, entry);
    b->addIncoming(b_, entry);
    ahead->addIncoming(ahead_, entry);
    left->addIncoming(steps_, entry);
    for (int64_t line = 0; line < t_.lines_ahead(); ++line) fetch(beyond(ahead, line * 64));
    step(a, b, true);
    Value *a_next = at(a, t_.a_step), *b_next = at(b, t_.b_step());
    a->addIncoming(a_next, head);
    b->addIncoming(b_next, head);
    ahead->addIncoming(beyond(ahead, t_.lines_ahead() * 64), head);
    Value* next = ir_.CreateNSWSub(left, k_.i64(1));
    left->addIncoming(next, head);
    ir_.CreateCondBr(ir_.CreateICmpSGT(next, k_.i64(0)), head, exit);
    ir_.SetInsertPoint(exit);
    auto* a_end = ir_.CreatePHI(ir_.getPtrTy(), 2);
    a_end->addIncoming(a_, entry);
    a_end->addIncoming(a_next, head);
    if (t_.tail) tail(a_end);
    for_sums([&](int tile, int64_t out) {
      ir_.CreateIntrinsic(llvm::Intrinsic::x86_tilestored64, {},
                          {number(tile), at(out_, out), k_.i64(out_row())});
    });
    ir_.CreateRetVoid();
    return function_;
  }

 private:
  void create() {
    llvm::Type *p = ir_.getPtrTy(), *w = ir_.getInt64Ty();
    auto* type = llvm::FunctionType::get(ir_.getVoidTy(), {p, w, p, w, p, p, p}, false);
    function_ = llvm::Function::Create(type, llvm::Function::InternalLinkage,
                                       "tiles_" + std::to_string(t_.tiles), k_.module);
    function_->setDSOLocal(true);
    llvm::AttrBuilder attributes(k_.context, k_.function->getAttributes().getFnAttrs());
    function_->addFnAttrs(attributes);
    function_->addFnAttr(llvm::Attribute::NoInline);
    a_ = function_->getArg(0);
    row_ = t_.row ? static_cast<Value*>(k_.i64(*t_.row)) : function_->getArg(1);
    b_ = function_->getArg(2);
    steps_ = function_->getArg(3);
    out_ = function_->getArg(4);
    ahead_ = function_->getArg(5);
    tail_ = function_->getArg(6);
  }

  int64_t out_row() const { return t_.out_row ? t_.out_row : t_.columns * 64; }
  int sum(int i, int j) const { return t_.first_sum + t_.columns * i + j; }
  // Calls f with each tile of sums and the bytes in front of its place in out.
  template <class F>
  void for_sums(F&& f) {
    for (int i = 0; i < t_.tiles; ++i)
      for (int j = 0; j < t_.columns; ++j) f(sum(i, j), i * t_.rows * out_row() + j * 64);
  }

  llvm::BasicBlock* block(const char* name) {
    return llvm::BasicBlock::Create(k_.context, name, function_);
  }
  Value* number(int tile) { return ir_.getInt8(static_cast<uint8_t>(tile)); }
  Value* at(Value* p, int64_t bytes) { return at(p, k_.i64(bytes)); }
  Value* at(Value* p, Value* bytes) { return ir_.CreateInBoundsGEP(ir_.getInt8Ty(), p, bytes); }

  // What is fetched ahead may lie behind the operand's end.
  Value* beyond(Value* p, int64_t bytes) {
    return ir_.CreateGEP(ir_.getInt8Ty(), p, k_.i64(bytes));
  }

  // Into the first-level cache (3) or the second (2).
  void fetch(Value* p, uint32_t locality = 2) {
    ir_.CreateIntrinsic(llvm::Intrinsic::prefetch, {ir_.getPtrTy()},
                        {p, ir_.getInt32(0), ir_.getInt32(locality), ir_.getInt32(1)});
  }

  // Line number `line` of what a step fetches for a later one: first of the columns, which all rows
  // wait for, then of the rows, term by term.
  void fetch_later(Value* a, Value* b, int64_t line) {
    const int64_t steps = t_.ahead().steps, of_columns = t_.column_lines();
    if (line < of_columns) return fetch(beyond(b, steps * t_.b_step() + line * 64), 3);
    line -= of_columns;
    const int64_t rows = int64_t{t_.tiles} * t_.rows, term = line / rows;
    const int64_t row = line % rows + (t_.next_rows ? rows : 0);
    Value* from = beyond(a, steps * t_.a_step + term * t_.a_term);
    if (row) {
      Value* offset = ir_.CreateNSWMul(row_, k_.i64(row));
      from = ir_.CreateGEP(ir_.getInt8Ty(), from, offset);
    }
    fetch(from, 3);
  }

  void load(int tile, Value* p, Value* stride) {
    ir_.CreateIntrinsic(llvm::Intrinsic::x86_tileloadd64, {}, {number(tile), p, stride});
  }

  // The products of one step; a term that the last pair used is still in its tiles.
  void step(Value* a, Value* b, bool fetches) {
    constexpr atlas::TermPair bytes[] = {{0, 0}};
    ID product = t_.terms ? llvm::Intrinsic::x86_tdpbf16ps : product_of_bytes();
    const auto pairs = t_.terms ? atlas::tile_pairs(t_.terms) : std::span(bytes);
    const int64_t products = static_cast<int64_t>(pairs.size()) * t_.tiles * t_.columns;
    const int64_t lines = fetches ? t_.row_lines() + t_.column_lines() : 0;
    int64_t done = 0, fetched = 0;
    int lhs = -1, rhs = -1;
    for (atlas::TermPair pair : pairs) {
      Value* from = pair.lhs == lhs && !t_.one_row_tile ? nullptr : at(a, pair.lhs * t_.a_term);
      auto load_rows = [&](int i) {
        load(row_tile(i), i ? at(from, ir_.CreateNSWMul(row_, k_.i64(t_.rows))) : from, row_);
      };
      for (int i = 0; from && !t_.one_row_tile && i < t_.tiles; ++i) load_rows(i);
      if (pair.rhs != rhs)
        for (int j = 0; j < t_.columns; ++j)
          load(b_tile + j, at(b, int64_t{pair.rhs} * t_.columns * 1024 + j * 64),
               k_.i64(t_.columns * 64));
      lhs = pair.lhs;
      rhs = pair.rhs;
      for (int i = 0; i < t_.tiles; ++i) {
        if (t_.one_row_tile) load_rows(i);
        for (int j = 0; j < t_.columns; ++j) {
          ir_.CreateIntrinsic(product, {},
                              {number(sum(i, j)), number(row_tile(i)), number(b_tile + j)});
          for (++done; fetched < lines * done / products; ++fetched) fetch_later(a, b, fetched);
        }
      }
    }
  }

  int row_tile(int i) const { return t_.first_row + (t_.one_row_tile ? 0 : i); }

  ID product_of_bytes() const {
    if (t_.signed_lhs)
      return t_.signed_rhs ? llvm::Intrinsic::x86_tdpbssd : llvm::Intrinsic::x86_tdpbsud;
    return t_.signed_rhs ? llvm::Intrinsic::x86_tdpbusd : llvm::Intrinsic::x86_tdpbuud;
  }

  void tail(Value* a) {
    auto *some = block("tail"), *exit = block("tail_done");
    ir_.CreateCondBr(ir_.CreateIsNull(tail_), exit, some);
    ir_.SetInsertPoint(some);
    step(a, tail_, false);
    ir_.CreateBr(exit);
    ir_.SetInsertPoint(exit);
  }

  CpuFunction& k_;
  const TileKernel& t_;
  llvm::IRBuilder<>& ir_;
  llvm::Function* function_ = nullptr;
  Value *a_ = nullptr, *row_ = nullptr, *b_ = nullptr, *steps_ = nullptr, *out_ = nullptr,
        *ahead_ = nullptr, *tail_ = nullptr;
};

}  // namespace

RowsOfTiles rows_of_tiles(int rows) {
  RowsOfTiles of_tiles;
  for (int tile = 0; tile < 8; ++tile)
    of_tiles[static_cast<size_t>(tile)] = static_cast<uint8_t>(tile < b_tile ? rows : 16);
  return of_tiles;
}

void emit_tile_config(CpuFunction& k, Value* config, const RowsOfTiles& rows) {
  uint64_t of_tiles = 0;
  for (size_t tile = 0; tile < rows.size(); ++tile)
    of_tiles |= static_cast<uint64_t>(rows[tile]) << 8 * tile;
  const std::array<uint64_t, 8> words{1, 0, 0x0040004000400040, 0x0040004000400040,
                                      0, 0, of_tiles,           0};
  for (size_t i = 0; i < words.size(); ++i)
    k.ir.CreateAlignedStore(k.ir.getInt64(words[i]),
                            k.ir.CreateConstInBoundsGEP1_64(k.ir.getInt64Ty(), config, i),
                            llvm::Align(8));
  k.ir.CreateIntrinsic(llvm::Intrinsic::x86_ldtilecfg, {}, {config});
}

void emit_tile_release(CpuFunction& k) {
  k.ir.CreateIntrinsic(llvm::Intrinsic::x86_tilerelease, {}, {});
}

llvm::Function* TileKernel::emit(CpuFunction& k) const { return TileWriter(k, *this).run(); }

}  // namespace hologram::cpu

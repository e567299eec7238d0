// backend/cpu/attention/score_blocks.h: what attention and its gradients share: products of blocks
// on register tiles, vectors in scratch memory, exponentials.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <tuple>

#include "backend/cpu/operands/index_builder.h"
#include "backend/cpu/products/micro.h"
#include "backend/cpu/tiles/kernel.h"

namespace hologram::cpu {

class ScoreBlocks : public IndexBuilder {
 protected:
  ScoreBlocks(CpuFunction& kernel, const TileModel& tile, DType type);

  struct Matrix {
    Value *base, *row, *k;  // element (r, k) at base + r * row + k * k
  };

  struct Panels {
    Value *base, *k, *panel;  // element (k, c) at base + k * k + (c / panel) * panel + c % panel
    int span;
    DType storage;
    int vectors = 0;  // of a single panel, that hold columns; 0: all
    // Part of what comes next: MicroKernel::lines_ahead.
    int lines_ahead = 0;
    Value *ahead = nullptr, *ahead_k = nullptr;
  };

  struct Out {
    Value* base;
    int64_t row = 0;  // elements between rows; 0: as wide as the panels
  };

  // Where to note a block of scratch memory, and its elements.
  using Regions = std::vector<std::pair<Value**, Value*>>;
  // Places the blocks behind each other in the kernel's scratch memory.
  void place_regions(const Regions& regions);

  // out (rows x panels) = a (rows x depth) * b. `counts`: the numbers of rows that occur, or {} if
  // any up to `most` may. Products of one `use` have equal strides.
  void multiply(Scope& scope, int use, Value* rows, const std::vector<int64_t>& counts,
                int64_t most, const Matrix& a, const Panels& b, Value* depth, const Out& out);

  // out = scale * out + a * b, a scale per row. Here no tile may cover a row twice, so heights
  // differ by one.
  void multiply_add(Scope& scope, int use, Value* rows, const std::vector<int64_t>& counts,
                    const Matrix& a, const Panels& b, Value* depth, const Out& out, Value* scale);

  Value* at(Value* base, Value* index) { return element(k_, type_, base, index); }
  llvm::Type* vector() const { return k_.lane_type(type_, t_.lanes); }
  llvm::Align alignment() const { return llvm::Align(static_cast<uint64_t>(size_of(type_))); }
  Value* load(Value* p) { return k_.ir.CreateAlignedLoad(vector(), p, alignment()); }
  void store(Value* v, Value* p) { k_.ir.CreateAlignedStore(v, p, alignment()); }
  Value* load_one(Value* p) { return k_.ir.CreateAlignedLoad(k_.type_of(type_), p, alignment()); }
  Value* spread(Value* v) { return k_.ir.CreateVectorSplat(static_cast<unsigned>(t_.lanes), v); }
  llvm::Constant* lowest(llvm::Type* t) { return llvm::ConstantFP::getInfinity(t, true); }
  llvm::Constant* zero(llvm::Type* t) { return llvm::Constant::getNullValue(t); }
  Value* most(Value* a, Value* b) { return k_.ir.CreateSelect(k_.ir.CreateICmpSGT(a, b), a, b); }

  // Stores `value` to whole vectors from base on, until `count` elements are covered.
  void fill(Scope& scope, Value* base, Value* count, llvm::Constant* value);
  // A body of accumulators 0 and 1.
  Value* combine(Scope& scope, const atlas::Body& body, LaneValue x, LaneValue y);
  // The score body on a vector of scaled scores.
  Value* score_of(Scope& scope, const atlas::Body& body, Value* scaled);
  Value* scaled(Value* score, double scale);
  // first, first + 1, … as i32.
  Value* lane_numbers(Value* first);

  // score_tiles.cpp: on tiles, and words of two numbers.
  // Calls the kernel with `arguments` (a, row, b, steps, out) for `count` rows: with kernel.tiles
  // of 2, up to 16 take one tile. Kernels of one `use` are equal.
  void call_tiles(Scope& scope, int use, TileKernel kernel, Value* count,
                  std::vector<Value*> arguments);
  // A row of a bfloat16 operand, `columns` of it along `axis`, from number `first` of bfloat16
  // memory on, 64-byte aligned; zeros up to a whole number of 32.
  void copy_tile_row(Scope& scope, const atlas::Body& body, int axis, Value* columns, Value* base,
                     Value* first);
  // Words of the numbers of two vectors of 16 bits, side by side; the first ones are lower.
  Value* interleave(Value* low, Value* high);
  // A vector of 16 of float32, as bfloat16.
  Value* rounded(Value* v);
  // Two vectors of 16 of float32, rounded, as words.
  Value* rounded_words(Value* low, Value* high);
  // The same of vectors of any length, stored.
  void store_words(Value* low, Value* high, Value* to);

  TileModel t_;
  DType type_;
  Dots dots_ = Dots::none;  // of the products: then elements of both sides are pairs

  // Runs `each` for the numbers of the panels that `columns` fill; `vectors` is 1 for a last panel
  // of one vector, else 0.
  void for_panels(Scope& scope, Value* columns,
                  const std::function<void(Scope&, Value* panel, int vectors)>& each);

 private:
  void call_tile(Scope& scope, int use, Value* first, Value* height, const std::set<int>& heights,
                 const Matrix& a, const Panels& b, Value* depth, const Out& out, Value* scale);

  std::map<std::tuple<int, int, int>, llvm::Function*> micro_;   // of use, height, vectors
  std::map<std::pair<int, int>, llvm::Function*> tile_kernels_;  // of use, tiles
};

/// exp(accumulator 0 - accumulator 1)
atlas::Body exp_of_difference(const Target& target, DType type);
/// accumulator 0 + log(accumulator 1)
atlas::Body log_of_sum(DType type);

}  // namespace hologram::cpu

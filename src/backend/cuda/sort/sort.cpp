// backend/cuda/sort/sort.cpp: sort blocks: tiles of a row in shared memory, then each entry's
// place.
//
// A CTA sorts a tile of a row, entries of a key and its element's number, of which no two are
// equal, by a bitonic network. A row of one tile is then done. Else tiles go to the workspace, and
// a thread of the second kernel finds the place of one entry: the number of smaller ones in each
// tile, by bisection. Where few places are wanted, only so many entries of each tile count.
#include "backend/cuda/sort/sort.h"

#include <llvm/IR/IntrinsicsNVPTX.h>

#include <algorithm>
#include <bit>

#include "atlas/empty.h"
#include "backend/cuda/loops/points.h"
#include "codegen/nest.h"
#include "codegen/sort_key.h"
#include "gpu/points.h"

namespace hologram::cuda {
namespace {

namespace Intrinsic = llvm::Intrinsic;

constexpr int64_t tile_entries = 2048;
constexpr int64_t most_threads = 512;
constexpr int tile_merges = static_cast<int>(tile_entries) / merge_threads;

struct SortPlan {
  Expr elements, places;
  int64_t slots;  // of a tile: a power of two
  bool tiled;     // rows may have several
  int threads;
};

SortPlan plan_sort(const atlas::SortBlock& b) {
  SortPlan plan;
  plan.elements = b.axes[static_cast<size_t>(b.batch_rank)].extent;
  plan.places = b.axes[static_cast<size_t>(b.batch_rank) + 1].extent;
  const int64_t known =
      plan.elements.is_const() ? plan.elements.constant_value() : tile_entries + 1;
  plan.tiled = known > tile_entries;
  const int64_t within = std::clamp<int64_t>(known, 2, tile_entries);
  plan.slots = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(within)));
  plan.threads = static_cast<int>(std::clamp<int64_t>(plan.slots / 2, 32, most_threads));
  return plan;
}

class SortEmitter {
 public:
  SortEmitter(CudaFunction& k, const SortPlan& plan)
      : k_(k),
        ir_(k.ir),
        b_(k.program.sort()),
        plan_(plan),
        apart_(size_of(b_.key_type) == 8),
        thread_(wide(k.thread())) {
    elements_ = emit_expr(k.root(), plan.elements).v;
    places_ = emit_expr(k.root(), plan.places + Expr(b_.first)).v;
    k.root().seek();
  }

  // What an entry has in memory: the number above the element's number, or the two apart.
  static int bytes(const atlas::SortBlock& b) { return size_of(b.key_type) == 8 ? 12 : 8; }

  void sort_tiles() {
    Scope& root = k_.root();
    Value *cta = wide(k_.cta()), *tile = k_.i64(0), *row = cta;
    if (plan_.tiled) {
      tile = ir_.CreateURem(cta, k_.teams());
      row = ir_.CreateUDiv(cta, k_.teams());
    }
    fix_axes(root, b_.axes, 0, b_.batch_rank, row);
    root.seek();
    const int slots = static_cast<int>(plan_.slots);
    shared_ = {k_.shared(word(), slots, "numbers"),
               apart_ ? k_.shared(half(), slots, "elements") : nullptr};
    Value* levels = plan_.tiled ? levels_of() : k_.i64(std::countr_zero(uint64_t(plan_.slots)));
    Value* slots_now = ir_.CreateShl(k_.i64(1), levels);
    first_ = ir_.CreateMul(tile, k_.i64(tile_entries));
    each(root, k_.i64(0), slots_now, [&](Scope& s, Value* slot) { read(s, slot); });
    root.seek();
    barrier();
    network(root, levels, ir_.CreateLShr(slots_now, 1));
    root.seek();
    Value* alone = plan_.tiled ? ir_.CreateICmpEQ(k_.teams(), k_.i64(1)) : ir_.getTrue();
    emit_if(root, alone, [&](Scope& whole) {
      each(whole, k_.i64(b_.first), places_, [&](Scope& s, Value* place) {
        s.seek();
        finish(s, place, load(shared_, place));
      });
    });
    root.seek();
    if (plan_.tiled)
      emit_if(root, ir_.CreateNot(alone), [&](Scope& part) {
        part.seek();
        const Memory to = in_workspace(cta);
        each(part, k_.i64(0), count_of(tile), [&](Scope& s, Value* slot) {
          s.seek();
          store(to, slot, load(shared_, slot));
        });
      });
    root.seek();
    k_.finish();
  }

  // A thread for each entry that a tile has left.
  void merge_tiles() {
    Scope& root = k_.root();
    Value* cta = wide(k_.cta());
    Value* share = ir_.CreateURem(cta, k_.i64(tile_merges));
    Value* team = ir_.CreateUDiv(cta, k_.i64(tile_merges));
    Value* tile = ir_.CreateURem(team, k_.teams());
    Value* row = ir_.CreateUDiv(team, k_.teams());
    fix_axes(root, b_.axes, 0, b_.batch_rank, row);
    root.seek();
    Value* slot = ir_.CreateAdd(ir_.CreateMul(share, k_.i64(merge_threads)), thread_);
    Value* first_team = ir_.CreateMul(row, k_.teams());
    emit_if(root, ir_.CreateICmpSLT(slot, count_of(tile)), [&](Scope& own) {
      own.seek();
      const Entry entry = load(in_workspace(team), slot);
      Value* place =
          emit_loop(own, k_.i64(0), k_.teams(), k_.i64(1), true, {k_.i64(0)},
                    [&](Scope& s, Value* other, std::vector<Value*> sum) -> std::vector<Value*> {
                      s.seek();
                      const Memory from = in_workspace(ir_.CreateAdd(first_team, other));
                      return {ir_.CreateAdd(sum[0], smaller(from, count_of(other), entry))};
                    })[0];
      own.seek();
      Value* wanted = ir_.CreateAnd(ir_.CreateICmpSLT(place, places_),
                                    ir_.CreateICmpSGE(place, k_.i64(b_.first)));
      emit_if(own, wanted, [&](Scope& s) { finish(s, place, entry); });
    });
    root.seek();
    k_.finish();
  }

 private:
  struct Memory {
    Value *numbers, *elements;
  };
  struct Entry {
    Value *number, *element;  // i64; where they are not apart, `number` has both
  };

  llvm::Type* word() { return ir_.getInt64Ty(); }
  llvm::Type* half() { return ir_.getInt32Ty(); }
  Value* wide(Value* v) { return ir_.CreateZExt(v, word()); }
  void barrier() { ir_.CreateIntrinsic(Intrinsic::nvvm_barrier0, {}, {}); }
  Value* smaller_of(Value* x, Value* y) { return ir_.CreateBinaryIntrinsic(Intrinsic::smin, x, y); }

  // The CTA's threads in turn.
  void each(Scope& scope, Value* begin, Value* end,
            const std::function<void(Scope&, Value*)>& fill) {
    scope.seek();
    emit_loop(scope, ir_.CreateAdd(begin, thread_), end, k_.i64(plan_.threads), false, fill);
  }

  // Two to the levels are the row's slots, or a tile's.
  Value* levels_of() {
    Value* last = ir_.CreateSub(smaller_of(elements_, k_.i64(tile_entries)), k_.i64(1));
    Value* zeros = ir_.CreateIntrinsic(Intrinsic::ctlz, {word()}, {last, ir_.getFalse()});
    return ir_.CreateSub(k_.i64(64), zeros);
  }

  Memory in_workspace(Value* team) {
    Value* numbers = k_.workspace(team);
    return {numbers, ir_.CreateGEP(word(), numbers, k_.i64(tile_entries))};
  }

  // How many entries of a tile count.
  Value* count_of(Value* tile) {
    Value* rest = ir_.CreateSub(elements_, ir_.CreateMul(tile, k_.i64(tile_entries)));
    return smaller_of(smaller_of(rest, k_.i64(tile_entries)), places_);
  }

  Entry load(const Memory& from, Value* slot) {
    Value* number = ir_.CreateLoad(word(), ir_.CreateGEP(word(), from.numbers, slot));
    if (!apart_) return {number, nullptr};
    return {number, wide(ir_.CreateLoad(half(), ir_.CreateGEP(half(), from.elements, slot)))};
  }

  void store(const Memory& to, Value* slot, const Entry& e) {
    ir_.CreateStore(e.number, ir_.CreateGEP(word(), to.numbers, slot));
    if (apart_)
      ir_.CreateStore(ir_.CreateTrunc(e.element, half()), ir_.CreateGEP(half(), to.elements, slot));
  }

  Value* below(const Entry& a, const Entry& b) {
    Value* less = ir_.CreateICmpULT(a.number, b.number);
    if (!apart_) return less;
    return ir_.CreateOr(less, ir_.CreateAnd(ir_.CreateICmpEQ(a.number, b.number),
                                            ir_.CreateICmpULT(a.element, b.element)));
  }

  // Behind the row's end come entries that are larger than all of it.
  void read(Scope& scope, Value* slot) {
    scope.seek();
    Value* element = ir_.CreateAdd(first_, slot);
    Value* exists = ir_.CreateICmpSLT(element, elements_);
    Scope copy(scope, false);
    copy.set_lanes(-1, 1, exists);
    copy.set_axis(b_.batch_rank, smaller_of(element, ir_.CreateSub(elements_, k_.i64(1))));
    Value* x = emit_body(copy, b_.key).back().v;
    copy.seek();
    scope.move_to(ir_.GetInsertBlock());
    Value* number = emit_sort_key(k_, b_.key_type, b_.descending, x);
    number = apart_ ? number : wide(number);
    const uint64_t largest = apart_ ? ~uint64_t{0} : 0xffffffff;
    number = ir_.CreateSelect(exists, number, ir_.getInt64(largest));
    if (!apart_) number = ir_.CreateOr(ir_.CreateShl(number, 32), element);
    store(shared_, slot, {number, element});
  }

  // Runs of 2, 4, … slots, each up or down, are merged from halves until all are one.
  void network(Scope& scope, Value* levels, Value* pairs) {
    emit_loop(scope, k_.i64(1), ir_.CreateAdd(levels, k_.i64(1)), k_.i64(1), false,
              [&](Scope& run, Value* level) {
                emit_loop(run, k_.i64(0), level, k_.i64(1), true, [&](Scope& step, Value* n) {
                  step.seek();
                  Value* distance = ir_.CreateSub(ir_.CreateSub(level, k_.i64(1)), n);
                  each(step, k_.i64(0), pairs,
                       [&](Scope& s, Value* pair) { exchange(s, pair, level, distance); });
                  step.seek();
                  barrier();
                });
              });
  }

  void exchange(Scope& scope, Value* pair, Value* level, Value* distance) {
    scope.seek();
    Value* apart = ir_.CreateShl(k_.i64(1), distance);
    Value* low = ir_.CreateAnd(pair, ir_.CreateSub(apart, k_.i64(1)));
    Value* slot = ir_.CreateAdd(ir_.CreateShl(ir_.CreateSub(pair, low), 1), low);
    Value* other = ir_.CreateAdd(slot, apart);
    Value* down = ir_.CreateTrunc(ir_.CreateLShr(slot, level), ir_.getInt1Ty());
    const Entry a = load(shared_, slot), b = load(shared_, other);
    Value* swap = ir_.CreateXor(below(b, a), down);
    auto choose = [&](const Entry& yes, const Entry& no) -> Entry {
      return {ir_.CreateSelect(swap, yes.number, no.number),
              apart_ ? ir_.CreateSelect(swap, yes.element, no.element) : nullptr};
    };
    store(shared_, slot, choose(b, a));
    store(shared_, other, choose(a, b));
  }

  // How many of the first `count` entries, which are in order, are below this one.
  Value* smaller(const Memory& from, Value* count, const Entry& entry) {
    Value* found = k_.i64(0);
    for (int64_t step = tile_entries; step > 0; step /= 2) {
      Value* next = ir_.CreateAdd(found, k_.i64(step));
      Value* last = ir_.CreateSub(smaller_of(next, count), k_.i64(1));
      Value* takes = ir_.CreateAnd(ir_.CreateICmpSLE(next, count), below(load(from, last), entry));
      found = ir_.CreateSelect(takes, next, found);
    }
    return found;
  }

  void finish(Scope& scope, Value* place, const Entry& entry) {
    scope.seek();
    Value* element = apart_ ? entry.element : ir_.CreateAnd(entry.number, k_.i64(0xffffffff));
    scope.set_axis(b_.batch_rank + 1, ir_.CreateSub(place, k_.i64(b_.first)));
    scope.set_accumulator(0, {element, false});
    emit_body(scope, b_.epilogue);
  }

  CudaFunction& k_;
  llvm::IRBuilder<>& ir_;
  const atlas::SortBlock& b_;
  const SortPlan& plan_;
  bool apart_;
  Value *thread_, *elements_;
  Value* places_;           // that count, from 0 on: those before the first one wanted too
  Value* first_ = nullptr;  // element of the tile
  Memory shared_{};
};

}  // namespace

Facts emit_sort_block(llvm::Module& module, const atlas::Program& program) {
  Facts facts;
  if (atlas::is_empty(program)) {
    CudaFunction k(module, program, facts.threads);
    k.finish();
    return facts;
  }
  const atlas::SortBlock& b = program.sort();
  const SortPlan plan = plan_sort(b);
  facts.threads = plan.threads;
  facts.points = 1;
  facts.total = gpu::points_of(b.axes, 0, b.batch_rank);
  CudaFunction k(module, program, plan.threads);
  SortEmitter(k, plan).sort_tiles();
  facts.flags = k.flags();
  if (!plan.tiled) return facts;
  facts.parts = ceil_div(plan.elements, Expr(tile_entries));
  facts.all_parts = true;
  facts.team_bytes = Expr(tile_entries * SortEmitter::bytes(b));
  facts.merges = tile_merges;
  CudaFunction merge(module, program, merge_threads, merge_symbol);
  SortEmitter(merge, plan).merge_tiles();
  facts.flags = facts.flags || merge.flags();
  return facts;
}

}  // namespace hologram::cuda

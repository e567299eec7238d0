// codegen/memory.cpp: loads and stores of bodies.
#include "codegen/memory.h"

#include <llvm/IR/Intrinsics.h>

#include <algorithm>

#include "base/error.h"
#include "codegen/shared_element.h"

namespace hologram::codegen {
namespace {

// How the lanes of an access lie in memory.
struct Layout {
  enum Kind { uniform, contiguous, reversed, strided, shared, scattered } kind;
  Value* address = nullptr;  ///< of lane 0; reversed: of the last lane; shared: of the first
                             ///< element that is read; scattered: none
  Value* indices = nullptr;  ///< scattered: elements from the buffer's start
  int step = 1;              ///< strided: elements from lane to lane (of fewer than 0, `address` is
                             ///< of the last lane); shared: from group to group
  int group = 1;             ///< shared: lanes that have one element
  int first = 0;             ///< shared: lane 0's element, from `address`
};

// Lanes at most so many elements apart are picked from whole vectors instead of gathered.
constexpr int64_t most_apart = 4;

class Access {
 public:
  Access(Scope& scope, const atlas::Instr& i, const std::vector<LaneValue>& values)
      : scope_(scope),
        k_(scope.function()),
        ir_(k_.ir),
        buffer_(i.buffer),
        dtype_(k_.program.buffers[static_cast<size_t>(i.buffer)].dtype),
        element_(k_.memory_type(dtype_)),
        lanes_(scope.lanes()),
        values_(values) {
    align_ = llvm::Align(static_cast<uint64_t>(size_of(dtype_)));
    constant_ = k_.program.buffers[static_cast<size_t>(i.buffer)].access == atlas::Access::read;
  }

  LaneValue load(const Expr& index, LaneValue guard);
  void store(const Expr& index, LaneValue value, LaneValue guard);

 private:
  Layout layout(const Expr& index, LaneValue guard, bool loading);
  bool picks(LaneValue guard) const;
  bool shares(const SharedElement& s, LaneValue guard) const;
  Value* vector_mask(LaneValue guard);
  Value* any(LaneValue guard, bool& certain);
  Value* load_vector(Value* address, Value* mask);
  Value* load_apart(Value* indices);
  Value* load_strided(const Layout& at, LaneValue guard, bool backwards = false);
  Value* load_shared(const Layout& at, LaneValue guard);
  void store_vector(Value* address, Value* value, Value* mask);
  void store_runs(Value* address, Value* value, llvm::Constant* lanes);
  void store_where(Value* touched, Value* value, Value* address);
  Value* reverse(Value* v);
  Value* mark(llvm::Instruction* load);
  bool reorders() const { return scope_.alternate() && dtype_ != DType::bf16; }
  /// A vector that was loaded as the lanes have it in registers.
  Value* read(Value* x) { return from_memory(k_, dtype_, reorders() ? to_alternate(k_, x) : x); }

  Scope& scope_;
  Function& k_;
  llvm::IRBuilder<>& ir_;
  int buffer_;
  DType dtype_;
  llvm::Type* element_;
  int lanes_;
  const std::vector<LaneValue>& values_;
  llvm::Align align_{1};
  bool constant_;
};

Layout Access::layout(const Expr& index, LaneValue guard, bool loading) {
  IndexEmitter base(&values_, true);
  const atlas::Buffer& b = k_.program.buffers[static_cast<size_t>(buffer_)];
  bool interleaved = b.access == atlas::Access::scratch && k_.scratch_lanes() > 1;
  Expr e = interleaved ? index * Expr(k_.scratch_lanes()) : index;
  if (lanes_ == 1) return {Layout::uniform, base.address(scope_, buffer_, e)};
  bool varies = base.varies(scope_, e);
  // LLVM 19 may take a spilled mask's upper bits for lanes when a vector fills less than a
  // register.
  bool loose_mask = guard && guard.varying && k_.traits.masks && lanes_ * size_of(dtype_) < 16;
  if (interleaved && !varies) return {Layout::contiguous, base.address(scope_, buffer_, e)};
  if (!varies) return {Layout::uniform, base.address(scope_, buffer_, e)};
  auto parts = e.linear_in_axis(scope_.lane_axis());
  if (!interleaved && !loose_mask && parts && !base.varies(scope_, parts->second)) {
    if (parts->first.is(1)) return {Layout::contiguous, base.address(scope_, buffer_, e)};
    if (parts->first.is(-1))
      return {Layout::reversed, base.address(scope_, buffer_, e - Expr(lanes_ - 1))};
    if (loading && parts->first.is_const() && picks(guard)) {
      int64_t step = parts->first.constant_value();
      if (step > 1 && step <= most_apart)
        return {Layout::strided, base.address(scope_, buffer_, e), nullptr, static_cast<int>(step)};
      if (step < -1 && step >= -most_apart)
        return {Layout::strided, base.address(scope_, buffer_, e + Expr(step * (lanes_ - 1))),
                nullptr, static_cast<int>(step)};
    }
  }
  if (loading && !interleaved)
    if (auto shared = shared_element(e, scope_.lane_axis()); shared && shares(*shared, guard)) {
      auto step = static_cast<int>(shared->step);
      int64_t first = e.constant() % step;
      if (first < 0) first += step;
      return {Layout::shared,
              base.address(scope_, buffer_, e - Expr(first)),
              nullptr,
              step,
              static_cast<int>(shared->group),
              static_cast<int>(first)};
    }
  LaneValue indices = IndexEmitter(&values_, false).emit(scope_, e);
  scope_.seek();
  Value* v = splat(k_, indices, lanes_);
  if (interleaved) {
    std::vector<llvm::Constant*> steps;
    for (int l = 0; l < lanes_; ++l)
      steps.push_back(llvm::ConstantInt::getSigned(ir_.getInt64Ty(), l));
    v = ir_.CreateAdd(v, llvm::ConstantVector::get(steps));
  }
  return {Layout::scattered, nullptr, v};
}

// Whether lanes that lie apart are picked from whole vectors. What lies between them may be read if
// nobody writes to the buffer: the first and the last lane are read too, or else vectors are
// masked.
bool Access::picks(LaneValue guard) const {
  if (!constant_) return false;
  if (scope_.mask() || (guard && guard.varying)) return k_.traits.masks;
  return !guard || lanes_ * size_of(dtype_) <= 64;
}

// Whether groups of lanes that have one element each take it from vectors of whole groups, all of
// which exist.
bool Access::shares(const SharedElement& s, LaneValue guard) const {
  const Expr& extent = k_.program.buffers[static_cast<size_t>(buffer_)].extent;
  int64_t span = lanes_ / s.group * s.step;
  return constant_ && scope_.aligned() && !scope_.mask() && !(guard && guard.varying) &&
         lanes_ % s.group == 0 && extent.is_const() && extent.constant_value() % s.step == 0 &&
         span <= most_apart * lanes_ && (!guard || span * size_of(dtype_) <= 64);
}

// The lanes to touch, or null for all.
Value* Access::vector_mask(LaneValue guard) {
  Value* mask = scope_.mask();
  if (!guard) return mask;
  Value* g = splat(k_, guard, lanes_);
  return mask ? ir_.CreateAnd(g, mask) : g;
}

// Whether any lane is to be touched (i1); `certain` when that is known.
Value* Access::any(LaneValue guard, bool& certain) {
  certain = !guard && !scope_.mask();
  if (certain) return nullptr;
  if (guard && !guard.varying && !scope_.mask()) return guard.v;
  Value* mask = vector_mask(guard);
  return lanes_ == 1 ? mask : ir_.CreateOrReduce(mask);
}

Value* Access::mark(llvm::Instruction* load) {
  if (constant_)
    load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(k_.context, {}));
  return load;
}

Value* Access::reverse(Value* v) {
  std::vector<int> order;
  for (int l = lanes_ - 1; l >= 0; --l) order.push_back(l);
  return ir_.CreateShuffleVector(v, order);
}

Value* Access::load_vector(Value* address, Value* mask) {
  llvm::Type* type = k_.widen(element_, lanes_);
  if (!mask) return mark(ir_.CreateAlignedLoad(type, address, align_));
  return mark(
      ir_.CreateMaskedLoad(type, address, align_, mask, llvm::Constant::getNullValue(type)));
}

// One lane after the other.
Value* Access::load_apart(Value* indices) {
  Value* all = llvm::PoisonValue::get(k_.widen(element_, lanes_));
  for (uint64_t l = 0; l < static_cast<uint64_t>(lanes_); ++l) {
    Value* place = ir_.CreateExtractElement(indices, l);
    Value* address = ir_.CreateGEP(element_, k_.buffer(buffer_), place);
    all = ir_.CreateInsertElement(all, mark(ir_.CreateAlignedLoad(element_, address, align_)), l);
  }
  return all;
}

// Every step-th element from vectors that lie side by side, the last one ending with the last lane.
Value* Access::load_strided(const Layout& at, LaneValue guard, bool backwards) {
  llvm::Type* type = k_.widen(element_, lanes_);
  if (at.step < 0) {
    Layout forwards = at;
    forwards.step = -at.step;
    return reverse(load_strided(forwards, guard, true));
  }
  bool masked = scope_.mask() || (guard && guard.varying);
  Value* mask = masked ? vector_mask(guard) : nullptr;
  if (mask && backwards) mask = reverse(mask);
  int last = (lanes_ - 1) * (at.step - 1);  // where the last vector begins
  Value* all = nullptr;
  for (int v = 0; v < at.step; ++v) {
    int first = std::min(v * lanes_, last);
    std::vector<int> order(static_cast<size_t>(lanes_)), touched(static_cast<size_t>(lanes_));
    for (int l = 0; l < lanes_; ++l) {
      int from = l * at.step - first, place = first + l;
      bool here = from >= 0 && from < lanes_;
      order[static_cast<size_t>(l)] = here ? lanes_ + from : l;
      touched[static_cast<size_t>(l)] = place % at.step == 0 ? place / at.step : lanes_;
    }
    Value* address = ir_.CreateConstGEP1_64(element_, at.address, static_cast<uint64_t>(first));
    Value* part;
    if (masked) {
      Value* none = llvm::Constant::getNullValue(mask->getType());
      part = load_vector(address, ir_.CreateShuffleVector(mask, none, touched));
    } else {
      if (guard) address = ir_.CreateSelect(guard.v, address, k_.zeros());
      auto* load = ir_.CreateAlignedLoad(type, address, align_);
      part = guard ? load : mark(load);
    }
    all = ir_.CreateShuffleVector(all ? all : llvm::PoisonValue::get(type), part, order);
  }
  return all;
}

// The elements of all groups side by side, from which each lane takes its group's.
Value* Access::load_shared(const Layout& at, LaneValue guard) {
  llvm::Type* type = k_.widen(element_, lanes_ / at.group * at.step);
  Value* address = guard ? ir_.CreateSelect(guard.v, at.address, k_.zeros()) : at.address;
  auto* load = ir_.CreateAlignedLoad(type, address, align_);
  if (!guard) mark(load);
  if (!type->isVectorTy()) return ir_.CreateVectorSplat(static_cast<unsigned>(lanes_), load);
  std::vector<int> order;
  for (int l = 0; l < lanes_; ++l) order.push_back(at.first + l / at.group * at.step);
  return ir_.CreateShuffleVector(load, order);
}

// The lanes of a constant mask, as many at a time as a power of two that their number is a multiple
// of.
void Access::store_runs(Value* address, Value* value, llvm::Constant* lanes) {
  auto all = [&](int first, int end) {
    for (int l = first; l < end; ++l)
      if (l >= lanes_ || lanes->getAggregateElement(static_cast<unsigned>(l))->isNullValue())
        return false;
    return true;
  };
  for (int first = 0, count = 1; first < lanes_; first += count, count = 1) {
    if (!all(first, first + 1)) continue;
    while (first % (2 * count) == 0 && all(first + count, first + 2 * count)) count *= 2;
    std::vector<int> order;
    for (int l = 0; l < count; ++l) order.push_back(first + l);
    Value* some = count == 1 ? ir_.CreateExtractElement(value, static_cast<uint64_t>(first))
                             : ir_.CreateShuffleVector(value, order);
    Value* at = ir_.CreateConstGEP1_64(element_, address, static_cast<uint64_t>(first));
    ir_.CreateAlignedStore(some, at, align_);
  }
}

void Access::store_vector(Value* address, Value* value, Value* mask) {
  // Where no instruction stores some lanes well, known ones are stored without it.
  if (auto* known = llvm::dyn_cast_or_null<llvm::Constant>(mask); known && !k_.traits.masks)
    return store_runs(address, value, known);
  if (mask) {
    ir_.CreateMaskedStore(value, address, align_, mask);
    return;
  }
  constexpr uint64_t line = 64;
  uint64_t bytes = static_cast<uint64_t>(lanes_ * size_of(dtype_));
  Value* when = bytes < 16 ? nullptr : scope_.streaming();
  auto stream = [&] {
    auto* store = ir_.CreateAlignedStore(value, address, llvm::Align(std::min(bytes, line)));
    auto* one = llvm::ConstantAsMetadata::get(ir_.getInt32(1));
    store->setMetadata(llvm::LLVMContext::MD_nontemporal, llvm::MDNode::get(k_.context, one));
  };
  if (!when) {
    ir_.CreateAlignedStore(value, address, align_);
    return;
  }
  if (llvm::isa<llvm::ConstantInt>(when)) return stream();
  llvm::BasicBlock *past = k_.block("past"), *through = k_.block("through"), *on = k_.block("on");
  ir_.CreateCondBr(when, past, through);
  ir_.SetInsertPoint(past);
  stream();
  ir_.CreateBr(on);
  ir_.SetInsertPoint(through);
  ir_.CreateAlignedStore(value, address, align_);
  ir_.CreateBr(on);
  ir_.SetInsertPoint(on);
  scope_.move_to(on);
}

void Access::store_where(Value* touched, Value* value, Value* address) {
  llvm::BasicBlock *there = k_.block("there"), *on = k_.block("on");
  ir_.CreateCondBr(touched, there, on);
  ir_.SetInsertPoint(there);
  ir_.CreateAlignedStore(value, address, align_);
  ir_.CreateBr(on);
  ir_.SetInsertPoint(on);
  scope_.move_to(on);
}

LaneValue Access::load(const Expr& index, LaneValue guard) {
  Layout at = layout(index, guard, true);
  scope_.seek();
  if (at.kind == Layout::uniform) {
    bool certain;
    Value* touched = any(guard, certain);
    Value* address = certain ? at.address : ir_.CreateSelect(touched, at.address, k_.zeros());
    auto* load = ir_.CreateAlignedLoad(element_, address, align_);
    Value* x = from_memory(k_, dtype_, certain ? mark(load) : load);
    if (!guard || !guard.varying) return {x, false};
    Value* wide = splat(k_, {x, false}, lanes_);
    return {ir_.CreateSelect(guard.v, wide, llvm::Constant::getNullValue(wide->getType())), true};
  }
  // All lanes or none: zeros are read elsewhere, without a mask.
  bool together = at.kind == Layout::contiguous && guard && !guard.varying && !scope_.mask() &&
                  lanes_ * size_of(dtype_) <= 64;
  if (together) {
    Value* address = ir_.CreateSelect(guard.v, at.address, k_.zeros());
    auto* load = ir_.CreateAlignedLoad(k_.widen(element_, lanes_), address, align_);
    return {read(load), true};
  }
  if (at.kind == Layout::shared) return {read(load_shared(at, guard)), true};
  if (at.kind == Layout::strided) return {read(load_strided(at, guard)), true};
  Value* mask = vector_mask(guard);
  Value* x;
  if (at.kind == Layout::scattered) {
    llvm::Type* type = k_.widen(element_, lanes_);
    if (!mask && !k_.traits.gathers) return {from_memory(k_, dtype_, load_apart(at.indices)), true};
    Value* pointers = ir_.CreateGEP(element_, k_.buffer(buffer_), at.indices);
    if (!mask) mask = llvm::Constant::getAllOnesValue(k_.widen(ir_.getInt1Ty(), lanes_));
    x = mark(
        ir_.CreateMaskedGather(type, pointers, align_, mask, llvm::Constant::getNullValue(type)));
  } else if (at.kind == Layout::reversed) {
    x = reverse(load_vector(at.address, mask ? reverse(mask) : nullptr));
  } else {
    x = load_vector(at.address, mask);
  }
  return {read(x), true};
}

void Access::store(const Expr& index, LaneValue value, LaneValue guard) {
  Layout at = layout(index, guard, false);
  scope_.seek();
  if (at.kind == Layout::uniform && !value.varying && (!guard || !guard.varying)) {
    bool certain;
    Value* touched = any(guard, certain);
    Value* x = to_memory(k_, dtype_, value.v);
    if (!certain && k_.traits.jumps_stores) return store_where(touched, x, at.address);
    Value* address = certain ? at.address : ir_.CreateSelect(touched, at.address, k_.sink());
    ir_.CreateAlignedStore(x, address, align_);
    return;
  }
  Value* x = to_memory(k_, dtype_, splat(k_, value, lanes_));
  if (value.varying && reorders()) x = from_alternate(k_, x);
  // All lanes or none: where a masked store takes a dozen cycles, or goes lane by lane.
  const bool together = guard && !guard.varying && !scope_.mask() && !k_.traits.masks;
  if (at.kind == Layout::contiguous && together) return store_where(guard.v, x, at.address);
  Value* mask = vector_mask(guard);
  if (at.kind == Layout::contiguous) return store_vector(at.address, x, mask);
  if (at.kind == Layout::reversed)
    return store_vector(at.address, reverse(x), mask ? reverse(mask) : nullptr);
  Value* pointers = at.kind == Layout::uniform
                        ? splat(k_, {at.address, false}, lanes_)
                        : ir_.CreateGEP(element_, k_.buffer(buffer_), at.indices);
  if (!mask) mask = llvm::Constant::getAllOnesValue(k_.widen(ir_.getInt1Ty(), lanes_));
  ir_.CreateMaskedScatter(x, pointers, align_, mask);
}

}  // namespace

std::optional<Value*> vector_address(Scope& scope, int buffer, const Expr& index) {
  auto parts = index.linear_in_axis(scope.lane_axis());
  bool values = index.any_atom([](const Atom& a) { return a.kind == Atom::Kind::value; });
  if (values || !parts || !parts->first.is(1)) return std::nullopt;
  Value* address = IndexEmitter(nullptr, true).address(scope, buffer, index);
  scope.seek();
  return address;
}

LaneValue emit_load(Scope& scope, const atlas::Instr& i, LaneValue guard,
                    const std::vector<LaneValue>& values) {
  return Access(scope, i, values).load(i.expr, guard);
}

void emit_store(Scope& scope, const atlas::Instr& i, LaneValue value, LaneValue guard,
                const std::vector<LaneValue>& values) {
  Access(scope, i, values).store(i.expr, value, guard);
}

Value* from_memory(Function& k, DType type, Value* x) {
  if (type != DType::b8) return x;
  return k.ir.CreateICmpNE(x, llvm::Constant::getNullValue(x->getType()));
}

Value* to_memory(Function& k, DType type, Value* x) {
  if (type != DType::b8) return x;
  return k.ir.CreateZExt(x, x->getType()->getWithNewBitWidth(8));
}

}  // namespace hologram::codegen

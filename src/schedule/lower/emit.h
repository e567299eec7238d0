// schedule/lower/emit.h: expressions of the graph → bodies of Atlas programs.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "atlas/builder.h"
#include "schedule/cluster/index.h"
#include "schedule/lower/pieces.h"
#include "schedule/plan.h"

namespace hologram::schedule {

/// A program under construction and the plan's slot behind each of its buffers.
class ProgramBuilder {
 public:
  ProgramBuilder(const std::vector<Slot>& slots) : slots_(slots) {}

  /// The program's buffer number for a slot; repeated use widens the access.
  int buffer(int slot, atlas::Access access);
  /// A private buffer of `extent` elements.
  int scratch(DType dtype, const Expr& extent);
  /// Buffer number `from` becomes number `to`, of the same elements, and goes.
  void join(int from, int to);
  const Slot& slot(int s) const { return slots_[static_cast<size_t>(s)]; }

  atlas::Program program;
  std::vector<int> buffers;  ///< slots of the buffers that are not scratch

 private:
  const std::vector<Slot>& slots_;
  std::map<int, int> number_;
};

/// Writes one body: values of graph nodes at given coordinates.
class Emitter {
 public:
  /// What a node is in this body when it is not computed from its operands: an accumulator, a
  /// scratch value …
  using Local = std::function<std::optional<atlas::Val>(ir::Value, const Index&)>;

  Emitter(ProgramBuilder& kernel, atlas::Body& body, std::function<int(ir::Value)> slot_of,
          std::function<bool(ir::Value)> is_buffered, Local local)
      : kernel_(kernel),
        b_(body),
        slot_of_(std::move(slot_of)),
        is_buffered_(std::move(is_buffered)),
        local_(std::move(local)) {}

  /// The element of `v` at `index`, in v's dtype. Where `guard` is false nothing is read and the
  /// value is arbitrary.
  atlas::Val value(ir::Value v, const Index& index, atlas::Val guard = {});
  /// The element of v computed from its operands even if it has a buffer.
  atlas::Val compute(ir::Value v, const Index& index, atlas::Val guard = {});
  /// The element of a slot's buffer.
  atlas::Val read(int slot, const Index& index) { return load(slot, index, {}); }
  void store(int slot, const Index& index, atlas::Val value, atlas::Val guard = {});
  /// f16 and bf16 become f32; others stay.
  atlas::Val widen(atlas::Val v);
  /// Conversion between any two dtypes, by way of f32 for the half types.
  atlas::Val convert(atlas::Val v, DType to, ir::Op how = ir::Op::cast);
  /// A conjunction of "0 <= e < extent" where it is not already certain, joined to `guard`.
  atlas::Val within(const Expr& e, const Expr& extent, atlas::Val guard);
  /// The index of a take or scatter, from 0: one in [-extent, 0) counts from the end. 0 where
  /// `guard` is false.
  atlas::Val place(ir::Value indices, const Index& at, const Expr& extent, atlas::Val guard);
  /// A place as an expression; one outside [0, extent) sets the sticky error.
  Expr checked(atlas::Val place, const Expr& extent);

  atlas::BodyBuilder& builder() { return b_; }
  /// Where a buffered node also lies in another layout: that slot and the coordinates in it.
  std::function<std::optional<std::pair<int, Index>>(ir::Value, const Index&)> elsewhere;
  /// Called with every element-wise node computed at an index.
  std::function<void(ir::Value, const Index&, atlas::Val)> on_compute;

 private:
  atlas::Val elementwise(ir::Value v, const Index& index, atlas::Val guard);
  /// A product's element as a chain of multiply-adds.
  atlas::Val sum(ir::Value dot, const Index& index, atlas::Val guard);
  /// nextafter among the f16 or bf16 numbers, which are not f32's neighbours.
  atlas::Val next_half(atlas::Val x, atlas::Val y);
  atlas::Val load(int slot, const Index& index, atlas::Val guard);
  /// What a concatenation's parts are all cut from, and its coordinates there.
  std::optional<std::pair<ir::Value, Index>> one_operand(ir::Value concat,
                                                         const Index& index) const;
  /// input_index of the only operand of a movement node.
  Index moved(ir::Value v, const Index& index);

  struct Key {
    ir::Value node;
    atlas::ValueId guard;
    Index index;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& k) const;
  };

  ProgramBuilder& kernel_;
  atlas::BodyBuilder b_;
  std::function<int(ir::Value)> slot_of_;
  std::function<bool(ir::Value)> is_buffered_;
  Local local_;
  std::unordered_map<Key, atlas::Val, KeyHash> memo_;
  std::unordered_map<ir::Value, Reshaping> reshapes_;
};

}  // namespace hologram::schedule

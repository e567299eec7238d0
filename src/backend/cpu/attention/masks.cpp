// backend/cpu/attention/masks.cpp: masks and biases that lie along the keys, for lanes along
// queries.
//
// They are loaded in squares of as many queries and keys as a register has lanes and turned over
// there.
#include "backend/cpu/attention/emitter.h"
#include "codegen/memory.h"
#include "codegen/nest.h"
#include "codegen/transpose.h"

namespace hologram::cpu {

void AttentionEmitter::find_turned() {
  square_lanes_ = t_.lanes;
  for (size_t n = 0; n < a_.score.instrs.size(); ++n) {
    const atlas::Instr& i = a_.score.instrs[n];
    if (i.code != atlas::Code::load || i.args[0] != atlas::no_value) continue;
    const atlas::Buffer& b = k_.program.buffers[static_cast<size_t>(i.buffer)];
    auto along = i.expr.linear_in_axis(key_axis_);
    if (!along || !along->first.is(1) || b.access != atlas::Access::read ||
        i.expr.any_atom([](const Atom& a) { return a.kind == Atom::Kind::value; }))
      continue;
    auto across = along->second.linear_in_axis(query_axis_);
    if (!across || across->first.is(0) || across->first.is(1)) continue;
    Value* memory = k_.slot(k_.memory_type(b.dtype), "turned", int64_t{t_.lanes} * t_.panel);
    turned_.push_back({static_cast<atlas::ValueId>(n), b.dtype, memory});
  }
}

void AttentionEmitter::turn_over(Scope& scope, const Turned& turned, Value* query, Value* key,
                                 Value* keys) {
  const atlas::Instr& load = a_.score.instrs[turned.load];
  const int size = square_lanes_;
  llvm::Type* element = k_.memory_type(turned.dtype);
  scope.seek();
  // Rows behind the last query repeat it; nobody looks at them.
  Value* last = sub(rows_.count, k_.i64(1));
  Value* some = lane_mask(k_, keys, size);
  for (int first = 0; first < t_.lanes; first += size) {
    std::vector<Value*> rows;
    for (int r = 0; r < size; ++r) {
      scope.seek();
      Scope line(scope, false);
      line.set_axis(query_axis_, add(rows_.begin, least(add(query, first + r), last)));
      line.set_axis(key_axis_, add(block_.begin, key));
      line.set_lanes(key_axis_, size, some);
      rows.push_back(to_memory(k_, turned.dtype, emit_load(line, load, {}, {}).v));
      line.seek();
      scope.move_to(k_.ir.GetInsertBlock());
    }
    rows = transpose(k_, std::move(rows));
    for (int c = 0; c < size; ++c)
      k_.ir.CreateAlignedStore(
          rows[static_cast<size_t>(c)],
          k_.ir.CreateConstGEP1_64(element, turned.memory,
                                   static_cast<uint64_t>(c * t_.lanes + first)),
          llvm::Align(static_cast<uint64_t>(size_of(turned.dtype))));
  }
}

Value* AttentionEmitter::for_keys(
    Scope& scope, Value* offset, Value* initial,
    const std::function<Value*(Scope&, Value* key, Value* carried)>& each) {
  using Values = std::vector<Value*>;
  auto keys = [&](Scope& outer, Value* first, Value* end, Value* begin, bool turned) {
    return emit_loop(outer, first, end, k_.i64(1), true, {begin},
                     [&](Scope& s, Value* i, Values carried) -> Values {
                       if (turned) preset_turned(s, sub(i, first));
                       return {each(s, i, carried[0])};
                     })[0];
  };
  if (turned_.empty()) return keys(scope, k_.i64(0), block_.count, initial, false);
  const int size = square_lanes_;
  return emit_loop(scope, k_.i64(0), block_.count, k_.i64(size), true, {initial},
                   [&](Scope& s, Value* first, Values carried) -> Values {
                     s.seek();
                     Value* left = sub(block_.count, first);
                     for (const Turned& t : turned_) turn_over(s, t, offset, first, left);
                     s.seek();
                     Value* end = add(first, least(left, k_.i64(size)));
                     return {keys(s, first, end, carried[0], true)};
                   })[0];
}

void AttentionEmitter::preset_turned(Scope& scope, Value* key) {
  scope.seek();
  for (const Turned& t : turned_) {
    Value* p = k_.ir.CreateGEP(k_.memory_type(t.dtype), t.memory, mul(key, t_.lanes));
    Value* x = k_.ir.CreateAlignedLoad(k_.widen(k_.memory_type(t.dtype), t_.lanes), p,
                                       llvm::Align(static_cast<uint64_t>(size_of(t.dtype))));
    scope.preset(&a_.score, t.load, {from_memory(k_, t.dtype, x), true});
  }
}

}  // namespace hologram::cpu

// schedule/footprint.cpp: the memory that a plan takes, by a walk over it.
#include "schedule/footprint.h"

#include <unordered_set>

#include "atlas/walk.h"

namespace hologram::schedule {
namespace {

// Of a shared object beside itself: its two counts and table of functions.
constexpr size_t shared_bytes = 16;

class Footprint {
 public:
  size_t bytes = 0;

  void add(const Plan& plan) {
    bytes += sizeof(Plan);
    add_elements(plan.programs);
    add_elements(plan.fingerprints);
    add_elements(plan.steps);
    add_elements(plan.slots);
    add_elements(plan.cache);
    add_elements(plan.outputs);
    for (const atlas::Program& program : plan.programs) add(program);
    for (const Step& step : plan.steps) add(step);
    for (const Slot& slot : plan.slots) add(slot);
    for (const CacheEntry& entry : plan.cache) add_elements(entry.parameters);
    add(plan.arena_bytes);
    add(plan.eager_bytes);
  }

 private:
  template <class T>
  void add_elements(const std::vector<T>& v) {
    bytes += v.capacity() * sizeof(T);
  }
  void add(const std::string& s) {
    if (s.capacity() > std::string().capacity()) bytes += s.capacity() + 1;
  }
  void add(const std::vector<Expr>& expressions) {
    add_elements(expressions);
    for (const Expr& e : expressions) add(e);
  }

  void add(const Expr& e) {
    if (e.is_const() || !seen_.insert(e.terms().data()).second) return;
    bytes += shared_bytes + e.terms().size_bytes();
    for (const Term& term : e.terms()) {
      add_elements(term.atoms);
      for (const AtomRef& atom : term.atoms) add(*atom);
    }
  }
  void add(const Atom& atom) {
    if (!seen_.insert(&atom).second) return;
    bytes += shared_bytes + sizeof(Atom);
    for (const auto* operand : {&atom.a, &atom.b})
      if (*operand && seen_.insert(operand->get()).second) {
        bytes += shared_bytes + sizeof(Expr);
        add(**operand);
      }
  }

  void add(const atlas::Program& program) {
    add_elements(program.buffers);
    atlas::for_each_axis(program, [&](const atlas::Axis& axis) { bytes += sizeof axis; });
    atlas::for_each_stage(program, [&](const atlas::Stage& stage) {
      bytes += sizeof stage;
      add_elements(stage.reductions);
      add_elements(stage.running);
    });
    atlas::for_each_body(program, [&](const atlas::Body& body) { add_elements(body.instrs); });
    atlas::for_each_instr(program, [&](const atlas::Instr& instr) { add_elements(instr.table); });
    atlas::for_each_expr(program, [&](const Expr& e) { add(e); });
  }

  void add(const Step& step) {
    for (const auto* numbers : {&step.buffers, &step.arguments, &step.results, &step.after})
      add_elements(*numbers);
    add_elements(step.nodes);
    add(step.symbols);
    add(step.sizes);
    add(step.name);
  }
  void add(const Slot& slot) {
    add(slot.shape);
    add(slot.strides);
    add(slot.bytes);
    add(slot.offset);
    add(slot.name);
  }

  std::unordered_set<const void*> seen_;
};

}  // namespace

size_t footprint(const Plan& plan) {
  Footprint walk;
  walk.add(plan);
  return walk.bytes;
}

}  // namespace hologram::schedule

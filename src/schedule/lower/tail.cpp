// schedule/lower/tail.cpp: what follows a product's rows, in its kernel.
#include <algorithm>

#include "schedule/lower/context.h"

namespace hologram::schedule {

using atlas::Access;
using atlas::Code;
using atlas::Instr;
using ir::Value;

namespace {

// The tail as a cluster of its own.
Cluster tail_of(const Cluster& product) {
  Cluster loop;
  loop.axes.assign(product.axes.begin(), product.axes.end() - 1);
  loop.axes.back().row = true;
  loop.members = product.tail;
  return loop;
}

// Whether the tail writes buffer `out` once, element by element where the epilogue stores buffer
// `kept`, which nothing reads from there on.
bool takes_place_of(atlas::Program& p, int out, int kept) {
  const atlas::Buffer &to = p.buffers[static_cast<size_t>(out)],
                      &from = p.buffers[static_cast<size_t>(kept)];
  if (to.access != Access::write || to.dtype != from.dtype) return false;
  const Instr* stored = nullptr;
  for (const Instr& i : p.product.epilogue.instrs) {
    if (i.code != Code::store) continue;
    if (i.buffer == out) return false;
    if (i.buffer == kept) stored = &i;
  }
  bool written = false;
  for (const atlas::Stage& s : p.loop.stages)
    for (const Instr& i : s.body.instrs) {
      if (i.code == Code::store && i.buffer == out) {
        if (written || s.kind != atlas::StageKind::row || i.args[1] != atlas::no_value ||
            !(i.expr == stored->expr))
          return false;
        written = true;
      }
      if (i.code == Code::load && i.buffer == kept && written) return false;
    }
  return written;
}

}  // namespace

// Slots for what the epilogue makes for the tail alone.
void Lowering::keep_for_tail() {
  clustering_.for_each_access(tail_of(c_), [&](Value v, const Index&) {
    bool made = std::ranges::any_of(c_.members, [&](const Member& m) { return m.node == v; });
    if (made && storage_.stores_of(v).empty() && !kept_.count(v))
      kept_[v] = storage_.temporary(v->dtype, v->shape, std::string(ir::name_of(v->op)));
  });
}

void Lowering::tail(Kernel& k) {
  Storage storage = storage_;
  storage.slot_of = [this](Value v) {
    auto it = kept_.find(v);
    return it == kept_.end() ? storage_.slot_of(v) : it->second;
  };
  lower_tail(tail_of(c_), clustering_, storage, k);
  // What is kept lies where the tail's result goes, if it can.
  for (const auto& [node, slot] : kept_) {
    int kept = k.buffer(slot, Access::read_write);
    for (int out = 0; out < static_cast<int>(k.program.buffers.size()); ++out) {
      if (out == kept || !takes_place_of(k.program, out, kept)) continue;
      k.join(kept, out);
      break;
    }
  }
}

}  // namespace hologram::schedule

// schedule/lower/tail.cpp: what follows a product's rows, in its kernel.
#include "schedule/lower/tail.h"

#include <algorithm>

#include "schedule/lower/loop.h"

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
  for (const Instr& i : p.product().epilogue.instrs) {
    if (i.code != Code::store) continue;
    if (i.buffer == out) return false;
    if (i.buffer == kept) stored = &i;
  }
  bool written = false;
  for (const atlas::Stage& s : p.product().tail.stages)
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

std::map<Value, int> slots_for_tail(const Context& cx) {
  std::map<Value, int> kept;
  if (cx.cluster.tail.empty()) return kept;
  cx.clustering.for_each_access(tail_of(cx.cluster), [&](Value v, const Index&) {
    bool made =
        std::ranges::any_of(cx.cluster.members, [&](const Member& m) { return m.node == v; });
    if (made && cx.storage.stores_of(v).empty() && !kept.count(v))
      kept[v] = cx.storage.temporary(v->dtype, v->shape, std::string(ir::name_of(v->op)));
  });
  return kept;
}

void lower_tail(const Context& cx, ProgramBuilder& k, const std::map<Value, int>& kept) {
  Storage storage = cx.storage;
  storage.slot_of = [&](Value v) {
    auto it = kept.find(v);
    return it == kept.end() ? cx.storage.slot_of(v) : it->second;
  };
  lower_tail_loop(tail_of(cx.cluster), cx.clustering, storage, *cx.options.machine, k);
  // What is kept lies where the tail's result goes, if it can.
  for (const auto& [node, slot] : kept) {
    int from = k.buffer(slot, Access::read_write);
    for (int out = 0; out < static_cast<int>(k.program.buffers.size()); ++out) {
      if (out == from || !takes_place_of(k.program, out, from)) continue;
      k.join(from, out);
      break;
    }
  }
}

}  // namespace hologram::schedule

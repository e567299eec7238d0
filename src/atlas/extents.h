// atlas/extents.h: the ranges of axes and values while expressions are read.
#pragma once

#include "atlas/program.h"

namespace hologram::atlas {

/// Extent of axis i<id> or of value v<id>, or nullptr where it may not stand. `in_extent`: the
/// expression is itself the extent of an axis. Extents nest no deeper than that, which keeps proofs
/// about hostile text short.
inline const Expr* extent_in_scope(Atom::Kind kind, int id, const std::vector<Axis>* axes,
                                   bool in_extent, const Body* body) {
  auto k = static_cast<size_t>(id);
  if (kind == Atom::Kind::axis && axes && k < axes->size()) {
    const Expr& e = (*axes)[k].extent;
    return in_extent && e.has_axes() ? nullptr : &e;
  }
  if (kind == Atom::Kind::value && body && k < body->instrs.size() &&
      body->instrs[k].code == Code::clamp_index) {
    const Expr& e = body->instrs[k].expr;
    bool plain = !e.any_atom(
        [](const Atom& a) { return a.kind == Atom::Kind::axis || a.kind == Atom::Kind::value; });
    return plain ? &e : nullptr;
  }
  return nullptr;
}

}  // namespace hologram::atlas

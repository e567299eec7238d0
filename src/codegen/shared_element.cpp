// codegen/shared_element.cpp: indices of which neighbouring lanes share an element.
#include "codegen/shared_element.h"

namespace hologram::codegen {

std::optional<SharedElement> shared_element(const Expr& index, int lane_axis) {
  SharedElement out{0, 0, Expr(index.constant())};
  for (const Term& t : index.terms()) {
    Expr term = Expr::from_terms(0, {t});
    if (term.any_atom([](const Atom& a) { return a.kind == Atom::Kind::value; })) return {};
    if (!term.has_axis(lane_axis)) {
      out.rest += term;
      continue;
    }
    const Atom& a = *t.atoms[0];
    if (t.atoms.size() != 1 || a.kind != Atom::Kind::floor_div || out.step != 0) return {};
    const Atom* x = a.a->as_atom();
    if (!x || x->kind != Atom::Kind::axis || !a.b->is_const() || t.coefficient < 1) return {};
    out.step = t.coefficient;
    out.group = a.b->constant_value();
  }
  if (out.step == 0 || out.group < 2) return {};
  for (const Term& t : out.rest.terms())
    if (t.coefficient % out.step != 0) return {};
  return out;
}

}  // namespace hologram::codegen

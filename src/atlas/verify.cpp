// atlas/verify.cpp: the verifier of block programs.
#include "atlas/verifier.h"

#include <algorithm>
#include <optional>

#include "atlas/limits.h"
#include "atlas/walk.h"

namespace hologram::atlas {

void Verifier::run() {
  require(p_.num_symbols >= 0 && p_.num_symbols <= limits::symbols,
          "program: {} symbols; expected 0 to {}", p_.num_symbols, limits::symbols);
  require(p_.buffers.size() <= limits::buffers, "program: {} buffers; expected at most {}",
          p_.buffers.size(), limits::buffers);
  for (size_t k = 0; k < p_.buffers.size(); ++k) buffer(k);
  std::visit([&](const auto& b) { block(b); }, p_.block);
  // What stands in for nothing, the body of a packed operand say, was not visited.
  for_each_expr(p_, [&](const Expr& e) { symbols(e, "program"); });
}

void Verifier::buffer(size_t k) {
  const Buffer& b = p_.buffers[k];
  require(known(b.dtype), "buffer b{}: no element type of Atlas", k);
  require(b.access <= Access::scratch, "buffer b{}: unknown access", k);
  std::string place = fmt::format("buffer b{}", k);
  expression(b.extent, {}, place, nullptr, 0);
  require(!(b.extent.is_const() && b.extent.constant_value() < 0), "{}: extent {} is negative",
          place, b.extent);
}

void Verifier::axes(const std::vector<Axis>& list, int parallel) {
  require(list.size() <= limits::axes, "{} axes; expected at most {}", list.size(), limits::axes);
  for (size_t k = 0; k < list.size(); ++k) {
    std::string place = fmt::format("axis i{}", k);
    const Expr& e = list[k].extent;
    std::vector<bool> visible(list.size(), false);
    bool row = static_cast<int>(k) >= parallel;
    if (row) std::fill_n(visible.begin(), std::max(0, parallel), true);
    expression(e, visible, place, nullptr, 0);
    require(!(e.is_const() && e.constant_value() < 0), "{}: extent {} is negative", place, e);
  }
  // Extents with the ranges that hold here, whatever the atoms claim.
  grounded_.clear();
  for (const Axis& a : list) grounded_.push_back(ground(a.extent, nullptr));
}

void Verifier::symbols(const Expr& e, const std::string& place) {
  e.any_atom([&](const Atom& a) {
    require(a.kind != Atom::Kind::bounded, "{}: {} stands for another expression", place, e);
    require(a.kind != Atom::Kind::symbol || (a.id >= 0 && a.id < p_.num_symbols),
            "{}: unknown symbol s{}", place, a.id);
    return false;
  });
}

// Symbols, axes and values of an expression exist and are visible.
void Verifier::expression(const Expr& e, const std::vector<bool>& visible, const std::string& place,
                          const Body* body, size_t position) {
  symbols(e, place);
  e.any_atom([&](const Atom& a) {
    using K = Atom::Kind;
    if (a.kind == K::axis)
      require(a.id >= 0 && static_cast<size_t>(a.id) < visible.size() &&
                  visible[static_cast<size_t>(a.id)],
              "{}: axis i{} is not visible here", place, a.id);
    if (a.kind == K::value)
      require(body && a.id >= 0 && static_cast<size_t>(a.id) < position &&
                  body->instrs[static_cast<size_t>(a.id)].code == Code::clamp_index,
              "{}: v{} is not an earlier clamp_index", place, a.id);
    return false;
  });
}

// `e` with the extents that axes and values really have.
Expr Verifier::ground(const Expr& e, const Body* body) {
  if (e.is_const()) return e;
  return e.substitute([&](const Atom& a) -> std::optional<Expr> {
    auto id = static_cast<size_t>(a.id);
    if (a.kind == Atom::Kind::axis && id < grounded_.size()) return Expr::axis(a.id, grounded_[id]);
    if (a.kind == Atom::Kind::value && body)
      return Expr::value(a.id, ground(body->instrs[id].expr, body));
    return std::nullopt;
  });
}

template <class B>
void Verifier::block(const B& b) {
  if constexpr (requires { b.stages; }) {
    verify_block(b, *this);
  } else {
    for (const Field<B>& f : Form<B>::fields)
      with_value(f, b, [&](const auto& value) {
        if constexpr (std::is_same_v<decltype(value), const DType&>)
          require(known(value), "{}: unknown type", Form<B>::name);
      });
    auto own = static_cast<size_t>(Form<B>::own_axes(b));
    require(b.batch_rank >= 0 && b.axes.size() == static_cast<size_t>(b.batch_rank) + own,
            "{}: {} axes with {} of a batch; expected {} beside those", Form<B>::name,
            b.axes.size(), b.batch_rank, own);
    axes(b.axes, 0);
    for (const Axis& a : b.axes)
      require(!a.extent.has_axes(), "{}: an extent that depends on another axis", Form<B>::name);
    verify_block(b, *this);
    for (const BodyField<B>& row : Form<B>::bodies)
      if (!row.when || b.*row.when) block_body(b, row);
    if constexpr (requires { b.tail; })
      if (!b.tail.stages.empty()) verify_tail(b, *this);
  }
}

template <class B>
void Verifier::block_body(const B& b, const BodyField<B>& row) {
  BodyRole role = row.role(b);
  if (role.unread) return;
  BodyScope s{.name = std::string(row.name),
              .axes = std::vector<bool>(b.axes.size(), false),
              .accumulators = role.accumulators,
              .may_store = !role.value};
  std::fill_n(s.axes.begin(), b.batch_rank, true);
  for (int k : role.axes) s.axes[static_cast<size_t>(b.batch_rank + k)] = true;
  const Body& x = b.*row.body;
  body(x, s);
  if (!role.value || (role.optional && x.instrs.empty())) return;
  require(!x.instrs.empty(), "{}: no value", s.name);
  DType found = result_type(x.instrs.back());
  require(found == *role.value, "{}: ends with {}; expected {}", s.name, name_of(found),
          name_of(*role.value));
}

void verify(const Program& program) { Verifier(program).run(); }

}  // namespace hologram::atlas

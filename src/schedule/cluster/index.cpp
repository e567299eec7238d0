// schedule/cluster/index.cpp: index arithmetic through movement operations.
#include "schedule/cluster/index.h"

#include <algorithm>

namespace hologram::schedule {
namespace {

// Row-major position of index[first, last) in shape[first, last).
Expr linear(const Shape& shape, const Index& index, size_t first, size_t last) {
  Expr n(0);
  for (size_t i = first; i < last; ++i) n = n * shape[i] + index[i];
  return n;
}

// Coordinates of row-major position n in shape[first, last), written to out.
void delinearize(const Shape& shape, size_t first, size_t last, Expr n, Index& out) {
  Expr inner(1);
  std::vector<Expr> strides(last - first);
  for (size_t i = last; i-- > first;) {
    strides[i - first] = inner;
    inner *= shape[i];
  }
  for (size_t i = first; i < last; ++i) {
    Expr q = floor_div(n, strides[i - first]);
    out[i] = i == first ? q : mod(q, shape[i]);
  }
}

// Calls f(i, i1, j, j1) for the groups [i, i1) of `to` and [j, j1) of `from` that hold the same
// elements.
template <class F>
void for_each_group(const Shape& from, const Shape& to, const F& f) {
  size_t i = 0, j = 0;
  while (i < to.size() || j < from.size()) {
    size_t i1 = i, j1 = j;
    Expr a(1), b(1);
    if (i1 < to.size()) a = to[i1++];
    if (j1 < from.size()) b = from[j1++];
    while (!(a == b)) {
      bool a_smaller = b.exact_div(a).has_value() && i1 < to.size();
      bool b_smaller = a.exact_div(b).has_value() && j1 < from.size();
      if (a_smaller && !(b_smaller && a.is(1) && b.is(1)))
        a *= to[i1++];
      else if (b_smaller)
        b *= from[j1++];
      else if (i1 < to.size() ||
               j1 < from.size()) {  // no common factor: take everything that is left
        while (i1 < to.size()) a *= to[i1++];
        while (j1 < from.size()) b *= from[j1++];
        break;
      } else
        break;
    }
    f(i, i1, j, j1);
    i = i1;
    j = j1;
  }
}

// Writes the coordinates [in_from.first, in_from.second) of `from` to out.
void through_group(const Shape& from, const Shape& to, std::pair<size_t, size_t> in_to,
                   std::pair<size_t, size_t> in_from, const Index& index, Index& out) {
  const auto [i, i1] = in_to;
  const auto [j, j1] = in_from;
  if (i1 - i == 1 && j1 - j == 1) {
    out[j] = index[i];
  } else if (j1 > j) {
    delinearize(from, j, j1, linear(to, index, i, i1), out);
  }
}

}  // namespace

Index substitute(const Index& index, const AxisMap& map) {
  Index out;
  for (const Expr& e : index)
    out.push_back(e.substitute([&](const Atom& a) -> std::optional<Expr> {
      if (a.kind != Atom::Kind::axis) return std::nullopt;
      auto it = map.find(a.id);
      return it == map.end() ? std::nullopt : std::optional(it->second);
    }));
  return out;
}

Index through_reshape(const Shape& from, const Shape& to, const Index& index) {
  Index out(from.size());
  for_each_group(from, to, [&](size_t i, size_t i1, size_t j, size_t j1) {
    through_group(from, to, {i, i1}, {j, j1}, index, out);
  });
  return out;
}

Reshaping::Reshaping(const Shape& from, const Shape& to) : from_(from), to_(to) {
  for_each_group(from, to, [&](size_t i, size_t i1, size_t j, size_t j1) {
    groups_.push_back({i, i1, j, j1, {}});
  });
}

Index Reshaping::operator()(const Index& index) {
  Index out(from_.size());
  for (Group& g : groups_) {
    const auto at = [](auto& x, size_t i) { return x.begin() + static_cast<ptrdiff_t>(i); };
    if (g.to_end - g.to_begin == 1 && g.from_end - g.from_begin == 1) {
      out[g.from_begin] = index[g.to_begin];
      continue;
    }
    auto [entry, fresh] =
        g.known.try_emplace(Index(at(index, g.to_begin), at(index, g.to_end)));
    if (fresh) {
      through_group(from_, to_, {g.to_begin, g.to_end}, {g.from_begin, g.from_end}, index, out);
      entry->second.assign(at(out, g.from_begin), at(out, g.from_end));
    } else {
      std::ranges::copy(entry->second, at(out, g.from_begin));
    }
  }
  return out;
}

Expr concat_start(ir::Value node, size_t input) {
  auto axis = static_cast<size_t>(node->attrs.ints[0]);
  Expr start(0);
  for (size_t k = 0; k < input; ++k) start += node->input(k)->shape[axis];
  return start;
}

Index input_index(ir::Value node, size_t input, const Index& index) {
  using ir::Op;
  const auto& ints = node->attrs.ints;
  const auto& exprs = node->attrs.exprs;
  Index out = index;
  switch (node->op) {
    case Op::reshape:
      return through_reshape(node->input()->shape, node->shape, index);
    case Op::permute:
      for (size_t i = 0; i < ints.size(); ++i) out[static_cast<size_t>(ints[i])] = index[i];
      return out;
    case Op::expand:
      for (size_t i = 0; i < out.size(); ++i)
        if (node->input()->shape[i].is(1)) out[i] = Expr(0);
      return out;
    case Op::slice:
      for (size_t i = 0; i < out.size(); ++i) out[i] = exprs[i] + Expr(ints[i]) * index[i];
      return out;
    case Op::flip:
      for (int64_t a : ints) {
        auto i = static_cast<size_t>(a);
        out[i] = node->shape[i] - Expr(1) - index[i];
      }
      return out;
    case Op::pad:
      for (size_t i = 0; i < out.size(); ++i) out[i] = index[i] - exprs[i];
      return out;
    case Op::window: {
      auto axis = static_cast<size_t>(ints[0]);
      out.pop_back();
      out[axis] = Expr(ints[1]) * index[axis] + Expr(ints[2]) * index.back();
      return out;
    }
    case Op::concat: {
      auto axis = static_cast<size_t>(ints[0]);
      out[axis] = index[axis] - concat_start(node, input);
      return out;
    }
    default:
      check(ir::is_elementwise(node->op), "input_index: not an index map");
      return out;
  }
}

std::pair<Index, Index> factors_of(ir::Value dot, const Index& index, int64_t k) {
  const auto matrix = static_cast<ptrdiff_t>(dot->rank()) - 2;
  Index left(index.begin(), index.begin() + matrix), right = left;
  left.insert(left.end(), {index[static_cast<size_t>(matrix)], Expr(k)});
  right.insert(right.end(), {Expr(k), index.back()});
  return {std::move(left), std::move(right)};
}

namespace {

// What d * q + m is, if they are a quotient and a remainder by one divisor d: of a number, of its
// remainder by a multiple of d, or of its quotient by another number (which q has divided at once).
std::optional<Expr> joined(const Atom& q, const Atom& m) {
  if (q.kind != Atom::Kind::floor_div) return std::nullopt;
  if (*q.b == *m.b) {
    const Atom* of = q.a->as_atom();
    if (*q.a == *m.a || (of && of->kind == Atom::Kind::mod && *of->a == *m.a && of->b->is_const() &&
                         of->b->exact_div(*m.b)))
      return *q.a;
  }
  const Atom* of = m.a->as_atom();
  if (of && of->kind == Atom::Kind::floor_div && *of->a == *q.a && *of->b * *m.b == *q.b)
    return *m.a;
  return std::nullopt;
}

// c * d * (a / d) + c * (a % d) becomes c * a.
Expr join_quotients(Expr e) {
  for (const Term& rest : e.terms()) {
    if (rest.atoms.size() != 1 || rest.atoms[0]->kind != Atom::Kind::mod) continue;
    const Atom& m = *rest.atoms[0];
    if (!m.b->is_const()) continue;
    for (const Term& whole : e.terms()) {
      if (whole.atoms.size() != 1 || whole.coefficient % m.b->constant_value() != 0 ||
          whole.coefficient / m.b->constant_value() != rest.coefficient)
        continue;
      if (const auto sum = joined(*whole.atoms[0], m))
        return join_quotients(e - Expr::from_terms(0, {whole}) - Expr::from_terms(0, {rest}) +
                              *sum * Expr(rest.coefficient));
    }
  }
  return e;
}

}  // namespace

Expr offset_of(const Index& index, const Shape& strides) {
  Expr n(0);
  for (size_t i = 0; i < index.size(); ++i) n += index[i] * strides[i];
  return join_quotients(std::move(n));
}

const Atom* single_axis(const Expr& e) {
  const Atom* a = e.as_atom();
  return a && a->kind == Atom::Kind::axis ? a : nullptr;
}

namespace {

struct Part {
  const Atom* axis;
  Expr radix;
};

// The axes of a mixed-radix sum from the least significant up.
std::optional<std::vector<Part>> mixed_radix(const Expr& e) {
  std::vector<Part> parts;
  if (e.constant() != 0) return std::nullopt;
  for (const Term& t : e.terms()) {
    const Atom* axis = nullptr;
    Expr radix(t.coefficient);
    for (const AtomRef& a : t.atoms) {
      if (a->kind == Atom::Kind::axis && !axis)
        axis = a.get();
      else if (a->kind == Atom::Kind::symbol)
        radix *= Expr::symbol(a->id);
      else
        return std::nullopt;
    }
    if (!axis) return std::nullopt;
    parts.push_back({axis, radix});
  }
  std::vector<Part> sorted;
  Expr next(1);
  while (!parts.empty()) {
    auto it =
        std::find_if(parts.begin(), parts.end(), [&](const Part& p) { return p.radix == next; });
    if (it == parts.end()) return std::nullopt;
    next = it->radix * *it->axis->a;
    sorted.push_back(*it);
    parts.erase(it);
  }
  return sorted;
}

}  // namespace

std::optional<std::vector<std::pair<int, Expr>>> invert(const Index& coordinates,
                                                        const Index& values, const Shape& shape) {
  std::vector<std::pair<int, Expr>> out;
  for (size_t i = 0; i < coordinates.size(); ++i) {
    if (coordinates[i].is(0) && shape[i].is(1)) continue;
    auto parts = mixed_radix(coordinates[i]);
    if (!parts || parts->empty()) return std::nullopt;
    Expr whole(1);
    for (size_t k = 0; k < parts->size(); ++k) {
      const Part& p = (*parts)[k];
      Expr v = floor_div(values[i], p.radix);
      out.emplace_back(p.axis->id, k + 1 < parts->size() ? mod(v, *p.axis->a) : v);
      whole = p.radix * *p.axis->a;
    }
    if (!(whole == shape[i])) return std::nullopt;
  }
  for (size_t i = 0; i < out.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (out[i].first == out[j].first) return std::nullopt;
  return out;
}

}  // namespace hologram::schedule

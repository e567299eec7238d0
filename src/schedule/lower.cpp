// schedule/lower.cpp: clusters → Atlas programs: products, attention, scatter, scans.
#include "schedule/lower.h"

#include <algorithm>
#include <bit>
#include <map>
#include <ranges>

#include "schedule/lower_loop.h"
#include "schedule/lower_window.h"

namespace hologram::schedule {

using atlas::Access;
using atlas::AxisKind;
using atlas::Val;
using ir::Op;
using ir::Value;

namespace {

// The parameters an expression is computed from, or nullopt when one of them is not static or a
// buffer is read.
std::optional<std::vector<int>> static_sources(const Clustering& clustering, const Options& options,
                                               Value v) {
  std::vector<int> out;
  bool ok = true;
  auto visit = [&](Value leaf, const Index&) {
    if (leaf->is(Op::parameter) && options.is_static(static_cast<int>(leaf->attrs.ints[0])))
      out.push_back(static_cast<int>(leaf->attrs.ints[0]));
    else
      ok = false;
  };
  if (v->is(Op::parameter) || clustering.is_root(v)) {
    visit(v, {});
  } else {
    Index any(v->shape.size());
    for (size_t i = 0; i < any.size(); ++i) any[i] = Expr::axis(static_cast<int>(i), v->shape[i]);
    clustering.walk(v, any, visit, [](Value) { return false; });
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  if (!ok || out.empty()) return std::nullopt;
  return out;
}

class Lowering {
 public:
  Lowering(const Cluster& cluster, const Clustering& clustering, const Options& options,
           Storage& storage)
      : c_(cluster), clustering_(clustering), options_(options), storage_(storage) {}

  std::vector<Lowered> product();
  std::vector<Lowered> depthwise();
  std::vector<Lowered> attention();
  std::vector<Lowered> scatter();
  std::vector<Lowered> scan();

 private:
  Emitter emitter(Kernel& k, atlas::Body& body, Emitter::Local local = {}) {
    if (!local) local = [](Value, const Index&) { return std::optional<Val>(); };
    return Emitter(
        k, body, storage_.slot_of,
        [this](Value v) {
          return v->is(Op::parameter) ||
                 (clustering_.is_root(v) && (v == c_.anchor || !c_.find(v)));
        },
        std::move(local));
  }

  // The cluster's axes, renumbered by position, as a substitution for its members' indices.
  Index placed(const Index& index, const std::vector<ClusterAxis>& order) const {
    Index out;
    for (const Expr& e : index)
      out.push_back(e.substitute([&](const Atom& a) -> std::optional<Expr> {
        if (a.kind != Atom::Kind::axis) return std::nullopt;
        for (size_t i = 0; i < order.size(); ++i)
          if (order[i].id == a.id) return Expr::axis(static_cast<int>(i), order[i].extent);
        return std::nullopt;
      }));
    return out;
  }

  void epilogue(Kernel& k, atlas::Body& body, DType acc_type,
                const std::vector<ClusterAxis>& order);
  void end_with(atlas::Body& body, Val v);
  Lowered pack_rhs(Value rhs, const Shape& batch, int width, int group, int& slot);
  bool keep_narrow(Value rhs, bool few_rows, std::vector<Lowered>& out);
  Lowered relay(Value leaf, size_t axis);
  Lowered pack_winograd(Value rhs, int width, int& slot);
  Lowered pack_terms(Value rhs, const Shape& batch, int width, int terms, int& slot);
  Lowered finish(Kernel& k, std::string name) {
    return {std::move(k.program), std::move(k.buffers), std::move(name), -1};
  }

  const Cluster& c_;
  const Clustering& clustering_;
  const Options& options_;
  Storage& storage_;
  // Weights in blocks of columns: the slot, and which of the weight's axes runs along the columns.
  struct Blocks {
    int slot;
    size_t axis;
  };
  std::map<Value, Blocks> blocks_;
};

// Bodies of operands end with their value.
void Lowering::end_with(atlas::Body& body, Val v) {
  if (v.id + 1 == body.instrs.size()) return;
  atlas::Instr copy;
  copy.code = atlas::Code::arithmetic;
  copy.op = Op::bitcast;
  copy.type = copy.from = v.type;
  copy.args[0] = v.id;
  body.add(copy);
}

// The members of a product's or attention's cluster, computed from the accumulated element and
// stored.
void Lowering::epilogue(Kernel& k, atlas::Body& body, DType acc_type,
                        const std::vector<ClusterAxis>& order) {
  Emitter* self = nullptr;
  Emitter e = emitter(k, body, [&](Value v, const Index&) -> std::optional<Val> {
    if (v != c_.anchor) return std::nullopt;
    return self->convert(self->builder().accumulator(0, acc_type), v->dtype);
  });
  self = &e;
  for (const Member& m : c_.members)
    for (int slot : storage_.stores_of(m.node)) {
      Index at = placed(m.index, order);
      e.store(slot, at, e.value(m.node, at));
    }
}

Lowered Lowering::pack_rhs(Value rhs, const Shape& batch, int width, int group, int& slot) {
  size_t b = batch.size();
  Expr n = rhs->shape.back(), depth = rhs->shape[rhs->shape.size() - 2];
  Shape shape = batch;
  shape.insert(shape.end(), {ceil_div(n, Expr(width)), ceil_div(depth, group), Expr(width)});
  if (group > 1) shape.push_back(Expr(group));
  slot = storage_.temporary(rhs->dtype, shape, "pack");
  Kernel k(storage_.slots);
  atlas::LoopBlock& loop = k.program.loop;
  Index store_at, read_at;
  for (size_t i = 0; i < shape.size(); ++i) {
    loop.axes.push_back({AxisKind::parallel, shape[i]});
    store_at.push_back(Expr::axis(static_cast<int>(i), shape[i]));
  }
  loop.parallel_rank = static_cast<int>(shape.size());
  read_at.assign(store_at.begin(), store_at.begin() + static_cast<ptrdiff_t>(b));
  Expr column = store_at[b] * Expr(width) + store_at[b + 2];
  Expr row = store_at[b + 1];
  if (group > 1) row = row * Expr(group) + Expr(group - 1) - store_at[b + 3];
  read_at.insert(read_at.end(), {row, column});
  atlas::Stage stage{atlas::StageKind::point, {}, {}, {}};
  Emitter e = emitter(k, stage.body);
  Val guard = e.within(column, n, {});
  if (group > 1) guard = e.within(row, depth, guard);
  Val v = e.value(rhs, read_at, guard);
  if (guard.id != atlas::no_value)
    v = e.builder().select(guard, v, e.builder().constant(v.type, 0));
  e.store(slot, store_at, v);
  loop.stages.push_back(std::move(stage));
  simplify_axes(loop);
  return finish(k, "pack");
}

// Columns that lie side by side in the blocks of a weight kept as it is.
constexpr int64_t block_columns = 64;

// Copies a weight so that blocks of columns, which run along its axis `axis`, are densest.
Lowered Lowering::relay(Value leaf, size_t axis) {
  Shape shape{ceil_div(leaf->shape[axis], Expr(block_columns))};
  for (size_t i = 0; i < leaf->shape.size(); ++i)
    if (i != axis) shape.push_back(leaf->shape[i]);
  shape.push_back(Expr(block_columns));
  int slot = storage_.temporary(leaf->dtype, shape, "blocks");
  Kernel k(storage_.slots);
  atlas::LoopBlock& loop = k.program.loop;
  Index to;
  for (size_t i = 0; i < shape.size(); ++i) {
    loop.axes.push_back({AxisKind::parallel, shape[i]});
    to.push_back(Expr::axis(static_cast<int>(i), shape[i]));
  }
  loop.parallel_rank = static_cast<int>(shape.size());
  Index from(to.begin() + 1, to.end() - 1);
  Expr column = to.front() * Expr(block_columns) + to.back();
  from.insert(from.begin() + static_cast<ptrdiff_t>(axis), column);
  atlas::Stage stage{atlas::StageKind::point, {}, {}, {}};
  Emitter e = emitter(k, stage.body);
  Val guard = e.within(column, leaf->shape[axis], {});
  Val v = e.value(leaf, from, guard);
  if (guard.id != atlas::no_value)
    v = e.builder().select(guard, v, e.builder().constant(v.type, 0));
  e.store(slot, to, v);
  loop.stages.push_back(std::move(stage));
  simplify_axes(loop);
  Lowered made = finish(k, "blocks");
  made.cached = storage_.cache(slot, {static_cast<int>(leaf->attrs.ints[0])});
  blocks_[leaf] = {slot, axis};
  return made;
}

// Whether the product reads the weights that its right operand is computed from (quantised ones,
// their scales) instead of panels of the result: they take at most half of the memory. What does
// not run along columns is copied so that it does.
bool Lowering::keep_narrow(Value rhs, bool few_rows, std::vector<Lowered>& out) {
  size_t rank = rhs->shape.size();
  Index at;
  for (const Expr& d : rhs->shape) {
    if (!d.is_const()) return false;
    at.push_back(Expr::axis(static_cast<int>(at.size()), d));
  }
  std::map<Value, std::vector<Index>> uses;
  clustering_.walk(
      rhs, at, [&](Value leaf, const Index& index) { uses[leaf].push_back(index); },
      [](Value) { return false; });
  int64_t bytes = 0;
  Value largest = nullptr;
  auto bytes_of = [](Value v) { return numel(v->shape).constant_value() * size_of(v->dtype); };
  for (auto& [leaf, index] : uses) {
    if (!numel(leaf->shape).is_const()) return false;
    bytes += bytes_of(leaf);
    if (!largest || bytes_of(leaf) > bytes_of(largest)) largest = leaf;
  }
  bool fits = largest && bytes * 2 <= numel(rhs->shape).constant_value() * size_of(rhs->dtype);
  if (!fits || largest == rhs || !(is_int(largest->dtype) || few_rows)) return false;

  int column = static_cast<int>(rank) - 1;
  auto is_column = [&](const Expr& e) {
    const Atom* a = single_axis(e);
    return a && a->id == column;
  };
  // The axis of a weight that is the column in every use.
  auto column_axis = [&](const std::vector<Index>& indices) -> std::optional<size_t> {
    std::optional<size_t> found;
    for (const Index& index : indices)
      for (size_t i = 0; i < index.size(); ++i) {
        if (!index[i].has_axis(column)) continue;
        if (!is_column(index[i]) || (found && *found != i)) return std::nullopt;
        found = i;
      }
    return found;
  };
  // Whether 16 columns lie side by side in memory already (some of them are tried).
  auto in_order = [&](Value leaf, const std::vector<Index>& indices) {
    const Shape& strides = storage_.slots[static_cast<size_t>(storage_.slot_of(leaf))].strides;
    std::vector<int64_t> axes(rank, 0);
    for (const Index& index : indices) {
      Expr offset = offset_of(index, strides);
      int64_t columns = std::min<int64_t>(rhs->shape.back().constant_value() / 16 * 16, 256);
      for (int64_t n = 0; n < columns; ++n) {
        auto value = [&](int64_t c) {
          axes.back() = c;
          return offset.eval({}, axes);
        };
        if (n % 16 && value(n) != value(n - 1) + 1) return false;
      }
    }
    return true;
  };
  std::vector<std::pair<Value, size_t>> copies;
  for (auto& [leaf, indices] : uses) {
    bool depends = std::ranges::any_of(indices, [&](const Index& index) {
      return std::ranges::any_of(index, [&](const Expr& e) { return e.has_axis(column); });
    });
    if (!depends) continue;
    auto axis = column_axis(indices);
    if (axis && (leaf == largest || !in_order(leaf, indices)))
      copies.emplace_back(leaf, *axis);
    else if (!axis && !in_order(leaf, indices))
      return false;
  }
  for (auto& [leaf, axis] : copies) out.push_back(relay(leaf, axis));
  return true;
}

// Panels of G w G^T, see atlas::ProductBlock::winograd.
Lowered Lowering::pack_winograd(Value rhs, int width, int& slot) {
  Expr n = rhs->shape[1];
  auto channels = rhs->shape[0].exact_div(9);
  check(channels.has_value(), "winograd packing: the depth");
  Shape shape{ceil_div(n, Expr(width)), Expr(16), *channels, Expr(width)};
  slot = storage_.temporary(rhs->dtype, shape, "pack");
  Kernel k(storage_.slots);
  atlas::LoopBlock& loop = k.program.loop;
  Index at;
  for (const Expr& d : {shape[0], shape[2], shape[3]}) {
    at.push_back(Expr::axis(static_cast<int>(loop.axes.size()), d));
    loop.axes.push_back({AxisKind::parallel, d});
  }
  loop.parallel_rank = 3;
  Expr column = at[0] * Expr(width) + at[2];
  atlas::Stage stage{atlas::StageKind::point, {}, {}, {}};
  Emitter e = emitter(k, stage.body);
  atlas::BodyBuilder& b = e.builder();
  Val guard = e.within(column, n, {});
  std::array<std::array<Val, 3>, 3> g;
  for (size_t u = 0; u < 3; ++u)
    for (size_t v = 0; v < 3; ++v) {
      Expr row = Expr(static_cast<int64_t>(3 * u + v)) * *channels + at[1];
      Val x = e.value(rhs, {row, column}, guard);
      if (guard.id != atlas::no_value) x = b.select(guard, x, b.constant(x.type, 0));
      g[u][v] = e.convert(x, DType::f64);
    }
  // g0, (g0 + g1 + g2) / 2, (g0 - g1 + g2) / 2, g2
  auto four = [&](const std::array<Val, 3>& x) {
    Val half = b.number(DType::f64, 0.5), outer = b.mul(b.add(x[0], x[2]), half),
        inner = b.mul(x[1], half);
    return std::array{x[0], b.add(outer, inner), b.sub(outer, inner), x[2]};
  };
  std::array<std::array<Val, 4>, 3> t;
  for (size_t v = 0; v < 3; ++v) t[v] = four({g[0][v], g[1][v], g[2][v]});
  for (size_t i = 0; i < 4; ++i) {
    auto row = four({t[0][i], t[1][i], t[2][i]});
    for (size_t j = 0; j < 4; ++j)
      e.store(slot, {at[0], Expr(static_cast<int64_t>(4 * i + j)), at[1], at[2]},
              e.convert(row[j], DType::f32));
  }
  loop.stages.push_back(std::move(stage));
  simplify_axes(loop);
  return finish(k, "pack");
}

// The bits of both values' terms as words, by term (atlas::terms_of).
std::vector<Val> term_words(atlas::BodyBuilder& b, Val low, Val high, int terms) {
  auto word = [&](uint64_t bits) { return b.constant(DType::u32, bits); };
  auto bits_of = [&](Val& x, bool first) {  // in the upper half; leaves the rest in x
    Val bits = b.bitcast(x, DType::u32);
    Val odd = b.op(Op::bit_and, b.op(Op::shr, bits, word(16)), word(1));
    Val rounded = b.add(b.add(bits, word(0x7fff)), odd);
    rounded = b.op(Op::bit_and, rounded, word(0xffff0000));
    Val term = rounded;
    if (first) {
      Val zero = b.eq(b.op(Op::bit_and, rounded, word(0x7fffffff)), word(0));
      Val some = b.select(b.ne(x, b.number(DType::f32, 0)), word(0x10000), word(0));
      term = b.op(Op::bit_or, rounded, b.select(zero, some, word(0)));
    }
    x = b.sub(x, b.bitcast(rounded, DType::f32));
    return term;
  };
  std::vector<Val> out;
  for (int t = 0; t < terms; ++t) {
    Val first = bits_of(low, t == 0), second = bits_of(high, t == 0);
    out.push_back(b.op(Op::bit_or, b.op(Op::shr, first, word(16)), second));
  }
  return out;
}

// The panels of a product with terms (atlas::ProductBlock).
Lowered Lowering::pack_terms(Value rhs, const Shape& batch, int width, int terms, int& slot) {
  size_t b = batch.size();
  Expr n = rhs->shape.back(), depth = rhs->shape[rhs->shape.size() - 2];
  Shape shape = batch, loops = batch;
  Expr panels = ceil_div(n, Expr(width)), steps = ceil_div(depth, 32);
  shape.insert(shape.end(), {panels, steps, Expr(terms), Expr(16), Expr(width)});
  loops.insert(loops.end(), {panels, steps, Expr(16), Expr(width)});
  slot = storage_.temporary(DType::u32, shape, "pack");
  Kernel k(storage_.slots);
  atlas::LoopBlock& loop = k.program.loop;
  Index at;
  for (size_t i = 0; i < loops.size(); ++i) {
    loop.axes.push_back({AxisKind::parallel, loops[i]});
    at.push_back(Expr::axis(static_cast<int>(i), loops[i]));
  }
  loop.parallel_rank = static_cast<int>(loops.size());
  Expr column = at[b] * Expr(width) + at[b + 3];
  atlas::Stage stage{atlas::StageKind::point, {}, {}, {}};
  Emitter e = emitter(k, stage.body);
  auto value = [&](int64_t of_pair) {
    Expr row = at[b + 1] * Expr(32) + at[b + 2] * Expr(2) + Expr(of_pair);
    Index from(at.begin(), at.begin() + static_cast<ptrdiff_t>(b));
    from.insert(from.end(), {row, column});
    Val guard = e.within(row, depth, e.within(column, n, {}));
    Val v = e.convert(e.value(rhs, from, guard), DType::f32);
    if (guard.id == atlas::no_value) return v;
    return e.builder().select(guard, v, e.builder().number(DType::f32, 0));
  };
  Val low = value(0), high = value(1);
  auto words = term_words(e.builder(), low, high, terms);
  for (int t = 0; t < terms; ++t) {
    Index to(at.begin(), at.begin() + static_cast<ptrdiff_t>(b) + 2);
    to.insert(to.end(), {Expr(t), at[b + 2], at[b + 3]});
    e.store(slot, to, words[static_cast<size_t>(t)]);
  }
  loop.stages.push_back(std::move(stage));
  simplify_axes(loop);
  return finish(k, "pack");
}

std::vector<Lowered> Lowering::product() {
  std::vector<Lowered> out;
  Value dot = c_.anchor, lhs = dot->input(0), rhs = dot->input(1);
  DType in = lhs->dtype;
  DType acc = is_int(dot->dtype) ? dot->dtype : compute_type(in);
  Shape batch(rhs->shape.begin(), rhs->shape.end() - 2);

  // A column vector on the right would fill one lane: (x y)ᵀ = yᵀ xᵀ has the same sums.
  bool swapped = dot->shape.back().is(1) && !dot->shape[dot->shape.size() - 2].is(1);
  std::vector<ClusterAxis> order = c_.axes;
  if (swapped) std::swap(order[order.size() - 3], order[order.size() - 2]);
  atlas::ProductBlock about;
  for (const ClusterAxis& a : order)
    about.axes.push_back({a.row ? AxisKind::row : AxisKind::parallel, a.extent});
  about.batch_rank = static_cast<int>(order.size()) - 3;
  about.operand_type = in;
  about.acc_type = acc;
  about.precision = static_cast<int>(dot->attrs.ints[0]);
  about.reproducible = options_.reproducible;

  int width = options_.panel_width(in), packed = -1;
  int group = options_.panel_group(in, acc);
  bool packs = width > 0 && !swapped;
  auto sources = packs ? static_sources(clustering_, options_, rhs) : std::nullopt;
  const Expr& rows = dot->shape[dot->shape.size() - 2];
  bool few_rows = rows.is_const() && rows.constant_value() <= 8;
  bool narrow = sources && keep_narrow(rhs, few_rows, out);
  // Only what is packed once is packed ahead: the product packs the panels of other operands as it
  // needs them, but for terms.
  bool once = sources && !narrow;
  std::optional<WindowImage> winograd;
  if (once && in == DType::f32 && acc == DType::f32 && !options_.reproducible && batch.empty())
    winograd = window_image(c_, 3);
  if (winograd && !winograd_pays(*winograd, rhs->shape[1])) winograd.reset();
  if (packs && !narrow && !winograd) about.terms = options_.terms(about, sources.has_value());
  if (once || about.terms > 0) {
    Lowered pack = winograd          ? pack_winograd(rhs, width, packed)
                   : about.terms > 0 ? pack_terms(rhs, batch, width, about.terms, packed)
                                     : pack_rhs(rhs, batch, width, group, packed);
    if (sources) pack.cached = storage_.cache(packed, *sources);
    out.push_back(std::move(pack));
  }

  Kernel k(storage_.slots);
  k.program.kind = atlas::BlockKind::product;
  atlas::ProductBlock& p = k.program.product;
  p = about;
  auto axis = [&](size_t i) { return Expr::axis(static_cast<int>(i), order[i].extent); };
  Expr im = axis(order.size() - 3), in_ = axis(order.size() - 2), ik = axis(order.size() - 1);
  Index own = placed(c_.members[0].index, order);
  Index at(own.begin(), own.end() - 2);
  Index lhs_at = at, rhs_at = at;
  if (swapped) {
    std::swap(lhs, rhs);
    lhs_at.insert(lhs_at.end(), {ik, im});
    rhs_at.insert(rhs_at.end(), {in_, ik});
  } else {
    lhs_at.insert(lhs_at.end(), {im, ik});
    rhs_at.insert(rhs_at.end(), {ik, in_});
  }
  {
    Emitter e = emitter(k, p.lhs);
    end_with(p.lhs, e.value(lhs, lhs_at));
  }
  if (packed >= 0) {
    p.packed_rhs = k.buffer(packed, Access::read);
    p.panel_width = width;
    p.panel_group = p.terms > 0 ? 2 : group;
  }
  if (winograd) {
    p.winograd = true;
    for (const Expr& extent : {winograd->images, winograd->height + Expr(2),
                               winograd->width + Expr(2), winograd->channels})
      p.axes.push_back({AxisKind::parallel, extent});
    Emitter e = emitter(k, p.image);
    end_with(p.image, e.value(winograd->image, winograd->index));
  }
  if (packed < 0 || winograd || (p.terms > 0 && in == DType::f32)) {
    Emitter e = emitter(k, p.rhs);
    if (!blocks_.empty())
      e.elsewhere = [&](Value v, const Index& index) -> std::optional<std::pair<int, Index>> {
        auto it = blocks_.find(v);
        if (it == blocks_.end()) return std::nullopt;
        size_t by = it->second.axis;
        Index there{floor_div(index[by], Expr(block_columns))};
        for (size_t i = 0; i < index.size(); ++i)
          if (i != by) there.push_back(index[i]);
        there.push_back(mod(index[by], Expr(block_columns)));
        return std::pair(it->second.slot, there);
      };
    end_with(p.rhs, e.value(rhs, rhs_at));
  }
  epilogue(k, p.epilogue, acc, order);
  out.push_back(finish(k, cluster_name(c_)));
  return out;
}

// A product with one column: for each batch point (channel) and row (pixel) a chain over the taps,
// whose weights are laid out anew with the channels densest.
std::vector<Lowered> Lowering::depthwise() {
  Value dot = c_.anchor, lhs = dot->input(0), rhs = dot->input(1);
  DType acc = is_int(dot->dtype) ? dot->dtype : compute_type(lhs->dtype);
  size_t batch = rhs->shape.size() - 2;
  std::vector<Lowered> out;
  Shape taps{rhs->shape[batch]};
  taps.insert(taps.end(), rhs->shape.begin(), rhs->shape.end() - 2);
  int weights = storage_.temporary(rhs->dtype, taps, "taps");
  {
    Kernel k(storage_.slots);
    atlas::LoopBlock& loop = k.program.loop;
    Index store_at;
    for (const Expr& d : taps) {
      store_at.push_back(Expr::axis(static_cast<int>(loop.axes.size()), d));
      loop.axes.push_back({AxisKind::parallel, d});
    }
    loop.parallel_rank = static_cast<int>(taps.size());
    Index read_at(store_at.begin() + 1, store_at.end());
    read_at.insert(read_at.end(), {store_at[0], Expr(0)});
    atlas::Stage stage{atlas::StageKind::point, {}, {}, {}};
    Emitter e = emitter(k, stage.body);
    e.store(weights, store_at, e.value(rhs, read_at));
    loop.stages.push_back(std::move(stage));
    simplify_axes(loop);
    out.push_back(finish(k, "taps"));
    if (auto sources = static_sources(clustering_, options_, rhs))
      out.back().cached = storage_.cache(weights, *sources);
  }
  // Axes: lines of pixels, tiles of a line, the batch. A tile's pixels share a body, so that its
  // weights and what their windows have in common are loaded once.
  const ClusterAxis rows = c_.axes[c_.axes.size() - 3];
  const int column = c_.axes[c_.axes.size() - 2].id;
  int64_t count = taps[0].constant_value();
  Expr line = line_of(lhs, static_cast<int>(batch));
  int64_t pixels = pixels_together(line, count, options_.panel_width(lhs->dtype));
  Kernel k(storage_.slots);
  atlas::LoopBlock& loop = k.program.loop;
  std::map<int, Expr> place;
  auto add_axis = [&](const Expr& extent) {
    Expr axis = Expr::axis(static_cast<int>(loop.axes.size()), extent);
    loop.axes.push_back({AxisKind::parallel, extent});
    return axis;
  };
  // Blocks of channels first, if the lines that a window spans exceed the nearest cache.
  const ClusterAxis& channels = c_.axes[c_.axes.size() - 4];
  Expr together = channels_together(lhs, line, count, channels.extent);
  Expr block = add_axis(*channels.extent.exact_div(together)) * together;
  Expr first = add_axis(*rows.extent.exact_div(line)) * line;
  first += add_axis(*line.exact_div(Expr(pixels))) * Expr(pixels);
  for (size_t i = 0; i + 4 < c_.axes.size(); ++i)
    place[c_.axes[i].id] = add_axis(c_.axes[i].extent);
  place[channels.id] = block + add_axis(together);
  place[column] = Expr(0);
  loop.parallel_rank = static_cast<int>(loop.axes.size());
  auto placed_at = [&](const Index& index) {
    Index at;
    for (const Expr& i : index)
      at.push_back(i.substitute([&](const Atom& a) -> std::optional<Expr> {
        auto it = a.kind == Atom::Kind::axis ? place.find(a.id) : place.end();
        return it == place.end() ? std::nullopt : std::optional(it->second);
      }));
    return at;
  };
  atlas::Stage stage{atlas::StageKind::point, {}, {}, {}};
  Val sum;
  Emitter e = emitter(k, stage.body, [&](Value v, const Index&) -> std::optional<Val> {
    if (v != dot) return std::nullopt;
    return sum;
  });
  atlas::BodyBuilder& b = e.builder();
  std::vector<Val> w;
  constexpr int64_t side_by_side = 4;  // chains that keep the multiply-adders busy
  for (int64_t begin = 0; begin < pixels; begin += side_by_side) {
    int64_t end = std::min(begin + side_by_side, pixels);
    std::vector<Val> chains(static_cast<size_t>(end - begin), b.constant(acc, 0));
    for (int64_t tap = 0; tap < count; ++tap)
      for (int64_t pixel = begin; pixel < end; ++pixel) {
        Expr row = place[rows.id] = first + Expr(pixel);
        Index own = placed_at(c_.members[0].index), weight_at{Expr(tap)};
        Index lhs_at(own.begin(), own.end() - 2);
        weight_at.insert(weight_at.end(), lhs_at.begin(), lhs_at.end());
        lhs_at.insert(lhs_at.end(), {row, Expr(tap)});
        Val x = e.convert(e.value(lhs, lhs_at), acc);
        if (static_cast<int64_t>(w.size()) == tap)
          w.push_back(e.convert(e.read(weights, weight_at), acc));
        Val y = w[static_cast<size_t>(tap)], &chain = chains[static_cast<size_t>(pixel - begin)];
        chain = is_float(acc) ? b.fma(x, y, chain) : b.add(b.mul(x, y), chain);
      }
    for (int64_t pixel = begin; pixel < end; ++pixel) {
      place[rows.id] = first + Expr(pixel);
      sum = e.convert(chains[static_cast<size_t>(pixel - begin)], dot->dtype);
      for (const Member& m : c_.members)
        for (int slot : storage_.stores_of(m.node)) {
          Index index = placed_at(m.index);
          e.store(slot, index, e.value(m.node, index));
        }
    }
  }
  loop.stages.push_back(std::move(stage));
  simplify_axes(loop);
  out.push_back(finish(k, cluster_name(c_)));
  return out;
}

std::vector<Lowered> Lowering::attention() {
  Value a = c_.anchor, q = a->input(0), kk = a->input(1), v = a->input(2);
  Kernel k(storage_.slots);
  k.program.kind = atlas::BlockKind::attention;
  atlas::AttentionBlock& t = k.program.attention;
  // From batch…, query, value depth, key, depth to batch…, query, key, depth, value depth.
  std::vector<ClusterAxis> order = c_.axes;
  size_t b = order.size() - 4;
  ClusterAxis value_depth = order[b + 1];
  order.erase(order.begin() + static_cast<ptrdiff_t>(b) + 1);
  order.push_back(value_depth);
  for (const ClusterAxis& x : order)
    t.axes.push_back({x.row ? AxisKind::row : AxisKind::parallel, x.extent});
  t.batch_rank = static_cast<int>(b);
  t.operand_type = q->dtype;
  t.scale = std::bit_cast<double>(a->attrs.bits);
  t.causal = a->attrs.ints[0] != 0;
  t.reproducible = options_.reproducible;
  auto axis = [&](size_t i) { return Expr::axis(static_cast<int>(i), order[i].extent); };
  Index batch;
  for (size_t i = 0; i < b; ++i) batch.push_back(axis(i));
  Expr query = axis(b), key = axis(b + 1), depth = axis(b + 2), out_depth = axis(b + 3);
  auto with = [&](Index at, Value operand, const Expr& row, const Expr& column) {
    if (b > 0 && operand != q) {
      const Expr &heads = a->shape[b - 1], &kv_heads = operand->shape[b - 1];
      if (!(heads == kv_heads)) {
        auto group = heads.exact_div(kv_heads);
        check(group.has_value(), "attention lowering: head counts");
        at[b - 1] = floor_div(at[b - 1], *group);
      }
    }
    at.insert(at.end(), {row, column});
    return at;
  };
  auto operand = [&](atlas::Body& body, Value x, const Index& at) {
    Emitter e = emitter(k, body);
    end_with(body, e.value(x, at));
  };
  operand(t.q, q, with(batch, q, query, depth));
  operand(t.k, kk, with(batch, kk, key, depth));
  operand(t.v, v, with(batch, v, key, out_depth));
  auto cap = std::bit_cast<double>(a->attrs.ints[1]);
  if (cap > 0 || a->inputs.size() > 3) {
    Emitter e = emitter(k, t.score);
    atlas::BodyBuilder& w = e.builder();
    DType acc = compute_type(q->dtype);
    Val score = w.accumulator(0, acc);
    if (cap > 0) {
      Val c = w.number(acc, cap);
      score = w.mul(c, w.op(Op::tanh, w.div(score, c)));
    }
    if (a->inputs.size() > 3) {
      Value bias = a->input(3);
      Index full = batch, at;
      full.insert(full.end(), {query, key});
      size_t lead = full.size() - bias->shape.size();
      for (size_t i = 0; i < bias->shape.size(); ++i)
        at.push_back(bias->shape[i].is(1) ? Expr(0) : full[lead + i]);
      Val x = e.value(bias, at);
      score = bias->dtype == DType::b8
                  ? w.select(x, score, w.number(acc, -std::numeric_limits<double>::infinity()))
                  : w.add(score, e.convert(x, acc));
    }
    end_with(t.score, score);
  }
  epilogue(k, t.epilogue, compute_type(q->dtype), order);
  std::vector<Lowered> out;
  out.push_back(finish(k, cluster_name(c_)));
  return out;
}

std::vector<Lowered> Lowering::scatter() {
  Value s = c_.anchor, operand = s->input(0), indices = s->input(1), updates = s->input(2);
  std::vector<Lowered> out;
  std::vector<int> targets = storage_.stores_of(s);
  for (int slot : targets) {
    if (!storage_.in_place(s)) {
      Kernel k(storage_.slots);
      atlas::LoopBlock& loop = k.program.loop;
      Index at;
      for (const Expr& d : s->shape) {
        at.push_back(d.is(1) ? Expr(0) : Expr::axis(static_cast<int>(loop.axes.size()), d));
        if (!d.is(1)) loop.axes.push_back({AxisKind::parallel, d});
      }
      loop.parallel_rank = static_cast<int>(loop.axes.size());
      atlas::Stage stage{atlas::StageKind::point, {}, {}, {}};
      Emitter e = emitter(k, stage.body);
      e.store(slot, at, e.value(operand, at));
      loop.stages.push_back(std::move(stage));
      simplify_axes(loop);
      out.push_back(finish(k, "copy"));
    }
    Kernel k(storage_.slots);
    atlas::LoopBlock& loop = k.program.loop;
    size_t axis = static_cast<size_t>(s->attrs.ints[0]), rank = indices->shape.size();
    Index at(updates->shape.size());
    auto add_axes = [&](size_t first, size_t last, AxisKind kind) {
      for (size_t i = first; i < last; ++i) {
        at[i] = Expr::axis(static_cast<int>(loop.axes.size()), updates->shape[i]);
        loop.axes.push_back({kind, updates->shape[i]});
      }
    };
    add_axes(0, axis, AxisKind::parallel);
    add_axes(axis + rank, at.size(), AxisKind::parallel);
    loop.parallel_rank = static_cast<int>(loop.axes.size());
    add_axes(axis, axis + rank, AxisKind::row);
    if (rank == 0) loop.axes.push_back({AxisKind::row, Expr(1)});
    atlas::Stage stage{atlas::StageKind::serial_row, {}, {}, {}};
    Emitter e = emitter(k, stage.body);
    TakeParts parts = split_take(s, at, rank);
    Index to = parts.before;
    const Expr& extent = s->shape[axis];
    to.push_back(e.index_value(indices, parts.indices, extent, {}));
    // An index out of range sets the sticky error and writes nothing.
    Val place = e.convert(e.value(indices, parts.indices), DType::i64);
    Val inside = e.builder().op(Op::bit_and, e.builder().le(e.builder().index(-extent), place),
                                e.builder().lt(place, e.builder().index(extent)));
    to.insert(to.end(), parts.after.begin(), parts.after.end());
    Val u = e.value(updates, at);
    static constexpr Op combine[] = {Op::add, Op::add, Op::mul, Op::max, Op::min};
    if (int64_t mode = s->attrs.ints[1]; mode != 0) {
      int buffer = k.buffer(slot, Access::read_write);
      Val old = e.builder().load(buffer, s->dtype, offset_of(to, k.slot(slot).strides), inside);
      u = e.convert(e.builder().op(combine[mode], e.widen(old), e.widen(u)), s->dtype);
    }
    e.store(slot, to, u, inside);
    loop.stages.push_back(std::move(stage));
    simplify_axes(loop);
    out.push_back(finish(k, "scatter"));
  }
  return out;
}

std::vector<Lowered> Lowering::scan() {
  Value s = c_.anchor;
  Kernel k(storage_.slots);
  atlas::LoopBlock& loop = k.program.loop;
  for (const ClusterAxis& a : c_.axes)
    loop.axes.push_back({a.row ? AxisKind::row : AxisKind::parallel, a.extent});
  loop.parallel_rank = static_cast<int>(c_.axes.size()) - 1;
  atlas::Stage stage{atlas::StageKind::serial_row, {}, {}, {}};
  Emitter e = emitter(k, stage.body);
  Index at = placed(c_.members[0].index, c_.axes);
  Val x = e.widen(e.value(s->input(), at));
  static const std::pair<Op, Op> running[] = {{Op::cumsum, Op::reduce_sum},
                                              {Op::cumprod, Op::reduce_prod},
                                              {Op::cummax, Op::reduce_max},
                                              {Op::cummin, Op::reduce_min}};
  Op reduce = Op::reduce_sum;
  for (auto& [scan_op, r] : running)
    if (scan_op == s->op) reduce = r;
  stage.running.push_back({reduce, x.type});
  Val sum = e.builder().accumulate(reduce, 0, x);
  for (int slot : storage_.stores_of(s)) e.store(slot, at, e.convert(sum, s->dtype));
  loop.stages.push_back(std::move(stage));
  simplify_axes(loop);
  std::vector<Lowered> out;
  out.push_back(finish(k, std::string(ir::name_of(s->op))));
  return out;
}

}  // namespace

std::string cluster_name(const Cluster& c) {
  std::string name;
  for (const Member& m : c.members) {
    if (name.size() > 40) return name + "+…";
    name += (name.empty() ? "" : "+") + std::string(ir::name_of(m.node->op));
  }
  return name;
}

std::vector<Lowered> lower(const Cluster& cluster, const Clustering& clustering,
                           const Options& options, Storage& storage) {
  Lowering l(cluster, clustering, options, storage);
  switch (cluster.kind) {
    case ClusterKind::loop:
      return lower_loop(cluster, clustering, storage);
    case ClusterKind::product:
      return is_depthwise(cluster) ? l.depthwise() : l.product();
    case ClusterKind::attention:
      return l.attention();
    case ClusterKind::scatter:
      return l.scatter();
    case ClusterKind::scan:
      return l.scan();
    case ClusterKind::host:
      break;
  }
  fail(ErrorCode::internal, "schedule: a host call has no program");
}

}  // namespace hologram::schedule

// schedule/lower/product.cpp: products, depthwise ones among them.
#include "schedule/lower/context.h"

#include <algorithm>
#include <ranges>

#include "schedule/windows/window.h"

namespace hologram::schedule {

using atlas::Access;
using atlas::AxisKind;
using atlas::Val;
using ir::Value;

std::vector<Lowered> Lowering::product() {
  std::vector<Lowered> out;
  Value dot = c_.anchor, lhs = dot->input(0), rhs = dot->input(1);
  DType in = lhs->dtype;
  DType acc = is_int(dot->dtype) ? dot->dtype : compute_type(in);
  Shape batch(rhs->shape.begin(), rhs->shape.end() - 2);

  // A column vector on the right would fill one lane: (x y)ᵀ = yᵀ xᵀ has the same sums.
  bool swapped = dot->shape.back().is(1) && !dot->shape[dot->shape.size() - 2].is(1);
  std::vector<ClusterAxis> order = c_.axes;
  const size_t rank = order.size() - 3;
  if (swapped) std::swap(order[rank], order[rank + 1]);
  if (c_.parts > 1) order.push_back(c_.column);
  atlas::ProductBlock about;
  for (const ClusterAxis& a : order)
    about.axes.push_back({a.row ? AxisKind::row : AxisKind::parallel, a.extent});
  about.batch_rank = static_cast<int>(rank);
  about.parts = c_.parts;
  about.operand_type = swapped ? rhs->dtype : in;
  about.mixed = lhs->dtype != rhs->dtype;
  about.acc_type = acc;
  about.precision = static_cast<int>(dot->attrs.ints[0]);
  about.reproducible = options_.reproducible;

  int width = options_.panel_width(in), packed = -1;
  int group = options_.panel_group(in, acc);
  bool packs = width > 0 && !swapped;
  auto sources = packs ? static_sources(clustering_, options_, rhs) : std::nullopt;
  const Expr& rows = dot->shape[dot->shape.size() - 2];
  bool few_rows = rows.is_const() && rows.constant_value() <= 8;
  bool narrow = sources && c_.parts == 1 && keep_narrow(rhs, few_rows, out);
  // Only what is packed once is packed ahead: the product packs the panels of other operands as it
  // needs them, but for terms and Winograd's transforms.
  bool once = sources && !narrow;
  std::optional<WindowImage> winograd;
  if (packs && !narrow && in == DType::f32 && acc == DType::f32 && !options_.reproducible &&
      batch.empty() && c_.parts == 1)
    winograd = window_image(c_, 3);
  if (winograd && !winograd_pays(*winograd, rhs->shape[1], once)) winograd.reset();
  if (packs && !narrow && !winograd) about.terms = options_.terms(about, sources.has_value());
  if (once || winograd || about.terms > 0) {
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
  Expr im = axis(rank), jn = axis(rank + 1), ik = axis(rank + 2);
  Index own = placed(c_.members[0].index, order);
  Index at(own.begin(), own.end() - 2);
  Index lhs_at = at, rhs_at = at;
  if (swapped) {
    std::swap(lhs, rhs);
    lhs_at.insert(lhs_at.end(), {ik, im});
    rhs_at.insert(rhs_at.end(), {jn, ik});
  } else {
    lhs_at.insert(lhs_at.end(), {im, ik});
    rhs_at.insert(rhs_at.end(), {ik, jn});
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
  if (!c_.tail.empty()) keep_for_tail();
  epilogue(k, p.epilogue, acc, order);
  if (!c_.tail.empty()) tail(k);
  out.push_back(finish(k, cluster_name(c_)));
  return out;
}

// A copy of v in another layout, at `from(coordinates)` of which each element is found: made once
// if v depends on static parameters alone.
int Lowering::lay_out(Value v, const Shape& shape, const std::function<Index(const Index&)>& from,
                      std::vector<Lowered>& out) {
  int slot = storage_.temporary(v->dtype, shape, "taps");
  Kernel k(storage_.slots);
  atlas::LoopBlock& loop = k.program.loop;
  Index at;
  for (const Expr& d : shape) {
    at.push_back(Expr::axis(static_cast<int>(loop.axes.size()), d));
    loop.axes.push_back({AxisKind::parallel, d});
  }
  loop.parallel_rank = static_cast<int>(shape.size());
  atlas::Stage stage{atlas::StageKind::point, {}, {}, {}};
  Emitter e = emitter(k, stage.body);
  e.store(slot, at, e.value(v, from(at)));
  loop.stages.push_back(std::move(stage));
  simplify_axes(loop);
  out.push_back(finish(k, "taps"));
  if (auto sources = static_sources(clustering_, options_, v))
    out.back().cached = storage_.cache(slot, *sources);
  return slot;
}

// The weights of a depthwise or grouped convolution, the taps outermost and the channels densest.
int Lowering::lay_taps(Value weights, std::vector<Lowered>& out) {
  const Expr& columns = weights->shape.back();
  Shape taps{weights->shape[weights->shape.size() - 2]};
  taps.insert(taps.end(), weights->shape.begin(), weights->shape.end() - 2);
  taps.back() *= columns;
  return lay_out(
      weights, taps,
      [&](const Index& at) {
        Index from(at.begin() + 1, at.end());
        Expr channel = from.back();
        from.back() = floor_div(channel, columns);
        from.insert(from.end(), {at[0], mod(channel, columns)});
        return from;
      },
      out);
}

// A product with one column, or few in each of many groups: for each batch point and column (a
// channel) and each row (a pixel) a chain over the taps, whose weights are laid out anew with the
// channels densest.
std::vector<Lowered> Lowering::depthwise() {
  Value dot = c_.anchor, lhs = dot->input(0), rhs = dot->input(1);
  DType acc = is_int(dot->dtype) ? dot->dtype : compute_type(lhs->dtype);
  size_t batch = rhs->shape.size() - 2;
  std::vector<Lowered> out;
  int weights = lay_taps(rhs, out);
  // Axes: lines of pixels, tiles of a line, the batch. A tile's pixels share a body, so that its
  // weights and what their windows have in common are loaded once.
  const ClusterAxis rows = c_.axes[c_.axes.size() - 3];
  const ClusterAxis column = c_.axes[c_.axes.size() - 2];
  int64_t count = rhs->shape[batch].constant_value();
  Expr line = line_of(lhs, static_cast<int>(batch));
  int64_t pixels = pixels_together(line, count, options_.panel_width(lhs->dtype));
  Kernel k(storage_.slots);
  atlas::LoopBlock& loop = k.program.loop;
  AxisMap place;
  auto add_axis = [&](const Expr& extent) {
    Expr axis = Expr::axis(static_cast<int>(loop.axes.size()), extent);
    loop.axes.push_back({AxisKind::parallel, extent});
    return axis;
  };
  // Blocks of channels first, if the lines that a window spans exceed the nearest cache.
  const ClusterAxis& groups = c_.axes[c_.axes.size() - 4];
  Expr channels = groups.extent * column.extent;
  Expr together = channels_together(lhs, line, count, channels);
  Expr block = add_axis(*channels.exact_div(together)) * together;
  Expr first = add_axis(*rows.extent.exact_div(line)) * line;
  first += add_axis(*line.exact_div(Expr(pixels))) * Expr(pixels);
  for (size_t i = 0; i + 4 < c_.axes.size(); ++i)
    place[c_.axes[i].id] = add_axis(c_.axes[i].extent);
  Expr channel = block + add_axis(together);
  const bool grouped = !column.extent.is(1);
  // Group and column stand as axes of their own while indices are simplified.
  Expr group = Expr::axis(group_id, groups.extent), in_group = Expr::axis(column_id, column.extent);
  place[groups.id] = grouped ? group : channel;
  place[column.id] = grouped ? in_group : Expr(0);
  loop.parallel_rank = static_cast<int>(loop.axes.size());
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
        Index own = substitute(c_.members[0].index, place), weight_at{Expr(tap)};
        Index lhs_at(own.begin(), own.end() - 2);
        weight_at.insert(weight_at.end(), lhs_at.begin(), lhs_at.end());
        weight_at.back() = channel;
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
          Index index = substitute(m.index, place);
          e.store(slot, index, e.value(m.node, index));
        }
    }
  }
  if (grouped)
    for (atlas::Instr& i : stage.body.instrs) i.expr = of_channel(i.expr, column.extent, channel);
  loop.stages.push_back(std::move(stage));
  simplify_axes(loop);
  out.push_back(finish(k, cluster_name(c_)));
  return out;
}

}  // namespace hologram::schedule

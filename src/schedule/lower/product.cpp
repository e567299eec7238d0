// schedule/lower/product.cpp: products.
#include <algorithm>

#include "schedule/cluster/views.h"
#include "schedule/lower/kinds.h"
#include "schedule/lower/loop.h"
#include "schedule/lower/tail.h"
#include "schedule/lower/weights.h"

#include "schedule/windows/window.h"

namespace hologram::schedule {

using atlas::Access;
using atlas::AxisKind;
using atlas::Val;
using ir::Value;

Kernels lower_product(const Context& cx) {
  std::vector<Lowered> out;
  Value dot = cx.cluster.anchor, lhs = dot->input(0), rhs = dot->input(1);
  DType in = lhs->dtype;
  DType acc = is_int(dot->dtype) ? dot->dtype : compute_type(in);
  Shape batch(rhs->shape.begin(), rhs->shape.end() - 2);

  // A column vector on the right would fill one lane: (x y)ᵀ = yᵀ xᵀ has the same sums.
  bool swapped = dot->shape.back().is(1) && !dot->shape[dot->shape.size() - 2].is(1);
  std::vector<ClusterAxis> order = cx.cluster.axes;
  const size_t rank = order.size() - 3;
  if (swapped) std::swap(order[rank], order[rank + 1]);
  if (cx.cluster.parts > 1) order.push_back(cx.cluster.column);
  atlas::ProductBlock about;
  for (const ClusterAxis& a : order)
    about.axes.push_back({a.row ? AxisKind::row : AxisKind::parallel, a.extent});
  about.batch_rank = static_cast<int>(rank);
  about.parts = cx.cluster.parts;
  about.operand_type = swapped ? rhs->dtype : in;
  about.mixed = lhs->dtype != rhs->dtype;
  about.acc_type = acc;
  about.precision = static_cast<int>(dot->attrs.ints[0]);
  about.reproducible = cx.options.reproducible;

  const Machine& machine = *cx.options.machine;
  // So that it need not be emulated; without it there are no tiles, for which it is fewer terms.
  if (cx.options.fast && !cx.options.reproducible && !machine.fuses && acc == DType::f32)
    about.precision = std::max(about.precision, 1);
  int width = machine.panel_width(in), packed = -1;
  int group = machine.panel(in, acc).group;
  bool packs = width > 0 && !swapped;
  auto sources = packs ? static_sources(cx.clustering, cx.options, rhs) : std::nullopt;
  const Expr& rows = dot->shape[dot->shape.size() - 2];
  bool few_rows = rows.is_const() && rows.constant_value() <= machine.waiting_rows;
  // Few rows of 16 bits times weights of fewer are products of float32, with weights as they are
  // before they would be rounded.
  const bool widens =
      few_rows && is_float(in) && size_of(in) == 2 && !about.mixed && !about.reproducible;
  atlas::ProductBlock wide = about;
  if (widens) {
    wide.operand_type = DType::f32;
    wide.precision = std::max(about.precision, 1);
  }
  std::optional<Blocks> blocks;
  if (sources && cx.cluster.parts == 1) blocks = keep_narrow(cx, rhs, few_rows, wide, out);
  const bool narrow = blocks.has_value(), widened = narrow && widens;
  if (widened) about = wide;
  // Only what is packed once is packed ahead: the product packs the panels of other operands as it
  // needs them, but for terms, bytes for tiles and Winograd's transforms.
  bool once = sources && !narrow;
  const bool given_bytes = packs && !sources && machine.packs_given_bytes(about);
  std::optional<WindowImage> winograd;
  if (packs && !narrow && machine.unrolls_windows && group == 1 && acc == DType::f32 &&
      !cx.options.reproducible && batch.empty() && cx.cluster.parts == 1)
    winograd = window_image(cx.cluster, 3);
  if (winograd && !winograd_pays(*winograd, rhs->shape[1], once, machine)) winograd.reset();
  // 16-bit operands are transformed as what they are in float32.
  if (winograd) about.operand_type = in = acc;
  if (packs && !narrow && !winograd) about.terms = machine.terms(about, sources.has_value());
  if (once || winograd || about.terms > 0 || given_bytes) {
    Packed made = winograd          ? pack_winograd(cx, rhs, width)
                  : about.terms > 0 ? pack_terms(cx, rhs, batch, width, about.terms)
                  : given_bytes     ? pack_words(cx, rhs, batch, width)
                                    : pack_panels(cx, rhs, batch, width, group);
    packed = made.slot;
    if (sources) made.kernel.cached = cx.storage.cache(packed, *sources);
    out.push_back(std::move(made.kernel));
  }

  std::optional<int> planes;
  if (!swapped && rhs->dtype == DType::f32 && below_views(rhs)->is(ir::Op::parameter) &&
      machine.keeps_terms(about))
    if (auto weights = static_sources(cx.clustering, cx.options, rhs)) {
      Packed made = pack_planes(cx, rhs);
      made.kernel.cached = cx.storage.cache(made.slot, *weights);
      planes = made.slot;
      out.push_back(std::move(made.kernel));
    }

  ProgramBuilder k(cx.storage.slots);
  atlas::ProductBlock& p = k.program.block.emplace<atlas::ProductBlock>();
  p = about;
  auto axis = [&](size_t i) { return Expr::axis(static_cast<int>(i), order[i].extent); };
  Expr im = axis(rank), jn = axis(rank + 1), ik = axis(rank + 2);
  Index own = cx.placed(cx.cluster.members[0].index, order);
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
    Emitter e = cx.emitter(k, p.lhs);
    const Val x = e.value(lhs, lhs_at);
    end_with(p.lhs, widened || winograd ? e.widen(x) : x);
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
    Emitter e = cx.emitter(k, p.image);
    end_with(p.image, e.convert(e.value(winograd->image, winograd->index), acc));
  }
  if (planes) {
    Emitter e = cx.emitter(k, p.rhs);
    end_with(p.rhs, unpack_planes(e, *planes, ik, jn));
  } else if (packed < 0 || winograd || (p.terms > 0 && in == DType::f32)) {
    Emitter e = cx.emitter(k, p.rhs);
    if (blocks)
      e.elsewhere = [&](Value v, const Index& at_leaf) { return blocks->find(v, at_leaf); };
    // Of Winograd's panels, so that nothing but the panels need stay of a weight.
    const Val y = winograd ? unpack_winograd(e, packed, rhs_at, winograd->channels, width)
                           : e.value(rhs, rhs_at);
    end_with(p.rhs, widened ? e.widen(y) : y);
    if (widened) p.rhs = unrounded(p.rhs);
  }
  std::map<Value, int> kept = slots_for_tail(cx);
  cx.epilogue(k, p.epilogue, acc, order, kept);
  if (!cx.cluster.tail.empty()) lower_tail(cx, k, kept);
  out.push_back(finish(k, cluster_name(cx.cluster)));
  return out;
}

}  // namespace hologram::schedule

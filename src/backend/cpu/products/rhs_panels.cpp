// backend/cpu/products/rhs_panels.cpp: panels of a product's right operand, packed, in place or
// copied.
//
// Operands with k contiguous are packed through squares that are transposed in registers.
#include "backend/cpu/products/rhs_panels.h"

#include "backend/cpu/operands/runs.h"
#include "codegen/nest.h"

namespace hologram::cpu {

RhsPanels::RhsPanels(CpuFunction& kernel, const ProductPlan& plan, Value* part, Value* depth)
    : IndexBuilder(kernel),
      p_(kernel.program.product()),
      plan_(plan),
      t_(plan.tile),
      type_(p_.acc_type),
      n_axis_(p_.batch_rank + 1),
      k_axis_(p_.batch_rank + 2),
      part_(part),
      depth_(depth) {
  if (plan_.rhs == RhsPath::panels)
    blocks_ = block_axis(p_.rhs, n_axis_, plan_.n, t_.lanes, n_axis_ + 2);
}

void RhsPanels::place(Value* scratch, Value* square, GroupPacker* groups) {
  scratch_ = scratch;
  square_ = square;
  groups_ = groups;
  if (plan_.rhs_load) row_ = number(plan_.rhs_load->y_stride);
}

RhsPoint RhsPanels::point(Scope& scope, Value* first_panel) {
  if (!plan_.rhs_load) return {first_panel};
  Value* origin = emit_expr(scope, plan_.rhs_load->base).v;
  scope.seek();
  return {first_panel, origin};
}

Panels RhsPanels::emit(Scope& scope, const RhsPoint& point, Value* panel, Value* width,
                       const StepRange& steps) {
  scope.seek();
  Value* panel_size = mul(depth_, t_.panel);
  switch (plan_.rhs) {
    case RhsPath::packed: {
      Value* index = mul(add(point.first_panel, panel), panel_size);
      return {element(k_, plan_.rhs_storage, k_.buffer(p_.packed_rhs), index), k_.i64(t_.panel),
              panel_size};
    }
    case RhsPath::direct:
      return direct(scope, point, panel, width, steps);
    default:
      break;
  }
  emit_loop(scope, k_.i64(0), width, k_.i64(1), true, [&](Scope& s, Value* i) {
    s.seek();
    Value* out = element(k_, type_, scratch_, mul(i, panel_size));
    Value* n_begin = first_column(add(panel, i));
    if (groups_ && plan_.rhs == RhsPath::panels)
      groups_->pack_panel(s, n_begin, columns_left(n_begin), out);
    else if (groups_)
      groups_->turn_panel(s, point.origin, n_begin, columns_left(n_begin), out);
    else if (plan_.rhs == RhsPath::panels)
      copy(s, n_begin, steps, out);
    else
      transpose(s, n_begin, steps, out);
  });
  scope.seek();
  return {scratch_, k_.i64(t_.panel), panel_size};
}

// Reads in place, except that an incomplete last panel is copied: nothing may be read behind the
// operand.
Panels RhsPanels::direct(Scope& scope, const RhsPoint& point, Value* panel, Value* width,
                         const StepRange& steps) {
  Value* index = add(add(point.origin, mul(steps.begin, row_)), first_column(panel));
  Value* in_place = element(k_, type_, k_.buffer(plan_.rhs_load->buffer), index);
  Value* between = plan_.parts > 1 ? part_ : k_.i64(t_.panel);
  if (all_whole()) return {in_place, row_, between};
  Value* panel_end = plan_.parts > 1 ? add(div(panel, k_.i64(plan_.parts)), 1) : add(panel, width);
  Value* incomplete = k_.ir.CreateICmpSGT(mul(panel_end, t_.panel), part_);
  // Only the last panel is incomplete; a span that ends with it is copied panel by panel.
  emit_if(scope, incomplete, [&](Scope& s) {
    emit_loop(s, k_.i64(0), width, k_.i64(1), true, [&](Scope& inner, Value* i) {
      inner.seek();
      Value* out = element(k_, type_, scratch_, mul(i, mul(depth_, t_.panel)));
      copy(inner, first_column(add(panel, i)), steps, out);
    });
  });
  scope.seek();
  return {k_.ir.CreateSelect(incomplete, scratch_, in_place),
          k_.ir.CreateSelect(incomplete, k_.i64(t_.panel), row_),
          k_.ir.CreateSelect(incomplete, mul(depth_, t_.panel), between)};
}

// Whether no panel ends behind the columns.
bool RhsPanels::all_whole() const {
  return plan_.part.is_const() && plan_.part.constant_value() % t_.panel == 0;
}

// The column that a panel begins with.
Value* RhsPanels::first_column(Value* panel) {
  if (plan_.parts == 1) return mul(panel, t_.panel);
  Value* block = div(panel, k_.i64(plan_.parts));
  return add(mul(sub(panel, mul(block, plan_.parts)), part_), mul(block, t_.panel));
}

Value* RhsPanels::columns_left(Value* n_begin) {
  if (all_whole()) return k_.i64(t_.panel);
  Value* inside = plan_.parts > 1 ? k_.ir.CreateURem(n_begin, part_) : n_begin;
  return least(sub(part_, inside), k_.i64(t_.panel));
}

Operand RhsPanels::operand() const {
  if (blocks_) return {*blocks_, p_.rhs_type(), type_, t_.lanes, n_axis_ + 2};
  return {p_.rhs, p_.rhs_type(), type_, t_.lanes};
}

void RhsPanels::copy(Scope& scope, Value* n_begin, const StepRange& steps, Value* out) {
  Run columns{n_axis_, n_begin, columns_left(n_begin)};
  auto rows = [&](Scope& outer, bool whole) {
    emit_loop(outer, k_.i64(0), steps.count, k_.i64(1), false, [&](Scope& s, Value* i) {
      s.seek();
      s.set_axis(k_axis_, add(steps.begin, i));
      Value* row = element(k_, type_, out, mul(i, t_.panel));
      if (whole)
        operand().gather_whole(s, columns, t_.vectors, row);
      else
        operand().gather(s, columns, row);
    });
  };
  if (all_whole()) return rows(scope, true);
  Value* whole = k_.ir.CreateICmpEQ(columns.count, k_.i64(t_.panel));
  Value* part = k_.ir.CreateNot(whole);
  emit_if(scope, whole, [&](Scope& s) { rows(s, true); });
  emit_if(scope, part, [&](Scope& s) { rows(s, false); });
}

// For an operand that lies along k.
void RhsPanels::transpose(Scope& scope, Value* n_begin, const StepRange& steps, Value* out) {
  Run n{n_axis_, n_begin, columns_left(n_begin)}, k{k_axis_, steps.begin, steps.count};
  operand().transpose(scope, n, k, square_, out, t_.panel);
}

}  // namespace hologram::cpu

// atlas/verify_body.cpp: the verifier of instructions.
#include "atlas/builder.h"
#include "atlas/limits.h"
#include "atlas/verifier.h"

namespace hologram::atlas {
namespace {

constexpr std::string_view code_names[] = {"constant",    "index",      "clamp_index",
                                           "load",        "store",      "arithmetic",
                                           "accumulator", "accumulate", "lookup"};

bool known(Code c) { return static_cast<size_t>(c) < std::size(code_names); }

void operand(const Body& body, const Instr& i, size_t k, DType type, size_t position,
             const std::string& place) {
  require(i.args[k] != no_value, "{}: operand {} is missing", place, k + 1);
  DType found = Verifier::type_of(body, i.args[k], position, place);
  require(found == type, "{}: operand {} is {}; expected {}", place, k + 1, name_of(found),
          name_of(type));
}

void guard(const Body& body, const Instr& i, size_t k, size_t position, const std::string& place) {
  if (i.args[k] != no_value) operand(body, i, k, DType::b8, position, place);
}

void no_more(const Instr& i, size_t first, const std::string& place) {
  for (size_t k = first; k < 3; ++k)
    require(i.args[k] == no_value, "{}: a superfluous operand", place);
}

}  // namespace

// Every visible axis runs at least once, so that what the body does happens.
bool Verifier::surely_runs(const BodyScope& s) {
  for (size_t k = 0; k < s.axes.size(); ++k)
    if (s.axes[k] && !provably_less(Expr(0), grounded_[k])) return false;
  return true;
}

void Verifier::bounds(const Instr& i, const Body& body, const std::string& place) {
  Expr at = ground(i.expr, &body);
  const Expr& extent = p_.buffers[static_cast<size_t>(i.buffer)].extent;
  require(!provably_less(at, Expr(0)), "{}: offset {} is negative", place, i.expr);
  require(!provably_nonnegative(at - extent),
          "{}: offset {} is outside buffer b{}, which has {} elements", place, i.expr, i.buffer,
          extent);
  // The largest offset of a box of axes: at its far corner when the offset grows along each axis.
  Expr corner = at;
  for (size_t k = 0; k < grounded_.size(); ++k) {
    auto parts = corner.linear_in_axis(static_cast<int>(k));
    if (!parts || !provably_nonnegative(parts->first)) return;
    corner = parts->first * (grounded_[k] - Expr(1)) + parts->second;
  }
  require(!provably_nonnegative(corner - extent),
          "{}: offset {} reaches {}, outside buffer b{}, which has {} elements", place, i.expr,
          corner, i.buffer, extent);
}

const Buffer& Verifier::access(int number, DType type, const std::string& place, bool write) {
  require(number >= 0 && static_cast<size_t>(number) < p_.buffers.size(), "{}: unknown buffer b{}",
          place, number);
  const Buffer& b = p_.buffers[static_cast<size_t>(number)];
  require(b.access != (write ? Access::read : Access::write), "{}: buffer b{} may not be {}", place,
          number, write ? "written" : "read");
  require(b.dtype == type, "{}: {} access to buffer b{} of {}", place, name_of(type), number,
          name_of(b.dtype));
  return b;
}

DType Verifier::type_of(const Body& body, ValueId id, size_t position, const std::string& place) {
  require(id < position, "{}: %{} is not an earlier value", place, id);
  require(body.instrs[id].code != Code::store, "{}: %{} is a store", place, id);
  return result_type(body.instrs[id]);
}

void Verifier::arithmetic(const Body& body, const Instr& i, size_t at, const std::string& place) {
  const ir::OpInfo& row = ir::info(i.op);
  if (row.kind == ir::OpKind::cast) {
    require(known(i.from) && may_cast(i.op, i.from, i.type), "{}: no {} from {} to {}", place,
            row.name, static_cast<int>(i.from) < num_dtypes ? name_of(i.from) : "?",
            name_of(i.type));
    operand(body, i, 0, i.from, at, place);
    return no_more(i, 1, place);
  }
  require(ir::is_elementwise(i.op) && may_compute(i.op, i.type), "{}: no {} on {}", place, row.name,
          name_of(i.type));
  for (size_t k = 0; k < static_cast<size_t>(row.arity); ++k)
    operand(body, i, k, k == 0 && row.kind == ir::OpKind::select ? DType::b8 : i.type, at, place);
  no_more(i, static_cast<size_t>(row.arity), place);
}

void Verifier::instruction(const Body& body, size_t at, const BodyScope& s) {
  const Instr& i = body.instrs[at];
  require(known(i.code), "{}, %{}: unknown instruction", s.name, at);
  std::string place =
      fmt::format("{}, %{} ({})", s.name, at, code_names[static_cast<size_t>(i.code)]);
  require(known(i.type) && known(i.op), "{}: unknown type or operation", place);
  expression(i.expr, s.axes, place, &body, at);
  switch (i.code) {
    case Code::constant: {
      int bits = size_of(i.type) * 8;
      require(bits == 64 || i.bits >> bits == 0, "{}: {:#x} does not fit {}", place, i.bits,
              name_of(i.type));
      require(i.type != DType::b8 || i.bits < 2, "{}: a b8 is 0 or 1", place);
      return no_more(i, 0, place);
    }
    case Code::index:
      return no_more(i, 0, place);
    case Code::clamp_index:
      operand(body, i, 0, DType::i64, at, place);
      expression(i.expr, {}, place, nullptr, 0);  // a dimension: no axes, no values
      return no_more(i, 1, place);
    case Code::load:
      access(i.buffer, i.type, place, false);
      guard(body, i, 0, at, place);
      no_more(i, 1, place);
      if (i.args[0] == no_value && surely_runs(s)) bounds(i, body, place);
      return;
    case Code::store:
      require(s.may_store, "{}: nothing may be stored here", place);
      access(i.buffer, i.type, place, true);
      operand(body, i, 0, i.type, at, place);
      guard(body, i, 1, at, place);
      no_more(i, 2, place);
      if (i.args[1] == no_value && surely_runs(s)) bounds(i, body, place);
      return;
    case Code::arithmetic:
      return arithmetic(body, i, at, place);
    case Code::accumulator: {
      auto n = static_cast<size_t>(i.buffer);
      require(i.buffer >= 0 && n < s.accumulators.size(), "{}: a{} is no earlier result", place,
              i.buffer);
      require(i.type == s.accumulators[n], "{}: a{} is {}", place, i.buffer,
              name_of(s.accumulators[n]));
      return no_more(i, 0, place);
    }
    case Code::accumulate: {
      size_t n = static_cast<size_t>(i.buffer) - s.first_running;
      require(s.running && i.buffer >= 0 && n < s.running->size(),
              "{}: a{} is no running accumulator of this stage", place, i.buffer);
      require((*s.running)[n] == std::pair(i.op, i.type), "{}: a{} is {} of {}", place, i.buffer,
              ir::name_of((*s.running)[n].first), name_of((*s.running)[n].second));
      operand(body, i, 0, i.type, at, place);
      return no_more(i, 1, place);
    }
    case Code::lookup:
      require(may_look_up(i.type, i.table.size()), "{}: no table of {} {}", place, i.table.size(),
              name_of(i.type));
      for (uint64_t e : i.table)
        require(e >> 32 == 0, "{}: {:#x} does not fit {}", place, e, name_of(i.type));
      operand(body, i, 0, DType::i32, at, place);
      return no_more(i, 1, place);
  }
}

void Verifier::body(const Body& b, const BodyScope& s) {
  require(b.instrs.size() <= limits::instructions, "{}: {} instructions; expected at most {}",
          s.name, b.instrs.size(), limits::instructions);
  for (size_t k = 0; k < b.instrs.size(); ++k) instruction(b, k, s);
}

}  // namespace hologram::atlas

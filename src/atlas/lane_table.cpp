// atlas/lane_table.cpp: properties of lane instructions, from lane.def.
#include <algorithm>

#include "atlas/class_graph.h"
#include "atlas/lane.h"
#include "atlas/limits.h"

namespace hologram::atlas {
namespace {

LaneOperand parse_operand(std::string_view text) {
  using Role = LaneOperand::Role;
  using Of = LaneOperand::Of;
  LaneOperand o{};
  switch (text[0]) {
    case 'A':
      return {.role = Role::address};
    case 'I':
      return {.role = Role::immediate};
    case 'L':
      return {.role = Role::label};
    case 'R':
      return {.role = Role::range};
    case 'd':
      o.role = Role::written;
      break;
    case 's':
      o.role = Role::read;
      break;
    case 'm':
      o.role = Role::modified;
      break;
    default:
      o.role = Role::optional;
  }
  std::string_view type = text.substr(1);
  if (type == "T") {
    o.of = Of::type;
  } else if (type == "S") {
    o.of = Of::source;
  } else if (type == "p") {
    o.of = Of::predicate;
  } else {
    o.of = Of::fixed;
    o.fixed = dtype_from_name(type).value();
  }
  return o;
}

std::vector<LaneOperand> parse_operands(std::string_view text) {
  std::vector<LaneOperand> list;
  while (!text.empty()) {
    size_t end = std::min(text.find(' '), text.size());
    list.push_back(parse_operand(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return list;
}

uint64_t immediate_limit(LaneOp op) {
  switch (op) {
    case LaneOp::bar_sync:
    case LaneOp::nbr_get:
      return 0xff;
    case LaneOp::phase_adv:
      return 0xffff;
    case LaneOp::reduce_add:
    case LaneOp::reduce_min:
    case LaneOp::reduce_max:
    case LaneOp::reduce_mul:
      return lane_registers;
    default:
      return ~uint64_t{0};
  }
}

const std::vector<LaneOpInfo>& lane_ops() {
  static const std::vector<LaneOpInfo> rows = {
#define HOLOGRAM_LANE(name, mnemonic, types, operands, doc) \
  {#name, mnemonic, LaneTypes::types, parse_operands(operands), doc, immediate_limit(LaneOp::name)},
#include "atlas/lane.def"
#undef HOLOGRAM_LANE
  };
  return rows;
}

constexpr std::string_view fault_names[] = {
    "InvalidBufferHandle",
    "InvalidPoolHandle",
    "BufferOutOfBounds",
    "PoolOutOfBounds",
    "InvalidRegister",
    "InvalidPredicate",
    "TypeMismatch",
    "UninitializedRegister",
    "UninitializedPredicate",
    "DivisionByZero",
    "InvalidMemoryAddress",
    "ProgramError",
    "DuplicateLabel",
    "UndefinedLabel",
    "InvalidLabelTarget",
    "CallStackOverflow",
    "CallStackUnderflow",
    "InvalidClassIndex",
    "InvalidBoundaryCoordinates",
    "ExecutionError",
    "UnsupportedOperation",
    "InvalidLaunchConfig",
    "OutOfMemory",
};

ErrorCode code_of(LaneFault f) {
  return f == LaneFault::division_by_zero        ? ErrorCode::division_by_zero
         : f == LaneFault::out_of_memory         ? ErrorCode::out_of_memory
         : f == LaneFault::unsupported_operation ? ErrorCode::unsupported
                                                 : ErrorCode::invalid_argument;
}

}  // namespace

const LaneOpInfo& info(LaneOp op) { return lane_ops()[static_cast<size_t>(op)]; }

bool has_type(LaneTypes types, DType t) {
  if (types == LaneTypes::none) return t == DType::host;
  bool real = t == DType::f32 || t == DType::f64;
  bool half = t == DType::f16 || t == DType::bf16;
  switch (types) {
    case LaneTypes::ints:
      return is_int(t);
    case LaneTypes::all10:
      return is_int(t) || real;
    case LaneTypes::all12:
      return is_int(t) || real || half;
    case LaneTypes::signed10:
      return is_signed_int(t) || real;
    case LaneTypes::wide:
      return t == DType::i32 || t == DType::i64 || real;
    default:
      return real;
  }
}

std::string_view name_of(Compare c) {
  constexpr std::string_view names[] = {"eq", "ne",  "lt",  "le",  "gt",
                                        "ge", "ltu", "leu", "gtu", "geu"};
  return names[static_cast<size_t>(c)];
}

std::string_view name_of(FenceScope s) {
  constexpr std::string_view names[] = {"thread", "block", "device", "system"};
  return names[static_cast<size_t>(s)];
}

std::string_view name_of(LaneFault f) { return fault_names[static_cast<size_t>(f)]; }

LaneError::LaneError(LaneFault fault, const std::string& message)
    : Error(code_of(fault), fmt::format("{}: {}", name_of(fault), message)), fault_(fault) {}

uint32_t LaneProgram::label(std::string_view name) {
  for (size_t k = 0; k < labels.size(); ++k)
    if (labels[k].name == name) return static_cast<uint32_t>(k);
  labels.push_back({std::string(name), undefined_target});
  return static_cast<uint32_t>(labels.size() - 1);
}

void LaneProgram::place(std::string_view name) {
  LaneLabel& l = labels[label(name)];
  if (l.target != undefined_target)
    lane_fail(LaneFault::duplicate_label, "\"{}\" at {} stands at {} already", name, instrs.size(),
              l.target);
  l.target = static_cast<uint32_t>(instrs.size());
}

}  // namespace hologram::atlas

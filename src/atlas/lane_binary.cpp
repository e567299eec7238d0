// atlas/lane_binary.cpp: binary form of lane programs.
//
// Instructions are named in a table of mnemonics at the front, so that files outlive a renumbering
// of lane.def.
#include <array>

#include "atlas/container.h"
#include "atlas/lane.h"
#include "atlas/limits.h"
#include "base/bytes.h"

namespace hologram::atlas {
namespace {

using Role = LaneOperand::Role;

void write_address(ByteWriter& out, const LaneAddress& a) {
  out.byte(static_cast<uint8_t>(a.kind));
  switch (a.kind) {
    case LaneAddress::Kind::none:
      break;
    case LaneAddress::Kind::buffer:
      out.uint(a.handle);
      out.uint(a.offset);
      break;
    case LaneAddress::Kind::phi:
      out.byte(a.a);
      out.byte(a.b);
      out.byte(a.c);
      break;
    case LaneAddress::Kind::indirect:
      out.byte(a.a);
      out.sint(static_cast<int64_t>(a.offset));
      break;
    case LaneAddress::Kind::computed:
      out.byte(a.a);
      out.byte(a.b);
  }
}

LaneAddress read_address(ByteReader& in) {
  LaneAddress a;
  uint8_t kind = in.byte();
  if (kind > static_cast<uint8_t>(LaneAddress::Kind::computed)) in.error("an unknown address form");
  a.kind = static_cast<LaneAddress::Kind>(kind);
  switch (a.kind) {
    case LaneAddress::Kind::none:
      break;
    case LaneAddress::Kind::buffer:
      a.handle = in.uint();
      a.offset = in.uint();
      break;
    case LaneAddress::Kind::phi:
      a.a = in.byte();
      a.b = in.byte();
      a.c = in.byte();
      break;
    case LaneAddress::Kind::indirect:
      a.a = in.byte();
      a.offset = static_cast<uint64_t>(in.sint());
      break;
    case LaneAddress::Kind::computed:
      a.a = in.byte();
      a.b = in.byte();
  }
  return a;
}

void write_instruction(ByteWriter& out, const LaneInstr& i) {
  const LaneOpInfo& row = info(i.op);
  if (row.types != LaneTypes::none) out.byte(static_cast<uint8_t>(i.type));
  if (i.op == LaneOp::cvt) out.byte(static_cast<uint8_t>(i.from));
  if (i.op == LaneOp::set || i.op == LaneOp::memfence || i.op == LaneOp::bra) out.byte(i.variant);
  size_t reg = 0;
  if (i.op == LaneOp::bra && i.variant) out.byte(i.regs[0]);
  for (const LaneOperand& o : row.operands) switch (o.role) {
      case Role::address:
        write_address(out, i.address);
        break;
      case Role::immediate:
        out.uint(i.immediate);
        break;
      case Role::label:
        out.uint(i.label);
        break;
      case Role::range:
        out.byte(i.regs[reg++]);
        out.uint(i.immediate);
        break;
      default:
        out.byte(i.regs[reg++]);
    }
}

DType read_type(ByteReader& in) {
  uint8_t t = in.byte();
  if (t >= num_dtypes) in.error("an unknown type");
  return static_cast<DType>(t);
}

LaneInstr read_instruction(ByteReader& in, LaneOp op) {
  LaneInstr i{.op = op, .address = {}};
  const LaneOpInfo& row = info(op);
  if (row.types != LaneTypes::none) i.type = read_type(in);
  if (op == LaneOp::cvt) i.from = read_type(in);
  if (op == LaneOp::set || op == LaneOp::memfence || op == LaneOp::bra) i.variant = in.byte();
  size_t reg = 0;
  if (op == LaneOp::bra && i.variant) i.regs[0] = in.byte();
  for (const LaneOperand& o : row.operands) switch (o.role) {
      case Role::address:
        i.address = read_address(in);
        break;
      case Role::immediate:
        i.immediate = in.uint();
        break;
      case Role::label:
        i.label = static_cast<uint32_t>(in.uint(limits::labels));
        break;
      case Role::range:
        i.regs[reg++] = in.byte();
        i.immediate = in.uint();
        break;
      default:
        i.regs[reg++] = in.byte();
    }
  return i;
}

}  // namespace

std::string encode(const LaneProgram& program) {
  check_structure(program);
  ByteWriter out, code;
  std::array<int, num_lane_ops> numbers;
  numbers.fill(-1);
  std::vector<LaneOp> used;
  for (const LaneInstr& i : program.instrs) {
    int& n = numbers[static_cast<size_t>(i.op)];
    if (n < 0) {
      n = static_cast<int>(used.size());
      used.push_back(i.op);
    }
    code.uint(static_cast<uint64_t>(n));
    write_instruction(code, i);
  }
  out.uint(used.size());
  for (LaneOp op : used) out.string(info(op).name);
  out.uint(program.labels.size());
  for (const LaneLabel& l : program.labels) {
    out.string(l.name);
    out.uint(l.target == undefined_target ? 0 : uint64_t{l.target} + 1);
  }
  out.uint(program.instrs.size());
  return seal(Layer::lane, out.take() + code.take());
}

LaneProgram decode_lane(std::string_view bytes) {
  ByteReader in(unseal(Layer::lane, bytes), program_bytes);
  LaneProgram p;
  std::vector<LaneOp> used;
  size_t ops = in.count(num_lane_ops);
  for (size_t k = 0; k < ops; ++k) {
    std::string_view name = in.string(64);
    int found = -1;
    for (int o = 0; o < num_lane_ops; ++o)
      if (info(static_cast<LaneOp>(o)).name == name) found = o;
    if (found < 0) in.error("an unknown instruction");
    used.push_back(static_cast<LaneOp>(found));
  }
  size_t labels = in.count(limits::labels);
  for (size_t k = 0; k < labels; ++k) {
    LaneLabel l{std::string(in.string(limits::label_length))};
    uint64_t target = in.uint(limits::lane_instructions + 1);
    if (target > 0) l.target = static_cast<uint32_t>(target - 1);
    p.labels.push_back(std::move(l));
  }
  size_t count = in.count(limits::lane_instructions);
  for (size_t k = 0; k < count; ++k) {
    uint64_t n = in.uint();
    if (n >= used.size()) in.error("an unknown instruction");
    p.instrs.push_back(read_instruction(in, used[n]));
  }
  if (!in.at_end()) in.error("bytes after the program");
  return p;
}

Fingerprint fingerprint(const LaneProgram& program) {
  return hologram::fingerprint(std::string_view(encode(program)));
}

AnyProgram decode_any(std::string_view bytes) {
  if (layer_of(bytes) == Layer::lane) return decode_lane(bytes);
  return decode(bytes);
}

bool is_binary(std::string_view bytes) { return bytes.substr(0, 5) == "ATLAS"; }

}  // namespace hologram::atlas

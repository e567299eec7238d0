// tests/atlas/lanes.h: lane programs from text, run or refused.
#pragma once

#include "atlas/container.h"
#include "interp/lane.h"
#include "support/test.h"

namespace hologram::test {

using namespace atlas;
using interp::LaneLaunch;
using interp::LaneMemory;

inline constexpr DType all12[] = {DType::i8,  DType::i16, DType::i32, DType::i64,  DType::u8,  DType::u16,
                                  DType::u32, DType::u64, DType::f16, DType::bf16, DType::f32, DType::f64};

inline LaneProgram lane(const std::string& text) { return assemble_lane("atlas lane 1\n" + text); }

template <class T>
std::span<std::byte> bytes(std::vector<T>& v) {
  return std::as_writable_bytes(std::span(v));
}

// The fault's name, or "" if `f` throws none.
template <class F>
std::string fault(F f) {
  try {
    f();
    return "";
  } catch (const LaneError& e) {
    EXPECT_TRUE(std::string_view(e.what()).starts_with(name_of(e.fault()))) << e.what();
    return std::string(name_of(e.fault()));
  }
}

inline std::string verify_fault(const std::string& text) {
  LaneProgram p = lane(text);
  return fault([&] { verify(p); });
}

inline std::string run_fault(const std::string& text, std::vector<uint64_t> words = std::vector<uint64_t>(16), LaneLaunch launch = {}) {
  LaneProgram p = lane(text);
  return fault([&] {
    LaneMemory m;
    m.buffers = {bytes(words)};
    interp::run(p, launch, m);
  });
}

// The operands of `op` in text, with registers r0 (written), r1, r2, r3 (read); "" for what has no such form.
inline std::string instruction_text(LaneOp op, DType type, std::string_view variant = "") {
  const LaneOpInfo& row = info(op);
  std::string out(row.mnemonic);
  out += variant;
  if (row.types != LaneTypes::none) out += fmt::format(".{}", hologram::name_of(type));
  if (op == LaneOp::cvt) out += fmt::format(".{}", hologram::name_of(type));
  int read = 1;
  bool first = true;
  for (const LaneOperand& o : row.operands) {
    out += first ? " " : ", ";
    first = false;
    switch (o.role) {
      case LaneOperand::Role::address:
        out += op == LaneOp::lds || op == LaneOp::sts ? "[buf0 + 0]" : "[buf1 + 0]";
        break;
      case LaneOperand::Role::immediate:
        out += "1";
        break;
      case LaneOperand::Role::label:
        out += "@end";
        break;
      case LaneOperand::Role::range:
        out += "r1, 2";
        break;
      case LaneOperand::Role::written:
        out += o.of == LaneOperand::Of::predicate ? "p0" : "r0";
        break;
      default:
        out += o.of == LaneOperand::Of::predicate ? "p0" : fmt::format("r{}", read++);
    }
  }
  return out;
}

}  // namespace hologram::test

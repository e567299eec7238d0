// tests/fuzz/lane_run.h: what must hold for any lane program that a reader gave.
#pragma once

#include <vector>

#include "fuzz/input.h"
#include "interp/lane.h"

namespace hologram::test {

/// Printing and encoding agree; it runs without type faults if it verifies, and without crashes if not.
inline void check_lane(const atlas::LaneProgram& p) {
  bool verified = false;
  try {
    check_structure(p);
  } catch (const Error& e) {
    if (e.code() == ErrorCode::internal) std::abort();
    return;
  }
  std::string text = disassemble(p), bytes = encode(p);
  if (disassemble(atlas::assemble_lane(text)) != text) std::abort();
  if (atlas::decode_lane(bytes) != p || encode(atlas::decode_lane(bytes)) != bytes) std::abort();
  try {
    verify(p);
    verified = true;
  } catch (const atlas::LaneError&) {
  }
  std::vector<std::byte> a(64), b(64), boundary(atlas::boundary_bytes);
  interp::LaneMemory memory;
  memory.buffers = {a, b};
  memory.boundary = boundary;
  interp::LaneLaunch launch;
  launch.grid.x = 2;
  launch.block = {2, 2, 1};
  launch.shared_bytes = 32;
  launch.max_steps = 3000;
  launch.max_memory = 1 << 20;
  try {
    interp::run(p, launch, memory);
  } catch (const atlas::LaneError& e) {
    using atlas::LaneFault;
    bool types = e.fault() == LaneFault::type_mismatch || e.fault() == LaneFault::uninitialized_register ||
                 e.fault() == LaneFault::uninitialized_predicate;
    bool selects = false;  // the verifier lets the side of a sel that is not read be uninitialised
    for (const atlas::LaneInstr& i : p.instrs) selects = selects || i.op == atlas::LaneOp::sel;
    if (verified && types && !selects) std::abort();
  }
}

}  // namespace hologram::test

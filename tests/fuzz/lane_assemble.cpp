// tests/fuzz/lane_assemble.cpp: any text is a lane program or an Error.
#include "fuzz/lane_run.h"

HOLOGRAM_FUZZ(text) {
  using namespace hologram;
  if (auto p = test::read_or(ErrorCode::invalid_argument, [&] { return atlas::assemble_lane(text); })) test::check_lane(*p);
}

// tests/fuzz/lane_assemble.cpp: any text is a lane program or an Error.
#include "fuzz/lane_run.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hologram;
  atlas::LaneProgram p;
  try {
    p = atlas::assemble_lane({reinterpret_cast<const char*>(data), size});
  } catch (const Error& e) {
    if (e.code() != ErrorCode::invalid_argument) std::abort();
    return 0;
  }
  test::check_lane(p);
  return 0;
}

// tests/fuzz/lane_decode.cpp: any payload behind a sound header is a lane program or Error(corrupt).
#include "atlas/container.h"
#include "fuzz/lane_run.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hologram;
  std::string_view payload(reinterpret_cast<const char*>(data), size);
  atlas::LaneProgram p;
  try {
    p = atlas::decode_lane(atlas::seal(atlas::Layer::lane, payload));
  } catch (const Error& e) {
    if (e.code() != ErrorCode::corrupt) std::abort();
    return 0;
  }
  test::check_lane(p);
  return 0;
}

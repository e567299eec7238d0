// tests/fuzz/lane_decode.cpp: any payload behind a sound header is a lane program or Error(corrupt).
#include "atlas/container.h"
#include "fuzz/lane_run.h"

HOLOGRAM_FUZZ(payload) {
  using namespace hologram;
  const std::string sealed = atlas::seal(atlas::Layer::lane, payload);
  if (auto p = test::read_or(ErrorCode::corrupt, [&] { return atlas::decode_lane(sealed); })) test::check_lane(*p);
}

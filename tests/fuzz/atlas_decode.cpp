// tests/fuzz/atlas_decode.cpp: any payload behind a sound header is a block program or Error(corrupt).
#include "atlas/container.h"
#include "fuzz/block_run.h"

HOLOGRAM_FUZZ(payload) {
  using namespace hologram;
  const std::string sealed = atlas::seal(atlas::Layer::block, payload);
  if (auto p = test::read_or(ErrorCode::corrupt, [&] { return atlas::decode(sealed); })) test::check_block(*p);
}

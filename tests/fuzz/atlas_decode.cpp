// tests/fuzz/atlas_decode.cpp: any payload behind a sound header is a block program or Error(corrupt).
#include "atlas/container.h"
#include "fuzz/block_run.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hologram;
  std::string_view payload(reinterpret_cast<const char*>(data), size);
  atlas::Program p;
  try {
    p = atlas::decode(atlas::seal(atlas::Layer::block, payload));
  } catch (const Error& e) {
    if (e.code() != ErrorCode::corrupt) std::abort();
    return 0;
  }
  test::check_block(p);
  return 0;
}

// tests/fuzz/atlas_assemble.cpp: any text is a block program or an Error.
#include "fuzz/block_run.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hologram;
  atlas::Program p;
  try {
    p = atlas::assemble({reinterpret_cast<const char*>(data), size});
  } catch (const Error& e) {
    if (e.code() != ErrorCode::invalid_argument) std::abort();
    return 0;
  }
  test::check_block(p);
  return 0;
}

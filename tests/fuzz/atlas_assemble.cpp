// tests/fuzz/atlas_assemble.cpp: any text is a block program or an Error.
#include "fuzz/block_run.h"

HOLOGRAM_FUZZ(text) {
  using namespace hologram;
  if (auto p = test::read_or(ErrorCode::invalid_argument, [&] { return atlas::assemble(text); })) test::check_block(*p);
}

// tests/fuzz/stored_plan.cpp: any bytes are a stored plan or Error(corrupt); what is read is written back to the same plan.
#include "fuzz/input.h"
#include "schedule/binary.h"

HOLOGRAM_FUZZ(text) {
  using namespace hologram;
  auto written = [](std::string_view bytes) {
    ByteReader in(bytes, "stored plan");
    ByteWriter out;
    schedule::encode(out, schedule::decode_plan(in));
    return out.take();
  };
  const auto once = test::read_or(ErrorCode::corrupt, [&] { return written(text); });
  if (once && written(*once) != *once) std::abort();
}

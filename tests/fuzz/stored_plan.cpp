// tests/fuzz/stored_plan.cpp: any bytes are a stored plan or Error(corrupt); what is read is written back to the same plan.
#include <cstdlib>

#include "base/error.h"
#include "schedule/binary.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hologram;
  ByteReader in({reinterpret_cast<const char*>(data), size}, "stored plan");
  try {
    const schedule::Plan plan = schedule::decode_plan(in);
    ByteWriter once, twice;
    schedule::encode(once, plan);
    const std::string bytes = once.take();
    ByteReader again(bytes, "stored plan");
    schedule::encode(twice, schedule::decode_plan(again));
    if (twice.take() != bytes) std::abort();
  } catch (const Error& e) {
    if (e.code() != ErrorCode::corrupt) std::abort();
  }
  return 0;
}

// tests/fuzz/ir_parse.cpp: any text is a graph or an Error; what parses prints, verifies, and canonicalises for good.
#include <cstdlib>
#include <string_view>

#include "canon/canon.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hologram;
  ir::Graph graph;
  try {
    ir::parse({reinterpret_cast<const char*>(data), size}, graph);
  } catch (const Error&) {
    return 0;
  }
  verify(graph);
  ir::Graph back;
  ir::parse(print(graph), back);
  if (fingerprint(back) != fingerprint(graph)) std::abort();
  // Rules may meet sizes that overflow; that is an Error, too.
  try {
    ir::Graph once, twice;
    canon::Report first, second;
    canonicalize(graph, once, first);
    verify(once);
    canonicalize(once, twice, second);
    if (!first.refused.empty() || !second.fired.empty()) std::abort();
  } catch (const Error& e) {
    if (e.code() == ErrorCode::internal) std::abort();
  }
  return 0;
}

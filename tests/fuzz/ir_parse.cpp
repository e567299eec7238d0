// tests/fuzz/ir_parse.cpp: any text is a graph or an Error; what parses prints, verifies, and canonicalises for good.
#include "canon/canon.h"
#include "fuzz/input.h"

HOLOGRAM_FUZZ(text) {
  using namespace hologram;
  ir::Graph graph;
  if (!test::read_or(ErrorCode::invalid_argument, [&] { return ir::parse(text, graph), true; })) return;
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
}

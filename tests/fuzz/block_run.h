// tests/fuzz/block_run.h: what must hold for any block program that a reader gave.
#pragma once

#include <vector>

#include "atlas/walk.h"
#include "fuzz/input.h"
#include "interp/interp.h"

namespace hologram::test {

/// Runs a verified program on small sizes, if it is small then. Errors are fine, crashes are not.
inline void run_small(atlas::Program p) {
  std::vector<int64_t> symbols(static_cast<size_t>(p.num_symbols), 3);
  const auto& axes = std::visit(
      [](auto& b) -> const auto& { return b.axes; }, p.block);
  int64_t points = 1, bytes = 0;
  for (const atlas::Axis& a : axes) {
    if (a.extent.has_axes()) return;
    int64_t n = a.extent.eval(symbols);
    if (n > 64 || n < 0 || (points *= std::max<int64_t>(n, 1)) > 4096) return;
  }
  std::vector<std::vector<uint64_t>> memory;
  std::vector<void*> bufs;
  for (const atlas::Buffer& b : p.buffers) {
    int64_t n = b.extent.eval(symbols);
    if (n < 0 || n > 4096 || (bytes += n * 8) > 1 << 20) return;
    if (b.access == atlas::Access::scratch) continue;
    memory.emplace_back(static_cast<size_t>(n));
    bufs.push_back(memory.back().data());
  }
  size_t instrs = 0;
  atlas::for_each_body(p, [&](const atlas::Body& b) { instrs += b.instrs.size(); });
  if (instrs > 1000) return;
  atlas::expand_math(p);
  std::atomic<int32_t> sticky = 0;
  interp::run(p, bufs.data(), symbols.data(), &sticky);
}

/// A program from either reader: printing and encoding agree, and if it verifies it runs.
inline void check_block(const atlas::Program& p) {
  std::string text, bytes;
  try {
    text = disassemble(p);
    bytes = encode(p);
    if (disassemble(atlas::assemble(text)) != text) std::abort();
    if (encode(atlas::decode(bytes)) != bytes) std::abort();
    verify(p);
  } catch (const Error& e) {
    if (e.code() == ErrorCode::internal) std::abort();
    return;
  }
  try {
    run_small(p);
  } catch (const Error&) {
    // An access outside its buffer that the verifier could not see.
  }
}

}  // namespace hologram::test

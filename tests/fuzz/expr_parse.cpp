// tests/fuzz/expr_parse.cpp: any text is an expression or an Error; what parses prints and parses back.
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/expr.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hologram;
  auto extent = [](Atom::Kind, int id) { return id % 2 ? Expr(8) : Expr::symbol(id); };
  try {
    Expr e = parse_expr({reinterpret_cast<const char*>(data), size}, extent);
    static const std::vector<int64_t> symbols(1 << 16, 5), axes(1 << 16, 2);
    int64_t value = e.eval(symbols, axes, axes);
    Expr back = parse_expr(e.str(), extent);
    if (back != e || back.eval(symbols, axes, axes) != value) std::abort();
    provably_nonnegative(e);
  } catch (const Error&) {
  }
  return 0;
}

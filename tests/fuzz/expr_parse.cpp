// tests/fuzz/expr_parse.cpp: any text is an expression or an Error; what parses prints and parses back.
#include <vector>

#include "base/expr.h"
#include "fuzz/input.h"

HOLOGRAM_FUZZ(text) {
  using namespace hologram;
  auto extent = [](Atom::Kind, int id) { return id % 2 ? Expr(8) : Expr::symbol(id); };
  try {
    Expr e = parse_expr(text, extent);
    static const std::vector<int64_t> symbols(1 << 16, 5), axes(1 << 16, 2);
    int64_t value = e.eval(symbols, axes, axes);
    Expr back = parse_expr(e.str(), extent);
    if (back != e || back.hash() != e.hash() || back.eval(symbols, axes, axes) != value) std::abort();
    provably_nonnegative(e);
  } catch (const Error&) {
  }
}

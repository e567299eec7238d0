// base/expr_format.h: expressions and shapes in messages, as text that is made where a message is.
#pragma once

#include <fmt/format.h>

#include "base/expr.h"

template <>
struct fmt::formatter<hologram::Expr> : fmt::formatter<std::string_view> {
  auto format(const hologram::Expr& e, format_context& context) const {
    return fmt::formatter<std::string_view>::format(e.str(), context);
  }
};

template <>
struct fmt::formatter<hologram::Shape> : fmt::formatter<std::string_view> {
  auto format(const hologram::Shape& shape, format_context& context) const {
    return fmt::formatter<std::string_view>::format(str(shape), context);
  }
};

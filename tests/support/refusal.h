// tests/support/refusal.h: what a call throws.
#pragma once

#include "base/error.h"
#include "support/test.h"

namespace hologram::test {

/// The words of the Error that `f` throws, whose code is to be this one; "" where it throws none.
template <class F>
std::string refusal(F&& f, ErrorCode code = ErrorCode::invalid_argument) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.what();
  }
  return "";
}

}  // namespace hologram::test

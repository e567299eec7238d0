// tests/support/sanitized.h: whether a sanitizer with memory of its own is built in.
#pragma once

namespace hologram::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;  // freed memory stays with it: growth says nothing
#else
inline constexpr bool sanitized = false;
#endif

}  // namespace hologram::test

// base/error.h: the one exception type of the library and its codes.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace hologram {

/// What kind of failure an Error reports. The C ABI hands out the same numbers.
enum class ErrorCode : int {
  ok = 0,
  invalid_argument = 1,  ///< The user's mistake: names the function, the argument, the expectation.
  out_of_memory = 2,
  not_found = 3,
  unsupported = 4,  ///< Well-formed, but this backend or build cannot do it.
  unavailable = 5,  ///< A device or service that is absent on this machine.
  corrupt = 6,      ///< Stored data that fails its checks.
  io = 7,
  division_by_zero = 8,
  internal = 9,  ///< A fault of ours: says where.
};

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

/// Throws Error(code) with a formatted message.
template <class... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

/// Throws Error(invalid_argument) unless `condition` holds.
template <class... Args>
void require(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) fail(ErrorCode::invalid_argument, format, std::forward<Args>(args)...);
}

/// Throws Error(internal), naming `where`, unless `condition` holds.
inline void check(bool condition, std::string_view where) {
  if (!condition) fail(ErrorCode::internal, "internal error in {}; please report it", where);
}

}  // namespace hologram

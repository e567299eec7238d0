// capi/error.h: statuses and the thread's last message.
#pragma once

#include <exception>
#include <new>
#include <string_view>

#include "base/error.h"
#include "hologram/hologram.h"

namespace hologram::capi {

/// Statuses beyond ErrorCode, as Error codes.
inline constexpr auto busy = static_cast<ErrorCode>(HOLOGRAM_BUSY);
inline constexpr auto short_buffer = static_cast<ErrorCode>(HOLOGRAM_SHORT_BUFFER);

/// Remembers a failure of `function` for this thread; returns the status.
hologram_status fail_with(hologram_status status, std::string_view function,
                          std::string_view message) noexcept;
/// fail_with for the exception being handled.
hologram_status fail_with_current(std::string_view function) noexcept;

hologram_status last_code() noexcept;
const char* last_message() noexcept;
void clear_last() noexcept;

/// Runs `body`; whatever it throws becomes a status.
template <class Body>
hologram_status guarded(std::string_view function, const Body& body) noexcept {
  try {
    body();
    return HOLOGRAM_OK;
  } catch (...) {
    return fail_with_current(function);
  }
}

/// Throws Error(invalid_argument) for a null out-parameter.
template <class T>
void require_out(T* pointer, std::string_view name) {
  require(pointer != nullptr, "{} must not be NULL", name);
}

/// Writes text and its NUL by the (buffer, capacity, needed) convention.
void give_text(std::string_view text, char* out, size_t capacity, size_t* needed);
/// The same for bytes, without a NUL.
void give_bytes(const void* bytes, size_t size, void* out, size_t capacity, size_t* needed);
/// That convention's answer for `size` bytes: whether there are any for the caller to write.
bool has_room(size_t size, const void* out, size_t capacity, size_t* needed);

}  // namespace hologram::capi

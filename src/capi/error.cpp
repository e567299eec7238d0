// capi/error.cpp: statuses and the thread's last message.
#include "capi/error.h"

#include <algorithm>
#include <cstring>

namespace hologram::capi {
namespace {

struct Last {
  hologram_status code = HOLOGRAM_OK;
  char message[1024] = "";
};

thread_local Last last;

}  // namespace

hologram_status fail_with(hologram_status status, std::string_view function,
                          std::string_view message) noexcept {
  last.code = status;
  size_t at = 0;
  for (std::string_view part : {function, std::string_view(": "), message}) {
    const size_t n = std::min(part.size(), sizeof last.message - 1 - at);
    std::memcpy(last.message + at, part.data(), n);
    at += n;
  }
  last.message[at] = '\0';
  return status;
}

hologram_status fail_with_current(std::string_view function) noexcept {
  try {
    throw;
  } catch (const Error& e) {
    return fail_with(static_cast<hologram_status>(e.code()), function, e.what());
  } catch (const std::bad_alloc&) {
    return fail_with(HOLOGRAM_OUT_OF_MEMORY, function, "the system refused memory");
  } catch (const std::exception& e) {
    return fail_with(HOLOGRAM_INTERNAL, function, e.what());
  } catch (...) {
    return fail_with(HOLOGRAM_INTERNAL, function, "an exception of unknown type");
  }
}

hologram_status last_code() noexcept { return last.code; }
const char* last_message() noexcept { return last.message; }
void clear_last() noexcept {
  last.code = HOLOGRAM_OK;
  last.message[0] = '\0';
}

bool has_room(size_t size, const void* out, size_t capacity, size_t* needed) {
  if (needed) *needed = size;
  if (!out && capacity == 0) {
    if (needed) return false;
    fail(ErrorCode::invalid_argument,
         "a NULL buffer asks for the size, so needed must not be NULL");
  }
  require(out != nullptr, "the buffer is NULL but its capacity is {}", capacity);
  if (capacity < size) fail(short_buffer, "{} bytes are needed, the buffer has {}", size, capacity);
  return size != 0;
}

void give_bytes(const void* bytes, size_t size, void* out, size_t capacity, size_t* needed) {
  if (has_room(size, out, capacity, needed)) std::memcpy(out, bytes, size);
}

void give_text(std::string_view text, char* out, size_t capacity, size_t* needed) {
  const std::string terminated(text);
  give_bytes(terminated.c_str(), terminated.size() + 1, out, capacity, needed);
}

}  // namespace hologram::capi

// capi/utility.cpp: version, errors, logging, backends, threads, classes.
#include <array>
#include <atomic>
#include <mutex>

#include "atlas/class_graph.h"
#include "base/notices.h"
#include "base/version.h"
#include "capi/archives.h"
#include "capi/streams.h"

using namespace hologram;
using namespace hologram::capi;

static_assert(HOLOGRAM_VERSION_MAJOR * 1000000 + HOLOGRAM_VERSION_MINOR * 1000 +
                  HOLOGRAM_VERSION_PATCH >=
              0);
static_assert(std::string_view(HOLOGRAM_VERSION) == HOLOGRAM_VERSION_STRING,
              "include/hologram/hologram.h and CMakeLists.txt name the same version");
static_assert(static_cast<int>(ErrorCode::internal) == HOLOGRAM_INTERNAL &&
              static_cast<int>(ErrorCode::division_by_zero) == HOLOGRAM_DIVISION_BY_ZERO);
static_assert(static_cast<int>(DType::f32) == HOLOGRAM_F32 &&
              static_cast<int>(DType::u64) == HOLOGRAM_U64 &&
              static_cast<int>(DType::b8) == HOLOGRAM_B8);

namespace {

constexpr std::array<std::string_view, 6> levels = {"trace", "debug", "info",
                                                    "warn",  "error", "off"};

HandleTable* const every_table[] = {&streams, &events,  &executables, &sessions, &archives,
                                    &tensors, &buffers, &graphs,      &executors};

struct Logging {
  std::mutex mutex;
  hologram_log_function function = nullptr;
  void* context = nullptr;
  std::atomic<size_t> level{3};
};

Logging& logging() {
  static auto* const state = new Logging;
  return *state;
}

void require_class(uint8_t cls) {
  require(cls < host::boundary_classes, "class_index must be 0…95, got {}", cls);
}

}  // namespace

void hologram::capi::log(std::string_view level, const std::string& message) noexcept {
  try {
    Logging& l = logging();
    const auto at =
        static_cast<size_t>(std::find(levels.begin(), levels.end(), level) - levels.begin());
    if (at < l.level.load(std::memory_order_relaxed)) return;
    std::lock_guard lock(l.mutex);
    if (l.function) l.function(l.context, std::string(level).c_str(), message.c_str());
  } catch (...) {  // a log line is not worth a failure
  }
}

void hologram::capi::log_notices() noexcept {
  try {
    {
      Logging& l = logging();
      std::lock_guard lock(l.mutex);
      if (!l.function) return;  // they stay for who logs otherwise
    }
    for (const std::string& text : take_notices()) log("warn", text);
  } catch (...) {
  }
}

extern "C" {

hologram_status hologram_get_version(char* text, size_t capacity, size_t* needed) {
  return guarded(__func__, [&] { give_text(HOLOGRAM_VERSION, text, capacity, needed); });
}

hologram_status hologram_abi_version(uint32_t* version) {
  return guarded(__func__, [&] {
    require_out(version, "version");
    *version = HOLOGRAM_ABI_VERSION;
  });
}

hologram_status hologram_last_error_code(hologram_status* code) {
  if (!code) return HOLOGRAM_INVALID_ARGUMENT;
  *code = last_code();
  return HOLOGRAM_OK;
}

hologram_status hologram_last_error_message(char* text, size_t capacity, size_t* needed) {
  // A failure of this call must not replace the message that was asked for.
  const std::string_view message = last_message();
  if (needed) *needed = message.size() + 1;
  if (!text) return capacity == 0 && needed ? HOLOGRAM_OK : HOLOGRAM_INVALID_ARGUMENT;
  if (capacity < message.size() + 1) return HOLOGRAM_SHORT_BUFFER;
  message.copy(text, message.size());
  text[message.size()] = '\0';
  return HOLOGRAM_OK;
}

const char* hologram_last_error(void) { return last_message(); }

hologram_status hologram_clear_last_error(void) {
  clear_last();
  return HOLOGRAM_OK;
}

const char* hologram_status_name(int32_t status) {
  constexpr const char* names[] = {"HOLOGRAM_OK",
                                   "HOLOGRAM_INVALID_ARGUMENT",
                                   "HOLOGRAM_OUT_OF_MEMORY",
                                   "HOLOGRAM_NOT_FOUND",
                                   "HOLOGRAM_UNSUPPORTED",
                                   "HOLOGRAM_UNAVAILABLE",
                                   "HOLOGRAM_CORRUPT",
                                   "HOLOGRAM_IO",
                                   "HOLOGRAM_DIVISION_BY_ZERO",
                                   "HOLOGRAM_INTERNAL",
                                   "HOLOGRAM_BUSY",
                                   "HOLOGRAM_SHORT_BUFFER"};
  if (status < 0 || static_cast<size_t>(status) >= std::size(names)) return "unknown status";
  return names[status];
}

hologram_status hologram_set_log_callback(hologram_log_function function, void* context) {
  return guarded(__func__, [&] {
    Logging& l = logging();
    std::lock_guard lock(l.mutex);
    l.function = function;
    l.context = context;
  });
}

hologram_status hologram_set_log_level(const char* level) {
  return guarded(__func__, [&] {
    require(level != nullptr, "level must not be NULL");
    auto it = std::find(levels.begin(), levels.end(), std::string_view(level));
    require(it != levels.end(),
            "level \"{:.40}\" is unknown; expected trace, debug, info, warn, error or off", level);
    logging().level.store(static_cast<size_t>(it - levels.begin()));
  });
}

hologram_status hologram_clear_all_registries(void) {
  return guarded(__func__, [&] {
    for (HandleTable* table : every_table) table->clear();
  });
}

hologram_status hologram_live_handles(uint64_t* count) {
  return guarded(__func__, [&] {
    require_out(count, "count");
    uint64_t n = 0;
    for (HandleTable* table : every_table) n += table->live();
    *count = n;
  });
}

hologram_status hologram_backend_is_available(const char* backend, uint8_t* available) {
  return guarded(__func__, [&] {
    require_out(available, "available");
    const ChosenBackend found = backend_of(backend);
    *available = found.backend && found.backend->device_count() > found.device;
  });
}

hologram_status hologram_device_count(const char* backend, uint32_t* count) {
  return guarded(__func__, [&] {
    require_out(count, "count");
    const ChosenBackend found = backend_of(backend);
    *count = found.backend ? static_cast<uint32_t>(found.backend->device_count()) : 0;
  });
}

hologram_status hologram_is_atlas_available(uint8_t* available) {
  return guarded(__func__, [&] {
    require_out(available, "available");
    *available = 1;
  });
}

hologram_status hologram_set_num_threads(uint32_t threads) {
  return guarded(__func__, [&] {
    require(threads <= host::ThreadPool::thread_limit, "threads must be 0…{}, got {}",
            host::ThreadPool::thread_limit, threads);
    set_shared_threads(static_cast<int>(threads));
  });
}

hologram_status hologram_get_num_threads(uint32_t* threads) {
  return guarded(__func__, [&] {
    require_out(threads, "threads");
    *threads = static_cast<uint32_t>(shared_operations()->runtime().threads().num_threads());
  });
}

hologram_status hologram_boundary_pointer(hologram_handle executor, uint8_t class_index,
                                          uint8_t page, uint8_t byte, void** pointer) {
  return guarded(__func__, [&] {
    require_out(pointer, "pointer");
    auto pin = need_executor(executor);
    pin->state->require_host_memory("the boundary pool");
    const size_t offset = host::boundary_offset({class_index, page, byte});
    *pointer = pin->state->memory->boundary().base() + offset;
  });
}

hologram_status hologram_boundary_address(hologram_handle executor, const void* pointer,
                                          uint8_t* class_index, uint8_t* page, uint8_t* byte) {
  return guarded(__func__, [&] {
    require_out(class_index, "class_index");
    require_out(page, "page");
    require_out(byte, "byte");
    auto pin = need_executor(executor);
    pin->state->require_host_memory("the boundary pool");
    auto address = pin->state->memory->boundary().locate(pointer);
    if (!address) fail(ErrorCode::not_found, "the pointer lies outside the boundary pool");
    *class_index = static_cast<uint8_t>(address->cls);
    *page = static_cast<uint8_t>(address->page);
    *byte = static_cast<uint8_t>(address->byte);
  });
}

hologram_status hologram_boundary_free_classes(hologram_handle executor, uint32_t* count) {
  return guarded(__func__, [&] {
    require_out(count, "count");
    const ExecutorState& state = *need_executor(executor)->state;
    *count = state.device() ? 0 : static_cast<uint32_t>(state.memory->boundary().free_classes());
  });
}

hologram_status hologram_class_neighbors(uint8_t class_index, uint8_t* classes, size_t capacity,
                                         size_t* needed) {
  return guarded(__func__, [&] {
    require_class(class_index);
    auto neighbours = atlas::class_neighbours(class_index);
    give_bytes(neighbours.data(), neighbours.size(), classes, capacity, needed);
  });
}

hologram_status hologram_class_mirror(uint8_t class_index, uint8_t* mirror) {
  return guarded(__func__, [&] {
    require_out(mirror, "mirror");
    require_class(class_index);
    *mirror = static_cast<uint8_t>(atlas::class_mirror(class_index));
  });
}

hologram_status hologram_class_modality_mirror(uint8_t class_index, uint8_t* mirror) {
  return guarded(__func__, [&] {
    require_out(mirror, "mirror");
    require_class(class_index);
    const int d = class_index / 8 % 3;  // class = 24 h2 + 8 d + l
    *mirror = static_cast<uint8_t>(class_index + (d == 1 ? 8 : d == 2 ? -8 : 0));
  });
}

hologram_status hologram_class_complement(uint8_t class_index, uint8_t* complement) {
  return guarded(__func__, [&] {
    require_out(complement, "complement");
    require_class(class_index);
    *complement = static_cast<uint8_t>(95 - class_index);
  });
}

}  // extern "C"

// host/forks.h: whether threads that an object started exist in this process.
#pragma once

#include <cstdint>

namespace hologram::host {

/// How many forks this process descends from since the library was first used: threads started at
/// another count are not here.
uint32_t fork_count() noexcept;

}  // namespace hologram::host

// host/forks.h: whether threads that an object started exist in this process.
#pragma once

#include <cstdint>
#include <mutex>

namespace hologram::host {

/// How many forks this process descends from since the library was first used: threads started at
/// another count are not here.
uint32_t fork_count() noexcept;
/// This process does not fork while somebody holds it: for threads that nobody waits for and that
/// take locks of others.
std::unique_lock<std::mutex> no_fork();

}  // namespace hologram::host

// host/context.h: the services that running kernels ask for.
#pragma once

#include "atlas/abi.h"
#include "host/thread_pool.h"

namespace hologram::host {

/// What an Atlas context of ours offers: the pool's threads and memory private to each of them.
/// Kernels flag faults in `sticky`; host calls are refused unless `call_host` is given.
atlas::Context make_context(ThreadPool& threads, std::atomic<int32_t>* sticky,
                            int32_t (*call_host)(const atlas::Context*, int64_t) = nullptr);

/// Work below this runs on the calling thread, in picoseconds: a worker that is awake begins about
/// a microsecond after the call.
inline constexpr int64_t split_work = 4'000'000;
/// What chunks aim at.
inline constexpr int64_t chunk_work = 15'000'000;

/// What each further thread takes of a launch's time until it has begun and all have ended: waking,
/// a claim, a report, the operands' way to its cache.
inline constexpr int64_t joining_work = 250'000;

/// How many of `threads` so much work is shared between: two, and more only while each takes off
/// more than it costs.
int64_t working_threads(int64_t work, int64_t threads);
/// Units per chunk for a range: all of it where it stays on one thread, else a multiple of `grain`.
int64_t chunk_of(int64_t total, int64_t grain, int64_t unit_work, int64_t threads);

}  // namespace hologram::host

// atlas/entry.h: what the function that runs a whole plan and the runtime agree on.
#pragma once

#include <cstdint>

#include "atlas/abi.h"

namespace hologram::atlas {

/// A step of a plan as the entry function sees it.
struct EntryStep {
  int32_t kernel = -1;         ///< number in EntryFrame::kernels, or -1: a call to the host
  int64_t first_buffer = 0;    ///< position of its buffers in EntryFrame::buffers
  int64_t first_argument = 0;  ///< position of its symbols in EntryFrame::arguments
  int64_t num_arguments = 0;
  int32_t cached = -1;  ///< >= 0: runs only when EntryFrame::stale[cached] is not 0
  int32_t group = -1;   ///< >= 0: neighbours of one number may run at the same time
};

/// What one call of an entry function works on. Generated code reads it by offset.
struct EntryFrame {
  const Context* context;
  const void* const* kernels;  ///< by program: what the backend runs; natively a KernelFn
  void* const* buffers;
  const int64_t* arguments;
  const int64_t* totals;  ///< by step: parallel units
  const int64_t* grains;  ///< by step: units per chunk; totals <= grains runs on the calling thread
  const uint8_t* stale;
  void* stream;                  ///< the device's queue that the steps are put on; null: none
  /// StickyError bits of this call. Null: the call ends when its steps are on `stream`, and their
  /// faults stay with the launcher (Launcher::late_faults).
  std::atomic<int32_t>* sticky;
};

/// Runs every step in order; returns 0 or the first nonzero status.
using EntryFn = int32_t (*)(const EntryFrame*);

}  // namespace hologram::atlas

// backend/launcher.h: how the steps of a plan are run.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "atlas/entry.h"
#include "base/expr.h"

namespace hologram {

namespace strips {
class Routine;
}

/// A kernel ready to run.
struct Kernel {
  const void* code = nullptr;        ///< the backend's own: a function, a program
  Expr total;                        ///< parallel units, over the program's symbols
  Expr grain;                        ///< chunk boundaries fall on multiples of this
  Expr unit_work;                    ///< rough cost of one unit on one core, in picoseconds
  std::shared_ptr<const void> keep;  ///< owns the code
  size_t code_bytes = 0;  ///< memory that was taken for the code; 0 where it is part of a file
  /// How many buffers and sizes its steps have to give it, where stored code says so itself.
  struct Takes {
    size_t buffers, sizes;
  };
  std::optional<Takes> takes = {};
  const strips::Routine* routine = nullptr;  ///< in place of code; `keep` owns it
  bool quick = false;                        ///< Backend::quick_kernel made it
};

/// What a launcher computed from sizes alone; good for every call with these sizes.
class Prepared {
 public:
  virtual ~Prepared() = default;
};

/// What one call gives a launcher. Native code reads the EntryFrame alone.
struct CallFrame : atlas::EntryFrame {
  void* workspace = nullptr;  ///< Launcher::workspace_bytes() of the device's memory
};

/// Runs the steps of one plan. Thread-safe.
class Launcher {
 public:
  virtual ~Launcher() = default;
  /// For these values of the programs' symbols (as in EntryFrame::arguments) and this many threads.
  virtual std::unique_ptr<Prepared> prepare(const int64_t* arguments, int threads) const = 0;
  /// Runs every step in order, or puts them on frame.stream; returns 0 or the first status that is
  /// not 0. Fills in what in the frame is the launcher's: kernels, totals, grains. Throws the Error
  /// of a device that refuses a step.
  virtual int32_t run(CallFrame& frame, const Prepared& prepared) const = 0;
  /// Runs the kernel of one step to its end.
  virtual int32_t run_step(CallFrame& frame, const Prepared& prepared, size_t step) const = 0;
  /// Of the device's memory, which a call needs beside its arena.
  virtual size_t workspace_bytes(const Prepared&) const { return 0; }
  /// Whether runs of launches may be handed to the device as one; nothing: where that is likely to
  /// be faster.
  virtual void set_graphs(std::optional<bool>) {}
  /// StickyError bits of frames without `sticky` that have shown up since the last call.
  virtual int32_t late_faults() const { return 0; }
  /// Memory that was taken for code of its own.
  virtual size_t code_bytes() const { return 0; }
};

/// Runs steps in order on the calling thread: `launch(s)` the kernel of step s, the frame's context
/// the calls to the host, each behind `before_host(s)`. Returns the first status that is not 0.
template <class List, class Launch, class BeforeHost>
int32_t walk(const atlas::EntryFrame& frame, const List& steps, const Launch& launch,
             const BeforeHost& before_host) {
  for (size_t s = 0; s < steps.size(); ++s) {
    const atlas::EntryStep& step = steps[s];
    if (step.cached >= 0 && !frame.stale[step.cached]) continue;
    int32_t status = 0;
    if (step.kernel >= 0) {
      status = launch(s);
    } else {
      before_host(s);
      status = frame.context->call_host(frame.context, static_cast<int64_t>(s));
    }
    if (status != 0) return status;
  }
  return 0;
}
template <class List, class Launch>
int32_t walk(const atlas::EntryFrame& frame, const List& steps, const Launch& launch) {
  return walk(frame, steps, launch, [](size_t) {});
}

}  // namespace hologram

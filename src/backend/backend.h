// backend/backend.h: what the runtime asks of a kind of device.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "atlas/entry.h"
#include "atlas/lane_host.h"
#include "atlas/program.h"
#include "base/error.h"

namespace hologram {

/// A kernel ready to run on host memory. Callers put keep.get() into bufs[-1], the place before the
/// first buffer.
struct CompiledKernel {
  atlas::KernelFn function = nullptr;
  Expr total;                        ///< parallel units, over the program's symbols
  Expr grain;                        ///< chunk boundaries fall on multiples of this
  Expr unit_work;                    ///< rough cost of one unit on one core, in picoseconds
  std::shared_ptr<const void> keep;  ///< owns the code
};

/// An entry function ready to run.
struct CompiledEntry {
  atlas::EntryFn function = nullptr;
  std::shared_ptr<const void> keep;  ///< owns the code
};

/// A lane program ready to run. Thread-safe.
class LaneKernel {
 public:
  virtual ~LaneKernel() = default;
  /// Runs a launch to its end, in the order that atlas::LaneHost states; every backend leaves the
  /// same bits, and throws the same atlas::LaneError.
  virtual void run(const atlas::LaneLaunch& launch, atlas::LaneMemory& memory) const = 0;
};

/// A kind of device that compiles Atlas programs. Methods may be called from several threads at
/// once.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;
  /// Names the instruction set, features and generator version: with a program's fingerprint it
  /// keys machine code.
  virtual std::string code_key() const = 0;
  /// Whether kernels walk the program each time instead of running machine code.
  virtual bool interprets() const { return false; }
  /// Columns per packed panel of a product's right operand; 0: this backend does not want packing.
  virtual int panel_width(DType operand) const = 0;
  /// Values of k that lie side by side in such a panel, for sums in `acc`.
  virtual int panel_group(DType operand, DType acc) const {
    (void)operand, (void)acc;
    return 1;
  }
  /// ProductBlock::terms for a product without bodies whose right operand will be packed, once if
  /// it keeps its content.
  virtual int terms(const atlas::ProductBlock& product, bool packed_once) const {
    (void)product, (void)packed_once;
    return 0;
  }
  /// Machine code for a verified program (before expand_math), in a form that can be stored; see
  /// load().
  virtual std::string compile(const atlas::Program& program) const = 0;
  /// Machine code of the function that runs these steps one after the other, or nothing when this
  /// backend has none and the runtime must walk them itself.
  virtual std::optional<std::string> compile_entry(std::span<const atlas::EntryStep>) const {
    return std::nullopt;
  }
  /// Makes what compile_entry() returned executable. Throws Error(corrupt) for anything else.
  virtual CompiledEntry load_entry(std::string_view) const {
    fail(ErrorCode::internal, "{}: this backend makes no entry functions", name());
  }
  /// The kernel for a program (before expand_math) that was compiled with the library, or nothing.
  virtual std::optional<CompiledKernel> builtin(const atlas::Program&, const Fingerprint&) const {
    return std::nullopt;
  }
  /// Verifies and compiles a lane program. Throws atlas::LaneError.
  virtual std::unique_ptr<LaneKernel> compile_lanes(const atlas::LaneProgram& program) const = 0;
  /// Machine code for a lane program in a form that can be stored, or nothing where compile_lanes()
  /// makes none. Throws atlas::LaneError.
  virtual std::optional<std::string> lane_code(const atlas::LaneProgram&) const {
    return std::nullopt;
  }
  /// Makes what lane_code() returned for the program runnable. Throws Error(corrupt) for anything
  /// else.
  virtual std::unique_ptr<LaneKernel> load_lanes(const atlas::LaneProgram&,
                                                 std::string_view) const {
    fail(ErrorCode::internal, "{}: lane programs have no machine code here", name());
  }
  /// Makes what compile() returned executable. Throws Error(corrupt) for anything else.
  virtual CompiledKernel load(const atlas::Program& program, std::string_view code) const = 0;
};

}  // namespace hologram

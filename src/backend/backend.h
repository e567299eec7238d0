// backend/backend.h: what the runtime asks of a kind of device.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "atlas/lane_host.h"
#include "atlas/program.h"
#include "backend/code_image.h"
#include "backend/launcher.h"
#include "backend/memory.h"
#include "base/error.h"
#include "schedule/machine.h"

namespace hologram {

/// A lane program ready to run. Thread-safe.
class LaneKernel {
 public:
  virtual ~LaneKernel() = default;
  /// Runs a launch to its end, in the order that atlas::LaneHost states; every backend leaves the
  /// same bits, and throws the same atlas::LaneError.
  virtual void run(const atlas::LaneLaunch& launch, atlas::LaneMemory& memory) const = 0;
  /// Memory that was taken for its code.
  virtual size_t code_bytes() const { return 0; }
};

/// Where a backend may keep code between processes, by content. Thread-safe; never throws.
class CodeStore {
 public:
  virtual ~CodeStore() = default;
  virtual std::optional<std::string> get(const Fingerprint& key) noexcept = 0;
  virtual void put(const Fingerprint& key, std::string_view code) noexcept = 0;
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
  /// The memory that kernels work on; null: the host's.
  virtual Memory* memory() const { return nullptr; }
  /// Whether kernels walk the program each time instead of running machine code.
  virtual bool interprets() const { return false; }
  /// Why results are not the same bits on every machine; empty: where that is asked for, they are.
  virtual std::string_view irreproducible() const { return {}; }
  /// What plans for this backend may rely on.
  virtual const schedule::Machine& machine() const = 0;

  /// Code for a verified program (before expand_math), in a form that can be stored; see load().
  virtual std::string compile(const atlas::Program& program) const = 0;
  /// A kernel that is there in much less time and computes the same bits more slowly, for
  /// quick_launcher(); nothing where that is no gain. One with a routine was not compiled at all.
  virtual std::optional<Kernel> quick_kernel(const atlas::Program&) const { return std::nullopt; }
  /// Makes what compile() returned a kernel. Throws Error(corrupt) for anything else. A program
  /// without buffers: `code` is one kernel's piece of what image() laid out, and says all that is
  /// needed of its program; asked of devices' backends alone.
  virtual Kernel load(const atlas::Program& program, std::string_view code) const = 0;
  /// The kernel for a program (before expand_math) that was compiled with the library, or nothing.
  virtual std::optional<Kernel> builtin(const atlas::Program&, const Fingerprint&) const {
    return std::nullopt;
  }
  /// A kernel as a function that any thread of this process may call; null where it is none.
  virtual atlas::KernelFn host_function(const Kernel&) const { return nullptr; }
  /// What runs these steps, whose kernels are numbered in `kernels`. `store` may hold code for it.
  virtual std::unique_ptr<Launcher> launcher(std::span<const atlas::EntryStep> steps,
                                             std::span<const std::shared_ptr<const Kernel>> kernels,
                                             CodeStore& store) const = 0;
  /// The same without compiling anything, for calls that take a little longer; null: launcher()
  /// compiles nothing.
  virtual std::unique_ptr<Launcher> quick_launcher(
      std::span<const atlas::EntryStep>, std::span<const std::shared_ptr<const Kernel>>) const {
    return nullptr;
  }
  /// How often things happened so far that statistics name, in a fixed order.
  virtual std::vector<std::pair<std::string_view, uint64_t>> counts() const { return {}; }
  /// What so far went another way than it should, and was no error: each in words, once.
  virtual std::vector<std::string> notes() const { return {}; }
  /// The device and what compiles for it, in words for people, and notes() as further lines; empty:
  /// nothing beyond its name.
  virtual std::string describe() const { return {}; }
  /// The machine that its code is for, by instruction set and features: what one process compiled
  /// runs in another whose backend says the same, and computes the same bits. Empty: code does not
  /// leave the process.
  virtual std::string target() const { return {}; }
  /// Backends that compile for machines of this kind, whether or not code for them runs here: those
  /// of instruction sets `names` (of all that programs for this kind are usually shipped for, if it
  /// is empty), several where a set has variants. Throws Error(invalid_argument) for an unknown
  /// name, Error(unsupported) for one whose code cannot leave the process.
  virtual std::vector<std::unique_ptr<Backend>> family(std::span<const std::string> names) const {
    if (!names.empty()) fail(ErrorCode::unsupported, "{}: no code for \"{}\"", name(), names[0]);
    return {};
  }
  /// Lays out what compile() returned for these programs and a function that runs these steps.
  virtual CodeImage image(std::span<const atlas::Program>, std::span<const std::string>,
                          std::span<const atlas::EntryStep>) const {
    fail(ErrorCode::internal, "{}: code does not leave the process", name());
  }
  /// One stage of a program's way to code as text, "llvm" or "asm" for instance; nothing for a
  /// stage that this backend lacks.
  virtual std::optional<std::string> dump(const atlas::Program&, std::string_view) const {
    return std::nullopt;
  }

  /// Verifies and compiles a lane program. Throws atlas::LaneError.
  virtual std::unique_ptr<LaneKernel> compile_lanes(const atlas::LaneProgram& program) const = 0;
  /// Code for a lane program in a form that can be stored, or nothing where compile_lanes() makes
  /// none. Throws atlas::LaneError.
  virtual std::optional<std::string> lane_code(const atlas::LaneProgram&) const {
    return std::nullopt;
  }
  /// Makes what lane_code() returned for the program runnable. Throws Error(corrupt) for anything
  /// else.
  virtual std::unique_ptr<LaneKernel> load_lanes(const atlas::LaneProgram&,
                                                 std::string_view) const {
    fail(ErrorCode::internal, "{}: lane programs have no machine code here", name());
  }
};

}  // namespace hologram

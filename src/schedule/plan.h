// schedule/plan.h: what to run: kernels, host calls and the buffers between them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "atlas/program.h"
#include "ir/graph.h"
#include "schedule/machine.h"

namespace hologram::schedule {

struct Options {
  bool reproducible = false;
  bool fast = false;
  /// The machine that will run the plan; it outlives the planning.
  const Machine* machine = &plain_machine();
  /// Whether parameter `index` keeps its content from call to call (weights): what is computed from
  /// it alone may be kept.
  std::function<bool(int index)> is_static = [](int) { return false; };
};

enum class SlotKind : uint8_t {
  input,   ///< parameter `index`
  output,  ///< output `index`, allocated for the call
  arena,   ///< intermediate at byte `offset` of the call's arena
  host,    ///< made by the host framework in a host call
  cached,  ///< computed from static parameters alone: kept between calls, `index` numbers the cache
           ///< entries
};

/// One buffer of the plan.
struct Slot {
  SlotKind kind;
  DType dtype;
  Shape shape;
  Shape strides;  ///< in elements
  int index = -1;
  Expr bytes = 0;         ///< span of the buffer
  Expr offset = 0;        ///< arena: byte offset, a multiple of 64
  bool boundary = false;  ///< arena: lies in the boundary pool's classes
  std::string name = {};  ///< for pictures: the op that makes it
};

enum class StepKind : uint8_t { kernel, host_call };

struct Step {
  StepKind kind;
  // kernel
  int program = -1;
  std::vector<int> buffers = {};   ///< slot per program buffer that is not scratch
  std::vector<Expr> symbols = {};  ///< value of each program symbol
  int cached = -1;                 ///< >= 0: runs only when cache entry `cached` is stale
  int group = -1;                  ///< >= 0: of neighbours that may run at the same time
  // host call
  int callee = -1;
  std::vector<int> arguments = {};  ///< slots of the operands
  std::vector<int> results = {};    ///< slots of the results, -1 where unused
  std::vector<Expr> sizes = {};     ///< integer arguments
  // for pictures
  std::string name = {};
  std::vector<int> after = {};  ///< steps whose results this one reads
  /// Nodes of the graph that it computes, but for views; several kernels may compute one together.
  std::vector<uint32_t> nodes = {};
};

struct PlanOutput {
  int slot = -1;
  bool mutation = false;  ///< nothing to return: the step wrote the parameter
};

/// Parameters that a cached slot is computed from: it is stale when one of them has changed.
struct CacheEntry {
  int slot;
  std::vector<int> parameters;
};

struct Plan {
  std::vector<atlas::Program> programs;   ///< distinct ones
  std::vector<Fingerprint> fingerprints;  ///< theirs
  std::vector<Step> steps;
  std::vector<Slot> slots;
  std::vector<CacheEntry> cache;
  std::vector<PlanOutput> outputs;
  int num_symbols = 0;
  int num_parameters = 0;
  Expr arena_bytes = 0;
  int64_t boundary_bytes = 0;  ///< leading part of the arena that the boundary pool's classes hold
  Expr eager_bytes = 0;   ///< what intermediates would take if each op made a tensor of its own
  int canonical_ops = 0;  ///< live nodes that are not leaves
};

/// Turns a canonical graph into a plan of verified programs. Throws Error(unsupported) for what has
/// no lowering.
Plan make_plan(const ir::Graph& graph, const Options& options);

/// Text form for HOLOGRAM_DUMP=plan.
std::string print(const Plan& plan);

}  // namespace hologram::schedule

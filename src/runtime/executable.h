// runtime/executable.h: a compiled graph and how to run it.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/runtime.h"
#include "schedule/plan.h"

namespace hologram::runtime {

struct CompileOptions {
  bool reproducible = false;
  bool fast = false;
  /// By parameter index: content that stays from call to call, so that what is computed from it
  /// alone may be kept.
  std::vector<bool> static_parameters;
  /// Launcher::set_graphs().
  std::optional<bool> graphs = std::nullopt;
  /// Whether calls bring their operands in the host's memory: of a device's backend, copies of
  /// static parameters are then kept there, as entries of the plan's cache with the parameter's own
  /// slot.
  bool host_operands = false;
  /// Kernels that have to be compiled may be slow ones, made quickly, until finish().
  bool quickly = false;
};

/// What compiling did, for stats() and explain().
struct CompileReport {
  std::map<std::string, double> milliseconds;  ///< by stage: canon, schedule, codegen, link
  int ops_before = 0, ops_canonical = 0;
  int kernels = 0;  ///< distinct programs
  int steps = 0;
  int memory_hits = 0, builtin = 0, disk_hits = 0, compiled = 0;
  std::map<std::string, int> rules;  ///< rewrite rules that fired
  /// By step: the operations that it computes, with the node of the graph each was made for.
  std::vector<std::vector<std::pair<std::string_view, uint32_t>>> operations;
};

/// The state of one call in progress: pointers of all slots. Leased from the executable, so that
/// calls may overlap.
struct Frame;

/// How a call reaches the host framework.
class Host {
 public:
  virtual ~Host() = default;
  /// Runs a host step: its operands' pointers are in the frame; sets those of its results. Nonzero
  /// stops the call; the host keeps the reason.
  virtual int32_t call(const schedule::Step& step, Frame& frame) = 0;
};

/// Is told of each step that runs, in order, on the thread that calls.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void begin(const schedule::Step& step) = 0;
  virtual void end() = 0;
};

/// Where results go: memory for output number `index`. Throws Error(out_of_memory).
class Outputs {
 public:
  virtual ~Outputs() = default;
  virtual void* allocate(int index, size_t bytes, Frame& frame) = 0;
  /// Memory of the device for the call's steps, or null: the device's pool has it. Dropped, it may
  /// serve others behind what is on the call's queue.
  virtual std::shared_ptr<void> device_memory(size_t, Frame&) { return nullptr; }
};

/// The machine code of an executable.
struct Code {
  std::vector<std::shared_ptr<const Kernel>> kernels;  ///< by program
  std::unique_ptr<Launcher> launcher;                  ///< runs all steps
};

struct Frame {
  std::vector<void*> slots;        ///< address per plan slot
  std::vector<int64_t> symbols;    ///< value per plan symbol
  std::vector<void*> buffers;      ///< per step: its buffers
  std::vector<int64_t> arguments;  ///< per step: its program's symbols
  std::shared_ptr<const Code> code;
  std::unique_ptr<Prepared> prepared;  ///< by the code's launcher
  Stream stream = nullptr;             ///< the call's queue on a device
  std::shared_ptr<void> own_stream;    ///< made for calls that bring none
  std::vector<int64_t> offsets;        ///< by slot: arena byte offset, or an output's bytes
  int64_t arena_bytes = 0;
  int threads = 0;  ///< sizes were computed for `symbols` and this thread count (0: not yet)
};

/// How a call ended.
struct Outcome {
  int32_t status = 0;  ///< 0, or what a host call or kernel returned: results are undefined
  int32_t faults = 0;  ///< StickyError bits that this call's kernels set
};

/// Throws the Error of a status that is not 0.
void raise_status(int32_t status);
/// Throws Error(invalid_argument) for an index out of range, Error(division_by_zero) for an integer
/// divided by zero.
void raise_faults(int32_t faults);

/// Values computed from static parameters alone, by the plan's cache entries; null: to be computed.
/// Copies share one list until one of them is written, so that a call that computes none counts no
/// value's owners, which a model's weights have driven out of the caches.
class Kept {
 public:
  using Value = std::shared_ptr<void>;
  using List = std::vector<Value>;

  Kept() = default;
  size_t size() const { return list().size(); }
  const Value& operator[](size_t entry) const { return list()[entry]; }
  List::const_iterator begin() const { return list().begin(); }
  List::const_iterator end() const { return list().end(); }
  void set(size_t entry, Value value) { own()[entry] = std::move(value); }
  void resize(size_t entries) {
    if (entries != size()) own().resize(entries);
  }

 private:
  const List& list() const;
  List& own();

  std::shared_ptr<List> list_;  // null: empty
};
/// Whether a value lies in the host's pool.
bool in_pool(const std::shared_ptr<void>& value);

/// Immutable once made (apart from its caches); run() may be called from any number of threads at
/// once.
class Executable : public std::enable_shared_from_this<Executable> {
 public:
  /// Compiles a graph. Throws Error(unsupported), Error(invalid_argument) or Error(internal) naming
  /// the stage.
  static std::shared_ptr<Executable> compile(const ir::Graph& graph, const CompileOptions& options,
                                             std::shared_ptr<Runtime> runtime);

  /// Of a plan that was made elsewhere, without its programs; `kernels`: by program; `launcher`
  /// runs its steps (entry_steps of runtime/planning.h).
  static std::shared_ptr<Executable> of_plan(schedule::Plan plan,
                                             std::vector<std::shared_ptr<const Kernel>> kernels,
                                             std::unique_ptr<Launcher> launcher,
                                             std::shared_ptr<Runtime> runtime);
  ~Executable();
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  struct Arguments {
    /// Address per parameter: host memory or, of a device's backend, the device's.
    void* const* parameters;
    const int64_t* symbols;  ///< value per symbol
    /// What the call may take instead of computing it, and where it puts what it computes, which is
    /// valid if the call ends well. Null: everything is computed.
    Kept* kept = nullptr;
    /// Null: nobody. A call with an observer runs step by step instead of through the entry
    /// function.
    Observer* observer = nullptr;
    /// The caller's queue on the device, on which the call leaves its steps without waiting for
    /// them. Parameters, results and what the host is called with are then the device's memory,
    /// and faults are told by late_faults(). Null: the call ends with its last step.
    const Stream* queue = nullptr;
    /// Where StickyError bits of a call with a queue are added once its steps are done; null:
    /// late_faults() tells them.
    std::atomic<int32_t>* faults = nullptr;
    /// By cache entry: whether what is computed for it is for this call alone, and stays null in
    /// `kept`. It then shares the arena's memory. Null: none.
    const std::vector<uint8_t>* passing = nullptr;
    /// Nothing runs but the steps that compute what is missing in `kept`. On the host.
    bool only_kept = false;
  };
  /// Compiles well what was made quickly, for calls that begin from then on, and tells what that
  /// took. Nothing to do for other executables. Throws as compile() does; the executable stays as
  /// it was then.
  CompileReport finish();
  /// Whether finish() has something to do.
  bool is_provisional() const { return provisional_; }
  /// True once, of an executable that was compiled quickly: what its first call computes to be kept
  /// may as well pass, as fresh memory for it takes longer than to compute it again.
  bool take_first() { return fresh_.exchange(false); }

  /// Runs once, to the end of its last step. `frame` outlives the call's use of slot addresses. On
  /// a device, operands and results in host memory are copied to and from it.
  [[nodiscard]] Outcome run(const Arguments& arguments, Outputs& outputs, Host* host, Frame& frame);

  /// StickyError bits of earlier calls with a queue that have shown up since this was last asked.
  int32_t late_faults() const { return code()->launcher->late_faults(); }

  /// Lets calls keep intermediates in the memory of parameters that they write before they read
  /// it: a call that fails leaves anything there. Before the first call.
  void use_overwritten();

  std::unique_ptr<Frame> lease();
  void give_back(std::unique_ptr<Frame> frame);

  const schedule::Plan& plan() const { return plan_; }
  const CompileReport& report() const { return report_; }
  /// The present machine code.
  std::shared_ptr<const Code> code() const;
  Runtime& runtime() const { return *runtime_; }
  /// What keep() was given last, for a call whose parameters have not changed since.
  Kept kept() const;
  void keep(Kept kept);
  /// Of several sets of parameters that calls come with: from now on kept() and keep() are of set
  /// `number` (0 at first), and what the one before has is left aside.
  void turn_to(int number);
  /// Drops what is left aside of a set.
  void forget_aside(int number);
  /// Drops what is left aside, and of the rest that keep() was given of the host's pool the largest
  /// until `rest` bytes are left: the next call computes it again.
  void give_back_kept(size_t rest);
  /// Whether no call has asked for what is kept since this was last asked, and none runs.
  bool idles() const { return !asked_.exchange(false) && running_ == 0; }
  /// The parameters, but for `needed` (by index), of which calls read nothing once what is computed
  /// from them is kept, and with which nothing is computed from other parameters.
  std::vector<int> read_as_kept(std::vector<bool> needed) const;
  /// The cache entry that is a parameter's copy on the device, or -1.
  int copy_of(size_t parameter) const { return copy_of_[parameter]; }
  /// Whether a call that takes these values reads the parameter.
  bool reads(size_t parameter, const Kept& kept) const;
  /// A value to be kept: a copy of the host's bytes on the device.
  std::shared_ptr<void> keep_copy(const void* host, size_t bytes, Outputs& outputs,
                                  Frame& frame) const;
  /// Values computed from static parameters (packed weights) and the bytes that each holds; others
  /// may hold them too.
  std::vector<std::pair<const void*, size_t>> cached_values() const;
  /// Bytes of them all.
  size_t cached_bytes() const;

 private:
  explicit Executable(std::shared_ptr<Runtime> runtime) : runtime_(std::move(runtime)) {}
  struct CallContext;
  static int32_t call_host(const atlas::Context* context, int64_t step);
  class Lease;
  struct Lent;
  Outcome run_where_it_is(const Arguments& arguments, Outputs& outputs, Host* host, Frame& frame);
  void bind_all(const Arguments& arguments, Outputs& outputs, const Lease& lease, const Lent* lent,
                Frame& frame);
  void allocate_together(Kept& kept, const std::vector<uint8_t>& stale) const;
  struct Passing;
  std::shared_ptr<const Lent> lent_for(const Arguments& arguments);
  std::shared_ptr<const Passing> passing_of(const Arguments& arguments,
                                            const std::vector<uint8_t>& stale);
  void bind_kept(Kept& kept, std::vector<uint8_t> missing, const Passing* passing,
                 const Lease& lease, Outputs& outputs, Frame& frame);
  std::shared_ptr<void> allocate_kept(size_t bytes, Outputs& outputs, Frame& frame) const;
  Stream stream_for(const Arguments& arguments, Memory& device, Frame& frame) const;
  void keep_on_device(const std::vector<bool>& fixed);
  void find_readers();
  std::vector<std::shared_ptr<const Kernel>> load_kernels(Quality quality, CompileReport& report);
  std::shared_ptr<Code> link(std::vector<std::shared_ptr<const Kernel>> kernels,
                             Quality quality) const;
  void prepare();
  void set_code(std::shared_ptr<const Code> code);
  void size(Frame& frame) const;
  int32_t run_steps(CallFrame& entry, const Prepared& prepared, Frame& frame,
                    const Arguments& arguments, Tracer* tracer);
  void bind(Frame& frame, int slot, void* address) const;

  std::shared_ptr<Runtime> runtime_;
  schedule::Plan plan_;
  CompileReport report_;
  std::vector<atlas::EntryStep> entry_steps_;  // by step
  std::shared_ptr<const Code> code_;  // guarded by mutex_, as idle_, whose frames are for it
  std::optional<bool> graphs_;
  std::atomic<bool> provisional_{false}, fresh_{false};
  size_t plan_bytes_ = 0, code_bytes_ = 0;  // as the runtime counts them
  size_t num_buffers_ = 0, num_arguments_ = 0;
  // What each call reads of a slot: side by side, as a model's weights drive it out of the caches.
  struct Binding {
    int32_t index;
    schedule::SlotKind kind;
    bool boundary;
  };
  std::vector<Binding> bindings_;          // by slot
  std::vector<int> kept_slots_;            // by cache entry; -1: Staging binds it
  std::vector<std::vector<size_t>> uses_;  // by slot: positions in Frame::buffers
  std::vector<int> copy_of_;               // by parameter
  std::vector<std::vector<size_t>>
      only_for_;  // by parameter: cache entries, if nothing else reads it
  bool static_sizes_ = true;
  Kept kept_;
  int set_ = 0;
  std::map<int, Kept> aside_;               // by set
  std::vector<int> lenders_;                // input slots
  std::shared_ptr<const Lent> lent_;        // where they were at the last call; guarded by mutex_
  std::shared_ptr<const Passing> passing_;  // of the last call that had some; guarded by mutex_
  mutable std::atomic<bool> asked_{false};  // kept()
  std::atomic<int> running_{0};             // calls
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Frame>> idle_;
};

}  // namespace hologram::runtime

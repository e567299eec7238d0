// archive/function.h: a method of an archive as something that can be called.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "archive/archive.h"
#include "archive/loops.h"
#include "archive/weights.h"
#include "ir/sizes.h"
#include "runtime/executable.h"
#include "runtime/packed_files.h"

namespace hologram::archive {

/// Copies of an archive's state tensors: what methods write and later calls read. Calls with one
/// session run one after the other. The copies lie where the last method that was called works.
class Session {
 public:
  explicit Session(std::shared_ptr<const Archive> archive);
  ~Session();

  const Archive& archive() const { return *archive_; }
  /// Back to what the archive holds.
  void reset();

 private:
  friend class Function;
  // All with the mutex held:
  /// Of tensor `number` for a call of this runtime; null for one that is no state.
  void* data(uint32_t number) const { return on_ ? there_[number] : copies_[number].get(); }
  /// Has the copies where the runtime's kernels find them, behind earlier calls: in the order of
  /// `queue`, or of the host.
  void move_to(const std::shared_ptr<runtime::Runtime>& runtime, const Stream* queue);
  /// The call that was put on the queue is what later ones wait for.
  void used_on(const Stream& queue);
  void leave_device();

  std::shared_ptr<const Archive> archive_;
  std::vector<std::unique_ptr<std::byte[]>> copies_;  // by tensor
  std::shared_ptr<runtime::Runtime> on_;              // of a device that has them; null: the host
  std::vector<void*> there_;
  Event last_ = nullptr;  // of calls on queues
  std::mutex mutex_;
};

/// One method, compiled for a runtime. Thread-safe; keeps the archive open.
class Function {
 public:
  /// `trusted`: machine code in the archive may run, where it has some for this machine; else its
  /// graph is compiled, by a library that can (runtime/planning.h). Throws Error(corrupt) where the
  /// file is damaged or graph and index disagree, Error(unsupported) for operations that need
  /// PyTorch unless calls have a `host`, and what compiling throws. `weights`: the archive's; what
  /// they hold is read at every call.
  Function(std::shared_ptr<const Weights> weights, const Method& method,
           std::shared_ptr<runtime::Runtime> runtime, bool trusted = false, bool host = false);

  const Method& method() const { return method_; }
  const Archive& archive() const { return weights_->archive(); }
  runtime::Executable& executable() const { return *executable_; }
  /// Bytes held for values computed from weights alone.
  size_t cached_bytes() const;
  /// Whether it runs machine code of the archive.
  bool precompiled() const { return precompiled_; }
  /// Whether it reads or writes state, so that calls need a session.
  bool has_state() const { return has_state_; }

  /// The values of the symbols for inputs of these shapes. Throws Error(invalid_argument) naming
  /// the input and what was expected.
  std::vector<int64_t> symbols_of(std::span<const std::vector<int64_t>> shapes) const;
  /// The shape of a result. Throws Error(invalid_argument) beyond 2^48 elements.
  std::vector<int64_t> shape_of(const Signature& result, std::span<const int64_t> symbols) const;
  /// Runs once. Inputs and results are row-major arrays of the method's dtypes, results of
  /// shape_of(); they do not overlap. `symbols`: what symbols_of() gave. Returns the faults of
  /// kernels (runtime::raise_faults); throws Error(invalid_argument) where a session is missing or
  /// another archive's. `host` runs operations that have no kernel and are no loops. `queue` and
  /// `faults`: as in Executable::Arguments, where the method may_be_left().
  [[nodiscard]] int32_t run(std::span<const void* const> inputs, std::span<const int64_t> symbols,
                            std::span<void* const> results, Session* session,
                            runtime::Host* host = nullptr, const Stream* queue = nullptr,
                            std::atomic<int32_t>* faults = nullptr);
  /// Whether nothing in it needs the host between its kernels.
  bool may_be_left() const { return loops_.empty() && !host_; }

 private:
  /// Code for a backend: the method's and that of its loops.
  struct Code {
    const Precompiled* method = nullptr;
    Loops::Codes loops;
  };
  std::optional<Code> find_code(const Backend& backend) const;
  void load(const Code& code, std::shared_ptr<runtime::Runtime> runtime);
  [[noreturn]] void refuse(bool has_code, const Backend& backend) const;
  void compile(std::shared_ptr<runtime::Runtime> runtime);
  void check_parameters(const ir::Graph& graph);
  void check_sizes_of(const ir::Graph& graph);
  void bind_results(const ir::Graph& graph);
  void copy_host_results(const runtime::Frame& frame, const Loops::Calls& loops,
                         std::span<void* const> results) const;
  void bind_symbols();
  struct Bound;
  /// What is kept between calls, of the method and by loop.
  struct Kept {
    runtime::Kept method;
    std::vector<runtime::Kept> loops;
  };
  std::shared_ptr<Bound> bind();
  void bind_packed(Bound& bound, const std::vector<std::optional<Fingerprint>>& contents);
  void take_packed_weights(const Bound& bound, Kept& kept) const;
  void share_packed_weights(const Bound& bound, Kept& kept) const;
  bool is_complete(const Kept& kept) const;
  bool keeps(int parameter) const;

  /// How a symbol follows from an input's size: (size - offset) / factor.
  struct SizeRule {
    size_t input, dimension;
    int64_t factor, offset;
  };

  std::shared_ptr<const Weights> weights_;
  const Method& method_;  // of the archive
  const std::shared_ptr<runtime::Runtime> runtime_;
  std::shared_ptr<runtime::Executable> executable_;
  Loops loops_;
  mutable std::mutex mutex_;
  std::shared_ptr<Bound> bound_;       // by mutex_: to the weights as they were last
  std::vector<int> result_of_output_;  // by output of the graph; -1: written in place
  std::vector<SizeRule> rules_;        // by symbol
  bool has_state_ = false, precompiled_ = false;
  bool host_ = false;                           ///< calls have one
  std::unique_ptr<const ir::SizeCheck> sizes_;  // null: code of an archive without symbols
};

}  // namespace hologram::archive

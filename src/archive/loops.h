// archive/loops.h: the loops of a method: host calls that need no host framework.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "archive/archive.h"
#include "ir/graph.h"
#include "ir/sizes.h"
#include "runtime/loop.h"
#include "runtime/packed_files.h"

namespace hologram::archive {

/// Thread-safe once made.
class Loops {
 public:
  /// Those of a method of the archive, which outlives this.
  Loops(const Archive& archive, const Method& method);

  bool empty() const { return made_.empty(); }
  size_t size() const { return made_.size(); }
  bool contains(int64_t callee) const { return number_of(callee) >= 0; }

  /// Compiles the steps for a method with this graph, of which nothing is trusted: throws
  /// Error(invalid_argument) where a call and its step disagree.
  void compile(const ir::Graph& graph, const std::shared_ptr<runtime::Runtime>& runtime);
  /// Where code of a loop is to be had, by loop of the method; null where one has none.
  using Codes = std::vector<const Precompiled*>;
  /// Takes the archive's machine code.
  void load(const Codes& codes, const std::shared_ptr<runtime::Runtime>& runtime);
  /// Numbers of the loops in the archive.
  const std::vector<uint32_t>& numbers() const { return numbers_; }

  /// Learns from the method's plan where operands come from. `keeps(p)`: whether parameter p of the
  /// method has the same content in every call.
  void follow(const schedule::Plan& plan, const std::function<bool(int)>& keeps);
  /// Throws Error(invalid_argument) where a step is wrong for these sizes of the method.
  void check_sizes(std::span<const int64_t> symbols) const;

  runtime::Executable& step(size_t loop) const { return made_[loop].loop->step(); }
  /// Whether its fixed operands have the same content in every call.
  bool keeps(size_t loop) const { return made_[loop].keeps; }
  /// Parameters of the method that what is kept of a loop is computed from.
  const std::vector<int>& sources(size_t loop) const { return made_[loop].sources; }
  /// The method's parameter that is a fixed operand as it comes, by operand of the loop; -1: none.
  const std::vector<int>& parameters(size_t loop) const { return made_[loop].parameters; }

  /// The loops in one call of the method.
  class Calls final : public runtime::Host {
   public:
    /// `symbols`: the method's sizes; `kept`: by loop; `other`: null, or who runs other calls.
    Calls(const Loops& loops, const runtime::Executable& method, std::span<const int64_t> symbols,
          std::vector<runtime::Kept>& kept, runtime::Host* other)
        : loops_(loops), method_(method), symbols_(symbols), kept_(kept), other_(other) {}
    int32_t call(const schedule::Step& step, runtime::Frame& frame) override;
    /// Of kernels of the loops.
    int32_t faults() const { return faults_; }
    /// Where a slot of the method that a loop made lies in host memory; null for others.
    const void* made(int slot) const;

   private:
    using Block = std::unique_ptr<void, decltype(&host::MemoryPool::deallocate)>;
    void* memory(__int128 bytes);
    void* operand(int slot, const runtime::Frame& frame);

    const Loops& loops_;
    const runtime::Executable& method_;
    std::span<const int64_t> symbols_;
    std::vector<runtime::Kept>& kept_;
    runtime::Host* other_;
    std::vector<Block> blocks_;  // results and copies of operands, until the call's end
    std::map<int, void*> made_;  // by slot
    int32_t faults_ = 0;
  };

 private:
  struct Made {
    const Loop* described = nullptr;
    std::unique_ptr<runtime::Loop> loop = {};
    std::unique_ptr<const ir::SizeCheck> sizes = {};
    bool keeps = false;
    std::vector<int> sources = {}, parameters = {};
  };
  int number_of(int64_t callee) const;
  std::vector<int64_t> sizes_of(const Loop& loop, std::span<const int64_t> symbols) const;

  const Archive& archive_;
  std::vector<uint32_t> numbers_;
  std::vector<Made> made_;
};

}  // namespace hologram::archive

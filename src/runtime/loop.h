// runtime/loop.h: a compiled graph of one step, run over all steps of a sequence.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/executable.h"
#include "runtime/loop_operand.h"

namespace hologram::runtime {

/// Thread-safe.
class Loop {
 public:
  /// Throws Error(invalid_argument) where the operands are not the graph's.
  Loop(std::shared_ptr<Executable> step, std::vector<LoopOperand> operands);

  Executable& step() const { return *step_; }
  std::span<const LoopOperand> operands() const { return operands_; }
  /// Bytes of what one step reads as parameter `number`, 0 where it reads nothing, and of its
  /// result `number`. `symbols`: the step's.
  int64_t operand_bytes(size_t number, std::span<const int64_t> symbols) const;
  int64_t result_bytes(size_t number, std::span<const int64_t> symbols) const;

  struct Arguments {
    /// Row-major arrays by parameter of the step and by its results; those of sequences have
    /// `steps` places.
    std::span<void* const> operands;
    std::span<void* const> results;
    int64_t steps = 0;
    bool descending = false;  ///< the last place is the first step
    const int64_t* symbols = nullptr;
    Kept* kept = nullptr;  ///< as in Executable::Arguments; null: for this call alone
  };
  /// Runs all steps, or those to the first that ends badly.
  [[nodiscard]] Outcome run(const Arguments& arguments);

 private:
  std::shared_ptr<Executable> step_;
  std::vector<LoopOperand> operands_;
  std::vector<int> slot_of_parameter_;  // -1: nothing reads it
};

}  // namespace hologram::runtime

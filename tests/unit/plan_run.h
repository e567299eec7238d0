// tests/unit/plan_run.h: what every plan must keep to, and a slow runner of plans.
#pragma once

#include <map>

#include "schedule/plan.h"
#include "unit/reference.h"

namespace hologram::test {

/// Faults of a plan as text, for these sizes; empty when there are none: every program passes atlas::verify, reads come after writes, slots
/// that are live at the same time lie apart inside the arena, steps name what they read from, outputs are written.
std::string faults_of(const schedule::Plan& plan, const std::vector<int64_t>& symbols);

/// Runs plans by the interpreter, in an arena that is filled with a pattern before each call. Host calls give copies of their arguments.
class PlanRunner {
 public:
  explicit PlanRunner(const schedule::Plan& plan) : plan_(plan) {}

  /// The outputs, of mutations the parameter, for row-major parameters and contiguous outputs.
  /// What is cached is computed in the first call. Throws what the interpreter throws.
  std::vector<Tensor> run(const std::map<int, Tensor>& parameters, const std::vector<int64_t>& symbols);

 private:
  using Bytes = std::vector<std::byte>;

  Bytes& own(int slot, size_t size);
  void call_host(const schedule::Step& step, const std::vector<int64_t>& symbols);
  void launch(const schedule::Step& step, const std::vector<int64_t>& symbols);

  const schedule::Plan& plan_;
  std::map<int, Bytes> memory_;  // of slots outside the arena
  Bytes arena_;
  std::vector<std::byte*> address_;
  bool warm_ = false;
};

}  // namespace hologram::test

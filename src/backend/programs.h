// backend/programs.h: launching for backends whose kernels are programs that someone interprets.
#pragma once

#include "backend/backend.h"
#include "backend/steps.h"

namespace hologram {

/// Runs a whole program on these buffers and symbols; returns a status.
using RunProgram = int32_t (*)(const atlas::Program& program, void* const* buffers,
                               const int64_t* symbols, std::atomic<int32_t>* sticky);

/// Walks the steps on the calling thread; Kernel::code is the atlas::Program.
class ProgramLauncher final : public Launcher {
 public:
  ProgramLauncher(std::span<const atlas::EntryStep> steps,
                  std::span<const std::shared_ptr<const Kernel>> kernels, RunProgram program)
      : steps_(steps, kernels), run_(program) {}

  std::unique_ptr<Prepared> prepare(const int64_t*, int) const override {
    return std::make_unique<Prepared>();
  }
  int32_t run(CallFrame& frame, const Prepared& prepared) const override {
    return walk(frame, steps_, [&](size_t s) { return run_step(frame, prepared, s); });
  }
  int32_t run_step(CallFrame& frame, const Prepared&, size_t s) const override {
    const atlas::EntryStep& step = steps_[s];
    return run_(*steps_.code_of(step), frame.buffers + step.first_buffer,
                frame.arguments + step.first_argument, frame.sticky);
  }

 private:
  Steps<atlas::Program> steps_;
  RunProgram run_;
};

/// What plans of interpreted programs may rely on: operands packed ahead, as natively.
class ProgramMachine final : public schedule::Machine {
 public:
  /// `small_total`: as schedule::Machine's.
  explicit ProgramMachine(int64_t total = atlas::boundary_bytes) { small_total = total; }
  schedule::Panel panel(DType, DType) const override { return {.width = 16}; }
};

/// A kernel that is the program itself.
inline Kernel program_kernel(std::shared_ptr<const atlas::Program> program) {
  const void* code = program.get();
  return {code, Expr(1), Expr(1), Expr(1), std::move(program)};
}

/// The same of what atlas::encode wrote, with elementary functions as sequences.
inline Kernel stored_program(std::string_view code) {
  auto program = std::make_shared<atlas::Program>(atlas::decode(code));
  atlas::expand_math(*program);
  return program_kernel(std::move(program));
}

}  // namespace hologram

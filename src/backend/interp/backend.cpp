// backend/interp/backend.cpp: the interpreter behind the common backend interface.
#include "backend/interp/backend.h"

#include "backend/programs.h"
#include "base/error.h"
#include "interp/interp.h"
#include "interp/lane.h"

namespace hologram::interp {
namespace {

int32_t execute(const atlas::Program& program, void* const* buffers, const int64_t* symbols,
                std::atomic<int32_t>* sticky) {
  try {
    run(program, buffers, symbols, sticky);
    return 0;
  } catch (const Error& e) {
    return static_cast<int32_t>(e.code());
  } catch (...) {
    return static_cast<int32_t>(ErrorCode::internal);
  }
}

class InterpLanes : public LaneKernel {
 public:
  explicit InterpLanes(const atlas::LaneProgram& program) : program_(program) {
    atlas::verify(program_);
  }
  void run(const atlas::LaneLaunch& launch, atlas::LaneMemory& memory) const override {
    interp::run(program_, launch, memory);
  }

 private:
  atlas::LaneProgram program_;
};

class InterpBackend : public Backend {
 public:
  std::string_view name() const override { return "interp"; }
  // The stored code is the program itself: what expand_math makes of it may change with the
  // library.
  std::string code_key() const override { return "interp program"; }
  bool interprets() const override { return true; }
  const schedule::Machine& machine() const override { return machine_; }
  std::string compile(const atlas::Program& program) const override {
    return atlas::encode(program);
  }

  std::unique_ptr<LaneKernel> compile_lanes(const atlas::LaneProgram& program) const override {
    return std::make_unique<InterpLanes>(program);
  }

  Kernel load(const atlas::Program&, std::string_view code) const override {
    return stored_program(code);
  }

  std::unique_ptr<Launcher> launcher(std::span<const atlas::EntryStep> steps,
                                     std::span<const std::shared_ptr<const Kernel>> kernels,
                                     CodeStore&) const override {
    return std::make_unique<ProgramLauncher>(steps, kernels, execute);
  }

 private:
  ProgramMachine machine_;
};

}  // namespace

int device_count() { return 1; }

std::unique_ptr<Backend> make_backend(int) { return std::make_unique<InterpBackend>(); }

}  // namespace hologram::interp

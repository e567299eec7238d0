// backend/null/backend.cpp: programs as work for the device.
#include "backend/null/backend.h"

#include "backend/null/device.h"
#include "backend/programs.h"
#include "base/error.h"
#include "interp/interp.h"
#include "interp/lane.h"

namespace hologram::null {
namespace {

class DeviceLauncher final : public Launcher {
 public:
  DeviceLauncher(std::span<const atlas::EntryStep> steps,
                 std::span<const std::shared_ptr<const Kernel>> kernels)
      : steps_(steps, kernels) {}

  std::unique_ptr<Prepared> prepare(const int64_t*, int) const override {
    return std::make_unique<Prepared>();
  }

  int32_t run(CallFrame& frame, const Prepared&) const override {
    return walk(
        frame, steps_,
        [&](size_t s) {
          enqueue(frame, steps_[s]);
          return 0;
        },
        [&](size_t) { FakeDevice::instance().wait(frame.stream); });  // it reads what kernels wrote
  }

  int32_t run_step(CallFrame& frame, const Prepared&, size_t s) const override {
    enqueue(frame, steps_[s]);
    FakeDevice::instance().wait(frame.stream);
    return 0;
  }

 private:
  // What the work reads is copied now: the frame may change before it begins.
  void enqueue(const atlas::EntryFrame& frame, const atlas::EntryStep& step) const {
    FakeDevice& device = FakeDevice::instance();
    const std::shared_ptr<const Kernel> kernel = steps_.kernel_of(step);
    const atlas::Program& program = *steps_.code_of(step);
    std::vector<void*> buffers;
    for (const atlas::Buffer& b : program.buffers)
      if (b.access != atlas::Access::scratch)
        buffers.push_back(device.bytes_of(frame.buffers[step.first_buffer + std::ssize(buffers)]));
    const auto given = steps_.symbols_of(step, frame.arguments);
    std::vector<int64_t> symbols(given.begin(), given.end());
    device.enqueue(frame.stream, [=, sticky = frame.sticky] {
      return execute(*static_cast<const atlas::Program*>(kernel->code), buffers, symbols, sticky);
    });
  }

  static int32_t execute(const atlas::Program& program, const std::vector<void*>& buffers,
                         const std::vector<int64_t>& symbols, std::atomic<int32_t>* sticky) {
    try {
      interp::run(program, buffers.data(), symbols.data(), sticky);
      return 0;
    } catch (const Error& e) {
      return static_cast<int32_t>(e.code());
    } catch (...) {
      return static_cast<int32_t>(ErrorCode::internal);
    }
  }

  const Steps<atlas::Program> steps_;
};

class Lanes final : public LaneKernel {
 public:
  explicit Lanes(const atlas::LaneProgram& program) : program_(program) { atlas::verify(program_); }
  void run(const atlas::LaneLaunch& launch, atlas::LaneMemory& memory) const override {
    interp::run(program_, launch, memory);
  }

 private:
  atlas::LaneProgram program_;
};

class NullBackend final : public Backend {
 public:
  std::string_view name() const override { return "null"; }
  std::string code_key() const override { return "null program"; }
  Memory* memory() const override { return &FakeDevice::instance(); }
  bool interprets() const override { return true; }
  const schedule::Machine& machine() const override { return machine_; }

  std::string compile(const atlas::Program& program) const override {
    atlas::verify(program);
    return atlas::encode(program);
  }
  Kernel load(const atlas::Program&, std::string_view code) const override {
    return stored_program(code);
  }
  std::unique_ptr<Launcher> launcher(std::span<const atlas::EntryStep> steps,
                                     std::span<const std::shared_ptr<const Kernel>> kernels,
                                     CodeStore&) const override {
    return std::make_unique<DeviceLauncher>(steps, kernels);
  }
  std::unique_ptr<LaneKernel> compile_lanes(const atlas::LaneProgram& program) const override {
    return std::make_unique<Lanes>(program);
  }

 private:
  ProgramMachine machine_{0};
};

}  // namespace

int device_count() { return 1; }

std::unique_ptr<Backend> make_backend(int) { return std::make_unique<NullBackend>(); }

}  // namespace hologram::null

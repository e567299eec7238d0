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
      : steps_(steps.begin(), steps.end()), kernels_(kernels.begin(), kernels.end()) {}

  std::unique_ptr<Prepared> prepare(const int64_t*, int) const override {
    return std::make_unique<Prepared>();
  }

  int32_t run(CallFrame& frame, const Prepared&) const override {
    FakeDevice& device = FakeDevice::instance();
    for (size_t s = 0; s < steps_.size(); ++s) {
      const atlas::EntryStep& step = steps_[s];
      if (step.cached >= 0 && !frame.stale[step.cached]) continue;
      if (step.kernel >= 0) {
        enqueue(frame, step);
        continue;
      }
      device.wait(frame.stream);  // the host reads what kernels wrote
      const int32_t status = frame.context->call_host(frame.context, static_cast<int64_t>(s));
      if (status != 0) return status;
    }
    return 0;
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
    std::shared_ptr<const Kernel> kernel = kernels_[static_cast<size_t>(step.kernel)];
    const auto& program = *static_cast<const atlas::Program*>(kernel->code);
    std::vector<void*> buffers;
    for (const atlas::Buffer& b : program.buffers)
      if (b.access != atlas::Access::scratch)
        buffers.push_back(device.bytes_of(frame.buffers[step.first_buffer + std::ssize(buffers)]));
    const int64_t* first = frame.arguments + step.first_argument;
    std::vector<int64_t> symbols(first, first + step.num_arguments);
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

  std::vector<atlas::EntryStep> steps_;
  std::vector<std::shared_ptr<const Kernel>> kernels_;
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
    auto program = std::make_shared<atlas::Program>(atlas::decode(code));
    atlas::expand_math(*program);
    return program_kernel(std::move(program));
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

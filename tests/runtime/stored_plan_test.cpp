// tests/runtime/stored_plan_test.cpp: plans for a device, which another process made
#include "runtime/stored_plan.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "backend/null/backend.h"
#include "support/test.h"

namespace hologram::runtime {
namespace {

/// The device that is not there, whose programs are its code. Making a kernel of it takes until another thread makes one
/// too, or ten seconds.
class StoredBackend final : public Backend {
 public:
  std::string_view name() const override { return "stored"; }
  std::string code_key() const override { return "stored"; }
  std::string target() const override { return "stored"; }
  Memory* memory() const override { return null_->memory(); }
  const schedule::Machine& machine() const override { return null_->machine(); }
  std::string compile(const atlas::Program& program) const override { return null_->compile(program); }
  Kernel load(const atlas::Program& program, std::string_view code) const override {
    std::unique_lock lock(mutex_);
    ++here_;
    met_.notify_all();
    alone = alone || !met_.wait_for(lock, std::chrono::seconds(10), [&] { return here_ >= 2; });
    return null_->load(program, code);
  }
  CodeImage image(std::span<const atlas::Program>, std::span<const std::string> codes, std::span<const atlas::EntryStep>) const override {
    CodeImage out;
    for (const std::string& code : codes) {
      out.kernels.push_back({out.bytes.size(), Expr(1), Expr(1), Expr(1)});
      out.bytes += code;
    }
    out.run_all = out.bytes.size();
    return out;
  }
  std::unique_ptr<Launcher> launcher(std::span<const atlas::EntryStep> steps, std::span<const std::shared_ptr<const Kernel>> kernels,
                                     CodeStore& store) const override {
    return null_->launcher(steps, kernels, store);
  }
  std::unique_ptr<LaneKernel> compile_lanes(const atlas::LaneProgram& program) const override { return null_->compile_lanes(program); }

  mutable bool alone = false;

 private:
  std::unique_ptr<Backend> null_ = null::make_backend(0);
  mutable std::mutex mutex_;
  mutable std::condition_variable met_;
  mutable int here_ = 0;
};

TEST(StoredPlan, KernelsForADeviceAreMadeSideBySide) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one core";
  ir::Graph g;
  const ir::Value x = g.parameter(0, DType::f32, {Expr(8)}, {Expr(1)});
  const ir::Value order = g.make(ir::Op::argsort, {x}, {.ints = {0, 0}, .exprs = {Expr(8)}});
  g.outputs.push_back({g.unary(ir::Op::exp, g.reduce(ir::Op::reduce_sum, x, {0})), {}});
  g.outputs.push_back({order, {1}});
  const StoredPlan stored = compile_for(g, {}, StoredBackend(), nullptr);
  auto backend = std::make_unique<StoredBackend>();
  const StoredBackend& asked = *backend;
  const auto runtime = std::make_shared<Runtime>(std::move(backend));
  EXPECT_NE(load_stored(stored, runtime), nullptr);
  EXPECT_FALSE(asked.alone);
}

}  // namespace
}  // namespace hologram::runtime

// backend/cpu/backend.cpp: native kernels through the code generator.
#include "backend/cpu/backend.h"

#include "backend/cpu/compiler.h"
#include "backend/cpu/image.h"
#include "backend/cpu/keys.h"
#include "backend/cpu/lanes/run.h"
#include "backend/cpu/launch.h"
#include "backend/cpu/load.h"
#include "backend/cpu/machine.h"
#include "backend/cpu/variants.h"
#include "backend/native_launcher.h"
#include "base/error.h"
#include "builtin/kernels.h"
#include "strips/routine.h"

namespace hologram::cpu {
namespace {

Kernel make_kernel(atlas::KernelFn function, Launch launch, std::shared_ptr<const void> keep,
                   size_t code_bytes) {
  return {reinterpret_cast<const void*>(function),
          std::move(launch.total),
          std::move(launch.grain),
          std::move(launch.unit_work),
          std::move(keep),
          code_bytes};
}

// The loops of this instruction set that came with the library; null where there are none.
const strips::Vectors* vectors_of(const Target& target) {
  return target.isa == Isa::avx512 ? strips::avx512_vectors()
         : target.isa == Isa::avx2 ? strips::avx2_vectors()
                                   : nullptr;
}

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(Target target) : target_(std::move(target)), machine_(target_) {}

  std::string_view name() const override { return "cpu"; }

  std::string code_key() const override { return cpu::code_key(target_); }
  std::string target() const override { return target_key(target_); }

  const schedule::Machine& machine() const override { return machine_; }

  std::string compile(const atlas::Program& program) const override {
    return to_stored(
        compiler().compile(program, target_, nullptr, kernel_symbol, codegen::Effort::full));
  }

  std::optional<Kernel> quick_kernel(const atlas::Program& program) const override {
    if (auto kernel = without_compiling(program)) return kernel;
    return load(program, to_stored(compiler().compile(program, target_, nullptr, kernel_symbol,
                                                      codegen::Effort::quick)));
  }

  std::optional<Kernel> builtin(const atlas::Program& program,
                                const Fingerprint& key) const override {
    const builtin::BuiltinKernel* found = builtin::find_kernel(name_of(target_.isa), key);
    if (!found) return std::nullopt;
    return make_kernel(found->function, parse_launch(found->launch, program.num_symbols), nullptr,
                       0);
  }

  std::optional<std::string> lane_code(const atlas::LaneProgram& program) const override {
    return cpu::lane_code(program, target_);
  }
  std::unique_ptr<LaneKernel> load_lanes(const atlas::LaneProgram& program,
                                         std::string_view code) const override {
    return cpu::load_lanes(program, code);
  }
  std::unique_ptr<LaneKernel> compile_lanes(const atlas::LaneProgram& program) const override {
    return cpu::load_lanes(program, cpu::lane_code(program, target_));
  }

  Kernel load(const atlas::Program& program, std::string_view code) const override {
    StoredObject stored = from_stored(code, program.num_symbols);
    std::shared_ptr<LoadedKernel> loaded = cpu::load(stored.code);
    return make_kernel(loaded->function, std::move(stored.launch), loaded, loaded->bytes);
  }

  atlas::KernelFn host_function(const Kernel& kernel) const override {
    return reinterpret_cast<atlas::KernelFn>(const_cast<void*>(kernel.code));
  }

  std::unique_ptr<Launcher> launcher(std::span<const atlas::EntryStep> steps,
                                     std::span<const std::shared_ptr<const Kernel>> kernels,
                                     CodeStore& store) const override {
    return make_launcher(steps, kernels, target_, code_key(), store, entries_);
  }

  std::unique_ptr<Launcher> quick_launcher(
      std::span<const atlas::EntryStep> steps,
      std::span<const std::shared_ptr<const Kernel>> kernels) const override {
    return std::make_unique<NativeLauncher>(steps, kernels, nullptr, nullptr);
  }

  std::vector<std::unique_ptr<Backend>> family(std::span<const std::string> names) const override {
    constexpr std::string_view usual[] = {"sse42", "avx2", "avx512"};
    std::vector<std::string_view> wanted(names.begin(), names.end());
    if (names.empty() && target_.isa == Isa::neon) wanted = {"neon"};
    if (wanted.empty()) wanted.assign(std::begin(usual), std::end(usual));
    std::vector<std::unique_ptr<Backend>> out;
    for (const std::string_view name : wanted)
      for (Target& t : variants_of(name)) out.push_back(make_backend(std::move(t)));
    return out;
  }

  CodeImage image(std::span<const atlas::Program> programs, std::span<const std::string> codes,
                  std::span<const atlas::EntryStep> steps) const override {
    return lay_out(programs, codes, steps, target_);
  }

  std::optional<std::string> dump(const atlas::Program& program,
                                  std::string_view stage) const override {
    if (stage == "llvm") return compiler().dump_llvm(program, target_);
    if (stage == "asm") return compiler().dump_asm(program, target_);
    return std::nullopt;
  }

 private:
  std::optional<Kernel> without_compiling(const atlas::Program& program) const {
    const strips::Vectors* vectors = vectors_of(target_);
    auto routine = vectors ? strips::routine_of(program, *vectors) : nullptr;
    if (!routine) return std::nullopt;
    Kernel kernel{nullptr, routine->total, Expr(1), routine->unit_work, routine};
    kernel.routine = routine.get();
    return kernel;
  }

  Target target_;
  CpuMachine machine_;
  mutable EntriesInProgress entries_;
};

}  // namespace

int device_count() { return 1; }

std::unique_ptr<Backend> make_backend(int) { return make_backend(host_target()); }

std::unique_ptr<Backend> make_backend(Target target) {
  return std::make_unique<CpuBackend>(std::move(target));
}

}  // namespace hologram::cpu

// backend/cuda/backend.cpp: the backend of NVIDIA's GPUs.
#include "backend/cuda/backend.h"

#include "backend/cuda/assembler.h"
#include "backend/cuda/builtin.h"
#include "backend/cuda/compile.h"
#include "backend/cuda/function.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/machine.h"
#include "backend/cuda/settings.h"
#include "backend/registry.h"
#include "base/error.h"

namespace hologram::cuda {
namespace {

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(const DeviceContext& device)
      : device_(device), memory_(device), host_(find_backend("cpu") ? make_host() : nullptr) {}

  std::string_view name() const override { return "cuda"; }
  std::string code_key() const override {
    const Assembler* a = assembler();
    return fmt::format("cuda {} {} {} for {} by {}{} + {}", cuda::target().cpu,
                       cuda::target().features, version(), gpu_name(device_.capability),
                       a ? "ptxas " + a->version : "the driver",
                       has_usual_block() ? "" : fmt::format(" in {}", settings_.block),
                       host_ ? host_->code_key() : "");
  }
  Memory* memory() const override { return &memory_; }
  const schedule::Machine& machine() const override { return machine_; }

  std::string compile(const atlas::Program& program) const override {
    const std::optional<std::string> why = unrendered(program);
    if (!why)
      return to_text(assembled(cuda::compile(program, device_.capability, settings_.block)));
    if (!host_) fail(ErrorCode::unsupported, "cuda: {} are not rendered for GPUs yet", *why);
    return to_text({host_->compile(program), {}, true});
  }

  Kernel load(const atlas::Program& program, std::string_view code) const override {
    Stored stored = from_text(code, program.num_symbols);
    std::shared_ptr<const LoadedKernel> kernel =
        stored.on_host ? load_on_host(program, stored.code)
                       : load_module(device_, program, std::move(stored));
    return {kernel.get(), stored.facts.total, Expr(1), Expr(1), kernel};
  }

  std::optional<Kernel> builtin(const atlas::Program& program,
                                const Fingerprint& key) const override {
    const BuiltinKernel* found = has_usual_block() ? find_builtin(key.hex()) : nullptr;
    if (!found || is_special(program, device_.capability)) return std::nullopt;
    Stored stored = from_text(found->stored, program.num_symbols);
    for (size_t k = 0; k < std::size(builtin_capabilities); ++k)
      if (builtin_capabilities[k] == device_.capability) stored.cubin = found->cubins[k];
    if (!stored.cubin.empty() && !loads(device_, stored.cubin)) stored.cubin.clear();
    auto kernel = load_module(device_, program, std::move(stored));
    return Kernel{kernel.get(), kernel->facts.total, Expr(1), Expr(1), kernel};
  }

  std::unique_ptr<Launcher> launcher(std::span<const atlas::EntryStep> steps,
                                     std::span<const std::shared_ptr<const Kernel>> kernels,
                                     CodeStore&) const override {
    return make_launcher(steps, kernels, memory_, counts_, settings_.waits);
  }
  uint64_t host_runs() const override { return counts_.host_runs.load(std::memory_order_relaxed); }
  uint64_t graph_launches() const override {
    return counts_.graph_launches.load(std::memory_order_relaxed);
  }
  std::string describe() const override {
    const Assembler* a = assembler();
    return fmt::format(
        "{}, compute capability {}.{}, {} multiprocessors; driver for CUDA {}.{}; kernels "
        "assembled by {}",
        device_.name, device_.capability / 10, device_.capability % 10, device_.multiprocessors,
        device_.driver_version / 1000, device_.driver_version % 1000 / 10,
        a ? fmt::format("ptxas {} ({})", a->version, a->path) : "the driver");
  }

  std::optional<std::string> dump(const atlas::Program& program,
                                  std::string_view stage) const override {
    if (unrendered(program)) return host_ ? host_->dump(program, stage) : std::nullopt;
    if (stage == "llvm") return dump_llvm(program, device_.capability, settings_.block);
    if (stage == "asm" || stage == "ptx")
      return dump_ptx(program, device_.capability, settings_.block);
    if (stage == "sass") return dump_sass(program);
    return std::nullopt;
  }

  // Lane programs run on the host, in copies that the runtime makes.
  std::unique_ptr<LaneKernel> compile_lanes(const atlas::LaneProgram& program) const override {
    return host().compile_lanes(program);
  }
  std::optional<std::string> lane_code(const atlas::LaneProgram& program) const override {
    return host().lane_code(program);
  }
  std::unique_ptr<LaneKernel> load_lanes(const atlas::LaneProgram& program,
                                         std::string_view code) const override {
    return host().load_lanes(program, code);
  }

 private:
  static std::unique_ptr<Backend> make_host() { return hologram::make_backend("cpu"); }
  bool has_usual_block() const { return settings_.block == usual_block; }

  // Null: the driver turns PTX into machine code.
  const Assembler* assembler() const {
    std::call_once(
        looked_, [&] { assembler_ = find_assembler(device_.capability, device_.driver_version); });
    return assembler_ ? &*assembler_ : nullptr;
  }

  std::string dump_sass(const atlas::Program& program) const {
    const Assembler* a = assembler();
    if (!a)
      fail(ErrorCode::unavailable,
           "HOLOGRAM_DUMP=sass: no ptxas was found; HOLOGRAM_CUDA_ASSEMBLER names one");
    const Assembled made =
        assemble(*a, dump_ptx(program, device_.capability, settings_.block), device_.capability);
    if (made.cubin.empty()) fail(ErrorCode::internal, "cuda: {}: {}", a->path, made.words);
    return disassemble(*a, made.cubin);
  }

  // With machine code, if there is an assembler that takes it and a driver that takes the result.
  Stored assembled(Stored stored) const {
    const Assembler* a = assembler();
    if (!a || refused_) return stored;
    Assembled made = assemble(*a, stored.code, device_.capability);
    if (made.cubin.empty()) return stored;
    if (loads(device_, made.cubin))
      stored.cubin = std::move(made.cubin);
    else
      refused_ = true;  // and would refuse the next one
    return stored;
  }

  const Backend& host() const {
    if (!host_)
      fail(ErrorCode::unsupported, "cuda: lane programs need the backend \"cpu\" as well");
    return *host_;
  }

  std::shared_ptr<const LoadedKernel> load_on_host(const atlas::Program& program,
                                                   std::string_view code) const {
    auto kernel = std::make_shared<LoadedKernel>();
    for (const atlas::Buffer& b : program.buffers)
      if (b.access != atlas::Access::scratch) kernel->buffers.push_back(b);
    kernel->host = host().load(program, code);
    kernel->host_function = host().host_function(kernel->host);
    return kernel;
  }

  const Settings settings_ = read_settings();
  const DeviceContext& device_;
  mutable DeviceMemory memory_;
  const CudaMachine machine_{device_.capability, device_.multiprocessors};
  std::unique_ptr<Backend> host_;
  mutable Counts counts_;
  mutable std::once_flag looked_;
  mutable std::optional<Assembler> assembler_;
  mutable std::atomic<bool> refused_{false};
};

}  // namespace

int device_count() {
  try {
    return usable_devices();
  } catch (const Error&) {
    return 0;
  }
}

std::unique_ptr<Backend> make_backend(int device) {
  return std::make_unique<CudaBackend>(device_context(device));
}

}  // namespace hologram::cuda

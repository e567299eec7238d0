// backend/cuda/backend.cpp: the backend of NVIDIA's GPUs.
#include "backend/cuda/backend.h"

#include "backend/cuda/assembler.h"
#include "backend/cuda/builtin.h"
#include "backend/cuda/compiler.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/machine.h"
#include "backend/cuda/settings.h"
#include "backend/cuda/target.h"
#include "backend/cuda/witness.h"
#include "backend/beside_host.h"
#include "base/error.h"

namespace hologram::cuda {
namespace {

class CudaBackend final : public BesideHost {
 public:
  explicit CudaBackend(const DeviceContext& device)
      : device_(device), memory_(device) {}

  std::string_view name() const override { return "cuda"; }
  std::string code_key() const override {
    const Assembler* a = assembler();
    return fmt::format(
        "cuda {} {} {} for {} by {}{}{} + {}", cuda::target().cpu, cuda::target().features,
        version(), gpu_name(device_.capability),
        a ? "ptxas " + a->version : fmt::format("the driver for {}", driver_version_),
        has_usual_block() ? "" : fmt::format(" in {}", settings_.block),
        settings_.hears ? "" : " unheard", host_ ? host_->code_key() : "");
  }
  Memory* memory() const override { return &memory_; }
  const schedule::Machine& machine() const override { return machine_; }

  std::string compile(const atlas::Program& program) const override {
    const std::optional<std::string> why = compiler().unrendered(program);
    if (!why)
      return to_text(judged(
          assembled(compiler().compile(program, device_.capability, settings_.block), program),
          program));
    if (!host_) fail(ErrorCode::unsupported, "cuda: {} are not rendered for GPUs yet", *why);
    return to_text({host_->compile(program), {}, true});
  }

  Kernel load(const atlas::Program& program, std::string_view code) const override {
    Stored stored = from_text(code, program.num_symbols);
    const Expr total = stored.facts.total;
    std::shared_ptr<const LoadedKernel> kernel;
    if (stored.on_host) {
      auto beside = std::make_shared<LoadedKernel>();
      beside->host = load_on_host(program, stored.code);
      kernel = std::move(beside);
    } else {
      kernel = load_stored(program, std::move(stored));
    }
    return {kernel.get(), total, Expr(1), Expr(1), kernel};
  }

  std::optional<Kernel> builtin(const atlas::Program& program,
                                const Fingerprint& key) const override {
    const BuiltinKernel* found = has_usual_block() ? find_builtin(key.hex()) : nullptr;
    if (!found) return std::nullopt;
    if (device_.capability == 90 && compiler().is_special(program, 90)) return std::nullopt;
    Stored stored = from_text(found->stored, program.num_symbols);
    for (size_t k = 0; k < std::size(builtin_capabilities); ++k)
      if (builtin_capabilities[k] == device_.capability) stored.cubin = found->cubins[k];
    if (!stored.cubin.empty())
      if (const auto why = refusal(device_, stored.cubin)) {
        log_.note(
            fmt::format("cuda: the driver refuses machine code that comes with the library, and "
                        "makes its own of it: {}",
                        *why));
        stored.cubin.clear();
      }
    auto kernel = load_module(device_, program, std::move(stored));
    return Kernel{kernel.get(), kernel->facts.total, Expr(1), Expr(1), kernel};
  }

  std::unique_ptr<Launcher> launcher(std::span<const atlas::EntryStep> steps,
                                     std::span<const std::shared_ptr<const Kernel>> kernels,
                                     CodeStore&) const override {
    return make_launcher(steps, kernels, memory_, log_, settings_.waits);
  }
  std::vector<std::pair<std::string_view, uint64_t>> counts() const override {
    return log_.counts();
  }
  std::vector<std::string> notes() const override { return log_.notes(); }
  std::string describe() const override {
    const Assembler* a = assembler();
    std::string out = fmt::format(
        "{}, compute capability {}.{}, {} multiprocessors; driver for CUDA {}.{}; kernels "
        "assembled by {}",
        device_.name, device_.capability / 10, device_.capability % 10, device_.multiprocessors,
        driver_version_ / 1000, driver_version_ % 1000 / 10,
        a ? fmt::format("ptxas {} ({})", a->version, a->path) : "the driver");
    for (const std::string& note : notes()) out += "\n" + note;
    return out;
  }

  std::optional<std::string> dump(const atlas::Program& program,
                                  std::string_view stage) const override {
    if (compiler().unrendered(program)) return host_ ? host_->dump(program, stage) : std::nullopt;
    if (stage == "llvm") return compiler().dump_llvm(program, device_.capability, settings_.block);
    if (stage == "asm" || stage == "ptx")
      return compiler().dump_ptx(program, device_.capability, settings_.block);
    if (stage == "sass") return dump_sass(program);
    return std::nullopt;
  }

 private:
  bool has_usual_block() const { return settings_.block == usual_block; }

  // Null: the driver turns PTX into machine code.
  const Assembler* assembler() const {
    std::call_once(looked_,
                   [&] { assembler_ = find_assembler(device_.capability, driver_version_); });
    return assembler_ ? &*assembler_ : nullptr;
  }

  std::string dump_sass(const atlas::Program& program) const {
    const Assembler* a = assembler();
    if (!a)
      fail(ErrorCode::unavailable,
           "HOLOGRAM_DUMP=sass: no ptxas was found; HOLOGRAM_CUDA_ASSEMBLER names one");
    const std::string ptx = compiler().dump_ptx(program, device_.capability, settings_.block);
    const Assembled made = assemble(*a, ptx, device_.capability);
    if (made.cubin.empty()) fail(ErrorCode::internal, "cuda: {}: {}", a->path, made.words);
    return disassemble(*a, made.cubin);
  }

  // With machine code, if there is an assembler that takes it and a driver that takes the result.
  Stored assembled(Stored stored, const atlas::Program& program) const {
    const Assembler* a = assembler();
    if (!a || refused_) return stored;
    Assembled made = assemble(*a, stored.code, device_.capability);
    if (made.cubin.empty()) {
      log_.note(
          fmt::format("cuda: ptxas {} ({}) refuses kernel {}, which the driver gets as PTX: {}",
                      a->version, a->path, name_of(program), made.words));
      return stored;
    }
    if (const auto why = refusal(device_, made.cubin)) {
      log_.note(
          fmt::format("cuda: the driver refuses machine code of ptxas {} ({}), which is asked "
                      "no more: {}",
                      a->version, a->path, *why));
      refused_ = true;  // and would refuse the next one
      return stored;
    }
    stored.cubin = std::move(made.cubin);
    return stored;
  }

  // With a witness's verdict, where the code needs one.
  Stored judged(Stored stored, const atlas::Program& program) const {
    if (!settings_.hears || !stored.facts.wide || !stored.facts.wide->registers) return stored;
    const Assembler* a = stored.cubin.empty() ? nullptr : assembler();
    if (!reuses_registers(a, driver_version_)) return stored;
    const auto kernel = load_module(device_, program, stored);
    std::string words;
    stored.verdict = hear_witness(program, *kernel, memory_, log_, words);
    if (stored.verdict != Verdict::right)
      log_.note(fmt::format("cuda: {} of kernel {}, assembled by {}, is not used: {}", wide_symbol,
                            kernel->name, a ? "ptxas " + a->version : "the driver",
                            stored.verdict == Verdict::wrong
                                ? "it multiplies wrongly, as ptxas before 13.3 may do: " + words
                                : "nothing is known of its products " + words));
    return stored;
  }

  // What the driver refuses is assembled anew by whoever asked.
  std::shared_ptr<const LoadedKernel> load_stored(const atlas::Program& program,
                                                  Stored stored) const try {
    if (stored.verdict == Verdict::open) stored = judged(std::move(stored), program);
    if (stored.verdict == Verdict::open || stored.verdict == Verdict::wrong)
      stored.facts.wide.reset();
    return load_module(device_, program, std::move(stored));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::corrupt) log_.note(error.what());
    throw;
  }

  const Settings settings_ = read_settings();
  const DeviceContext& device_;
  const int driver_version_ = version_of(device_.driver);
  mutable DeviceMemory memory_;
  const CudaMachine machine_{device_.capability, device_.multiprocessors};
  mutable Log log_;
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

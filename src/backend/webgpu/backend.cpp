// backend/webgpu/backend.cpp: the backend of WebGPU.
#include "backend/webgpu/backend.h"

#include "backend/beside_host.h"
#include "backend/notes.h"
#include "backend/registry.h"
#include "backend/webgpu/kernel.h"
#include "backend/webgpu/launch.h"
#include "backend/webgpu/machine.h"
#include "backend/webgpu/probe.h"
#include "backend/webgpu/stored.h"
#include "base/error.h"

namespace hologram::webgpu {
namespace {

class WebBackend final : public BesideHost {
 public:
  explicit WebBackend(const DeviceContext& device) : device_(device), memory_(device) {}

  std::string_view name() const override { return "webgpu"; }
  std::string code_key() const override {
    return fmt::format("webgpu {} {} + {}", version(), device_.limits.storage_buffers,
                       host_ ? host_->code_key() : "");
  }
  Memory* memory() const override { return &memory_; }
  const schedule::Machine& machine() const override { return machine_; }
  std::string_view irreproducible() const override { return webgpu::irreproducible; }
  std::string target() const override { return std::string(stored_target); }
  CodeImage image(std::span<const atlas::Program> programs, std::span<const std::string> codes,
                  std::span<const atlas::EntryStep>) const override {
    return lay_out(programs, codes);
  }

  std::string compile(const atlas::Program& program) const override {
    if (const auto module = render(program)) return std::string(rendered) + module->text;
    if (!host_)
      fail(ErrorCode::unsupported, "webgpu: {}", why_left(program));
    return std::string(on_host) + host_->compile(program);
  }

  Kernel load(const atlas::Program& program, std::string_view code) const override {
    if (program.buffers.empty()) return load_stored(code);
    auto kernel = std::make_shared<LoadedKernel>();
    kernel->buffers = program.buffers;
    kernel->num_symbols = static_cast<size_t>(program.num_symbols);
    if (host_)
      kernel->substitute.make = [this, program] {
        return load_on_host(program, host_->compile(program));
      };
    if (code.starts_with(on_host) && host_) {
      kernel->host = load_on_host(program, code.substr(on_host.size()));
      notes_.note(fmt::format("webgpu: kernels run on the host: {}", why_left(program)));
    } else {
      auto module = render(program);
      if (!module || !code.starts_with(rendered) || code.substr(rendered.size()) != module->text)
        fail(ErrorCode::corrupt, "webgpu: stored code that is not this program's");
      kernel->module = std::move(*module);
      kernel->pipelines = pipelines_of(device_, kernel->module, facts().fused);
    }
    return {kernel.get(), Expr(1), Expr(1), Expr(1), kernel, 0, kernel->takes()};
  }

  std::unique_ptr<Launcher> launcher(std::span<const atlas::EntryStep> steps,
                                     std::span<const std::shared_ptr<const Kernel>> kernels,
                                     CodeStore&) const override {
    return make_launcher(steps, kernels, memory_, counts_, notes_);
  }
  std::vector<std::pair<std::string_view, uint64_t>> counts() const override {
    return {{"dispatches", counts_.dispatches.load()},
            {"submissions", counts_.submissions.load()},
            {"host_runs", counts_.host_runs.load()},
            {"uploaded_bytes", memory_.uploaded_bytes()},
            {"staged_bytes", memory_.staged_bytes()}};
  }
  std::vector<std::string> notes() const override { return notes_.notes(); }
  std::string describe() const override {
    const Limits& l = device_.limits;
    std::string out = fmt::format(
        "{}, by {} ({}); wgpu-native from {}; {}; storage buffers a kernel: {}; bytes a binding: "
        "{}; "
        "bytes of a workgroup: {}; f16: {}; subgroups: {}; memory of the host: {}",
        device_.name, device_.interface, device_.driver, device_.library.path, words_of(facts()),
        l.storage_buffers, l.storage_binding, l.workgroup_memory, device_.f16 ? "yes" : "no",
        device_.subgroups ? "yes" : "no", device_.unified ? "yes" : "no");
    for (const std::string& note : notes()) out += "\n" + note;
    return out;
  }
  std::optional<std::string> dump(const atlas::Program& program,
                                  std::string_view stage) const override {
    if (const auto module = render(program))
      return stage == "wgsl" || stage == "asm" ? std::optional(module->text) : std::nullopt;
    return host_ ? host_->dump(program, stage) : std::nullopt;
  }

 private:
  // Nothing: the program is left to the host.
  std::optional<wgsl::Module> render(const atlas::Program& program) const {
    return render_within(program, device_.limits.storage_buffers);
  }
  static std::string why_left(const atlas::Program& program) {
    return wgsl::why_unrendered(program).value_or("more buffers than a kernel takes");
  }
  // One of an archive's (lay_out). What its writer left to the host may be rendered here.
  Kernel load_stored(std::string_view code) const {
    if (!code.starts_with(text_mark)) {
      const atlas::Program program = atlas::decode(code);
      atlas::verify(program);
      require(!program.buffers.empty(), "a kernel without buffers");
      return load(program, compile(program));
    }
    wgsl::Stored stored = wgsl::read(code);
    for (const wgsl::Dispatch& d : stored.module.dispatches)
      if (d.buffers.size() + 1 > device_.limits.storage_buffers)
        fail(ErrorCode::unsupported, "webgpu: a stored kernel of {} buffers; {} binds {}",
             d.buffers.size() + 1, device_.name, device_.limits.storage_buffers);
    auto kernel = std::make_shared<LoadedKernel>();
    kernel->buffers = std::move(stored.buffers);
    kernel->num_symbols = static_cast<size_t>(stored.num_symbols);
    kernel->module = std::move(stored.module);
    kernel->pipelines = pipelines_of(device_, kernel->module, facts().fused);
    return {kernel.get(), Expr(1), Expr(1), Expr(1), kernel, 0, kernel->takes()};
  }
  const Facts& facts() const {
    std::call_once(probed_, [&] { facts_ = probe(memory_); });
    return facts_;
  }

  const DeviceContext& device_;
  mutable DeviceMemory memory_;
  const WebMachine machine_;
  mutable Counts counts_;
  mutable Notes notes_;
  mutable std::once_flag probed_;
  mutable Facts facts_;
};

int count_of(std::string_view interface) {
  try {
    return count_adapters(interface);
  } catch (const Error&) {
    return 0;
  }
}

}  // namespace

int device_count() { return count_of({}); }

std::unique_ptr<Backend> make_backend(int device) {
  if (device == without_device) return make_writer();
  return std::make_unique<WebBackend>(device_context(device));
}

namespace metal {
int device_count() { return count_of("Metal"); }
std::unique_ptr<Backend> make_backend(int device) {
  return webgpu::make_backend(adapter_number("metal", "Metal", device));
}
}  // namespace metal

namespace vulkan {
int device_count() { return count_of("Vulkan"); }
std::unique_ptr<Backend> make_backend(int device) {
  return webgpu::make_backend(adapter_number("vulkan", "Vulkan", device));
}
}  // namespace vulkan

}  // namespace hologram::webgpu

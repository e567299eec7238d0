// backend/webgpu/stored.cpp: kernels as archives hold them, and who makes them without a device.
#include "backend/webgpu/stored.h"

#include "backend/refusing.h"
#include "backend/webgpu/machine.h"
#include "backend/webgpu/sources.h"
#include "base/error.h"
#include "base/json_string.h"

namespace hologram::webgpu {
namespace {

// Of maxStorageBuffersPerShaderStage, by the standard.
constexpr uint32_t least_storage_buffers = 8;

class Writer final : public RefusingBackend {
 public:
  Writer() : RefusingBackend("webgpu: without a device, kernels are written and not run") {}
  std::string_view name() const override { return "webgpu"; }
  std::string code_key() const override { return fmt::format("{} {}", stored_target, version()); }
  std::string target() const override { return std::string(stored_target); }
  const schedule::Machine& machine() const override { return machine_; }
  std::string_view irreproducible() const override { return webgpu::irreproducible; }

  std::string compile(const atlas::Program& program) const override {
    const auto module = render_within(program, least_storage_buffers);
    return module ? std::string(rendered) + module->text : std::string(on_host);
  }
  CodeImage image(std::span<const atlas::Program> programs, std::span<const std::string> codes,
                  std::span<const atlas::EntryStep>) const override {
    return lay_out(programs, codes);
  }

 private:
  const WebMachine machine_;
};

}  // namespace

std::string_view version() { return sources_hash; }

std::optional<wgsl::Module> render_within(const atlas::Program& program, uint32_t storage_buffers) {
  try {
    wgsl::Module module = wgsl::render(program);
    for (const wgsl::Dispatch& d : module.dispatches)
      if (d.buffers.size() + 1 > storage_buffers) return std::nullopt;
    return module;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    return std::nullopt;
  }
}

CodeImage lay_out(std::span<const atlas::Program> programs, std::span<const std::string> codes) {
  std::string left;
  for (size_t i = 0; i < codes.size(); ++i)
    if (!codes[i].starts_with(rendered))
      left += fmt::format(
          "{}\"{}\":{}", left.empty() ? "" : ",", i,
          json_string(
              wgsl::why_unrendered(programs[i]).value_or("more buffers than every device binds")));
  CodeImage image;
  image.bytes = fmt::format("wgsl {{\"kernels\":{},\"host\":{{{}}}}}\n", codes.size(), left);
  for (size_t i = 0; i < codes.size(); ++i) {
    image.kernels.push_back({image.bytes.size(), Expr(1), Expr(1), Expr(1)});
    image.bytes += codes[i].starts_with(rendered) ? codes[i].substr(rendered.size())
                                                  : atlas::encode(programs[i]);
  }
  image.run_all = image.bytes.size();
  return image;
}

std::unique_ptr<Backend> make_writer() { return std::make_unique<Writer>(); }

}  // namespace hologram::webgpu

// rt/backend.cpp: the one backend of libhologram_rt: this processor, for code that exists already.
#include "backend/backend.h"

#include "backend/cpu/keys.h"
#include "backend/registry.h"

namespace hologram {
namespace {

[[noreturn]] void refuse() {
  fail(ErrorCode::unsupported,
       "libhologram_rt runs machine code of archives and compiles nothing: use libhologram");
}

class StoredCodeBackend final : public Backend {
 public:
  std::string_view name() const override { return "cpu"; }
  std::string code_key() const override { return cpu::code_key(target_); }
  std::string target() const override { return cpu::target_key(target_); }
  const schedule::Machine& machine() const override { return schedule::plain_machine(); }
  std::string compile(const atlas::Program&) const override { refuse(); }
  Kernel load(const atlas::Program&, std::string_view) const override { refuse(); }
  std::unique_ptr<Launcher> launcher(std::span<const atlas::EntryStep>,
                                     std::span<const std::shared_ptr<const Kernel>>,
                                     CodeStore&) const override {
    refuse();
  }
  std::unique_ptr<LaneKernel> compile_lanes(const atlas::LaneProgram&) const override { refuse(); }

 private:
  const cpu::Target target_ = cpu::host_target();
};

constexpr RegisteredBackend table[] = {
    {"cpu", [] { return 1; },
     [](int) -> std::unique_ptr<Backend> { return std::make_unique<StoredCodeBackend>(); }}};

}  // namespace

std::span<const RegisteredBackend> registered_backends() { return table; }
std::span<const RegisteredBackend> registered_interfaces() { return {}; }

}  // namespace hologram

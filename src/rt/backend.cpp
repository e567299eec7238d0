// rt/backend.cpp: the one backend of libhologram_rt: this processor, for code that exists already.
#include "backend/cpu/keys.h"
#include "backend/refusing.h"
#include "backend/registry.h"

namespace hologram {
namespace {

class StoredCodeBackend final : public RefusingBackend {
 public:
  StoredCodeBackend()
      : RefusingBackend(
            "libhologram_rt runs machine code of archives and compiles nothing: use libhologram") {}
  std::string_view name() const override { return "cpu"; }
  std::string code_key() const override { return cpu::code_key(target_); }
  std::string target() const override { return cpu::target_key(target_); }
  const schedule::Machine& machine() const override { return schedule::plain_machine(); }

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

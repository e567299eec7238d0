// backend/beside_host.h: a device's backend that leaves to the host what it does not render.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "backend/backend.h"
#include "backend/on_host.h"
#include "backend/registry.h"
#include "base/error.h"

namespace hologram {

/// Lane programs run on the host, in copies that the runtime makes; on_host.h runs steps there.
class BesideHost : public Backend {
 public:
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

 protected:
  BesideHost() : host_(find_backend("cpu") ? make_backend("cpu") : nullptr) {}
  /// Throws Error(unsupported) where the build lacks it.
  const Backend& host() const {
    if (!host_)
      fail(ErrorCode::unsupported, "{}: what runs on the host needs the backend \"cpu\" as well",
           name());
    return *host_;
  }
  /// The host's kernel for a program, of what its compile() returned.
  HostKernel load_on_host(const atlas::Program& program, std::string_view code) const {
    const std::string aligned(code);  // as objects are to be
    HostKernel out{host().load(program, aligned), nullptr, {}};
    out.function = host().host_function(out.kernel);
    for (const atlas::Buffer& b : program.buffers)
      if (b.access != atlas::Access::scratch) out.buffers.push_back(b);
    return out;
  }

  const std::unique_ptr<Backend> host_;  ///< the host's, or null
};

}  // namespace hologram

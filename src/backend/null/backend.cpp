// backend/null/backend.cpp: verifies and encodes; for checking the compiler without a device.
#include "backend/null/backend.h"

#include "base/error.h"

namespace hologram::null {
namespace {

int32_t do_nothing(const atlas::Context*, void* const*, const int64_t*, int64_t, int64_t) {
  return 0;
}

class NullLanes : public LaneKernel {
 public:
  void run(const atlas::LaneLaunch&, atlas::LaneMemory&) const override {}
};

class NullBackend : public Backend {
 public:
  std::string_view name() const override { return "null"; }
  std::string code_key() const override { return "null"; }
  int panel_width(DType) const override { return 0; }

  std::string compile(const atlas::Program& program) const override {
    atlas::verify(program);
    return atlas::encode(program);
  }

  std::optional<std::string> compile_entry(std::span<const atlas::EntryStep>) const override {
    return std::nullopt;
  }

  CompiledEntry load_entry(std::string_view) const override {
    fail(ErrorCode::internal, "null: there are no entry functions");
  }

  std::unique_ptr<LaneKernel> compile_lanes(const atlas::LaneProgram& program) const override {
    atlas::verify(program);
    return std::make_unique<NullLanes>();
  }

  CompiledKernel load(const atlas::Program&, std::string_view code) const override {
    auto program = std::make_shared<atlas::Program>(atlas::decode(code));
    return {do_nothing, Expr(1), Expr(1), Expr(1), program};
  }
};

}  // namespace

int device_count() { return 1; }

std::unique_ptr<Backend> make_backend() { return std::make_unique<NullBackend>(); }

}  // namespace hologram::null

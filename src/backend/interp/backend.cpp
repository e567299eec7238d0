// backend/interp/backend.cpp: the interpreter behind the common backend interface.
#include "backend/interp/backend.h"

#include "backend/interp/interp.h"
#include "backend/interp/lane.h"
#include "base/error.h"

namespace hologram::interp {
namespace {

// A kernel function carries no data of its own: the program travels in the place before the first
// buffer.
int32_t execute(const atlas::Context* context, void* const* bufs, const int64_t* syms,
                int64_t begin, int64_t end) {
  if (begin >= end) return 0;
  const auto* program = static_cast<const atlas::Program*>(bufs[-1]);
  try {
    run(*program, bufs, syms, context->sticky_error);
    return 0;
  } catch (const Error& e) {
    return static_cast<int32_t>(e.code());
  } catch (...) {
    return static_cast<int32_t>(ErrorCode::internal);
  }
}

class InterpLanes : public LaneKernel {
 public:
  explicit InterpLanes(const atlas::LaneProgram& program) : program_(program) {
    atlas::verify(program_);
  }
  void run(const atlas::LaneLaunch& launch, atlas::LaneMemory& memory) const override {
    interp::run(program_, launch, memory);
  }

 private:
  atlas::LaneProgram program_;
};

class InterpBackend : public Backend {
 public:
  std::string_view name() const override { return "interp"; }
  // The stored code is the program itself: what expand_math makes of it may change with the
  // library.
  std::string code_key() const override { return "interp program"; }
  bool interprets() const override { return true; }
  int panel_width(DType) const override { return 16; }
  std::string compile(const atlas::Program& program) const override {
    return atlas::encode(program);
  }

  std::unique_ptr<LaneKernel> compile_lanes(const atlas::LaneProgram& program) const override {
    return std::make_unique<InterpLanes>(program);
  }

  CompiledKernel load(const atlas::Program&, std::string_view code) const override {
    auto program = std::make_shared<atlas::Program>(atlas::decode(code));
    atlas::expand_math(*program);
    return {execute, Expr(1), Expr(1), Expr(1), program};
  }
};

}  // namespace

int device_count() { return 1; }

std::unique_ptr<Backend> make_backend() { return std::make_unique<InterpBackend>(); }

}  // namespace hologram::interp

// backend/cpu/lanes/run.cpp: runs native lanes one after the other, from barrier to barrier.
#include "backend/cpu/lanes/run.h"

#include <exception>
#include <vector>

#include "atlas/lane_abi.h"
#include "backend/cpu/compiler.h"
#include "backend/cpu/load.h"
#include "base/error.h"

namespace hologram::cpu {
namespace {

using atlas::LaneState;
using atlas::LaneTrap;

// The services come first: generated code hands their address back.
struct Services : atlas::LaneServices {
  class Machine* machine;
};

class Machine : public atlas::LaneHost {
 public:
  Machine(const atlas::LaneProgram& program, atlas::KernelFn function,
          const atlas::LaneLaunch& launch, atlas::LaneMemory& memory)
      : LaneHost(program, launch, memory), function_(function), layout_(slots()) {
    services_.address = [](atlas::LaneServices* s, uint32_t at, uint64_t handle, uint64_t offset) {
      return guarded(s, [&](Machine& m) {
        return static_cast<uint64_t>(
            reinterpret_cast<uintptr_t>(m.LaneHost::address(at, handle, offset)));
      });
    };
    services_.operate = [](atlas::LaneServices* s, uint32_t at, uint64_t a, uint64_t b,
                           uint64_t c) {
      return guarded(s, [&](Machine& m) { return m.LaneHost::operate(at, a, b, c); });
    };
    services_.trap = [](atlas::LaneServices* s, uint32_t at, int32_t what, uint32_t reg,
                        uint32_t found) {
      return guarded(s, [&](Machine& m) -> uint64_t {
        m.stopped(at, static_cast<LaneTrap>(what), static_cast<int>(reg),
                  static_cast<DType>(found));
      });
    };
    services_.machine = this;
    states_.resize(lanes() * (layout_.size / 8));
  }

 private:
  // Exceptions wait here while generated code returns.
  template <class F>
  static int32_t guarded(atlas::LaneServices* s, const F& f) {
    Machine& m = *static_cast<Services*>(s)->machine;
    try {
      s->result = f(m);
      return 0;
    } catch (...) {
      m.error_ = std::current_exception();
      return 1;
    }
  }

  [[noreturn]] void stopped(uint32_t at, LaneTrap what, int reg, DType found) const {
    switch (what) {
      case LaneTrap::division_by_zero:
        division_by_zero(at);
      case LaneTrap::wrong_register:
        wrong_register(at, reg, found, program().instrs[at].type);
      case LaneTrap::overflow:
        overflow(at);
      case LaneTrap::underflow:
        underflow(at);
      default:
        too_many_steps();
    }
  }

  std::byte* state(size_t l) {
    return reinterpret_cast<std::byte*>(states_.data() + l * (layout_.size / 8));
  }

  void start(size_t l, uint32_t x, uint64_t number) override {
    std::byte* bytes = state(l);
    std::fill_n(bytes, layout_.calls, std::byte{0});
    reinterpret_cast<LaneState*>(bytes)->phase = launch().first_phase;
    auto* registers = reinterpret_cast<uint64_t*>(bytes + layout_.registers);
    auto* types = reinterpret_cast<DType*>(bytes + layout_.types);
    std::fill_n(types, slots().count, DType::host);
    auto put = [&](size_t reg, DType type, uint64_t value) {
      registers[slots().of[reg]] = value;
      types[slots().of[reg]] = type;
    };
    put(252, DType::u32, x);
    put(253, DType::u32, block_x());
    put(254, DType::u32, launch().block.x);
    put(255, DType::u64, number);
  }

  Stop resume(size_t l) override {
    void* buffers[] = {static_cast<atlas::LaneServices*>(&services_), state(l)};
    uint64_t left = services_.steps = steps_left();
    atlas::Context context{};
    int32_t status = function_(&context, buffers, nullptr, 0, 1);
    count_steps(left - services_.steps);
    switch (status) {
      case atlas::lane_ended:
        return {.done = true};
      case atlas::lane_waits:
        return {.barrier = static_cast<int>(reinterpret_cast<LaneState*>(state(l))->barrier)};
      default:
        check(error_ != nullptr, "cpu lanes");
        std::rethrow_exception(std::exchange(error_, nullptr));
    }
  }

  atlas::KernelFn function_;
  atlas::LaneLayout layout_;
  Services services_{};
  std::vector<uint64_t> states_;
  std::exception_ptr error_;
};

class NativeLanes : public LaneKernel {
 public:
  NativeLanes(const atlas::LaneProgram& program, std::string_view code)
      : program_(program), code_(cpu::load(code)) {}

  void run(const atlas::LaneLaunch& launch, atlas::LaneMemory& memory) const override {
    Machine(program_, code_->function, launch, memory).run();
  }
  size_t code_bytes() const override { return code_->bytes; }

 private:
  atlas::LaneProgram program_;
  std::shared_ptr<cpu::LoadedKernel> code_;
};

}  // namespace

std::string lane_code(const atlas::LaneProgram& program, const Target& target) {
  atlas::verify(program);
  return compiler().compile_lanes(program, target);
}

std::unique_ptr<LaneKernel> load_lanes(const atlas::LaneProgram& program, std::string_view code) {
  return std::make_unique<NativeLanes>(program, code);
}

}  // namespace hologram::cpu

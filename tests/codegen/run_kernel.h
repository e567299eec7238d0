// tests/codegen/run_kernel.h: compiles a program for an instruction set and runs it in chunks on this machine, on operands drawn for it.
#pragma once

#include <atomic>

#include "atlas/program.h"
#include "backend/cpu/compile.h"
#include "backend/cpu/keys.h"
#include "backend/cpu/load.h"
#include "backend/cpu/products/panels.h"
#include "interp/interp.h"
#include "ir/scalar.h"
#include "support/isas.h"
#include "support/test.h"

namespace hologram::test {

/// Bytes on a 64-byte boundary, with a guard behind them that nothing may write to.
class Memory {
 public:
  explicit Memory(size_t bytes) : size_(bytes), data_(bytes + 2 * guard, char{0x5a}) {}
  char* data() { return data_.data() + guard - reinterpret_cast<uintptr_t>(data_.data()) % 64; }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(data());
  }
  size_t size() const { return size_; }
  bool intact() {
    for (const char* p = data() + size_; p < data_.data() + data_.size(); ++p)
      if (*p != 0x5a) return false;
    for (const char* p = data_.data(); p < data(); ++p)
      if (*p != 0x5a) return false;
    return true;
  }

 private:
  static constexpr size_t guard = 128;
  size_t size_;
  std::vector<char> data_;
};

/// A compiled program. Tests try one with many inputs: the last ones are kept.
class Compiled {
 public:
  Compiled(const atlas::Program& program, const cpu::Target& target) {
    static std::map<std::pair<Fingerprint, std::string>, std::shared_ptr<const Made>> kept;
    if (kept.size() > 256) kept.clear();
    std::shared_ptr<const Made>& made = kept[{atlas::fingerprint(program), cpu::code_key(target)}];
    if (!made) {
      cpu::Object object = cpu::compile(program, target);
      std::shared_ptr<cpu::LoadedKernel> kernel = cpu::load(object.code);
      made = std::make_shared<const Made>(std::move(object), std::move(kernel));
    }
    made_ = made;
  }

  /// Runs all units in chunks of `chunk` (0: all at once) and returns the status; *errors gets the sticky bits.
  int32_t run(const std::vector<void*>& bufs, const std::vector<int64_t>& syms, int64_t chunk = 0, int32_t* errors = nullptr) const {
    atlas::Context context{};
    // As the runtime's: what a kernel notes before its memory stays from chunk to chunk of a run.
    static std::atomic<int64_t> runs{0};
    context.launch = ++runs;
    context.scratch = [](const atlas::Context* own, int64_t bytes) -> void* {
      thread_local std::unique_ptr<char, decltype(&std::free)> memory(nullptr, &std::free);
      thread_local int64_t size = 0, launch = 0;
      bool fresh = size < bytes || launch != own->launch;
      if (size < bytes) {
        memory.reset(static_cast<char*>(std::aligned_alloc(64, static_cast<size_t>(64 + bytes + 63) / 64 * 64)));
        size = bytes;
      }
      if (fresh) std::memset(memory.get() + 56, 0, 8);
      launch = own->launch;
      return memory.get() + 64;
    };
    std::atomic<int32_t> sticky{0};
    context.sticky_error = &sticky;
    int64_t total = object().launch.total.eval(syms);
    if (chunk == 0) chunk = std::max<int64_t>(total, 1);
    for (int64_t begin = 0; begin < total; begin += chunk) {
      int32_t status = function()(&context, bufs.data(), syms.data(), begin, std::min(total, begin + chunk));
      if (status) return status;
    }
    if (errors) *errors = sticky.load();
    return 0;
  }

  int64_t units(const std::vector<int64_t>& syms = {}) const { return object().launch.total.eval(syms); }
  const cpu::Object& object() const { return made_->object; }
  atlas::KernelFn function() const { return made_->kernel->function; }

 private:
  struct Made {
    cpu::Object object;
    std::shared_ptr<cpu::LoadedKernel> kernel;
  };
  std::shared_ptr<const Made> made_;
};

/// Normal numbers and random bits for every buffer that a program is given; of truth values three in four hold.
inline std::vector<Memory> random_operands(const atlas::Program& p, const std::vector<int64_t>& symbols, uint64_t seed = 3) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<Memory> memory;
  for (const atlas::Buffer& b : p.buffers) {
    if (b.access == atlas::Access::scratch) continue;
    const auto size = static_cast<size_t>(size_of(b.dtype)), count = static_cast<size_t>(b.extent.eval(symbols));
    memory.emplace_back(count * size);
    for (size_t i = 0; i < count; ++i) {
      uint64_t bits = is_float(b.dtype) ? ir::bits_of(b.dtype, normal(random)) : random();
      if (b.dtype == DType::b8) bits = bits % 4 != 0;
      std::memcpy(memory.back().data() + i * size, &bits, size);
    }
  }
  return memory;
}

inline std::vector<void*> addresses(std::vector<Memory>& memory) {
  std::vector<void*> out;
  for (Memory& m : memory) out.push_back(m.data());
  return out;
}

/// Runs a kernel on these buffers; nothing around them may be touched.
inline void expect_run(const Compiled& kernel, std::vector<Memory>& memory, const std::vector<int64_t>& symbols, int64_t chunk = 0) {
  ASSERT_EQ(kernel.run(addresses(memory), symbols, chunk), 0);
  for (Memory& m : memory) EXPECT_TRUE(m.intact());
}

/// What the interpreter leaves in the last buffer.
inline Memory interpreted(const atlas::Program& p, std::vector<Memory>& memory, const std::vector<int64_t>& symbols) {
  Memory out(memory.back().size());
  std::vector<void*> bufs = addresses(memory);
  bufs.back() = out.data();
  interp::run(p, bufs.data(), symbols.data(), nullptr);
  return out;
}

}  // namespace hologram::test

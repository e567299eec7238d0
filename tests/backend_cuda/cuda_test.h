// tests/backend_cuda/cuda_test.h: what the tests of the backend over the fake driver share
#pragma once

#include <dlfcn.h>

#include <filesystem>
#include <fstream>

#include "atlas/programs.h"
#include "backend/cuda/compile.h"
#include "backend/registry.h"
#include "base/error.h"
#include "emulator/fake_driver.h"
#include "runtime/run_program.h"
#include "support/corpus.h"
#include "support/differential.h"
#include "support/paths.h"
#include "support/refusal.h"
#include "support/test.h"

namespace hologram::test {

using runtime::Bytes;
using runtime::Runtime;

/// The driver that the program was started for.
struct StartedFor {
  std::string path = std::getenv("HOLOGRAM_CUDA_DRIVER");
  bool fake = path == beside_program(HOLOGRAM_FAKE_CUDA);
  void* library = dlopen(path.c_str(), RTLD_NOW);
};
inline const StartedFor& started_for() {
  static const StartedFor driver;
  return driver;
}
inline bool emulated() { return started_for().fake; }

/// A function that this driver has beside NVIDIA's: fakecuda_inject alone the fake one.
template <class F>
F* offered(const char* name) {
  void* const library = started_for().library;
  return library ? reinterpret_cast<F*>(dlsym(library, name)) : nullptr;
}
inline void inject(const char* what, int64_t value) {
  const auto call = offered<decltype(fakecuda_inject)>("fakecuda_inject");
  ASSERT_TRUE(call) << "the driver " << started_for().path << " takes no \"" << what << '"';
  call(what, value);
}
inline int64_t counted(const char* what) {
  const auto call = offered<decltype(fakecuda_count)>("fakecuda_count");
  return call ? call(what) : 0;
}

/// Whether the device has, or is said to have, the emulator's four multiprocessors: tests whose
/// sizes are meant for these then say which kernels run.
inline bool small_device() {
  const char* said = std::getenv("HOLOGRAM_SPY_MULTIPROCESSORS");
  return emulated() || (said && std::string_view(said) == "4");
}

/// What the driver counts from here on.
class Counted {
 public:
  explicit Counted(const char* what) : what_(what), before_(counted(what)) {}
  int64_t more() const { return counted(what_) - before_; }
  /// Expects so many; on any other device than a small one nothing.
  void expect(int64_t wanted) const {
    if (small_device()) {
      EXPECT_EQ(more(), wanted) << what_;
    }
  }

 private:
  const char* what_;
  int64_t before_;
};

// Of results alone: a GPU's too, and its suites' names end in Device: tests/cuda/shot.py runs them.
class CudaDevice : public testing::Test {
 protected:
  static Runtime& runtime() {
    static Runtime made("cuda");
    return made;
  }
  // What the backend itself counts.
  static int64_t counts(std::string_view name, Runtime& of = runtime()) {
    for (const auto& [known, count] : of.backend().counts())
      if (known == name) return static_cast<int64_t>(count);
    ADD_FAILURE() << name;
    return -1;
  }
};

// On a device of capability 9.0.
class CudaDevice90 : public CudaDevice {
 protected:
  void SetUp() override {
    if (emulated())
      inject("capability", 90);
    else if (runtime().backend().describe().find("capability 9.0") == std::string::npos)
      GTEST_SKIP() << "another capability than 9.0";
  }
  void TearDown() override {
    if (emulated()) inject("nothing", 0);
  }
};

// Asks the emulator for failures or counts.
class CudaBackend : public CudaDevice {
 protected:
  void SetUp() override {
    if (!emulated()) GTEST_SKIP() << "another driver than the fake one";
  }
  void TearDown() override {
    if (!emulated()) return;
    inject("nothing", 0);
    setenv("HOLOGRAM_CUDA_DRIVER", started_for().path.c_str(), 1);
  }
  // What making the backend throws.
  static std::string refusal(const char* name = "cuda") {
    return test::refusal([&] { make_backend(name); }, ErrorCode::unavailable);
  }
  // x + y of n numbers; what it throws.
  static std::string add(std::vector<float>& out, Runtime& runtime = CudaBackend::runtime()) {
    std::vector<float> x(out.size(), 2), y(out.size(), 0.5f);
    const auto bytes = [](std::vector<float>& v) { return std::as_writable_bytes(std::span(v)); };
    const Bytes buffers[] = {bytes(x), bytes(y), bytes(out)};
    const int64_t symbols[] = {std::ssize(out)};
    try {
      run_program(runtime, elementwise(Op::add, DType::f32, 2, DType::f32), buffers, symbols);
      return "";
    } catch (const Error& e) {
      return e.what();
    }
  }
};

// The same on a device of capability 9.0.
class CudaBackend90 : public CudaBackend {
 protected:
  void SetUp() override {
    CudaBackend::SetUp();
    if (!IsSkipped()) inject("capability", 90);
  }
};

// Kernels through an assembler that makes what the fake driver loads, and a disk cache of their own.
class CudaCubins : public CudaBackend {
 protected:
  void SetUp() override {
    CudaBackend::SetUp();
    folder_ = std::filesystem::path(testing::TempDir()) / ("hologram_cubins_" + std::to_string(getpid()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
    set("HOLOGRAM_CUDA_ASSEMBLER", beside_program(HOLOGRAM_FAKE_PTXAS));
    set("HOLOGRAM_CACHE_DIR", (folder_ / "cache").string());
    set("FAKE_PTXAS_LOG", (folder_ / "log").string());
  }
  void TearDown() override {
    for (const auto& [name, before] : before_) before ? setenv(name.c_str(), before->c_str(), 1) : unsetenv(name.c_str());
    std::filesystem::remove_all(folder_);
    CudaBackend::TearDown();
  }
  void set(const std::string& name, const std::string& value) {
    const char* old = std::getenv(name.c_str());
    before_.try_emplace(name, old ? std::optional<std::string>(old) : std::nullopt);
    setenv(name.c_str(), value.c_str(), 1);
  }
  // How often the assembler was called so far.
  int64_t assembled() const {
    std::ifstream in(folder_ / "log");
    return std::count(std::istreambuf_iterator<char>(in), {}, '\n');
  }
  // x op y of bytes, which does not come with the library.
  static atlas::Program bytes(Op op = Op::add) { return elementwise(op, DType::u8, 2, DType::u8); }
  // Runs it in a runtime of its own; where the kernel came from.
  static runtime::KernelSource source(Op op = Op::add) {
    Runtime fresh("cuda");
    const atlas::Program program = bytes(op);
    std::vector<uint8_t> x(50, 2), y(50, 3), out(50);
    const Bytes buffers[] = {std::as_writable_bytes(std::span(x)), std::as_writable_bytes(std::span(y)),
                             std::as_writable_bytes(std::span(out))};
    runtime::KernelSource from;
    fresh.kernels().get(program, &from);
    run_program(fresh, program, buffers, std::array<int64_t, 1>{50});
    EXPECT_EQ(out, std::vector<uint8_t>(50, op == Op::add ? 5 : 6));
    return from;
  }
  // What the disk has of x + y.
  static cuda::Stored stored() {
    Runtime fresh("cuda");
    const atlas::Program program = bytes();
    const auto code = fresh.kernels().disk().get(key(fresh, program));
    return code ? cuda::from_text(*code, program.num_symbols) : cuda::Stored{};
  }
  static void store(const cuda::Stored& stored) {
    Runtime fresh("cuda");
    fresh.kernels().disk().put(key(fresh, bytes()), cuda::to_text(stored));
  }
  static Fingerprint key(Runtime& runtime, const atlas::Program& program) {
    return fingerprint(atlas::fingerprint(program).hex() + runtime.backend().code_key());
  }

  std::filesystem::path folder_;
  std::map<std::string, std::optional<std::string>> before_;
};

/// rows x depth times depth x columns of floats, stored by rows or by columns; sums in f32. `rows`: how many there are known to be, or s0.
atlas::Program float_product(const char* type, bool left_by_columns, bool right_by_columns, const std::string& rows = "s0",
                             bool reproducible = false, int precision = 0);

/// rows x depth times depth x columns of bytes, both along k.
atlas::Program byte_product(const char* left, const char* right);

/// Whether that of drawn bytes is right, modulo 2^32. `sizes`: rows, depth, columns.
void expect_byte_product(Runtime& runtime, const char* left, const char* right, const std::array<int64_t, 3>& sizes);

/// Runs a program on drawn multiples of 1/4, small but for a first buffer of f32, whose products and
/// sums are exact in any order: expects the interpreter's bits, and so many tensor maps and launches.
void expect_interpreters(Runtime& runtime, const atlas::Program& program, const std::vector<int64_t>& sizes, int64_t maps,
                         int64_t launches);

/// One head: queries x depth, s0 keys x depth, s0 keys x depth. `queries`: how many, or s1.
atlas::Program attention(const char* type, const std::string& queries, int depth, bool causal = false);

/// A real assembler's path, or nothing. `newest`: Triton's second one, if there is one.
std::string ptxas(bool newest = false);

/// What the assembler says of a program's kernels on a GPU.
std::string assembled(const std::string& ptx, const char* gpu);

/// By the assembler's words, nothing was spilled and no kernel has more registers a thread.
void expect_registers(const std::string& words, int most);

/// The same of what a real assembler, if there is one, makes of it; nor does a product wait for its registers (C75xx).
void expect_assembles(const std::string& ptx, int most, const char* gpu = "sm_90a");

}  // namespace hologram::test

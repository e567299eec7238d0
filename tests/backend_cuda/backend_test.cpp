// tests/backend_cuda/backend_test.cpp: the backend over the fake driver: errors, faults, streams,
// PTX
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "atlas/programs.h"
#include "backend/cuda/assembler.h"
#include "backend/cuda/compile.h"
#include "backend/registry.h"
#include "base/error.h"
#include "codegen/target.h"
#include "runtime/run_program.h"
#include "support/differential.h"
#include "support/ptx/fake_driver.h"

namespace hologram::test {
namespace {

using runtime::Bytes;
using runtime::Runtime;

void* fake_library() {
  static void* const library = dlopen(HOLOGRAM_FAKE_CUDA, RTLD_NOW);
  return library;
}
void inject(const char* what, int64_t value) {
  reinterpret_cast<decltype(&fakecuda_inject)>(dlsym(fake_library(), "fakecuda_inject"))(what,
                                                                                         value);
}
int64_t counted(const char* what) {
  return reinterpret_cast<decltype(&fakecuda_count)>(dlsym(fake_library(), "fakecuda_count"))(what);
}

class CudaBackend : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string_view(std::getenv("HOLOGRAM_CUDA_DRIVER")) != HOLOGRAM_FAKE_CUDA)
      GTEST_SKIP() << "another driver than the fake one";
  }
  void TearDown() override {
    inject("nothing", 0);
    setenv("HOLOGRAM_CUDA_DRIVER", HOLOGRAM_FAKE_CUDA, 1);
  }
  static Runtime& runtime() {
    static Runtime made("cuda");
    return made;
  }
  // What making the backend throws.
  static std::string refusal(const char* name = "cuda") {
    try {
      make_backend(name);
      return "";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::unavailable);
      return e.what();
    }
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

TEST_F(CudaBackend, AnElementwiseProgramRunsOnTheDevice) {
  std::vector<float> out(1000);
  const int64_t launches = counted("launches"),
                host = static_cast<int64_t>(runtime().backend().host_runs());
  ASSERT_EQ(add(out), "");
  EXPECT_EQ(out, std::vector<float>(1000, 2.5f));
  EXPECT_EQ(counted("launches"), launches + 1);
  EXPECT_EQ(static_cast<int64_t>(runtime().backend().host_runs()), host);
}

TEST_F(CudaBackend, SaysWhatIsMissing) {
  EXPECT_EQ(refusal(), "");
  inject("version", 11080);
  EXPECT_EQ(refusal(),
            "backend \"cuda\" is not available: the NVIDIA driver is for CUDA 11.8; it must be for "
            "12.0 or later");
  EXPECT_EQ(find_backend("cuda")->device_count(), 0);
  inject("nothing", 0);
  inject("capability", 75);
  EXPECT_EQ(
      refusal(),
      "backend \"cuda\" is not available: device 0 has compute capability 7.5; it must be 8.0 or "
      "higher");
  inject("nothing", 0);
  inject("devices", 0);
  EXPECT_EQ(refusal(), "backend \"cuda\" is not available: the NVIDIA driver finds no device");
  inject("nothing", 0);
  inject("init", 100);
  EXPECT_EQ(refusal(), "backend \"cuda\" is not available: the NVIDIA driver finds no device");
  inject("nothing", 0);
  setenv("HOLOGRAM_CUDA_DRIVER", "/nowhere/libcuda.so.1", 1);
  EXPECT_NE(
      refusal().find("backend \"cuda\" is not available: no NVIDIA driver: /nowhere/libcuda.so.1"),
      std::string::npos);
  EXPECT_EQ(find_backend("cuda")->device_count(), 0);
}

// The context that a thread of the user's has stays the thread's.
TEST_F(CudaBackend, EachDeviceHasARuntimeAndTheCurrentOneStays) {
  using Context = void*;
  auto driver = [](const char* name) { return dlsym(fake_library(), name); };
  const auto get = reinterpret_cast<int (*)(Context*)>(driver("cuCtxGetCurrent"));
  const auto set = reinterpret_cast<int (*)(Context)>(driver("cuCtxSetCurrent"));
  const auto retain = reinterpret_cast<int (*)(Context*, int)>(driver("cuDevicePrimaryCtxRetain"));
  inject("devices", 2);
  EXPECT_EQ(find_backend("cuda")->device_count(), 2);
  Context contexts[2], now;
  for (int d : {0, 1}) ASSERT_EQ(retain(&contexts[d], d), 0);
  for (Context users : {contexts[0], contexts[1]}) {
    set(users);
    Runtime second("cuda:1");
    EXPECT_EQ(second.device()->device().id, 1);
    for (Runtime* r : {&runtime(), &second, &runtime()}) {
      const bool other = r == &second;
      const int64_t launches[] = {counted("launches0"), counted("launches1")};
      std::vector<float> out(100);
      ASSERT_EQ(add(out, *r), "");
      EXPECT_EQ(out, std::vector<float>(100, 2.5f));
      EXPECT_EQ(counted("launches0") - launches[0], other ? 0 : 1);
      EXPECT_EQ(counted("launches1") - launches[1], other ? 1 : 0);
      ASSERT_EQ(get(&now), 0);
      EXPECT_EQ(now, users);
    }
    void* block = second.device()->allocate(64, nullptr);
    EXPECT_TRUE(second.device()->contains(block));
    EXPECT_FALSE(runtime().device()->contains(block));
    second.device()->deallocate(block, nullptr);
  }
  set(nullptr);
}

TEST_F(CudaBackend, DevicesThatAreNotThereAreRefused) {
  EXPECT_EQ(refusal("cuda:1"), "backend \"cuda\" has no device 1: the last one is \"cuda:0\"");
  inject("devices", 2);
  EXPECT_EQ(refusal("cuda:1"), "");
  EXPECT_EQ(refusal("cuda:2"), "backend \"cuda\" has no device 2: the last one is \"cuda:1\"");
  inject("capability1", 75);
  EXPECT_EQ(refusal("cuda:0"), "");
  EXPECT_EQ(
      refusal("cuda:1"),
      "backend \"cuda\" is not available: device 1 has compute capability 7.5; it must be 8.0 or "
      "higher");
  inject("init", 100);
  EXPECT_EQ(refusal("cuda:1"),
            "backend \"cuda\" is not available: the NVIDIA driver finds no device");
  EXPECT_THROW(choose_backend("cuda:"), Error);
  EXPECT_THROW(choose_backend("cuda:1x"), Error);
  EXPECT_THROW(choose_backend("cuda:-1"), Error);
  EXPECT_EQ(refusal("interp:1"),
            "backend \"interp\" has no device 1: the last one is \"interp:0\"");
}

TEST_F(CudaBackend, AutoStaysWithTheCpu) { EXPECT_EQ(default_backend().name, "cpu"); }

TEST_F(CudaBackend, FailuresAreErrorsAndPass) {
  std::vector<float> out(100);
  ASSERT_EQ(add(out), "");
  inject("allocate", 1);
  EXPECT_EQ(add(out), "cuda: the device has no room for 400 bytes");
  inject("nothing", 0);
  inject("launch", 0);
  const std::string refused = add(out);
  EXPECT_TRUE(refused.starts_with("cuda: launching kernel ")) << refused;
  EXPECT_TRUE(refused.ends_with(
      " (1 CTAs of 256 threads): too many resources requested for launch (error 701)"))
      << refused;
  inject("nothing", 0);
  inject("kernel", 0);
  EXPECT_EQ(add(out), "cuda: waiting for the device: unspecified launch failure (error 719)");
  inject("nothing", 0);
  EXPECT_EQ(add(out), "");
  EXPECT_EQ(out, std::vector<float>(100, 2.5f));
}

TEST_F(CudaBackend, BlocksAreGivenBack) {
  std::vector<float> out(100);
  ASSERT_EQ(add(out), "");
  runtime().device()->wait(nullptr);
  const int64_t blocks = counted("blocks");
  for (int n = 0; n < 5; ++n) ASSERT_EQ(add(out), "");
  runtime().device()->wait(nullptr);
  EXPECT_EQ(counted("blocks"), blocks);
}

TEST_F(CudaBackend, StreamsAreIndependentAndCopiesWait) {
  Memory& memory = *runtime().device();
  Stream streams[] = {memory.make_stream(), memory.make_stream()};
  std::vector<int> in(500), out(500);
  for (int n = 0; n < 500; ++n) in[static_cast<size_t>(n)] = n;
  for (Stream s : streams) {
    void* block = memory.allocate(2000, s);
    EXPECT_TRUE(memory.contains(block));
    memory.copy(block, in.data(), 2000, s);
    memory.copy(out.data(), block, 2000, s);
    EXPECT_EQ(in, out);
    memory.deallocate(block, s);
    memory.wait(s);
  }
  EXPECT_FALSE(memory.contains(in.data()));
  for (Stream s : streams) memory.free_stream(s);
}

TEST_F(CudaBackend, LargeCopiesPassThroughPinnedBlocks) {
  std::vector<uint32_t> in(size_t{6} << 20), out(in.size());
  for (size_t k = 0; k < in.size(); ++k) in[k] = static_cast<uint32_t>(k * 2654435761u);
  const size_t bytes = in.size() * 4 - 4;  // three blocks of the ring, the last one short
  Runtime fresh("cuda");
  auto round_trip = [&](Stream stream) {
    Memory& memory = *fresh.device();
    std::ranges::fill(out, 0u);
    void* block = memory.allocate(bytes, stream);
    memory.copy(block, in.data(), bytes, stream);
    memory.copy(out.data(), block, bytes, stream);
    memory.deallocate(block, stream);
    return std::equal(in.begin(), in.end() - 1, out.begin());
  };
  const int64_t pinned = counted("pinned");
  inject("pin", 0);
  EXPECT_TRUE(round_trip(nullptr));  // once as the driver can
  inject("nothing", 0);
  Stream stream = fresh.device()->make_stream();
  EXPECT_TRUE(round_trip(nullptr));
  EXPECT_TRUE(round_trip(stream));
  EXPECT_EQ(counted("pinned"), pinned + 2);
  fresh.device()->free_stream(stream);
}

TEST_F(CudaBackend, IsDescribed) {
  EXPECT_EQ(runtime().backend().describe(),
            "Fake GPU 0, compute capability 8.0, 4 multiprocessors; driver for CUDA 12.4; kernels "
            "assembled by the driver");
}

// Kernels through an assembler that makes what the fake driver loads, and a disk cache of their
// own.
class CudaCubins : public CudaBackend {
 protected:
  void SetUp() override {
    CudaBackend::SetUp();
    folder_ =
        std::filesystem::path(testing::TempDir()) / ("hologram_cubins_" + std::to_string(getpid()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
    set("HOLOGRAM_CUDA_ASSEMBLER", HOLOGRAM_FAKE_PTXAS);
    set("HOLOGRAM_CACHE_DIR", (folder_ / "cache").string());
    set("FAKE_PTXAS_LOG", (folder_ / "log").string());
  }
  void TearDown() override {
    for (const auto& [name, before] : before_)
      before ? setenv(name.c_str(), before->c_str(), 1) : unsetenv(name.c_str());
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
    const Bytes buffers[] = {std::as_writable_bytes(std::span(x)),
                             std::as_writable_bytes(std::span(y)),
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

TEST_F(CudaCubins, AreAssembledOnceAndKeptOnDisk) {
  EXPECT_EQ(source(), runtime::KernelSource::compiled);
  EXPECT_EQ(assembled(), 1);
  EXPECT_TRUE(
      stored().cubin.starts_with("\x7f"
                                 "FAKECUBIN sm_80 "));
  EXPECT_NE(stored().code.find(".entry hologram_kernel"), std::string::npos);
  const int64_t cubins = counted("cubins");
  EXPECT_EQ(source(), runtime::KernelSource::disk);
  EXPECT_EQ(assembled(), 1);
  EXPECT_EQ(counted("cubins"), cubins + 1);
  set("FAKE_PTXAS_VERSION", "12.4.999");  // another assembler: other machine code
  EXPECT_EQ(source(), runtime::KernelSource::compiled);
  EXPECT_EQ(assembled(), 2);
}

TEST_F(CudaCubins, EntriesThatTheDriverRefusesAreMadeAnew) {
  source();
  const cuda::Stored good = stored();
  std::string foreign = good.cubin, damaged = good.cubin;
  foreign.replace(foreign.find("sm_80"), 5, "sm_90");
  damaged[damaged.size() / 2] ^= 1;
  for (const std::string& bad : {foreign, damaged,
                                 std::string("\x7f"
                                             "ELF")}) {
    cuda::Stored entry = good;
    entry.cubin = bad;
    store(entry);
    EXPECT_EQ(source(), runtime::KernelSource::compiled);
    EXPECT_EQ(stored().cubin, good.cubin);
  }
  EXPECT_EQ(source(), runtime::KernelSource::disk);
}

TEST_F(CudaCubins, TheDriverAssemblesWhatTheAssemblerDoesNot) {
  set("FAKE_PTXAS_FAILS", "1");
  const int64_t cubins = counted("cubins");
  EXPECT_EQ(source(), runtime::KernelSource::compiled);
  EXPECT_EQ(assembled(), 1);
  EXPECT_EQ(counted("cubins"), cubins);
  EXPECT_TRUE(stored().cubin.empty());
  EXPECT_EQ(source(), runtime::KernelSource::disk);
}

TEST_F(CudaCubins, AnAssemblerWhoseCodeTheDriverRefusesIsAskedOnce) {
  set("FAKE_PTXAS_BREAKS", "1");
  Runtime fresh("cuda");
  for (Op op : {Op::add, Op::mul, Op::sub}) fresh.kernels().get(bytes(op));
  EXPECT_EQ(assembled(), 1);
  EXPECT_EQ(source(Op::mul), runtime::KernelSource::disk);
}

TEST_F(CudaCubins, AnAssemblerIsChosenByItsVersion) {
  auto with = [](int major, int minor) { return cuda::Assembler{"", major, minor, ""}; };
  EXPECT_FALSE(serves(with(11, 8), 80, 12040));
  EXPECT_TRUE(serves(with(12, 0), 80, 12040));
  EXPECT_FALSE(serves(with(12, 6), 90, 13000));
  EXPECT_TRUE(serves(with(12, 8), 90, 12040));  // another minor version's code is taken
  EXPECT_FALSE(serves(with(13, 0), 90, 12090));
  EXPECT_EQ(cuda::gpu_name(90), "sm_90a");
  EXPECT_EQ(cuda::gpu_name(86), "sm_86");
  ASSERT_TRUE(cuda::find_assembler(80, 12040).has_value());
  EXPECT_EQ(cuda::find_assembler(80, 12040)->version, "12.4.131");
  set("HOLOGRAM_CUDA_ASSEMBLER", "driver");
  EXPECT_FALSE(cuda::find_assembler(80, 12040).has_value());
  set("HOLOGRAM_CUDA_ASSEMBLER", "/bin/true");
  try {
    cuda::find_assembler(80, 12040);
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::unavailable);
    EXPECT_STREQ(e.what(),
                 "HOLOGRAM_CUDA_ASSEMBLER: /bin/true is no ptxas that runs here; expected a path "
                 "or \"driver\"");
  }
}

// $CUDA_HOME and PATH, the newest that serves.
TEST_F(CudaCubins, TheNewestAssemblerThatServesIsTaken) {
  set("HOLOGRAM_CUDA_ASSEMBLER", "");
  for (const auto& [name, version] : {std::pair{"home/bin", "12.2.1"},
                                      {"old", "11.8.89"},
                                      {"new", "12.8.93"},
                                      {"newer", "999.0.0"}}) {
    std::filesystem::create_directories(folder_ / name);
    const std::filesystem::path script = folder_ / name / "ptxas";
    std::ofstream(script) << "#!/bin/sh\necho ', V" << version << "'\n";
    std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  }
  set("CUDA_HOME", (folder_ / "home").string());
  set("PATH", fmt::format("{0}/old::{0}/new:{0}/newer:/bin:/usr/bin", folder_.string()));
  const auto found = cuda::find_assembler(80, 12040);
  ASSERT_TRUE(found.has_value());
  EXPECT_GE(std::pair(found->major, found->minor), std::pair(12, 8));  // of this system, perhaps
  EXPECT_EQ(found->major, 12);
}

std::vector<std::pair<std::string, atlas::Program>> corpus() {
  std::vector<std::pair<std::string, atlas::Program>> all;
  for (const auto& f :
       std::filesystem::directory_iterator(HOLOGRAM_SOURCE_DIR "/tests/conformance/corpus")) {
    std::ifstream in(f.path());
    std::string line, text;
    while (std::getline(in, line))
      if (line.empty() || line[0] != '#') text += line + "\n";
    all.emplace_back(f.path().stem().string(), atlas::assemble(text));
  }
  return all;
}

// Programs that this backend renders: the PTX of each is free of what rounds otherwise, and
// assembles.
std::vector<std::pair<std::string, atlas::Program>> rendered() {
  std::vector<std::pair<std::string, atlas::Program>> all = corpus();
  for (DType t : {DType::f32, DType::f64, DType::i32, DType::i64})
    for (Op op : {Op::add, Op::mul, Op::div, Op::max})
      all.emplace_back(std::string(name_of(t)) + "_" + std::string(ir::name_of(op)),
                       elementwise(op, t, 2, t));
  all.emplace_back("scan", row_scan(Op::reduce_sum, DType::f32));
  std::erase_if(all, [](const auto& p) { return cuda::unrendered(p.second).has_value(); });
  std::sort(all.begin(), all.end(), [](auto& a, auto& b) { return a.first < b.first; });
  return all;
}

// rows x depth times depth x columns of floats, stored by rows or by columns; sums in f32. `rows`:
// how many there are known to be, or s0.
atlas::Program float_product(const char* type, bool left_by_columns, bool right_by_columns,
                             const std::string& rows = "s0", bool reproducible = false) {
  return atlas::assemble(fmt::format(R"(atlas block 1
symbols 3
buffer b0 {0} read [s0*s1]
buffer b1 {0} read [s1*s2]
buffer b2 f32 write [s0*s2]
product batch 0 operand {0} acc f32 precision 0{4}
axis i0 parallel [{3}]
axis i1 parallel [s2]
axis i2 row [s1]
lhs
  %0 = load.{0} b0[{1}]
rhs
  %0 = load.{0} b1[{2}]
epilogue
  %0 = accumulator.f32 a0
  store.f32 b2[i1 + s2*i0], %0
)",
                                     type, left_by_columns ? "i0 + s0*i2" : "i2 + s1*i0",
                                     right_by_columns ? "i2 + s1*i1" : "i1 + s2*i2", rows,
                                     reproducible ? " reproducible" : ""));
}

// Small integers, whose products and sums every order of adding gives exactly.
TEST_F(CudaBackend, TensorCoresMultiplyIntegersExactly) {
  const std::vector<std::vector<int64_t>> shapes{
      {1, 1, 1},      {3, 0, 5},    {16, 16, 8},  {130, 40, 72}, {5, 33, 200},
      {257, 64, 129}, {1, 700, 37}, {2, 256, 64}, {3, 264, 9},   {4, 31, 17}};
  for (const char* type : {"bf16", "f16"})
    for (int layout = 0; layout < 4; ++layout)
      for (const auto& sizes : shapes) {
        SCOPED_TRACE(fmt::format("{} {} {}", type, layout, testing::PrintToString(sizes)));
        const int64_t m = sizes[0], depth = sizes[1], n = sizes[2];
        const bool by_columns[] = {(layout & 1) != 0, (layout & 2) != 0};
        auto number = [](int64_t i, int64_t j) {
          return static_cast<float>((7 * i + 5 * j) % 9 - 4);
        };
        auto bits = [&](float x) {  // of 16: both types hold small integers
          if (type[0] == 'b') return static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16);
          if (x == 0) return uint16_t{0};
          const int e = std::ilogb(x);
          const auto mantissa = static_cast<int>(std::fabs(std::ldexp(x, 10 - e))) - 1024;
          return static_cast<uint16_t>((x < 0 ? 0x8000 : 0) | (e + 15) << 10 | mantissa);
        };
        std::vector<uint16_t> left(static_cast<size_t>(m * depth)),
            right(static_cast<size_t>(depth * n));
        std::vector<float> out(static_cast<size_t>(m * n), -1), wanted(out.size());
        for (int64_t k = 0; k < depth; ++k) {
          for (int64_t i = 0; i < m; ++i)
            left[static_cast<size_t>(by_columns[0] ? i + m * k : k + depth * i)] =
                bits(number(i, k));
          for (int64_t j = 0; j < n; ++j)
            right[static_cast<size_t>(by_columns[1] ? k + depth * j : j + n * k)] =
                bits(number(k, j));
        }
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < n; ++j) {
            float sum = 0;
            for (int64_t k = 0; k < depth; ++k) sum += number(i, k) * number(k, j);
            wanted[static_cast<size_t>(i * n + j)] = sum;
          }
        const Bytes buffers[] = {std::as_writable_bytes(std::span(left)),
                                 std::as_writable_bytes(std::span(right)),
                                 std::as_writable_bytes(std::span(out))};
        std::vector<std::string> rows{"s0"};
        if (layout == 2 && m <= 16) rows.push_back(std::to_string(m));
        for (const std::string& known : rows) {
          std::ranges::fill(out, -1.0f);
          run_program(runtime(), float_product(type, by_columns[0], by_columns[1], known), buffers,
                      sizes);
          ASSERT_EQ(out, wanted) << known;
        }
      }
}

// rows x depth times depth x columns of bytes, both along k.
atlas::Program byte_product(const char* left, const char* right) {
  return atlas::assemble(fmt::format(R"(atlas block 1
symbols 3
buffer b0 {0} read [s0*s1]
buffer b1 {1} read [s1*s2]
buffer b2 i32 write [s0*s2]
product batch 0 operand {0}{2} acc i32 precision 0
axis i0 parallel [s0]
axis i1 parallel [s2]
axis i2 row [s1]
lhs
  %0 = load.{0} b0[i2 + s1*i0]
rhs
  %0 = load.{1} b1[i2 + s1*i1]
epilogue
  %0 = accumulator.i32 a0
  store.i32 b2[i1 + s2*i0], %0
)",
                                     left, right, std::string_view(left) == right ? "" : " mixed"));
}

TEST_F(CudaBackend, TensorCoresMultiplyBytes) {
  std::mt19937 random(9);
  for (const char* left : {"i8", "u8"})
    for (const char* right : {"i8", "u8"})
      for (const auto& sizes : std::vector<std::vector<int64_t>>{
               {1, 1, 1}, {3, 0, 5}, {17, 65, 9}, {130, 40, 72}, {5, 1333, 20}}) {
        SCOPED_TRACE(fmt::format("{} {} {}", left, right, testing::PrintToString(sizes)));
        const int64_t m = sizes[0], depth = sizes[1], n = sizes[2];
        std::vector<uint8_t> x(static_cast<size_t>(m * depth)), y(static_cast<size_t>(depth * n));
        for (auto* factor : {&x, &y})
          for (uint8_t& b : *factor) b = static_cast<uint8_t>(random());
        auto number = [](uint8_t b, const char* type) {
          return type[0] == 'i' ? int32_t{static_cast<int8_t>(b)} : int32_t{b};
        };
        std::vector<int32_t> out(static_cast<size_t>(m * n), -1), wanted(out.size());
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < n; ++j)
            for (int64_t k = 0; k < depth; ++k)
              wanted[static_cast<size_t>(i * n + j)] +=
                  number(x[static_cast<size_t>(i * depth + k)], left) *
                  number(y[static_cast<size_t>(j * depth + k)], right);
        const Bytes buffers[] = {std::as_writable_bytes(std::span(x)),
                                 std::as_writable_bytes(std::span(y)),
                                 std::as_writable_bytes(std::span(out))};
        run_program(runtime(), byte_product(left, right), buffers, sizes);
        ASSERT_EQ(out, wanted);
      }
}

// docs/numerics.md: what tensor cores cut off.
TEST_F(CudaBackend, TensorCoresStayWithinTheirBound) {
  constexpr int64_t m = 20, depth = 512, n = 24;
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (const bool one_sign : {false, true}) {
    std::vector<uint16_t> left(m * depth), right(depth * n);
    for (auto* factor : {&left, &right})
      for (uint16_t& x : *factor) {
        const float y = normal(random);
        x = static_cast<uint16_t>(std::bit_cast<uint32_t>(one_sign ? std::fabs(y) : y) >> 16);
      }
    std::vector<float> out(m * n);
    const Bytes buffers[] = {std::as_writable_bytes(std::span(left)),
                             std::as_writable_bytes(std::span(right)),
                             std::as_writable_bytes(std::span(out))};
    run_program(runtime(), float_product("bf16", false, false), buffers, std::array{m, depth, n});
    auto number = [](uint16_t x) { return double{std::bit_cast<float>(uint32_t{x} << 16)}; };
    bool exact = true;
    for (size_t i = 0; i < m; ++i)
      for (size_t j = 0; j < n; ++j) {
        double sum = 0, size = 0;
        for (size_t k = 0; k < depth; ++k) {
          const double product = number(left[i * depth + k]) * number(right[k * n + j]);
          sum += product;
          size += std::fabs(product);
        }
        EXPECT_LE(std::fabs(out[i * n + j] - sum), 11 * (depth / 16) * 0x1p-24 * size);
        exact = exact && out[i * n + j] == static_cast<float>(sum);
      }
    EXPECT_FALSE(exact);
  }
}

TEST_F(CudaBackend, TensorCoresKeepInfinityAndNan) {
  constexpr int64_t m = 4, depth = 20, n = 3;
  auto bits = [](float x) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16); };
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<uint16_t> left(m * depth, bits(1)), right(depth * n, bits(2));
  left[0 * depth + 3] = bits(infinity);
  left[1 * depth + 19] = bits(-infinity);
  left[2 * depth + 5] = bits(infinity), left[2 * depth + 18] = bits(-infinity);
  right[7 * n + 2] = bits(std::nanf(""));
  std::vector<float> out(m * n);
  const Bytes buffers[] = {std::as_writable_bytes(std::span(left)),
                           std::as_writable_bytes(std::span(right)),
                           std::as_writable_bytes(std::span(out))};
  run_program(runtime(), float_product("bf16", false, false), buffers, std::array{m, depth, n});
  for (size_t j = 0; j < 2; ++j) {
    EXPECT_EQ(out[0 * n + j], infinity);
    EXPECT_EQ(out[1 * n + j], -infinity);
    EXPECT_TRUE(std::isnan(out[2 * n + j]));
    EXPECT_EQ(out[3 * n + j], 40);
  }
  for (size_t i = 0; i < m; ++i) EXPECT_TRUE(std::isnan(out[i * n + 2]));
}

// m x depth times depth x n, both by rows.
std::vector<float> multiply(Runtime& runtime, std::vector<float> left, std::vector<float> right,
                            int64_t m, int64_t depth, int64_t n) {
  std::vector<float> out(static_cast<size_t>(m * n), -1);
  const auto bytes = [](std::vector<float>& v) { return std::as_writable_bytes(std::span(v)); };
  const Bytes buffers[] = {bytes(left), bytes(right), bytes(out)};
  run_program(runtime, float_product("f32", false, false), buffers, std::array{m, depth, n});
  return out;
}

// Integers of ten bits need two terms; every order of adding gives their sums exactly.
TEST_F(CudaBackend, TermsMultiplyIntegersExactly) {
  const std::vector<std::vector<int64_t>> shapes{
      {1, 1, 1}, {3, 0, 5}, {16, 16, 8}, {70, 40, 72}, {5, 33, 130}, {3, 800, 7}, {11, 900, 70}};
  auto number = [](int64_t i, int64_t j) {
    return static_cast<float>((611 * i + 377 * j) % 1021 - 510);
  };
  for (int layout = 0; layout < 4; ++layout)
    for (const auto& sizes : shapes) {
      SCOPED_TRACE(fmt::format("{} {}", layout, testing::PrintToString(sizes)));
      const int64_t m = sizes[0], depth = sizes[1], n = sizes[2];
      const bool by_columns[] = {(layout & 1) != 0, (layout & 2) != 0};
      std::vector<float> left(static_cast<size_t>(m * depth)),
          right(static_cast<size_t>(depth * n)), out(static_cast<size_t>(m * n), -1),
          wanted(out.size());
      for (int64_t k = 0; k < depth; ++k) {
        for (int64_t i = 0; i < m; ++i)
          left[static_cast<size_t>(by_columns[0] ? i + m * k : k + depth * i)] = number(i, k);
        for (int64_t j = 0; j < n; ++j)
          right[static_cast<size_t>(by_columns[1] ? k + depth * j : j + n * k)] = number(k, j);
      }
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          float& sum = wanted[static_cast<size_t>(i * n + j)];
          for (int64_t k = 0; k < depth; ++k) {
            sum += number(i, k) * number(k, j);
            ASSERT_LT(std::fabs(sum), 0x1p24);
          }
        }
      const Bytes buffers[] = {std::as_writable_bytes(std::span(left)),
                               std::as_writable_bytes(std::span(right)),
                               std::as_writable_bytes(std::span(out))};
      std::vector<std::string> rows{"s0"};
      if (layout == 2 && m <= 16) rows.push_back(std::to_string(m));
      for (const std::string& known : rows) {
        std::ranges::fill(out, -1.0f);
        run_program(runtime(), float_product("f32", by_columns[0], by_columns[1], known), buffers,
                    sizes);
        ASSERT_EQ(out, wanted) << known;
      }
    }
}

// docs/numerics.md: what products by terms lose, in units of 2^-24 times the sum of |x||y|.
TEST_F(CudaBackend, TermsStayWithinTheirBound) {
  constexpr int64_t m = 20, depth = 1100, n = 24;
  struct Case {
    const char* name;
    float (*of)(std::mt19937&, float);  // of a normal number
    double most, mean;                  // units
    int left_exponent = 0;
  };
  const double any = std::numeric_limits<double>::infinity();
  const Case cases[] = {
      {"normal", [](std::mt19937&, float x) { return x; }, 1.5, 0.2},
      {"of one sign", [](std::mt19937&, float x) { return std::fabs(x); }, 8, 1.5},
      {"graded",
       [](std::mt19937& random, float x) {
         return std::ldexp(x, static_cast<int>(random() % 40) - 20);
       },
       3.5, 1.5},
      {"near the smallest", [](std::mt19937&, float x) { return x; }, any, any, -122}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    std::vector<float> left(m * depth), right(depth * n);
    for (float& x : left) x = std::ldexp(c.of(random, normal(random)), c.left_exponent);
    for (float& x : right) x = c.of(random, normal(random));
    const std::vector<float> out = multiply(runtime(), left, right, m, depth, n);
    double most = 0, all = 0;
    for (size_t i = 0; i < m; ++i)
      for (size_t j = 0; j < n; ++j) {
        double sum = 0, size = 0, operands = 0;
        for (size_t k = 0; k < depth; ++k) {
          const double x = double{left[i * depth + k]}, y = double{right[k * n + j]};
          sum += x * y;
          size += std::fabs(x * y);
          operands += std::fabs(x) + std::fabs(y);
        }
        const double error = std::fabs(out[i * n + j] - sum);
        EXPECT_LE(error, (35 + (depth + 383) / 384) * 0x1p-24 * size + 0x1p-134 * operands +
                             (depth + 12) * 0x1p-149);
        most = std::max(most, error / (0x1p-24 * size));
        all += error / (0x1p-24 * size);
      }
    EXPECT_LE(most, c.most);
    EXPECT_LE(all / (m * n), c.mean);
    EXPECT_GT(most, 0);
  }
}

// Where terms or sums of them are not finite, the chain of multiply-adds says what the result is.
TEST_F(CudaBackend, TermsLeaveToChainsWhatTheyCannotHold) {
  constexpr int64_t m = 6, depth = 400, n = 3;
  const float infinity = std::numeric_limits<float>::infinity();
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> left(m * depth), right(depth * n);
  for (float& x : left) x = normal(random);
  for (float& x : right) x = normal(random) / 4;
  left[0 * depth + 3] = infinity;
  left[1 * depth + 399] = std::numeric_limits<float>::max();  // its first term rounds to infinity
  left[1 * depth + 17] = -std::numeric_limits<float>::max();
  left[2 * depth + 5] = infinity, left[2 * depth + 390] = -infinity;
  left[3 * depth + 8] = std::nanf("");
  left[4 * depth + 8] = 0x1p127f, left[4 * depth + 9] = 0x1p127f;  // overflow, and back again
  right[8 * n + 0] = right[9 * n + 0] = 2, right[8 * n + 1] = 2, right[9 * n + 1] = -2;
  const std::vector<float> out = multiply(runtime(), left, right, m, depth, n);
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j) {
      float sum = 0;
      double exact = 0, size = 0;
      for (size_t begin = 0; begin < depth; begin += 384) {
        float chain = 0;
        for (size_t k = begin; k < std::min<size_t>(begin + 384, depth); ++k) {
          const float x = left[i * depth + k], y = right[k * n + j];
          chain = std::fma(x, y, chain);
          exact += double{x} * double{y};
          size += std::fabs(double{x} * double{y});
        }
        sum = begin == 0 ? chain : sum + chain;
      }
      SCOPED_TRACE(fmt::format("{} {}", i, j));
      const float got = out[i * n + j];
      if (i == 5)
        EXPECT_LE(std::fabs(got - exact), 2 * 0x1p-24 * size);
      else if (i == 4 && j > 0)  // the chain may overflow on the way to a number
        EXPECT_FALSE(std::isnan(got));
      else if (std::isnan(sum))
        EXPECT_TRUE(std::isnan(got));
      else
        EXPECT_EQ(got, sum);
    }
  EXPECT_EQ(std::fabs(out[0]), infinity);
  EXPECT_TRUE(std::isfinite(out[1 * n]));
  EXPECT_EQ(out[4 * n], infinity);
}

// Where tiles are fewer than a device's CTAs, k goes to several of them, and a second kernel adds
// their sums up: in an order of its own, always the same.
TEST_F(CudaBackend, ProductsOfFewTilesAreCutIntoParts) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (const char* rows : {"s0", "2", "9"}) {
    SCOPED_TRACE(rows);
    const int64_t m = rows[0] == 's' ? 9 : std::atoi(rows), depth = 1000, n = 40;
    std::vector<float> left(static_cast<size_t>(m * depth)), right(static_cast<size_t>(depth * n)),
        out(static_cast<size_t>(m * n));
    for (auto* factor : {&left, &right})
      for (float& x : *factor) x = normal(random);
    const auto bytes = [](std::vector<float>& v) { return std::as_writable_bytes(std::span(v)); };
    const Bytes buffers[] = {bytes(left), bytes(right), bytes(out)};
    auto launches = [&](int64_t k, bool reproducible) {
      const int64_t before = counted("launches");
      std::ranges::fill(out, -1.0f);
      run_program(runtime(), float_product("f32", false, true, rows, reproducible), buffers,
                  std::array{m, k, n});
      return counted("launches") - before;
    };
    EXPECT_EQ(launches(200, false), 1);
    EXPECT_EQ(launches(depth, true), 1);
    const std::vector<float> chains = out;
    EXPECT_EQ(launches(depth, false), 2);
    const std::vector<float> first = out;
    for (size_t e = 0; e < out.size(); ++e) EXPECT_NEAR(out[e], chains[e], 1e-4);
    runtime().device()->wait(nullptr);
    const int64_t blocks = counted("blocks");
    for (int again = 0; again < 3; ++again) {
      EXPECT_EQ(launches(depth, false), 2);
      EXPECT_EQ(out, first);
    }
    runtime().device()->wait(nullptr);
    EXPECT_EQ(counted("blocks"), blocks);
    left[5] = std::numeric_limits<float>::infinity();  // parts that are not finite: a chain says
    EXPECT_EQ(launches(depth, true), 1);
    const std::vector<float> special(out.begin(), out.begin() + n);
    EXPECT_EQ(launches(depth, false), 2);
    EXPECT_EQ(std::vector<float>(out.begin(), out.begin() + n), special);
  }
}

// Many tiles keep the device busy without parts.
TEST_F(CudaBackend, PartsOfProductsMakeAsManyCtasAsAreOfUse) {
  const Expr parts = cuda::compile(float_product("bf16", false, false)).facts.parts;
  auto of = [&](int64_t m, int64_t depth, int64_t n) {
    return parts.eval(std::array{m, depth, n});
  };
  EXPECT_EQ(of(128, 4096, 128), 16);         // of 256 values of k
  EXPECT_EQ(of(128, 1 << 20, 128 * 4), 32);  // of 128 CTAs
  EXPECT_EQ(of(128 * 8, 4096, 128 * 8), 2);
  EXPECT_EQ(of(128 * 8, 4096, 128 * 8 + 1), 1);
  EXPECT_EQ(of(0, 4096, 128), 16);
  EXPECT_EQ(of(128, 0, 128), 1);
}

TEST_F(CudaBackend, KernelsUseTheInstructionsThatTheyAreMadeFor) {
  auto has = [&](const atlas::Program& p, const char* text) {
    return runtime().backend().dump(p, "asm")->find(text) != std::string::npos;
  };
  for (const char* type : {"bf16", "f16"}) {
    const atlas::Program p = float_product(type, false, false);
    EXPECT_TRUE(has(p, "mma.sync.aligned.m16n8k16.row.col.f32"));
    EXPECT_TRUE(has(p, "ldmatrix.sync.aligned.m8n8.x4.shared.b16"));
    EXPECT_TRUE(has(p, "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"));
    EXPECT_TRUE(has(p, "ld.global.v4"));
  }
  const atlas::Program single = float_product("f32", false, true);
  for (const char* text : {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16", "cvt.rn.bf16x2.f32",
                           "ld.global.v4.f32", "st.shared.v4"})
    EXPECT_TRUE(has(single, text)) << text;
  EXPECT_FALSE(has(float_product("f32", false, true, "s0", true), "mma.sync"));
  EXPECT_TRUE(has(byte_product("i8", "i8"), "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"));
  EXPECT_TRUE(has(byte_product("u8", "i8"), "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32"));
  const atlas::Program few = float_product("bf16", false, true, "2");
  EXPECT_FALSE(has(few, "mma.sync"));  // memory sets the pace: each lane reads its own columns
  EXPECT_TRUE(has(few, "ld.global.v4") && has(few, "shfl.sync.bfly"));
  EXPECT_TRUE(has(float_product("bf16", false, false, "2"), "mma.sync"));
  EXPECT_FALSE(has(float_product("f32", false, true, "2"), "mma.sync"));
  const atlas::Program thin = float_product("bf16", false, true, "16");
  EXPECT_TRUE(has(thin, "mma.sync") && has(thin, "ld.global.v4"));
  EXPECT_FALSE(has(thin, "ldmatrix"));  // registers get the factors from global memory
  const atlas::Program sum = elementwise(Op::add, DType::f32, 2, DType::f32);
  EXPECT_TRUE(has(sum, "ld.global.v4.f32") && has(sum, "st.global.v4.f32"));
  EXPECT_TRUE(has(elementwise(Op::add, DType::f64, 2, DType::f64), "ld.global.v2.f64"));
}

TEST_F(CudaBackend, TheCorpusRunsOnTheDevice) {
  std::map<atlas::BlockKind, int> rendered;
  for (const auto& [name, program] : corpus()) {
    const atlas::BlockKind kind = program.kind();
    if (kind == atlas::BlockKind::attention_grad || kind == atlas::BlockKind::sort) continue;
    ++rendered[kind];
    EXPECT_EQ(cuda::unrendered(program), std::nullopt) << name;
  }
  EXPECT_GT(rendered[atlas::BlockKind::product], 10);
  EXPECT_GT(rendered[atlas::BlockKind::attention], 0);
}

// One head: queries x depth, s0 keys x depth, s0 keys x depth. `queries`: how many, or s1.
atlas::Program attention(const char* type, const std::string& queries, int depth,
                         bool causal = false) {
  return atlas::assemble(fmt::format(R"(atlas block 1
symbols 2
buffer b0 {0} read [s1*{2}]
buffer b1 {0} read [s0*{2}]
buffer b2 {0} read [s0*{2}]
buffer b3 f32 write [s1*{2}]
attention batch 0 operand {0} scale 0x3fc0000000000000{3}
axis i0 parallel [{1}]
axis i1 row [s0]
axis i2 row [{2}]
axis i3 parallel [{2}]
q
  %0 = load.{0} b0[i2 + {2}*i0]
k
  %0 = load.{0} b1[i2 + {2}*i1]
v
  %0 = load.{0} b2[i3 + {2}*i1]
score
epilogue
  %0 = accumulator.f32 a0
  store.f32 b3[i3 + {2}*i0], %0
)",
                                     type, queries, depth, causal ? " causal" : ""));
}

// Runs attention of zeros over `keys` keys; gives how many kernels were launched.
int64_t launches_of(Runtime& runtime, const atlas::Program& program, int64_t queries,
                    int64_t keys) {
  const int64_t depth = program.buffers[0].extent.eval(std::array<int64_t, 2>{0, 1});
  const int64_t size = size_of(program.buffers[0].dtype);
  std::vector<std::byte> q(static_cast<size_t>(queries * depth * size)),
      k(static_cast<size_t>(keys * depth * size)), v = k;
  std::vector<float> out(static_cast<size_t>(queries * depth), -1);
  const Bytes buffers[] = {q, k, v, std::as_writable_bytes(std::span(out))};
  const int64_t before = counted("launches");
  run_program(runtime, program, buffers, std::array{keys, queries});
  EXPECT_EQ(out, std::vector<float>(out.size(), 0));
  return counted("launches") - before;
}

// Keys of few queries in parts need a second kernel to merge them, and memory until then.
TEST_F(CudaBackend, LongCachesAreCutIntoParts) {
  for (const char* type : {"f32", "bf16"}) {
    const atlas::Program few = attention(type, "1", 16), many = attention(type, "s1", 16);
    EXPECT_EQ(launches_of(runtime(), few, 1, 1000), 2);
    EXPECT_EQ(launches_of(runtime(), few, 1, 256), 1);
    EXPECT_EQ(launches_of(runtime(), many, 1, 1000), 1);
    atlas::Program promised = few;
    promised.attention().reproducible = true;
    EXPECT_EQ(launches_of(runtime(), promised, 1, 1000), 1);
    runtime().device()->wait(nullptr);
    const int64_t blocks = counted("blocks");
    for (int n = 0; n < 3; ++n) launches_of(runtime(), few, 1, 600);
    runtime().device()->wait(nullptr);
    EXPECT_EQ(counted("blocks"), blocks);
  }
}

TEST_F(CudaBackend, AttentionOnTensorCoresUsesTheirInstructions) {
  auto ptx = [&](const atlas::Program& p) { return *runtime().backend().dump(p, "asm"); };
  for (const char* type : {"bf16", "f16"}) {
    const std::string text = ptx(attention(type, "s1", 64));
    for (const char* wanted : {"mma.sync.aligned.m16n8k16.row.col.f32", "ld.global.v4",
                               "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", "16x2.f32"})
      EXPECT_NE(text.find(wanted), text.npos) << type << ": " << wanted;
    EXPECT_EQ(text.find("hologram_merge"), text.npos);
    EXPECT_NE(ptx(attention(type, "1", 64)).find(".entry hologram_merge"), text.npos);
  }
  EXPECT_EQ(ptx(attention("f32", "s1", 64)).find("mma.sync"), std::string::npos);
}

std::string ptxas() {
  if (const char* named = std::getenv("HOLOGRAM_PTXAS")) return named;
  const std::filesystem::path venv = HOLOGRAM_SOURCE_DIR "/.venv/lib";
  if (!std::filesystem::exists(venv)) return "";
  for (const auto& python : std::filesystem::directory_iterator(venv))
    for (const char* path : {"nvidia/cu13/bin/ptxas", "triton/backends/nvidia/bin/ptxas"})
      if (const auto p = python.path() / "site-packages" / path; std::filesystem::exists(p))
        return p.string();
  return "";
}

TEST_F(CudaBackend, PtxRoundsAsTheOthersDo) {
  for (const auto& [name, program] : rendered()) {
    const std::string ptx = *runtime().backend().dump(program, "asm");
    ASSERT_NE(ptx.find(".visible .entry hologram_kernel"), std::string::npos) << name;
    for (const char* banned :
         {".ftz", ".approx", ".full", "ld.global.nc", "\tatom.", "\tred.", "call"})
      EXPECT_EQ(ptx.find(banned), std::string::npos) << name << ": " << banned;
    EXPECT_EQ(ptx.find("fma"), ptx.find("fma.rn")) << name;
  }
}

// As one module for each GPU: a process of the assembler takes longer than a kernel.
TEST_F(CudaBackend, PtxAssembles) {
  const std::string assembler = ptxas();
  if (assembler.empty()) GTEST_SKIP() << "no ptxas: PyPI's nvidia-cuda-nvcc has one";
  const auto folder = std::filesystem::path(testing::TempDir());
  const std::string base = (folder / ("hologram_ptx_" + std::to_string(getpid()))).string();
  int number = 0;
  std::string all;
  for (const auto& [name, program] : rendered()) {
    std::string ptx = *runtime().backend().dump(program, "asm");
    const std::string own = "_" + std::to_string(number++);
    auto rename = [&](const std::string& word) {
      for (size_t at = 0; (at = ptx.find(word, at)) != ptx.npos; at += word.size() + own.size())
        ptx.insert(at + word.size(), own);
    };
    rename("hologram_kernel");
    rename("hologram_merge");
    rename("scores");
    rename("rows");
    rename("hologram_zeros");
    rename("$L__BB0");
    rename("exchange");
    rename("factors");
    rename("__local_depot0");
    if (!all.empty()) ptx = ptx.substr(ptx.find(".address_size 64") + 16);
    all += ptx;
  }
  std::ofstream(base + ".ptx") << all;
  for (const char* gpu : {"sm_80", "sm_90a"}) {
    const std::string command = assembler + " -O1 -arch=" + gpu + " " + base + ".ptx -o " + base +
                                ".cubin > " + base + ".log 2>&1";
    const int status = std::system(command.c_str());
    std::ifstream log(base + ".log");
    const std::string words((std::istreambuf_iterator<char>(log)), {});
    EXPECT_EQ(status, 0) << gpu << ": " << words.substr(0, 2000);
  }
  for (const char* end : {".ptx", ".cubin", ".log"}) std::filesystem::remove(base + end);
}

// What the assembler says of a program's kernels on a GPU.
std::string assembled(const std::string& ptx, const char* gpu) {
  const std::string base = testing::TempDir() + "hologram_ptx_" + std::to_string(getpid());
  std::ofstream(base + ".ptx") << ptx;
  const std::string command = ptxas() + " -v -arch=" + gpu + " " + base + ".ptx -o " + base +
                              ".cubin > " + base + ".log 2>&1";
  EXPECT_EQ(std::system(command.c_str()), 0) << gpu;
  std::ifstream log(base + ".log");
  const std::string words((std::istreambuf_iterator<char>(log)), {});
  for (const char* end : {".ptx", ".cubin", ".log"}) std::filesystem::remove(base + end);
  return words;
}

TEST_F(CudaCubins, ARealAssemblersCodeCanBeShown) {
  if (ptxas().empty()) GTEST_SKIP() << "no ptxas: PyPI's nvidia-cuda-nvcc has one";
  set("HOLOGRAM_CUDA_ASSEMBLER", ptxas());
  const auto assembler = cuda::find_assembler(80, 12040);
  ASSERT_TRUE(assembler.has_value());
  const atlas::Program program = elementwise(Op::add, DType::f32, 2, DType::f32);
  const std::string ptx = *runtime().backend().dump(program, "ptx");
  EXPECT_EQ(ptx, *runtime().backend().dump(program, "asm"));
  for (const int capability : {80, 90}) {
    const cuda::Assembled made = assemble(*assembler, ptx, capability);
    ASSERT_TRUE(
        made.cubin.starts_with("\x7f"
                               "ELF"))
        << made.words;
    try {
      EXPECT_NE(cuda::disassemble(*assembler, made.cubin).find("FADD"), std::string::npos);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::unavailable) << e.what();
    }
  }
  EXPECT_TRUE(assemble(*assembler, "no PTX", 80).cubin.empty());
  try {
    set("HOLOGRAM_CUDA_ASSEMBLER", "driver");
    Runtime("cuda").backend().dump(program, "sass");
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "HOLOGRAM_DUMP=sass: no ptxas was found; HOLOGRAM_CUDA_ASSEMBLER names one");
  }
}

// Of all kernels in the assembler's words.
int most_registers(const std::string& words) {
  int most = 0;
  for (size_t at = 0; (at = words.find("Used ", at)) != words.npos; at += 5)
    most = std::max(most, std::atoi(words.c_str() + at + 5));
  return most;
}

void expect_registers(const std::string& words, int most) {
  EXPECT_NE(words.find("spill stores"), words.npos) << words;
  for (size_t at = 0; (at = words.find(" bytes spill", at)) != words.npos; ++at)
    EXPECT_EQ(words.substr(at - 3, 3), ", 0") << words;
  EXPECT_GT(most_registers(words), 0) << words;
  EXPECT_LE(most_registers(words), most) << words;
}

// Two CTAs of 256 threads fit on a multiprocessor with up to 128 registers a thread, of 128 threads
// three with up to 168 and two with as many as there are.
TEST_F(CudaBackend, ProductsKeepTheirSumsInRegisters) {
  if (ptxas().empty()) GTEST_SKIP() << "no ptxas: PyPI's nvidia-cuda-nvcc has one";
  const std::tuple<const char*, const char*, bool, int> cases[] = {
      {"bf16", "s0", false, 128}, {"f32", "s0", true, 128}, {"f32", "s0", false, 255},
      {"bf16", "2", false, 168},  {"f32", "2", false, 168}, {"bf16", "16", false, 168},
      {"f32", "16", false, 168}};
  for (const auto& [type, rows, reproducible, most] : cases)
    for (const char* gpu : {"sm_80", "sm_90a"}) {
      SCOPED_TRACE(fmt::format("{} {} {} {}", type, rows, reproducible, gpu));
      const atlas::Program p = float_product(type, false, true, rows, reproducible);
      const std::string text = *runtime().backend().dump(p, "asm");
      expect_registers(assembled(text, gpu), gpu == std::string_view("sm_80") ? most : 255);
    }
  for (const char* gpu : {"sm_80", "sm_90a"}) {
    SCOPED_TRACE(gpu);
    expect_registers(assembled(*runtime().backend().dump(byte_product("u8", "i8"), "asm"), gpu),
                     255);
  }
}

// A multiprocessor has 65,536 registers: for one CTA of 256 threads with up to 255.
TEST_F(CudaBackend, AttentionKeepsItsSumsInRegisters) {
  if (ptxas().empty()) GTEST_SKIP() << "no ptxas: PyPI's nvidia-cuda-nvcc has one";
  const std::tuple<const char*, const char*, int> cases[] = {
      {"bf16", "1", 128}, {"bf16", "64", 128}, {"bf16", "s1", 128}, {"f16", "s1", 80},
      {"f16", "40", 64},  {"f32", "1", 128},   {"f32", "s1", 128}};
  for (const auto& [type, queries, depth] : cases) {
    const auto text = runtime().backend().dump(attention(type, queries, depth, true), "asm");
    for (const char* gpu : {"sm_80", "sm_90a"}) {
      SCOPED_TRACE(fmt::format("{} {} {} {}", gpu, type, queries, depth));
      expect_registers(assembled(*text, gpu), 255);
    }
  }
}

}  // namespace
}  // namespace hologram::test

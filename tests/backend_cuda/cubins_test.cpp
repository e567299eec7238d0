// tests/backend_cuda/cubins_test.cpp: assemblers, and machine code in the disk cache
#include "cuda_test.h"

#include "backend/cuda/assembler.h"
#include "base/notices.h"
#include "codegen/target.h"

namespace hologram::test {
namespace {

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
    Runtime fresh("cuda");
    runtime::KernelSource from;
    fresh.kernels().get(bytes(), &from);
    EXPECT_EQ(from, runtime::KernelSource::compiled);
    ASSERT_EQ(fresh.backend().notes().size(), 1u);
    EXPECT_EQ(fresh.backend().notes()[0], "cuda: stored machine code: device kernel image is invalid (error 200)");
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

// Only what says that an image is none for the device is a refusal.
TEST_F(CudaCubins, WhatIsNoRefusalKeepsItsWords) {
  for (const int error : {200, 209, 218, 222, 223}) {
    SCOPED_TRACE(error);
    inject("load", error);
    Runtime fresh("cuda");
    EXPECT_NO_THROW(fresh.kernels().get(bytes()));
    ASSERT_EQ(fresh.backend().notes().size(), 1u);
    EXPECT_TRUE(fresh.backend().notes()[0].starts_with(fmt::format(
        "cuda: the driver refuses machine code of ptxas 12.4.131 ({}), which is asked no more: ", beside_program(HOLOGRAM_FAKE_PTXAS))))
        << fresh.backend().notes()[0];
    std::filesystem::remove_all(folder_ / "cache");
  }
  for (const int error : {1, 2, 201, 700, 719, 999}) {
    SCOPED_TRACE(error);
    Runtime fresh("cuda");
    inject("load", error);
    const std::string words =
        test::refusal([&] { fresh.kernels().get(bytes()); }, error == 2 ? ErrorCode::out_of_memory : ErrorCode::internal);
    EXPECT_TRUE(words.starts_with("cuda: loading a kernel: ") && words.ends_with(fmt::format("(error {})", error))) << words;
    inject("nothing", 0);
    const int64_t before = assembled();
    EXPECT_NO_THROW(fresh.kernels().get(bytes()));
    EXPECT_EQ(assembled(), before + 1);
    EXPECT_EQ(stored().cubin.empty(), false);
    EXPECT_TRUE(fresh.backend().notes().empty());
    inject("load", error);
    EXPECT_THROW(Runtime("cuda").kernels().get(bytes()), Error);  // not made anew
    EXPECT_EQ(assembled(), before + 1);
    inject("nothing", 0);
    std::filesystem::remove_all(folder_ / "cache");
  }
}

// A kernel that failed breaks the context: nothing else is to blame.
TEST_F(CudaCubins, ABrokenContextIsNoRefusal) {
  Runtime whole("cuda"), fresh("cuda");
  std::vector<float> out(100);
  EXPECT_EQ(add(out, whole), "");
  inject("kernel", 0);
  EXPECT_EQ(add(out, fresh), "cuda: waiting for the device: unspecified launch failure (error 719)");
  EXPECT_EQ(test::refusal([&] { fresh.kernels().get(bytes()); }, ErrorCode::internal),
            "cuda: loading a kernel: unspecified launch failure (error 719)");
  EXPECT_NE(add(out, fresh).find("unspecified launch failure (error 719)"), std::string::npos);
  inject("context", 0);
  EXPECT_EQ(add(out, fresh), "");
  fresh.kernels().get(bytes(Op::mul));
  EXPECT_EQ(assembled(), 2);
  EXPECT_EQ(fresh.backend().notes(), whole.backend().notes());
}

TEST_F(CudaCubins, TheAssemblersWordsAreKept) {
  set("FAKE_PTXAS_FAILS", "1");
  Runtime fresh("cuda");
  const std::string before = fresh.backend().describe();
  for (int n = 0; n < 2; ++n) {
    fresh.kernels().get(bytes());
    fresh.kernels().clear();
    std::filesystem::remove_all(folder_ / "cache");
  }
  const std::string note =
      fmt::format("cuda: ptxas 12.4.131 ({}) refuses kernel {}, which the driver gets as PTX: fake_ptxas: error: refused",
                  beside_program(HOLOGRAM_FAKE_PTXAS), atlas::fingerprint(bytes()).hex().substr(0, 12));
  EXPECT_EQ(fresh.backend().notes(), std::vector{note});
  EXPECT_EQ(std::ranges::count(take_notices(), note), 1);
  EXPECT_EQ(fresh.backend().describe(), before + "\n" + note);
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
  EXPECT_EQ(test::refusal([] { cuda::find_assembler(80, 12040); }, ErrorCode::unavailable),
            "HOLOGRAM_CUDA_ASSEMBLER: /bin/true is no ptxas that runs here; expected a path or \"driver\"");
}

// $CUDA_HOME and PATH, the newest that serves.
TEST_F(CudaCubins, TheNewestAssemblerThatServesIsTaken) {
  set("HOLOGRAM_CUDA_ASSEMBLER", "");
  for (const auto& [name, version] : {std::pair{"home/bin", "12.2.1"}, {"old", "11.8.89"}, {"new", "12.8.93"}, {"newer", "999.0.0"}}) {
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

// Triton brings two, the newer one under another name.
TEST_F(CudaCubins, TritonsAssemblersAreFoundBesideThePackagesOfTheProcess) {
  set("HOLOGRAM_CUDA_ASSEMBLER", "");
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) set(name, "");
  set("PATH", "/bin:/usr/bin");
  const auto packages = folder_ / "site-packages", tools = packages / "triton/backends/nvidia/bin";
  std::filesystem::create_directories(tools);
  for (const auto& [name, version] : {std::pair{"ptxas", "998.8.93"}, {"ptxas-blackwell", "999.3.59"}}) {
    std::ofstream(tools / name) << "#!/bin/sh\necho ', V" << version << "'\n";
    std::filesystem::permissions(tools / name, std::filesystem::perms::owner_all);
  }
  std::filesystem::copy(started_for().path, packages / "libpackage.so");
  void* const library = dlopen((packages / "libpackage.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_TRUE(library) << dlerror();
  const auto newest = cuda::find_assembler(90, 999030), older = cuda::find_assembler(90, 998080);
  dlclose(library);
  ASSERT_TRUE(newest && older);
  EXPECT_EQ(newest->version, "999.3.59");
  EXPECT_EQ(newest->path, (tools / "ptxas-blackwell").string());
  EXPECT_EQ(older->version, "998.8.93");
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
  set("HOLOGRAM_CUDA_ASSEMBLER", "driver");
  EXPECT_EQ(test::refusal([&] { Runtime("cuda").backend().dump(program, "sass"); }, ErrorCode::unavailable),
            "HOLOGRAM_DUMP=sass: no ptxas was found; HOLOGRAM_CUDA_ASSEMBLER names one");
}

}  // namespace
}  // namespace hologram::test

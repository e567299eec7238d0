// tests/codegen/object_test.cpp: objects, loading, targets and compiling side by side.
#include <elf.h>

#include <thread>

#include "base/error.h"
#include "codegen/differential.h"
#include "support/environment.h"
#include "support/refusal.h"

namespace hologram::test {
namespace {

atlas::Program scale(DType type, int64_t n) {
  Points t({Expr(n)});
  t.p.buffers = {{type, Access::read, Expr(n)}, {type, Access::write, Expr(n)}};
  BodyBuilder b = t.body();
  Val x = b.load(0, type, t.i[0]);
  b.store(1, t.i[0], b.mul(b.op(ir::Op::exp, x), x));
  return t.p;
}

TEST(Object, HasOneFunctionAndNeedsNothing) {
  for (cpu::Isa isa : {cpu::Isa::sse42, cpu::Isa::avx2, cpu::Isa::avx512, cpu::Isa::neon}) {
    SCOPED_TRACE(name_of(isa));
    std::string code = cpu::compile(scale(DType::f32, 1000), cpu::generic_target(isa)).code;
    Elf64_Ehdr header;
    ASSERT_GE(code.size(), sizeof header);
    std::memcpy(&header, code.data(), sizeof header);
    EXPECT_EQ(header.e_machine, isa == cpu::Isa::neon ? EM_AARCH64 : EM_X86_64);
    int functions = 0;
    for (int s = 0; s < header.e_shnum; ++s) {
      Elf64_Shdr section;
      std::memcpy(&section, code.data() + header.e_shoff + static_cast<size_t>(s) * sizeof section, sizeof section);
      if (section.sh_type != SHT_SYMTAB) continue;
      for (size_t k = 1; k < section.sh_size / sizeof(Elf64_Sym); ++k) {
        Elf64_Sym symbol;
        std::memcpy(&symbol, code.data() + section.sh_offset + k * sizeof symbol, sizeof symbol);
        EXPECT_NE(symbol.st_shndx, SHN_UNDEF) << "symbol " << k;
        functions += ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && ELF64_ST_BIND(symbol.st_info) == STB_GLOBAL;
      }
    }
    EXPECT_EQ(functions, 1);
  }
}

TEST(Object, TheSameProgramGivesTheSameBytes) {
  cpu::Target t = cpu::host_target();
  EXPECT_EQ(cpu::compile(scale(DType::f32, 77), t).code, cpu::compile(scale(DType::f32, 77), t).code);
}

// A program that no verifier has seen.
TEST(Object, AnUnknownSymbolIsAnInternalError) {
  atlas::Program p = scale(DType::f32, 64);
  p.loop().stages[0].body.instrs[0].expr += Expr::symbol(2) - Expr::symbol(3);
  for (cpu::Isa isa : {cpu::Isa::avx2, cpu::Isa::neon})
    EXPECT_NE(refusal([&] { cpu::compile(p, cpu::generic_target(isa)); }, ErrorCode::internal), "");
}

// A kernel that a static object holds is freed at exit after all that loading it had made. (Under
// AddressSanitizer, memory that was freed before is found.)
TEST(ObjectDeathTest, KernelsOutliveWhatLoadedThem) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto keep_until_exit = [] {
    static std::shared_ptr<cpu::LoadedKernel> kept;
    kept = cpu::load(cpu::compile(scale(DType::f32, 77), cpu::host_target()).code);
    std::exit(kept ? 0 : 1);
  };
  EXPECT_EXIT(keep_until_exit(), testing::ExitedWithCode(0), "");
}

TEST(Object, DamagedObjectsAreRefused) {
  std::string code = cpu::compile(scale(DType::f32, 77), cpu::host_target()).code;
  for (std::string bad : {std::string(), std::string("not an object"), code.substr(0, 40), code.substr(0, code.size() / 2)})
    EXPECT_NE(refusal([&] { cpu::load(bad); }, ErrorCode::corrupt), "") << bad.size() << " bytes";
}

// A stored kernel brings its launch along: it is loaded without a plan of its program.
TEST(Object, AreStoredWithTheirLaunch) {
  const Expr n = min(Expr::symbol(0), Expr(77)) * Expr::symbol(1);
  Points t({n}, 2);
  t.p.buffers = {{DType::f32, Access::write, n}};
  BodyBuilder b = t.body();
  b.store(0, t.i[0], b.number(DType::f32, 1));
  const cpu::Object object = cpu::compile(t.p, cpu::host_target());
  const cpu::Launch launch = cpu::launch_of(t.p, cpu::host_target());
  const std::string stored = cpu::to_stored(object);
  const cpu::StoredObject read = cpu::from_stored(stored, 2);
  EXPECT_EQ(read.code, object.code);
  EXPECT_EQ(read.launch.total, launch.total);
  EXPECT_EQ(read.launch.grain, launch.grain);
  EXPECT_EQ(read.launch.unit_work, launch.unit_work);
  EXPECT_TRUE(launch.total.any_atom([](const Atom& a) { return a.id == 1; }));
  for (const std::string& bad : {std::string(), object.code, object.code + "\n1;2", object.code + "\n1;2;3;4", object.code + "\n1;2;s9",
                                 object.code + "\n1;2;i0", object.code + "\n1;2;3 +"})
    EXPECT_NE(refusal([&] { cpu::from_stored(bad, 2); }, ErrorCode::corrupt), "") << bad.substr(bad.size() < 9 ? 0 : bad.size() - 9);
}

TEST(Object, CompilesSideBySide) {
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int64_t n = 1; n < 6; ++n) {
        atlas::Program p = scale(t % 2 ? DType::f32 : DType::f64, 100 * n + t);
        Compiled kernel(p, cpu::host_target());
        std::vector<double> x(2000, 0.0), y(2000, 7.0);
        good += kernel.run({x.data(), y.data()}, {}) == 0 && y[0] == 0.0;
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(good, 20);
}

TEST(Target, IsaFromTheEnvironment) {
  auto with = [](const char* isa) {
    const Setting setting("HOLOGRAM_CPU_ISA", isa);
    return cpu::host_target();
  };
#if defined(__x86_64__)
  EXPECT_EQ(with("sse42").isa, cpu::Isa::sse42);
  EXPECT_NE(refusal([&] { with("neon"); }, ErrorCode::unavailable), "");
#endif
  EXPECT_NE(refusal([&] { with("avx3"); }).find("avx3"), std::string::npos);
}

TEST(Target, DumpsShowTheKernel) {
  atlas::Program p = scale(DType::f32, 100);
  EXPECT_NE(cpu::dump_llvm(p, cpu::generic_target(cpu::Isa::avx2)).find("@hologram_kernel"), std::string::npos);
  EXPECT_NE(cpu::dump_asm(p, cpu::generic_target(cpu::Isa::avx2)).find("ymm"), std::string::npos);
}

}  // namespace
}  // namespace hologram::test

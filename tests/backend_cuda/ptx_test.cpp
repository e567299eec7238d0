// tests/backend_cuda/ptx_test.cpp: the PTX of whole corpora
#include "cuda_test.h"

namespace hologram::test {
namespace {

// Programs that this backend renders: the PTX of each is free of what rounds otherwise, and assembles.
std::vector<std::pair<std::string, atlas::Program>> rendered() {
  const std::map<std::string, atlas::Program> programs = corpus();
  std::vector<std::pair<std::string, atlas::Program>> all(programs.begin(), programs.end());
  for (DType t : {DType::f32, DType::f64, DType::i32, DType::i64})
    for (Op op : {Op::add, Op::mul, Op::div, Op::max})
      all.emplace_back(std::string(name_of(t)) + "_" + std::string(ir::name_of(op)), elementwise(op, t, 2, t));
  all.emplace_back("scan", row_scan(Op::reduce_sum, DType::f32));
  all.emplace_back("order", row_order(DType::f64, true));
  all.emplace_back("scatter_columns", scattered(DType::f32, Op::add, sym(3)));
  all.emplace_back("scatter_rows", scattered(DType::bf16, Op::max, 2));
  std::erase_if(all, [](const auto& p) { return cuda::unrendered(p.second).has_value(); });
  std::sort(all.begin(), all.end(), [](auto& a, auto& b) { return a.first < b.first; });
  return all;
}

TEST_F(CudaBackend, TheCorpusRunsOnTheDevice) {
  std::map<atlas::BlockKind, int> rendered;
  for (const auto& [name, program] : corpus()) {
    ++rendered[program.kind()];
    EXPECT_EQ(cuda::unrendered(program), std::nullopt) << name;
  }
  EXPECT_GT(rendered[atlas::BlockKind::product], 10);
  EXPECT_GT(rendered[atlas::BlockKind::attention], 0);
  EXPECT_GT(rendered[atlas::BlockKind::attention_grad], 0);
  EXPECT_GT(rendered[atlas::BlockKind::sort], 0);
}

TEST_F(CudaBackend, PtxRoundsAsTheOthersDo) {
  for (const auto& [name, program] : rendered()) {
    const std::string ptx = *runtime().backend().dump(program, "asm");
    ASSERT_NE(ptx.find(".visible .entry hologram_kernel"), std::string::npos) << name;
    for (const char* banned : {".ftz", ".approx", ".full", "ld.global.nc", "\tatom.", "\tred.", "call"})
      EXPECT_EQ(ptx.find(banned), std::string::npos) << name << ": " << banned;
    EXPECT_EQ(ptx.find("fma"), ptx.find("fma.rn")) << name;
  }
}

// But for rows so short that a thread of each column takes them whole.
TEST_F(CudaBackend, WarpsOwnThePlacesOfScatters) {
  auto owned = [](const atlas::Program& p) { return cuda::dump_ptx(p).find("vote.sync.ballot") != std::string::npos; };
  for (Expr width : {sym(3), Expr(1), Expr(300)}) {
    atlas::Program p = scattered(DType::f32, Op::add, width);
    EXPECT_TRUE(owned(p)) << width.str();
    EXPECT_EQ(cuda::dump_ptx(p).find("match.any") != std::string::npos, width.is(1));
    p.loop().axes[2].extent = Expr(32);
    EXPECT_FALSE(owned(p)) << width.str();
  }
  // What is read beside the place that is written may be another element's.
  atlas::Program next = scattered(DType::f32, Op::add, 1);
  for (atlas::Instr& i : next.loop().stages[0].body.instrs)
    if (i.code == atlas::Code::load && i.buffer == 2) i.expr = Expr(0);
  EXPECT_FALSE(owned(next));
}

// As one module: a process of the assembler takes longer than a kernel.
TEST_F(CudaBackend, PtxAssembles) {
  const std::string assembler = ptxas();
  if (assembler.empty()) GTEST_SKIP() << "no ptxas: PyPI's nvidia-cuda-nvcc has one";
  const auto folder = std::filesystem::path(testing::TempDir());
  const std::string base = (folder / ("hologram_ptx_" + std::to_string(getpid()))).string();
  int number = 0;
  std::string all;
  for (const auto& [name, program] : rendered()) {
    std::string ptx = *runtime().backend().dump(program, "asm");
    const std::string own = "_" + std::to_string(number++) + "_";  // numbers may follow
    auto rename = [&](const std::string& word) {
      for (size_t at = 0; (at = ptx.find(word, at)) != ptx.npos; at += word.size() + own.size()) ptx.insert(at + word.size(), own);
    };
    rename("hologram_kernel");
    rename("hologram_merge");
    rename("hologram_thin");
    rename("scores");
    rename("rows");
    rename("numbers");
    rename("elements");
    rename("hologram_zeros");
    rename("$L__BB0");
    rename("exchange");
    rename("factors");
    rename("__local_depot0");
    if (!all.empty()) ptx = ptx.substr(ptx.find(".address_size 64") + 16);
    all += ptx;
  }
  std::ofstream(base + ".ptx") << all;
  const std::string command = assembler + " -O1 -arch=sm_80 " + base + ".ptx -o " + base + ".cubin > " + base + ".log 2>&1";
  const int status = std::system(command.c_str());
  std::ifstream log(base + ".log");
  const std::string words((std::istreambuf_iterator<char>(log)), {});
  EXPECT_EQ(status, 0) << words.substr(0, 2000);
  for (const char* end : {".ptx", ".cubin", ".log"}) std::filesystem::remove(base + end);
}

}  // namespace
}  // namespace hologram::test

// tests/backend_cuda_90/attention_test.cpp: attention by warpgroups
#include <fmt/format.h>

#include <regex>

#include "backend/cuda/assembler.h"
#include "backend/cuda/maps.h"
#include "backend_cuda/cuda_test.h"
#include "codegen/attentions.h"
#include "support/wrong.h"

namespace hologram::test {
namespace {

using CudaWideAttention = CudaBackend90;
using CudaWideAttentionDevice = CudaDevice90;  // on a GPU too

using Data = std::vector<std::vector<std::byte>>;

Data data_of(const atlas::Program& program, const attentions::Case& c, unsigned seed) {
  std::minstd_rand random(seed);
  std::uniform_real_distribution<double> number(-2, 2);
  Data out;
  const std::vector<int64_t> symbols = c.symbols();
  for (const atlas::Buffer& b : program.buffers) {
    const int64_t count = b.extent.eval(symbols);
    out.emplace_back(static_cast<size_t>(count * size_of(b.dtype)));
    for (int64_t n = 0; n < count; ++n) {
      const double x = number(random);
      const bool written = b.access == atlas::Access::write, kept = n >= c.keys && x > -1;  // the first row keeps nothing
      const uint64_t bits = written ? ~uint64_t{0} : b.dtype == DType::b8 ? uint64_t{kept} : ir::bits_of(b.dtype, x);
      std::memcpy(out.back().data() + n * size_of(b.dtype), &bits, static_cast<size_t>(size_of(b.dtype)));
    }
  }
  return out;
}

Data run_on(Runtime& runtime, const atlas::Program& program, const attentions::Case& c, Data data) {
  const std::vector<Bytes> spans(data.begin(), data.end());
  run_program(runtime, program, spans, c.symbols());
  return data;
}

std::vector<double> numbers(const std::vector<std::byte>& data, DType type) {
  std::vector<double> out;
  for (size_t at = 0; at < data.size(); at += static_cast<size_t>(size_of(type))) {
    uint64_t bits = 0;
    std::memcpy(&bits, &data[at], static_cast<size_t>(size_of(type)));
    out.push_back(ir::as_double(type, bits));
  }
  return out;
}

// Whether the results are the interpreter's but for roundings, and whether warpgroups computed them.
void expect_attention(Runtime& runtime, const attentions::Case& c, const attentions::More& more, bool wide = true) {
  std::ostringstream name;
  name << c << (more.log_sums ? " log sums" : "") << " window " << more.window << " cap " << more.cap;
  SCOPED_TRACE(name.str());
  const atlas::Program program = attentions::attention(c, more);
  const Data data = data_of(program, c, 7);
  static const auto interpreter = std::make_shared<Runtime>("interp");
  const Data wanted = run_on(*interpreter, program, c, data);
  const Counted maps("maps");
  const Data got = run_on(runtime, program, c, data);
  maps.expect(wide ? 3 : 0);
  for (size_t b = attentions::out_buffer; b < program.buffers.size(); ++b) {
    const DType type = program.buffers[b].dtype;
    const double unit = type == DType::bf16 ? 0x1p-7 : type == DType::f16 ? 0x1p-9 : c.dtype == DType::f32 ? 0x1p-18 : 0x1p-12;
    const auto near = [&](double x, double y) { return x == y || std::fabs(x - y) <= unit * (0.25 + 2 * std::fabs(y)); };
    const auto x = numbers(got[b], type), y = numbers(wanted[b], type);
    const int64_t columns = b == attentions::out_buffer ? c.values : 1;
    EXPECT_EQ(wrong_places(x, y, std::ssize(x) / columns, columns, near), "") << "buffer " << b;
  }
}

TEST_F(CudaWideAttentionDevice, IsTheInterpreters) {
  for (const bool causal : {false, true})
    for (const int64_t depth : {64, 128}) {
      attentions::Case c{1, 2, 2, 130, 300, depth, depth, causal};
      c.dtype = causal == (depth == 64) ? DType::bf16 : DType::f16;
      expect_attention(runtime(), c, {.log_sums = causal});
    }
}

// Fewer numbers than boxes have, heads that share keys and values or lie between queries, sizes
// that calls choose, blocks of keys that nobody sees.
TEST_F(CudaWideAttentionDevice, TakesOtherSizes) {
  for (attentions::Case c : {attentions::Case{2, 1, 1, 65, 1, 24, 40}, attentions::Case{1, 4, 2, 200, 140, 80, 96},
                             attentions::Case{1, 6, 2, 129, 129, 16, 16, true}, attentions::Case{2, 2, 1, 300, 70, 40, 128, true}}) {
    c.dtype = DType::bf16;
    expect_attention(runtime(), c, {.log_sums = true});
    c.symbolic = true;
    expect_attention(runtime(), c, {});
    c.heads_inside = true;
    expect_attention(runtime(), c, {});
  }
}

TEST_F(CudaWideAttentionDevice, RunsScoreBodies) {
  for (const attentions::Score score : {attentions::Score::key_bias, attentions::Score::full_bias, attentions::Score::keep_mask})
    for (const bool causal : {false, true}) {
      attentions::Case c{1, 2, 2, 131, 190, 64, 64, causal, score};
      c.dtype = score == attentions::Score::full_bias ? DType::f16 : DType::bf16;
      expect_attention(runtime(), c, {.log_sums = true});
    }
  attentions::Case c{1, 2, 2, 300, 300, 64, 64};
  c.dtype = DType::bf16;
  expect_attention(runtime(), c, {.log_sums = true, .window = 40});
  expect_attention(runtime(), c, {.window = 150, .cap = 2});
  c.depth = c.values = 96;
  expect_attention(runtime(), c, {.log_sums = true, .window = 100});
}

// Few queries, deep heads, strides that are no multiple of 16 bytes and keys that lie along themselves are left to the other kernel.
TEST_F(CudaWideAttentionDevice, OthersAreLeft) {
  for (attentions::Case c : {attentions::Case{1, 2, 2, 64, 130, 64, 64}, attentions::Case{1, 1, 1, 130, 70, 136, 136},
                             attentions::Case{1, 1, 1, 130, 70, 20, 24}}) {
    c.dtype = DType::bf16;
    expect_attention(runtime(), c, {}, false);
  }
  attentions::Case c{1, 2, 2, 130, 72, 64, 64};
  c.dtype = DType::bf16;
  expect_attention(runtime(), c, {.keys_turned = true}, false);
  c.dtype = DType::f32;
  expect_attention(runtime(), c, {}, false);
}

// By terms; keys and values are split first, and so may lie as they like.
TEST_F(CudaWideAttentionDevice, SplitsFloat32IntoTerms) {
  expect_attention(runtime(), {1, 1, 1, 270, 300, 64, 24}, {.log_sums = true});
  expect_attention(runtime(), {1, 1, 1, 256, 256, 40, 40, true}, {});
  attentions::Case c{1, 4, 2, 260, 256, 16, 64, true, attentions::Score::full_bias};
  c.symbolic = c.heads_inside = true;
  expect_attention(runtime(), c, {.log_sums = true});
  expect_attention(runtime(), {1, 1, 1, 300, 300, 32, 16}, {.keys_turned = true, .window = 100});
  // Few rows are not worth the terms, and deep heads have no room for them.
  expect_attention(runtime(), {1, 2, 2, 255, 300, 64, 64}, {}, false);
  expect_attention(runtime(), {1, 2, 2, 300, 300, 72, 64}, {}, false);
}

// Infinities, NaN and numbers that are too large for terms: the chain says what comes of them.
TEST_F(CudaWideAttentionDevice, MendsWhatIsNotFinite) {
  const attentions::Case c{1, 1, 1, 256, 256, 16, 16};
  const atlas::Program program = attentions::attention(c);
  static const auto interpreter = std::make_shared<Runtime>("interp");
  constexpr auto q = attentions::q_buffer, k = attentions::k_buffer, v = attentions::v_buffer;
  const std::pair<int, float> odd[] = {{q, INFINITY}, {q, 3.4e38f}, {k, -INFINITY}, {k, NAN}, {v, INFINITY}, {v, 3.4e38f}, {v, 1}};
  for (const auto& [buffer, x] : odd) {
    Data data = data_of(program, c, 3);
    std::memcpy(data[static_cast<size_t>(buffer)].data() + 4 * 37, &x, 4);
    const auto wanted = numbers(run_on(*interpreter, program, c, data)[attentions::out_buffer], DType::f32);
    const Counted maps("maps");
    const auto got = numbers(run_on(runtime(), program, c, data)[attentions::out_buffer], DType::f32);
    maps.expect(3);
    for (size_t n = 0; n < got.size(); ++n) {
      SCOPED_TRACE(fmt::format("{} in buffer {}: {}", x, buffer, n));
      if (!std::isfinite(wanted[n])) {
        ASSERT_EQ(std::isnan(got[n]), std::isnan(wanted[n]));
        ASSERT_TRUE(std::isnan(got[n]) || got[n] == wanted[n]);
      } else {
        ASSERT_NEAR(got[n], wanted[n], 0x1p-18 * (0.25 + 2 * std::fabs(wanted[n])));
      }
    }
  }
}

// From one block of queries and keys on, a test for each step (ladder_test.cpp).
struct AttentionRung {
  const char* name;
  attentions::Case c;
  DType type = DType::bf16;
  attentions::More more = {};
};

std::ostream& operator<<(std::ostream& out, const AttentionRung& r) { return out << r.name; }

const AttentionRung attention_rungs[] = {{"block", {1, 1, 1, 128, 64, 64, 64}},
                                         {"two_blocks", {1, 1, 1, 128, 128, 64, 64}},
                                         {"blocks", {1, 1, 1, 128, 640, 64, 64}},
                                         {"queries", {1, 1, 1, 400, 128, 64, 64}},
                                         {"f16", {1, 1, 1, 128, 128, 64, 64}, DType::f16},
                                         {"deep", {1, 1, 1, 128, 256, 128, 128}},
                                         {"ragged", {1, 1, 1, 130, 70, 80, 96}},
                                         {"heads", {2, 4, 2, 128, 128, 64, 64}},
                                         {"causal", {1, 1, 1, 256, 256, 64, 64, true}},
                                         {"bias", {1, 1, 1, 128, 128, 64, 64, false, attentions::Score::key_bias}},
                                         {"deep_causal_bias", {1, 2, 1, 256, 256, 128, 128, true, attentions::Score::key_bias}},
                                         {"log_sums", {1, 1, 1, 128, 256, 64, 64}, DType::bf16, {.log_sums = true}},
                                         {"f32", {1, 1, 1, 256, 256, 16, 16}, DType::f32},
                                         {"f32_deep", {1, 1, 1, 256, 320, 64, 64}, DType::f32},
                                         {"f32_causal", {1, 2, 1, 300, 300, 32, 64, true}, DType::f32, {.log_sums = true}},
                                         {"device", {4, 16, 16, 512, 512, 64, 64, true}}};

class CudaAttentionLadderDevice : public CudaDevice90, public testing::WithParamInterface<AttentionRung> {};

TEST_P(CudaAttentionLadderDevice, IsTheInterpreters) {
  attentions::Case c = GetParam().c;
  c.dtype = GetParam().type;
  expect_attention(runtime(), c, GetParam().more);
}

std::vector<AttentionRung> rungs_of_attention() {
  if (emulated()) return {};
  return {std::begin(attention_rungs), std::end(attention_rungs)};
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CudaAttentionLadderDevice);  // over the emulator
INSTANTIATE_TEST_SUITE_P(Attention, CudaAttentionLadderDevice, testing::ValuesIn(rungs_of_attention()),
                         [](const auto& i) { return std::string(i.param.name); });

// What is assembled, for any number of queries and keys.
struct Made {
  int64_t depth;
  DType type;
  bool causal;
  attentions::Score score;
  std::vector<int> powers = {};  ///< of a thread and block, two shrink what there is; by loop

  attentions::Case c() const { return {2, 4, 4, 1000, 1000, depth, depth, causal, score, type, true}; }
};
using attentions::Score;

TEST_F(CudaWideAttention, AssemblesWithoutSpills) {
  if (ptxas().empty()) GTEST_SKIP() << "no ptxas: PyPI's nvidia-cuda-nvcc has one";
  for (const Made& m : {Made{64, DType::bf16, true, Score::plain},
                        {128, DType::bf16, true, Score::key_bias},
                        {64, DType::f32, true, Score::plain},
                        {64, DType::f32, false, Score::key_bias}}) {
    const attentions::Case c = m.c();
    SCOPED_TRACE(c);
    const auto program = attentions::attention(c, {.log_sums = m.causal});
    const std::string ptx = *runtime().backend().dump(program, "asm");
    ASSERT_NE(ptx.find("wgmma.mma_async"), ptx.npos);
    // All but the powers of two round to nearest.
    const std::string exact = std::regex_replace(ptx, std::regex("ex2.approx.ftz.f32"), "");
    for (const char* banned : {".ftz", ".approx", ".full", "ld.global.nc"}) EXPECT_EQ(exact.find(banned), exact.npos) << banned;
    const std::string words = assembled(ptx, "sm_90a");
    EXPECT_EQ(words.find("C75"), words.npos) << words;
    const size_t own = words.find("Compiling entry function 'hologram_wide'");
    ASSERT_NE(own, words.npos) << words;
    expect_registers(words.substr(own, words.find("Compiling entry", own + 1) - own), 168);
    expect_registers(words, 255);  // the kernels in its place too
  }
}

// Of the loops over keys in machine code, how many exponentials stand between the wait for scores
// and the wait for the products that are under way beside them.
std::vector<int> powers_beside_products(const std::string& code) {
  std::vector<int> out;
  const std::string wait = "WARPGROUP.DEPBAR.LE gsb0, 0x";
  for (size_t at = code.find(".text.hologram_wide:"); (at = code.find(wait + "1", at)) < code.size();) {
    const size_t end = code.find(wait + "0", at);
    out.push_back(0);
    for (; (at = code.find("MUFU.EX2", at)) < end; ++at) ++out.back();
    at = end;
  }
  return out;
}

// Assemblers have moved the wait above them, to the beginning of their basic block.
TEST_F(CudaWideAttention, TakesExponentialsWhileProductsAreUnderWay) {
  const std::string path = ptxas(true);
  const auto assembler = path.empty() ? std::nullopt : cuda::ask_assembler(path);
  if (!assembler) GTEST_SKIP() << "no ptxas: PyPI's triton has one";
  for (const Made& m : {Made{64, DType::bf16, true, Score::plain, {66}},
                        {128, DType::f16, false, Score::plain, {66}},
                        {128, DType::bf16, true, Score::key_bias, {34}}}) {
    const attentions::Case c = m.c();
    SCOPED_TRACE(c);
    const std::string ptx = *runtime().backend().dump(attentions::attention(c), "asm");
    const cuda::Assembled made = assemble(*assembler, ptx, 90);
    ASSERT_FALSE(made.cubin.empty()) << made.words;
    std::string code;
    try {
      code = cuda::disassemble(*assembler, made.cubin);
    } catch (const Error& e) {
      GTEST_SKIP() << e.what();
    }
    EXPECT_EQ(powers_beside_products(code), m.powers);
  }
}

TEST_F(CudaWideAttention, FactsAreStored) {
  attentions::Case c{2, 4, 4, 1000, 1000, 64, 64, true};
  c.dtype = DType::bf16;
  const cuda::Stored made = cuda::compile(attentions::attention(c), 90);
  ASSERT_TRUE(made.facts.wide);
  EXPECT_EQ(made.facts.wide->work, cuda::WideFacts::Work::uneven_attention);
  const std::string text = cuda::to_text(made);
  EXPECT_EQ(cuda::to_text(cuda::from_text(text, 0)), text);
  // Unequal tiles get a CTA each; equal ones stay on their multiprocessors.
  const auto uneven = cuda::wide_grid(*made.facts.wide, {}, 132);
  ASSERT_TRUE(uneven);
  EXPECT_EQ(uneven->tiles, 8 * 6);
  EXPECT_EQ(uneven->ctas, uneven->tiles);
  c.causal = false;
  c.batch = 100;
  const auto even = cuda::wide_grid(*cuda::compile(attentions::attention(c), 90).facts.wide, {}, 132);
  ASSERT_TRUE(even);
  EXPECT_EQ(even->ctas, 132);
  EXPECT_FALSE(cuda::compile(attentions::attention(c)).facts.wide);
}

}  // namespace
}  // namespace hologram::test

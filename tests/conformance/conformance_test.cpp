// tests/conformance/conformance_test.cpp: every backend leaves the interpreter's bits
//
// The corpus is corpus/*.atlas, programs in text form whose first lines "# 3 5 0" are the values of
// their symbols, one run for each line, and the programs of tests/atlas/programs.h. The sources of
// tests/codegen that libs.cmake names are part of it: here expect_same() tries every backend.
#include <filesystem>
#include <fstream>

#include "atlas/programs.h"
#include "backend/registry.h"
#include "codegen/attentions.h"
#include "conformance/support.h"
#include "support/differential.h"
#include "support/paths.h"
#include "support/test.h"
#include "support/tile_products.h"

namespace hologram::test {
namespace {

using atlas::Access;

struct Case {
  std::string name;
  Program program;
  std::vector<std::vector<int64_t>> symbols;
};

Case read(const std::filesystem::path& path) {
  std::ifstream in(path);
  Case c{path.stem().string(), {}, {}};
  std::string line, text;
  while (std::getline(in, line)) {
    if (line.empty() || line[0] != '#') {
      text += line + "\n";
      continue;
    }
    std::istringstream numbers(line.substr(1));
    c.symbols.emplace_back();
    for (int64_t n; numbers >> n;) c.symbols.back().push_back(n);
  }
  c.program = atlas::assemble(text);
  return c;
}

// Programs that only copy, elements of each size: turned over, and backwards by odd steps between filled places.
void add_copies(std::vector<Case>& cases) {
  const std::pair<DType, const char*> types[] = {
      {DType::u8, "0x41"}, {DType::f16, "0x3c00"}, {DType::i32, "0x7"}, {DType::f64, "0x3ff0000000000000"}};
  for (const auto& [type, filling] : types) {
    const std::string name(name_of(type));
    cases.push_back({"copy_turned_" + name,
                     atlas::assemble(fmt::format(R"(atlas block 1
symbols 3
buffer b0 {0} read [s0*s1*s2]
buffer b1 {0} write [s0*s1*s2]
loop parallel 3 lane i2
axis i0 parallel [s0]
axis i1 parallel [s1]
axis i2 parallel [s2]
stage point
  %0 = load.{0} b0[i0*s1 + i1 + i2*s0*s1]
  store.{0} b1[i0*s1*s2 + i1*s2 + i2], %0
)",
                                                 name)),
                     {{0, 4, 3}, {4, 3, 0}, {1, 1, 1}, {2, 17, 33}, {3, 40, 16}}});
    cases.push_back({"copy_filled_" + name,
                     atlas::assemble(fmt::format(R"(atlas block 1
symbols 2
buffer b0 {0} read [3*s0*s1]
buffer b1 {0} write [5*s0 + s0*s1]
loop parallel 2 lane i1
axis i0 parallel [s0]
axis i1 parallel [s1 + 5]
stage point
  %0 = index [i1 - 2]
  %1 = constant.i64 0x0
  %2 = le.i64 %1, %0
  %3 = index [s1]
  %4 = lt.i64 %0, %3
  %5 = bit_and.b8 %2, %4
  %6 = load.{0} b0[3*i0*s1 - 3*i1 + 3*s1 + 3] if %5
  %7 = constant.{0} {1}
  %8 = select.{0} %5, %6, %7
  store.{0} b1[5*i0 + i0*s1 + i1], %8
)",
                                                 name, filling)),
                     {{0, 4}, {4, 0}, {1, 1}, {20, 37}}});
  }
}

const std::vector<Case>& corpus() {
  static const auto* const all = [] {
    auto* cases = new std::vector<Case>;
    std::vector<std::filesystem::path> files;
    for (const auto& f : std::filesystem::directory_iterator(source_file("tests/conformance/corpus"))) files.push_back(f.path());
    std::sort(files.begin(), files.end());
    for (const auto& f : files) cases->push_back(read(f));
    const std::vector<std::vector<int64_t>> lengths{{0}, {1}, {7}, {64}, {1000}};
    const std::vector<std::vector<int64_t>> matrices{{3, 5}, {0, 4}, {4, 0}, {1, 1}, {9, 4100}};
    for (DType t : {DType::f32, DType::f64, DType::i32, DType::i64}) {
      const std::string type(name_of(t));
      cases->push_back({"add_" + type, elementwise(Op::add, t, 2, t), lengths});
      cases->push_back({"lt_" + type, elementwise(Op::lt, t, 2, DType::b8), lengths});
      cases->push_back({"larger_" + type, elementwise(Op::max, t, 2, t), lengths});
      cases->push_back({"sum_" + type, row_reduction(Op::reduce_sum, t), matrices});
      cases->push_back({"largest_" + type, row_reduction(Op::reduce_max, t), matrices});
    }
    for (Op op : {Op::exp, Op::log, Op::tanh, Op::erf, Op::sin, Op::sqrt})
      cases->push_back({"f32_" + std::string(ir::name_of(op)), elementwise(op, DType::f32, 1, DType::f32), lengths});
    const std::vector<std::vector<int64_t>> orders{{3, 5, 5}, {0, 4, 4}, {2, 9, 1}, {4, 300, 20}};
    cases->push_back({"order", row_order(DType::f32, false), orders});
    cases->push_back({"order_descending", row_order(DType::i64, true), orders});
    add_copies(*cases);
    cases->push_back({"scan", row_scan(Op::reduce_sum, DType::f32), matrices});
    return cases;
  }();
  return *all;
}

// A program of the corpus on a backend: a test of its own, for a run that a fault ends.
using OnBackend = std::tuple<std::string, size_t>;
class ConformanceCorpus : public testing::TestWithParam<OnBackend> {};

TEST_P(ConformanceCorpus, LeavesTheInterpretersBits) {
  const auto& [backend, number] = GetParam();
  const Case& c = corpus()[number];
  if (excused(backend, c.name)) GTEST_SKIP() << "left out on purpose";
  atlas::verify(c.program);
  const Promise promise = promise_on(backend, c.program, 1);
  std::vector<DType> types;
  for (const atlas::Buffer& b : c.program.buffers)
    if (b.access != Access::scratch) types.push_back(b.dtype);
  for (const std::vector<int64_t>& symbols : c.symbols) {
    SCOPED_TRACE(c.name + " " + testing::PrintToString(symbols));
    const Buffers data = data_for(c.program, symbols, promise.specials);
    std::string expected_error, error;
    const Buffers expected = run_on(*runtime_of("interp"), c.program, symbols, data, expected_error);
    const Buffers got = run_on(*runtime_of(backend), c.program, symbols, data, error);
    EXPECT_EQ(error, expected_error);
    for (size_t k = 0; k < got.size(); ++k)
      expect_elements(types[k], reinterpret_cast<const char*>(got[k].data()), reinterpret_cast<const char*>(expected[k].data()),
                      got[k].size(), promise.tolerance, k);
  }
}

std::vector<size_t> corpus_numbers() {
  std::vector<size_t> all(corpus().size());
  std::iota(all.begin(), all.end(), size_t{0});
  return all;
}

std::string test_name(const testing::TestParamInfo<OnBackend>& i) {
  return std::get<0>(i.param) + "_" + corpus()[std::get<1>(i.param)].name;
}

INSTANTIATE_TEST_SUITE_P(Backends, ConformanceCorpus,
                         testing::Combine(testing::ValuesIn(corpus_backends()), testing::ValuesIn(corpus_numbers())), test_name);

class Conformance : public testing::TestWithParam<std::string> {};

// Products of terms, of bfloat16 and of bytes as a machine with tiles has them, with its bits.
std::vector<tile_products::Case> tile_cases() {
  std::vector<tile_products::Case> all;
  const std::array<int64_t, 3> sizes[] = {{1, 40, 33}, {17, 31, 65}, {28, 70, 130}, {40, 33, 600}, {65, 100, 96}};
  for (auto [m, n, k] : sizes) {
    for (int terms : {1, 2, 3}) all.push_back({.m = m, .n = n, .k = k, .operand = DType::f32, .terms = terms});
    all.push_back({.m = m, .n = n, .k = k});
    for (DType operand : {DType::i8, DType::u8})
      for (bool mixed : {false, true}) all.push_back({.m = m, .n = n, .k = k, .operand = operand, .terms = 0, .mixed = mixed});
  }
  for (int terms : {0, 1, 3}) {
    const DType operand = terms == 0 ? DType::i8 : terms == 1 ? DType::bf16 : DType::f32;
    tile_products::Case c{.m = 20, .n = 96, .k = 72, .batch = 2, .operand = operand, .terms = terms};
    all.push_back(c);
    all.back().lhs_transposed = true;
    all.push_back(c);
    all.back().prologue = true;
    all.push_back(c);
    all.back().symbolic = true;
    all.push_back(c);
    all.back().parts = 3;
    all.push_back(c);
    all.back().window = true;
  }
  return all;
}

TEST_P(Conformance, ProductsOfTilesLeaveTheInterpretersBits) {
  if (excused(GetParam(), "TileProducts")) GTEST_SKIP() << "has no panels of tiles";
  for (const tile_products::Case& c : tile_cases()) {
    SCOPED_TRACE(testing::Message() << c);
    const Program program = tile_products::make_program(c);
    const std::vector<int64_t> symbols = tile_products::symbols_of(c);
    Buffers data = data_for(program, symbols, c.m * c.k > 400);
    tile_products::pack(c, reinterpret_cast<const char*>(data[tile_products::rhs_buffer].data()),
                        reinterpret_cast<char*>(data[tile_products::packed_buffer].data()));
    std::string expected_error, error;
    const Buffers expected = run_on(*runtime_of("interp"), program, symbols, data, expected_error);
    const Buffers got = run_on(*runtime_of(GetParam()), program, symbols, data, error);
    EXPECT_EQ(error, expected_error);
    expect_elements(program.buffers.back().dtype, reinterpret_cast<const char*>(got.back().data()),
                    reinterpret_cast<const char*>(expected.back().data()), got.back().size(), 0, got.size() - 1);
  }
}

TEST(ConformancePrograms, HaveEveryKindOfBlockAndEmptySizes) {
  std::map<atlas::BlockKind, int> kinds;
  int empty = 0;
  for (const Case& c : corpus()) {
    ++kinds[c.program.kind()];
    for (const auto& symbols : c.symbols) empty += std::count(symbols.begin(), symbols.end(), 0) > 0;
  }
  EXPECT_EQ(kinds.size(), 5u);
  EXPECT_GT(empty, 10);
}

INSTANTIATE_TEST_SUITE_P(Backends, Conformance, testing::ValuesIn(tried_backends()), [](const auto& i) { return i.param; });

// Chains over keys, 128 at a time: so are the CPU's where lanes run along queries.
TEST(Conformance, BitsOfAttentionAreTheSameOnTheDevice) {
  const auto all = registered_backends();
  auto has = [&](std::string_view name) { return std::ranges::any_of(all, [&](const auto& b) { return b.name == name; }); };
  if (!has("cpu") || !has("cuda")) GTEST_SKIP() << "one of the backends is not built";
  using attentions::Score;
  for (const attentions::Case& c :
       {attentions::Case{1, 2, 2, 20, 300, 24, 40, true}, attentions::Case{1, 2, 1, 70, 140, 64, 64, false, Score::full_bias}}) {
    const atlas::Program p = attentions::attention(c, {.log_sums = true, .reproducible = true});
    const Buffers data = data_for(p, {}, 0);
    std::string error;
    EXPECT_EQ(run_on(*runtime_of("cuda"), p, {}, data, error), run_on(*runtime_of("cpu"), p, {}, data, error));
    EXPECT_EQ(error, "");
  }
}

}  // namespace
}  // namespace hologram::test

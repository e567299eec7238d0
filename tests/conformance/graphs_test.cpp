// tests/conformance/graphs_test.cpp: random graphs, planned for each backend's machine, have their values there.
#include "backend/cpu/backend.h"
#include "base/error.h"
#include "conformance/support.h"
#include "runtime/executable.h"
#include "support/environment.h"
#include "support/isas.h"
#include "support/test.h"
#include "unit/random_graph.h"

namespace hologram::test {
namespace {

std::vector<char> bytes_of(const Tensor& t) {
  const auto size = static_cast<size_t>(size_of(t.dtype));
  std::vector<char> out(t.size() * size);
  for (size_t i = 0; i < t.size(); ++i) std::memcpy(&out[i * size], &t.bits[i], size);
  return out;
}

// The same elements, read from memory.
Tensor read_back(Tensor like, const std::vector<char>& bytes) {
  const auto size = static_cast<size_t>(size_of(like.dtype));
  for (size_t i = 0; i < like.size(); ++i) {
    like.bits[i] = 0;
    std::memcpy(&like.bits[i], &bytes[i * size], size);
  }
  return like;
}

class Results : public runtime::Outputs {
 public:
  explicit Results(size_t count) : data(count) {}
  void* allocate(int index, size_t bytes, runtime::Frame&) override {
    auto& place = data[static_cast<size_t>(index)];
    place.assign(std::max<size_t>(bytes, 1), 0x5a);
    return place.data();
  }
  std::vector<std::vector<char>> data;
};

std::vector<Tensor> run_graph(const RandomGraph& r, runtime::Executable& e) {
  std::vector<std::vector<char>> memory(static_cast<size_t>(r.graph.num_parameters));
  std::vector<void*> addresses;
  for (size_t p = 0; p < memory.size(); ++p) {
    if (const auto at = r.parameters.find(static_cast<int>(p)); at != r.parameters.end()) memory[p] = bytes_of(at->second);
    memory[p].resize(memory[p].size() + 1);  // none is empty
    addresses.push_back(memory[p].data());
  }
  Results results(r.graph.outputs.size());
  auto frame = e.lease();
  const runtime::Outcome outcome = e.run({addresses.data(), r.symbols.data()}, results, nullptr, *frame);
  e.give_back(std::move(frame));
  EXPECT_EQ(outcome.status, 0);
  std::vector<Tensor> got;
  for (size_t i = 0; i < r.expected.size(); ++i) {
    const int parameter = r.graph.outputs[i].parameter;
    got.push_back(read_back(r.expected[i], parameter < 0 ? results.data[i] : memory[static_cast<size_t>(parameter)]));
  }
  return got;
}

void expect_same_tensors(const std::vector<Tensor>& got, const std::vector<Tensor>& wanted) {
  for (size_t i = 0; i < wanted.size(); ++i)
    ASSERT_TRUE(same(got[i], wanted[i])) << "output " << i << " is " << text(got[i]) << ", expected " << text(wanted[i]);
}

class Graphs : public testing::TestWithParam<std::string> {};

// HOLOGRAM_FUZZ_GRAPHS and HOLOGRAM_FUZZ_FIRST: how many, and from which seed.
TEST_P(Graphs, HaveTheirValues) {
  const uint64_t n = number("HOLOGRAM_FUZZ_GRAPHS", 25), first = number("HOLOGRAM_FUZZ_FIRST", 5001);
  uint64_t ran = 0;
  for (uint64_t seed = first; seed < first + n; ++seed) {
    const RandomGraph r(seed, 16, {.exact = true, .mutations = true});
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, print(r.graph)));
    std::shared_ptr<runtime::Executable> e;
    try {
      e = runtime::Executable::compile(r.graph, {}, runtime_of(GetParam()));
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::unsupported) << error.what();
      continue;
    }
    expect_same_tensors(run_graph(r, *e), r.expected);
    if (testing::Test::HasFailure()) return;
    ++ran;
  }
  EXPECT_GT(ran, n / 2);
}

INSTANTIATE_TEST_SUITE_P(Backends, Graphs, testing::ValuesIn(corpus_backends()), [](const auto& i) { return i.param; });

// Axes of vectors and their remainders, sums of floats and functions: one order and one rounding, whatever the vectors are.
TEST(RandomGraphs, HaveTheInterpretersBitsOnEveryInstructionSet) {
  std::vector<std::shared_ptr<runtime::Runtime>> all;
  for (const cpu::Isa isa : runnable_isas()) all.push_back(std::make_shared<runtime::Runtime>(cpu::make_backend(cpu::generic_target(isa))));
  const uint64_t n = number("HOLOGRAM_FUZZ_GRAPHS", 24), first = number("HOLOGRAM_FUZZ_FIRST", 7001);
  for (uint64_t seed = first; seed < first + n; ++seed) {
    const RandomGraph r(seed, 12, {.wide = true});
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, print(r.graph)));
    const std::vector<Tensor> wanted = run_graph(r, *runtime::Executable::compile(r.graph, {}, runtime_of("interp")));
    for (const auto& runtime : all) expect_same_tensors(run_graph(r, *runtime::Executable::compile(r.graph, {}, runtime)), wanted);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace hologram::test

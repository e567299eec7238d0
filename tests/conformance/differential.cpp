// tests/conformance/differential.cpp: programs against the interpreter on every backend.
#include "support/differential.h"

#include "base/error.h"
#include "conformance/support.h"

namespace hologram::test {

namespace {

// The data that a program is tried with, and what the interpreter makes of them.
struct Trial {
  Buffers fresh, wanted;
  std::vector<size_t> numbers;
  std::string error;
};

Trial trial_of(const atlas::Program& p, const Inputs& inputs, int specials) {
  atlas::verify(p);
  Trial t;
  t.fresh = data_for(p, inputs.symbols, specials, inputs.seed);
  for (size_t k = 0; k < p.buffers.size(); ++k) {
    const atlas::Buffer& b = p.buffers[k];
    if (b.access == Access::scratch) continue;
    auto* data = reinterpret_cast<char*>(t.fresh[t.numbers.size()].data());
    if (inputs.prepare) inputs.prepare(static_cast<int>(k), data, b.extent.eval(inputs.symbols));
    t.numbers.push_back(k);
  }
  t.wanted = run_on(*runtime_of("interp"), p, inputs.symbols, t.fresh, t.error);
  return t;
}

void try_on(std::string_view backend, const atlas::Program& p, const Inputs& inputs, const Trial& t, double tolerance) {
  SCOPED_TRACE(backend);
  std::string error;
  const Buffers got = run_on(*runtime_of(backend), p, inputs.symbols, t.fresh, error);
  EXPECT_EQ(error, t.error);
  for (size_t n = 0; n < got.size(); ++n)
    if (!expect_elements(p.buffers[t.numbers[n]].dtype, reinterpret_cast<const char*>(got[n].data()),
                         reinterpret_cast<const char*>(t.wanted[n].data()), got[n].size(), std::max(inputs.tolerance, tolerance),
                         t.numbers[n], inputs.nan_for_infinity))
      return;
}

// The backends that must give what the interpreter gives in the test that runs: of the CPU tests/codegen tries every
// instruction set with these programs.
std::vector<std::string_view> backends() {
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  const std::string name = std::string(test.test_suite_name()) + "." + test.name();
  const bool named = std::getenv("HOLOGRAM_TEST_BACKENDS") != nullptr;
  std::vector<std::string_view> out;
  for (const std::string& b : tried_backends())
    if (b != "interp" && (named || b != "cpu") && !excused(b, name)) out.push_back(b);
  return out;
}

}  // namespace

void expect_same(const atlas::Program& p, const Inputs& inputs) {
  std::map<int, Trial> trials;  // by special values
  for (std::string_view backend : backends()) {
    const Promise promise = promise_on(backend, p, inputs.specials);
    auto at = trials.find(promise.specials);
    if (at == trials.end()) at = trials.emplace(promise.specials, trial_of(p, inputs, promise.specials)).first;
    try_on(backend, p, inputs, at->second, promise.tolerance);
  }
}

void expect_same_on_each(const ProgramFor& program, const Inputs& inputs) {
  for (std::string_view backend : backends()) {
    const atlas::Program p = program(runtime_of(backend)->backend().machine());
    const Promise promise = promise_on(backend, p, inputs.specials);
    try_on(backend, p, inputs, trial_of(p, inputs, promise.specials), promise.tolerance);
  }
}

}  // namespace hologram::test

// tests/conformance/differential.cpp: programs against the interpreter on every backend.
#include "support/differential.h"

#include "backend/registry.h"
#include "base/error.h"
#include "conformance/support.h"

namespace hologram::test {

void expect_same(const atlas::Program& p, const Inputs& inputs) {
  atlas::verify(p);
  const Promise promise = promise_of(p, inputs.specials);
  Buffers fresh;
  std::vector<size_t> numbers;
  std::mt19937_64 random(inputs.seed);
  for (size_t k = 0; k < p.buffers.size(); ++k) {
    const atlas::Buffer& b = p.buffers[k];
    if (b.access == Access::scratch) continue;
    const int64_t count = b.extent.eval(inputs.symbols);
    fresh.emplace_back(static_cast<size_t>(count * size_of(b.dtype)));
    auto* data = reinterpret_cast<char*>(fresh.back().data());
    fill(data, b.dtype, count, random, promise.specials);
    if (inputs.prepare) inputs.prepare(static_cast<int>(k), data, count);
    numbers.push_back(k);
  }
  std::string expected_error;
  const Buffers wanted = run_on(runtime_of("interp"), p, inputs.symbols, fresh, expected_error);
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  const std::string name = std::string(test.test_suite_name()) + "." + test.name();
  for (const RegisteredBackend& backend : registered_backends()) {
    if (backend.name == "interp" || excused(backend.name, name)) continue;
    SCOPED_TRACE(backend.name);
    std::string error;
    const Buffers got = run_on(runtime_of(backend.name), p, inputs.symbols, fresh, error);
    EXPECT_EQ(error, expected_error);
    for (size_t n = 0; n < got.size(); ++n)
      if (!expect_elements(p.buffers[numbers[n]].dtype,
                           reinterpret_cast<const char*>(got[n].data()),
                           reinterpret_cast<const char*>(wanted[n].data()), got[n].size(),
                           std::max(inputs.tolerance, promise.tolerance), numbers[n]))
        return;
  }
}

}  // namespace hologram::test

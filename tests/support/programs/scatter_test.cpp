// tests/support/programs/scatter_test.cpp: elements that go to places that they name, against the interpreter.
#include "atlas/programs.h"
#include "support/differential.h"

namespace hologram::test {
namespace {

using ir::Op;

struct Scatter {
  const char* name;
  DType type;
  std::optional<Op> combine;
};

class Scatters : public testing::TestWithParam<Scatter> {};

// Batches, elements, places and columns; how many of the places are named, 0: too many.
struct Sizes {
  int64_t batch, elements, places, width, named;
};

TEST_P(Scatters, HaveTheOrderOfTheirElements) {
  const auto& [name, type, combine] = GetParam();
  for (const Sizes& s : {Sizes{1, 0, 5, 3, 5}, Sizes{1, 1, 1, 1, 1}, Sizes{3, 100, 7, 5, 7}, Sizes{2, 70, 9, 2, 1},
                         Sizes{1, 300, 1000, 1, 1000}, Sizes{1, 40, 50, 290, 7}, Sizes{2, 130, 40, 3, 0}, Sizes{2, 130, 40, 1, 0}})
    for (const bool known : {false, true}) {
      SCOPED_TRACE(testing::Message() << s.batch << " " << s.elements << " " << s.width << " " << known);
      auto name_places = [&](int buffer, char* data, int64_t count) {
        auto* at = reinterpret_cast<int64_t*>(data);
        for (int64_t n = 0; buffer == 0 && n < count; ++n) at[n] = (at[n] & 0xffff) % (s.named > 0 ? s.named : s.places + 1);
      };
      expect_same(scattered(type, combine, known ? Expr(s.width) : sym(3)), {.symbols = {s.batch, s.elements, s.places, s.width},
                                                                             .seed = static_cast<uint64_t>(s.elements + s.width),
                                                                             .chunks = {0, 16},
                                                                             .prepare = name_places});
    }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Scatters,
                         testing::Values(Scatter{"set", DType::f32, {}}, Scatter{"sums", DType::f32, Op::add},
                                         Scatter{"products", DType::bf16, Op::mul}, Scatter{"largest", DType::i64, Op::max},
                                         Scatter{"bytes", DType::u8, Op::add}),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace hologram::test

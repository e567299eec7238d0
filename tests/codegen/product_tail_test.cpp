// tests/codegen/product_tail_test.cpp: what follows a product's rows in its kernel, against the
// interpreter and against kernels of their own, bit by bit.
#include "codegen/in_turn.h"
#include "codegen/product_tails.h"
#include "codegen/run_kernel.h"
#include "support/test.h"

namespace hologram::test {
namespace {

using namespace product_tails;

class ProductTail : public testing::TestWithParam<cpu::Isa> {
 protected:
  cpu::Target target() const { return cpu::generic_target(GetParam()); }

  void check(const Case& c, int64_t chunk = 0) {
    const testing::Message about = testing::Message() << c;
    if (in_turn(GetParam(), about.GetString())) check(c, chunk, target());
  }
  void check(const Case& c, int64_t chunk, const cpu::Target& target) {
    SCOPED_TRACE(testing::Message() << c);
    std::vector<int64_t> syms;
    if (c.symbolic) syms = {c.m, c.n, c.k};
    atlas::Program fused = make_program(c, cpu::panel_width(target, c.operand), cpu::panel_group(target, c.operand, c.acc));
    atlas::verify(fused);
    std::vector<Memory> got = random_operands(fused, syms), wanted = random_operands(fused, syms), apart = random_operands(fused, syms);
    expect_run(Compiled(fused, target), got, syms, chunk);
    atlas::Program expanded = fused, product = fused, loop = fused;
    atlas::expand_math(expanded);
    interp::run(expanded, addresses(wanted).data(), syms.data(), nullptr);
    product.product().tail = {};
    loop.block = fused.product().tail;
    expect_run(Compiled(product, target), apart, syms);
    expect_run(Compiled(loop, target), apart, syms);
    for (size_t b = 0; b < got.size(); ++b) {
      EXPECT_EQ(std::memcmp(got[b].data(), apart[b].data(), got[b].size()), 0) << "buffer " << b << " beside kernels of their own";
      EXPECT_EQ(std::memcmp(got[b].data(), wanted[b].data(), got[b].size()), 0) << "buffer " << b << " beside the interpreter";
    }
  }
};

TEST_P(ProductTail, shapes_with_tails) {
  const std::array<int64_t, 3> sizes[] = {{1, 2, 1},   {1, 100, 20}, {2, 130, 9},   {5, 64, 16},
                                          {12, 32, 8}, {13, 33, 9},  {100, 40, 11}, {61, 200, 400}};
  for (auto [m, n, k] : sizes)
    for (bool in_place : {false, true}) check({.m = m, .n = n, .k = k, .in_place = in_place});
}

TEST_P(ProductTail, many_units_in_any_chunks) {
  for (int64_t chunk : {0, 1, 3}) check({.m = 1003, .n = 70, .k = 24, .in_place = true}, chunk);
  check({.m = 200, .n = 1100, .k = 20}, 1);
}

TEST_P(ProductTail, whatever_follows) {
  for (Follows f : {Follows::softmax, Follows::running_sum, Follows::largest})
    for (int64_t n : {3, 64, 75, 600}) {
      check({.m = 29, .n = n, .k = 50, .follows = f});
      check({.m = 29, .n = n, .k = 50, .batch = 3, .follows = f}, 1);
    }
  check({.m = 29, .n = 96, .k = 50, .in_place = true, .follows = Follows::softmax});
}

TEST_P(ProductTail, operands_of_every_kind) {
  for (bool lhs_t : {false, true})
    for (bool rhs_t : {false, true})
      for (auto [m, n, k] : {std::array<int64_t, 3>{1, 50, 19}, {40, 50, 19}, {100, 130, 403}})
        check({.m = m, .n = n, .k = k, .lhs_transposed = lhs_t, .rhs_transposed = rhs_t, .packed = false});
  for (auto [from, to] : {std::pair{DType::bf16, DType::bf16}, {DType::f16, DType::f32}, {DType::bf16, DType::f32}})
    check({.m = 40, .n = 90, .k = 50, .operand = from, .kept = to});
  check({.m = 40, .n = 90, .k = 50, .operand = DType::f64, .acc = DType::f64, .kept = DType::f64});
}

TEST_P(ProductTail, sizes_known_at_run_time) {
  for (bool packed : {false, true})
    for (int64_t m : {1, 20, 300}) check({.m = m, .n = 80, .k = 20, .packed = packed, .symbolic = true, .in_place = packed}, 1);
}

TEST_P(ProductTail, dots_of_bfloat16) {
  cpu::Target dots = cpu::with_dots_of_host(target());
  if (!dots.bf16_dots) GTEST_SKIP() << "no such instruction here";
  for (bool reproducible : {false, true})
    for (Follows f : {Follows::layer_norm, Follows::softmax})
      for (DType kept : {DType::f32, DType::bf16})
        check({.m = 150, .n = 100, .k = 70, .operand = DType::bf16, .kept = kept, .reproducible = reproducible, .follows = f}, 1, dots);
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, ProductTail, testing::ValuesIn(runnable_isas()),
                         [](const auto& i) { return std::string(name_of(i.param)); });

}  // namespace
}  // namespace hologram::test

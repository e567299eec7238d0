// tests/support/programs/attention_grad_test.cpp: compiled gradients of attention against the interpreter.
#include "codegen/attention_grads.h"
#include "codegen/differential.h"

namespace hologram::test {
namespace {

using namespace attention_grads;

void check(const Case& c, std::vector<int64_t> chunks = {0}) {
  SCOPED_TRACE(testing::Message() << c);
  Inputs inputs{.symbols = c.symbols(), .specials = 0, .chunks = std::move(chunks)};
  DType acc = compute_type(c.dtype);
  inputs.prepare = [&](int buffer, char* to, int64_t count) {  // the second row sees no key
    if (buffer != lse_buffer || count < 2) return;
    uint64_t bits = ir::bits_of(acc, -INFINITY);
    std::memcpy(to + size_of(acc), &bits, static_cast<size_t>(size_of(acc)));
  };
  expect_same(make_program(c), inputs);
}

TEST(AttentionGrad, shapes) {
  check({1, 1, 1, 1, 1, 1});
  check({2, 1, 7, 9, 16, 16});
  check({1, 1, 48, 128, 32, 32});
  check({1, 1, 50, 131, 20, 33});
  check({1, 1, 60, 140, 80, 48});
  check({1, 1, 97, 260, 40, 24}, {0, 1});
}

#if defined(__x86_64__)
// 80 columns are two panels and one vector: 128 keys are six tiles of 21 or 22, 48 queries two of 24.
TEST(AttentionGrad, tiles_are_no_wider_than_the_columns) {
  cpu::Target target = cpu::generic_target(cpu::Isa::avx512);
  std::string text = cpu::dump_asm(make_program({1, 1, 96, 128, 80, 80}), target);
  for (const char* tile : {"tile_21x1:", "tile_22x1:", "tile_24x1:"}) EXPECT_NE(text.find(tile), std::string::npos) << tile;
}
#endif

TEST(AttentionGrad, heads_that_share_keys) {
  check({1, 3, 50, 131, 16, 24});
  check({2, 2, 20, 30, 16, 16, true});
}

TEST(AttentionGrad, heads_between_sequence_and_depth) { check({2, 1, 40, 50, 32, 32, false, Score::plain, DType::f32, false, true}); }

TEST(AttentionGrad, scores) {
  for (Score s : {Score::bias, Score::keep, Score::window, Score::cap}) check({1, 1, 150, 140, 16, 16, false, s});
  for (int64_t queries : {30, 150}) check({1, 1, queries, 140, 16, 16, true});
}

// One kernel shares out the keys, the other the queries; the bits are those of the joint one.
TEST(AttentionGrad, keys_and_queries_apart) {
  for (int64_t members : {1, 2})
    for (bool queries : {false, true})
      check({1, members, 250, 140, 16, 16, true, Score::plain, DType::f32, false, false, queries, !queries, !queries}, {0, 1});
}

TEST(AttentionGrad, types) {
  for (DType t : {DType::bf16, DType::f16, DType::f64})
    check(
        {1, 2, 50, 130, 24, 24, false, Score::plain, t, false, false, true, true, true, size_of(t) == 2});  // else by bounds (conformance)
}

TEST(AttentionGrad, symbolic_sizes) {
  for (auto [m, n] : {std::pair<int64_t, int64_t>{1, 1}, {49, 150}})
    for (int64_t members : {1, 2}) check({1, members, m, n, 16, 16, false, Score::bias, DType::f32, true});
  check({1, 2, 200, 20, 16, 16, false, Score::plain, DType::f32, true, false, true, false, false});
}

TEST(AttentionGrad, no_keys_or_queries) {
  check({1, 1, 0, 5, 8, 8});
  check({1, 1, 5, 0, 8, 8});
}

}  // namespace
}  // namespace hologram::test

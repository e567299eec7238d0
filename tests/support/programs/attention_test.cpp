// tests/support/programs/attention_test.cpp: compiled attention against the interpreter.
#include "codegen/attentions.h"
#include "support/differential.h"
#include "support/test.h"

namespace hologram::test {
namespace {

using namespace attentions;

Inputs inputs_of(const Case& c) {
  Inputs in;
  in.symbols = c.symbols();
  in.specials = 0;
  if (c.symbolic) in.chunks = {1};
  // float32: of two results that are each within 4e-6 of the exact one.
  in.tolerance = c.dtype == DType::bf16 ? 0x1p-5 : c.dtype == DType::f16 ? 0x1p-8 : 8e-6;
  if (c.score == Score::keep_mask)  // the first row keeps nothing
    in.prepare = [keys = c.keys](int buffer, char* data, int64_t) {
      if (buffer == bias_buffer) std::fill_n(data, keys, char{0});
    };
  return in;
}

void expect(const Case& c, const More& more = {}) {
  SCOPED_TRACE(testing::Message() << c << (more.log_sums ? " log sums" : "") << (more.reproducible ? " reproducible" : "")
                                  << (more.keys_turned ? " turned" : "") << " window " << more.window << " cap " << more.cap);
  expect_same(attention(c, more), inputs_of(c));
}

TEST(Attention, SumsInFloat32) {
  for (Case c : {Case{1, 1, 1, 1, 1, 1, 1}, Case{2, 2, 2, 7, 9, 16, 16}, Case{1, 1, 1, 20, 130, 24, 40}, Case{1, 2, 2, 33, 131, 20, 80},
                 Case{1, 1, 1, 70, 40, 17, 130}, Case{1, 1, 1, 5, 400, 400, 8}, Case{2, 3, 3, 64, 128, 32, 32},
                 Case{2, 2, 2, 17, 129, 80, 48}, Case{1, 2, 2, 3, 140, 16, 80}})
    expect(c);
  expect({1, 1, 1, 20, 40, 16, 16, false, Score::plain, DType::f64});
  expect({1, 1, 1, 40, 140, 8, 33, true, Score::plain, DType::f64});
}

TEST(Attention, OnTensorCores) {
  for (DType t : {DType::bf16, DType::f16}) {
    expect({1, 2, 1, 130, 70, 64, 64, false, Score::plain, t});
    expect({1, 1, 1, 40, 130, 80, 80, true, Score::plain, t});
    expect({1, 1, 1, 17, 65, 128, 128, false, Score::keep_mask, t});
    expect({2, 2, 2, 20, 40, 40, 24, false, Score::full_bias, t, false, true});
  }
  expect({1, 1, 1, 20, 70, 13, 7, false, Score::key_bias, DType::bf16});
}

// Of more than 128 columns of values a GPU's kernels have several panels.
TEST(Attention, WideHeads) {
  for (DType t : {DType::bf16, DType::f16}) {
    expect({1, 1, 1, 30, 70, 192, 192, true, Score::plain, t}, {.log_sums = true});
    expect({1, 2, 1, 70, 50, 136, 24, false, Score::keep_mask, t});
    expect({1, 1, 1, 20, 40, 16, 200, false, Score::plain, t});
    expect({1, 4, 2, 1, 600, 256, 256, false, Score::plain, t}, {.log_sums = true});
    expect({1, 4, 1, 3, 90, 160, 144, true, Score::full_bias, t, false, true});
  }
  expect({1, 1, 1, 18, 33, 300, 300, false, Score::plain, DType::bf16});  // too wide for registers
}

TEST(Attention, HalvesWhoseBitsArePromised) {
  for (DType t : {DType::bf16, DType::f16}) expect({1, 1, 1, 20, 40, 64, 64, true, Score::plain, t}, {.reproducible = true});
}

TEST(Attention, MasksAndCaps) {
  for (DType t : {DType::f32, DType::bf16}) {
    for (Score score : {Score::key_bias, Score::full_bias, Score::keep_mask})
      expect({1, 2, 2, 20, 150, 16, 16, false, score, t}, {.log_sums = true});
    expect({1, 1, 1, 150, 150, 16, 16, true, Score::plain, t}, {.log_sums = true});
    expect({1, 1, 1, 150, 300, 16, 16, false, Score::plain, t}, {.window = 20});
    expect({1, 1, 1, 20, 30, 16, 16, false, Score::plain, t}, {.cap = 5});
  }
}

TEST(Attention, Causal) {
  for (int64_t queries : {3, 150}) expect({1, 6, 2, queries, 150, 32, 32, true});
}

TEST(Attention, LogSumsWithoutValues) {
  for (DType t : {DType::f32, DType::bf16})
    for (int64_t queries : {2, 20}) expect({1, 2, 1, queries, 40, 16, 0, false, Score::plain, t}, {.log_sums = true});
}

TEST(Attention, OtherLayouts) {
  for (DType t : {DType::f32, DType::bf16}) {
    expect({2, 3, 3, 20, 50, 32, 32, false, Score::plain, t, false, true});
    for (int64_t queries : {3, 20}) expect({1, 4, 2, queries, 75, 32, 40, false, Score::plain, t}, {.keys_turned = true});
  }
}

TEST(Attention, FewQueries) {
  for (DType t : {DType::f32, DType::bf16})
    for (int64_t queries : {1, 3, 16})
      for (int64_t keys : {1, 64, 200})
        expect({1, 4, 2, queries, keys, 32, 24, queries == 3, Score::full_bias, t}, {.log_sums = queries == 3});
}

// Keys of 64 numbers lie as the lanes read them.
TEST(Attention, FewQueriesReadKeysInPlace) {
  for (DType t : {DType::f32, DType::bf16, DType::f16})
    for (int64_t queries : {1, 3})
      for (int64_t keys : {15, 300}) expect({1, 2, 1, queries, keys, 64, 64, false, keys == 15 ? Score::keep_mask : Score::plain, t});
  for (bool inside : {false, true}) expect({2, 2, 2, 1, 150, 160, 96, true, Score::plain, DType::f32, false, inside});
}

// Keys in parts, which a second kernel merges on a GPU.
TEST(Attention, FewQueriesOfLongCaches) {
  for (DType t : {DType::f32, DType::bf16, DType::f16}) {
    expect({1, 4, 1, 1, 700, 64, 64, false, Score::plain, t});
    expect({1, 8, 2, 2, 1030, 16, 16, false, Score::keep_mask, t}, {.log_sums = true});
    expect({2, 2, 2, 1, 600, 16, 40, true, Score::plain, t}, {.log_sums = true});
  }
  expect({1, 2, 1, 4, 600, 16, 140, false, Score::full_bias, DType::f32});
  expect({1, 2, 2, 1, 600, 16, 16, false, Score::plain, DType::f64});
}

TEST(Attention, SymbolicSizes) {
  for (DType t : {DType::f32, DType::bf16})
    for (auto [m, n] : {std::pair<int64_t, int64_t>{0, 5}, {3, 0}, {1, 150}, {40, 130}})
      expect({1, 2, 1, m, n, 16, 16, true, Score::full_bias, t, true});
  // Queries are known, keys are not.
  for (DType t : {DType::f32, DType::bf16})
    for (int64_t keys : {0, 1, 300, 1000}) {
      Case c{1, 4, 2, 1, keys, 16, 16, false, Score::plain, t, true};
      atlas::Program p = attention(c, {.log_sums = true});
      p.attention().axes[2].extent = Expr(1);
      SCOPED_TRACE(keys);
      expect_same(p, inputs_of(c));
    }
}

}  // namespace
}  // namespace hologram::test

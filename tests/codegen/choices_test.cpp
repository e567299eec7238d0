// tests/codegen/choices_test.cpp: which instructions serve which products on which processor.
#include "backend/cpu/choices.h"
#include "atlas/programs.h"
#include "backend/cpu/keys.h"
#include "backend/cpu/loops/half_vectors.h"
#include "backend/cpu/products/panels.h"
#include "backend/cpu/products/plan.h"
#include "base/error.h"
#include "support/refusal.h"
#include "support/test.h"

namespace hologram::cpu {
namespace {

Target with(const char* processor, bool tiles = true) {
  Target t = generic_target(Isa::avx512);
  t.processor = find_processor(processor);
  return tiles ? with_tiles(t) : t;
}

std::string path_of(const Target& target, std::string_view what) {
  for (const Choice& c : choices(target))
    if (c.what == what) {
      EXPECT_FALSE(c.why.empty()) << what;
      return std::string(c.path);
    }
  return "none";
}

atlas::ProductBlock product_of(int64_t m, int64_t n, int64_t k, DType type, int precision = 0) {
  atlas::ProductBlock b;
  b.axes = {{atlas::AxisKind::parallel, Expr(m)}, {atlas::AxisKind::parallel, Expr(n)}, {atlas::AxisKind::row, Expr(k)}};
  b.batch_rank = 0;
  b.operand_type = type;
  b.acc_type = DType::f32;
  b.precision = precision;
  return b;
}

TEST(Processor, models_have_names) {
  EXPECT_EQ(processor_of("GenuineIntel", 6, 143).name, "sapphire-rapids");
  EXPECT_EQ(processor_of("GenuineIntel", 6, 207).name, "emerald-rapids");
  EXPECT_EQ(processor_of("AuthenticAMD", 25, 17).name, "zen4");
  EXPECT_EQ(processor_of("AuthenticAMD", 25, 33).name, "zen3");
  EXPECT_EQ(processor_of("AuthenticAMD", 26, 2).name, "zen5");
  EXPECT_EQ(processor_of("GenuineIntel", 6, 1).name, "unknown");
  EXPECT_EQ(processor_of("AuthenticAMD", 6, 143).name, "unknown");
}

TEST(Processor, the_table_is_sound) {
  std::set<std::string_view> names;
  for (const Processor& p : processors()) {
    EXPECT_TRUE(names.insert(p.name).second) << p.name;
    EXPECT_EQ(find_processor(p.name), &p);
    EXPECT_GT(p.multiply_adds, 0) << p.name;
    EXPECT_GT(p.second_level, p.first_level) << p.name;
    EXPECT_GT(p.second_level_rate, 0) << p.name;
    for (double gain : p.terms_gain) EXPECT_TRUE(gain == 0 || p.tile_cycles > 0) << p.name;
  }
}

TEST(Processor, the_environment_names_another) {
  ASSERT_EQ(setenv("HOLOGRAM_CPU_MODEL", "sapphire-rapids", 1), 0);
  EXPECT_EQ(host_processor().name, "sapphire-rapids");
  EXPECT_EQ(host_target().processor->name, "sapphire-rapids");
  EXPECT_FALSE(host_target().bf16_dots);
  setenv("HOLOGRAM_CPU_MODEL", "pentium", 1);
  EXPECT_NE(test::refusal([] { host_processor(); }).find("HOLOGRAM_CPU_MODEL=pentium: expected one of skylake"), std::string::npos);
  unsetenv("HOLOGRAM_CPU_MODEL");
  EXPECT_EQ(&host_processor(), &host_processor());
  ASSERT_EQ(setenv("HOLOGRAM_CPU_TERMS", "perhaps", 1), 0);
  EXPECT_THROW(host_target(), Error);
  setenv("HOLOGRAM_CPU_TERMS", "model", 1);
  EXPECT_EQ(host_target().terms, Terms::model);
  unsetenv("HOLOGRAM_CPU_TERMS");
  EXPECT_EQ(host_target().terms, Terms::measured);
  ASSERT_EQ(setenv("HOLOGRAM_CPU_ATTENTION", "perhaps", 1), 0);
  EXPECT_THROW(host_target(), Error);
  setenv("HOLOGRAM_CPU_ATTENTION", "tiles", 1);
  EXPECT_TRUE(host_target().tile_attention);
  unsetenv("HOLOGRAM_CPU_ATTENTION");
  EXPECT_FALSE(host_target().tile_attention);
}

TEST(Choices, a_measured_gain_is_taken) {
  Processor fast = *find_processor("emerald-rapids");
  fast.terms_gain = {0, 1.05, 1.3};
  Target t = with("emerald-rapids");
  t.processor = &fast;
  EXPECT_EQ(path_of(t, "float32"), "terms");
  EXPECT_EQ(path_of(t, "float32 high"), "fma");
  EXPECT_EQ(terms_for(t, product_of(1024, 1536, 384, DType::f32), true), 3);
  EXPECT_EQ(terms_for(t, product_of(1024, 1536, 384, DType::f32, 1), true), 0);
  EXPECT_EQ(terms_for(t, product_of(5, 16, 32, DType::f32), false), 0);  // the model says no
  t.terms = Terms::never;
  EXPECT_EQ(path_of(t, "float32"), "fma");
  t.terms = Terms::model;
  EXPECT_EQ(path_of(t, "float32 high"), "terms");
}

TEST(Choices, slow_dots_give_way_to_multiply_adds) {
  for (const char* slow : {"sapphire-rapids", "emerald-rapids"}) {
    EXPECT_FALSE(dots_pay(*find_processor(slow))) << slow;
    EXPECT_EQ(path_of(with(slow, false), "bfloat16"), "fma");
  }
  for (const char* fast : {"zen4", "zen5", "unknown"}) EXPECT_TRUE(dots_pay(*find_processor(fast))) << fast;
}

TEST(Choices, what_waits_for_memory_has_vectors_of_half_a_register_where_that_is_faster) {
  const std::pair<atlas::Program, int> cases[] = {{test::elementwise(ir::Op::add, DType::f32, 2, DType::f32), 32},
                                                  {test::elementwise(ir::Op::exp, DType::f32, 1, DType::f32), 64},
                                                  {test::row_reduction(ir::Op::reduce_sum, DType::f32), 32},
                                                  {test::row_reduction(ir::Op::reduce_max, DType::f64), 32},
                                                  {test::row_scan(ir::Op::reduce_sum, DType::f32), 32}};
  for (const auto& [program, bytes] : cases) {
    EXPECT_EQ(target_for(program, with("zen4", false)).vector_bytes, bytes) << atlas::disassemble(program);
    EXPECT_EQ(target_for(program, with("zen5", false)).vector_bytes, 64);
  }
}

TEST(Choices, bfloat16_attention_on_tiles_is_pytorchs_until_ours_was_measured) {
  EXPECT_EQ(path_of(with("emerald-rapids"), "bfloat16 attention"), "pytorch");
  Processor measured = *find_processor("emerald-rapids");
  Target t = with("emerald-rapids");
  t.processor = &measured;
  for (auto [gain, path] : {std::pair{0.9, "pytorch"}, {1.3, "tiles"}}) {
    measured.attention_gain = gain;
    EXPECT_EQ(path_of(t, "bfloat16 attention"), path);
  }
  t = with("emerald-rapids");
  t.tile_attention = true;
  EXPECT_EQ(path_of(t, "bfloat16 attention"), "tiles");
  EXPECT_EQ(path_of(with("emerald-rapids", false), "bfloat16 attention"), "fma");
  EXPECT_EQ(path_of(with("zen4", false), "bfloat16 attention"), "fma");
}

TEST(Choices, parts_of_attention_take_tiles_where_these_were_measured_to_be_faster) {
  const std::pair<const char*, double Processor::*> parts[] = {{"bfloat16 attention of few queries", &Processor::few_queries_gain},
                                                               {"bfloat16 attention gradients", &Processor::gradients_gain},
                                                               {"float32 attention", &Processor::float_attention_gain}};
  for (auto [what, gain] : parts) {
    const char* tiles = gain == &Processor::float_attention_gain ? "terms" : "tiles";
    for (const Processor& p : processors()) {
      EXPECT_EQ(path_of(with(p.name.data(), false), what), "fma") << p.name;
      EXPECT_EQ(path_of(with(p.name.data()), what), p.*gain >= least_gain ? tiles : "fma");
    }
    Processor measured = *find_processor("emerald-rapids");
    Target t = with("emerald-rapids");
    const std::string key = target_key(t);
    t.processor = &measured;
    for (auto [times, path] : {std::pair{1.05, "fma"}, {1.3, tiles}}) {
      measured.*gain = times;
      EXPECT_EQ(path_of(t, what), path);
      EXPECT_EQ(target_key(t) == key, times < least_gain);  // it changes bits
    }
    t = with("emerald-rapids");
    t.tile_attention = true;
    EXPECT_EQ(path_of(t, what), tiles);
    EXPECT_NE(target_key(t), key);
    t.tiles = false;
    EXPECT_EQ(path_of(t, what), "fma");
  }
}

}  // namespace
}  // namespace hologram::cpu

// tests/codegen/sizes_test.cpp: every kind of block with axes of no and of one element, compiled
// for known and for run-time sizes, against the interpreter.
#include <fmt/ranges.h>

#include <regex>

#include "atlas/empty.h"
#include "atlas/programs.h"
#include "codegen/differential.h"

namespace hologram::test {
namespace {

/// `p` with numbers in place of its symbols.
Program with_sizes(const Program& p, const std::vector<int64_t>& sizes) {
  std::string text = disassemble(p);
  for (size_t k = 0; k < sizes.size(); ++k)
    text = std::regex_replace(text, std::regex(fmt::format("\\bs{}\\b", k)), std::to_string(sizes[k]));
  return atlas::assemble(text);
}

/// A product whose tail stores one value for each row: the largest, or -inf without columns.
Program product_with_row_tail() {
  Program p = product_with_tail();
  p.buffers[3].extent = sym(0) * sym(1);
  atlas::Stage& last = p.product().tail.stages.back();
  last = {atlas::StageKind::point, {}, {}, {}};
  BodyBuilder b(last.body);
  b.store(3, Expr::axis(0, sym(0)) * sym(1) + Expr::axis(1, sym(1)), b.accumulator(0, DType::f32));
  return p;
}

Program gradients_of(bool dq, bool dk, bool dv) {
  Program p = attention_gradients(DType::f32);
  if (!dq) p.attention_grad().dq = {};
  if (!dk) p.attention_grad().dk = {};
  if (!dv) p.attention_grad().dv = {};
  return p;
}

struct Case {
  const char* name;
  Program program;
  std::vector<cpu::Isa> isas = runnable_isas();
};

std::vector<Case> cases() {
  auto not_reproducible = [](Program p) {
    p.product().reproducible = false;
    return p;
  };
  std::vector<cpu::Isa> of_16_columns;
  for (cpu::Isa isa : runnable_isas())
    if (cpu::panel_width(cpu::generic_target(isa), DType::f32) == 16) of_16_columns.push_back(isa);
  return {
      {"elementwise", elementwise(ir::Op::add, DType::f32, 2, DType::f32)},
      {"sum", row_reduction(ir::Op::reduce_sum, DType::f32)},
      {"tree", row_reduction(ir::Op::reduce_prod, DType::f64, true)},
      {"argmax", row_reduction(ir::Op::reduce_argmax, DType::i32)},
      {"scan", row_scan(ir::Op::reduce_sum, DType::f32)},
      {"product", batched_product(DType::f32, DType::f32, DType::f32)},
      {"product of doubles", batched_product(DType::f64, DType::f64, DType::f64)},
      {"product of bfloat16", not_reproducible(batched_product(DType::bf16, DType::f32, DType::bf16))},
      {"product of bytes", not_reproducible(batched_product(DType::i8, DType::i32, DType::i32))},
      {"packed product", packed_product(1), of_16_columns},
      {"product of parts", packed_product(2), of_16_columns},
      {"tail", product_with_tail()},
      {"tail of rows", product_with_row_tail()},
      {"attention", biased_attention(DType::f32, true)},
      {"attention of bfloat16", biased_attention(DType::bf16, false)},
      {"attention with sums", summing_attention(DType::f32)},
      {"gradients", gradients_of(true, true, true)},
      {"gradient of q", gradients_of(true, false, false)},
      {"gradients of k and v", gradients_of(false, true, true)},
      {"gradient of k", gradients_of(false, true, false)},
      {"gradient of v", gradients_of(false, false, true)},
      {"gradients of bfloat16", attention_gradients(DType::bf16)},
      {"sort", row_order(DType::f32, false)},
      {"sort of bytes", row_order(DType::u8, true)},
  };
}

// Sorts have no more places than elements.
bool possible(const Program& p, const std::vector<int64_t>& sizes) { return p.kind() != atlas::BlockKind::sort || sizes[2] <= sizes[1]; }

/// Calls run(sizes) with 0 and 1 for every `at_once` (1 or 2) of the symbols, the others ordinary.
void for_each_sizes(int symbols, int at_once, const std::function<void(const std::vector<int64_t>&)>& run) {
  static constexpr int64_t ordinary[] = {2, 5, 3, 4, 6};
  auto count = static_cast<size_t>(symbols);
  for (size_t a = 0; a < count; ++a)
    for (size_t b = a; b < (at_once == 1 ? a + 1 : count); ++b)
      for (int64_t x : {0, 1})
        for (int64_t y : {0, 1}) {
          if (a == b && x != y) continue;
          std::vector<int64_t> sizes(ordinary, ordinary + symbols);
          sizes[a] = x, sizes[b] = y;
          run(sizes);
        }
}

std::string text(const std::vector<int64_t>& sizes) { return fmt::format("{}", fmt::join(sizes, " ")); }

TEST(Sizes, OfNoneAndOneGiveTheInterpretersValues) {
  for (const Case& c : cases())
    for (bool known : {false, true}) {  // or found at run time
      SCOPED_TRACE(testing::Message() << c.name << (known ? " of known sizes" : ""));
      IsaInputs inputs{{}, c.isas};
      if (known && c.isas.size() > 2) inputs.isas = {c.isas.front(), c.isas.back()};
      // Attention is the same on every instruction set, but only near the interpreter's.
      if (c.program.kind() == atlas::BlockKind::attention) inputs.tolerance = 1e-2, inputs.specials = 0;
      for_each_sizes(c.program.num_symbols, known ? 1 : 2, [&](const std::vector<int64_t>& sizes) {
        if (!possible(c.program, sizes)) return;
        SCOPED_TRACE(text(sizes));
        if (!known) inputs.symbols = sizes;
        expect_same_on(known ? with_sizes(c.program, sizes) : c.program, inputs);
      });
    }
}

// Every combination of sizes is planned for every target: no division by one of them goes wrong.
TEST(Sizes, EveryCombinationIsPlanned) {
  std::vector<cpu::Target> targets;
  for (cpu::Isa isa : {cpu::Isa::sse42, cpu::Isa::avx2, cpu::Isa::avx512, cpu::Isa::neon}) targets.push_back(cpu::generic_target(isa));
  targets.push_back(cpu::with_tiles(targets[2]));
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    std::vector<int64_t> sizes(static_cast<size_t>(c.program.num_symbols), 0);
    for (bool more = true; more;) {
      if (possible(c.program, sizes)) {
        SCOPED_TRACE(text(sizes));
        Program p = with_sizes(c.program, sizes);
        for (const cpu::Target& t : targets) {
          bool packed = p.kind() == atlas::BlockKind::product && p.product().packed_rhs >= 0;
          if (packed && cpu::panel_width(t, DType::f32) != 16) continue;
          cpu::Launch launch = cpu::launch_of(p, t);
          int64_t units = launch.total.constant_value();
          EXPECT_TRUE(units == 0 || !atlas::is_empty(p));
          EXPECT_GE(units, 0);
          EXPECT_GE(launch.grain.constant_value(), 1);
        }
      }
      more = false;
      for (size_t k = 0; k < sizes.size() && !more; ++k) {
        more = sizes[k] < 2;
        sizes[k] = more ? sizes[k] + 1 : 0;
      }
    }
  }
}

}  // namespace
}  // namespace hologram::test

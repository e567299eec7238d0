// tests/atlas/forms_test.cpp: text and binary forms, and the verifier, of block programs.
#include "atlas/container.h"
#include "atlas/programs.h"
#include "atlas/walk.h"
#include "base/error.h"
#include "support/refusal.h"
#include "support/test.h"

namespace hologram::test {
namespace {

Program gather_program() {
  Program p;
  p.num_symbols = 2;
  p.buffers = {{DType::bf16, atlas::Access::read, sym(0) * Expr(12)},
               {DType::i64, atlas::Access::read, sym(1)},
               {DType::f32, atlas::Access::write, sym(1) * Expr(12)}};
  p.loop().axes = {{atlas::AxisKind::parallel, sym(1)}, {atlas::AxisKind::parallel, Expr(12)}};
  p.loop().parallel_rank = 2;
  p.loop().lane_axis = 1;
  p.loop().stages.resize(1);
  p.loop().stages[0].kind = atlas::StageKind::point;
  BodyBuilder b(p.loop().stages[0].body);
  Expr i = Expr::axis(0, sym(1)), j = Expr::axis(1, Expr(12));
  Val k = b.clamp_index(b.load(1, DType::i64, i), sym(0));
  Val x = b.load(0, DType::bf16, Expr::value(static_cast<int>(k.id), sym(0)) * Expr(12) + j);
  Val in_pad = b.lt(b.index(mod(j + Expr(5), Expr(7)) + min(i, floor_div(sym(0), Expr(3)))), b.integer(DType::i64, 4));
  b.store(2, i * Expr(12) + j, b.op(Op::gelu, b.cast(x, DType::f32)), in_pad);
  return p;
}

std::vector<Program> examples() {
  std::vector<Program> list = {
      elementwise(Op::fma, DType::f64, 3, DType::f64),
      elementwise(Op::le, DType::u16, 2, DType::b8),
      row_reduction(Op::reduce_sum, DType::f32),
      row_reduction(Op::reduce_argmax, DType::i32),
      row_reduction(Op::reduce_prod, DType::f64, true),
      batched_product(DType::bf16, DType::f32, DType::bf16),
      biased_attention(DType::f32, true),
      biased_attention(DType::f16, false),
      attention_gradients(DType::f32),
      attention_gradients(DType::bf16),
      gather_program(),
      row_order(DType::f32, false),
      row_order(DType::i16, true),
      row_scan(Op::reduce_sum, DType::f32),
      product_with_tail(),
  };
  Program packed = packed_product();
  packed.product().precision = 1;
  list.insert(list.end(), {packed, summing_attention(DType::f64), packed_product(4)});
  packed.product().panel_group = 2;
  packed.buffers[1].extent = sym(0) * ceil_div(sym(2), 16) * ceil_div(sym(3), 2) * Expr(32);
  list.push_back(packed);
  packed.product().reproducible = false;
  packed.product().terms = 3;
  packed.buffers.push_back({DType::u32, atlas::Access::read, sym(0) * ceil_div(sym(2), 16) * ceil_div(sym(3), 32) * Expr(768)});
  packed.product().packed_rhs = 3;
  list.push_back(packed);
  Program serial = row_reduction(Op::reduce_max, DType::f32);
  atlas::Stage s;
  s.kind = atlas::StageKind::serial_row;
  s.running = {{Op::reduce_max, DType::f32}, {Op::reduce_sum, DType::i64}};
  BodyBuilder b(s.body);
  b.accumulate(Op::reduce_max, 1, b.number(DType::f32, -0.5));
  b.accumulate(Op::reduce_sum, 2, b.index(Expr::axis(1, sym(1)) * Expr(-3) + Expr(2)));
  serial.loop().stages.insert(serial.loop().stages.begin() + 1, s);
  list.push_back(serial);
  Program arg = row_reduction(Op::reduce_argmin, DType::f32);
  BodyBuilder pos(arg.loop().stages[0].body);
  arg.loop().stages[0].reductions[0].position = pos.index(Expr::axis(1, sym(1)) * Expr(2)).id;
  list.push_back(arg);
  Program table = elementwise(Op::neg, DType::i32, 1, DType::i32);
  BodyBuilder entries(table.loop().stages[0].body);
  Val found = entries.lookup(DType::f32, {0, DType::i32}, {0x3f800000, 7, 0, 0xff800000});
  entries.lookup(DType::i32, entries.bitcast(found, DType::i32), {1, 0xffffffff});
  list.push_back(table);
  return list;
}

void expect_round_trips(const Program& p) {
  const std::string text = disassemble(p), bytes = encode(p);
  EXPECT_EQ(atlas::assemble(text), p) << text;
  EXPECT_EQ(disassemble(atlas::assemble(text)), text);
  EXPECT_EQ(atlas::decode(bytes), p) << text;
  EXPECT_EQ(encode(atlas::decode(bytes)), bytes);
  EXPECT_EQ(fingerprint(atlas::decode(bytes)), fingerprint(p));
}

TEST(Forms, ProgramsRoundTripAsTheyAreAndExpanded) {
  for (Program p : examples()) {
    expect_round_trips(p);
    atlas::expand_math(p);
    EXPECT_NO_THROW(verify(p));
    expect_round_trips(p);
    std::string before = encode(p);
    atlas::expand_math(p);
    EXPECT_EQ(encode(p), before);  // idempotent
  }
}

TEST(Forms, FingerprintsTellProgramsApart) {
  std::vector<Fingerprint> seen;
  for (const Program& p : examples()) {
    EXPECT_EQ(std::count(seen.begin(), seen.end(), fingerprint(p)), 0);
    seen.push_back(fingerprint(p));
  }
}

TEST(Forms, EveryDamagedByteIsCorrupt) {
  std::string good = encode(gather_program());
  for (size_t k = 0; k < good.size(); ++k) {
    std::string bad = good;
    bad[k] = static_cast<char>(bad[k] ^ 0x41);
    ASSERT_NE(refusal([&] { atlas::decode(bad); }, ErrorCode::corrupt), "") << "byte " << k;
    ASSERT_THROW(atlas::decode(good.substr(0, k)), Error) << k;
  }
  EXPECT_THROW(atlas::decode(good + "x"), Error);
}

// Past the checksum: damaged payloads give a program or Error(corrupt), and what they give can be verified or refused.
TEST(Forms, DamagedPayloadsAreReadOrCorrupt) {
  std::mt19937 gen(11);
  int read = 0, refused = 0;
  for (const Program& p : examples()) {
    std::string sealed = encode(p);
    std::string payload(atlas::unseal(atlas::Layer::block, sealed));
    for (int k = 0; k < 400; ++k) {
      std::string bad = payload;
      bad[gen() % bad.size()] = static_cast<char>(gen());
      if (k % 3 == 0) bad[gen() % bad.size()] = static_cast<char>(gen());
      try {
        Program q = atlas::decode(atlas::seal(atlas::Layer::block, bad));
        ++read;
        verify(q);
        EXPECT_EQ(atlas::decode(encode(q)), q);
      } catch (const Error& e) {
        ++refused;
        ASSERT_TRUE(e.code() == ErrorCode::corrupt || e.code() == ErrorCode::invalid_argument) << e.what();
      }
    }
  }
  EXPECT_GT(read, 100);
  EXPECT_GT(refused, 100);
}

std::string assemble_error(std::string_view text) {
  return refusal([&] { atlas::assemble(text); });
}

TEST(Forms, AssemblerSaysWhere) {
  EXPECT_EQ(assemble_error("atlas block 2\n"), "line 1, column 14: expected version 1");
  EXPECT_EQ(assemble_error("atlas block 1\nsymbols 1\nbuffer b0 f31 read [s0]\n"), "line 3, column 14: unknown element type \"f31\"");
  std::string head = "atlas block 1\nsymbols 1\nbuffer b0 f32 read [s0]\nloop parallel 1\naxis i0 parallel [s0]\n";
  EXPECT_EQ(assemble_error(head + "stage point\n  %1 = load.f32 b0[i0]\n"), "line 7, column 5: expected %0 here");
  EXPECT_EQ(assemble_error(head + "stage point\n  %0 = load.f32 b0[i1]\n"), "line 7, column 23: unknown i1");
  EXPECT_EQ(assemble_error(head + "stage point\n  %0 = lod.f32 b0[i0]\n"), "line 7, column 11: unknown operation \"lod\"");
  EXPECT_EQ(assemble_error(head + "stage point\n  %0 = load.f32 b0[v0]\n"), "line 7, column 23: unknown v0");
  EXPECT_EQ(assemble_error(head + "stage point\n  %0 = load.f32 b0[i0] 5\n"), "line 7, column 24: expected the end of the line");
  EXPECT_NE(assemble_error(head + "stage point\n  %0 = load.f32 b0[" + std::string(9000, '(')), "");
  EXPECT_NE(assemble_error(head + "stage point\n  %0 = load.f32 b0[" + std::string(70, '(') + "1" + std::string(70, ')') + "]"), "");
  EXPECT_NE(assemble_error(""), "");
}

TEST(Forms, CommentsAndBlankLines) {
  Program p = row_reduction(Op::reduce_sum, DType::f32);
  std::string text = disassemble(p);
  std::string loose = "; a sum\n\n";
  for (char c : text) loose += c == '\n' ? std::string("  ; note\n\n") : std::string(1, c);
  EXPECT_EQ(atlas::assemble(loose), p);
}

std::string verify_error(const Program& p) {
  return refusal([&] { verify(p); });
}

std::string verify_text(const std::string& body, const std::string& header = "") {
  return verify_error(
      atlas::assemble("atlas block 1\nsymbols 1\nbuffer b0 f32 read [s0]\nbuffer b1 f32 write [8]\nbuffer b2 i64 read [s0]\n" +
                      (header.empty() ? "loop parallel 1\naxis i0 parallel [8]\naxis i1 row [s0]\nstage row\n" : header) + body));
}

TEST(Verify, AcceptsTheExamples) {
  for (const Program& p : examples()) EXPECT_EQ(verify_error(p), "") << disassemble(p);
}

TEST(Verify, NamesTheFault) {
  const std::pair<std::string, std::string> faults[] = {
      {"%0 = add.f32 %0, %0\n", "%0 (arithmetic): %0 is not an earlier value"},
      {"%0 = load.f64 b0[i1]\n", "%0 (load): f64 access to buffer b0 of f32"},
      {"%0 = load.f32 b1[i0]\n", "%0 (load): buffer b1 may not be read"},
      {"%0 = load.f32 b0[i1]\nstore.f32 b0[i1], %0\n", "%1 (store): buffer b0 may not be written"},
      {"%0 = load.f32 b9[i1]\n", "%0 (load): unknown buffer b9"},
      {"%0 = load.f32 b0[i1]\n%1 = load.i64 b2[i1]\n%2 = add.f32 %0, %1\n", "%2 (arithmetic): operand 2 is i64; expected f32"},
      {"%0 = load.f32 b0[i1]\n%1 = add.f32 %0\n", "%1 (arithmetic): operand 2 is missing"},
      {"%0 = load.f32 b0[i1]\n%1 = neg.f32 %0, %0\n", "%1 (arithmetic): a superfluous operand"},
      {"%0 = load.f32 b0[i1]\n%1 = bit_and.f32 %0, %0\n", "%1 (arithmetic): no bit_and on f32"},
      {"%0 = constant.u8 0x100\n", "%0 (constant): 0x100 does not fit u8"},
      {"%0 = constant.b8 0x2\n", "%0 (constant): a b8 is 0 or 1"},
      {"%0 = index [s1]\n", "%0 (index): unknown symbol s1"},
      {"%0 = accumulator.f32 a0\n", "%0 (accumulator): a0 is no earlier result"},
      {"%0 = load.i64 b2[i1]\n%1 = accumulate.reduce_sum.i64 a0, %0\n", "%1 (accumulate): a0 is no running accumulator of this stage"},
      {"%0 = load.f32 b0[i1]\nreduce a0 = reduce_sum.f64 %0\n", "a0: %0 is f32; expected f64"},
      {"%0 = load.f32 b0[i1]\nreduce a0 = add.f32 %0\n", "a0: no such reduction"},
      {"%0 = bitcast.f64.f32 %0\n", "%0 (arithmetic): no bitcast from f32 to f64"},
      {"%0 = constant.i32 0x1\n%1 = lookup.f32 %0, 1, 2, 3\n", "%1 (lookup): no table of 3 f32"},
      {"%0 = constant.i32 0x1\n%1 = lookup.f64 %0, 1, 2\n", "%1 (lookup): no table of 2 f64"},
      {"%0 = constant.i32 0x1\n%1 = lookup.i32 %0, 1, 0x100000000\n", "%1 (lookup): 0x100000000 does not fit i32"},
      {"%0 = load.f32 b0[i1]\n%1 = lookup.f32 %0, 1, 2\n", "%1 (lookup): operand 1 is f32; expected i32"}};
  for (const auto& [body, fault] : faults) EXPECT_EQ(verify_text(body), "stage 0, " + fault);
  EXPECT_EQ(verify_text("", "loop parallel 2\naxis i0 parallel [8]\naxis i1 row [s0]\n"), "axis i1: parallel axes come first");
  EXPECT_EQ(verify_text("%0 = index [i1]\n", "loop parallel 1\naxis i0 parallel [8]\naxis i1 row [s0]\nstage point\n"),
            "stage 0, %0 (index): axis i1 is not visible here");
}

TEST(Verify, AnAbsentOperandUsesNoUnknownSymbolEither) {
  Program p = batched_product(DType::f32, DType::f32, DType::f32);
  BodyBuilder(p.product().image).index(Expr::symbol(4));
  EXPECT_EQ(verify_error(p), "program: unknown symbol s4");
}

TEST(Verify, ATailIsOfTheProductsRows) {
  auto refused = [](const std::function<void(Program&)>& edit) {
    Program p = product_with_tail();
    edit(p);
    return verify_error(p);
  };
  EXPECT_EQ(refused([](Program&) {}), "");
  EXPECT_EQ(refused([](Program& p) { p.nest().axes[2].extent = sym(3); }),
            "tail: the axes are not those of the product's rows and columns");
  EXPECT_EQ(refused([](Program& p) { p.nest().lane_axis = 1; }), "tail: lane axis 1; expected the row axis, or -1");
  EXPECT_EQ(refused([](Program& p) {
              Expr& at = p.nest().stages[0].body.instrs[0].expr;
              at = at - Expr::axis(2, sym(2));
            }),
            "tail: it uses b2 elsewhere than where the epilogue stored");
  EXPECT_EQ(refused([](Program& p) {
              p.buffers[0].access = atlas::Access::read_write;
              p.nest().stages[1].body.instrs.back().buffer = 0;
            }),
            "tail: it stores b0, which the product reads");
  EXPECT_EQ(refused([](Program& p) {
              p.buffers.push_back({DType::f32, atlas::Access::scratch, Expr(20000)});
            }),
            "tail: 80000 bytes of scratch; expected at most 65536");
  EXPECT_EQ(refused([](Program& p) { p.buffers.push_back({DType::f32, atlas::Access::scratch, sym(2)}); }), "tail: scratch of s2 elements");
  EXPECT_EQ(refused([](Program& p) { p.nest().stages[1].body.instrs.back().buffer = 9; }), "stage 1, %3 (store): unknown buffer b9");
}

TEST(Verify, ProvesBounds) {
  std::string load = "%0 = load.f32 b0[i1]\n";
  EXPECT_EQ(verify_text(load + "store.f32 b1[i0], %0\n"), "");
  EXPECT_EQ(verify_text(load + "store.f32 b1[i0 + 1], %0\n"),
            "stage 0, %1 (store): offset i0 + 1 reaches 8, outside buffer b1, which has 8 elements");
  EXPECT_EQ(verify_text(load + "store.f32 b1[i0 + 8], %0\n"),
            "stage 0, %1 (store): offset i0 + 8 is outside buffer b1, which has 8 elements");
  EXPECT_EQ(verify_text(load + "store.f32 b1[i0 - 8], %0\n"), "stage 0, %1 (store): offset i0 - 8 is negative");
  EXPECT_EQ(verify_text("%0 = load.f32 b0[i1 + s0]\n"), "stage 0, %0 (load): offset s0 + i1 is outside buffer b0, which has s0 elements");
  // Not provable either way, guarded, or never executed: accepted.
  EXPECT_EQ(verify_text("%0 = load.f32 b0[i0]\n"), "");
  EXPECT_EQ(verify_text("%0 = constant.b8 0x0\n%1 = load.f32 b0[i1 + s0] if %0\n"), "");
  EXPECT_EQ(verify_text("%0 = load.f32 b0[i1 + s0]\n", "loop parallel 1\naxis i0 parallel [0]\naxis i1 row [s0]\nstage row\n"), "");
}

TEST(Verify, SurvivesHostilePrograms) {
  std::mt19937 gen(5);
  int refused = 0;
  const std::function<void(atlas::Instr&)> changes[] = {
      [&](auto& i) { i.code = static_cast<atlas::Code>(gen() % 256); },
      [&](auto& i) { i.op = static_cast<Op>(gen() % 256); },
      [&](auto& i) { i.type = static_cast<DType>(gen() % 256); },
      [&](auto& i) { i.from = static_cast<DType>(gen() % 256); },
      [&](auto& i) { i.args[gen() % 3] = static_cast<uint32_t>(gen()); },
      [&](auto& i) { i.buffer = static_cast<int>(gen()); },
      [&](auto& i) { i.expr = Expr::value(static_cast<int>(gen() % 9), Expr(3)) * Expr::axis(7, Expr(2)); }};
  for (const Program& good : examples())
    for (int k = 0; k < 300; ++k) {
      Program p = good;
      atlas::for_each_stage(p, [&](atlas::Stage& s) {
        for (atlas::Instr& i : s.body.instrs) {
          if (gen() % 8) continue;
          changes[gen() % 7](i);
        }
      });
      std::visit(
          [&](auto& block) {
            if (gen() % 4) return;
            auto rank = static_cast<int>(gen());
            if constexpr (requires { block.batch_rank; })
              block.batch_rank = rank;
            else
              block.parallel_rank = rank;
          },
          p.block);
      refused += verify_error(p) != "";
    }
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace hologram::test

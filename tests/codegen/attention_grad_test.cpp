// tests/codegen/attention_grad_test.cpp: compiled gradients of attention against the interpreter.
#include <limits>
#include <sstream>

#include "codegen/differential.h"

namespace hologram::test {
namespace {

enum class Score { plain, bias, keep, window, cap };

struct Case {
  int64_t batch, members, queries, keys, depth, width;
  bool causal = false;
  Score score = Score::plain;
  DType dtype = DType::f32;
  bool symbolic = false;      // queries and keys
  bool heads_inside = false;  // [batch, sequence, heads, depth] in memory
  bool dq = true, dk = true, dv = true;
};

constexpr int lse_buffer = 4, bias_buffer = 6;

atlas::Program make_program(const Case& c) {
  Expr m = c.symbolic ? Expr::symbol(0) : Expr(c.queries),
       n = c.symbolic ? Expr::symbol(1) : Expr(c.keys);
  DType acc = compute_type(c.dtype);
  atlas::Program p;
  p.num_symbols = c.symbolic ? 2 : 0;
  constexpr int64_t kv_heads = 2;
  Expr rows = Expr(c.batch * kv_heads * c.members) * m, keys = Expr(c.batch * kv_heads) * n;
  p.buffers = {{c.dtype, Access::read, rows * c.depth},
               {c.dtype, Access::read, keys * c.depth},
               {c.dtype, Access::read, keys * c.width},
               {c.dtype, Access::read, rows * c.width},
               {acc, Access::read, rows},
               {acc, Access::read, rows},
               {c.score == Score::keep ? DType::b8 : acc, Access::read, Expr(c.batch) * m * n},
               {c.dtype, Access::write, rows * c.depth},
               {c.dtype, Access::write, keys * c.depth},
               {c.dtype, Access::write, keys * c.width}};
  atlas::AttentionGradBlock& a = p.block.emplace<atlas::AttentionGradBlock>();
  a.batch_rank = 2;
  for (const Expr& e :
       {Expr(c.batch), Expr(kv_heads), Expr(c.members), m, n, Expr(c.depth), Expr(c.width)})
    a.axes.push_back({a.axes.size() < 2 ? AxisKind::parallel : AxisKind::row, e});
  auto axis = [&](int k) { return Expr::axis(k, a.axes[static_cast<size_t>(k)].extent); };
  a.operand_type = c.dtype;
  a.scale = 1 / std::sqrt(static_cast<double>(c.depth));
  a.causal = c.causal;
  Expr b = axis(0), kv = axis(1), h = kv * c.members + axis(2), i = axis(3), j = axis(4);
  Expr heads(kv_heads * c.members);
  auto place = [&](const Expr& head, const Expr& s, const Expr& d, const Expr& count,
                   const Expr& length, int64_t size) {
    return c.heads_inside ? ((b * length + s) * count + head) * size + d
                          : ((b * count + head) * length + s) * size + d;
  };
  Expr q_at = place(h, i, axis(5), heads, m, c.depth),
       g_at = place(h, i, axis(6), heads, m, c.width);
  Expr k_at = place(kv, j, axis(5), kv_heads, n, c.depth),
       v_at = place(kv, j, axis(6), kv_heads, n, c.width);
  Expr row = (b * heads + h) * m + i;
  auto read = [](atlas::Body& body, int buffer, DType t, const Expr& at) {
    BodyBuilder w(body);
    w.finish(w.load(buffer, t, at));
  };
  read(a.q, 0, c.dtype, q_at);
  read(a.k, 1, c.dtype, k_at);
  read(a.v, 2, c.dtype, v_at);
  read(a.g, 3, c.dtype, g_at);
  read(a.lse, lse_buffer, acc, row);
  read(a.delta, 5, acc, row);
  auto write = [&](atlas::Body& body, int buffer, const Expr& at) {
    BodyBuilder w(body);
    w.store(buffer, at, w.cast(w.accumulator(0, acc), c.dtype));
  };
  if (c.dq) write(a.dq, 7, q_at);
  if (c.dk) write(a.dk, 8, k_at);
  if (c.dv) write(a.dv, 9, v_at);
  if (c.score == Score::plain) return p;
  BodyBuilder s(a.score);
  Val x = s.accumulator(0, acc), lowest = s.number(acc, -INFINITY);
  Expr bias = (b * m + i) * n + j;
  if (c.score == Score::bias) x = s.add(x, s.load(bias_buffer, acc, bias));
  if (c.score == Score::keep) x = s.select(s.load(bias_buffer, DType::b8, bias), x, lowest);
  if (c.score == Score::window)  // the 40 keys before and the 10 behind
    x = s.select(s.op(ir::Op::bit_and, s.le(s.index(j), s.index(i + Expr(10))),
                      s.lt(s.index(i - Expr(40)), s.index(j))),
                 x, lowest);
  if (c.score == Score::cap) {
    x = s.mul(s.number(acc, 2), s.op(ir::Op::tanh, s.div(x, s.number(acc, 2))));
    BodyBuilder w(a.slope);
    Val t = w.op(ir::Op::tanh, w.div(w.accumulator(0, acc), w.number(acc, 2)));
    w.finish(w.sub(w.number(acc, 1), w.mul(t, t)));
  }
  s.finish(x);
  return p;
}

void check(const Case& c, std::vector<int64_t> chunks = {0}) {
  std::ostringstream name;
  name << c.members << " members " << c.queries << " queries " << c.keys << " keys " << c.depth
       << "->" << c.width << (c.causal ? " causal" : "") << " score " << static_cast<int>(c.score)
       << ' ' << name_of(c.dtype) << (c.symbolic ? " symbolic" : "") << c.dq << c.dk << c.dv;
  SCOPED_TRACE(name.str());
  Inputs inputs;
  if (c.symbolic) inputs.symbols = {c.queries, c.keys};
  inputs.specials = 0;
  inputs.chunks = std::move(chunks);
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
// 80 columns are two panels and one vector: 128 keys are six tiles of 21 or 22, 48 queries two of
// 24.
TEST(AttentionGrad, tiles_are_no_wider_than_the_columns) {
  cpu::Target target = cpu::generic_target(cpu::Isa::avx512);
  std::string text = cpu::dump_asm(make_program({1, 1, 96, 128, 80, 80}), target);
  for (const char* tile : {"tile_21x1:", "tile_22x1:", "tile_24x1:"})
    EXPECT_NE(text.find(tile), std::string::npos) << tile;
}
#endif

TEST(AttentionGrad, heads_that_share_keys) {
  check({1, 3, 50, 131, 16, 24});
  check({2, 2, 20, 30, 16, 16, true});
}

TEST(AttentionGrad, heads_between_sequence_and_depth) {
  check({.batch = 2,
         .members = 1,
         .queries = 40,
         .keys = 50,
         .depth = 32,
         .width = 32,
         .heads_inside = true});
}

TEST(AttentionGrad, scores) {
  for (Score s : {Score::bias, Score::keep, Score::window, Score::cap})
    check({.batch = 1,
           .members = 1,
           .queries = 150,
           .keys = 140,
           .depth = 16,
           .width = 16,
           .score = s});
  for (int64_t queries : {30, 150})
    check({.batch = 1,
           .members = 1,
           .queries = queries,
           .keys = 140,
           .depth = 16,
           .width = 16,
           .causal = true});
}

// One kernel shares out the keys, the other the queries; the bits are those of the joint one.
TEST(AttentionGrad, keys_and_queries_apart) {
  for (int64_t members : {1, 2})
    for (bool queries : {false, true})
      check({.batch = 1,
             .members = members,
             .queries = 250,
             .keys = 140,
             .depth = 16,
             .width = 16,
             .causal = true,
             .dq = queries,
             .dk = !queries,
             .dv = !queries},
            {0, 1});
}

TEST(AttentionGrad, types) {
  for (DType t : {DType::bf16, DType::f16, DType::f64})
    check({.batch = 1,
           .members = 2,
           .queries = 50,
           .keys = 130,
           .depth = 24,
           .width = 24,
           .dtype = t});
}

TEST(AttentionGrad, symbolic_sizes) {
  for (auto [m, n] : {std::pair<int64_t, int64_t>{1, 1}, {49, 150}})
    for (int64_t members : {1, 2})
      check({.batch = 1,
             .members = members,
             .queries = m,
             .keys = n,
             .depth = 16,
             .width = 16,
             .score = Score::bias,
             .symbolic = true});
  check({.batch = 1,
         .members = 2,
         .queries = 200,
         .keys = 20,
         .depth = 16,
         .width = 16,
         .symbolic = true,
         .dk = false,
         .dv = false});
}

TEST(AttentionGrad, no_keys_or_queries) {
  check({1, 1, 0, 5, 8, 8});
  check({1, 1, 5, 0, 8, 8});
}

}  // namespace
}  // namespace hologram::test

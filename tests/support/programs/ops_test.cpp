// tests/support/programs/ops_test.cpp: every exact op on every type, all pairs of special values, against the interpreter.
#include "support/differential.h"

namespace hologram::test {
namespace {

using ir::Op;
using ir::OpKind;

constexpr DType all_types[] = {DType::b8,   DType::u8,  DType::i8,  DType::i16, DType::i32, DType::i64, DType::f16,
                               DType::bf16, DType::f32, DType::f64, DType::u16, DType::u32, DType::u64};

// out[i] = op(x0[i], x1[i], x2[i]) over all combinations of special values.
struct OpTest : Points {
  BodyBuilder b;
  int64_t n;

  explicit OpTest(int64_t count) : Points({Expr(count)}), b(body()), n(count) {}
  Val input(DType t) {
    p.buffers.push_back({t, Access::read, Expr(n)});
    return b.load(static_cast<int>(p.buffers.size()) - 1, t, i[0]);
  }
  void output(Val v) {
    p.buffers.push_back({v.type, Access::write, Expr(n)});
    b.store(static_cast<int>(p.buffers.size()) - 1, i[0], v);
  }
};

void put(char* to, DType t, int64_t index, uint64_t bits) {
  auto size = static_cast<size_t>(size_of(t));
  std::memcpy(to + static_cast<size_t>(index) * size, &bits, size);
}

TEST(Ops, EveryExactOpOnEveryType) {
  for (int n = 0; n < ir::num_ops; ++n) {
    Op op = static_cast<Op>(n);
    const ir::OpInfo& row = ir::info(op);
    if (!ir::is_elementwise(op) || !(row.flags & ir::exact) || row.kind == OpKind::cast) continue;
    for (DType t : all_types) {
      if (!atlas::may_compute(op, t)) continue;
      SCOPED_TRACE(std::string(row.name) + " " + std::string(name_of(t)));
      std::vector<DType> types(static_cast<size_t>(row.arity), t);
      if (row.kind == OpKind::select) types[0] = DType::b8;
      std::vector<std::vector<uint64_t>> values;
      int64_t count = 1;
      for (DType x : types) {
        values.push_back(special_values(x));
        if (row.arity == 3 && values.back().size() > 20) {  // keep the cube small, with its ends
          auto& v = values.back();
          for (size_t k = 0; k < v.size() / 2; ++k) v[k] = v[2 * k];
          v.resize(v.size() / 2);
        }
        count *= static_cast<int64_t>(values.back().size());
      }
      count += 5;  // a tail
      OpTest test(count);
      std::vector<Val> args;
      for (DType x : types) args.push_back(test.input(x));
      Val r = row.arity == 1   ? test.b.op(op, args[0])
              : row.arity == 2 ? test.b.op(op, args[0], args[1])
                               : test.b.op(op, args[0], args[1], args[2]);
      test.output(r);
      expect_same(test.p, {.prepare = [&](int buffer, char* to, int64_t elements) {
                    auto k = static_cast<size_t>(buffer);
                    if (k >= values.size()) return;
                    int64_t stride = 1;
                    for (size_t j = 0; j < k; ++j) stride *= static_cast<int64_t>(values[j].size());
                    for (int64_t e = 0; e < elements; ++e)
                      put(to, types[k], e, values[k][static_cast<size_t>(e / stride) % values[k].size()]);
                  }});
    }
  }
}

// A constant operand may take shorter instructions.
TEST(Ops, MaximaAndMinimaWithConstants) {
  for (DType type : {DType::f32, DType::f64}) {
    std::vector<uint64_t> values = special_values(type);
    OpTest t(static_cast<int64_t>(values.size()) + 21);
    Val x = t.input(type);
    for (double constant : {0.0, -0.0, 6.0, -1.0, std::nan("")})
      for (Op op : {Op::max, Op::min, Op::maxnum, Op::minnum}) {
        Val c = t.b.constant(type, ir::bits_of(type, constant));
        t.output(t.b.op(op, x, c));
        t.output(t.b.op(op, c, x));
      }
    expect_same(t.p, {.prepare = [&](int buffer, char* to, int64_t elements) {
                  for (int64_t e = 0; buffer == 0 && e < elements; ++e) put(to, type, e, values[static_cast<size_t>(e) % values.size()]);
                }});
  }
}

// Tables of every size, looked up by vectors and by single lanes; an index beyond the table wraps.
TEST(Ops, Lookups) {
  for (int64_t n : {1, 5, 8, 1003}) {
    SCOPED_TRACE(n);
    OpTest t(n);
    Val x = t.input(DType::i32);
    for (size_t entries = 2; entries <= 16; entries *= 2) {
      std::vector<uint64_t> table;
      for (size_t k = 0; k < entries; ++k) table.push_back(0x3f000000 + 0x10001 * (k * k + 1));
      t.output(t.b.lookup(DType::f32, x, table));
      t.output(t.b.lookup(DType::i32, x, table));
    }
    expect_same(t.p);
  }
}

TEST(Ops, LookupsBesideOtherWidths) {
  OpTest t(333);
  Val x = t.input(DType::i32);
  Val y = t.b.lookup(DType::f32, x, {0x3f800000, 0x40000000, 0xc0000000, 0, 1, 2, 3, 4});
  t.output(t.b.add(t.b.cast(y, DType::f64), t.input(DType::f64)));
  t.output(t.b.cast(y, DType::bf16));
  expect_same(t.p);
}

TEST(Ops, FunctionsThatLookUp) {
  for (int64_t n : {1, 1003}) {
    OpTest t(n);
    Val x = t.input(DType::f32), y = t.b.cast(t.input(DType::bf16), DType::f32);
    for (Op op : {Op::gelu, Op::erfinv}) t.output(t.b.op(op, x));
    for (Op op : {Op::sin, Op::cos}) t.output(t.b.cast(t.b.op(op, y), DType::bf16));
    expect_same(t.p);
  }
}

TEST(Ops, EveryConversion) {
  for (Op how : {Op::cast, Op::cast_wrap, Op::bitcast})
    for (DType from : all_types)
      for (DType to : all_types) {
        if (from == to || !atlas::may_cast(how, from, to)) continue;
        SCOPED_TRACE(std::string(ir::name_of(how)) + " " + std::string(name_of(from)) + " to " + std::string(name_of(to)));
        bool small = size_of(from) <= 2 && from != DType::b8;
        auto values = special_values(from);
        if (small) {
          values.clear();
          for (uint64_t x = 0; x < (uint64_t{1} << (8 * size_of(from))); ++x) values.push_back(x);
        }
        OpTest test(small ? static_cast<int64_t>(values.size()) : 1000);
        test.output(test.b.cast(test.input(from), to, how));
        Inputs inputs{.specials = 6};
        inputs.prepare = [&](int buffer, char* data, int64_t) {
          if (buffer != 0) return;
          for (size_t e = 0; e < values.size(); ++e) put(data, from, static_cast<int64_t>(e), values[e]);
        };
        expect_same(test.p, inputs);
      }
}

TEST(Ops, RoundingToHalfTypesOnRandomBits) {
  for (DType to : {DType::f16, DType::bf16}) {
    OpTest test(100000);
    test.output(test.b.cast(test.input(DType::f32), to));
    expect_same(test.p, {.prepare = [](int buffer, char* data, int64_t n) {
                  std::mt19937 random(7);
                  if (buffer == 0)
                    for (int64_t e = 0; e < n; ++e) put(data, DType::f32, e, e % 2 ? random() : (random() & 0x0fffffff) | 0x30000000);
                }});
  }
}

TEST(Ops, FmodAndFmaOnRandomBits) {
  for (DType t : {DType::f32, DType::f64}) {
    OpTest test(20000);
    Val x = test.input(t), y = test.input(t), z = test.input(t);
    test.output(test.b.op(Op::rem, x, y));
    test.output(test.b.fma(x, y, z));
    expect_same(test.p, {.prepare = [&](int buffer, char* data, int64_t n) {
                  std::mt19937_64 random(static_cast<uint64_t>(buffer));
                  if (buffer < 3)
                    for (int64_t e = 0; e < n; ++e) {
                      uint64_t bits = random();
                      if (e % 3 == 0)
                        bits = ir::bits_of(t, std::ldexp(std::normal_distribution<double>()(random), static_cast<int>(bits % 40)));
                      put(data, t, e, bits);
                    }
                }});
  }
}

}  // namespace
}  // namespace hologram::test

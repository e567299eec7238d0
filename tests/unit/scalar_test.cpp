// tests/unit/scalar_test.cpp: exact scalar arithmetic against the interpreter's loops, and in known places.
#include "ir/scalar.h"

#include <atomic>

#include "interp/interp.h"
#include "support/differential.h"
#include "support/test.h"

namespace hologram::ir {
namespace {

uint64_t cast_of(DType from, uint64_t bits, DType to) { return eval_scalar(Op::cast, from, std::span(&bits, 1), to); }

constexpr DType types[] = {DType::b8,   DType::u8,  DType::i8,  DType::i16, DType::i32, DType::i64, DType::f16,
                           DType::bf16, DType::f32, DType::f64, DType::u16, DType::u32, DType::u64};

// What stands at i of operand k of so many: all pairs of bytes, all of two bytes, else special values beside each other, numbers of like
// size and any bits.
uint64_t operand(DType t, size_t k, size_t operands, size_t i, const std::vector<uint64_t>& special, std::mt19937_64& random) {
  const uint64_t any = random(), mask = t == DType::b8 ? 1 : ~uint64_t{0} >> (64 - 8 * size_of(t));
  if (size_of(t) == 1 && k < 2) return (i >> (8 * k)) & mask;
  if (size_of(t) == 2 && operands == 1) return i;
  if (i % 4 == 3) return any & mask;
  if (i % 4 == 1)
    return is_float(t) ? bits_of(t, std::ldexp(static_cast<double>(any >> 32) - 0x1p31, static_cast<int>(any % 70) - 70)) : any & 63;
  for (i /= 2; k > 0; --k) i /= special.size();
  return special[i % special.size()];
}

// The interpreter's loops have arithmetic of their own, which tests/codegen holds against the machine's.
void expect_the_interpreters(Op op, const std::vector<DType>& from, DType to, bool casts) {
  SCOPED_TRACE(testing::Message() << name_of(op) << " of " << name_of(from.back()) << " to " << name_of(to));
  std::mt19937_64 random(7);
  const size_t count = size_of(from.back()) * static_cast<int>(from.size()) <= 2 ? 1 << 16 : 1 << 14;
  const Expr extent(static_cast<int64_t>(count));
  test::Points points({extent});
  atlas::BodyBuilder b = points.body();
  std::vector<std::vector<char>> memory;
  std::vector<atlas::Val> args;
  std::vector<std::array<uint64_t, 3>> given(count);
  for (size_t k = 0; k < from.size(); ++k) {
    const auto size = static_cast<size_t>(size_of(from[k]));
    const std::vector<uint64_t> special = test::special_values(from[k]);
    points.p.buffers.push_back({from[k], atlas::Access::read, extent});
    args.push_back(b.load(static_cast<int>(k), from[k], points.i[0]));
    memory.emplace_back(size * count);
    for (size_t i = 0; i < count; ++i) {
      given[i][k] = operand(from[k], k, from.size(), i, special, random);
      std::memcpy(&memory.back()[i * size], &given[i][k], size);
    }
  }
  const atlas::Val r = casts              ? b.cast(args[0], to, op)
                       : args.size() == 1 ? b.op(op, args[0])
                       : args.size() == 2 ? b.op(op, args[0], args[1])
                                          : b.op(op, args[0], args[1], args[2]);
  const auto size = static_cast<size_t>(size_of(r.type));
  points.p.buffers.push_back({r.type, atlas::Access::write, extent});
  b.store(static_cast<int>(from.size()), points.i[0], r);
  memory.emplace_back(size * count);
  std::vector<void*> buffers;
  for (auto& m : memory) buffers.push_back(m.data());
  std::atomic<int32_t> sticky{0};
  interp::run(points.p, buffers.data(), nullptr, &sticky);
  bool error = false;
  for (size_t i = 0; i < count; ++i) {
    uint64_t got = eval_scalar(op, from.back(), std::span(given[i].data(), from.size()), r.type, &error);
    ASSERT_TRUE(test::same(r.type, reinterpret_cast<const char*>(&got), &memory.back()[i * size]))
        << std::hex << given[i][0] << " " << given[i][1] << " " << given[i][2] << " gives " << got;
  }
  EXPECT_EQ(error, sticky.load() != 0);
}

TEST(Scalar, EveryExactOperationIsTheInterpreters) {
  for (int i = 0; i < num_ops; ++i) {
    const Op op = static_cast<Op>(i);
    if (!is_elementwise(op) || !(info(op).flags & exact) || info(op).kind == OpKind::cast) continue;
    for (DType t : types) {
      std::vector<DType> from(static_cast<size_t>(info(op).arity), t);
      if (info(op).kind == OpKind::select) from[0] = DType::b8;
      if (atlas::may_compute(op, t)) expect_the_interpreters(op, from, t, false);
    }
  }
  for (Op how : {Op::cast, Op::cast_wrap, Op::bitcast})
    for (DType from : types)
      for (DType to : types)
        if (from != to && atlas::may_cast(how, from, to)) expect_the_interpreters(how, {from}, to, true);
}

TEST(Scalar, CastSaturates) {
  auto cast = [](double x, DType to) { return as_integer(to, cast_of(DType::f64, bits_of(DType::f64, x), to)); };
  EXPECT_EQ(cast(1e30, DType::i32), 2147483647);
  EXPECT_EQ(cast(-1e30, DType::i32), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(cast(NAN, DType::i32), 0);
  EXPECT_EQ(cast(-1.9, DType::u8), 0);
  EXPECT_EQ(cast(255.9, DType::u8), 255);
  EXPECT_EQ(cast(256, DType::u8), 255);
  EXPECT_EQ(cast(-128.9, DType::i8), -128);
  EXPECT_EQ(cast(9.3e18, DType::i64), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(static_cast<uint64_t>(cast(1.9e19, DType::u64)), ~uint64_t{0});
  EXPECT_EQ(cast_of(DType::f32, 0x7fc00000u, DType::b8), 1u) << "NaN is not zero";
  EXPECT_EQ(cast_of(DType::f32, 0x80000000u, DType::b8), 0u);
  EXPECT_EQ(cast_of(DType::i32, 0xffffffffu, DType::u8), 255u) << "integers wrap";
  EXPECT_EQ(cast_of(DType::i8, 0xff, DType::i64), ~uint64_t{0});
}

TEST(Scalar, ConversionsToHalvesGoThroughFloat32) {
  // Measured on PyTorch 2.15: both round to 1, though the nearest float16 is larger.
  EXPECT_EQ(bits_of(DType::f16, 1 + 0x1p-11 + 0x1p-30), 0x3c00u);
  EXPECT_EQ(cast_of(DType::f64, bits_of(DType::f64, 1 + 0x1p-8 + 0x1p-30), DType::bf16), 0x3f80u);
  EXPECT_EQ(as_double(DType::bf16, cast_of(DType::i64, (1 << 24) + (1 << 16) + 1, DType::bf16)), 16777216.0);
}

TEST(Scalar, IntegersOfNumbersSaturateAndRound) {
  EXPECT_EQ(as_integer(DType::i8, bits_of(DType::i8, 2.5)), 2);
  EXPECT_EQ(as_integer(DType::i8, bits_of(DType::i8, 1000)), 127);
  EXPECT_EQ(as_integer(DType::i8, bits_of_integer(DType::i8, -1000)), -128);
  EXPECT_EQ(bits_of_integer(DType::u16, -1), 0u);
  EXPECT_EQ(bits_of_integer(DType::u64, -1), 0u);
  EXPECT_EQ(as_double(DType::f32, bits_of_integer(DType::f32, 16777217)), 16777216.0);
}

}  // namespace
}  // namespace hologram::ir

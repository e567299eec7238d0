// atlas/lane_ops.cpp: lane instructions in terms of the op table.
#include "atlas/lane_ops.h"

namespace hologram::atlas {
namespace {

using ir::Op;

DType unsigned_of(DType t) {
  switch (t) {
    case DType::i8:
      return DType::u8;
    case DType::i16:
      return DType::u16;
    case DType::i32:
      return DType::u32;
    case DType::i64:
      return DType::u64;
    default:
      return t;
  }
}

}  // namespace

Op scalar_op(LaneOp op) {
  switch (op) {
    case LaneOp::add:
      return Op::add;
    case LaneOp::sub:
      return Op::sub;
    case LaneOp::mul:
      return Op::mul;
    case LaneOp::div:
      return Op::div;
    case LaneOp::min:
    case LaneOp::reduce_min:
      return Op::minnum;
    case LaneOp::max:
    case LaneOp::reduce_max:
      return Op::maxnum;
    case LaneOp::abs:
      return Op::abs;
    case LaneOp::neg:
      return Op::neg;
    case LaneOp::and_:
      return Op::bit_and;
    case LaneOp::or_:
      return Op::bit_or;
    case LaneOp::xor_:
      return Op::bit_xor;
    case LaneOp::not_:
      return Op::bit_not;
    case LaneOp::shl:
      return Op::shl;
    case LaneOp::shr:
      return Op::shr;
    case LaneOp::fma:
      return Op::fma;
    case LaneOp::reduce_mul:
      return Op::mul;
    case LaneOp::exp:
      return Op::exp;
    case LaneOp::log:
      return Op::log;
    case LaneOp::log2:
      return Op::log2;
    case LaneOp::log10:
      return Op::log10;
    case LaneOp::sqrt:
      return Op::sqrt;
    case LaneOp::rsqrt:
      return Op::rsqrt;
    case LaneOp::sin:
      return Op::sin;
    case LaneOp::cos:
      return Op::cos;
    case LaneOp::tan:
      return Op::tan;
    case LaneOp::tanh:
      return Op::tanh;
    case LaneOp::sigmoid:
      return Op::sigmoid;
    case LaneOp::reduce_add:
      return Op::add;
    default:
      fail(ErrorCode::internal, "lanes: {} is no arithmetic", info(op).mnemonic);
  }
}

Op identity_op(LaneOp reduction) {
  switch (reduction) {
    case LaneOp::reduce_add:
      return Op::reduce_sum;
    case LaneOp::reduce_mul:
      return Op::reduce_prod;
    case LaneOp::reduce_min:
      return Op::reduce_min;
    default:
      return Op::reduce_max;
  }
}

Comparison comparison(Compare c, DType type) {
  if (c >= Compare::ltu) {
    type = unsigned_of(type);
    c = static_cast<Compare>(static_cast<int>(c) - static_cast<int>(Compare::ltu) +
                             static_cast<int>(Compare::lt));
  }
  switch (c) {
    case Compare::eq:
      return {Op::eq, type, false};
    case Compare::ne:
      return {Op::ne, type, false};
    case Compare::lt:
      return {Op::lt, type, false};
    case Compare::le:
      return {Op::le, type, false};
    case Compare::gt:
      return {Op::lt, type, true};
    default:
      return {Op::le, type, true};
  }
}

}  // namespace hologram::atlas

// canon/cast.cpp: rules on conversions.
#include "canon/terms.h"

namespace hologram::canon {
namespace {

using namespace pattern;  // NOLINT(google-build-using-namespace): words of the tables

// Bits of magnitude that an integer type needs and a float type holds exactly.
int digits(DType t) {
  switch (t) {
    case DType::b8:
      return 1;
    case DType::f16:
      return 11;
    case DType::bf16:
      return 8;
    case DType::f32:
      return 24;
    case DType::f64:
      return 53;
    default:
      return 8 * size_of(t) - is_signed_int(t);
  }
}

// Every value of `from` is a value of `to`.
bool lossless(DType from, DType to) {
  if (from == to) return true;
  if (is_float(from)) return to == DType::f64 || (to == DType::f32 && from != DType::f64);
  if (to == DType::b8) return false;
  if (is_signed_int(from) && !is_signed_int(to) && !is_float(to)) return false;
  return digits(from) <= digits(to);
}

Result merge_casts(Terms& t, const Match& m) {
  DType from = m[0]->dtype, mid = m.root->input()->dtype, to = m.root->dtype;
  bool keep_low_bits = is_int(from) && is_int(mid) && is_int(to) && size_of(to) <= size_of(mid);
  // An integer read back from a float saturates where the direct conversion wraps.
  bool saturates = is_int(from) && is_float(mid) && is_int(to) && !lossless(from, to);
  if (!keep_low_bits && (!lossless(from, mid) || saturates)) return std::nullopt;
  return t.graph.cast(m[0], to, m.root->op);
}

// Rounding to a narrow float and back: the promise of the narrow type is given up.
Result drop_narrowing(Terms& t, const Match& m) {
  DType from = m[0]->dtype, mid = m.root->input()->dtype, to = m.root->dtype;
  if (!is_float(from) || !is_float(mid) || !is_float(to)) return std::nullopt;
  return size_of(mid) < size_of(from) && size_of(mid) < size_of(to) ? Result(t.graph.cast(m[0], to))
                                                                    : std::nullopt;
}

// Not there and back: so a graph says that a value is to be computed again, not read.
Result merge_bitcasts(Terms& t, const Match& m) {
  if (m[0]->dtype == m.root->dtype) return std::nullopt;
  return t.graph.cast(m[0], m.root->dtype, Op::bitcast);
}

// The coordinate converted is the coordinate in the other type, where the first type held it.
Result cast_iota(Terms& t, const Match& m) {
  Value i = m.root->input();
  DType from = i->dtype, to = m.root->dtype;
  if (!is_int(from) || to == DType::b8) return std::nullopt;
  const Expr& n = i->shape[static_cast<size_t>(i->attrs.ints[0])];
  bool fits =
      digits(from) >= 63 || (n.is_const() && n.constant_value() <= int64_t{1} << digits(from));
  if (!fits) return std::nullopt;
  return t.graph.iota(to, i->shape, static_cast<int>(i->attrs.ints[0]));
}

}  // namespace

std::vector<Rule> cast_rules() {
  return {
      {"cast_cast", cast(cast(x)), merge_casts},
      {"cast_cast", cast_wrap(cast(x)), merge_casts},
      {"cast_back", cast(cast(x)), drop_narrowing, only_fast},
      {"bitcast_bitcast", bitcast(bitcast(x)), merge_bitcasts},
      {"cast_iota", cast(iota()), cast_iota},
  };
}

}  // namespace hologram::canon

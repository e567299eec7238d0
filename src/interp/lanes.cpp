// interp/lanes.cpp: index expressions, memory access and control of bodies on batches.
#include "interp/lanes.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "atlas/abi.h"
#include "base/error.h"

namespace hologram::interp {
namespace {

using atlas::Code;
using atlas::Instr;

int64_t floor_div_value(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return static_cast<int64_t>(0 - static_cast<uint64_t>(a));
  int64_t q = a / b;
  return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}

int64_t mod_value(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return 0;
  int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

int64_t apply(Atom::Kind kind, int64_t x, int64_t y) {
  switch (kind) {
    case Atom::Kind::floor_div:
      return floor_div_value(x, y);
    case Atom::Kind::mod:
      return mod_value(x, y);
    case Atom::Kind::min:
      return std::min(x, y);
    default:
      return std::max(x, y);
  }
}

// out[l] *= atom
void multiply_atom(const Atom& a, const Frame& frame, const uint64_t* values, int n,
                   uint64_t* out) {
  using K = Atom::Kind;
  auto id = static_cast<size_t>(a.id);
  if (a.kind == K::symbol) {
    check(id < frame.symbols.size(), "interp: unknown symbol");
    auto s = static_cast<uint64_t>(frame.symbols[id]);
    for (int l = 0; l < n; ++l) out[l] *= s;
  } else if (a.kind == K::axis) {
    check(id < frame.axes.size(), "interp: unknown axis");
    const auto& x = frame.axes[id];
    for (int l = 0; l < n; ++l) out[l] *= static_cast<uint64_t>(x[static_cast<size_t>(l)]);
  } else if (a.kind == K::value) {
    check(values != nullptr, "interp: a body value outside its body");
    const uint64_t* x = values + id * lanes;
    for (int l = 0; l < n; ++l) out[l] *= x[l];
  } else {
    Lanes<int64_t> x, y;
    eval_lanes(*a.a, frame, values, n, x.data());
    eval_lanes(*a.b, frame, values, n, y.data());
    for (int l = 0; l < n; ++l) {
      auto k = static_cast<size_t>(l);
      out[l] *= static_cast<uint64_t>(apply(a.kind, x[k], y[k]));
    }
  }
}

uint64_t load_bits(const Memory& m, int64_t at) {
  switch (size_of(m.dtype)) {
    case 1:
      return static_cast<uint8_t>(m.base[at]);
    case 2: {
      uint16_t x;
      std::memcpy(&x, m.base + at * 2, 2);
      return x;
    }
    case 4: {
      uint32_t x;
      std::memcpy(&x, m.base + at * 4, 4);
      return x;
    }
    default: {
      uint64_t x;
      std::memcpy(&x, m.base + at * 8, 8);
      return x;
    }
  }
}

void store_bits(const Memory& m, int64_t at, uint64_t bits) {
  auto size = static_cast<size_t>(size_of(m.dtype));
  std::memcpy(m.base + at * static_cast<int64_t>(size), &bits, size);  // little-endian hosts
}

void check_bounds(const Memory& m, int buffer, int64_t at) {
  if (at < 0 || at >= m.extent)
    fail(ErrorCode::internal, "interp: element {} of buffer b{}, which has {}", at, buffer,
         m.extent);
}

}  // namespace

void eval_lanes(const Expr& e, const Frame& frame, const uint64_t* values, int n, int64_t* out) {
  std::fill_n(out, n, e.constant());
  Lanes<uint64_t> product;
  for (const Term& t : e.terms()) {
    std::fill_n(product.data(), n, static_cast<uint64_t>(t.coefficient));
    for (const AtomRef& a : t.atoms) multiply_atom(*a, frame, values, n, product.data());
    for (int l = 0; l < n; ++l)
      out[l] =
          static_cast<int64_t>(static_cast<uint64_t>(out[l]) + product[static_cast<size_t>(l)]);
  }
}

int64_t eval_uniform(const Expr& e, const Frame& frame) {
  int64_t out;
  eval_lanes(e, frame, nullptr, 1, &out);
  return out;
}

BodyRunner::BodyRunner(const atlas::Body& body) : body_(body), values_(body.instrs.size() * lanes) {
  for (size_t k = 0; k < body.instrs.size(); ++k)
    if (body.instrs[k].code == Code::constant)
      std::fill_n(values_.data() + k * lanes, lanes, body.instrs[k].bits);
}

void BodyRunner::run(Frame& frame, int n) {
  uint64_t* out = values_.data();
  for (const Instr& i : body_.instrs) {
    step(i, frame, n, out);
    out += lanes;
  }
}

void BodyRunner::step(const Instr& i, Frame& frame, int n, uint64_t* out) {
  auto arg = [&](size_t k) -> const uint64_t* {
    return i.args[k] == atlas::no_value ? nullptr : value(i.args[k]);
  };
  Lanes<int64_t> at;
  switch (i.code) {
    case Code::constant:
      break;
    case Code::index:
      eval_lanes(i.expr, frame, values_.data(), n, at.data());
      for (int l = 0; l < n; ++l) out[l] = static_cast<uint64_t>(at[static_cast<size_t>(l)]);
      break;
    case Code::clamp_index: {
      eval_lanes(i.expr, frame, values_.data(), n, at.data());
      const uint64_t* x = arg(0);
      for (int l = 0; l < n; ++l) {
        int64_t extent = at[static_cast<size_t>(l)], k = static_cast<int64_t>(x[l]);
        if (k < 0 || k >= extent) {
          frame.sticky |= atlas::index_out_of_range;
          k = 0;
        }
        out[l] = static_cast<uint64_t>(k);
      }
      break;
    }
    case Code::load: {
      eval_lanes(i.expr, frame, values_.data(), n, at.data());
      const Memory& m = frame.memory[static_cast<size_t>(i.buffer)];
      const uint64_t* guard = arg(0);
      for (int l = 0; l < n; ++l) {
        int64_t k = at[static_cast<size_t>(l)];
        if (guard && !guard[l]) {
          out[l] = 0;
          continue;
        }
        check_bounds(m, i.buffer, k);
        out[l] = load_bits(m, k);
      }
      break;
    }
    case Code::store: {
      eval_lanes(i.expr, frame, values_.data(), n, at.data());
      const Memory& m = frame.memory[static_cast<size_t>(i.buffer)];
      const uint64_t *x = arg(0), *guard = arg(1);
      for (int l = 0; l < n; ++l) {
        if (guard && !guard[l]) continue;
        int64_t k = at[static_cast<size_t>(l)];
        check_bounds(m, i.buffer, k);
        store_bits(m, k, x[l]);
      }
      break;
    }
    case Code::arithmetic: {
      bool error = false;
      arithmetic(i, arg(0), arg(1), arg(2), out, n, &error);
      if (error) frame.sticky |= atlas::integer_division_by_zero;
      break;
    }
    case Code::accumulator:
      if (frame.element && (i.buffer == 0 || frame.part_stride != 0))
        std::copy_n(frame.element + i.buffer * frame.part_stride, n, out);
      else
        std::fill_n(out, n, frame.accumulators[static_cast<size_t>(i.buffer)]);
      break;
    case Code::accumulate: {
      if (frame.scan)
        return scan(i.op, i.type, &frame.carries[static_cast<size_t>(i.buffer)], arg(0), out, n);
      uint64_t& running = frame.accumulators[static_cast<size_t>(i.buffer)];
      const uint64_t* x = arg(0);
      for (int l = 0; l < n; ++l) out[l] = running = combine(i.op, i.type, running, x[l]);
      break;
    }
    case Code::lookup: {
      const uint64_t* x = arg(0);
      for (int l = 0; l < n; ++l) out[l] = i.table[x[l] & (i.table.size() - 1)];
      break;
    }
  }
}

Walk::Walk(std::vector<int64_t> extents, int first) : extents_(std::move(extents)), first_(first) {
  for (int64_t e : extents_) {
    if (e <= 0) {
      total_ = 0;
      return;
    }
    require(!__builtin_mul_overflow(total_, e, &total_),
            "interp: the iteration space overflows 64 bits");
  }
}

void Walk::coordinates(Frame& frame, int64_t begin, int n) const {
  int64_t rest = begin;
  for (size_t k = extents_.size(); k-- > 0;) {
    frame.axes[static_cast<size_t>(first_) + k][0] = rest % extents_[k];
    rest /= extents_[k];
  }
  for (size_t l = 1; l < static_cast<size_t>(n); ++l) {
    bool carry = true;
    for (size_t k = extents_.size(); k-- > 0;) {
      auto& axis = frame.axes[static_cast<size_t>(first_) + k];
      axis[l] = axis[l - 1];
      if (carry) {
        carry = ++axis[l] == extents_[k];
        if (carry) axis[l] = 0;
      }
    }
  }
}

}  // namespace hologram::interp

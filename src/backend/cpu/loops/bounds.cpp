// backend/cpu/loops/bounds.cpp: what is known of values: exponents no larger than 0, short NaN.
#include "backend/cpu/loops/bounds.h"

#include <algorithm>

#include "backend/cpu/loops/plan.h"

namespace hologram::cpu {
namespace {

using atlas::Body;
using atlas::Code;
using atlas::Instr;
using atlas::ValueId;

class Bounds {
 public:
  explicit Bounds(atlas::Program& p) : p_(p), stages_(p.nest().stages) {}

  void run() {
    for (size_t n = 0; n < stages_.size(); ++n)
      for (Instr& i : stages_[n].body.instrs)
        if (i.code == Code::arithmetic && i.op == ir::Op::exp && at_most_zero(n, i.args[0]))
          i.bits = 1;
  }

 private:
  // Whether value `id` of stage `n` is v - max(v), which is at most 0 or NaN however it is rounded.
  bool at_most_zero(size_t n, ValueId id) {
    const Body& body = stages_[n].body;
    const Instr& x = body.instrs[id];
    if (x.code != Code::arithmetic || x.op != ir::Op::sub) return false;
    const Instr& maximum = body.instrs[x.args[1]];
    if (maximum.code != Code::accumulator) return false;
    int number = maximum.buffer;
    for (size_t m = 0; m < n; ++m) {
      const auto& reductions = stages_[m].reductions;
      if (number < static_cast<int>(reductions.size())) {
        const atlas::Reduction& r = reductions[static_cast<size_t>(number)];
        left_ = most_compared;
        return r.op == ir::Op::reduce_max && r.type == x.type &&
               same(body, x.args[0], stages_[m].body, r.value);
      }
      number -= static_cast<int>(reductions.size() + stages_[m].running.size());
    }
    return false;
  }

  // Whether two values are computed alike, from memory that nothing writes.
  bool same(const Body& one, ValueId a, const Body& other, ValueId b) {
    if (a == atlas::no_value || b == atlas::no_value) return a == b;
    Instr x = one.instrs[a], y = other.instrs[b];
    const bool pure = x.code == Code::constant || x.code == Code::arithmetic ||
                      x.code == Code::index || x.code == Code::lookup ||
                      (x.code == Code::load && read_only(x.buffer));
    if (!pure || --left_ < 0 ||
        x.expr.any_atom([](const Atom& atom) { return atom.kind == Atom::Kind::value; }))
      return false;
    const auto operands = x.args, others = y.args;
    x.args = y.args = {};
    if (!(x == y)) return false;
    for (size_t k = 0; k < operands.size(); ++k)
      if (!same(one, operands[k], other, others[k])) return false;
    return true;
  }
  bool read_only(int buffer) const {
    return p_.buffers[static_cast<size_t>(buffer)].access == atlas::Access::read;
  }

  static constexpr int most_compared = 64;  // shared operands are compared once for each use
  atlas::Program& p_;
  std::vector<atlas::Stage>& stages_;
  int left_ = 0;
};

// Which values have a low half of 0 whenever they are NaN (float32), or always (32-bit integers).
class LowNan {
 public:
  explicit LowNan(atlas::Program& p) : p_(p) {}

  void run() {
    if (p_.kind() == atlas::BlockKind::product) mark(p_.product().epilogue);
    if (p_.kind() != atlas::BlockKind::loop && !p_.has_tail()) return;
    for (atlas::Stage& s : p_.nest().stages) {
      mark(s.body);
      for (const atlas::Reduction& r : s.reductions)
        accumulators_.push_back(r.type == DType::f32 && ir::info(r.op).kind == ir::OpKind::reduce &&
                                low_[r.value]);
      accumulators_.resize(accumulators_.size() + s.running.size());
    }
  }

 private:
  void mark(Body& body) {
    low_.clear();
    const bool rounded = std::ranges::any_of(body.instrs, rounds);
    const std::vector<bool> once = computed_once(body);
    for (Instr& i : body.instrs) {
      const bool comes = i.type == DType::f32 &&
                         (i.code == Code::load ||
                          (i.code == Code::arithmetic && ir::info(i.op).kind == ir::OpKind::cast));
      low_.push_back(known(body, i));
      if (rounded && comes && once[low_.size() - 1] && !low_.back()) {
        i.bits = 1;
        low_.back() = true;
      }
      if (rounds(i) && low_[i.args[0]]) i.bits = 1;
    }
  }

  static bool rounds(const Instr& i) {
    return i.code == Code::arithmetic && i.op == ir::Op::cast && i.from == DType::f32 &&
           i.type == DType::bf16;
  }

  bool known(const Body& body, const Instr& i) const {
    constexpr uint64_t low_half = 0xffff;
    if (i.type != DType::f32 && i.type != DType::i32 && i.type != DType::u32) return false;
    if (i.code == Code::constant) return (i.bits & low_half) == 0 || !is_nan(i);
    if (i.code == Code::accumulator)
      return static_cast<size_t>(i.buffer) < accumulators_.size() &&
             accumulators_[static_cast<size_t>(i.buffer)];
    if (i.code != Code::arithmetic || ir::info(i.op).kind == ir::OpKind::compare) return false;
    auto all = [&](size_t from) {
      return std::ranges::all_of(i.args.begin() + static_cast<std::ptrdiff_t>(from), i.args.end(),
                                 [&](ValueId a) { return a == atlas::no_value || low_[a]; });
    };
    switch (i.op) {
      case ir::Op::cast:
        return i.type == DType::f32 && (i.from == DType::bf16 || !is_float(i.from));
      case ir::Op::bitcast:
        return !is_float(i.from) && all(0);
      case ir::Op::bit_or:
      case ir::Op::bit_xor:
        return all(0);
      case ir::Op::bit_and:
        return low_[i.args[0]] || low_[i.args[1]];
      case ir::Op::shl: {
        const Instr& by = body.instrs[i.args[1]];
        return by.code == Code::constant && by.bits >= 16;
      }
      case ir::Op::select:
        return all(1);
      case ir::Op::neg:
      case ir::Op::abs:
      case ir::Op::sign:
      case ir::Op::floor:
      case ir::Op::ceil:
      case ir::Op::trunc:
      case ir::Op::round:
      case ir::Op::sqrt:
      case ir::Op::exp:
      case ir::Op::add:
      case ir::Op::sub:
      case ir::Op::mul:
      case ir::Op::div:
      case ir::Op::min:
      case ir::Op::max:
      case ir::Op::minnum:
      case ir::Op::maxnum:
      case ir::Op::copysign:
      case ir::Op::fma:
        return i.type == DType::f32 && all(0);
      default:
        return false;
    }
  }
  // A float32 constant.
  static bool is_nan(const Instr& i) {
    return i.type != DType::f32 || (i.bits & 0x7fffffff) > 0x7f800000;
  }

  atlas::Program& p_;
  std::vector<bool> low_;           ///< of the body's values
  std::vector<bool> accumulators_;  ///< of those of the stages before it
};

}  // namespace

void mark_low_nan(atlas::Program& program) { LowNan(program).run(); }

void mark_bounded(atlas::Program& program) {
  if (program.kind() == atlas::BlockKind::loop || program.has_tail()) Bounds(program).run();
}

}  // namespace hologram::cpu

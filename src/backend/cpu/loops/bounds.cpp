// backend/cpu/loops/bounds.cpp: exponentials whose arguments are known to be no larger than 0.
#include "backend/cpu/loops/bounds.h"

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

}  // namespace

void mark_bounded(atlas::Program& program) {
  if (program.kind() == atlas::BlockKind::loop || program.has_tail()) Bounds(program).run();
}

}  // namespace hologram::cpu

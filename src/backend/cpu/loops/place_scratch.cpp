// backend/cpu/loops/place_scratch.cpp: row scratch that can live where the row's result goes.
#include "backend/cpu/loops/place_scratch.h"

#include <algorithm>

namespace hologram::cpu {
namespace {

using atlas::Access;
using atlas::Buffer;
using atlas::Code;
using atlas::Instr;

struct Use {
  size_t stage, at;
  Instr* instr;
};

class Placement {
 public:
  explicit Placement(atlas::Program& p) : p_(p), loop_(p.loop()) {}

  void run() {
    // Along rows only: lanes that are points of their own interleave their scratch.
    if (loop_.lane_axis != static_cast<int>(loop_.axes.size()) - 1) return;
    for (size_t s = 0; s < p_.buffers.size(); ++s)
      if (p_.buffers[s].access == Access::scratch)
        for (size_t o = 0; o < p_.buffers.size() && !move(s, o);) ++o;
    drop_unused();
  }

 private:
  std::vector<Use> uses(size_t buffer) {
    std::vector<Use> found;
    for (size_t n = 0; n < loop_.stages.size(); ++n) {
      auto& instrs = loop_.stages[n].body.instrs;
      for (size_t i = 0; i < instrs.size(); ++i)
        if ((instrs[i].code == Code::load || instrs[i].code == Code::store) &&
            static_cast<size_t>(instrs[i].buffer) == buffer)
          found.push_back({n, i, &instrs[i]});
    }
    return found;
  }

  // Moves scratch buffer s into output o if element by element the output is written after the
  // last use of the scratch.
  bool move(size_t s, size_t o) {
    Buffer &scratch = p_.buffers[s], &output = p_.buffers[o];
    if (output.access != Access::write || output.dtype != scratch.dtype) return false;
    std::vector<Use> kept = uses(s), written = uses(o);
    if (written.size() != 1 || kept.size() < 2) return false;
    const Use result = written[0];
    const Expr& at = kept[0].instr->expr;
    Expr from = result.instr->expr - at;
    if (result.instr->args[1] != atlas::no_value || reads_row(from) || !covers_row(at))
      return false;
    for (const Use& u : kept) {
      bool first = u.at == kept[0].at && u.stage == kept[0].stage;
      if ((u.instr->code == Code::store) != first || !(u.instr->expr == at) ||
          (first ? u.instr->args[1] : u.instr->args[0]) != atlas::no_value)
        return false;
      if (u.stage > result.stage || (u.stage == result.stage && (first || u.at > result.at)))
        return false;
    }
    for (const Use& u : kept) {
      u.instr->buffer = static_cast<decltype(u.instr->buffer)>(o);
      u.instr->expr = result.instr->expr;
    }
    output.access = Access::read_write;
    return true;
  }

  bool reads_row(const Expr& e) const {
    return e.any_atom([&](const Atom& a) {
      return a.kind == Atom::Kind::value ||
             (a.kind == Atom::Kind::axis && a.id >= loop_.parallel_rank);
    });
  }

  // Whether `e` numbers the elements of the row.
  bool covers_row(const Expr& e) const {
    Expr position(0);
    for (size_t a = static_cast<size_t>(loop_.parallel_rank); a < loop_.axes.size(); ++a)
      position =
          position * loop_.axes[a].extent + Expr::axis(static_cast<int>(a), loop_.axes[a].extent);
    return e == position;
  }

  void drop_unused() {
    for (size_t s = p_.buffers.size(); s-- > 0;) {
      if (p_.buffers[s].access != Access::scratch || !uses(s).empty()) continue;
      p_.buffers.erase(p_.buffers.begin() + static_cast<ptrdiff_t>(s));
      for (atlas::Stage& stage : loop_.stages)
        for (Instr& i : stage.body.instrs)
          if ((i.code == Code::load || i.code == Code::store) && static_cast<size_t>(i.buffer) > s)
            --i.buffer;
    }
  }

  atlas::Program& p_;
  atlas::LoopBlock& loop_;
};

}  // namespace

void place_scratch(atlas::Program& program) {
  if (program.kind() == atlas::BlockKind::loop) Placement(program).run();
}

}  // namespace hologram::cpu

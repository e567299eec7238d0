// atlas/symbols.cpp: a program's own numbering of the symbols it uses.
#include <map>
#include <optional>

#include "atlas/walk.h"

namespace hologram::atlas {
namespace {

class Numbering {
 public:
  void run(Program& p) {
    for (Buffer& b : p.buffers) rename(b.extent, nullptr);
    std::visit(
        [&](auto& block) {
          if constexpr (requires { block.tail; }) axes(block.tail.axes);  // the block's own, again
          axes(block.axes);
        },
        p.block);
    for_each_body(p, [&](Body& body) {
      for (Instr& i : body.instrs) rename(i.expr, &body);
    });
    p.num_symbols = static_cast<int>(used_.size());
  }

  std::vector<Expr> take() { return std::move(used_); }

 private:
  void axes(std::vector<Axis>& list) {
    axes_.clear();
    for (Axis& a : list) {
      rename(a.extent, nullptr);
      axes_.push_back(Expr::axis(static_cast<int>(axes_.size()), a.extent));
    }
  }

  // `body`: the one that e stands in, its earlier expressions renamed.
  void rename(Expr& e, const Body* body) {
    if (e.is_const()) return;
    e = e.substitute([&](const Atom& a) -> std::optional<Expr> {
      auto id = static_cast<size_t>(a.id);
      if (a.kind == Atom::Kind::symbol) {
        auto [it, added] = number_.emplace(a.id, static_cast<int>(used_.size()));
        if (added) used_.push_back(Expr::symbol(a.id));
        return Expr::symbol(it->second);
      }
      if (a.kind == Atom::Kind::axis && id < axes_.size()) return axes_[id];
      if (a.kind == Atom::Kind::value && body && id < body->instrs.size())
        return Expr::value(a.id, body->instrs[id].expr);
      return std::nullopt;
    });
  }

  std::vector<Expr> used_;
  std::map<int, int> number_;
  std::vector<Expr> axes_;  ///< the block's, of renamed extents
};

}  // namespace

std::vector<Expr> number_symbols(Program& program) {
  Numbering n;
  n.run(program);
  return n.take();
}

}  // namespace hologram::atlas

// sigmatics/words.cpp: operational meaning of expressions.
#include <algorithm>

#include "sigmatics/expression.h"

namespace hologram::sigmatics {
namespace {

using Kind = Expression::Kind;

Shifts sum(const Shifts& a, const Shifts& b) {
  return {a.r + b.r, a.d + b.d, a.t + b.t, a.mirror != b.mirror};
}

// Whether stating sums at every level describes the composition, as the reference implementation
// computes it: it takes a level without ~ that lies in two or more levels with an even number of ~
// for a mirror.
bool sums_hold(const Expression& e, const Shifts& sums, const Transform& exact, int depth) {
  if (e.kind == Kind::op) return true;
  if (e.kind != Kind::prefix)
    return std::all_of(e.items.begin(), e.items.end(),
                       [&](const Expression& x) { return sums_hold(x, sums, exact, depth); });
  if (depth >= 2 && !sums.mirror && !e.shifts.mirror) return false;
  Shifts all = sum(sums, e.shifts);
  Transform inside = compose(exact, e.shifts.transform());
  return all.transform() == inside && sums_hold(e.items[0], all, inside, depth + 1);
}

void mark_level(const Shifts& s, std::string_view arrow, std::vector<std::string>& out) {
  if (s.r) out.push_back(fmt::format("{}ρ[{}]", arrow, s.r));
  if (s.d) out.push_back(fmt::format("{}δ[{}]", arrow, Transform::of(0, s.d, 0, false).d));
  if (s.t) out.push_back(fmt::format("{}τ[{}]", arrow, s.t));
  if (s.mirror) out.push_back(fmt::format("{}μ", arrow));
}

void enter_exactly(const Shifts& s, std::vector<std::string>& out) {
  if (s.mirror) out.push_back("→μ");
  if (s.t) out.push_back(fmt::format("→τ[{}]", s.t));
  if (s.d) out.push_back(fmt::format("→δ[{}]", s.d));
  if (s.r) out.push_back(fmt::format("→ρ[{}]", s.r));
}

void leave_exactly(const Shifts& s, std::vector<std::string>& out) {
  if (s.r) out.push_back(fmt::format("←ρ[{}]", -s.r));
  if (s.d) out.push_back(fmt::format("←δ[{}]", -s.d));
  if (s.t) out.push_back(fmt::format("←τ[{}]", -s.t));
  if (s.mirror) out.push_back("←μ");
}

enum class Style : uint8_t { sums, levels, exact };

class Emitter {
 public:
  explicit Emitter(Style style) : style_(style) {}

  std::vector<std::string> run(const Expression& e) {
    emit(e, {}, {});
    return std::move(out_);
  }

 private:
  void emit(const Expression& e, const Shifts& sums, const Transform& exact) {
    switch (e.kind) {
      case Kind::op:
        return operation(e.generator, parts_of(compose(exact, e.shifts.transform())(e.cls)));
      case Kind::sequence:
        for (size_t k = e.items.size(); k-- > 0;) emit(e.items[k], sums, exact);
        return;
      case Kind::parallel:
        out_.push_back("⊗_begin");
        for (size_t k = 0; k < e.items.size(); ++k) {
          if (k) out_.push_back("⊗_sep");
          emit(e.items[k], sums, exact);
        }
        out_.push_back("⊗_end");
        return;
      default: {
        Shifts all = sum(sums, e.shifts);
        const Shifts& stated = style_ == Style::sums ? all : e.shifts;
        bool exactly = style_ == Style::exact;
        exactly ? enter_exactly(stated, out_) : mark_level(stated, "→", out_);
        emit(e.items[0], all, compose(exact, e.shifts.transform()));
        exactly ? leave_exactly(stated, out_) : mark_level(stated, "←", out_);
      }
    }
  }

  void operation(Generator g, const Parts& p) {
    switch (g) {
      case Generator::copy:
      case Generator::merge:
        return out_.push_back(fmt::format("{}[d={}]", name_of(g), p.d));
      case Generator::split:
      case Generator::quote:
        return out_.push_back(fmt::format("{}[ℓ={}]", name_of(g), p.l));
      case Generator::evaluate:
        out_.push_back(fmt::format("phase[h₂={}]", p.h2));
        [[fallthrough]];
      default:
        out_.emplace_back(name_of(g));
    }
  }

  Style style_;
  std::vector<std::string> out_;
};

}  // namespace

std::vector<std::string> words(const Expression& e) {
  return Emitter(sums_hold(e, {}, {}, 0) ? Style::sums : Style::levels).run(e);
}

std::vector<std::string> exact_words(const Expression& e) { return Emitter(Style::exact).run(e); }

}  // namespace hologram::sigmatics

// strips/plan_body.cpp: which loops over lanes a body is.
#include <algorithm>
#include <map>

#include "strips/body.h"

namespace hologram::strips {

using atlas::Code;
using atlas::Instr;
using atlas::no_value;
using atlas::ValueId;

// Plans one body. Every instruction has a value of its number; behind them come those that are
// spread over the lanes.
class Planner {
 public:
  Planner(const atlas::Body& body, const BodyPlan::Where& where)
      : body_(body), where_(where), plan_(where.lane_axis), varies_(body.instrs.size()) {}

  std::optional<BodyPlan> run(std::span<const ValueId> kept) {
    find_needed(kept);
    for (ValueId id = 0; id < body_.instrs.size(); ++id)
      if (needed_[id] && !plan(body_.instrs[id], id)) return std::nullopt;
    plan_.kept_.assign(body_.instrs.size(), -1);
    for (ValueId id : kept) plan_.kept_[id] = spread(id);
    place(kept);
    return std::move(plan_);
  }

 private:
  using Kind = BodyPlan::Kind;
  using Step = BodyPlan::Step;
  using Sum = Indices::Sum;

  const Instr& instr(ValueId id) const { return body_.instrs[id]; }

  // A comparison of numbers that are linear along the lanes does not need them.
  static bool is_position(const Instr& i) {
    return i.type == DType::i64 && (i.code == Code::constant ||
                                    (i.code == Code::index && !i.expr.any_atom([](const Atom& a) {
                                      return a.kind == Atom::Kind::value;
                                    })));
  }
  bool is_predicate(const Instr& i) const {
    return i.code == Code::arithmetic && (i.op == ir::Op::lt || i.op == ir::Op::le) &&
           i.type == DType::i64 && is_position(instr(i.args[0])) && is_position(instr(i.args[1]));
  }

  void find_needed(std::span<const ValueId> kept) {
    needed_.assign(body_.instrs.size(), false);
    for (ValueId id : kept) needed_[id] = true;
    for (size_t k = body_.instrs.size(); k-- > 0;) {
      const Instr& i = body_.instrs[k];
      if (i.code == Code::store || i.code == Code::accumulate || i.code == Code::clamp_index)
        needed_[k] = true;
      if (!needed_[k] || is_predicate(i)) continue;
      for (ValueId a : i.args)
        if (a != no_value) needed_[a] = true;
      i.expr.any_atom([&](const Atom& a) {
        if (a.kind == Atom::Kind::value) needed_[static_cast<size_t>(a.id)] = true;
        return false;
      });
    }
  }

  bool plan(const Instr& i, ValueId id) {
    Step s{};
    s.out = static_cast<int>(id);
    s.bytes = static_cast<uint8_t>(size_of(atlas::result_type(i)));
    switch (i.code) {
      case Code::constant:
        plan_.constants_.push_back({s.out, s.bytes, {i.bits}});
        return s.bytes > 0;
      case Code::index:
        s.kind = Kind::index;
        return position(i.expr, s) && add(s, id, s.at.varies || any_varies(s));
      case Code::clamp_index:
        s.kind = Kind::clamp;
        s.args[0] = static_cast<int>(i.args[0]);
        return position(i.expr, s) && !s.at.varies && s.values.empty() &&
               add(s, id, varies_[i.args[0]]);
      case Code::load:
        return load(i, id, s);
      case Code::store:
        return store(i, id, s);
      case Code::arithmetic:
        return is_predicate(i) ? predicate(i, id, s) : compute(i, id, s);
      case Code::accumulator:
        s.kind = Kind::accumulator;
        s.number = i.buffer;
        return add(s, id, where_.lanes_accumulate);
      case Code::accumulate:
        s.kind = Kind::accumulate;
        s.number = i.buffer;
        s.function = where_.vectors.find(combining(i.op), i.type, i.type);
        if (!where_.lanes_accumulate || !s.function) return false;
        s.args[0] = spread(i.args[0]);
        return add(s, id, true);
      case Code::lookup:
        return look_up(i, id, s);
    }
    return false;
  }

  static ir::Op combining(ir::Op reduce) {
    switch (reduce) {
      case ir::Op::reduce_sum:
        return ir::Op::add;
      case ir::Op::reduce_prod:
        return ir::Op::mul;
      case ir::Op::reduce_max:
        return ir::Op::max;
      default:
        return ir::Op::min;
    }
  }

  bool add(Step& s, ValueId id, bool varies) {
    s.varies = varies;
    varies_[id] = varies;
    plan_.steps_.push_back(std::move(s));
    return true;
  }

  bool any_varies(const Step& s) const {
    return std::ranges::any_of(s.values, [](const auto& v) { return v.varies || v.factor.varies; });
  }

  // An index expression; values of the body are factors of terms.
  bool position(const Expr& e, Step& s) {
    std::vector<Term> plain;
    for (const Term& t : e.terms()) {
      auto value =
          std::ranges::find(t.atoms, Atom::Kind::value, [](const AtomRef& a) { return a->kind; });
      if (value == t.atoms.end()) {
        plain.push_back(t);
        continue;
      }
      Term rest = t;
      rest.atoms.erase(rest.atoms.begin() + (value - t.atoms.begin()));
      auto factor = plan_.indices_.sum(Expr::from_terms(0, {rest}));
      if (!factor) return false;
      const auto id = static_cast<size_t>((*value)->id);
      s.values.push_back({std::move(*factor), static_cast<int>(id), varies_[id]});
    }
    auto sum = plan_.indices_.sum(Expr::from_terms(e.constant(), std::move(plain)));
    if (!sum) return false;
    s.at = std::move(*sum);
    return true;
  }

  bool stores_to(int buffer) const {
    return std::ranges::any_of(
        body_.instrs, [&](const Instr& i) { return i.code == Code::store && i.buffer == buffer; });
  }

  bool load(const Instr& i, ValueId id, Step& s) {
    s.kind = Kind::load;
    s.number = i.buffer;
    s.truth = i.type == DType::b8;
    s.in_place = !stores_to(i.buffer);
    if (!position(i.expr, s) || s.bytes == 0) return false;
    bool varies = s.at.varies || any_varies(s);
    if (i.args[0] != no_value) {
      s.guard_varies = varies_[i.args[0]];
      varies = varies || s.guard_varies;
      s.args[0] = static_cast<int>(i.args[0]);
    }
    return add(s, id, varies);
  }

  bool store(const Instr& i, ValueId id, Step& s) {
    s.kind = Kind::store;
    s.number = i.buffer;
    s.out = -1;
    s.bytes =
        static_cast<uint8_t>(size_of(where_.program.buffers[static_cast<size_t>(i.buffer)].dtype));
    if (!position(i.expr, s) || s.bytes == 0) return false;
    bool varies = s.at.varies || any_varies(s) || varies_[i.args[0]];
    if (i.args[1] != no_value) {
      s.guard_varies = varies_[i.args[1]];
      varies = varies || s.guard_varies;
      s.args[1] = static_cast<int>(i.args[1]);
    }
    s.args[0] = varies ? spread(i.args[0]) : static_cast<int>(i.args[0]);
    return add(s, id, varies);
  }

  bool predicate(const Instr& i, ValueId id, Step& s) {
    Expr difference = expr_of(instr(i.args[1])) - expr_of(instr(i.args[0]));
    if (i.op == ir::Op::lt) difference = difference - Expr(1);
    auto sum = plan_.indices_.sum(difference);
    if (!sum) return false;
    s.kind = Kind::predicate;
    s.number = *plan_.indices_.at_least_zero(*sum);
    return add(s, id, false);
  }
  static Expr expr_of(const Instr& i) {
    return i.code == Code::constant ? Expr(static_cast<int64_t>(i.bits)) : i.expr;
  }

  bool compute(const Instr& i, ValueId id, Step& s) {
    const ir::OpInfo& row = ir::info(i.op);
    if ((row.flags & ir::exact) == 0) return false;
    const bool cast = row.kind == ir::OpKind::cast;
    s.kind = Kind::compute;
    s.function = where_.vectors.find(i.op, cast ? i.from : i.type, i.type);
    if (!s.function) {
      // Slow, but of positions and little else.
      if (row.kind == ir::OpKind::select || !is_int(cast ? i.from : i.type) || !is_int(i.type))
        return false;
      s.kind = Kind::one_by_one;
      s.op = i.op;
      s.type = cast ? i.from : i.type;
      s.to = atlas::result_type(i);
    }
    bool varies = false;
    for (ValueId a : i.args) varies = varies || (a != no_value && varies_[a]);
    const bool chosen = i.op == ir::Op::select && !varies_[i.args[0]];
    if (chosen) s.kind = Kind::choose;
    std::array<ValueId, 3> args = i.args;
    bool first_alone = chosen;
    if (i.op == ir::Op::fma && varies && varies_[args[0]] != varies_[args[1]]) {
      if (varies_[args[0]]) std::swap(args[0], args[1]);
      s.function = where_.vectors.find_scaling(i.type);
      first_alone = true;
    }
    for (size_t k = 0; k < 3; ++k)
      if (args[k] != no_value)
        s.args[k] =
            varies && !(first_alone && k == 0) ? spread(args[k]) : static_cast<int>(args[k]);
    return add(s, id, varies);
  }

  bool look_up(const Instr& i, ValueId id, Step& s) {
    s.kind = Kind::compute;
    s.function = where_.vectors.find_lookup(s.bytes);
    if (!s.function) return false;
    s.args[0] = table(s.bytes, i.table);
    s.args[1] = table(4, {i.table.size() - 1});
    s.args[2] = static_cast<int>(i.args[0]);
    return add(s, id, varies_[i.args[0]]);
  }
  int table(uint8_t bytes, std::vector<uint64_t> bits) {
    plan_.constants_.push_back({new_value(), bytes, std::move(bits)});
    return plan_.constants_.back().value;
  }

  int new_value() { return static_cast<int>(body_.instrs.size()) + extra_++; }

  // The value with one element for each lane.
  int spread(ValueId id) {
    if (varies_[id] || instr(id).code == Code::constant) return static_cast<int>(id);
    if (auto found = spread_.find(id); found != spread_.end()) return found->second;
    Step s{};
    s.kind = Kind::splat;
    s.bytes = static_cast<uint8_t>(size_of(atlas::result_type(instr(id))));
    s.varies = true;
    s.args[0] = static_cast<int>(id);
    s.out = new_value();
    plan_.steps_.push_back(s);
    return spread_[id] = s.out;
  }

  // Gives each value memory, which it shares with values that are over before.
  void place(std::span<const ValueId> kept) {
    const size_t values = body_.instrs.size() + static_cast<size_t>(extra_);
    std::vector<size_t> last(values, 0);
    auto use = [&](int value, size_t step) {
      if (value >= 0)
        last[static_cast<size_t>(value)] = std::max(last[static_cast<size_t>(value)], step);
    };
    for (ValueId id : kept) use(plan_.kept_[id], plan_.steps_.size());
    for (size_t k = plan_.steps_.size(); k-- > 0;) {
      const Step& s = plan_.steps_[k];
      // What was chosen lives where it came from.
      const size_t until =
          s.kind == Kind::choose ? std::max(k, last[static_cast<size_t>(s.out)]) : k;
      for (int a : s.args) use(a, until);
      for (const BodyPlan::Scaled& v : s.values) use(v.value, k);
    }
    plan_.homes_.assign(values, 0);
    for (const BodyPlan::Constant& c : plan_.constants_)
      plan_.homes_[static_cast<size_t>(c.value)] = take(most_lanes * 8);
    std::map<int64_t, std::vector<int64_t>> free;  // by size
    std::multimap<size_t, std::pair<int64_t, int64_t>> ends;
    for (size_t k = 0; k < plan_.steps_.size(); ++k) {
      while (!ends.empty() && ends.begin()->first < k) {
        free[ends.begin()->second.first].push_back(ends.begin()->second.second);
        ends.erase(ends.begin());
      }
      const Step& s = plan_.steps_[k];
      if (s.out < 0) continue;
      const int64_t size = s.varies ? most_lanes * s.bytes : 64;
      auto& list = free[size];
      int64_t home = list.empty() ? take(size) : list.back();
      if (!list.empty()) list.pop_back();
      plan_.homes_[static_cast<size_t>(s.out)] = home;
      ends.emplace(last[static_cast<size_t>(s.out)], std::pair{size, home});
    }
  }
  int64_t take(int64_t size) {
    const int64_t at = plan_.bytes_;
    plan_.bytes_ += (size + 63) / 64 * 64;
    return at;
  }

  const atlas::Body& body_;
  const BodyPlan::Where& where_;
  BodyPlan plan_;
  std::vector<bool> varies_, needed_;
  std::map<ValueId, int> spread_;
  int extra_ = 0;
};

std::optional<BodyPlan> BodyPlan::of(const atlas::Body& body, const Where& where,
                                     std::span<const ValueId> kept) {
  return Planner(body, where).run(kept);
}

}  // namespace hologram::strips

// atlas/verify.cpp: the verifier of block programs.
#include <algorithm>
#include <optional>
#include <set>

#include "atlas/builder.h"
#include "atlas/limits.h"
#include "atlas/walk.h"
#include "base/error.h"

namespace hologram::atlas {
namespace {

constexpr std::string_view code_names[] = {"constant",    "index",      "clamp_index",
                                           "load",        "store",      "arithmetic",
                                           "accumulator", "accumulate", "lookup"};

bool known(DType t) { return static_cast<int>(t) < num_dtypes && t != DType::host; }
bool known(ir::Op op) { return static_cast<int>(op) < ir::num_ops; }
bool known(Code c) { return static_cast<size_t>(c) < std::size(code_names); }

bool is_reduce(ir::Op op) { return known(op) && ir::info(op).kind == ir::OpKind::reduce; }
bool is_reduce_index(ir::Op op) {
  return known(op) && ir::info(op).kind == ir::OpKind::reduce_index;
}

/// Whether values of `type` can be reduced: sums and products of truth values have no meaning of
/// their own.
bool may_reduce(ir::Op op, DType type) {
  if (!known(type) || compute_type(type) != type) return false;
  bool ordered = op != ir::Op::reduce_sum && op != ir::Op::reduce_prod;
  return is_reduce_index(op) || (is_reduce(op) && (ordered || type != DType::b8));
}

/// What a body may refer to.
struct Scope {
  std::string name;
  std::vector<bool> axes;           ///< visible ones, by number
  std::vector<DType> accumulators;  ///< results that may be read
  const std::vector<std::pair<ir::Op, DType>>* running = nullptr;
  size_t first_running = 0;  ///< number of running[0]
  bool may_store = true;
};

class Verifier {
 public:
  explicit Verifier(const Program& p) : p_(p) {}

  void run() {
    require(p_.num_symbols >= 0 && p_.num_symbols <= limits::symbols,
            "program: {} symbols; expected 0 to {}", p_.num_symbols, limits::symbols);
    require(p_.buffers.size() <= limits::buffers, "program: {} buffers; expected at most {}",
            p_.buffers.size(), limits::buffers);
    for (size_t k = 0; k < p_.buffers.size(); ++k) buffer(k);
    std::visit([&](const auto& b) { block(b); }, p_.block);
    // What stands in for nothing, the body of a packed operand say, was not visited.
    for_each_expr(p_, [&](const Expr& e) { symbols(e, "program"); });
  }

 private:
  void buffer(size_t k) {
    const Buffer& b = p_.buffers[k];
    require(known(b.dtype), "buffer b{}: no element type of Atlas", k);
    require(b.access <= Access::scratch, "buffer b{}: unknown access", k);
    std::string place = fmt::format("buffer b{}", k);
    expression(b.extent, {}, place, nullptr, 0);
    require(!(b.extent.is_const() && b.extent.constant_value() < 0), "{}: extent {} is negative",
            place, b.extent.str());
  }

  void axes(const std::vector<Axis>& list, int parallel) {
    require(list.size() <= limits::axes, "{} axes; expected at most {}", list.size(), limits::axes);
    for (size_t k = 0; k < list.size(); ++k) {
      std::string place = fmt::format("axis i{}", k);
      const Expr& e = list[k].extent;
      std::vector<bool> visible(list.size(), false);
      bool row = static_cast<int>(k) >= parallel;
      if (row) std::fill_n(visible.begin(), std::max(0, parallel), true);
      expression(e, visible, place, nullptr, 0);
      require(!(e.is_const() && e.constant_value() < 0), "{}: extent {} is negative", place,
              e.str());
    }
    // Extents with the ranges that hold here, whatever the atoms claim.
    grounded_.clear();
    for (const Axis& a : list) grounded_.push_back(ground(a.extent, nullptr));
  }

  void symbols(const Expr& e, const std::string& place) {
    e.any_atom([&](const Atom& a) {
      require(a.kind != Atom::Kind::bounded, "{}: {} stands for another expression", place,
              e.str());
      require(a.kind != Atom::Kind::symbol || (a.id >= 0 && a.id < p_.num_symbols),
              "{}: unknown symbol s{}", place, a.id);
      return false;
    });
  }

  // Symbols, axes and values of an expression exist and are visible.
  void expression(const Expr& e, const std::vector<bool>& visible, const std::string& place,
                  const Body* body, size_t position) {
    symbols(e, place);
    e.any_atom([&](const Atom& a) {
      using K = Atom::Kind;
      if (a.kind == K::axis)
        require(a.id >= 0 && static_cast<size_t>(a.id) < visible.size() &&
                    visible[static_cast<size_t>(a.id)],
                "{}: axis i{} is not visible here", place, a.id);
      if (a.kind == K::value)
        require(body && a.id >= 0 && static_cast<size_t>(a.id) < position &&
                    body->instrs[static_cast<size_t>(a.id)].code == Code::clamp_index,
                "{}: v{} is not an earlier clamp_index", place, a.id);
      return false;
    });
  }

  // `e` with the extents that axes and values really have.
  Expr ground(const Expr& e, const Body* body) {
    if (e.is_const()) return e;
    return e.substitute([&](const Atom& a) -> std::optional<Expr> {
      auto id = static_cast<size_t>(a.id);
      if (a.kind == Atom::Kind::axis && id < grounded_.size())
        return Expr::axis(a.id, grounded_[id]);
      if (a.kind == Atom::Kind::value && body)
        return Expr::value(a.id, ground(body->instrs[id].expr, body));
      return std::nullopt;
    });
  }

  // Every visible axis runs at least once, so that what the body does happens.
  bool surely_runs(const Scope& s) {
    for (size_t k = 0; k < s.axes.size(); ++k)
      if (s.axes[k] && !provably_less(Expr(0), grounded_[k])) return false;
    return true;
  }

  void bounds(const Instr& i, const Body& body, const std::string& place) {
    Expr at = ground(i.expr, &body);
    const Expr& extent = p_.buffers[static_cast<size_t>(i.buffer)].extent;
    require(!provably_less(at, Expr(0)), "{}: offset {} is negative", place, i.expr.str());
    require(!provably_nonnegative(at - extent),
            "{}: offset {} is outside buffer b{}, which has {} elements", place, i.expr.str(),
            i.buffer, extent.str());
    // The largest offset of a box of axes: at its far corner when the offset grows along each axis.
    Expr corner = at;
    for (size_t k = 0; k < grounded_.size(); ++k) {
      auto parts = corner.linear_in_axis(static_cast<int>(k));
      if (!parts || !provably_nonnegative(parts->first)) return;
      corner = parts->first * (grounded_[k] - Expr(1)) + parts->second;
    }
    require(!provably_nonnegative(corner - extent),
            "{}: offset {} reaches {}, outside buffer b{}, which has {} elements", place,
            i.expr.str(), corner.str(), i.buffer, extent.str());
  }

  const Buffer& access(const Instr& i, const std::string& place, bool write) {
    require(i.buffer >= 0 && static_cast<size_t>(i.buffer) < p_.buffers.size(),
            "{}: unknown buffer b{}", place, i.buffer);
    const Buffer& b = p_.buffers[static_cast<size_t>(i.buffer)];
    require(b.access != (write ? Access::read : Access::write), "{}: buffer b{} may not be {}",
            place, i.buffer, write ? "written" : "read");
    require(b.dtype == i.type, "{}: {} access to buffer b{} of {}", place, name_of(i.type),
            i.buffer, name_of(b.dtype));
    return b;
  }

  DType type_of(const Body& body, ValueId id, size_t position, const std::string& place) {
    require(id < position, "{}: %{} is not an earlier value", place, id);
    require(body.instrs[id].code != Code::store, "{}: %{} is a store", place, id);
    return result_type(body.instrs[id]);
  }

  void operand(const Body& body, const Instr& i, size_t k, DType type, size_t position,
               const std::string& place) {
    require(i.args[k] != no_value, "{}: operand {} is missing", place, k + 1);
    DType found = type_of(body, i.args[k], position, place);
    require(found == type, "{}: operand {} is {}; expected {}", place, k + 1, name_of(found),
            name_of(type));
  }

  void guard(const Body& body, const Instr& i, size_t k, size_t position,
             const std::string& place) {
    if (i.args[k] != no_value) operand(body, i, k, DType::b8, position, place);
  }

  void no_more(const Instr& i, size_t first, const std::string& place) {
    for (size_t k = first; k < 3; ++k)
      require(i.args[k] == no_value, "{}: a superfluous operand", place);
  }

  void arithmetic(const Body& body, const Instr& i, size_t at, const std::string& place) {
    const ir::OpInfo& row = ir::info(i.op);
    if (row.kind == ir::OpKind::cast) {
      require(known(i.from) && may_cast(i.op, i.from, i.type), "{}: no {} from {} to {}", place,
              row.name, static_cast<int>(i.from) < num_dtypes ? name_of(i.from) : "?",
              name_of(i.type));
      operand(body, i, 0, i.from, at, place);
      return no_more(i, 1, place);
    }
    require(ir::is_elementwise(i.op) && may_compute(i.op, i.type), "{}: no {} on {}", place,
            row.name, name_of(i.type));
    for (size_t k = 0; k < static_cast<size_t>(row.arity); ++k)
      operand(body, i, k, k == 0 && row.kind == ir::OpKind::select ? DType::b8 : i.type, at, place);
    no_more(i, static_cast<size_t>(row.arity), place);
  }

  void instruction(const Body& body, size_t at, const Scope& s) {
    const Instr& i = body.instrs[at];
    require(known(i.code), "{}, %{}: unknown instruction", s.name, at);
    std::string place =
        fmt::format("{}, %{} ({})", s.name, at, code_names[static_cast<size_t>(i.code)]);
    require(known(i.type) && known(i.op), "{}: unknown type or operation", place);
    expression(i.expr, s.axes, place, &body, at);
    switch (i.code) {
      case Code::constant: {
        int bits = size_of(i.type) * 8;
        require(bits == 64 || i.bits >> bits == 0, "{}: {:#x} does not fit {}", place, i.bits,
                name_of(i.type));
        require(i.type != DType::b8 || i.bits < 2, "{}: a b8 is 0 or 1", place);
        return no_more(i, 0, place);
      }
      case Code::index:
        return no_more(i, 0, place);
      case Code::clamp_index:
        operand(body, i, 0, DType::i64, at, place);
        expression(i.expr, {}, place, nullptr, 0);  // a dimension: no axes, no values
        return no_more(i, 1, place);
      case Code::load:
        access(i, place, false);
        guard(body, i, 0, at, place);
        no_more(i, 1, place);
        if (i.args[0] == no_value && surely_runs(s)) bounds(i, body, place);
        return;
      case Code::store:
        require(s.may_store, "{}: nothing may be stored here", place);
        access(i, place, true);
        operand(body, i, 0, i.type, at, place);
        guard(body, i, 1, at, place);
        no_more(i, 2, place);
        if (i.args[1] == no_value && surely_runs(s)) bounds(i, body, place);
        return;
      case Code::arithmetic:
        return arithmetic(body, i, at, place);
      case Code::accumulator: {
        auto n = static_cast<size_t>(i.buffer);
        require(i.buffer >= 0 && n < s.accumulators.size(), "{}: a{} is no earlier result", place,
                i.buffer);
        require(i.type == s.accumulators[n], "{}: a{} is {}", place, i.buffer,
                name_of(s.accumulators[n]));
        return no_more(i, 0, place);
      }
      case Code::accumulate: {
        size_t n = static_cast<size_t>(i.buffer) - s.first_running;
        require(s.running && i.buffer >= 0 && n < s.running->size(),
                "{}: a{} is no running accumulator of this stage", place, i.buffer);
        require((*s.running)[n] == std::pair(i.op, i.type), "{}: a{} is {} of {}", place, i.buffer,
                ir::name_of((*s.running)[n].first), name_of((*s.running)[n].second));
        operand(body, i, 0, i.type, at, place);
        return no_more(i, 1, place);
      }
      case Code::lookup:
        require(may_look_up(i.type, i.table.size()), "{}: no table of {} {}", place, i.table.size(),
                name_of(i.type));
        for (uint64_t e : i.table)
          require(e >> 32 == 0, "{}: {:#x} does not fit {}", place, e, name_of(i.type));
        operand(body, i, 0, DType::i32, at, place);
        return no_more(i, 1, place);
    }
  }

  void body(const Body& b, const Scope& s) {
    require(b.instrs.size() <= limits::instructions, "{}: {} instructions; expected at most {}",
            s.name, b.instrs.size(), limits::instructions);
    for (size_t k = 0; k < b.instrs.size(); ++k) instruction(b, k, s);
  }

  void operand_body(const Body& b, const Scope& s, DType type) {
    body(b, s);
    require(!b.instrs.empty(), "{}: no value", s.name);
    DType found = result_type(b.instrs.back());
    require(found == type, "{}: ends with {}; expected {}", s.name, name_of(found), name_of(type));
  }

  void reduction(const Stage& stage, const Reduction& r, const std::string& place) {
    require((is_reduce(r.op) || is_reduce_index(r.op)) && may_reduce(r.op, r.type),
            "{}: no such reduction", place);
    require(!(r.tree && is_reduce_index(r.op)), "{}: a tree of positions", place);
    DType found = type_of(stage.body, r.value, stage.body.instrs.size(), place);
    require(found == r.type, "{}: %{} is {}; expected {}", place, r.value, name_of(found),
            name_of(r.type));
    if (r.position == no_value) return;
    require(is_reduce_index(r.op), "{}: a position for a value", place);
    found = type_of(stage.body, r.position, stage.body.instrs.size(), place);
    require(found == DType::i64, "{}: %{} is {}; expected i64", place, r.position, name_of(found));
  }

  void block(const LoopBlock& b) {
    require(b.parallel_rank >= 0 && static_cast<size_t>(b.parallel_rank) <= b.axes.size(),
            "loop: {} parallel axes of {}", b.parallel_rank, b.axes.size());
    for (size_t k = 0; k < b.axes.size(); ++k)
      require((b.axes[k].kind == AxisKind::parallel) == (static_cast<int>(k) < b.parallel_rank),
              "axis i{}: parallel axes come first", k);
    axes(b.axes, b.parallel_rank);
    int last = static_cast<int>(b.axes.size()) - 1;
    require(b.lane_axis == -1 ||
                (b.lane_axis >= 0 && (b.lane_axis == last || b.lane_axis == b.parallel_rank - 1)),
            "loop: lane axis {}; expected the last parallel or row axis, or -1", b.lane_axis);
    require(b.stages.size() <= limits::stages, "loop: {} stages; expected at most {}",
            b.stages.size(), limits::stages);
    std::vector<DType> results;
    for (size_t k = 0; k < b.stages.size(); ++k) stage(b, k, results);
  }

  void stage(const LoopBlock& b, size_t number, std::vector<DType>& results) {
    const Stage& st = b.stages[number];
    Scope s{.name = fmt::format("stage {}", number), .axes = {}, .accumulators = results};
    require(st.kind <= StageKind::scan, "{}: unknown kind", s.name);
    s.axes.assign(b.axes.size(), st.kind != StageKind::point);
    std::fill_n(s.axes.begin(), b.parallel_rank, true);
    require(st.kind != StageKind::point || st.reductions.empty(),
            "{}: a point stage reduces nothing", s.name);
    require(st.kind >= StageKind::serial_row || st.running.empty(),
            "{}: running accumulators in a stage that is not serial", s.name);
    if (st.kind == StageKind::scan) scan(b, number, s.name);
    s.running = &st.running;
    s.first_running = results.size() + st.reductions.size();
    require(s.first_running + st.running.size() <= limits::accumulators,
            "{}: more than {} accumulators", s.name, limits::accumulators);
    for (const auto& [op, type] : st.running)
      require(is_reduce(op) && may_reduce(op, type), "{}: no such running accumulator", s.name);
    body(st.body, s);
    for (const Reduction& r : st.reductions) {
      reduction(st, r, fmt::format("{}, a{}", s.name, results.size()));
      results.push_back(is_reduce_index(r.op) ? DType::i64 : r.type);
    }
    for (const auto& [op, type] : st.running) results.push_back(type);
  }

  void scan(const LoopBlock& b, size_t number, const std::string& name) {
    const Stage& st = b.stages[number];
    int last = static_cast<int>(b.axes.size()) - 1;
    require(number + 1 == b.stages.size() && st.reductions.empty(),
            "{}: a scan is a stage of its own, the last one", name);
    require(last == b.parallel_rank && b.lane_axis == last,
            "{}: a scan runs along one row axis, which is the lane axis", name);
    std::set<int> stored, accumulated;
    size_t times = 0;
    for (const Instr& i : st.body.instrs) {
      if (i.code == Code::store) stored.insert(i.buffer);
      if (i.code == Code::accumulate) accumulated.insert(i.buffer);
      times += i.code == Code::accumulate;
    }
    for (const Instr& i : st.body.instrs)
      require(i.code != Code::load || !stored.count(i.buffer),
              "{}: a scan loads b{}, which it stores", name, i.buffer);
    require(times == accumulated.size() && times == st.running.size(),
            "{}: a scan accumulates each running accumulator once", name);
  }

  Scope scope(std::string name, size_t total, int batch, std::initializer_list<int> others) {
    Scope s{.name = std::move(name), .axes = std::vector<bool>(total, false), .accumulators = {}};
    std::fill_n(s.axes.begin(), batch, true);
    for (int k : others) s.axes[static_cast<size_t>(batch + k)] = true;
    return s;
  }

  void block_axes(const std::vector<Axis>& list, int batch, size_t own, std::string_view name) {
    require(batch >= 0 && list.size() == static_cast<size_t>(batch) + own,
            "{}: {} axes with {} of a batch; expected {} beside those", name, list.size(), batch,
            own);
    axes(list, 0);
    for (const Axis& a : list)
      require(!a.extent.has_axes(), "{}: an extent that depends on another axis", name);
  }

  void block(const ProductBlock& b) {
    require(b.parts >= 1 && b.parts <= limits::product_parts && (b.parts == 1 || !b.winograd),
            "product: {} parts; expected 1 to {}, and 1 with winograd", b.parts,
            limits::product_parts);
    block_axes(b.axes, b.batch_rank, b.winograd ? 7 : b.parts > 1 ? 4 : 3, "product");
    require(known(b.operand_type) && known(b.acc_type), "product: unknown type");
    require(b.acc_type != DType::b8 && compute_type(b.acc_type) == b.acc_type &&
                b.operand_type != DType::b8 && is_float(b.acc_type) == is_float(b.operand_type),
            "product: no sum in {} of operands in {}", name_of(b.acc_type),
            name_of(b.operand_type));
    require(!b.mixed || ((b.operand_type == DType::i8 || b.operand_type == DType::u8) &&
                         b.acc_type == DType::i32),
            "product: operands of both signs are i8 and u8, summed in i32");
    require(b.precision >= 0 && b.precision <= 2, "product: precision {}; expected 0, 1 or 2",
            b.precision);
    require(b.terms >= 0 && b.terms <= 3, "product: {} terms; expected 0 to 3", b.terms);
    require(b.terms == 0 ||
                (!b.reproducible && b.acc_type == DType::f32 &&
                 (b.operand_type == DType::f32 || (b.operand_type == DType::bf16 && b.terms == 1))),
            "product: no {} terms of {}", b.terms, name_of(b.operand_type));
    size_t n = b.axes.size();
    Scope lhs = scope("lhs", n, b.batch_rank, {0, 2}), rhs = scope("rhs", n, b.batch_rank, {2, 1});
    lhs.may_store = rhs.may_store = false;
    operand_body(b.lhs, lhs, b.operand_type);
    // What the terms of a f32 cannot hold is read again.
    if (b.packed_rhs < 0 || (b.terms > 0 && b.operand_type == DType::f32))
      operand_body(b.rhs, rhs, b.rhs_type());
    if (b.packed_rhs >= 0) packed(b);
    if (b.winograd) winograd(b, rhs);
    Scope epilogue = scope("epilogue", n, b.batch_rank, {0, b.parts > 1 ? 3 : 1});
    if (b.parts > 1) {
      const Expr &columns = b.axes[n - 3].extent, &of_part = b.axes[n - 1].extent;
      require(columns == Expr(b.parts) * of_part, "product: {} columns are not {} parts of {}",
              columns.str(), b.parts, of_part.str());
    }
    epilogue.accumulators.assign(static_cast<size_t>(b.parts), b.acc_type);
    body(b.epilogue, epilogue);
    if (!b.tail.stages.empty()) tail(b, b.tail);
  }

  // What the epilogue stores is read where it stored it alone, and nothing that the tail stores is
  // read by the product.
  void tail(const ProductBlock& b, const LoopBlock& t) {
    require(b.parts == 1 && b.terms == 0 && !b.winograd,
            "tail: the product has parts, terms or is one of winograd");
    auto rank = static_cast<size_t>(b.batch_rank) + 1;
    require(t.axes.size() == rank + 1 && t.parallel_rank == static_cast<int>(rank) &&
                std::equal(t.axes.begin(), t.axes.end(), b.axes.begin(),
                           [](const Axis& x, const Axis& y) { return x.extent == y.extent; }),
            "tail: the axes are not those of the product's rows and columns");
    require(t.lane_axis == -1 || t.lane_axis == static_cast<int>(rank),
            "tail: lane axis {}; expected the row axis, or -1", t.lane_axis);
    block(t);
    std::set<int> stored;
    for (const Stage& s : t.stages)
      for (const Instr& i : s.body.instrs)
        if (i.code == Code::store) stored.insert(i.buffer);
    for (const Body* x : {&b.lhs, &b.rhs, &b.epilogue})
      for (const Instr& i : x->instrs)
        require(i.code != Code::load || !stored.count(i.buffer),
                "tail: it stores b{}, which the product reads", i.buffer);
    require(b.packed_rhs < 0 || !stored.count(b.packed_rhs),
            "tail: it stores b{}, which the product reads", b.packed_rhs);
    for (const Instr& e : b.epilogue.instrs) {
      if (e.code != Code::store) continue;
      auto apart = [&](const Instr& i) {
        bool uses = (i.code == Code::load || i.code == Code::store) && i.buffer == e.buffer;
        return uses && !(i.expr == e.expr && i.expr.has_axis(static_cast<int>(rank)));
      };
      for (const Stage& s : t.stages)
        require(std::none_of(s.body.instrs.begin(), s.body.instrs.end(), apart),
                "tail: it uses b{} elsewhere than where the epilogue stored", e.buffer);
    }
    int64_t bytes = 0;
    for (const Buffer& s : p_.buffers) {
      if (s.access != Access::scratch) continue;
      require(s.extent.is_const() && s.extent.constant_value() <= limits::tail_scratch_bytes,
              "tail: scratch of {} elements", s.extent.str());
      bytes += s.extent.constant_value() * size_of(s.dtype);
    }
    require(bytes <= limits::tail_scratch_bytes, "tail: {} bytes of scratch; expected at most {}",
            bytes, limits::tail_scratch_bytes);
  }

  void winograd(const ProductBlock& b, const Scope& rhs) {
    require(b.batch_rank == 0 && b.operand_type == DType::f32 && b.acc_type == DType::f32 &&
                !b.reproducible && b.packed_rhs >= 0 && b.panel_group == 1,
            "product: winograd serves packed float32 without a batch, and nothing reproducible");
    auto extent = [&](size_t k) { return b.axes[k].extent; };
    Expr height = extent(4) - Expr(2), width = extent(5) - Expr(2);
    require(extent(0) == extent(3) * height * width && extent(2) == Expr(9) * extent(6),
            "product: winograd over {} rows and a depth of {}, but an image {}x{}x{}x{}",
            extent(0).str(), extent(2).str(), extent(3).str(), extent(4).str(), extent(5).str(),
            extent(6).str());
    require(provably_nonnegative(height - Expr(1)) && provably_nonnegative(width - Expr(1)),
            "product: winograd over an image without windows");
    operand_body(b.rhs, rhs, b.operand_type);
    Scope image = scope("image", b.axes.size(), 0, {3, 4, 5, 6});
    image.may_store = false;
    operand_body(b.image, image, b.operand_type);
  }

  void packed(const ProductBlock& b) {
    require(b.panel_width > 0 && b.panel_width <= limits::panel_width,
            "product: panels of {} columns", b.panel_width);
    require(b.panel_group == 1 || b.panel_group == 2 || b.panel_group == 4,
            "product: groups of {} in panels; expected 1, 2 or 4", b.panel_group);
    DType type = b.terms > 0 ? DType::u32 : b.rhs_type();
    Instr i{.code = Code::load, .type = type, .buffer = b.packed_rhs, .expr = {}};
    const Buffer& buffer = access(i, "product, packed operand", false);
    auto rank = static_cast<size_t>(b.batch_rank);
    Expr depth = b.winograd ? Expr(16) * b.axes[6].extent : b.axes[rank + 2].extent;
    Expr panel = b.terms > 0 ? ceil_div(depth, 32) * Expr(b.terms * 16 * b.panel_width)
                             : ceil_div(depth, b.panel_group) * Expr(b.panel_width * b.panel_group);
    Expr panels = b.parts > 1 ? ceil_div(b.axes[rank + 3].extent, b.panel_width) * Expr(b.parts)
                              : ceil_div(b.axes[rank + 1].extent, b.panel_width);
    Expr size = panels * panel;
    for (size_t k = 0; k < rank; ++k) size *= b.axes[k].extent;
    require(!provably_less(buffer.extent, size), "product: b{} has {} elements; its panels are {}",
            b.packed_rhs, buffer.extent.str(), size.str());
  }

  void block(const AttentionBlock& b) {
    block_axes(b.axes, b.batch_rank, 4, "attention");
    require(known(b.operand_type) && is_float(b.operand_type),
            "attention: operands that are not floats");
    size_t n = b.axes.size();
    DType type = compute_type(b.operand_type);
    Scope q = scope("q", n, b.batch_rank, {0, 2}), k = scope("k", n, b.batch_rank, {1, 2});
    Scope v = scope("v", n, b.batch_rank, {1, 3}), score = scope("score", n, b.batch_rank, {0, 1});
    Scope epilogue = scope("epilogue", n, b.batch_rank, {0, 3});
    q.may_store = k.may_store = v.may_store = score.may_store = false;
    operand_body(b.q, q, b.operand_type);
    operand_body(b.k, k, b.operand_type);
    operand_body(b.v, v, b.operand_type);
    score.accumulators = epilogue.accumulators = {type};
    if (!b.score.instrs.empty()) operand_body(b.score, score, type);
    body(b.epilogue, epilogue);
    Scope lse = scope("lse", n, b.batch_rank, {0});
    lse.accumulators = {type};
    body(b.lse, lse);
  }

  void block(const AttentionGradBlock& b) {
    block_axes(b.axes, b.batch_rank, 5, "attention_grad");
    require(known(b.operand_type) && is_float(b.operand_type),
            "attention_grad: operands that are not floats");
    size_t n = b.axes.size();
    DType type = compute_type(b.operand_type);
    // Axes of each body: 0 member, 1 query, 2 key, 3 depth, 4 value depth.
    const std::initializer_list<int> axes[] = {{0, 1, 3}, {2, 3}, {2, 4},    {0, 1, 4},
                                               {0, 1},    {0, 1}, {0, 1, 2}, {0, 1, 2},
                                               {0, 1, 3}, {2, 3}, {2, 4}};
    for (size_t k = 0; k < b.names.size(); ++k) {
      Scope s = scope(std::string(b.names[k]), n, b.batch_rank, axes[k]);
      bool score = k == 6 || k == 7, result = k >= 8;
      s.may_store = result;
      if (score || result) s.accumulators = {type};
      const Body& x = *b.bodies()[k];
      if (result)
        body(x, s);
      else if (!score || !x.instrs.empty())
        operand_body(x, s, k < 4 ? b.operand_type : type);
    }
  }

  void block(const SortBlock& b) {
    block_axes(b.axes, b.batch_rank, 2, "sort");
    require(known(b.key_type) && compute_type(b.key_type) == b.key_type, "sort: keys of {}",
            static_cast<int>(b.key_type) < num_dtypes ? name_of(b.key_type) : "?");
    size_t n = b.axes.size();
    require(!provably_less(b.axes[n - 2].extent, b.axes[n - 1].extent),
            "sort: {} places for {} elements", b.axes[n - 1].extent.str(),
            b.axes[n - 2].extent.str());
    Scope key = scope("key", n, b.batch_rank, {0}),
          epilogue = scope("epilogue", n, b.batch_rank, {1});
    key.may_store = false;
    operand_body(b.key, key, b.key_type);
    epilogue.accumulators = {DType::i64};
    body(b.epilogue, epilogue);
  }

  const Program& p_;
  std::vector<Expr> grounded_;
};

}  // namespace

void verify(const Program& program) { Verifier(program).run(); }

}  // namespace hologram::atlas

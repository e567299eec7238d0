// schedule/cluster/roots.cpp: which nodes get a place of their own instead of being computed where
// they are read.
#include <algorithm>
#include <ranges>

#include "schedule/cluster/cluster.h"
#include "schedule/windows/window.h"

namespace hologram::schedule {
namespace {

using ir::Op;
using ir::OpKind;
using ir::Value;

bool is_heavy(Value v) {
  switch (ir::info(v->op).kind) {
    case OpKind::reduce:
    case OpKind::reduce_index:
    case OpKind::scan:
    case OpKind::sort:
    case OpKind::dot:
    case OpKind::attention:
    case OpKind::attention_grad:
    case OpKind::scatter:
    case OpKind::external:
    case OpKind::external_result:
      return true;
    default:
      return false;
  }
}

bool is_view(Value v) {
  return ir::info(v->op).kind == OpKind::movement && v->op != Op::concat && v->op != Op::pad;
}

Value below_views(Value v) {
  while (is_view(v)) v = v->input();
  return v;
}

// What the last window among the views above v's elements is taken of; null if there is none.
Value windowed(Value v) {
  Value found = nullptr;
  for (; is_view(v); v = v->input())
    if (v->is(Op::window)) found = v->input();
  return found;
}

// The last axis of v that has more than one element.
int last_axis(Value v) {
  int last = v->rank() - 1;
  while (last > 0 && v->shape[static_cast<size_t>(last)].is(1)) --last;
  return last;
}

// Whether v, a view of a parameter, runs along that parameter's memory by its axis `along`.
bool runs_along_memory(Value v, int along) {
  Index at;
  for (const Expr& d : v->shape) at.push_back(Expr::axis(static_cast<int>(at.size()), d));
  for (; is_view(v); v = v->input()) at = input_index(v, 0, at);
  auto split = offset_of(at, v->attrs.exprs).linear_in_axis(along);
  return split && split->first.is(1);
}

// The image [n, pixels…, channels] that v, a view of the parameter [n, channels, pixels…] whose
// channels lie apart in memory, is taken of; nullptr if it is none.
Value turned_image(Value v) {
  if (!is_view(v)) return nullptr;
  while (is_view(v->input())) v = v->input();
  bool turned = v->is(Op::permute) && v->input()->is(Op::parameter) && v->rank() > 2 &&
                v->attrs.ints.back() == 1;
  return turned && !runs_along_memory(v, v->rank() - 1) ? v : nullptr;
}

// Whether the matrix v, a view, is one in its operand's memory too: its coordinates have strides.
bool is_strided(Value v) {
  Index at;
  for (const Expr& d : v->shape) at.push_back(Expr::axis(static_cast<int>(at.size()), d));
  for (; is_view(v); v = v->input()) at = input_index(v, 0, at);
  for (size_t axis = 0; axis < v->shape.size(); ++axis) {
    bool linear = !at[axis].any_atom([](const Atom& a) { return !a.is_leaf(); });
    if (!linear) return false;
  }
  return true;
}

// Whether the matrix v is whole rows of another tensor, taken by their numbers: a product that
// copies blocks of rows finds them wherever they lie. Few rows are read in place.
bool takes_rows(Value v, const Machine& machine) {
  const Expr& rows = v->shape[v->shape.size() - 2];
  if (rows.is_const() && rows.constant_value() < machine.gathered_rows) return false;
  Index at;
  for (const Expr& d : v->shape) at.push_back(Expr::axis(static_cast<int>(at.size()), d));
  Expr along = at.back();
  for (; is_view(v); v = v->input()) at = input_index(v, 0, at);
  if (!v->is(Op::take)) return false;
  auto last_taken =
      static_cast<size_t>(v->attrs.ints[0] - v->attrs.ints[1]) + v->input(1)->shape.size();
  return last_taken < at.size() && at.back() == along;
}

// Rough cost of one element-wise operation, in vector instructions.
int cost_of(Value v) {
  if (ir::info(v->op).kind == OpKind::leaf || is_view(v)) return 0;
  if (v->op == Op::concat) return 3 * static_cast<int>(v->inputs.size());
  if (v->op == Op::pad || v->op == Op::take) return 4;
  if (v->op == Op::div || v->op == Op::rem || v->op == Op::sqrt) return 4;
  return ir::info(v->op).flags & ir::exact ? 1 : 16;
}

// An element of a concatenation reads one of its parts: those that are parts of one tensor (its
// edges, reflected) are one use of it. Takes the others back before the views pass them on.
void parts_of_one(Value concat, int passed, std::vector<int>& uses) {
  std::vector<Value> seen;
  for (Value part : concat->inputs) {
    Value whole = below_views(part);
    if (std::ranges::find(seen, whole) == seen.end())
      seen.push_back(whole);
    else
      uses[whole->id] -= passed;
  }
}

// Whether v reads what a product computes, by views and borders alone.
bool of_product(Value v) {
  while (is_view(v) || v->is(Op::pad)) v = v->input();
  return v->is(Op::dot_general);
}

// An image with its channels apart in memory that is put together from parts which products
// compute (a strided convolution's kinds of pixels): what of `v`, above the parts, lies channels
// last first; nullptr if `v` is none.
Value joined_parts(Value v) {
  constexpr int64_t least_channels = 8;
  if (v->rank() < 3 || !v->shape[1].is_const() || v->shape[1].constant_value() < least_channels)
    return nullptr;
  Value below = nullptr;
  const int line = v->rank() - 1;
  Index at;
  for (const Expr& d : v->shape) at.push_back(Expr::axis(static_cast<int>(at.size()), d));
  for (; is_view(v); v = v->input()) {
    at = input_index(v, 0, at);
    if (!below && v->is(Op::reshape) && !v->input()->is(Op::concat)) below = v->input();
  }
  bool parts = v->is(Op::concat) && std::ranges::any_of(v->inputs, of_product);
  // One product computes all kinds.
  bool kinds = v->is(Op::dot_general) && at.back().has_axis(1) &&
               std::ranges::any_of(at, [&](const Expr& e) {
                 return e.any_atom([&](const Atom& a) {
                   return a.kind == Atom::Kind::mod && a.a->has_axis(line);
                 });
               });
  return parts || kinds ? below : nullptr;
}

constexpr int cap = 1 << 20;
constexpr int most_of_weights = 64;     // cost of dequantising, say
constexpr int64_t most_kept = 1 << 16;  // elements of a value kept from call to call

struct Inline {
  int cost = 0;  // of recomputing the value from roots
  int loads = 0;
  bool moves_data = false;  // has a take, concat or pad inside
};

}  // namespace

void Clustering::choose_roots() {
  root_.assign(graph_.nodes().size(), 0);
  std::vector<int> uses(graph_.nodes().size(), 0);  // by computing consumers, through views
  for (const auto& o : graph_.outputs) {
    ++uses[o.value->id];
    root_[o.value->id] = !o.value->is(Op::parameter);
  }
  for (auto it = live_.rbegin(); it != live_.rend(); ++it) {
    Value v = *it;
    int passed = is_view(v) && !root_[v->id] ? uses[v->id] : 1;
    std::vector<Value> distinct(v->inputs);
    std::sort(distinct.begin(), distinct.end());
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    for (Value in : distinct) uses[in->id] = std::min(cap, uses[in->id] + std::max(1, passed));
    if (v->is(Op::concat)) parts_of_one(v, std::max(1, passed), uses);
  }
  auto make_root = [&](Value v) {
    OpKind k = ir::info(v->op).kind;
    if (k != OpKind::leaf) root_[v->id] = 1;
  };
  for (const auto& o : graph_.outputs) {
    if (o.strides.empty() || !o.strides.back().is(1)) continue;
    std::vector<Value> read = is_view(o.value) ? std::vector{o.value} : o.value->inputs;
    for (Value v : read)
      if (Value parts = joined_parts(v)) {
        make_root(parts);
        if (below_views(parts)->is(Op::dot_general)) continue;
        for (Value part : below_views(parts)->inputs)
          for (Value in : below_views(part)->inputs)
            if (Value image = turned_image(in)) make_root(image);
      }
  }
  for (Value v : live_)
    if (sums_taps(v, options_))
      if (Value image = turned_image(v->input(0))) make_root(image);
  auto base = below_views;
  auto is_static = [&](Value v) {
    return v->is(Op::parameter) && options_.is_static(static_cast<int>(v->attrs.ints[0]));
  };
  // A convolution's image is read in windows, many times: it lies in memory, channels last.
  auto windowed_operand = [&](Value v) {
    Value image = windowed(v);
    if (!image) return false;
    Value source = image->is(Op::pad) ? image->input() : image;
    while (is_view(source) && !root_[source->id]) source = source->input();
    bool foreign = source->is(Op::parameter) || source->is(Op::host_result);
    // Of few channels a window's line is one run if the border lies in memory too.
    const Expr& channels = image->shape[static_cast<size_t>(last_axis(image))];
    bool bordered = image->is(Op::pad) && channels.is_const() &&
                    channels.constant_value() < options_.machine->vector;
    Value inner = image->is(Op::pad) ? image->input() : image;
    bool scattered = foreign && !runs_along_memory(inner, last_axis(inner));
    make_root(bordered || scattered ? image : source);
    return true;
  };
  // The other operand: a matrix of its own unless it is packed ahead.
  auto weights = [&](Value v) {
    if (windowed(v)) return;
    Value source = base(v);
    if (!source->is(Op::parameter) || (!is_static(source) && !is_strided(v))) make_root(v);
  };
  std::vector<Inline> inl(graph_.nodes().size());
  // What depends on static parameters alone: 1 if on none, 2 if on some.
  std::vector<char> fixed(graph_.nodes().size(), 0);
  for (Value v : live_) {
    Inline& mine = inl[v->id];
    if (is_heavy(v)) root_[v->id] = 1;
    mine.cost = cost_of(v);
    mine.loads = v->is(Op::parameter);
    fixed[v->id] = v->is(Op::constant) ? 1 : is_static(v) ? 2 : 0;
    if (is_view(v) || v->is(Op::concat) || ir::is_elementwise(v->op)) {
      auto part = [&](Value in) { return fixed[in->id]; };
      fixed[v->id] = std::ranges::all_of(v->inputs, part)
                         ? std::ranges::max(v->inputs | std::views::transform(part))
                         : 0;
    }
    mine.moves_data = v->is(Op::take) || v->is(Op::concat) || v->is(Op::pad);
    for (Value in : v->inputs) {
      if (root_[in->id]) {
        ++mine.loads;
        continue;
      }
      mine.cost = std::min(cap, mine.cost + inl[in->id].cost);
      mine.loads = std::min(cap, mine.loads + inl[in->id].loads);
      mine.moves_data |= inl[in->id].moves_data;
    }
    if (v->is(Op::dot_general)) {
      if (windowed_operand(v->input(0)) | windowed_operand(v->input(1))) {
        if (sums_taps(v, options_)) {  // read along the channels
          if (Value factor = base(v->input(0)); !factor->is(Op::parameter)) make_root(factor);
          continue;
        }
        weights(v->input(0));
        weights(v->input(1));
        // Columns that run through windows of few channels: better laid out once.
        if (Value image = windowed(v->input(1)))
          if (const Expr& c = image->shape.back();
              !c.is_const() || c.constant_value() % options_.machine->vector != 0)
            make_root(v->input(1));
        continue;
      }
      Value l = base(v->input(0)), r = base(v->input(1));
      bool cheap_l = inl[l->id].cost <= 2 && !inl[l->id].moves_data;
      cheap_l |= takes_rows(v->input(0), *options_.machine) && inl[l->id].cost <= 6;
      cheap_l &= uses[l->id] == 1;
      // What is computed from weights alone is packed ahead, or read with them.
      int most = fixed[r->id] == 2 ? most_of_weights : 8;
      bool cheap_r = inl[r->id].cost <= most && uses[r->id] == 1;
      // Words of two bfloat16 numbers along k are read from where they lie side by side.
      if (!fixed[r->id] && r != v->input(1) && r->is(Op::cast) && r->dtype == DType::bf16)
        cheap_r = false;
      if (!cheap_l) make_root(l);
      if (!cheap_r) make_root(r);
    } else if (OpKind kind = ir::info(v->op).kind;
               kind == OpKind::attention || kind == OpKind::attention_grad) {
      size_t own = kind == OpKind::attention ? 3 : 6;
      for (size_t i = 0; i < own; ++i) make_root(base(v->input(i)));
      // A mask made of coordinates alone costs less than its memory.
      if (v->inputs.size() > own)
        if (const Inline& bias = inl[v->input(own)->id]; bias.cost > (bias.loads ? 6 : 24))
          make_root(base(v->input(own)));
    } else if (v->is(Op::host_call)) {
      for (Value in : v->inputs)
        root_[in->id] = !in->is(Op::parameter);  // the host wants even constants in memory
    } else if (v->is(Op::scatter)) {
      if (inl[v->input(2)->id].cost > 32) make_root(base(v->input(2)));
      // An index for each element is computed by vectors, which writing one by one is not.
      if (Value i = v->input(1);
          inl[i->id].cost > 8 && numel(i->shape) == numel(v->input(2)->shape))
        make_root(base(i));
    }
    if (root_[v->id] || is_view(v) || ir::info(v->op).kind == OpKind::leaf) continue;
    // Dear and always the same (1 / sqrt(variance + epsilon), say): computed once and kept.
    bool kept = fixed[v->id] == 2 && mine.cost >= 16 && numel(v->shape).is_const() &&
                numel(v->shape).constant_value() <= most_kept;
    bool shared = uses[v->id] >= 2 && (mine.cost >= 4 || mine.loads >= 3 || mine.moves_data);
    if (kept || shared || mine.cost > 400 || mine.loads > 48) root_[v->id] = 1;
  }
}

}  // namespace hologram::schedule

// schedule/cluster/roots.cpp: which nodes get a place of their own instead of being computed where
// they are read.
#include "schedule/cluster/roots.h"

#include <algorithm>
#include <ranges>

#include "schedule/cluster/views.h"
#include "schedule/windows/window.h"

namespace hologram::schedule {
namespace {

using ir::Op;
using ir::OpKind;
using ir::Value;

constexpr int cap = 1 << 20;
constexpr int most_of_weights = 64;     // cost of dequantising, say
constexpr int64_t most_kept = 1 << 16;  // elements of a value kept from call to call

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

Value below_views_and_borders(Value v) {
  while (is_view(v) || v->is(Op::pad) || v->is(Op::cast)) v = v->input();
  return v;
}

// Whether windows are of a parameter that lies in planes, whose lines fill vectors.
bool reads_planes(Value windows, const Machine& machine) {
  Value image = windowed(windows);
  if (image && image->is(Op::pad)) image = image->input();
  const int line = image ? last_axis(image) - 1 : -1;
  if (line < 0 || !below_views(image)->is(Op::parameter) || !runs_along_memory(image, line))
    return false;
  const Expr& length = image->shape[static_cast<size_t>(line)];
  return length.is_const() && length.constant_value() >= machine.vector;
}

// What it takes to compute a value where it is read.
struct Inline {
  int cost = 0;  // of recomputing the value from roots
  int loads = 0;
  bool moves_data = false;  // has a take, concat or pad inside
  char fixed = 0;           // depends on static parameters alone: 1 if on none, 2 if on some
};

class Roots {
 public:
  Roots(const ir::Graph& graph, const Options& options, const std::vector<Value>& live)
      : graph_(graph),
        options_(options),
        live_(live),
        root_(graph.nodes().size(), 0),
        by_loop_(graph.nodes().size(), ByLoop::no),
        uses_(graph.nodes().size(), 0),
        inline_(graph.nodes().size()) {}

  RootChoice run() {
    outputs();
    count_uses();
    sums_of_loops();
    joined_outputs();
    factors_of_weight_gradients();
    for (Value v : live_)
      for (auto concern :
           {&Roots::behind_fence, &Roots::heavy, &Roots::measure, &Roots::operands_of_product,
            &Roots::operands_of_attention, &Roots::operands_of_host_call,
            &Roots::operands_of_scatter, &Roots::places_of_take, &Roots::dear})
        (this->*concern)(v);
    std::vector<int> cost;
    for (const Inline& i : inline_) cost.push_back(i.cost);
    return {std::move(root_), std::move(cost)};
  }

 private:
  // Of the graph, before its nodes are looked at one by one.
  void outputs();
  void count_uses();
  void sums_of_loops();
  void sums_of_output(Value v, bool in_planes, bool is_part);
  void joined_outputs();
  void factors_of_weight_gradients();
  // Of one node, whose operands have been decided upon.
  void behind_fence(Value v);
  void heavy(Value v);
  void measure(Value v);
  void operands_of_product(Value v);
  void operands_of_attention(Value v);
  void operands_of_host_call(Value v);
  void operands_of_scatter(Value v);
  void places_of_take(Value v);
  void dear(Value v);

  bool sums_planes(Value joined) const;
  Value copy_of(Value reader, Value image) const;
  bool windowed_operand(Value v);
  void operand_beside_windows(Value v);
  void operands_of_windows(Value v);
  bool follows_product(Value v) const;
  void operands_of_matrices(Value v);
  void make_root(Value v) {
    if (ir::info(v->op).kind != OpKind::leaf) root_[v->id] = 1;
  }
  bool is_static(Value v) const {
    return v->is(Op::parameter) && options_.is_static(static_cast<int>(v->attrs.ints[0]));
  }

  const ir::Graph& graph_;
  const Options& options_;
  const std::vector<Value>& live_;
  std::vector<char> root_;
  // Depthwise convolutions of few taps that the loop of an output sums: parts of a concatenation,
  // and those whose image and results are planes.
  enum class ByLoop : char { no, part, planes };
  std::vector<ByLoop> by_loop_;
  std::vector<int> uses_;  // by computing consumers, through views
  std::vector<Inline> inline_;
};

void Roots::outputs() {
  for (const auto& o : graph_.outputs) {
    ++uses_[o.value->id];
    root_[o.value->id] = !o.value->is(Op::parameter);
  }
}

void Roots::count_uses() {
  for (auto it = live_.rbegin(); it != live_.rend(); ++it) {
    Value v = *it;
    int passed = is_view(v) && !root_[v->id] ? uses_[v->id] : 1;
    std::vector<Value> distinct(v->inputs);
    std::sort(distinct.begin(), distinct.end());
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    for (Value in : distinct) uses_[in->id] = std::min(cap, uses_[in->id] + std::max(1, passed));
    if (v->is(Op::concat)) parts_of_one(v, std::max(1, passed), uses_);
  }
}

void Roots::sums_of_output(Value v, bool in_planes, bool is_part) {
  if (uses_[v->id] > 1) return;
  if (is_short_sum(v, options_)) {
    const bool planes = in_planes && reads_planes(v->input(0), *options_.machine);
    if (planes || is_part) by_loop_[v->id] = planes ? ByLoop::planes : ByLoop::part;
  } else if (ir::is_movement(v->op) || ir::is_elementwise(v->op)) {
    for (Value in : v->inputs) sums_of_output(in, in_planes, is_part || v->is(Op::concat));
  }
}

// Outputs, and what several others read of an image that is put together from such sums: a
// reduction among these reads it from memory (Clustering::merge_loops).
void Roots::sums_of_loops() {
  for (const auto& o : graph_.outputs)
    if (o.value->rank() > 2 && !o.strides.empty())
      sums_of_output(o.value, o.strides.back().is(1), false);
  for (Value v : live_)
    if (uses_[v->id] > 1 && v->rank() > 2 && ir::is_elementwise(v->op))
      for (Value in : v->inputs) sums_of_output(in, false, false);
}

// Images that products compute in parts, and what these read, lie channels last first.
void Roots::joined_outputs() {
  for (const auto& o : graph_.outputs) {
    if (o.strides.empty() || !o.strides.back().is(1)) continue;
    std::vector<Value> read = is_view(o.value) ? std::vector{o.value} : o.value->inputs;
    for (Value v : read)
      if (Value parts = joined_parts(v); parts && !sums_planes(parts)) {
        make_root(parts);
        if (below_views(parts)->is(Op::dot_general)) continue;
        for (Value part : below_views(parts)->inputs)
          for (Value in : below_views(part)->inputs)
            if (Value image = turned_image(in)) make_root(image);
      }
  }
}

bool Roots::sums_planes(Value joined) const {
  return std::ranges::any_of(below_views(joined)->inputs, [&](Value part) {
    return by_loop_[below_views_and_borders(part)->id] == ByLoop::planes;
  });
}

void Roots::factors_of_weight_gradients() {
  for (Value v : live_)
    if (is_weight_gradient(v, options_))
      if (Value image = turned_image(v->input(0))) make_root(copy_of(v->input(0), image));
}

// What to lay out of a turned image that `reader` is a view of: not what sums along planes read
// too, but the view above it.
Value Roots::copy_of(Value reader, Value image) const {
  auto planes = [&](Value v) {
    return by_loop_[v->id] == ByLoop::planes &&
           below_views_and_borders(v->input(0)) == image->input();
  };
  if (reader == image || std::ranges::none_of(live_, planes)) return image;
  while (reader->input() != image) reader = reader->input();
  return reader;
}

void Roots::behind_fence(Value v) {
  if (is_fence(v)) make_root(below_views(v->input()->input()));
}

void Roots::heavy(Value v) {
  if (is_heavy(v) && by_loop_[v->id] == ByLoop::no) root_[v->id] = 1;
}

void Roots::measure(Value v) {
  Inline& mine = inline_[v->id];
  mine.cost = cost_of(v);
  mine.loads = v->is(Op::parameter);
  mine.fixed = v->is(Op::constant) ? 1 : is_static(v) ? 2 : 0;
  if (is_view(v) || v->is(Op::concat) || ir::is_elementwise(v->op)) {
    auto part = [&](Value in) { return inline_[in->id].fixed; };
    mine.fixed = std::ranges::all_of(v->inputs, part)
                     ? std::ranges::max(v->inputs | std::views::transform(part))
                     : 0;
  }
  mine.moves_data = v->is(Op::take) || v->is(Op::concat) || v->is(Op::pad);
  for (Value in : v->inputs) {
    if (root_[in->id]) {
      ++mine.loads;
      continue;
    }
    mine.cost = std::min(cap, mine.cost + inline_[in->id].cost);
    mine.loads = std::min(cap, mine.loads + inline_[in->id].loads);
    mine.moves_data |= inline_[in->id].moves_data;
  }
  if (by_loop_[v->id] == ByLoop::no) return;
  mine.loads = static_cast<int>(v->input(0)->shape.back().constant_value());
  mine.cost = std::min(cap, mine.loads * (1 + mine.cost - cost_of(v)));
}

// A convolution's image is read in windows, many times: it lies in memory, channels last.
bool Roots::windowed_operand(Value v) {
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
}

// A matrix of its own unless it is packed ahead.
void Roots::operand_beside_windows(Value v) {
  if (windowed(v)) return;
  Value source = below_views(v);
  if (!source->is(Op::parameter) || (!is_static(source) && !is_strided(v))) make_root(v);
}

void Roots::operands_of_windows(Value v) {
  if (is_weight_gradient(v, options_)) {  // read along the channels
    if (Value factor = below_views(v->input(0)); !factor->is(Op::parameter)) make_root(factor);
    return;
  }
  if (by_loop_[v->id] == ByLoop::part) return make_root(v->input(1));
  operand_beside_windows(v->input(0));
  operand_beside_windows(v->input(1));
  // Columns that run through windows of few channels: better laid out once.
  if (Value image = windowed(v->input(1)))
    if (const Expr& c = image->shape.back();
        !c.is_const() || c.constant_value() % options_.machine->vector != 0)
      make_root(v->input(1));
}

// Whether the matrix of product v, which is its right operand or the left one, may be large.
bool large_matrix(Value v, bool is_right) {
  constexpr int64_t small = int64_t{1} << 14;
  const Expr elements = numel(v->input(is_right ? 1 : 0)->shape);
  return !elements.is_const() || elements.constant_value() > small;
}

// Whether v is computed from what a product makes for it alone: at no cost by that one's epilogue.
bool Roots::follows_product(Value v) const {
  if (root_[v->id]) return v->is(Op::dot_general) && uses_[v->id] == 1;
  return (is_view(v) || ir::is_elementwise(v->op)) && std::ranges::any_of(v->inputs, [&](Value in) {
           return numel(in->shape) == numel(v->shape) && follows_product(in);
         });
}

void Roots::operands_of_matrices(Value v) {
  Value l = below_views(v->input(0)), r = below_views(v->input(1));
  const Inline &left = inline_[l->id], &right = inline_[r->id];
  bool cheap_l = left.cost <= 2 && !left.moves_data;
  cheap_l |= takes_rows(v->input(0), *options_.machine) && left.cost <= 6;
  cheap_l = cheap_l && uses_[l->id] == 1 && !follows_product(l);
  // What is computed from weights alone is packed ahead, or read with them.
  int most = right.fixed == 2 ? most_of_weights : 8;
  bool cheap_r = right.cost <= most && uses_[r->id] == 1;
  // Words of two bfloat16 numbers along k are read from where they lie side by side.
  if (!right.fixed && r != v->input(1) && r->is(Op::cast) && r->dtype == DType::bf16)
    cheap_r = false;
  // A vector beside a matrix that is read where it lies: keeping it costs nothing.
  const size_t last = v->shape.size() - 1;
  const bool row = v->shape[last - 1].is(1), column = v->shape[last].is(1);
  if (large_matrix(v, row) && row != column && !(row ? right : left).fixed) {
    cheap_l &= !row || left.cost == 0;
    cheap_r &= !column || right.cost == 0;
  }
  if (!cheap_l) make_root(l);
  if (!cheap_r) make_root(r);
}

void Roots::operands_of_product(Value v) {
  if (!v->is(Op::dot_general) || by_loop_[v->id] == ByLoop::planes) return;
  bool windows = windowed_operand(v->input(0));
  windows |= windowed_operand(v->input(1));
  windows ? operands_of_windows(v) : operands_of_matrices(v);
}

void Roots::operands_of_attention(Value v) {
  OpKind kind = ir::info(v->op).kind;
  if (kind != OpKind::attention && kind != OpKind::attention_grad) return;
  size_t own = kind == OpKind::attention ? 3 : 6;
  for (size_t i = 0; i < own; ++i) make_root(below_views(v->input(i)));
  // A mask made of coordinates alone costs less than its memory.
  if (v->inputs.size() > own)
    if (const Inline& bias = inline_[v->input(own)->id]; bias.cost > (bias.loads ? 6 : 24))
      make_root(below_views(v->input(own)));
}

void Roots::operands_of_host_call(Value v) {
  if (!v->is(Op::host_call)) return;
  for (Value in : v->inputs)
    root_[in->id] = !in->is(Op::parameter);  // the host wants even constants in memory
}

void Roots::operands_of_scatter(Value v) {
  if (!v->is(Op::scatter)) return;
  if (inline_[v->input(2)->id].cost > 32) make_root(below_views(v->input(2)));
  // An index for each element is computed by vectors, which writing one by one is not.
  if (Value i = v->input(1);
      inline_[i->id].cost > 8 && numel(i->shape) == numel(v->input(2)->shape))
    make_root(below_views(i));
}

// Places along memory that many lines are read at (a resized image's): 64-bit arithmetic of every
// lane.
void Roots::places_of_take(Value v) {
  constexpr int64_t least_saved = 1 << 18;  // vector instructions, by the lane
  if (!v->is(Op::take) || v->attrs.ints[0] != last_axis(v->input(0))) return;
  const Expr places = numel(v->input(1)->shape), elements = numel(v->shape);
  if (!places.is_const() || !elements.is_const()) return;
  const int64_t saved = elements.constant_value() - 4 * places.constant_value();
  if (saved * inline_[v->input(1)->id].cost >= least_saved) make_root(below_views(v->input(1)));
}

// What costs more to compute again than to keep.
void Roots::dear(Value v) {
  if (root_[v->id] || is_view(v) || ir::info(v->op).kind == OpKind::leaf) return;
  const Inline& mine = inline_[v->id];
  // Dear and always the same (1 / sqrt(variance + epsilon), say): computed once and kept.
  bool kept = mine.fixed == 2 && mine.cost >= 16 && numel(v->shape).is_const() &&
              numel(v->shape).constant_value() <= most_kept;
  bool shared = uses_[v->id] >= 2 && (mine.cost >= 4 || mine.loads >= 3 || mine.moves_data);
  if (kept || shared || mine.cost > 400 || mine.loads > 48) root_[v->id] = 1;
}

}  // namespace

RootChoice choose_roots(const ir::Graph& graph, const Options& options,
                        const std::vector<Value>& live) {
  return Roots(graph, options, live).run();
}

}  // namespace hologram::schedule

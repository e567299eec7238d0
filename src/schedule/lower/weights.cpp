// schedule/lower/weights.cpp: weights laid out for products.
//
// Panels for tiles. bfloat16 are paired and bytes put together in fours as words, without a
// conversion: from rows along n two loads, a shift, an or and a store for each line of 64 bytes of
// pairs, 10 instructions for one of bytes. float32 is split on the way, at most 30 instructions for
// two vectors and the line of each of three terms, five of them loads and stores: halfway numbers
// are rounded away from 0 where another term has the rest, which takes two instructions where
// rounding to even takes five, and the third term is exact. Bytes are walked 16 rows at a time.
// Columns along k are turned over in squares of words, two side by side for pairs of float32, and
// fetched 256 bytes ahead. A step's terms lie behind each other, so that a panel is one stream;
// three terms take 1.5 times the memory of the float32, which stays for the elements that terms
// cannot give.
//
// Weights of few bits are kept as they are, in blocks of columns: q[n, k] becomes [n / 64, k, n %
// 64] (Machine::byte_columns), or [n / 32, n % 32 / 16, k / 4, n % 16, k % 4]
// (Machine::word_columns).
#include "schedule/lower/weights.h"

#include <algorithm>
#include <ranges>

#include "atlas/rewriting.h"
#include "schedule/cluster/index.h"
#include "schedule/cluster/views.h"

namespace hologram::schedule {

using atlas::Val;
using ir::Op;
using ir::Value;

namespace {

// The bits of both values' terms as words, by term (atlas::terms_of).
std::vector<Val> term_words(atlas::BodyBuilder& b, Val low, Val high, int terms) {
  auto word = [&](uint64_t bits) { return b.constant(DType::u32, bits); };
  auto bits_of = [&](Val& x, int t) {  // in the upper half; leaves the rest in x
    Val bits = b.bitcast(x, DType::u32);
    Val rounded = bits;
    if (t < 2 && t + 1 < terms) {
      rounded = b.add(bits, word(0x8000));
    } else if (t < 2) {
      Val odd = b.op(Op::bit_and, b.op(Op::shr, bits, word(16)), word(1));
      rounded = b.add(b.add(bits, word(0x7fff)), odd);
    }
    rounded = b.op(Op::bit_and, rounded, word(0xffff0000));
    Val term = rounded;
    if (t == 0) {
      Val zero = b.eq(b.op(Op::bit_and, rounded, word(0x7fffffff)), word(0));
      Val lost = b.op(Op::bit_and, zero, b.ne(x, b.number(DType::f32, 0)));
      term = b.op(Op::bit_or, rounded, b.select(lost, word(0x10000), word(0)));
    }
    x = b.sub(x, b.bitcast(rounded, DType::f32));
    return term;
  };
  std::vector<Val> out;
  for (int t = 0; t < terms; ++t) {
    Val first = bits_of(low, t), second = bits_of(high, t);
    out.push_back(b.op(Op::bit_or, b.op(Op::shr, first, word(16)), second));
  }
  return out;
}

// Two bf16 as a word: their bits, which are their only term.
Val word_of_halves(atlas::BodyBuilder& b, Val low, Val high) {
  auto bits = [&](Val x) { return b.cast(b.bitcast(x, DType::u16), DType::u32); };
  return b.op(Op::bit_or, bits(low), b.op(Op::shl, bits(high), b.constant(DType::u32, 16)));
}

// Where the panels' columns come from: panel [axis `at`] is of part [axis `at` + 1] where there are
// parts.
Expr column_of_panel(const Context& cx, const Index& at, size_t panel, int width,
                     const Expr& inside, Expr& in_part) {
  in_part = at[panel] * Expr(width) + inside;
  return cx.cluster.parts > 1 ? at[panel + 1] * cx.cluster.column.extent + in_part : in_part;
}

// The axes of panels: one, or blocks of columns and parts.
Shape panel_axes(const Context& cx, const Expr& n, int width) {
  if (cx.cluster.parts == 1) return {ceil_div(n, Expr(width))};
  return {ceil_div(cx.cluster.column.extent, Expr(width)), Expr(cx.cluster.parts)};
}

// Whether neighbours along the columns lie side by side in memory, or are computed row by row: then
// the steps of k are walked outside of the panels, so that whole rows are read on their few pages.
bool lies_along_columns(const Context& cx, Value rhs) {
  Value v = rhs;
  while (is_view(v)) v = v->input();
  return (!v->is(Op::parameter) && !cx.clustering.is_root(v)) ||
         lies_along(cx, rhs, rhs->rank() - 1);
}

// Axes in the order in which packed memory has them, from those of a loop whose steps of k, behind
// the batch, are outside of the panels.
Index panels_first(Index at, size_t batch, size_t panels) {
  auto step = at.begin() + static_cast<ptrdiff_t>(batch);
  std::rotate(step, step + 1, step + 1 + static_cast<ptrdiff_t>(panels));
  return at;
}

// Bytes of a column that lie together; columns whose words are a line of memory.
constexpr int64_t word = 4, line_words = 16;

bool is_made_of(const Context& cx, Value v, Value leaf) {
  if (v == leaf) return true;
  if (v->is(Op::parameter) || cx.clustering.is_root(v)) return false;
  return std::ranges::any_of(v->inputs, [&](Value in) { return is_made_of(cx, in, leaf); });
}

bool moves_or_casts(Value v) {
  const ir::OpKind kind = ir::info(v->op).kind;
  return kind == ir::OpKind::cast || kind == ir::OpKind::movement;
}

// Whether `v` is made of the bytes of `leaf` and constants alone, as whole numbers are.
bool is_numbers(const Context& cx, Value v, Value leaf) {
  if (v == leaf || v->is(Op::constant)) return true;
  constexpr Op arithmetic[] = {Op::add, Op::sub, Op::bit_and, Op::shr};
  const bool known =
      moves_or_casts(v) || std::ranges::find(arithmetic, v->op) != std::end(arithmetic);
  return known && !v->is(Op::parameter) && !cx.clustering.is_root(v) &&
         std::ranges::all_of(v->inputs, [&](Value in) { return is_numbers(cx, in, leaf); });
}

// Whether a weight is whole numbers of `leaf`, less a point that 32 bits hold exactly, times a
// scale, and a zero.
bool is_scaled_numbers(const Context& cx, Value rhs, Value leaf) {
  auto below = [&](Value v) {
    while (v != leaf && moves_or_casts(v) && v->inputs.size() == 1) v = v->input();
    return v;
  };
  // The operand that is made of the leaf, where the other one is not.
  auto part = [&](Value v) -> Value {
    if (v->inputs.size() != 2) return nullptr;
    const bool first = is_made_of(cx, v->input(0), leaf);
    if (first == is_made_of(cx, v->input(1), leaf)) return nullptr;
    return v->input(first ? 0 : 1);
  };
  Value v = below(rhs);
  if (v->is(Op::add) && part(v)) v = below(part(v));
  Value numbers = v->is(Op::mul) ? part(v) : nullptr;
  if (!numbers) return false;
  v = below(numbers);
  if (is_numbers(cx, v, leaf)) return true;
  const bool exact = is_float(v->dtype) || (v->dtype == DType::i32 && rhs->dtype == DType::f32);
  if (!exact || !(v->is(Op::add) || v->is(Op::sub))) return false;
  numbers = part(v);
  return numbers && (v->is(Op::add) || numbers == v->input(0)) && is_numbers(cx, numbers, leaf);
}

// step % word, of x / c as (x % (c word)) / c: what divides an axis divides nothing else.
Expr place_in_word(const Expr& step) {
  const Atom* a = step.as_atom();
  if (!a || a->kind != Atom::Kind::floor_div || !a->b->is_const()) return mod(step, Expr(word));
  return floor_div(mod(*a->a, *a->b * Expr(word)), *a->b);
}

// Copies a weight so that blocks of columns, which run along its axis `axis`, are densest; in words
// each line of them is a stream of its own.
Packed in_blocks(const Context& cx, Value leaf, size_t axis, int64_t columns, bool words) {
  const int64_t together = words ? line_words : columns;
  Shape shape{ceil_div(leaf->shape[axis], Expr(columns))};
  if (words) shape.push_back(Expr(columns / together));
  for (size_t i = 0; i < leaf->shape.size(); ++i)
    if (i != axis) shape.push_back(leaf->shape[i]);
  if (words) shape.back() = *shape.back().exact_div(Expr(word));
  shape.push_back(Expr(together));
  if (words) shape.push_back(Expr(word));
  int slot = cx.storage.temporary(leaf->dtype, shape, "blocks");
  Lowered kernel = cx.map_loop("blocks", shape, [&](Emitter& e, const Index& to) {
    const auto others = to.begin() + (words ? 2 : 1);
    Index from(others, others + static_cast<ptrdiff_t>(leaf->shape.size()) - 1);
    Expr column = to.front() * Expr(columns) + (words ? to[to.size() - 2] : to.back());
    if (words) {
      column = column + to[1] * Expr(together);
      from.back() = from.back() * Expr(word) + to.back();
    }
    from.insert(from.begin() + static_cast<ptrdiff_t>(axis), column);
    Val guard = e.within(column, leaf->shape[axis], {});
    e.store(slot, to, or_zero(e, guard, e.value(leaf, from, guard)));
  });
  kernel.cached = cx.storage.cache(slot, {static_cast<int>(leaf->attrs.ints[0])});
  return {std::move(kernel), slot};
}

}  // namespace

bool lies_along(const Context& cx, Value v, int axis) {
  Index at;
  for (const Expr& d : v->shape) at.push_back(Expr::axis(static_cast<int>(at.size()), d));
  for (; is_view(v); v = v->input()) at = input_index(v, 0, at);
  if (!v->is(Op::parameter) && !cx.clustering.is_root(v)) return false;
  const Shape& strides = cx.storage.slots[static_cast<size_t>(cx.storage.slot_of(v))].strides;
  auto step = offset_of(at, strides).linear_in_axis(axis);
  return step && step->first.is(1);
}

std::optional<std::pair<int, Index>> Blocks::find(Value v, const Index& index) const {
  auto it = of_.find(v);
  if (it == of_.end()) return std::nullopt;
  auto [slot, by, words] = it->second;
  const Expr column = mod(index[by], Expr(columns_)), part = floor_div(column, Expr(line_words));
  Index there{floor_div(index[by], Expr(columns_))};
  if (words) there.push_back(part);
  for (size_t i = 0; i < index.size(); ++i)
    if (i != by) there.push_back(index[i]);
  const Expr step = there.back();
  if (words) there.back() = floor_div(step, Expr(word));
  there.push_back(words ? column - part * Expr(line_words) : column);
  if (words) there.push_back(place_in_word(step));
  return std::pair(slot, there);
}

Packed pack_panels(const Context& cx, Value rhs, const Shape& batch, int width, int group) {
  size_t b = batch.size();
  Expr n = rhs->shape.back(), depth = rhs->shape[rhs->shape.size() - 2];
  Shape shape = batch, panels = panel_axes(cx, n, width);
  shape.insert(shape.end(), panels.begin(), panels.end());
  size_t deep = shape.size();
  shape.insert(shape.end(), {ceil_div(depth, group), Expr(width)});
  if (group > 1) shape.push_back(Expr(group));
  int slot = cx.storage.temporary(rhs->dtype, shape, "pack");
  Lowered kernel = cx.map_loop("pack", shape, [&](Emitter& e, const Index& at) {
    Index from(at.begin(), at.begin() + static_cast<ptrdiff_t>(b));
    Expr in_part, column = column_of_panel(cx, at, b, width, at[deep + 1], in_part);
    Expr row = at[deep];
    if (group > 1) row = row * Expr(group) + Expr(group - 1) - at[deep + 2];
    from.insert(from.end(), {row, column});
    Val guard = e.within(in_part, cx.cluster.parts > 1 ? cx.cluster.column.extent : n, {});
    if (group > 1) guard = e.within(row, depth, guard);
    e.store(slot, at, or_zero(e, guard, e.value(rhs, from, guard)));
  });
  return {std::move(kernel), slot};
}

Packed pack_words(const Context& cx, Value rhs, const Shape& batch, int width) {
  size_t b = batch.size();
  Expr n = rhs->shape.back(), depth = rhs->shape[rhs->shape.size() - 2];
  Shape shape = batch, panels = panel_axes(cx, n, width);
  shape.insert(shape.end(), panels.begin(), panels.end());
  size_t deep = shape.size();
  shape.insert(shape.end(), {ceil_div(depth, 4), Expr(width)});
  int slot = cx.storage.temporary(DType::u32, shape, "pack");
  // A line of memory has bytes of two panels: of so few rows all lines stay in the nearest cache.
  constexpr int64_t words = 4;
  const std::optional<Expr> steps = depth.exact_div(Expr(4 * words));
  const bool by_rows = steps && lies_along_columns(cx, rhs);
  Shape loops = shape;
  if (by_rows) {
    loops = batch;
    loops.push_back(*steps);
    loops.insert(loops.end(), panels.begin(), panels.end());
    loops.insert(loops.end(), {Expr(words), Expr(width)});
  }
  Lowered kernel = cx.map_loop("pack", loops, [&](Emitter& e, const Index& loop) {
    Index at = loop;
    if (by_rows) {
      at = panels_first(at, b, panels.size());
      at[deep] = at[deep] * Expr(words) + at[deep + 1];
      at.erase(at.begin() + static_cast<ptrdiff_t>(deep) + 1);
    }
    Expr in_part, column = column_of_panel(cx, at, b, width, at[deep + 1], in_part);
    atlas::BodyBuilder& body = e.builder();
    Val word;
    for (int j = 0; j < 4; ++j) {  // the first one uppermost
      Index from(at.begin(), at.begin() + static_cast<ptrdiff_t>(b));
      Expr row = at[deep] * Expr(4) + Expr(j);
      from.insert(from.end(), {row, column});
      Val guard = e.within(
          row, depth, e.within(in_part, cx.cluster.parts > 1 ? cx.cluster.column.extent : n, {}));
      Val v = or_zero(e, guard, e.value(rhs, from, guard));
      v = body.cast(rhs->dtype == DType::u8 ? v : body.bitcast(v, DType::u8), DType::u32);
      word =
          j == 0 ? v : body.op(Op::bit_or, body.op(Op::shl, word, body.constant(DType::u32, 8)), v);
    }
    e.store(slot, at, word);
  });
  return {std::move(kernel), slot};
}

Packed pack_planes(const Context& cx, Value rhs) {
  constexpr int64_t unit = 8;
  const Expr depth = rhs->shape[0], columns = rhs->shape[1];
  const Expr row = ceil_div(depth, Expr(unit)) * Expr(unit);
  const int slot = cx.storage.temporary(DType::bf16, {Expr(3), columns, row}, "planes");
  Lowered kernel = cx.map_loop("planes", {columns, row}, [&](Emitter& e, const Index& at) {
    atlas::BodyBuilder& b = e.builder();
    auto word = [&](uint64_t bits) { return b.constant(DType::u32, bits); };
    auto is_finite = [&](Val x) {
      return b.lt(b.op(Op::bit_and, b.bitcast(x, DType::u32), word(0x7fffffff)), word(0x7f800000));
    };
    const Val guard = e.within(at[1], depth, {});
    const Val x = or_zero(e, guard, e.value(rhs, {at[1], at[0]}, guard)), finite = is_finite(x);
    // What would become infinite is cut instead.
    const Val rounded = b.cast(b.cast(x, DType::bf16), DType::f32);
    const Val cut =
        b.bitcast(b.op(Op::bit_and, b.bitcast(x, DType::u32), word(0xffff0000)), DType::f32);
    const Val high = b.select(finite, b.select(is_finite(rounded), rounded, cut), rounded);
    Val rest = b.select(finite, b.sub(x, high), b.number(DType::f32, 0));
    e.store(slot, {Expr(0), at[0], at[1]}, b.cast(high, DType::bf16));
    const Val middle = b.cast(rest, DType::bf16);
    e.store(slot, {Expr(1), at[0], at[1]}, middle);
    rest = b.sub(rest, b.cast(middle, DType::f32));
    e.store(slot, {Expr(2), at[0], at[1]}, b.cast(rest, DType::bf16));
  });
  return {std::move(kernel), slot};
}

Val unpack_planes(Emitter& e, int slot, const Expr& k, const Expr& n) {
  Val sum;
  for (int64_t t = 3; t-- > 0;) {
    atlas::BodyBuilder& b = e.builder();
    Val term = e.convert(e.read(slot, {Expr(t), n, k}), DType::f32);
    if (t == 0) term = b.op(Op::neg, b.op(Op::neg, term));
    sum = t == 2 ? term : b.add(sum, term);
  }
  return sum;
}

std::optional<Blocks> keep_narrow(const Context& cx, Value rhs, bool few_rows,
                                  const atlas::ProductBlock& product, std::vector<Lowered>& out) {
  size_t rank = rhs->shape.size();
  Index at;
  for (const Expr& d : rhs->shape) {
    if (!d.is_const()) return std::nullopt;
    at.push_back(Expr::axis(static_cast<int>(at.size()), d));
  }
  std::map<Value, std::vector<Index>> uses;
  cx.clustering.walk(
      rhs, at, [&](Value leaf, const Index& index) { uses[leaf].push_back(index); },
      [](Value) { return false; });
  int64_t bytes = 0;
  Value largest = nullptr;
  auto bytes_of = [](Value v) { return numel(v->shape).constant_value() * size_of(v->dtype); };
  for (auto& [leaf, index] : uses) {
    if (!numel(leaf->shape).is_const()) return std::nullopt;
    bytes += bytes_of(leaf);
    if (!largest || bytes_of(leaf) > bytes_of(largest)) largest = leaf;
  }
  // Few rows wait for memory: of 16 bits bytes and their scales are less, too.
  const bool halves = few_rows && size_of(rhs->dtype) == 2;
  const int64_t whole = numel(rhs->shape).constant_value() * size_of(rhs->dtype);
  bool fits = largest && bytes * 8 <= whole * (halves ? 5 : 4);
  if (!fits || largest == rhs || !(is_int(largest->dtype) || few_rows)) return std::nullopt;

  int column = static_cast<int>(rank) - 1;
  auto is_column = [&](const Expr& e) {
    const Atom* a = single_axis(e);
    return a && a->id == column;
  };
  // The axis of a weight that is the column in every use.
  auto column_axis = [&](const std::vector<Index>& indices) -> std::optional<size_t> {
    std::optional<size_t> found;
    for (const Index& index : indices)
      for (size_t i = 0; i < index.size(); ++i) {
        if (!index[i].has_axis(column)) continue;
        if (!is_column(index[i]) || (found && *found != i)) return std::nullopt;
        found = i;
      }
    return found;
  };
  // Whether vectors of columns lie side by side in memory already (some of them are tried).
  const int64_t vector = cx.options.machine->vector;
  auto in_order = [&](Value leaf, const std::vector<Index>& indices) {
    const Shape& strides = cx.storage.slots[static_cast<size_t>(cx.storage.slot_of(leaf))].strides;
    std::vector<int64_t> axes(rank, 0);
    for (const Index& index : indices) {
      Expr offset = offset_of(index, strides);
      int64_t columns =
          std::min<int64_t>(rhs->shape.back().constant_value() / vector * vector, 16 * vector);
      for (int64_t n = 0; n < columns; ++n) {
        auto value = [&](int64_t c) {
          axes.back() = c;
          return offset.eval({}, axes);
        };
        if (n % vector && value(n) != value(n - 1) + 1) return false;
      }
    }
    return true;
  };
  std::vector<std::pair<Value, size_t>> copies;
  for (auto& [leaf, indices] : uses) {
    bool depends = std::ranges::any_of(indices, [&](const Index& index) {
      return std::ranges::any_of(index, [&](const Expr& e) { return e.has_axis(column); });
    });
    if (!depends) continue;
    auto axis = column_axis(indices);
    if (axis && (leaf == largest || !in_order(leaf, indices)))
      copies.emplace_back(leaf, *axis);
    else if (!axis && !in_order(leaf, indices))
      return std::nullopt;
  }
  const int64_t numbers = numel(rhs->shape).constant_value();
  const int64_t of_bytes = cx.options.machine->byte_columns;
  const bool bytewise = of_bytes && bytes_of(largest) == numbers;
  int64_t side_by_side = bytewise ? of_bytes : 4 * vector;
  // Whether four bytes follow each other along k.
  auto in_words = [&](size_t axis) {
    const size_t last = largest->shape.size() - (axis + 1 == largest->shape.size() ? 2 : 1);
    return largest->shape.size() > 1 && largest->shape[last].constant_value() % word == 0;
  };
  // Whether scales and zeros are the same for 16 or more of k.
  auto by_segments = [&](const auto& use) {
    return use.first == largest || std::ranges::all_of(use.second, [&](const Index& index) {
             return std::ranges::all_of(index, [&](const Expr& e) {
               const Atom* a = e.as_atom();
               return !e.has_axis(column - 1) ||
                      (a && a->kind == Atom::Kind::floor_div && a->b->is_const() &&
                       a->b->constant_value() % 16 == 0);
             });
           });
  };
  int64_t of_words = 0;
  const auto copied = std::ranges::find(copies, largest, &std::pair<Value, size_t>::first);
  if (is_int(largest->dtype) && size_of(largest->dtype) == 1 && copied != copies.end() &&
      in_words(copied->second) && is_scaled_numbers(cx, rhs, largest) &&
      std::ranges::all_of(uses, by_segments))
    of_words = cx.options.machine->word_columns(product,
                                                static_cast<int>(8 * bytes_of(largest) / numbers));
  if (of_words) side_by_side = of_words;
  Blocks blocks(side_by_side);
  for (auto& [leaf, axis] : copies) {
    const bool words = of_words && leaf == largest;
    Packed made = in_blocks(cx, leaf, axis, side_by_side, words);
    blocks.add(leaf, made.slot, axis, words);
    out.push_back(std::move(made.kernel));
  }
  return blocks;
}

atlas::Body unrounded(const atlas::Body& body) {
  using atlas::Code, atlas::ValueId;
  auto casts = [&](ValueId id, DType from) {
    const atlas::Instr& i = body.instrs[id];
    return i.code == Code::arithmetic && i.op == Op::cast && i.from == from;
  };
  auto rounds = [&](ValueId id) {
    if (!casts(id, DType::f32) || size_of(body.instrs[id].type) != 2) return false;
    const atlas::Instr& x = body.instrs[body.instrs[id].args[0]];
    return x.code == Code::arithmetic &&
           (x.op == Op::add || x.op == Op::sub || x.op == Op::mul ||
            (x.op == Op::cast && is_int(x.from) && size_of(x.from) == 1));
  };
  atlas::Rewriting out(body);
  const auto last = static_cast<ValueId>(body.instrs.size() - 1);
  for (ValueId id = 0; id <= last; ++id) {
    const ValueId rounded = body.instrs[id].args[0];
    const bool widens = casts(id, DType::bf16) || casts(id, DType::f16);
    if (widens && rounds(rounded))
      out.alias(id, out.place(body.instrs[rounded].args[0]));
    else
      out.put(id, out.renamed(id));
  }
  const ValueId result = out.place(last);
  return atlas::without_dead(out.take(), result);
}

Packed pack_terms(const Context& cx, Value rhs, const Shape& batch, int width, int terms) {
  size_t b = batch.size();
  Expr n = rhs->shape.back(), depth = rhs->shape[rhs->shape.size() - 2];
  Shape shape = batch, loops = batch;
  Shape panels = panel_axes(cx, n, width);
  Expr steps = ceil_div(depth, 32);
  const bool by_rows = lies_along_columns(cx, rhs);
  if (by_rows) loops.push_back(steps);
  for (Shape* s : {&shape, &loops}) s->insert(s->end(), panels.begin(), panels.end());
  size_t deep = shape.size();
  shape.insert(shape.end(), {steps, Expr(terms), Expr(16), Expr(width)});
  if (!by_rows) loops.push_back(steps);
  loops.insert(loops.end(), {Expr(16), Expr(width)});
  int slot = cx.storage.temporary(DType::u32, shape, "pack");
  Lowered kernel = cx.map_loop("pack", loops, [&](Emitter& e, const Index& loop) {
    const Index at = by_rows ? panels_first(loop, b, panels.size()) : loop;
    Expr in_part, column = column_of_panel(cx, at, b, width, at[deep + 2], in_part);
    auto value = [&](int64_t of_pair) {
      Expr row = at[deep] * Expr(32) + at[deep + 1] * Expr(2) + Expr(of_pair);
      Index from(at.begin(), at.begin() + static_cast<ptrdiff_t>(b));
      from.insert(from.end(), {row, column});
      Val guard = e.within(
          row, depth, e.within(in_part, cx.cluster.parts > 1 ? cx.cluster.column.extent : n, {}));
      Val v = e.value(rhs, from, guard);
      return or_zero(e, guard, v.type == DType::bf16 ? v : e.convert(v, DType::f32));
    };
    Val low = value(0), high = value(1);
    auto words = rhs->dtype == DType::bf16 ? std::vector{word_of_halves(e.builder(), low, high)}
                                           : term_words(e.builder(), low, high, terms);
    for (int t = 0; t < terms; ++t) {
      Index to(at.begin(), at.begin() + static_cast<ptrdiff_t>(deep) + 1);
      to.insert(to.end(), {Expr(t), at[deep + 1], at[deep + 2]});
      e.store(slot, to, words[static_cast<size_t>(t)]);
    }
  });
  return {std::move(kernel), slot};
}

}  // namespace hologram::schedule

// ir/sizes.cpp: whether a graph is right for given sizes.
#include "ir/sizes.h"

#include <algorithm>
#include <optional>
#include <random>

#include "base/expr_format.h"

namespace hologram::ir {
namespace {

constexpr int64_t most_elements = int64_t{1} << 48;
constexpr size_t most_kept = 4096;  // sets of sizes that SizeCheck remembers

Shape with_numbers(const Shape& dims, std::span<const int64_t> symbols) {
  Shape out;
  for (const Expr& e : dims) {
    // Not eval(): arithmetic of expressions refuses to overflow.
    Expr n = e.substitute([&](const Atom& a) -> std::optional<Expr> {
      if (a.kind != Atom::Kind::symbol || static_cast<size_t>(a.id) >= symbols.size())
        return std::nullopt;
      return Expr(symbols[static_cast<size_t>(a.id)]);
    });
    out.push_back(std::move(n));
  }
  return out;
}

void require_elements(const Shape& shape) {
  __int128 n = 1;
  for (const Expr& e : shape) {
    require(e.is_const(), "{} has no value for these sizes", e);
    require(e.constant_value() >= 0, "the shape {} has a negative size", shape);
    n *= std::max<int64_t>(e.constant_value(), 1);
    require(n <= most_elements, "the shape {} has more than 2^48 elements", shape);
  }
}

bool has_elements(const Shape& shape) {
  return std::ranges::none_of(shape, [](const Expr& e) { return e.is(0); });
}

void require_something(const Shape& from, const Shape& taken) {
  require(has_elements(from) || !has_elements(taken), "take: there is nothing to take {} from {}",
          taken, from);
}

// Of a graph without symbols, whose nodes are made for the only sizes that it has.
void check_the_sizes(const Graph& graph) {
  for (Value v : live_nodes(graph)) {
    require_elements(v->shape);
    if (v->is(Op::take)) require_something(v->input(0)->shape, v->shape);
  }
}

}  // namespace

void check_sizes(const Graph& graph, std::span<const int64_t> symbols) {
  if (graph.num_symbols == 0) return check_the_sizes(graph);
  Graph numbered;
  std::vector<Value> copies(graph.nodes().size());
  for (Value v : live_nodes(graph)) {
    Attrs attrs = v->attrs;
    attrs.exprs = with_numbers(attrs.exprs, symbols);
    Shape shape = with_numbers(v->shape, symbols);
    require_elements(shape);
    std::vector<Value> inputs;
    for (Value input : v->inputs) inputs.push_back(copies[input->id]);
    if (v->is(Op::take)) require_something(inputs[0]->shape, shape);
    copies[v->id] =
        numbered.make(v->op, std::move(inputs), std::move(attrs), v->dtype, std::move(shape));
  }
}

void require_right_sizes(const Graph& graph) {
  constexpr int sets = 200, most_bits = 16;
  std::mt19937 random(1);
  std::string reason;
  std::vector<int64_t> sizes(static_cast<size_t>(graph.num_symbols));
  for (int i = 0; i < sets; ++i) {
    // powers of two for all, then numbers of any length for each
    for (int64_t& n : sizes)
      n = i < most_bits ? int64_t{1} << i : 1 + random() % (1u << random() % most_bits);
    try {
      return check_sizes(graph, sizes);
    } catch (const Error& e) {
      if (reason.empty()) reason = e.what();
    }
  }
  fail(ErrorCode::invalid_argument, "the graph is right for no sizes: {}", reason);
}

SizeCheck::SizeCheck(const Graph& graph, std::string subject) : subject_(std::move(subject)) {
  if (graph.num_symbols == 0)
    check_sizes(graph, {});
  else
    graph_ = std::make_unique<const Graph>(graph);
}

void SizeCheck::check(std::span<const int64_t> symbols) const {
  if (!graph_) return;
  symbols = symbols.first(static_cast<size_t>(graph_->num_symbols));
  {
    std::lock_guard lock(mutex_);
    if (std::ranges::equal(symbols, latest_)) return;
  }
  std::vector<int64_t> sizes(symbols.begin(), symbols.end());
  {
    std::lock_guard lock(mutex_);
    if (right_.contains(sizes)) {
      latest_ = std::move(sizes);
      return;
    }
  }
  try {
    check_sizes(*graph_, sizes);
  } catch (const Error& e) {
    fail(ErrorCode::invalid_argument, "{} is not for these sizes: {}", subject_, e.what());
  }
  std::lock_guard lock(mutex_);
  if (right_.size() == most_kept) right_.clear();
  latest_ = sizes;
  right_.insert(std::move(sizes));
}

}  // namespace hologram::ir

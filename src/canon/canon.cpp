// canon/canon.cpp: the passes of the canonical form.
#include "canon/canon.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "canon/terms.h"

namespace hologram::canon {
namespace {

const std::vector<Rule>& all_rules() {
  static const std::vector<Rule> rules = [] {
    std::vector<Rule> all;
    for (auto set : {empty_rules, arithmetic_rules, logic_rules, cast_rules, movement_rules,
                     slice_rules, hoist_rules, reduce_rules, index_rules, function_rules}) {
      std::vector<Rule> some = set();
      std::move(some.begin(), some.end(), std::back_inserter(all));
    }
    return all;
  }();
  return rules;
}

std::vector<const Rule*> rules_for(const Options& options) {
  std::vector<const Rule*> out;
  for (const Rule& r : all_rules()) {
    if ((r.flags & only_fast) && !options.fast) continue;
    if ((r.flags & changes_order) && options.reproducible) continue;
    out.push_back(&r);
  }
  return out;
}

size_t count_operations(const ir::Graph& g) {
  size_t n = 0;
  for (Value v : ir::live_nodes(g)) n += ir::info(v->op).kind != ir::OpKind::leaf;
  return n;
}

// Copies the live nodes of `in` to `out`, each passed through `finish`. `origins`: by node of `in`,
// and afterwards of `out`, the node that it goes back to.
template <class F>
void transfer(const ir::Graph& in, ir::Graph& out, std::vector<uint32_t>& origins, F finish) {
  std::vector<uint32_t> after;
  Terms terms{out};
  std::vector<Value> made(in.nodes().size());
  for (Value v : ir::live_nodes(in)) {
    std::vector<Value> operands;
    for (Value x : v->inputs) operands.push_back(made[x->id]);
    bool leaf = operands.empty() && ir::info(v->op).kind == ir::OpKind::leaf;
    made[v->id] = finish(leaf ? out.make(v->op, {}, v->attrs, v->dtype, v->shape)
                              : terms.rebuild(v, std::move(operands)));
    after.resize(out.nodes().size(), origins[v->id]);
  }
  origins = std::move(after);
  for (const ir::Output& o : in.outputs)
    out.outputs.push_back({made[o.value->id], o.strides, o.parameter});
  out.num_symbols = std::max(out.num_symbols, in.num_symbols);
  out.num_parameters = std::max(out.num_parameters, in.num_parameters);
}

// Rules to a fixed point.
void rewrite_pass(const ir::Graph& in, ir::Graph& out, Report& report, const Options& options) {
  Terms terms{out};
  rewrite::Rewriter<Terms> rewriter(terms, rules_for(options));
  transfer(in, out, report.origins, [&](Value v) { return rewriter.normalize(v); });
  for (const auto& [name, count] : rewriter.fired()) report.fired[name] += count;
  for (const auto& [name, count] : rewriter.refused()) report.refused[name] += count;
}

// Leaves out what no output needs.
void sweep_pass(const ir::Graph& in, ir::Graph& out, Report& report, const Options&) {
  transfer(in, out, report.origins, [](Value v) { return v; });
}

struct Pass {
  std::string_view name;
  void (*run)(const ir::Graph& in, ir::Graph& out, Report& report, const Options& options);
};

constexpr Pass passes[] = {
    {"rewrite", rewrite_pass},
    {"sweep", sweep_pass},
};

}  // namespace

void canonicalize(const ir::Graph& in, ir::Graph& out, Report& report, const Options& options) {
  report.nodes_before = count_operations(in);
  report.origins.resize(in.nodes().size());
  std::iota(report.origins.begin(), report.origins.end(), 0u);
  constexpr size_t n = std::size(passes);
  ir::Graph between[n - 1];
  for (size_t i = 0; i < n; ++i) {
    passes[i].run(i == 0 ? in : between[i - 1], i + 1 == n ? out : between[i], report, options);
    report.passes.push_back(passes[i].name);
  }
  report.nodes_after = count_operations(out);
}

std::vector<std::string_view> rule_names() {
  std::vector<std::string_view> names;
  for (const Rule& r : all_rules()) names.push_back(r.name);
  return names;
}

}  // namespace hologram::canon

// backend/webgpu/wgsl/teams.cpp: what the threads of a workgroup have, joined to one value.
#include "backend/webgpu/wgsl/teams.h"

#include <algorithm>

#include "backend/webgpu/wgsl/body.h"

namespace hologram::webgpu::wgsl {
namespace {

using ir::Op;

// What subgroups join: numbers of 32 bits, which are held as they are.
bool joined_by_subgroups(DType type) {
  return type == DType::f32 || type == DType::i32 || type == DType::u32;
}

// Over a subgroup's active threads. The built-ins may take NaN for absent where they compare
// floats, so these are compared as numbers of the same order.
std::string over_subgroup(Unit& unit, Op reduce, DType type, const std::string& x) {
  if (reduce == Op::reduce_sum) return fmt::format("subgroupAdd({})", x);
  if (reduce == Op::reduce_prod) return fmt::format("subgroupMul({})", x);
  const std::string_view name = reduce == Op::reduce_max ? "subgroupMax" : "subgroupMin";
  if (type != DType::f32) return fmt::format("{}({})", name, x);
  return fmt::format("{}({}({}({}, {})))", unit.helper("from_order"), name, unit.helper("in_order"),
                     x, reduce == Op::reduce_max ? "0xffffffffu" : "0u");
}

// Which threads are a subgroup, and in what order, is the adapter's: WGSL promises no more than
// that the active ones work together. So each subgroup's first one leaves its sum in a cell of its
// own, and all cells are read by every subgroup, as many at once as it has threads.
void join_by_subgroups(Unit& unit, Op reduce, DType type, const std::string& name,
                       const std::string& cells) {
  const std::string identity = identity_text(unit, reduce, type);
  const std::string rank = unit.fresh("rank"), each = unit.fresh("each"), k = unit.fresh("k");
  unit.line("workgroupBarrier();");  // threads that left a loop early are waited for
  unit.line("let {} = subgroupExclusiveAdd(1u);", rank);
  unit.line("let {} = subgroupAdd(1u);", each);
  unit.line("{} = {};", name, over_subgroup(unit, reduce, type, name));
  unit.line("{}[lane] = select({}, {}, {} == 0u);", cells, identity, name, rank);
  unit.line("workgroupBarrier();");
  unit.line("{} = {};", name, identity);
  unit.block(
      [&] {
        const std::string cell = fmt::format("{}[{} + {}]", cells, k, rank);
        unit.line("if ({} + {} < {}u) {{ {} = {}; }}", k, rank, workgroup, name,
                  combine_text(unit, reduce, type, name, cell));
      },
      "for (var {} = 0u; {} < {}u; {} = {} + {})", k, k, workgroup, k, k, each);
  unit.line("{} = {};", name, over_subgroup(unit, reduce, type, name));
}

void join_by_halves(Unit& unit, Op reduce, DType type, const std::string& name,
                    const std::string& cells) {
  unit.line("{}[lane] = {};", cells, name);
  write_halving(unit, [&](const std::string& other) {
    unit.line("{}[lane] = {};", cells,
              combine_text(unit, reduce, type, cells + "[lane]",
                           fmt::format("{}[{}]", cells, other)));
  });
  unit.line("{} = {}[0];", name, cells);
}

}  // namespace

void join_threads(Unit& unit, Op reduce, DType type, const std::string& name) {
  const std::string cells = unit.shared("cells", type, workgroup);
  if (!joined_by_subgroups(type)) return join_by_halves(unit, reduce, type, name, cells);
  unit.with_subgroups([&] { join_by_subgroups(unit, reduce, type, name, cells); });
  unit.without_subgroups([&] { join_by_halves(unit, reduce, type, name, cells); });
}

std::string with_subgroups(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.ends_with(without_mark)) continue;
    const size_t begin = line.find_first_not_of(' ');
    if (begin != line.npos && line.substr(begin).starts_with(with_mark))
      line.remove_prefix(begin + with_mark.size());
    out += line;
    out += '\n';
  }
  return out;
}

}  // namespace hologram::webgpu::wgsl

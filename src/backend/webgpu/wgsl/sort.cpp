// backend/webgpu/wgsl/sort.cpp: the order of rows: each element counts those in front of it.
#include "backend/webgpu/wgsl/blocks.h"
#include "base/error.h"

namespace hologram::webgpu::wgsl {

void write_block(Unit& unit, const atlas::SortBlock& b) {
  const auto rank = static_cast<size_t>(b.batch_rank), element = rank, place = rank + 1;
  const DType type = is_float(b.key_type) ? DType::u32 : b.key_type;
  Scope scope;
  // The key of one element: of floats a number in their order, NaN the largest.
  auto key = [&](const std::string& number) {
    scope.axes[static_cast<int>(element)] = number;
    BodyWriter writer(unit, scope);
    writer.write(b.key);
    return is_float(b.key_type) ? fmt::format("{}({})", unit.helper("order_of"), writer.last())
                                : writer.last();
  };
  auto compare = [&](ir::Op op, const std::string& x, const std::string& y) {
    return arithmetic_text(unit, op, type, type, {x, y});
  };
  unit.entry("main", gpu::points_of(b.axes, 0, b.batch_rank + 1), workgroup, false, [&] {
    write_coordinates(unit, scope, b.axes, 0, element + 1, "unit");
    const std::string own = scope.axes[static_cast<int>(element)];
    unit.line("var own: {};", held_as(type));
    unit.block([&] { unit.line("own = {};", key(own)); }, "");
    unit.line("var place = 0;");
    unit.block(
        [&] {
          unit.line("let other: {} = {};", held_as(type), key("j"));
          const std::string before = b.descending ? compare(ir::Op::lt, "own", "other")
                                                  : compare(ir::Op::lt, "other", "own");
          unit.line("if ({} || (j < {} && {})) {{ place = place + 1; }}", before, own,
                    compare(ir::Op::eq, "other", "own"));
        },
        "for (var j = 0; j < {}; j = j + 1)", index_text(unit, b.axes[element].extent, scope));
    scope.axes[static_cast<int>(place)] = "place";
    scope.axes.erase(static_cast<int>(element));
    scope.accumulators = {fmt::format("{}({})", unit.helper("wide"), own)};
    if (b.first > 0) unit.line("place = place - {};", b.first);
    unit.block([&] { BodyWriter(unit, scope).write(b.epilogue); }, "if (place >= 0 && place < {})",
               index_text(unit, b.axes[place].extent, scope));
  });
  unit.set_rounds(b.axes[element].extent);
}

}  // namespace hologram::webgpu::wgsl

// backend/webgpu/wgsl/attention.h: what attention and its gradients have in common.
#pragma once

#include <initializer_list>
#include <utility>

#include "backend/webgpu/wgsl/blocks.h"
#include "gpu/attention.h"

namespace hologram::webgpu::wgsl {

/// A depth as a number. Throws Error(unsupported) for one that is not known, or too large.
int64_t depth_of(const Expr& depth);

/// How many columns each thread of a workgroup has.
inline int64_t columns_of(int64_t depth) { return (depth + workgroup - 1) / workgroup; }

/// The value of a body that sees what `scope` says and further axes.
std::string element(Unit& unit, Scope scope, const atlas::Body& body,
                    std::initializer_list<std::pair<size_t, std::string>> axes);

/// score = `scale` times the product of two vectors, whose elements at "d" are written by `a` and
/// `b`; declares "dot" and "scaled".
template <class A, class B>
void write_score(Unit& unit, int64_t depth, double scale, A&& a, B&& b) {
  unit.line("var dot = 0.0;");
  unit.block(
      [&] {
        const std::string x = a(), y = b();
        unit.line("dot = fma({}, {}, dot);", x, y);
      },
      "for (var d = 0; d < {}; d = d + 1)", depth);
  unit.line("let scaled = dot * {};",
            constant_text(unit, DType::f32, std::bit_cast<uint32_t>(static_cast<float>(scale))));
}

/// "begin" and "behind": the keys that a query sees. No others count: what a causal one and its
/// score's body leave out for certain.
void write_key_range(Unit& unit, const Scope& scope, size_t query, const Expr& keys,
                     const atlas::KeyBounds& bounds, bool causal);

/// Whether a float's text is minus infinity.
inline std::string is_lowest(std::string_view x) {
  return fmt::format("bitcast<u32>({}) == 0xff800000u", x);
}

}  // namespace hologram::webgpu::wgsl

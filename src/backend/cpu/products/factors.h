// backend/cpu/products/factors.h: what of an operand's body depends on k, and what does not.
#pragma once

#include <optional>
#include <span>

#include "atlas/program.h"

namespace hologram::cpu {

/// The body with `axis` = outer * size + inner; quotients and remainders by multiples or divisors
/// of `size` are taken apart.
atlas::Body nested_axis(const atlas::Body& body, int axis, const Expr& outer, const Expr& inner,
                        int64_t size);

/// Whether all that an operand's body loads, at the last point of the batch and these coordinates
/// of the axes behind the product's, is without conditions and lies in the buffers.
bool reads_inside(const atlas::Program& program, const atlas::Body& body,
                  std::span<const int64_t> behind);

/// How k is taken apart by what a body divides it by: segments, a divisor of atlas::product_block,
/// and steps that share what they are taken from (two halves of a byte).
struct Steps {
  int64_t segment;
  int together;
};
Steps steps_of(const atlas::Body& body, int axis);

/// A body as value * scale + zero, of which only the value depends on an axis; without a scale or
/// a zero where that is empty.
struct Factors {
  atlas::Body value, scale, zero;
};
/// nullopt where coordinates are values, and where the body is not of float32.
std::optional<Factors> take_factors(const atlas::Body& body, int axis);

/// The same with a value v in place of v - p or v + p, of float32 or of numbers of 32 bits: what
/// p, the same along `axis`, times the scale gives goes to the zero. nullopt for other values.
std::optional<Factors> take_point(const Factors& f, int axis);

}  // namespace hologram::cpu

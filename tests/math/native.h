// tests/math/native.h: the elementary functions evaluated natively, many values at a time.
#pragma once

#include <span>
#include <vector>

#include "ir/op.h"

namespace hologram::atlas::math {

/// What the sequence for `op` gives for each x (and y): the same bits as on every backend.
std::vector<float> evaluate(ir::Op op, std::span<const float> x);
std::vector<double> evaluate(ir::Op op, std::span<const double> x);
std::vector<float> evaluate(ir::Op op, std::span<const float> x, std::span<const float> y);
std::vector<double> evaluate(ir::Op op, std::span<const double> x, std::span<const double> y);

}  // namespace hologram::atlas::math

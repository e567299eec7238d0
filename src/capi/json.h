// capi/json.h: JSON arrays of numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace hologram::capi {

/// Parses an array of exactly `length` numbers into elements of `dtype` at `out`, correctly
/// rounded. NaN, Infinity and -Infinity may stand as such or as strings, null is NaN, true and
/// false are 1 and 0. Integer types take integers in range only. Throws Error(invalid_argument)
/// with the position.
void parse_elements(std::string_view json, DType dtype, uint64_t length, std::byte* out);

/// The elements as an array; parse_elements gives the same values back. NaN and infinities are
/// written as NaN, Infinity, -Infinity.
std::string write_elements(DType dtype, uint64_t length, const std::byte* data);

/// An array of integers of at most `limit` entries.
std::vector<int64_t> parse_integers(std::string_view json, size_t limit);
std::string write_integers(const std::vector<int64_t>& values);

}  // namespace hologram::capi

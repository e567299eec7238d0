// backend/cpu/products/digit_words.h: bytes of weights, and vectors of sums, by words of columns.
#pragma once

#include <vector>

#include "backend/cpu/function.h"

namespace hologram::cpu {

/// From four vectors of columns in their order to that of words, and back: word i of group g of
/// four in vector v is column 16 g + 4 v + i.
std::vector<Value*> as_words(CpuFunction& k, const std::vector<Value*>& t);
std::vector<Value*> in_order(CpuFunction& k, const std::vector<Value*>& t);

/// A vector of all columns as four.
std::vector<Value*> quarters(CpuFunction& k, Value* x);

/// Four rows of bytes as words of a byte of each.
std::vector<Value*> zipped(CpuFunction& k, const std::vector<Value*>& rows);

/// The low halves of all bytes, then the high ones.
std::vector<Value*> halves_of(CpuFunction& k, const std::vector<Value*>& bytes);

/// The numbers of words in pairs of 16 bits: the bytes' first and third, second and fourth; of
/// halves, which lie where they are and are 1, 16, 1, 16 times as much: the low and the high ones
/// of the first and third byte, and of the others.
std::vector<Value*> pairs_of(CpuFunction& k, Value* words, bool halves, bool is_signed);

}  // namespace hologram::cpu

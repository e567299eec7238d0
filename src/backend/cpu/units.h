// backend/cpu/units.h: a kernel's work in units, how the runtime may split it, and how it is
// stored.
#pragma once

#include <string>
#include <string_view>

#include "base/expr.h"

namespace hologram::cpu {

/// How the runtime splits a kernel's work.
struct Launch {
  Expr total;      ///< parallel units
  Expr grain = 1;  ///< chunk boundaries fall on multiples of this (in units)
  Expr unit_work;  ///< rough cost of one unit on one core with its data in cache, in picoseconds
};

struct Object {
  std::string code;  ///< relocatable ELF object with one function, no undefined symbols
  Launch launch;
};

/// A launch as text, which parse_launch() reads for a program of `num_symbols` symbols; that throws
/// Error(corrupt) for any other text.
std::string str(const Launch& launch);
Launch parse_launch(std::string_view text, int num_symbols);

/// An object and its launch in one string.
std::string to_stored(const Object& object);

struct StoredObject {
  std::string_view code;  ///< part of the string that was read
  Launch launch;
};
/// Reads what to_stored() wrote for a program of `num_symbols` symbols. Throws Error(corrupt).
StoredObject from_stored(std::string_view bytes, int num_symbols);

}  // namespace hologram::cpu

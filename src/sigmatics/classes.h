// sigmatics/classes.h: the 96 classes of a byte, their transforms and belt addresses.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace hologram::sigmatics {

inline constexpr int num_classes = 96;
inline constexpr int num_pages = 48;
inline constexpr int bytes_per_page = 256;
inline constexpr int floats_per_class = num_pages * bytes_per_page / 4;
inline constexpr int belt_size = num_pages * bytes_per_page;

/// A class's components: quadrant h2 in 0..3, modality d in 0..2 (neutral, produce, consume),
/// context l in 0..7.
struct Parts {
  int h2, d, l;
  bool operator==(const Parts&) const = default;
};

/// 24 h2 + 8 d + l. Throws Error(invalid_argument) for a component out of range.
int class_index(Parts parts);
/// The inverse of class_index. Like every function of a class: Error(invalid_argument) outside
/// 0..95.
Parts parts_of(int64_t cls);

/// The class of a byte: h2 from bits 7 and 6, d from bits 4 and 5, l from bits 3, 2 and 1; bit 0
/// does not count.
int class_of_byte(int64_t byte);
/// The least byte of a class: 64 h2 + {0, 16, 32}[d] + 2 l.
int canonical_byte(int64_t cls);
/// All bytes of a class, ascending: 4 when d is 0, else 2.
std::vector<int> members(int64_t cls);
/// Whether two bytes have the same class.
bool equivalent(int64_t byte, int64_t other);

/// 256 page + byte, for page 0..47 and byte 0..255.
int belt_address(int64_t page, int64_t byte);
struct BeltPlace {
  int page, byte;
  bool operator==(const BeltPlace&) const = default;
};
/// The inverse of belt_address.
BeltPlace belt_place(int64_t address);

/// Neighbouring classes that together hold a vector.
struct ClassRun {
  int first, count;
  bool operator==(const ClassRun&) const = default;
};
/// The run from class `first` that holds `length` float32 values, 3,072 in a class. Throws
/// Error(invalid_argument) for no values, or where the run does not fit.
ClassRun classes_for(int64_t length, int64_t first = 0);

/// d 1 <-> 2: what `~` does.
int modality_mirror(int64_t cls);
/// 95 - class.
int complement(int64_t cls);
/// The three classes with the same h2 and l, ascending.
std::array<int, 3> triality_orbit(int64_t cls);

/// "c21 (h₂=0, d=2, ℓ=5) → 0x2A"
std::string describe_class(int64_t cls);

/// An element of the group of 192 permutations that R, D, T and ~ generate: h2 + r, d + d', l + t
/// (mod 4, 3, 8), then ~ if `mirror`.
struct Transform {
  int r = 0, d = 0, t = 0;
  bool mirror = false;

  /// Shifts of any size are reduced.
  static Transform of(int64_t r, int64_t d, int64_t t, bool mirror);
  int operator()(int64_t cls) const;
  Transform inverse() const;
  bool operator==(const Transform&) const = default;
};

/// The transform that applies `inner`, then `outer`.
Transform compose(const Transform& outer, const Transform& inner);

}  // namespace hologram::sigmatics

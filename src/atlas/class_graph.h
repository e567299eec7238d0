// atlas/class_graph.h: the Atlas graph: 96 classes, 256 edges.
#pragma once

#include <cstdint>
#include <span>

namespace hologram::atlas {

inline constexpr int num_classes = 96;
inline constexpr int class_bytes = 12288;
inline constexpr int class_pages = 48;
inline constexpr int page_bytes = 256;
inline constexpr int64_t boundary_bytes = int64_t{num_classes} * class_bytes;
inline constexpr int num_phases = 768;

/// A class as its label: bits e1, e2, e3, e6, e7 and d45 in {-1, 0, 1}.
struct ClassLabel {
  int e1, e2, e3, d45, e6, e7;
  bool operator==(const ClassLabel&) const = default;
};

/// 48 e1 + 24 e2 + 12 e3 + 6 e6 + 3 e7 + (d45 + 1).
constexpr int class_index(const ClassLabel& l) {
  return 48 * l.e1 + 24 * l.e2 + 12 * l.e3 + 6 * l.e6 + 3 * l.e7 + l.d45 + 1;
}

/// The label of class 0 <= c < 96.
constexpr ClassLabel class_label(int c) {
  return {c / 48, c / 24 % 2, c / 12 % 2, c % 3 - 1, c / 6 % 2, c / 3 % 2};
}

/// e7 flipped: an involution without a fixed point, never an edge.
constexpr int class_mirror(int c) { return c / 3 % 2 ? c - 3 : c + 3; }

/// The two classes whose bits are all 0 with d45 = 0, up to the mirror.
constexpr bool in_unity_set(int c) { return c == 1 || c == 4; }

/// Classes that differ in one of e1, e2, e3, e6, or in d45 by one step; ascending. 5 of them where
/// d45 is ±1, else 6.
std::span<const uint8_t> class_neighbours(int c);

}  // namespace hologram::atlas

// atlas/class_graph.cpp: the neighbour table of the Atlas graph, from its definition.
#include "atlas/class_graph.h"

#include <algorithm>
#include <array>

namespace hologram::atlas {
namespace {

struct Neighbours {
  std::array<uint8_t, 6> list{};
  size_t degree = 0;
};

constexpr std::array<Neighbours, num_classes> make_table() {
  std::array<Neighbours, num_classes> table{};
  for (int c = 0; c < num_classes; ++c) {
    Neighbours& n = table[static_cast<size_t>(c)];
    auto add = [&](const ClassLabel& l) {
      n.list[n.degree++] = static_cast<uint8_t>(class_index(l));
    };
    ClassLabel l = class_label(c);
    for (int ClassLabel::*bit :
         {&ClassLabel::e1, &ClassLabel::e2, &ClassLabel::e3, &ClassLabel::e6}) {
      ClassLabel flipped = l;
      flipped.*bit = 1 - l.*bit;
      add(flipped);
    }
    for (int step : {-1, 1}) {
      ClassLabel moved = l;
      moved.d45 += step;
      if (moved.d45 >= -1 && moved.d45 <= 1) add(moved);
    }
    std::sort(n.list.begin(), n.list.begin() + static_cast<ptrdiff_t>(n.degree));
  }
  return table;
}

constexpr std::array<Neighbours, num_classes> neighbours_of_classes = make_table();

}  // namespace

std::span<const uint8_t> class_neighbours(int c) {
  const Neighbours& n = neighbours_of_classes[static_cast<size_t>(c)];
  return {n.list.data(), n.degree};
}

}  // namespace hologram::atlas

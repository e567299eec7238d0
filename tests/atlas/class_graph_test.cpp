// tests/atlas/class_graph_test.cpp: the Atlas graph against its definition and its published invariants.
#include "atlas/class_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace hologram::atlas {
namespace {

bool adjacent(int a, int b) {
  auto list = class_neighbours(a);
  return std::find(list.begin(), list.end(), b) != list.end();
}

TEST(ClassGraph, LabelsAndIndicesAreInverse) {
  for (int c = 0; c < num_classes; ++c) EXPECT_EQ(class_index(class_label(c)), c);
  EXPECT_EQ(class_index({0, 0, 0, -1, 0, 0}), 0);
  EXPECT_EQ(class_index({1, 1, 1, 1, 1, 1}), 95);
}

// Two classes are adjacent exactly where their labels differ by one step in one coordinate other than e7.
TEST(ClassGraph, AdjacencyIsTheDefinition) {
  for (int a = 0; a < num_classes; ++a)
    for (int b = 0; b < num_classes; ++b) {
      ClassLabel x = class_label(a), y = class_label(b);
      int bits = (x.e1 != y.e1) + (x.e2 != y.e2) + (x.e3 != y.e3) + (x.e6 != y.e6);
      int steps = std::abs(x.d45 - y.d45);
      EXPECT_EQ(adjacent(a, b), x.e7 == y.e7 && bits + steps == 1) << a << " " << b;
    }
}

TEST(ClassGraph, UnitySetIsOneAndItsMirror) {
  for (int c = 0; c < num_classes; ++c) EXPECT_EQ(in_unity_set(c), c == 1 || c == class_mirror(1)) << c;
}

}  // namespace
}  // namespace hologram::atlas

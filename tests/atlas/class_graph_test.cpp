// tests/atlas/class_graph_test.cpp: the Atlas graph against its definition and its published
// invariants.
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

TEST(ClassGraph, Has256EdgesAndItsDegrees) {
  int ends = 0, fives = 0, sixes = 0;
  for (int c = 0; c < num_classes; ++c) {
    size_t degree = class_neighbours(c).size();
    ends += static_cast<int>(degree);
    fives += degree == 5;
    sixes += degree == 6;
    EXPECT_EQ(degree, class_label(c).d45 == 0 ? 6u : 5u) << c;
  }
  EXPECT_EQ(ends, 2 * 256);
  EXPECT_EQ(fives, 64);
  EXPECT_EQ(sixes, 32);
}

TEST(ClassGraph, EdgesAreSymmetricAscendingAndWithoutLoops) {
  for (int c = 0; c < num_classes; ++c) {
    auto list = class_neighbours(c);
    EXPECT_TRUE(std::is_sorted(list.begin(), list.end()));
    for (int n : list) {
      EXPECT_NE(n, c);
      EXPECT_TRUE(adjacent(n, c)) << c << " " << n;
    }
  }
}

// Two classes are adjacent exactly where their labels differ by one step in one coordinate other
// than e7.
TEST(ClassGraph, AdjacencyIsTheDefinition) {
  for (int a = 0; a < num_classes; ++a)
    for (int b = 0; b < num_classes; ++b) {
      ClassLabel x = class_label(a), y = class_label(b);
      int bits = (x.e1 != y.e1) + (x.e2 != y.e2) + (x.e3 != y.e3) + (x.e6 != y.e6);
      int steps = std::abs(x.d45 - y.d45);
      EXPECT_EQ(adjacent(a, b), x.e7 == y.e7 && bits + steps == 1) << a << " " << b;
    }
}

TEST(ClassGraph, MirrorIsAnInvolutionAndNoEdge) {
  for (int c = 0; c < num_classes; ++c) {
    int m = class_mirror(c);
    EXPECT_EQ(std::abs(m - c), 3);
    EXPECT_EQ(class_mirror(m), c);
    EXPECT_FALSE(adjacent(c, m));
    EXPECT_EQ(class_neighbours(c).size(), class_neighbours(m).size());
  }
}

TEST(ClassGraph, UnitySetIsOneAndItsMirror) {
  for (int c = 0; c < num_classes; ++c) EXPECT_EQ(in_unity_set(c), c == 1 || c == class_mirror(1)) << c;
}

TEST(ClassGraph, KnownNeighbours) {
  auto list = [](int c) { return std::vector<int>(class_neighbours(c).begin(), class_neighbours(c).end()); };
  EXPECT_EQ(list(0), (std::vector<int>{1, 6, 12, 24, 48}));
  EXPECT_EQ(list(1), (std::vector<int>{0, 2, 7, 13, 25, 49}));
  EXPECT_EQ(list(95), (std::vector<int>{47, 71, 83, 89, 94}));
}

}  // namespace
}  // namespace hologram::atlas

// tests/sigmatics/classes_test.cpp: every law of the classes, over all of them.
#include "sigmatics/classes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace hologram::sigmatics {
namespace {

std::vector<Transform> group() {
  std::vector<Transform> out;
  for (int r = 0; r < 4; ++r)
    for (int d = 0; d < 3; ++d)
      for (int t = 0; t < 8; ++t)
        for (bool mirror : {false, true}) out.push_back({r, d, t, mirror});
  return out;
}

std::array<int, 96> permutation(const Transform& t) {
  std::array<int, 96> out{};
  for (int c = 0; c < num_classes; ++c) out[static_cast<size_t>(c)] = t(c);
  return out;
}

constexpr Transform turn(int k) { return {.r = k}; }
constexpr Transform triality(int k) { return {.d = k}; }
constexpr Transform twist(int k) { return {.t = k}; }
constexpr Transform mirrored{.mirror = true};

TEST(Classes, PartsAndIndexAreInverse) {
  for (int c = 0; c < num_classes; ++c) EXPECT_EQ(class_index(parts_of(c)), c);
  EXPECT_EQ(parts_of(21), (Parts{0, 2, 5}));
  EXPECT_EQ(parts_of(42), (Parts{1, 2, 2}));
  EXPECT_EQ(parts_of(13), (Parts{0, 1, 5}));
}

TEST(Classes, BytesFallIntoNinetySixClasses) {
  std::map<int, int> sizes;
  for (int b = 0; b < 256; ++b) ++sizes[class_of_byte(b)];
  ASSERT_EQ(sizes.size(), 96u);
  std::map<int, int> how_many;
  for (auto [c, n] : sizes) {
    ++how_many[n];
    EXPECT_EQ(n, parts_of(c).d == 0 ? 4 : 2);
    std::vector<int> all = members(c);
    EXPECT_EQ(static_cast<int>(all.size()), n);
    EXPECT_EQ(all[0], canonical_byte(c));
    for (int b : all) EXPECT_EQ(class_of_byte(b), c);
  }
  EXPECT_EQ(how_many, (std::map<int, int>{{2, 64}, {4, 32}}));
}

TEST(Transforms, OrdersAndCommutation) {
  for (int c = 0; c < num_classes; ++c) {
    auto times = [c](const Transform& t, int n) {
      int x = c;
      for (int k = 0; k < n; ++k) x = t(x);
      return x;
    };
    EXPECT_EQ(times(turn(1), 4), c);
    EXPECT_EQ(times(triality(1), 3), c);
    EXPECT_EQ(times(twist(1), 8), c);
    EXPECT_EQ(times(mirrored, 2), c);
    EXPECT_NE(times(turn(1), 2), c);
    EXPECT_NE(times(triality(1), 1), c);
    EXPECT_NE(times(twist(1), 4), c);
    EXPECT_EQ(turn(1)(triality(1)(c)), triality(1)(turn(1)(c)));
    EXPECT_EQ(turn(1)(twist(1)(c)), twist(1)(turn(1)(c)));
    EXPECT_EQ(triality(1)(twist(1)(c)), twist(1)(triality(1)(c)));
    EXPECT_EQ(turn(1)(mirrored(c)), mirrored(turn(1)(c)));
    EXPECT_EQ(twist(1)(mirrored(c)), mirrored(twist(1)(c)));
    EXPECT_EQ(mirrored(triality(1)(mirrored(c))), triality(2)(c));
    EXPECT_EQ(mirrored(c), modality_mirror(c));
  }
}

TEST(Transforms, AreAGroupOf192Permutations) {
  std::set<std::array<int, 96>> distinct;
  for (const Transform& t : group()) distinct.insert(permutation(t));
  EXPECT_EQ(distinct.size(), 192u);
  for (const Transform& a : group()) {
    EXPECT_EQ(compose(a, a.inverse()), Transform{});
    EXPECT_EQ(compose(a.inverse(), a), Transform{});
    for (const Transform& b : group()) {
      Transform ab = compose(a, b);
      for (int c : {0, 9, 21, 42, 95}) ASSERT_EQ(ab(c), a(b(c)));
    }
  }
}

TEST(Transforms, ReduceShiftsOfAnySize) {
  for (int64_t k : {int64_t{-9007199254740991}, int64_t{-25}, int64_t{-1}, int64_t{7}, int64_t{4096}}) {
    Transform t = Transform::of(k, k, k, false);
    EXPECT_TRUE(t.r >= 0 && t.r < 4 && t.d >= 0 && t.d < 3 && t.t >= 0 && t.t < 8);
    EXPECT_EQ(compose(t, Transform::of(-k, -k, -k, false)), Transform{});
  }
}

TEST(Transforms, OrbitsAndMirrors) {
  std::set<std::array<int, 3>> orbits;
  for (int c = 0; c < num_classes; ++c) {
    auto orbit = triality_orbit(c);
    EXPECT_EQ(orbit[1] - orbit[0], 8);
    EXPECT_EQ(orbit[2] - orbit[1], 8);
    EXPECT_TRUE(std::find(orbit.begin(), orbit.end(), c) != orbit.end());
    for (int k = 0; k < 3; ++k) EXPECT_TRUE(std::find(orbit.begin(), orbit.end(), triality(k)(c)) != orbit.end());
    orbits.insert(orbit);
    EXPECT_EQ(complement(complement(c)), c);
    EXPECT_EQ(complement(c) + c, 95);
    EXPECT_EQ(modality_mirror(c) == c, parts_of(c).d == 0);
  }
  EXPECT_EQ(orbits.size(), 32u);
  EXPECT_EQ(triality_orbit(21), (std::array{5, 13, 21}));
}

TEST(Classes, AreDescribed) {
  EXPECT_EQ(describe_class(21), "c21 (h₂=0, d=2, ℓ=5) → 0x2A");
  EXPECT_EQ(describe_class(0), "c00 (h₂=0, d=0, ℓ=0) → 0x00");
}

}  // namespace
}  // namespace hologram::sigmatics

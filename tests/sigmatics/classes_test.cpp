// tests/sigmatics/classes_test.cpp: every law of the classes, over all of them.
#include "sigmatics/classes.h"
#include "support/test.h"

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

constexpr Transform triality(int k) { return {.d = k}; }

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

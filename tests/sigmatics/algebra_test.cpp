// tests/sigmatics/algebra_test.cpp: the algebras, and that they agree with the classes.
#include "sigmatics/algebra.h"

#include "base/error.h"
#include "sigmatics/classes.h"
#include "support/test.h"

namespace hologram::sigmatics {
namespace {

Octonion unit(size_t k) {
  Octonion o{};
  o[k] = 1;
  return o;
}

TEST(Algebra, TransformsOfElementsAreThoseOfClasses) {
  for (int c = 0; c < num_classes; ++c) {
    EXPECT_EQ(project(lift(c)), c);
    for (int k = -9; k <= 9; ++k) {
      EXPECT_EQ(project(rotate(lift(c), k)), Transform::of(k, 0, 0, false)(c));
      EXPECT_EQ(project(shift_modality(lift(c), k)), Transform::of(0, k, 0, false)(c));
      EXPECT_EQ(project(twist(lift(c), k)), Transform::of(0, 0, k, false)(c));
    }
    EXPECT_EQ(project(mirror(lift(c))), modality_mirror(c));
  }
}

TEST(Algebra, OnlySingleTermsAreClasses) {
  EXPECT_FALSE(project(sum(lift(1), lift(2))).has_value());
  EXPECT_FALSE(project(scaled(lift(1), 2)).has_value());
  EXPECT_FALSE(project(product(lift(1), lift(2))).has_value()) << "e1 e2 is no vector";
  EXPECT_FALSE(project(Element{}).has_value());
  EXPECT_EQ(project(product(lift(0), lift(21))), 21);
  EXPECT_EQ(project(product(lift(5), lift(5))), 0) << "e5 squares to 1";
  EXPECT_THROW(twist(sum(lift(1), lift(2)), 1), Error);
  EXPECT_THROW(twist(product(lift(1), lift(2)), 1), Error);
  EXPECT_THROW(twist(Element{}, 1), Error);
  EXPECT_THROW(lift(96), Error);
}

TEST(Algebra, CliffordProducts) {
  auto e = [](std::initializer_list<int> indices) {
    size_t blade = 0;
    for (int i : indices) blade |= size_t{1} << (i - 1);
    Clifford c{};
    c[blade] = 1;
    return c;
  };
  auto negative = [](Clifford c) {
    for (double& x : c) x = 0 - x;
    return c;
  };
  EXPECT_EQ(product(e({1}), e({2})), e({1, 2}));
  EXPECT_EQ(product(e({2}), e({1})), negative(e({1, 2})));
  EXPECT_EQ(product(e({1, 2}), e({2, 3})), e({1, 3}));
  EXPECT_EQ(product(e({1, 2}), e({1, 2})), negative(e({})));
  for (int i = 1; i <= 7; ++i) EXPECT_EQ(product(e({i}), e({i})), e({}));
}

TEST(Algebra, OctonionProducts) {
  EXPECT_EQ(product(Octonion{1, 2, 3, 4, 5, 6, 7, 8}, Octonion{8, 7, 6, 5, 4, 3, 2, 1}), (Octonion{-104, -40, 30, 100, 44, 114, 58, 2}));
  EXPECT_EQ(product(unit(1), unit(2)), unit(4));
  EXPECT_EQ(product(unit(7), unit(1)), unit(3));
  for (size_t i = 1; i < 8; ++i) {
    EXPECT_EQ(product(unit(i), unit(i))[0], -1);
    for (size_t j = 1; j < 8; ++j) {
      if (i == j) continue;
      Octonion xy = product(unit(i), unit(j)), yx = product(unit(j), unit(i));
      for (size_t k = 0; k < 8; ++k) EXPECT_EQ(xy[k], 0 - yx[k]);
    }
  }
}

}  // namespace
}  // namespace hologram::sigmatics

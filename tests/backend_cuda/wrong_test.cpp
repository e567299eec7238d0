// tests/backend_cuda/wrong_test.cpp: what is told of wrong matrices
#include "support/wrong.h"

#include <gtest/gtest.h>

#include <vector>

namespace hologram::test {
namespace {

TEST(WrongPlaces, TellsTheFirstAndDrawsMaps) {
  constexpr int64_t rows = 256, columns = 512;
  std::vector<float> wanted(rows * columns, 1), got = wanted;
  EXPECT_EQ(wrong_places(got, wanted, rows, columns), "");
  for (int64_t i = 128; i < 136; ++i)  // the first eight rows of the second tile, half of them
    for (int64_t j = 0; j < columns; ++j)
      if (i % 2 == 0) got[static_cast<size_t>(i * columns + j)] = 3;
  const std::string text = wrong_places(got, wanted, rows, columns);
  EXPECT_NE(text.find("2048 of 256 x 512 numbers are wrong, by 2 at most"), text.npos) << text;
  EXPECT_NE(text.find("  (128, 0): 3, wanted 1\n"), text.npos) << text;
  EXPECT_NE(text.find("(128, 7)"), text.npos) << text;
  EXPECT_EQ(text.find("(128, 8)"), text.npos) << text;
  const std::string line(16, '2'), right(16, '.');  // a quarter of 16 rows; of 8 rows in two tiles
  EXPECT_NE(text.find("  " + right + "\n  " + line + "\n  " + right), text.npos) << text;
  EXPECT_NE(text.find("each:\n  " + line + "\n  " + right), text.npos) << text;
}

TEST(WrongPlaces, AsksWhatIsRight) {
  const std::vector<double> got{1, 2, NAN}, wanted{1.5, 2, 3};
  const auto near = [](double x, double y) { return std::fabs(x - y) < 1; };
  EXPECT_NE(wrong_places(got, wanted, 1, 3, near).find("1 of 1 x 3"), std::string::npos);
}

}  // namespace
}  // namespace hologram::test

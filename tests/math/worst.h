// tests/math/worst.h: the largest errors that were found, printed at the end.
#pragma once

#include "support/test.h"

namespace hologram::atlas::math {

struct Worst {
  double ulp = 0, at = 0, got = 0;

  void take(double error, double x, double y) {
    if (error > ulp) *this = {error, x, y};
  }
};

/// By function's name, under a title.
class WorstTable : public testing::Environment {
 public:
  explicit WorstTable(std::string title) : title_(std::move(title)) {}
  void TearDown() override {
    if (!results.empty()) std::printf("\nlargest error in ulp, %s\n", title_.c_str());
    for (const auto& [name, worst] : results) std::printf("  %-8s %7.4f at %a\n", name.c_str(), worst.ulp, worst.at);
  }
  std::map<std::string, Worst> results;

 private:
  std::string title_;
};

}  // namespace hologram::atlas::math

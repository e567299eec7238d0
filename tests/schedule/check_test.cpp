// tests/schedule/check_test.cpp: a program that breaks the rules is an internal error
#include "schedule/check.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace hologram::schedule {
namespace {

TEST(CheckPlanned, NamesThePlaceAndShowsTheProgram) {
  atlas::Program program;
  EXPECT_NO_THROW(check_planned(program));
  program.buffers = {{DType::f32, atlas::Access::read, Expr(-4)}};
  try {
    check_planned(program);
    FAIL() << "a negative extent passed";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::internal);
    const std::string text = e.what();
    EXPECT_TRUE(text.starts_with("internal error in schedule: buffer b0: extent -4 is negative\n"))
        << text;
    EXPECT_NE(text.find(atlas::disassemble(program)), text.npos) << text;
  }
}

}  // namespace
}  // namespace hologram::schedule

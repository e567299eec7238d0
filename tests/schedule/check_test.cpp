// tests/schedule/check_test.cpp: a program that breaks the rules is an internal error
#include "schedule/check.h"

#include "atlas/builder.h"
#include "base/error.h"
#include "support/refusal.h"
#include "support/test.h"

namespace hologram::schedule {
namespace {

TEST(CheckPlanned, NamesThePlaceAndShowsTheProgram) {
  atlas::Program program;
  EXPECT_NO_THROW(check_planned(program));
  program.buffers = {{DType::f32, atlas::Access::read, Expr(-4)}};
  const std::string text = test::refusal([&] { check_planned(program); }, ErrorCode::internal);
  EXPECT_TRUE(text.starts_with("internal error in schedule: buffer b0: extent -4 is negative\n")) << text;
  EXPECT_NE(text.find(atlas::disassemble(program)), text.npos) << text;
}

TEST(CheckPlanned, RefusesWhatStandsForAnotherExpression) {
  auto fault_with = [](const Expr& extent, const Expr& offset) -> std::string {
    atlas::Program p;
    p.buffers = {{DType::f32, atlas::Access::write, extent}};
    p.loop().axes = {{atlas::AxisKind::parallel, Expr(8)}};
    p.loop().parallel_rank = 1;
    atlas::Stage stage{atlas::StageKind::point, {}, {}, {}};
    atlas::BodyBuilder b(stage.body);
    b.store(0, offset, b.number(DType::f32, 1));
    p.loop().stages = {std::move(stage)};
    return test::refusal([&] { check_planned(p); }, ErrorCode::internal);
  };
  const Expr at = Expr::axis(0, Expr(8)), bounded = Expr::bounded(at, Expr(8));
  EXPECT_EQ(fault_with(Expr(8), at), "");
  EXPECT_NE(fault_with(Expr(8), bounded).find("<i0> stands for another expression"), std::string::npos);
  EXPECT_NE(fault_with(Expr::bounded(Expr(8), Expr(9)), at).find("<8> stands for another expression"), std::string::npos);
}

}  // namespace
}  // namespace hologram::schedule

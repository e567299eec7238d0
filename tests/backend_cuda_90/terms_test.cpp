// tests/backend_cuda_90/terms_test.cpp: float32 products by warpgroups
#include "backend/cuda/maps.h"
#include "backend_cuda/factors.h"

namespace hologram::test {
namespace {

using CudaWideTerms = CudaBackend90;
using CudaWideTermsDevice = CudaDevice90;  // on a GPU too

TEST_F(CudaWideTermsDevice, MultiplyIntegersExactly) {
  for (const bool left : {false, true})
    for (const bool right : {false, true}) expect_exact(runtime(), {"f32", {left, right}, 136, 136, 136, 2});
  // More steps than a block of sums and the slots have; ends that are no multiples of eight.
  expect_exact(runtime(), {"f32", {false, false}, 133, 436, 131, 2});
}

TEST_F(CudaWideTermsDevice, SizesAndStridesDecideWhichKernelRuns) {
  expect_exact(runtime(), {"f32", {false, false}, 136, 70, 136});  // rows of 280 bytes
  expect_exact(runtime(), {"f32", {true, false}, 70, 70, 136});
  expect_exact(runtime(), {"f32", {true, false}, 72, 64, 136});    // too few rows to split the right factor for
  expect_exact(runtime(), {"f32", {false, false}, 130, 32, 136});  // few steps
  expect_exact(runtime(), {"f32", {false, true}, 130, 64, 130, 2});
}

TEST_F(CudaWideTermsDevice, StayWithinTheirBound) {
  for (const TermErrors& c :
       {TermErrors{"normal", as_drawn, 1.5, 0.2}, TermErrors{"of one sign", of_one_sign, 8, 1.5}, TermErrors{"graded", graded, 7, 1.5},
        TermErrors{"near the smallest", as_drawn, any_error, any_error, 0, -122}})
    expect_term_errors(runtime(), {"f32", {false, false}, 132, 420, 100, 2}, c);
}

TEST_F(CudaWideTerms, SplitInVectors) {
  for (int layout = 0; layout < 4; ++layout) {
    SCOPED_TRACE(layout);
    const atlas::Program p = float_product("f32", (layout & 1) != 0, (layout & 2) != 0);
    const std::string ptx = cuda::dump_ptx(p, 90);
    auto has = [&](const std::string& entry, const char* what) {
      const size_t begin = ptx.find(".visible .entry " + entry + "(");
      const size_t end = ptx.find(".visible .entry", begin + 1);
      return begin != ptx.npos && ptx.substr(begin, end - begin).find(what) != ptx.npos;
    };
    EXPECT_TRUE(has("hologram_split", "ld.global.v4") && has("hologram_split", "st.global.v4"));
    EXPECT_EQ(has("hologram_wide", "ld.shared.v2.f32"), (layout & 1) == 0);
    EXPECT_NE(ptx.find("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16"), ptx.npos);
  }
}

}  // namespace
}  // namespace hologram::test

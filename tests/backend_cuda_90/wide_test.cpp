// tests/backend_cuda_90/wide_test.cpp: products by warpgroups
#include <fmt/format.h>

#include "backend_cuda/factors.h"

namespace hologram::test {
namespace {

using CudaWide = CudaBackend90;
using CudaWideDevice = CudaDevice90;  // on a GPU too

// A GPU has many more multiprocessors than the emulator: so many times the rows and columns.
int64_t scale(bool wide) { return wide && !small_device() ? 8 : 1; }

TEST_F(CudaWideDevice, MultipliesIntegersExactly) {
  for (const bool left : {false, true})
    for (const bool right : {false, true}) {
      expect_exact(runtime(), {"bf16", {left, right}, 136, 200, 264, 2});
      expect_exact(runtime(), {"f16", {left, right}, 384, 128, 256, 2});
    }
}

TEST_F(CudaWideDevice, SizesAndStridesDecideWhichKernelRuns) {
  // Rows of 130 numbers are no multiple of 16 bytes.
  expect_exact(runtime(), {"bf16", {false, true}, 136, 130, 264});
  expect_exact(runtime(), {"bf16", {true, true}, 137, 200, 264});
  expect_exact(runtime(), {"bf16", {false, false}, 136, 200, 265});
  // Few steps; a single tile on four multiprocessors.
  expect_exact(runtime(), {"bf16", {false, true}, 136, 64, 264});
  expect_exact(runtime(), {"bf16", {false, true}, 100, 128, 256});
  // Of neither factor do these sizes matter.
  expect_exact(runtime(), {"bf16", {false, true}, 137, 128, 265, 2});
}

void expect_bytes(Runtime& runtime, const char* left, const char* right, std::array<int64_t, 3> sizes, bool wide) {
  sizes[0] *= scale(wide), sizes[2] *= scale(wide);
  const Counted maps("maps");
  expect_byte_product(runtime, left, right, sizes);
  maps.expect(wide ? 2 : 0);
}

TEST_F(CudaWideDevice, MultipliesBytes) {
  for (const char* left : {"i8", "u8"})
    for (const char* right : {"i8", "u8"})  // those of two types need PTX 8.4
      expect_bytes(runtime(), left, right, {136, 272, 264}, left == std::string_view(right));
  expect_bytes(runtime(), "u8", "u8", {137, 656, 257}, true);   // every slot more than once
  expect_bytes(runtime(), "i8", "i8", {136, 280, 264}, false);  // rows of 280 bytes
  expect_bytes(runtime(), "i8", "i8", {136, 128, 264}, false);  // a single step
}

// On a GPU nobody would see that the slower kernel runs.
TEST_F(CudaWide, ARefusedMapIsCountedAndTold) {
  Runtime fresh("cuda");
  auto multiply = [&](int64_t depth) {
    expect_byte_product(fresh, "i8", "i8", {136, depth, 264});
    return std::pair(counts("wide_launches", fresh), counts("refused_maps", fresh));
  };
  EXPECT_EQ(multiply(272), std::pair(int64_t{1}, int64_t{0}));
  inject("map", 1);
  EXPECT_TRUE(fresh.backend().notes().empty());
  for (const int64_t refused : {1, 2}) EXPECT_EQ(multiply(288), std::pair(int64_t{1}, refused));
  EXPECT_EQ(fresh.backend().notes(),
            std::vector{fmt::format("cuda: the driver refuses a tensor map of kernel {}, whose hologram_kernel runs in "
                                    "place of hologram_wide: invalid argument (error 1)",
                                    atlas::fingerprint(byte_product("i8", "i8")).hex().substr(0, 12))});
}

// Products of warpgroups take bytes along k alone.
TEST_F(CudaWide, BytesAcrossKHaveNoWideKernel) {
  EXPECT_TRUE(cuda::compile(byte_product("u8", "u8"), 90).facts.wide);
  std::string across = atlas::disassemble(byte_product("u8", "u8"));
  const std::string along = "load.u8 b1[i2 + s1*i1]";
  ASSERT_NE(across.find(along), across.npos) << across;
  across.replace(across.find(along), along.size(), "load.u8 b1[i1 + s2*i2]");
  EXPECT_FALSE(cuda::compile(atlas::assemble(across), 90).facts.wide);
}

// What follows on a product's rows, and epilogues that read several columns, are not rendered: a
// plan for GPUs has none, and those of other plans run on the host.
TEST_F(CudaWide, TailsAndPartsAreNotRendered) {
  EXPECT_EQ(cuda::unrendered(product_with_tail()), "products with a tail");
  atlas::Program gated = float_product("bf16", false, true);
  gated.product().parts = 2;
  EXPECT_EQ(cuda::unrendered(gated), "products of several parts");
  EXPECT_FALSE(runtime().backend().machine().tails);
  EXPECT_FALSE(runtime().backend().machine().parts);
}

// Two products as one graph: addresses are patched, also those in tensor maps; where one does not
// suit these, the graph is made anew with the other kernel.
void expect_graphs(Runtime& runtime, const char* type) {
  SCOPED_TRACE(type);
  constexpr int64_t m = 136, depth = 128, n = 264;
  const atlas::Program program = float_product(type, false, true);
  const std::shared_ptr<const Kernel> kernels[] = {runtime.kernels().get(program)};
  const atlas::EntryStep steps[] = {{0, 0, 0, 3, -1}, {0, 3, 3, 3, -1}};
  auto launcher = runtime.backend().launcher(steps, kernels, runtime.kernels().disk());
  launcher->set_graphs(true);
  const int64_t arguments[] = {m, depth, n, m, depth, n};
  auto prepared = launcher->prepare(arguments, 1);
  Memory& device = *runtime.device();
  auto block = [&](size_t bytes) {
    return std::shared_ptr<std::byte>(static_cast<std::byte*>(device.allocate(bytes, nullptr)),
                                      [&](std::byte* p) { device.deallocate(p, nullptr); });
  };
  const auto workspace = block(launcher->workspace_bytes(*prepared) + 1);
  Factors f{type, {false, true}, m, depth, n};
  f.fill_with_integers();
  const std::vector<std::byte> left = f.laid(false), right = f.laid(true);
  const std::vector<double> wanted = f.sums().value;
  std::vector<float> out(m * n);
  const atlas::Context context{};
  const Counted graphs("graphs"), maps("maps");
  for (const size_t shift : {0, 0, type[0] == 'b' ? 2 : 4, 16}) {
    SCOPED_TRACE(shift);
    const auto x = block(left.size() + shift), y = block(right.size()), z = block(2 * m * n * 4);
    device.copy(x.get() + shift, left.data(), left.size(), nullptr);
    device.copy(y.get(), right.data(), right.size(), nullptr);
    std::byte* second = z.get() + m * n * 4;
    void* buffers[] = {x.get() + shift, y.get(), z.get(), x.get() + shift, y.get(), second};
    CallFrame frame{};
    frame.workspace = workspace.get();
    frame.context = &context;
    frame.buffers = buffers;
    frame.arguments = arguments;
    ASSERT_EQ(launcher->run(frame, *prepared), 0);
    for (std::byte* from : {z.get(), second}) {
      device.copy(out.data(), from, out.size() * 4, nullptr);
      EXPECT_EQ(wrong_places(out, wanted, m, n), "");
    }
  }
  graphs.expect(4);
  maps.expect(4);  // two of each step, once
}

TEST_F(CudaWideDevice, GraphsGetOtherAddresses) {
  expect_graphs(runtime(), "bf16");
  expect_graphs(runtime(), "f32");  // each after what splits its right factor
}

}  // namespace
}  // namespace hologram::test

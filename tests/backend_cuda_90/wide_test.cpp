// tests/backend_cuda_90/wide_test.cpp: products by warpgroups
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <random>

#include "backend_cuda/factors.h"

namespace hologram::test {
namespace {

class CudaWide : public CudaBackend {
 protected:
  void SetUp() override {
    CudaBackend::SetUp();
    inject("capability", 90);
  }
};

// On a GPU too.
using CudaWideDevice = CudaDevice90;

// A GPU has many more multiprocessors than the emulator: so many times the rows and columns.
int64_t scale(bool wide) { return wide && !small_device() ? 8 : 1; }

float number(int64_t i, int64_t j) { return static_cast<float>((7 * i + 5 * j) % 9 - 4); }

uint16_t bf16_bits(float x) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16); }

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

// gelu(x * y^T + bias) of three x and one y.
const char* const biased = R"(atlas block 1
symbols 3
buffer b0 bf16 read [3*s0*s1]
buffer b1 bf16 read [s1*s2]
buffer b2 f32 read [s2]
buffer b3 bf16 write [3*s0*s2]
product batch 1 operand bf16 acc f32 precision 0
axis i0 parallel [3]
axis i1 parallel [s0]
axis i2 parallel [s2]
axis i3 row [s1]
lhs
  %0 = load.bf16 b0[i3 + s1*i1 + s0*s1*i0]
rhs
  %0 = load.bf16 b1[i3 + s1*i2]
epilogue
  %0 = accumulator.f32 a0
  %1 = load.f32 b2[i2]
  %2 = add.f32 %0, %1
  %3 = gelu.f32 %2
  %4 = cast.bf16.f32 %3
  store.bf16 b3[i2 + s2*i1 + s0*s2*i0], %4
)";

TEST_F(CudaWideDevice, RunsEpiloguesOnBatches) {
  constexpr int64_t m = 130, depth = 136, n = 264;
  std::vector<uint16_t> left(3 * m * depth), right(depth * n), out(3 * m * n);
  std::vector<float> bias(n);
  auto x = [](int64_t b, int64_t i, int64_t k) { return number(i + 2 * b, k) / 8; };
  auto y = [](int64_t k, int64_t j) { return number(k, 3 * j) / 4; };
  for (int64_t k = 0; k < depth; ++k) {
    for (int64_t i = 0; i < 3 * m; ++i) left[static_cast<size_t>(i * depth + k)] = bf16_bits(x(i / m, i % m, k));
    for (int64_t j = 0; j < n; ++j) right[static_cast<size_t>(j * depth + k)] = bf16_bits(y(k, j));
  }
  for (int64_t j = 0; j < n; ++j) bias[static_cast<size_t>(j)] = static_cast<float>(j % 5) / 2;
  const Bytes buffers[] = {std::as_writable_bytes(std::span(left)), std::as_writable_bytes(std::span(right)),
                           std::as_writable_bytes(std::span(bias)), std::as_writable_bytes(std::span(out))};
  const Counted maps("maps");
  run_program(runtime(), atlas::assemble(biased), buffers, std::array{m, depth, n});
  maps.expect(2);
  for (int64_t i = 0; i < 3 * m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = static_cast<double>(bias[static_cast<size_t>(j)]);
      for (int64_t k = 0; k < depth; ++k) sum += static_cast<double>(x(i / m, i % m, k) * y(k, j));
      const double wanted = sum * std::erfc(-sum / std::sqrt(2.0)) / 2;
      const auto bits = uint32_t{out[static_cast<size_t>(i * n + j)]} << 16;
      ASSERT_NEAR(static_cast<double>(std::bit_cast<float>(bits)), wanted, std::fabs(wanted) / 250 + 1e-6) << i << " " << j;
    }
}

// x of two by two, y of three: each result has coordinates in both, in an order of its own.
const char* const crossed = R"(atlas block 1
symbols 3
buffer b0 {0} read [4*s0*s1]
buffer b1 {0} read [3*s1*s2]
buffer b2 f32 write [12*s0*s2]
product batch 3 operand {0} acc f32 precision 0
axis i0 parallel [2]
axis i1 parallel [3]
axis i2 parallel [2]
axis i3 parallel [s0]
axis i4 parallel [s2]
axis i5 row [s1]
lhs
  %0 = load.{0} b0[i5 + s1*i3 + 2*s0*s1*i2 + s0*s1*i0]
rhs
  %0 = load.{0} b1[i4 + s2*i5 + s1*s2*i1]
epilogue
  %0 = accumulator.f32 a0
  store.f32 b2[i4 + s2*i3 + s0*s2*i2 + 2*s0*s2*i1 + 6*s0*s2*i0], %0
)";

TEST_F(CudaWideDevice, TakesThreeBatchAxes) {
  constexpr int64_t m = 40, depth = 136, n = 72;
  for (const char* type : {"bf16", "f32"}) {
    SCOPED_TRACE(type);
    const bool half = type[0] == 'b';
    std::vector<float> left(4 * m * depth), right(3 * depth * n), out(12 * m * n, -1);
    for (size_t e = 0; e < left.size(); ++e) left[e] = static_cast<float>(7 * e % 11) - 5;
    for (size_t e = 0; e < right.size(); ++e) right[e] = static_cast<float>(5 * e % 9) - 4;
    auto narrowed = [](const std::vector<float>& from) {
      std::vector<uint16_t> to;
      for (const float x : from) to.push_back(bf16_bits(x));
      return to;
    };
    std::vector<uint16_t> x = narrowed(left), y = narrowed(right);
    const Bytes buffers[] = {half ? std::as_writable_bytes(std::span(x)) : std::as_writable_bytes(std::span(left)),
                             half ? std::as_writable_bytes(std::span(y)) : std::as_writable_bytes(std::span(right)),
                             std::as_writable_bytes(std::span(out))};
    const Counted maps("maps");
    run_program(runtime(), atlas::assemble(fmt::format(fmt::runtime(crossed), type)), buffers, std::array{m, depth, n});
    maps.expect(2);
    for (int64_t b = 0; b < 12; ++b)
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          const int64_t matrix = b / 6 + b % 2 * 2, other = b / 2 % 3;
          float sum = 0;
          for (int64_t k = 0; k < depth; ++k)
            sum += left[static_cast<size_t>((matrix * m + i) * depth + k)] * right[static_cast<size_t>((other * depth + k) * n + j)];
          ASSERT_EQ(out[static_cast<size_t>((b * m + i) * n + j)], sum) << b << " " << i << " " << j;
        }
  }
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

TEST_F(CudaWide, AssemblesWithoutSpills) {
  if (ptxas().empty()) GTEST_SKIP() << "no ptxas: PyPI's nvidia-cuda-nvcc has one";
  for (const atlas::Program& program :
       {atlas::assemble(biased), float_product("bf16", false, true), float_product("f16", true, false), byte_product("i8", "i8")}) {
    const std::string ptx = *runtime().backend().dump(program, "asm");
    EXPECT_NE(ptx.find("wgmma.mma_async"), ptx.npos);
    const std::string words = assembled(ptx, "sm_90a");
    EXPECT_EQ(words.find("C75"), words.npos) << words;
    expect_registers(words, is_float(program.product().operand_type) ? 168 : 255);
  }
}

// Two products as one graph: addresses are patched, also those in tensor maps; where one does not
// suit these, the graph is made anew with the other kernel.
void expect_graphs(Runtime& runtime, const char* type) {
  SCOPED_TRACE(type);
  constexpr int64_t m = 136, depth = 128, n = 264;
  const bool half = type[0] == 'b';
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
  std::vector<uint8_t> left(m * depth * (half ? 2 : 4)), right(depth * n * (half ? 2 : 4));
  std::vector<float> wanted(m * n), out(m * n);
  auto put = [&](std::vector<uint8_t>& to, int64_t element, float x) {
    const auto bits = std::bit_cast<std::array<uint8_t, 4>>(x);
    const size_t bytes = half ? 2 : 4;
    std::copy(bits.end() - static_cast<std::ptrdiff_t>(bytes), bits.end(), to.begin() + element * static_cast<int64_t>(bytes));
  };
  for (int64_t k = 0; k < depth; ++k) {
    for (int64_t i = 0; i < m; ++i) put(left, i * depth + k, number(i, k));
    for (int64_t j = 0; j < n; ++j) put(right, j * depth + k, number(k, 3 * j));
  }
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t k = 0; k < depth; ++k) wanted[static_cast<size_t>(i * n + j)] += number(i, k) * number(k, 3 * j);
  const atlas::Context context{};
  const Counted graphs("graphs"), maps("maps");
  for (const size_t shift : {0, 0, half ? 2 : 4, 16}) {
    SCOPED_TRACE(shift);
    const size_t left_bytes = left.size(), right_bytes = right.size();
    const auto x = block(left_bytes + shift), y = block(right_bytes), z = block(2 * m * n * 4);
    device.copy(x.get() + shift, left.data(), left_bytes, nullptr);
    device.copy(y.get(), right.data(), right_bytes, nullptr);
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

TEST_F(CudaWide, FactsAreStored) {
  const cuda::Stored made = cuda::compile(atlas::assemble(biased), 90);
  ASSERT_TRUE(made.facts.wide);
  const std::string text = cuda::to_text(made);
  EXPECT_EQ(cuda::to_text(cuda::from_text(text, 3)), text);
  const std::string head = text.substr(0, text.find('\n'));
  const size_t field = head.rfind("|64|256");
  ASSERT_NE(field, head.npos) << head;
  for (const char* other : {"|64|257", "|64", "|64|0", "|64|256|1", "|x|256"}) {
    std::string changed = text;
    changed.replace(field, 7, other);
    try {
      cuda::from_text(changed, 3);
      ADD_FAILURE() << other;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::corrupt);
    }
  }
  EXPECT_FALSE(cuda::compile(atlas::assemble(biased)).facts.wide);
}

}  // namespace
}  // namespace hologram::test

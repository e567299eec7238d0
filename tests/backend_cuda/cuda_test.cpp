// tests/backend_cuda/cuda_test.cpp: programs, and what a real assembler says of them
#include "cuda_test.h"

#include <fmt/format.h>

#include "support/wrong.h"

namespace hologram::test {

atlas::Program float_product(const char* type, bool left_by_columns, bool right_by_columns, const std::string& rows, bool reproducible,
                             int precision) {
  return atlas::assemble(fmt::format(R"(atlas block 1
symbols 3
buffer b0 {0} read [s0*s1]
buffer b1 {0} read [s1*s2]
buffer b2 f32 write [s0*s2]
product batch 0 operand {0} acc f32 precision {5}{4}
axis i0 parallel [{3}]
axis i1 parallel [s2]
axis i2 row [s1]
lhs
  %0 = load.{0} b0[{1}]
rhs
  %0 = load.{0} b1[{2}]
epilogue
  %0 = accumulator.f32 a0
  store.f32 b2[i1 + s2*i0], %0
)",
                                     type, left_by_columns ? "i0 + s0*i2" : "i2 + s1*i0", right_by_columns ? "i2 + s1*i1" : "i1 + s2*i2",
                                     rows, reproducible ? " reproducible" : "", precision));
}

atlas::Program byte_product(const char* left, const char* right) {
  return atlas::assemble(fmt::format(R"(atlas block 1
symbols 3
buffer b0 {0} read [s0*s1]
buffer b1 {1} read [s1*s2]
buffer b2 i32 write [s0*s2]
product batch 0 operand {0}{2} acc i32 precision 0
axis i0 parallel [s0]
axis i1 parallel [s2]
axis i2 row [s1]
lhs
  %0 = load.{0} b0[i2 + s1*i0]
rhs
  %0 = load.{1} b1[i2 + s1*i1]
epilogue
  %0 = accumulator.i32 a0
  store.i32 b2[i1 + s2*i0], %0
)",
                                     left, right, std::string_view(left) == right ? "" : " mixed"));
}

void expect_byte_product(Runtime& runtime, const char* left, const char* right, const std::array<int64_t, 3>& sizes) {
  SCOPED_TRACE(fmt::format("{} {} {}", left, right, testing::PrintToString(sizes)));
  const auto [m, depth, n] = sizes;
  std::mt19937 random(9);
  std::vector<uint8_t> x(static_cast<size_t>(m * depth)), y(static_cast<size_t>(depth * n));
  for (auto* factor : {&x, &y})
    for (uint8_t& b : *factor) b = static_cast<uint8_t>(random());
  auto number = [](uint8_t b, const char* type) { return type[0] == 'i' ? int32_t{static_cast<int8_t>(b)} : int32_t{b}; };
  std::vector<int32_t> out(static_cast<size_t>(m * n), -1), wanted(out.size());
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t k = 0; k < depth; ++k)
        wanted[static_cast<size_t>(i * n + j)] +=
            number(x[static_cast<size_t>(i * depth + k)], left) * number(y[static_cast<size_t>(j * depth + k)], right);
  const Bytes buffers[] = {std::as_writable_bytes(std::span(x)), std::as_writable_bytes(std::span(y)),
                           std::as_writable_bytes(std::span(out))};
  run_program(runtime, byte_product(left, right), buffers, sizes);
  EXPECT_EQ(wrong_places(out, wanted, m, n), "");
}

void expect_interpreters(Runtime& runtime, const atlas::Program& program, const std::vector<int64_t>& sizes, int64_t maps,
                         int64_t launches) {
  std::vector<std::vector<std::byte>> data;
  for (const atlas::Buffer& b : program.buffers) {
    const bool single = b.dtype == DType::f32, large = data.empty() && single;
    const int64_t count = b.extent.eval(sizes), range = large ? 401 : 9;
    data.emplace_back(static_cast<size_t>(count * size_of(b.dtype)), std::byte{0xff});
    for (int64_t e = 0; e < count && b.access == atlas::Access::read; ++e) {
      const auto number = static_cast<float>((611 * e + 37 * (e / 97)) % range - range / 2);
      const uint64_t bits = is_float(b.dtype) ? ir::bits_of(b.dtype, static_cast<double>(number / 4))
                                              : ir::bits_of_integer(b.dtype, static_cast<int64_t>(number));
      std::memcpy(&data.back()[static_cast<size_t>(e * size_of(b.dtype))], &bits, static_cast<size_t>(size_of(b.dtype)));
    }
  }
  static const auto interpreter = std::make_shared<Runtime>("interp");
  auto wanted = data;
  run_program(*interpreter, program, std::vector<Bytes>(wanted.begin(), wanted.end()), sizes);
  const Counted counted_maps("maps"), counted_launches("launches");
  run_program(runtime, program, std::vector<Bytes>(data.begin(), data.end()), sizes);
  counted_maps.expect(maps);
  counted_launches.expect(launches);
  for (size_t b = 0; b < data.size(); ++b)
    expect_elements(program.buffers[b].dtype, reinterpret_cast<const char*>(data[b].data()),
                    reinterpret_cast<const char*>(wanted[b].data()), data[b].size(), 0, b);
}

atlas::Program attention(const char* type, const std::string& queries, int depth, bool causal) {
  return atlas::assemble(fmt::format(R"(atlas block 1
symbols 2
buffer b0 {0} read [s1*{2}]
buffer b1 {0} read [s0*{2}]
buffer b2 {0} read [s0*{2}]
buffer b3 f32 write [s1*{2}]
attention batch 0 operand {0} scale 0x3fc0000000000000{3}
axis i0 parallel [{1}]
axis i1 row [s0]
axis i2 row [{2}]
axis i3 parallel [{2}]
q
  %0 = load.{0} b0[i2 + {2}*i0]
k
  %0 = load.{0} b1[i2 + {2}*i1]
v
  %0 = load.{0} b2[i3 + {2}*i1]
score
epilogue
  %0 = accumulator.f32 a0
  store.f32 b3[i3 + {2}*i0], %0
)",
                                     type, queries, depth, causal ? " causal" : ""));
}

std::string ptxas(bool newest) {
  if (const char* named = std::getenv("HOLOGRAM_PTXAS")) return named;
  const std::filesystem::path venv = source_file(".venv/lib");
  if (!std::filesystem::exists(venv)) return "";
  std::vector<std::string> paths{"nvidia/cu13/bin/ptxas", "triton/backends/nvidia/bin/ptxas"};
  if (newest) paths.insert(paths.begin(), "triton/backends/nvidia/bin/ptxas-blackwell");
  for (const auto& python : std::filesystem::directory_iterator(venv))
    for (const std::string& path : paths)
      if (const auto p = python.path() / "site-packages" / path; std::filesystem::exists(p)) return p.string();
  return "";
}

std::string assembled(const std::string& ptx, const char* gpu) {
  const std::string base = testing::TempDir() + "hologram_ptx_" + std::to_string(getpid());
  std::ofstream(base + ".ptx") << ptx;
  const std::string command = ptxas() + " -v -arch=" + gpu + " " + base + ".ptx -o " + base + ".cubin > " + base + ".log 2>&1";
  EXPECT_EQ(std::system(command.c_str()), 0) << gpu;
  std::ifstream log(base + ".log");
  const std::string words((std::istreambuf_iterator<char>(log)), {});
  for (const char* end : {".ptx", ".cubin", ".log"}) std::filesystem::remove(base + end);
  return words;
}

namespace {

// Of all kernels in the assembler's words.
int most_registers(const std::string& words) {
  int most = 0;
  for (size_t at = 0; (at = words.find("Used ", at)) != words.npos; at += 5) most = std::max(most, std::atoi(words.c_str() + at + 5));
  return most;
}

}  // namespace

void expect_registers(const std::string& words, int most) {
  EXPECT_NE(words.find("spill stores"), words.npos) << words;
  for (size_t at = 0; (at = words.find(" bytes spill", at)) != words.npos; ++at) EXPECT_EQ(words.substr(at - 3, 3), ", 0") << words;
  EXPECT_GT(most_registers(words), 0) << words;
  EXPECT_LE(most_registers(words), most) << words;
}

void expect_assembles(const std::string& ptx, int most, const char* gpu) {
  if (ptxas().empty()) return;
  const std::string words = assembled(ptx, gpu);
  EXPECT_EQ(words.find("C75"), words.npos) << words;
  expect_registers(words, most);
}

}  // namespace hologram::test

// tests/codegen/neon_test.cpp: objects for AArch64, linked by a cross compiler or laid out as for
// an archive and run under qemu, against the interpreter.
#include <filesystem>
#include <fstream>

#include "backend/cpu/image.h"
#include "backend/cpu/units.h"
#include "codegen/differential.h"
#include "support/paths.h"

namespace hologram::test {
namespace {

using ir::Op;
namespace fs = std::filesystem;

bool have_tools() {
  return std::system("command -v aarch64-linux-gnu-g++ >/dev/null 2>&1 && command -v qemu-aarch64 >/dev/null 2>&1") == 0;
}

class Neon : public testing::Test {
 protected:
  void SetUp() override {
    if (!have_tools()) GTEST_SKIP() << "needs g++-aarch64-linux-gnu and qemu-user";
    dir_ = fs::temp_directory_path() / ("hologram_neon_" + std::to_string(::getpid()));
    fs::create_directories(dir_);
  }
  void TearDown() override {
    std::error_code ignored;
    if (!dir_.empty()) fs::remove_all(dir_, ignored);
  }

  void expect_same_on_neon(atlas::Program p, int specials, int64_t chunk) {
    atlas::verify(p);
    atlas::expand_math(p);
    const cpu::Target neon = cpu::generic_target(cpu::Isa::neon);
    cpu::Object object = cpu::compile(p, neon);
    std::ofstream(dir_ / "kernel.o", std::ios::binary) << object.code;
    const std::vector<std::string> stored = {cpu::to_stored(object)};
    const CodeImage image = cpu::lay_out({&p, 1}, stored, {}, neon);
    std::ofstream(dir_ / "image", std::ios::binary) << image.bytes;
    std::ofstream(dir_ / "image.s") << ".text\n.balign 4096\nimage: .incbin \"" << (dir_ / "image").string()
                                    << "\"\n.globl hologram_kernel\n.set hologram_kernel, image + " << image.kernels.at(0).offset
                                    << "\n.section .note.GNU-stack,\"\",%progbits\n";

    std::mt19937_64 random(5);
    std::vector<std::vector<char>> data;
    for (const atlas::Buffer& b : p.buffers) {
      if (b.access == Access::scratch) continue;
      data.emplace_back(static_cast<size_t>(b.extent.constant_value() * size_of(b.dtype)));
      fill(data.back().data(), b.dtype, b.extent.constant_value(), random, specials);
    }
    {
      std::ofstream in(dir_ / "in", std::ios::binary);
      auto number = [&](int64_t n) { in.write(reinterpret_cast<const char*>(&n), 8); };
      number(static_cast<int64_t>(data.size()));
      for (const auto& d : data) {
        number(static_cast<int64_t>(d.size()));
        in.write(d.data(), static_cast<std::streamsize>(d.size()));
      }
      number(0);
      number(object.launch.total.constant_value());
      number(chunk);
    }
    std::vector<void*> bufs;
    for (auto& d : data) bufs.push_back(d.data());
    std::atomic<int32_t> sticky{0};
    interp::run(p, bufs.data(), nullptr, &sticky);

    for (const char* linked : {"kernel.o", "image.s"}) {
      SCOPED_TRACE(linked);
      ASSERT_NO_FATAL_FAILURE(run_under_qemu(linked));
      compare(p, data, sticky.load());
    }
  }

  // What harness.cc computes with `kernel`, a file of dir_.
  void run_under_qemu(const std::string& kernel) {
    fs::path source = source_file("");
    std::string build = "aarch64-linux-gnu-g++ -O1 -std=c++20 -static -I" + (source / "src").string() + " " +
                        (source / "tests/codegen/neon/harness.cc").string() + " " + (dir_ / kernel).string() + " -o " +
                        (dir_ / "run").string();
    ASSERT_EQ(std::system(build.c_str()), 0);
    std::string run = "qemu-aarch64 " + (dir_ / "run").string() + " " + (dir_ / "in").string() + " " + (dir_ / "out").string();
    ASSERT_EQ(std::system(run.c_str()), 0);
  }

  void compare(const atlas::Program& p, const std::vector<std::vector<char>>& data, int64_t sticky) {
    std::ifstream out(dir_ / "out", std::ios::binary);
    int64_t errors = -1;
    out.read(reinterpret_cast<char*>(&errors), 8);
    EXPECT_EQ(errors, sticky);
    size_t n = 0;
    for (const atlas::Buffer& b : p.buffers) {
      if (b.access == Access::scratch) continue;
      std::vector<char> got(data[n].size());
      out.read(got.data(), static_cast<std::streamsize>(got.size()));
      ASSERT_TRUE(out.good());
      auto size = static_cast<size_t>(size_of(b.dtype));
      for (size_t i = 0; i < got.size(); i += size)
        ASSERT_TRUE(same(b.dtype, got.data() + i, data[n].data() + i)) << "buffer " << n << " element " << i / size;
      ++n;
    }
  }

  fs::path dir_;
};

TEST_F(Neon, ElementWiseOpsAndConversions) {
  Expr n(2003);
  Points points({n});
  atlas::Program& p = points.p;
  const Expr& i = points.i[0];
  BodyBuilder b = points.body();
  auto input = [&](DType t) {
    p.buffers.push_back({t, Access::read, n});
    return b.load(static_cast<int>(p.buffers.size()) - 1, t, i);
  };
  auto output = [&](Val v) {
    p.buffers.push_back({v.type, Access::write, n});
    b.store(static_cast<int>(p.buffers.size()) - 1, i, v);
  };
  Val x = input(DType::f32), y = input(DType::f32), k = input(DType::i32), m = input(DType::i32), d = input(DType::f64);
  Val h = input(DType::f16), g = input(DType::bf16);
  for (Op op : {Op::add, Op::mul, Op::div, Op::rem, Op::min, Op::max, Op::minnum, Op::copysign, Op::nextafter, Op::lt})
    output(b.op(op, x, y));
  for (Op op : {Op::floor, Op::round, Op::sqrt, Op::exp, Op::log, Op::gelu, Op::tanh}) output(b.op(op, x));
  for (Op op : {Op::add, Op::mul, Op::div, Op::rem, Op::min, Op::shl, Op::shr, Op::bit_xor, Op::le}) output(b.op(op, k, m));
  for (DType t : {DType::i8, DType::u8, DType::i32, DType::i64, DType::u64, DType::f16, DType::bf16, DType::f64, DType::b8}) {
    output(b.cast(x, t));
    if (!is_float(t)) output(b.cast(x, t, Op::cast_wrap));
    if (t != DType::f64) output(b.cast(d, t));
  }
  output(b.fma(x, y, b.cast(h, DType::f32)));
  for (size_t entries = 2; entries <= 16; entries *= 2) {
    std::vector<uint64_t> table;
    for (size_t e = 0; e < entries; ++e) table.push_back(0x3f000000 + 0x10001 * e);
    output(b.lookup(DType::f32, k, table));
  }
  output(b.cast(g, DType::f32));
  expect_same_on_neon(p, 4, 640);
}

TEST_F(Neon, SoftmaxAndArgmax) {
  for (int lane_axis : {0, 1}) {
    atlas::Program p;
    Expr m(21), n(4200);
    auto i = add_axes(p.loop(), {m}, {n});
    p.loop().lane_axis = lane_axis;
    Expr at = lane_axis == 0 ? i[1] * m + i[0] : i[0] * n + i[1];
    p.buffers = {{DType::f32, Access::read, m * n},
                 {DType::bf16, Access::write, m * n},
                 {DType::f32, Access::scratch, n},
                 {DType::i64, Access::write, m}};
    p.loop().stages.resize(4);
    for (auto& s : p.loop().stages) s.kind = atlas::StageKind::row;
    BodyBuilder a(p.loop().stages[0].body);
    Val x = a.load(0, DType::f32, at);
    p.loop().stages[0].reductions = {{Op::reduce_max, DType::f32, x.id}, {Op::reduce_argmax, DType::f32, x.id}};
    BodyBuilder b(p.loop().stages[1].body);
    Val e = b.op(Op::exp, b.sub(b.load(0, DType::f32, at), b.accumulator(0, DType::f32)));
    b.store(2, i[1], e);
    p.loop().stages[1].reductions = {{Op::reduce_sum, DType::f32, e.id}};
    BodyBuilder c(p.loop().stages[2].body);
    c.store(1, at, c.cast(c.div(c.load(2, DType::f32, i[1]), c.accumulator(2, DType::f32)), DType::bf16));
    p.loop().stages[3].kind = atlas::StageKind::point;
    BodyBuilder d(p.loop().stages[3].body);
    d.store(3, i[0], d.accumulator(1, DType::i64));
    expect_same_on_neon(p, 0, 5);
  }
}

}  // namespace
}  // namespace hologram::test

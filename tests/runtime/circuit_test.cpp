// tests/runtime/circuit_test.cpp: circuits on class memory, on every backend.
#include "runtime/circuit.h"

#include <cctype>

#include "atlas/class_graph.h"
#include "base/error.h"
#include "runtime/run_program.h"
#include "support/refusal.h"
#include "support/test.h"

namespace hologram::runtime {
namespace {

using sigmatics::Call;
using sigmatics::Generator;
using sigmatics::Operand;
using sigmatics::Rules;
using sigmatics::Variant;

constexpr size_t floats = static_cast<size_t>(atlas::boundary_bytes) / 4;
constexpr size_t class_floats = 3072;

struct alignas(64) Line {
  float x[16];
};

class ClassMemory {
 public:
  explicit ClassMemory(unsigned seed) : lines_(floats / 16) {
    std::mt19937 random(seed);
    for (size_t k = 0; k < floats; ++k) data()[k] = static_cast<float>(static_cast<int>(random() % 4001) - 2000) / 64;
  }
  float* data() { return lines_[0].x; }
  float* place(const Operand& o) {
    return data() + class_floats * static_cast<size_t>(o.cls) + static_cast<size_t>(std::max(o.page, 0)) * 64;
  }
  std::span<std::byte> bytes() { return std::as_writable_bytes(std::span(lines_)); }
  bool operator==(const ClassMemory& other) const { return std::memcmp(lines_.data(), other.lines_.data(), floats * 4) == 0; }

 private:
  std::vector<Line> lines_;
};

Runtime& on(const char* backend) {
  static Runtime cpu("cpu"), interp("interp"), null("null");
  const std::string_view name = backend;
  return name == "cpu" ? cpu : name == "null" ? null : interp;
}

std::vector<Call> calls(std::string_view text) { return sigmatics::calls_of(sigmatics::parse_circuit(text)); }

void run(const char* backend, const std::vector<Call>& list, ClassMemory& memory) {
  run_circuit(on(backend), lower_circuit(sigmatics::effects_of(list).steps), memory.bytes());
}

// The meaning of copy, swap, merge by addition and split by subtraction, written out.
void reference(const std::vector<Call>& list, ClassMemory& memory) {
  for (const Call& c : sigmatics::effects_of(list).steps) {
    size_t n = c.a.page < 0 ? class_floats : 64;
    std::vector<float> a(memory.place(c.a), memory.place(c.a) + n);
    std::vector<float> b(memory.place(c.b), memory.place(c.b) + n);
    for (size_t k = 0; k < n; ++k) {
      if (c.generator == Generator::copy) memory.place(c.to)[k] = a[k];
      if (c.generator == Generator::merge) memory.place(c.to)[k] = a[k] + b[k];
      if (c.generator == Generator::split) memory.place(c.to)[k] = a[k] - b[k];
      if (c.generator == Generator::swap) memory.place(c.a)[k] = b[k];
      if (c.generator == Generator::swap) memory.place(c.b)[k] = a[k];
    }
  }
}

std::string random_circuit(std::mt19937& random, bool pages) {
  auto one = [&] {
    int page = pages && random() % 2 ? static_cast<int>(random() % 3) : -1;
    return fmt::format("c{}{}", random() % 6 * 5, page < 0 ? "" : fmt::format("@{}", page));
  };
  std::string text;
  for (unsigned n = 1 + random() % 12; n > 0; --n) {
    switch (random() % 8) {
      case 0:
      case 1:
        text += fmt::format("copy@{}->{}", one(), one());
        break;
      case 2:
        text += fmt::format("swap@{}<->{}", one(), one());
        break;
      case 3:
      case 4:
        text += fmt::format("merge@{}[{},{}]", one(), one(), one());
        break;
      case 5:
        text += fmt::format("split@{}[{},{}]", one(), one(), one());
        break;
      case 6:
        text += fmt::format("{}@c{}", random() % 2 ? "quote" : "evaluate", random() % 6 * 5);
        break;
      default:
        text += random() % 2 ? "merge@c[4..6]" : "mark@c21 . mark@c21";
    }
    if (n > 1) text += random() % 5 ? " . " : " || ";
  }
  return text;
}

TEST(Circuits, DoWhatTheyMeanOnEveryBackend) {
  std::mt19937 random(4);
  for (int k = 0; k < 30; ++k) {
    std::string text = random_circuit(random, k % 2 == 1);
    ClassMemory expected(1), canonical(1);
    reference(calls(text), expected);
    for (const char* backend : {"cpu", "interp", "null"}) {
      ClassMemory memory(1);
      run(backend, calls(text), memory);
      EXPECT_TRUE(memory == expected) << text << " on " << backend;
    }
    auto rewritten = sigmatics::canonicalize(sigmatics::parse_circuit(text), Rules::memory);
    run("cpu", sigmatics::calls_of(rewritten.circuit), canonical);
    EXPECT_TRUE(canonical == expected) << text;
  }
}

TEST(Circuits, BecomeOneProgramWithoutIntermediateStores) {
  auto kernels = lower_circuit(sigmatics::effects_of(calls("copy@c1->c2 . swap@c2<->c3 . merge@c3[c1,c4] . copy@c4->c5")).steps);
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].program.loop().stages[0].body.instrs.size(), 2u + 1u + 4u) << "loads of c1 and c3, one sum, stores of c2 to c5";
  EXPECT_TRUE(lower_circuit(sigmatics::effects_of(calls("swap@c1<->c2 . swap@c1<->c2")).steps).empty());
  EXPECT_EQ(lower_circuit(sigmatics::effects_of(calls("copy@c1->c2 . copy@c1@3->c2@4 . copy@c2->c3")).steps).size(), 3u)
      << "pages and whole classes do not share a program";
}

TEST(Circuits, VariantsAreTheOperationsOfTheirNames) {
  for (int k = 0; k < sigmatics::num_variants; ++k) {
    auto v = static_cast<Variant>(k);
    bool splits = v == Variant::sub || v == Variant::div;
    Call c;
    c.generator = splits ? Generator::split : Generator::merge;
    c.a = {3}, c.b = {4}, c.to = {5}, c.variant = v;
    EXPECT_EQ(sigmatics::variant_from_name(name_of(v)), v);
    std::string name(name_of(v));
    name[0] = static_cast<char>(std::tolower(name[0]));
    const std::string text = atlas::disassemble(lower_circuit(sigmatics::effects_of(std::vector{c}).steps).at(0).program);
    EXPECT_NE(text.find(" = " + name + ".f32 "), std::string::npos) << text;
    c.variant = splits ? Variant::add : Variant::sub;
    EXPECT_THROW(sigmatics::effects_of(std::vector{c}), Error);
  }
}

TEST(Circuits, CopiesKeepEveryBit) {
  ClassMemory a(1), b(1);
  auto* words = reinterpret_cast<uint32_t*>(a.place({1}));
  for (size_t k = 0; k < class_floats; ++k) words[k] = 0x7f800001u + static_cast<uint32_t>(k);
  std::memcpy(b.place({1}), words, class_floats * 4);
  run("cpu", calls("copy@c1->c2 . swap@c2<->c9"), a);
  run("interp", calls("copy@c1->c2 . swap@c2<->c9"), b);
  EXPECT_EQ(std::memcmp(a.place({9}), words, class_floats * 4), 0) << "signalling NaNs too";
  EXPECT_TRUE(a == b);
}

TEST(Circuits, MemoryIsChecked) {
  ClassMemory m(1);
  auto kernels = lower_circuit(sigmatics::effects_of(calls("copy@c1->c2")).steps);
  EXPECT_THROW(run_circuit(on("cpu"), kernels, m.bytes().first(1000)), Error);
  std::vector<Line> wide(floats / 16 + 1);
  auto shifted = std::as_writable_bytes(std::span(wide)).subspan(4, floats * 4);
  EXPECT_THROW(run_circuit(on("cpu"), kernels, shifted), Error);
}

// --- single programs

TEST(RunProgram, ChecksWhatItIsGiven) {
  atlas::Program p = atlas::assemble(
      "atlas block 1\nsymbols 1\nbuffer b0 i32 read [s0]\nbuffer b1 i32 write [s0]\n"
      "loop parallel 1 lane i0\naxis i0 parallel [s0]\nstage point\n"
      "  %0 = constant.i32 0x6\n  %1 = load.i32 b0[i0]\n  %2 = div.i32 %0, %1\n"
      "  store.i32 b1[i0], %2\n");
  for (const char* backend : {"cpu", "interp", "null"}) {
    std::vector<int32_t> x{1, 2, -3, 4}, y(4);
    auto bytes = [](std::vector<int32_t>& v) { return std::as_writable_bytes(std::span(v)); };
    std::vector<Bytes> both{bytes(x), bytes(y)};
    std::vector<int64_t> four{4}, five{5}, none, negative{-1};
    run_program(on(backend), p, both, four);
    EXPECT_EQ(y, (std::vector<int32_t>{6, 3, -2, 1}));
    EXPECT_THROW(run_program(on(backend), p, both, five), Error);
    EXPECT_THROW(run_program(on(backend), p, both, none), Error);
    EXPECT_THROW(run_program(on(backend), p, both, negative), Error);
    EXPECT_THROW(run_program(on(backend), p, std::span(both).first(1), four), Error);
    x[1] = 0;
    EXPECT_NE(test::refusal([&] { run_program(on(backend), p, both, four); }, ErrorCode::division_by_zero), "");
  }
}

}  // namespace
}  // namespace hologram::runtime

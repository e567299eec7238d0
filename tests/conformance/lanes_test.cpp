// tests/conformance/lanes_test.cpp: lane programs leave the interpreter's bits and faults on every backend.
#include <filesystem>
#include <fstream>

#include "backend/registry.h"
#include "conformance/support.h"
#include "ir/scalar.h"
#include "support/paths.h"
#include "support/test.h"

namespace hologram::test {
namespace {

using namespace atlas;

constexpr DType all12[] = {DType::i8,  DType::i16, DType::i32, DType::i64,  DType::u8,  DType::u16,
                           DType::u32, DType::u64, DType::f16, DType::bf16, DType::f32, DType::f64};

LaneProgram lane(const std::string& text) { return assemble_lane("atlas lane 1\n" + text); }

const Backend& interp_backend() { return runtime_of("interp")->backend(); }

// Those of the build that must leave what the interpreter leaves.
const std::vector<const Backend*>& others() {
  static const auto* const all = [] {
    auto* out = new std::vector<const Backend*>;
    for (const RegisteredBackend& b : registered_backends())
      if (b.name != "interp" && b.device_count() > 0) out->push_back(&runtime_of(b.name)->backend());
    return out;
  }();
  return *all;
}

// What a launch leaves behind.
struct Outcome {
  std::vector<std::vector<uint64_t>> buffers;
  std::vector<std::byte> boundary;
  std::array<double, num_classes> resonance{};
  std::string fault;
};

Outcome run(const Backend& backend, const LaneProgram& p, const LaneLaunch& launch, std::vector<std::vector<uint64_t>> buffers,
            bool boundary) {
  Outcome out{std::move(buffers), {}, {}, {}};
  if (boundary) out.boundary.resize(static_cast<size_t>(boundary_bytes));
  LaneMemory memory;
  for (auto& b : out.buffers) memory.buffers.push_back(std::as_writable_bytes(std::span(b)));
  memory.boundary = out.boundary;
  try {
    backend.compile_lanes(p)->run(launch, memory);
  } catch (const LaneError& e) {
    out.fault = e.what();
  }
  out.resonance = memory.resonance;
  return out;
}

bool same(DType type, uint64_t x, uint64_t y) {
  if (is_float(type) && std::isnan(ir::as_double(type, x))) return std::isnan(ir::as_double(type, y));
  return x == y;
}

// Element j of buffer 1 is of type types[j % their number].
void expect_equal(const Outcome& a, const Outcome& b, std::span<const DType> types, const std::string& text) {
  EXPECT_EQ(a.fault, b.fault) << text;
  for (size_t k = 0; k < a.buffers.size(); ++k)
    for (size_t j = 0; j < a.buffers[k].size(); ++j)
      ASSERT_TRUE(same(k == 0 ? types[j % types.size()] : DType::host, a.buffers[k][j], b.buffers[k][j]))
          << "word " << j << " of buffer " << k + 1 << ": " << a.buffers[k][j] << " and " << b.buffers[k][j] << "\n"
          << text;
  EXPECT_TRUE(a.boundary == b.boundary) << text;
  EXPECT_EQ(a.resonance, b.resonance) << text;
}

// What the interpreter leaves; expects the same of the others.
Outcome tried(const LaneProgram& p, const LaneLaunch& launch, const std::vector<std::vector<uint64_t>>& buffers, bool boundary,
              std::span<const DType> types, const std::string& text) {
  Outcome a = run(interp_backend(), p, launch, buffers, boundary);
  for (const Backend* other : others()) {
    SCOPED_TRACE(other->name());
    expect_equal(a, run(*other, p, launch, buffers, boundary), types, text);
  }
  return a;
}

// Runs on all; buffer 1 holds values of `type`, or bits where there is none. Returns the fault.
std::string expect_same(const std::string& text, const LaneLaunch& launch, std::vector<std::vector<uint64_t>> buffers,
                        bool boundary = false, DType type = DType::host) {
  return tried(lane(text), launch, buffers, boundary, std::array{type}, text).fault;
}

std::string expect_same(const std::string& text, size_t words = 16) { return expect_same(text, {}, {std::vector<uint64_t>(words)}); }

std::vector<uint64_t> boundary_values(DType t) {
  if (is_float(t)) {
    std::vector<uint64_t> v;
    double inf = std::numeric_limits<double>::infinity();
    for (double x : {0.0, -0.0, 1.0, -2.5, 0.3, inf, -inf, double(NAN), 1e-40, 65504.0, -3e38, 1e19}) v.push_back(ir::bits_of(t, x));
    return v;
  }
  uint64_t mask = ~uint64_t{0} >> (64 - 8 * size_of(t)), top = (mask >> 1) + 1;
  return {0, 1, mask, top, top - 1, 3, 100};
}

// One instruction on three registers r1, r2, r3 (r4 a u32) with every combination of values; its result goes to buffer 1.
void check_values(const std::string& instruction, DType type, DType result) {
  auto values = boundary_values(type);
  std::string text = fmt::format(
      "mov_imm.u64 r20, 2\nmov_imm.u64 r21, 8\nmov_imm.u64 r22, 24\nmul.u64 r23, r255, r22\n"
      "ldg.{0} r1, [r20 + r23]\nadd.u64 r23, r23, r21\nldg.{0} r2, [r20 + r23]\n"
      "ldg.u32 r4, [r20 + r23]\nadd.u64 r23, r23, r21\nldg.{0} r3, [r20 + r23]\n"
      "seteq.u32 p0, r252, r252\n{1}\n"
      "mov_imm.u64 r20, 1\nmul.u64 r23, r255, r21\nstg.{2} [r20 + r23], r0\n",
      name_of(type), instruction, name_of(result));
  std::vector<uint64_t> in;
  for (uint64_t x : values)
    for (uint64_t y : values)
      for (uint64_t z : {values[2], values[3]}) in.insert(in.end(), {x, y, z});
  size_t n = in.size() / 3;
  expect_same(text, LaneLaunch::linear(n, 16), {std::vector<uint64_t>(n + 16), in}, false, result);
}

bool there_is(const std::string& instruction) {
  try {
    check_structure(lane(instruction + "\n"));
    return true;
  } catch (const LaneError&) {
    return false;
  }
}

TEST(Lanes, ArithmeticOnEveryType) {
  for (DType t : all12) {
    auto name = std::string(name_of(t));
    for (const char* op : {"add", "sub", "mul", "min", "max", "and", "or", "xor"}) {
      const std::string text = fmt::format("{}.{} r0, r1, r2", op, name);
      if (there_is(text)) check_values(text, t, t);
    }
    check_values("mov." + name + " r0, r1", t, t);
    check_values("sel." + name + " r0, p0, r2, r1", t, t);
    if (is_int(t)) {
      check_values("not." + name + " r0, r1", t, t);
      check_values("shl." + name + " r0, r1, r4", t, t);
      check_values("shr." + name + " r0, r1, r4", t, t);
    }
    if (t == DType::i32 || t == DType::i64 || t == DType::f32 || t == DType::f64) {
      check_values("mad." + name + " r0, r1, r2, r3", t, t);
      for (const char* op : {"add", "min", "max", "mul"}) {
        check_values(fmt::format("reduce.{}.{} r0, r1, 3", op, name), t, t);
        check_values(fmt::format("reduce.{}.{} r0, r1, 0", op, name), t, t);
      }
    }
    if (is_signed_int(t) || t == DType::f32 || t == DType::f64) {
      check_values("abs." + name + " r0, r1", t, t);
      check_values("neg." + name + " r0, r1", t, t);
    }
  }
}

TEST(Lanes, Functions) {
  for (const char* t : {"f32", "f64"}) {
    DType type = *dtype_from_name(t);
    check_values(fmt::format("fma.{} r0, r1, r2, r3", t), type, type);
    check_values(fmt::format("div.{} r0, r1, r2", t), type, type);
    for (const char* f : {"exp", "log", "log2", "log10", "sqrt", "rsqrt", "sin", "cos", "tan", "tanh", "sigmoid"})
      check_values(fmt::format("{}.{} r0, r1", f, t), type, type);
  }
}

TEST(Lanes, ConversionsBetweenAnyTypes) {
  for (DType to : all12)
    for (DType from : all12) check_values(fmt::format("cvt.{}.{} r0, r1", name_of(to), name_of(from)), from, to);
}

TEST(Lanes, Comparisons) {
  for (DType t : all12)
    for (const char* c : {"eq", "ne", "lt", "le", "gt", "ge", "ltu", "leu", "gtu", "geu"}) {
      const std::string text = fmt::format("set{}.{} p1, r1, r2", c, name_of(t));
      if (there_is(text)) check_values(text + "\nmov_imm.u8 r10, 1\nmov_imm.u8 r11, 0\nsel.u8 r0, p1, r10, r11", t, DType::u8);
    }
  // What they mean, apart from the interpreter, which takes them from the same table: of 1 and 2, 2 and 2, 2 and 1, -1 and 1.
  struct Row {
    const char* name;
    std::array<bool, 4> holds;
  };
  constexpr std::array<int, 2> pairs[] = {{1, 2}, {2, 2}, {2, 1}, {-1, 1}};
  std::string text = "mov_imm.i32 r10, 1\nmov_imm.i32 r11, 0\n";
  for (const Row& row :
       {Row{"eq", {0, 1, 0, 0}}, Row{"ne", {1, 0, 1, 1}}, Row{"lt", {1, 0, 0, 1}}, Row{"le", {1, 1, 0, 1}}, Row{"gt", {0, 0, 1, 0}},
        Row{"ge", {0, 1, 1, 0}}, Row{"ltu", {1, 0, 0, 0}}, Row{"leu", {1, 1, 0, 0}}, Row{"gtu", {0, 0, 1, 1}}, Row{"geu", {0, 1, 1, 1}}})
    for (size_t k = 0; k < 4; ++k)  // what is not so divides by zero
      text += fmt::format("mov_imm.i32 r1, {}\nmov_imm.i32 r2, {}\nset{}.i32 p1, r1, r2\nsel.i32 r3, p1, r{}\ndiv.i32 r0, r10, r3\n",
                          pairs[k][0], pairs[k][1], row.name, row.holds[k] ? "10, r11" : "11, r10");
  EXPECT_EQ(expect_same(text + "stg.i32 [buf1 + 0], r0\n"), "");
}

TEST(Lanes, IntegerDivision) {
  for (const char* t : {"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"}) {
    for (auto [x, y] : {std::array{7, 3}, {250, 255}, {128, 255}, {0, 5}}) {
      EXPECT_EQ(expect_same(fmt::format("mov_imm.{0} r1, {1}\nmov_imm.{0} r2, {2}\n"
                                        "div.{0} r0, r1, r2\nstg.{0} [buf1 + 0], r0\n",
                                        t, x, y)),
                "");
    }
    std::string fault =
        expect_same(fmt::format("mov_imm.{0} r1, 5\nstg.{0} [buf1 + 8], r1\nmov_imm.{0} r2, 0\ndiv.{0} r0, r1, r2\n"
                                "stg.{0} [buf1 + 0], r1\n",
                                t));
    EXPECT_EQ(fault, fmt::format("DivisionByZero: instruction 3 (div.{} r0, r1, r2)", t));
  }
}

TEST(Lanes, Faults) {
  auto begins = [](const std::string& text, std::string_view name) {
    std::string fault = expect_same(text);
    EXPECT_EQ(fault.substr(0, name.size()), name) << fault;
  };
  for (DType type : all12) {
    const std::string t(name_of(type));
    const int last = 128 - size_of(type);
    for (int offset : {last, last + 1}) {
      begins(fmt::format("ldg.{} r0, [buf1 + {}]\n", t, offset), offset == last ? "" : "BufferOutOfBounds");
      begins(fmt::format("mov_imm.{0} r0, 1\nstg.{0} [buf1 + {1}], r0\n", t, offset), offset == last ? "" : "BufferOutOfBounds");
    }
  }
  begins("ldg.u8 r0, [buf1 + 18446744073709551615]\n", "BufferOutOfBounds");
  begins("ldg.u8 r0, [buf2 + 0]\n", "InvalidBufferHandle");
  begins("ldg.u8 r0, [Φ(0, 0, 0)]\n", "InvalidBufferHandle");
  begins("mov_imm.u64 r1, 1\nldg.u8 r0, [r1 - 4]\n", "BufferOutOfBounds");
  begins("lds.u8 r0, [buf0 + 0]\n", "BufferOutOfBounds");
  begins("mov_imm.u8 r1, 96\nmirror r0, r1\n", "InvalidClassIndex");
  begins("mov_imm.u8 r1, 5\nmov_imm.u8 r2, 48\nbound.map r0, r1, r2, r1\n", "InvalidBoundaryCoordinates");
  begins("mov_imm.u64 r1, 7\npool.free r1\n", "InvalidPoolHandle");
  std::string pool = "pool.alloc r1, 16\nmov_imm.u64 r2, ";
  begins(pool + "8\npool.load.f64 r3, r1, r2\n", "");
  begins(pool + "9\npool.load.f64 r3, r1, r2\n", "PoolOutOfBounds");
  begins(pool + "16\nmov_imm.u8 r3, 0\npool.store.u8 r1, r2, r3\n", "PoolOutOfBounds");
  begins(pool + "0\npool.free r1\npool.load.u8 r3, r1, r2\n", "InvalidPoolHandle");
  begins(pool + "0\npool.free r1\npool.free r1\n", "InvalidPoolHandle");
  begins("pool.alloc r1, 9223372036854775808\n", "OutOfMemory");
  begins("again:\ncall @again\n", "CallStackOverflow");
  begins("bra @end\nmov_imm.i32 r1, 1\nend:\nret\n", "CallStackUnderflow");
  begins("seteq.u32 p0, r252, r252\nmov_imm.i32 r1, 1\nsel.i32 r0, p0, r2, r1\n", "UninitializedRegister");
  begins("seteq.u32 p0, r252, r252\nmov_imm.i32 r1, 1\nsel.i32 r0, p0, r1, r2\n", "");
  begins("seteq.u32 p0, r252, r252\nmov_imm.i32 r1, 1\nmov_imm.u8 r2, 1\nsel.i32 r0, p0, r2, r1\n", "TypeMismatch");
}

TEST(Lanes, CornersOfTheBoundaryPool) {
  for (const auto& [place, wanted] :
       std::vector<std::pair<std::string, std::string>>{{"Φ(0, 0, 0)", ""},
                                                        {"phi(95, 47, 248)", ""},
                                                        {"Φ(95, 47, 249)", "BufferOutOfBounds"},
                                                        {"Φ(96, 0, 0)", "InvalidClassIndex"},
                                                        {"Φ(0, 48, 0)", "InvalidBoundaryCoordinates"},
                                                        {"buf0 + 1179640", ""},
                                                        {"buf0 + 1179641", "BufferOutOfBounds"},
                                                        {fmt::format("buf{} + 12280", class_handle(95)), ""},
                                                        {fmt::format("buf{} + 12281", class_handle(0)), "BufferOutOfBounds"},
                                                        {fmt::format("buf{}", class_handle(0) - 1), "InvalidBufferHandle"}}) {
    const std::string text = fmt::format("mov_imm.u64 r0, 7\nstg.u64 [{}], r0\n", place);
    const std::string fault = expect_same(text, {}, {std::vector<uint64_t>(1)}, true);
    EXPECT_EQ(fault.substr(0, fault.find(':')), wanted) << place;
  }
}

TEST(Lanes, ReportUnsoundProgramsBeforeTheyRun) {
  std::vector<const Backend*> all = others();
  all.push_back(&interp_backend());
  for (const Backend* b : all) EXPECT_THROW(b->compile_lanes(lane("add.i32 r0, r1, r2\n")), LaneError) << b->name();
}

TEST(Lanes, LoopsAndCalls) {
  for (uint64_t n : {0, 1, 2, 1000000})
    EXPECT_EQ(expect_same(fmt::format("mov_imm.u32 r1, {}\nmov_imm.u64 r2, 0\nmov_imm.u64 r3, 1\n"
                                      "again:\nadd.u64 r2, r2, r3\nloop r1, @again\n"
                                      "stg.u64 [buf1 + 0], r2\n",
                                      n)),
              "");
  // 256 calls deep, counted on the way back.
  EXPECT_EQ(expect_same("mov_imm.u32 r1, 254\nmov_imm.u64 r2, 0\nmov_imm.u64 r3, 1\ncall @down\n"
                        "stg.u64 [buf1 + 0], r2\nexit\ndown:\nmov_imm.u32 r4, 0\n"
                        "seteq.u32 p0, r1, r4\nbra.p0 @bottom\nmov_imm.u32 r5, 1\n"
                        "sub.u32 r1, r1, r5\ncall @down\nbottom:\nadd.u64 r2, r2, r3\nret\n"),
            "");
}

TEST(Lanes, StepLimitsAreExact) {
  std::string text = "mov_imm.u32 r1, 3\nagain:\nstg.u32 [buf1 + 0], r1\nloop r1, @again\n";
  for (uint64_t limit = 0; limit < 14; ++limit) {
    LaneLaunch launch;
    launch.max_steps = limit;
    std::string fault = expect_same(text, launch, {std::vector<uint64_t>(1)});
    EXPECT_EQ(fault, limit >= 10 ? "" : fmt::format("ExecutionError: more than {} steps", limit));
  }
}

TEST(Lanes, BarriersReverseABlockThroughSharedMemory) {
  for (uint32_t n : {1u, 2u, 32u, 1024u}) {
    LaneLaunch launch;
    launch.grid.x = 3;
    launch.block.x = n;
    launch.shared_bytes = n * 8;
    std::string text =
        "mov_imm.u64 r1, 8\nmov_imm.u64 r2, 0\nmov_imm.u64 r3, 1\ncvt.u64.u32 r4, r252\n"
        "mul.u64 r5, r4, r1\nsts.u64 [r2 + r5], r255\nbar.sync 0\ncvt.u64.u32 r6, r254\n"
        "sub.u64 r6, r6, r3\nsub.u64 r6, r6, r4\nmul.u64 r6, r6, r1\nlds.u64 r7, [r2 + r6]\n"
        "mul.u64 r8, r255, r1\nstg.u64 [r3 + r8], r7\n";
    EXPECT_EQ(expect_same(text, launch, {std::vector<uint64_t>(3 * n)}), "");
    Outcome out = run(interp_backend(), lane(text), launch, {std::vector<uint64_t>(3 * n)}, false);
    for (uint64_t l = 0; l < 3 * n; ++l) ASSERT_EQ(out.buffers[0][l], l / n * n + n - 1 - l % n);
  }
}

TEST(Lanes, DeadlocksAreReported) {
  LaneLaunch launch;
  launch.block.x = 2;
  std::string text =
      "mov_imm.u32 r1, 0\nseteq.u32 p0, r252, r1\nbra.p0 @other\nbar.sync 1\nexit\nother:\n"
      "bar.sync 2\n";
  EXPECT_NE(expect_same(text, launch, {}).find("deadlock"), std::string::npos);
}

TEST(Lanes, ClassesPhasesAndPools) {
  LaneLaunch launch;
  launch.grid = {97, 2, 1};
  launch.block = {2, 1, 1};
  launch.first_phase = 700;
  std::string text =
      "cls.get r1\nmirror r2, r1\nnbr.count r3, r1\nnbr.get r4, r1, 4\nnbr.get r5, r1, 6\n"
      "unity.test p0, 0\nmov_imm.f64 r6, 4607182418800017408\nres.accum r1, r6\nphase.adv 100\n"
      "phase.get r7\nbar.sync 3\nphase.adv 767\nphase.get r8\nmov_imm.u8 r9, 7\n"
      "bound.map r10, r1, r9, r4\nmov_imm.u64 r11, 0\nstg.u32 [r11 + r10], r3\n"
      "pool.alloc r12, 64\nmov_imm.u64 r13, 8\npool.store.u64 r12, r13, r10\n"
      "pool.load.u64 r14, r12, r13\npool.free r12\nmov_imm.u32 r15, 9\nsel.u32 r15, p0, r7, r8\n"
      "mov_imm.u64 r20, 1\nmul.u64 r21, r255, r13\nadd.u64 r14, r14, r12\n"
      "stg.u32 [r20 + r21], r15\n";
  EXPECT_EQ(expect_same(text, launch, {std::vector<uint64_t>(97 * 2 * 2)}, true), "");
}

TEST(Lanes, RunTheExamplesOfTheFuzzers) {
  int count = 0;
  for (const auto& file : std::filesystem::directory_iterator(source_file("tests/fuzz/corpus/lane_assemble"))) {
    std::ifstream in(file.path());
    std::string text((std::istreambuf_iterator<char>(in)), {});
    LaneProgram p = assemble_lane(text);
    LaneLaunch launch;
    launch.grid.x = 2;
    launch.block = {4, 2, 1};
    launch.shared_bytes = 256;
    std::vector<std::vector<uint64_t>> buffers(2, std::vector<uint64_t>(64));
    tried(p, launch, buffers, true, std::array{DType::host}, file.path());
    ++count;
  }
  EXPECT_GE(count, 4);
}

// --- random programs

// Sound programs with branches, loops, calls and barriers. Register k < 12 always holds a
// types[k]; stores to memory that is read back are integers, so that NaNs stay comparable.
class RandomProgram {
 public:
  explicit RandomProgram(unsigned seed) : random_(seed) {
    for (DType& t : types) t = all12[below(12)];
    types[0] = DType::i32;
    types[1] = DType::f32;
    types[2] = DType::u64;
    types[3] = DType::f64;
  }

  std::string text() {
    out_.clear();
    emit("mov_imm.u64 r100, 1\nmov_imm.u64 r101, 2\nmov_imm.u64 r102, 3\nmov_imm.u64 r103, 8");
    emit("mov_imm.u64 r104, 0\nmov_imm.u64 r105, 96\nmul.u64 r110, r255, r105");
    for (size_t k = 0; k < 12; ++k) emit("ldg.{} r{}, [buf2 + {}]", name_of(types[k]), k, below(30) * 8);
    for (int p = 0; p < 3; ++p) emit("set{}.u64 p{}, r255, r{}", p ? "lt" : "ne", p, 100 + p);
    statements(6 + below(10), 2);
    for (size_t k = 0; k < 12; ++k) {
      emit("stg.{} [r100 + r110], r{}", name_of(types[k]), k);
      emit("add.u64 r110, r110, r103");
    }
    emit("exit");
    for (int s = 0; s < subroutines_; ++s) {
      emit("sub{}:", s);
      straight(3);
      emit("ret");
    }
    return out_;
  }

  std::array<DType, 12> types{};

 private:
  unsigned below(unsigned n) { return static_cast<unsigned>(random_() % n); }

  template <class... Args>
  void emit(fmt::format_string<Args...> format, Args&&... args) {
    out_ += fmt::format(format, std::forward<Args>(args)...) + "\n";
  }

  // A register of a type that `fits`; one always does.
  template <class F>
  size_t pick(F fits) {
    for (;;) {
      size_t k = below(12);
      if (fits(types[k])) return k;
    }
  }
  size_t pick_of(DType t) {
    return pick([t](DType x) { return x == t; });
  }

  void statements(unsigned n, int depth) {
    for (; n > 0; --n) {
      switch (below(9)) {
        case 0: {  // if
          int label = labels_++;
          emit("bra.p{} @l{}", below(3), label);
          straight(2);
          if (depth > 0) statements(2, depth - 1);
          emit("l{}:", label);
          break;
        }
        case 1: {  // loop
          if (depth == 0) break;
          int label = labels_++;
          emit("mov_imm.u32 r{}, {}", 200 + label % 40, below(4));
          emit("l{}:", label);
          statements(2, depth - 1);
          emit("loop r{}, @l{}", 200 + label % 40, label);
          break;
        }
        case 2:
          if (subroutines_ < 4) ++subroutines_;
          emit("call @sub{}", below(static_cast<unsigned>(subroutines_)));
          break;
        case 3:
          if (below(3) == 0) emit("bar.sync {}", below(2));
          break;
        default:
          straight(3);
      }
    }
  }

  void straight(int n) {
    for (; n > 0; --n) instruction();
  }

  void instruction() {
    // {0}: a type, {1}: a register that holds it, {2} to {4}: others, {5}: now and then one that holds nothing, which faults where it is
    // read, {6}: a predicate, {7}: a number below `below`, or in one of 60 cases `rarely`.
    struct Row {
      bool (*fits)(DType);
      std::vector<const char*> names;
      const char* operands;
      unsigned below = 1, rarely = 0;
    };
    constexpr auto any = [](DType) { return true; };
    constexpr auto all10 = [](DType t) { return t != DType::f16 && t != DType::bf16; };
    constexpr auto ints = [](DType t) { return is_int(t); };
    constexpr auto wide = [](DType t) { return t == DType::i32 || t == DType::f32 || t == DType::f64; };
    constexpr auto real = [](DType t) { return t == DType::f32 || t == DType::f64; };
    constexpr const char *unary = ".{0} r{1}, r{2}", *binary = ".{0} r{1}, r{2}, r{3}";
    static const std::vector<Row> rows = {
        {ints, {"div"}, binary},  // may fault: mostly the next row is taken
        {wide, {"mad"}, ".{0} r{1}, r{2}, r{3}, r{4}"},
        {all10, {"add", "sub", "mul", "min", "max"}, binary},
        {all10, {"add", "sub", "mul", "min", "max"}, binary},
        {ints, {"and", "or", "xor"}, binary},
        {real, {"div"}, binary},
        {real, {"exp", "log", "sqrt", "sin", "tanh", "sigmoid", "rsqrt"}, unary},
        {all10, {"seteq", "setne", "setlt", "setle", "setgt", "setge"}, ".{0} p{6}, r{1}, r{2}"},
        {any, {"sel"}, ".{0} r{1}, p{6}, r{2}, r{5}"},
        {any, {"mov_imm"}, ".{0} r{1}, {7}", 1000},
        {any, {"ldg"}, ".{0} r{1}, [buf2 + {7}]", 248},
        {ints, {"stg"}, ".{0} [buf3 + {7}], r{1}", 57},  // memory that lanes share
        {ints, {"ldg"}, ".{0} r{1}, [buf3 + {7}]", 57, 999},
        {ints, {"sts"}, ".{0} [buf0 + {7}], r{1}", 57},
        {ints, {"lds"}, ".{0} r{1}, [buf0 + {7}]", 57},
    };
    const size_t what = below(18);
    if (what == rows.size()) return emit("phase.adv {}\nphase.get r120\ncvt.u64.u32 r2, r120", below(800));
    if (what == rows.size() + 1) {
      const size_t d = below(12), s = below(12);
      return emit("cvt.{}.{} r{}, r{}", name_of(types[d]), name_of(types[s]), d, s);
    }
    if (what > rows.size()) {
      const size_t d = pick(ints);
      emit("cvt.u32.{} r121, r{}", name_of(types[d]), pick_of(types[d]));
      return emit("{}.{} r{}, r{}, r121", below(2) ? "shl" : "shr", name_of(types[d]), d, pick_of(types[d]));
    }
    const Row& row = rows[what == 0 && below(4) ? 1 : what];
    const size_t d = pick(row.fits);
    auto held = [&] { return pick_of(types[d]); };
    const unsigned number = row.rarely && below(60) == 0 ? row.rarely : below(row.below);
    out_ += row.names[below(static_cast<unsigned>(row.names.size()))];
    out_ +=
        fmt::format(fmt::runtime(row.operands), name_of(types[d]), d, held(), held(), held(), below(24) ? held() : 99, below(3), number);
    out_ += "\n";
  }

  std::mt19937 random_;
  std::string out_;
  int labels_ = 0, subroutines_ = 0;
};

TEST(Lanes, RandomProgramsAgreeWithTheInterpreter) {
  int ran = 0, faulted = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    RandomProgram random(seed);
    std::string text = random.text();
    LaneProgram p = lane(text);
    try {
      verify(p);
    } catch (const LaneError&) {
      continue;  // a barrier in a subroutine's loop, say
    }
    LaneLaunch launch;
    launch.grid.x = 2;
    launch.block = {3, 2, 1};
    launch.shared_bytes = 64;
    launch.max_steps = 200000;
    constexpr size_t total = 12;
    std::mt19937_64 data(seed);
    std::vector<uint64_t> in(32);
    for (uint64_t& w : in) w = data();
    std::vector<std::vector<uint64_t>> buffers = {std::vector<uint64_t>(total * 12), in, std::vector<uint64_t>(8)};
    const Outcome a = tried(p, launch, buffers, false, random.types, text);
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
    ++ran;
    faulted += !a.fault.empty();
  }
  EXPECT_GT(ran, 45);
  EXPECT_GT(faulted, 3);
  EXPECT_LT(faulted, 45);
}

}  // namespace
}  // namespace hologram::test

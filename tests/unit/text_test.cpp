// tests/unit/text_test.cpp: the text form of graphs: both ways, errors with positions, and nonsense.
#include "ir/graph.h"
#include "support/refusal.h"
#include "support/test.h"
#include "unit/random_graph.h"

namespace hologram::ir {
namespace {

std::string error_of(std::string_view text) {
  Graph g;
  return test::refusal([&] { parse(text, g); });
}

TEST(Text, PrintsWhatItReads) {
  const std::string printed =
      "graph(symbols=1, parameters=2)\n"
      "%0: f32[s0, 4] = parameter index=0 strides=[4, 1]\n"
      "%1: f32[s0, 4] = constant value=0.5\n"
      "%2: f32[s0, 4] = mul %0, %1\n"
      "%3: f32[s0] = reduce_sum %2 axes=[1]\n"
      "%4: f16[2] = parameter index=1 strides=[1]\n"
      "%5: f16[3] = pad %4 low=[-1] value=0x7e00\n"
      "return %3 strides=[1]\n"
      "return %2 parameter=0\n"
      "return %5 strides=[1]\n";
  Graph g, loose;
  parse(printed, g);
  EXPECT_EQ(print(g), printed);
  std::string text = printed;
  text.insert(text.find("%0"), "# the coordinate of a byte; comments and blank lines may stand anywhere\n\n");
  text.insert(text.find("0.5") + 3, "  # a half");
  parse(text, loose);
  EXPECT_EQ(print(loose), printed);
}

TEST(Text, ErrorsHaveLineAndColumn) {
  EXPECT_EQ(error_of("%0: f33[2] = iota axis=0"), "line 1, column 5: expected a dtype");
  EXPECT_EQ(error_of("\n  %0: f32[2] = wave axis=0"), "line 2, column 16: expected an operation");
  EXPECT_EQ(error_of("%0: f32[2 = iota axis=0"),
            "line 1, column 9: expression \"2 = iota axis=0\": expected the end of the expression at position 2");
  EXPECT_EQ(error_of("%0: f32[2] = neg %1"), "line 1, column 18: this value is not defined above");
  EXPECT_EQ(error_of("%0: f32[2] = iota axis=0 more"), "line 1, column 26: expected the end of the line");
  EXPECT_EQ(error_of("%0: f32[2] = iota axis=1"), "line 1, column 1: iota: axis 1 is outside [0, 1)");
  EXPECT_EQ(error_of("%0: i8[2] = constant value=300"), "line 1, column 28: 300 does not fit i8");
  EXPECT_EQ(error_of("%0: f32[2] = iota axis=0\n%0: f32[2] = iota axis=0"), "line 2, column 1: this value is defined already");
  EXPECT_EQ(error_of("return %7"), "line 1, column 8: this value is not defined above");
  EXPECT_EQ(error_of("give %7"), "line 1, column 1: expected '%', 'return' or 'graph'");
  EXPECT_EQ(error_of("%0: f32[2] = iota axis=0\nreturn %0"), "output 0: 0 strides for a value of rank 1");
  EXPECT_EQ(error_of("%0: host[] = host_call callee=1 sizes=[] name=\"\\q\""), "line 1, column 48: expected \\x and two digits");
  EXPECT_EQ(error_of("%0: host[] = iota axis=0"), "line 1, column 1: iota does not make values of the host");
}

TEST(Text, ScalarsAreExact) {
  for (std::string_view value : {"0.1", "-0", "1e-45", "3.4028235e+38", "0x7f800000", "0xffc00001", "16777216"}) {
    Graph g;
    parse(fmt::format("%0: f32[] = constant value={}\nreturn %0 strides=[]", value), g);
    EXPECT_NE(print(g).find(fmt::format("value={}", value)), std::string::npos) << print(g);
  }
  for (std::string_view t : {"f64", "bf16", "f16", "u64", "i64", "b8"}) {
    Graph g, back;
    uint64_t bits = t == "b8" ? 1 : t == "f64" ? 0x3fb999999999999a : 0x3e99;
    g.outputs.push_back({g.constant(*dtype_from_name(t), bits), {}});
    parse(print(g), back);
    EXPECT_EQ(fingerprint(back), fingerprint(g)) << print(g);
  }
}

// A mutated text is an Error or a graph that prints and reads back.
TEST(Text, ParserSurvivesMutations) {
  std::mt19937_64 random(1);
  int parsed = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    const std::string original = print(test::RandomGraph(seed, 12).graph);
    for (int k = 0; k < 50; ++k) {
      std::string text = original;
      for (uint64_t n = random() % 3 + 1; n > 0 && !text.empty(); --n) {
        const size_t at = random() % text.size(), from = random() % text.size(), how = random() % 4;
        const std::string with = how < 2 ? std::string(how, static_cast<char>(random())) : text.substr(from, how == 2 ? 1 : random() % 12);
        text.replace(at, how == 0 ? random() % 8 + 1 : how < 3, with);
      }
      try {
        Graph g, back;
        parse(text, g);
        ++parsed;
        parse(print(g), back);
        ASSERT_EQ(fingerprint(back), fingerprint(g)) << text;
      } catch (const Error& e) {
        ASSERT_EQ(e.code(), ErrorCode::invalid_argument) << text;
      }
    }
  }
  EXPECT_GT(parsed, 200) << "mutations must leave some texts well-formed";
}

}  // namespace
}  // namespace hologram::ir

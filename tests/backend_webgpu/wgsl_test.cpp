// tests/backend_webgpu/wgsl_test.cpp: WGSL of programs, without a device.
#include "backend/webgpu/wgsl/module.h"
#include "backend/webgpu/wgsl/unit.h"
#include "support/corpus.h"
#include "support/test.h"

namespace hologram::webgpu::wgsl {
namespace {

using test::corpus;

// By reason, the programs of the corpus that run on the host.
TEST(Corpus, WhatIsLeftToTheHost) {
  std::map<std::string, std::string> left;
  for (const auto& [name, program] : corpus())
    if (const auto why = why_unrendered(program)) left[*why] += name + " ";
  const std::map<std::string, std::string> wanted{{"f64 is no type of WGSL", "casts doubles special "}};
  EXPECT_EQ(left, wanted);
}

// i and 32, say, are no name.
TEST(Unit, NamesAreNoWords) {
  Unit unit(corpus().at("softmax"));
  for (int n = 0; n < 70; ++n)
    for (const char* stem : {"i", "u", "f"}) {
      const std::string name = unit.fresh(stem);
      EXPECT_TRUE(name != "i32" && name != "u32" && name != "f32" && name != "f16") << name;
    }
}

// The line in front says how a kernel is launched (docs/webgpu.md).
TEST(Module, BeginsWithItsLaunch) {
  const Module module = render(corpus().at("softmax"));
  const std::string line =
      "//!{'wgsl':1,'symbols':2,'faults':false,'buffers':[{'type':'f32','access':'read','elements':'s0*s1'},"
      "{'type':'f32','access':'write','elements':'s0*s1'}],'has_fma':true,'dispatches':["
      "{'entry':'main','units':'s0','threads':64,'teams':true,'buffers':[0,1],'faults':false,'rounds':'3*(s1 + 63 // 64) + 128'}]}";
  std::string got = module.text.substr(0, module.text.find('\n'));
  std::ranges::replace(got, '"', '\'');
  EXPECT_EQ(got, line);
}

// One text for devices with subgroups and without. What is combined otherwise stays the same.
TEST(Module, UsesSubgroupsWhereTheyExist) {
  for (const auto& [name, counts] : {std::pair("softmax", true), {"attention", true}, {"argmax", false}, {"where", false}}) {
    const std::string text = render(corpus().at(name)).text, with = with_subgroups(text);
    EXPECT_EQ(text.find(with_mark) != text.npos, counts) << name;
    EXPECT_EQ(with.find("subgroup") != with.npos, counts) << name;
    EXPECT_EQ(with.find("//+"), with.npos) << name;
    EXPECT_EQ(with.find("//-"), with.npos) << name;
    EXPECT_EQ(with.find(">> 1u)") == with.npos, counts || std::string(name) == "where") << name;
    EXPECT_EQ(with == text, !counts) << name;
    EXPECT_EQ(with.substr(0, with.find('\n')), text.substr(0, text.find('\n'))) << name;
    for (std::string_view left = text; !left.empty(); left.remove_prefix(std::min(left.find('\n') + 1, left.size()))) {
      const std::string_view line = left.substr(0, left.find('\n'));
      EXPECT_TRUE(line.find("subgroup") == line.npos || line.find(with_mark) != line.npos) << line;
    }
  }
}

// What is stored is read back without the program.
TEST(Stored, SaysWhatWasRendered) {
  for (const auto& [name, program] : corpus()) {
    if (why_unrendered(program)) continue;
    const Module made = render(program);
    const Stored read_back = read(made.text);
    EXPECT_EQ(read_back.num_symbols, program.num_symbols) << name;
    EXPECT_EQ(read_back.module.text, made.text) << name;
    EXPECT_EQ(read_back.module.faults, made.faults) << name;
    EXPECT_TRUE(read_back.module.scratch == made.scratch) << name;
    EXPECT_TRUE(read_back.module.dispatches == made.dispatches) << name;
    ASSERT_EQ(read_back.buffers.size(), program.buffers.size()) << name;
    for (size_t k = 0; k < program.buffers.size(); ++k) {
      EXPECT_EQ(read_back.buffers[k].dtype, program.buffers[k].dtype) << name;
      EXPECT_EQ(read_back.buffers[k].access, program.buffers[k].access) << name;
      const bool scratch = program.buffers[k].access == atlas::Access::scratch;
      EXPECT_TRUE(scratch || read_back.buffers[k].extent == program.buffers[k].extent) << name;
    }
  }
}

TEST(Stored, IsRefusedWhereItsLineDoesNotHoldTogether) {
  const std::string text = render(corpus().at("softmax")).text;
  const std::pair<std::string, std::string> wrong[] = {
      {"\"wgsl\":1", "\"wgsl\":2"},
      {"\"symbols\":2", "\"symbols\":1"},
      {"s0*s1", "s0*i1"},
      {"s0*s1", "s0*("},
      {"\"read\"", "\"rent\""},
      {"\"f32\"", "\"f31\""},
      {"\"entry\":\"main", "\"entry\":\"men"},
      {"[0,1]", "[0,2]"},
      {"\"threads\":64", "\"threads\":0"},
      {"]}\n", "]} \n"},
      {"return", "re\x1btur"},
      {"return", "retur\xe2\x82\xac"},
  };
  for (const auto& [from, to] : wrong) {
    std::string damaged = text;
    ASSERT_NE(damaged.find(from), damaged.npos) << from;
    damaged.replace(damaged.find(from), from.size(), to);
    try {
      read(damaged);
      ADD_FAILURE() << to;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::corrupt) << to;
    }
  }
  for (size_t n = 0; n < text.find('\n'); ++n) EXPECT_THROW(read(text.substr(0, n)), Error) << n;
}

// Drivers that end loops after so many rounds are not asked for more.
TEST(Module, KnowsTheRoundsOfItsLoops) {
  const std::array<int64_t, 2> symbols{7, 40000};
  EXPECT_EQ(render(corpus().at("softmax")).dispatches[0].rounds.eval(symbols), 3 * 625 + 2 * 64);
  EXPECT_EQ(render(corpus().at("cumsum")).dispatches[0].rounds.eval(symbols), 40000);
  EXPECT_EQ(render(corpus().at("sort")).dispatches[0].rounds.eval(symbols), 40000);
}

}  // namespace
}  // namespace hologram::webgpu::wgsl

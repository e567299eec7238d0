// tests/backend_webgpu/wgsl_test.cpp: WGSL of programs, without a device.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "backend/webgpu/wgsl/module.h"
#include "support/paths.h"

namespace hologram::webgpu::wgsl {
namespace {

using test::source_file;

std::map<std::string, atlas::Program> corpus() {
  std::map<std::string, atlas::Program> out;
  for (const auto& file :
       std::filesystem::directory_iterator(source_file("tests/conformance/corpus"))) {
    std::ifstream in(file.path());
    std::ostringstream text;
    for (std::string line; std::getline(in, line);)
      if (!line.starts_with("#")) text << line << "\n";
    out[file.path().stem().string()] = atlas::assemble(text.str());
  }
  return out;
}

// By reason, the programs of the corpus that run on the host.
TEST(Corpus, WhatIsLeftToTheHost) {
  std::map<std::string, std::string> left;
  for (const auto& [name, program] : corpus())
    if (const auto why = why_unrendered(program)) left[*why] += name + " ";
  const std::map<std::string, std::string> wanted{
      {"f64 is no type of WGSL", "casts doubles special "},
      {"gradients of attention", "attention_grad_1 attention_grad_2 "}};
  EXPECT_EQ(left, wanted);
}

// The line in front says how a kernel is launched (docs/webgpu.md).
TEST(Module, BeginsWithItsLaunch) {
  const Module module = render(corpus().at("softmax"));
  const std::string line =
      "//!{'wgsl':1,'symbols':2,'faults':false,'buffers':["
      "{'type':'f32','access':'read','elements':'s0*s1'},"
      "{'type':'f32','access':'write','elements':'s0*s1'}],'has_fma':true,'dispatches':["
      "{'entry':'main','units':'s0','threads':64,'teams':true,'buffers':[0,1],'faults':false}]}";
  std::string got = module.text.substr(0, module.text.find('\n'));
  std::ranges::replace(got, '"', '\'');
  EXPECT_EQ(got, line);
}

// Drivers that end loops after so many rounds are not asked for more.
TEST(Module, KnowsTheRoundsOfItsLoops) {
  const std::array<int64_t, 2> symbols{7, 40000};
  EXPECT_EQ(render(corpus().at("softmax")).dispatches[0].rounds.eval(symbols), 3 * (625 + 8));
  EXPECT_EQ(render(corpus().at("cumsum")).dispatches[0].rounds.eval(symbols), 40000);
  EXPECT_EQ(render(corpus().at("sort")).dispatches[0].rounds.eval(symbols), 40000);
}

}  // namespace
}  // namespace hologram::webgpu::wgsl

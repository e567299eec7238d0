// tests/backend_webgpu/gpu_test.cpp: what backends of GPUs decide alike.
#include "backend/webgpu/wgsl/module.h"
#include "gpu/loops.h"
#include "gpu/workspaces.h"
#include "support/corpus.h"
#include "support/test.h"

namespace hologram::gpu {
namespace {

TEST(Loops, AreLaidOverThreadsByWhatTeamsCanDo) {
  constexpr Teams plain{.least_row = 32}, skilled{.columns = true, .scans = true};
  using enum Mapping;
  const std::tuple<std::string, Mapping, Mapping> wanted[] = {
      {"where", thread, thread}, {"softmax", team, team},       {"sums_3", thread, columns},  {"cumsum", thread, team},
      {"argmax", team, team},    {"argmax_1", thread, columns}, {"scatter_1", thread, thread}};
  for (const auto& [name, by_plain, by_skilled] : wanted) {
    const atlas::Program program = test::corpus().at(name);
    EXPECT_EQ(mapping_of(program, plain), by_plain) << name;
    EXPECT_EQ(mapping_of(program, skilled), by_skilled) << name;
  }
}

TEST(Workspaces, LieSideBySideUpToSomeSize) {
  auto places = [](const std::vector<size_t>& sizes, size_t* all) {
    std::vector<Workspace> steps;
    for (const size_t bytes : sizes) steps.push_back({bytes, 0});
    std::vector<Workspace*> given;
    for (Workspace& w : steps) given.push_back(&w);
    *all = place_workspaces(given);
    std::vector<size_t> out;
    for (const Workspace& w : steps) {
      out.push_back(w.at);
      EXPECT_LE(w.at + w.bytes, *all);
    }
    return out;
  };
  constexpr size_t mib = size_t{1} << 20;
  size_t all = 0;
  EXPECT_EQ(places({100, 0, 300, 256}, &all), (std::vector<size_t>{0, 256, 256, 768}));
  EXPECT_EQ(all, 1024u);
  EXPECT_EQ(places({6 * mib, 9 * mib, 4 * mib, 12 * mib}, &all), (std::vector<size_t>{0, 6 * mib, 0, 4 * mib}));
  EXPECT_EQ(all, 16 * mib);
  EXPECT_EQ(places({mib, 40 * mib, mib}, &all), (std::vector<size_t>{0, 0, 0}));
  EXPECT_EQ(all, 40 * mib);
  EXPECT_EQ(places({}, &all), std::vector<size_t>{});
  EXPECT_EQ(all, 0u);
}

// Of a causal query, and of one whose score's body hides keys in front of the last five.
TEST(Attention, LooksAtNoKeysThatAreHidden) {
  std::string text = atlas::disassemble(test::corpus().at("attention"));
  const auto behind = [&] {
    const std::string wgsl = webgpu::wgsl::render(atlas::assemble(text)).text;
    const size_t at = wgsl.find("let begin = ");
    return wgsl.substr(at, wgsl.find('\n', wgsl.find("let behind = ", at)) - at);
  };
  const auto replace = [&](const std::string& from, const std::string& to) { text.replace(text.find(from), from.size(), to); };
  EXPECT_EQ(behind(), "let begin = 0;\n  let behind = 12;");
  replace("scale 0x3fd0000000000000", "scale 0x3fd0000000000000 causal");
  EXPECT_EQ(behind(), "let begin = 0;\n  let behind = min(12, i_0 + 1);");
  replace("score\n", R"(score
  %0 = accumulator.f32 a0
  %1 = index [i2 - 5]
  %2 = index [i3]
  %3 = lt.i64 %1, %2
  %4 = constant.f32 0xff800000
  %5 = select.f32 %3, %0, %4
)");
  EXPECT_EQ(behind(), "let begin = max(i_0 + -4, 0) / 64 * 64;\n  let behind = min(12, i_0 + 1);");
}

}  // namespace
}  // namespace hologram::gpu

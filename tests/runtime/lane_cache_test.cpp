// tests/runtime/lane_cache_test.cpp: machine code of lane programs in memory and on disk
#include <unistd.h>

#include <fstream>

#include "backend/cpu/backend.h"
#include "backend/interp/backend.h"
#include "runtime/kernel_cache.h"
#include "support/test.h"

namespace hologram::runtime {
namespace {

namespace fs = std::filesystem;

/// Writes eight times its number into each lane's word.
const char* const text =
    "atlas lane 1\n"
    "  mov_imm.u64 r0, 1\n"
    "  mov_imm.u64 r1, 8\n"
    "  mul.u64 r1, r1, r255\n"
    "  stg.u64 [r0 + r1], r1\n";

std::vector<uint64_t> launch(const LaneKernel& kernel) {
  std::vector<uint64_t> words(6, 99);
  atlas::LaneLaunch launch;
  launch.grid = {2, 1, 1};
  launch.block = {3, 1, 1};
  atlas::LaneMemory memory;
  memory.buffers.push_back(std::as_writable_bytes(std::span(words)));
  kernel.run(launch, memory);
  return words;
}

TEST(LaneCache, OneProcessCompilesForAll) {
  std::string folder = (fs::temp_directory_path() / "hologram-lanes-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::vector<uint64_t> expected = {0, 8, 16, 24, 32, 40};
  const atlas::LaneProgram program = atlas::assemble_lane(text);
  const auto cpu = cpu::make_backend();
  auto source_in = [&](KernelCache& cache) {
    KernelSource source;
    EXPECT_EQ(launch(*cache.get_lanes(program, &source)), expected);
    return source;
  };
  {
    KernelCache first(*cpu, folder, 1 << 20);
    EXPECT_EQ(source_in(first), KernelSource::compiled);
    EXPECT_EQ(source_in(first), KernelSource::memory);
    first.clear();
    EXPECT_EQ(source_in(first), KernelSource::disk);
  }
  KernelCache second(*cpu, folder, 1 << 20);
  EXPECT_EQ(source_in(second), KernelSource::disk);

  // What is in the cache but is no code for this program is compiled anew.
  const Fingerprint key = fingerprint("lanes " + atlas::fingerprint(program).hex() + cpu->code_key());
  second.disk().put(key, "no machine code");
  KernelCache third(*cpu, folder, 1 << 20);
  EXPECT_EQ(source_in(third), KernelSource::compiled);

  const auto interp = interp::make_backend();  // has no machine code to keep
  KernelCache interpreted(*interp, folder, 1 << 20);
  EXPECT_EQ(source_in(interpreted), KernelSource::compiled);
  EXPECT_EQ(source_in(interpreted), KernelSource::memory);
  EXPECT_THROW(third.get_lanes(atlas::assemble_lane("atlas lane 1\nadd.i32 r0, r1, r2\n")), atlas::LaneError);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace hologram::runtime

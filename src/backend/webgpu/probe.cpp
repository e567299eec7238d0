// backend/webgpu/probe.cpp: the kernel that asks an adapter about its floats.
#include "backend/webgpu/probe.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <span>

#include "backend/webgpu/kernel.h"

namespace hologram::webgpu {
namespace {

constexpr std::string_view question = R"(
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(1)
fn main() {
  y[0] = fma(x[0], x[0], -x[1]);
  y[1] = x[0] * x[0] - x[1];
  y[2] = x[2] * x[3];
  y[3] = select(0.0, 1.0, x[4] != x[4]);
  y[4] = x[4] + x[5];
  y[5] = max(x[4], x[5]);
  y[6] = x[6] - x[7];
  let s = x[5] + x[8];
  y[7] = s - x[5];
  y[8] = x[5] / x[9];
  for (var k = 0u; k < 512; k++) { y[9 + k] = exp(x[10 + k]); }
}
)";
constexpr size_t asked = 10, answered = 9, exponents = 512;  // that precede, and that exp() is of

// Such that results are normal.
float exponent(size_t k) { return -87 + 175 * static_cast<float>(k) / exponents; }

int64_t most_ulps(std::span<const float> got) {
  int64_t most = 0;
  for (size_t k = 0; k < got.size(); ++k) {
    const auto nearest = static_cast<float>(std::exp(static_cast<double>(exponent(k))));
    most = std::max(most, std::abs(int64_t{std::bit_cast<int32_t>(got[k])} -
                                   std::bit_cast<int32_t>(nearest)));
  }
  return most;
}

}  // namespace

Facts probe(DeviceMemory& memory) {
  const DeviceContext& device = memory.context();
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::array<float, asked + exponents> x{1 + 0x1p-12f,   1 + 0x1p-11f, 0x1p-100f, 0x1p-30f,
                                         std::nanf(""), 1,            infinity,  infinity,
                                         0x1p-30f,      3};
  for (size_t k = 0; k < exponents; ++k) x[asked + k] = exponent(k);
  std::array<float, answered + exponents> y{};
  wgsl::Module module;
  module.text = question;
  module.dispatches.push_back({.entry = "main", .units = Expr(1), .rounds = {}, .buffers = {}});
  const Pipelines pipelines(device, module, false);
  void* const given = memory.allocate(sizeof x, nullptr);
  void* const got = memory.allocate(sizeof y, nullptr);
  memory.copy(given, x.data(), sizeof x, nullptr);
  std::array<BindGroupEntry, 2> entries;
  for (uint32_t k = 0; k < 2; ++k) {
    const Place place = memory.place_of(k == 0 ? given : got);
    entries[k].binding = k;
    entries[k].buffer = place.buffer;
    entries[k].bytes = place.bytes;
  }
  const Api& api = device.api;
  BindGroup group = nullptr;
  device.submit([&](Encoder encoder) {
    BindGroupDescriptor wanted;
    wanted.layout = pipelines.each[0].layout;
    wanted.num_entries = entries.size();
    wanted.entries = entries.data();
    group = api.DeviceCreateBindGroup(device.gpu, &wanted);
    const Pass pass = api.CommandEncoderBeginComputePass(encoder, nullptr);
    api.ComputePassEncoderSetPipeline(pass, pipelines.each[0].pipeline);
    api.ComputePassEncoderSetBindGroup(pass, 0, group, 0, nullptr);
    api.ComputePassEncoderDispatchWorkgroups(pass, 1, 1, 1);
    api.ComputePassEncoderEnd(pass);
    api.ComputePassEncoderRelease(pass);
  });
  memory.copy(y.data(), got, sizeof y, nullptr);
  api.BindGroupRelease(group);
  memory.deallocate(given, nullptr);
  memory.deallocate(got, nullptr);
  return {.fused = y[0] == 0x1p-24f,
          .contracts = y[1] == 0x1p-24f,
          .subnormals = y[2] == 0x1p-130f,
          .nan_differs = y[3] == 1,
          .nan_stays = std::isnan(y[4]),
          .nan_wins = std::isnan(y[5]),
          .infinities = std::isnan(y[6]),
          .reassociates = y[7] != 0,
          .divides = std::bit_cast<uint32_t>(y[8]) == 0x3eaaaaabu,
          .exp_ulps = most_ulps(std::span(y).subspan(answered))};
}

std::string words_of(const Facts& f) {
  auto yes = [](bool x) { return x ? "yes" : "no"; };
  return fmt::format(
      "fma() fused: {}; a * b - c fused: {}; subnormals: {}; NaN != NaN: {}; NaN + 1 is NaN: {}; "
      "max(NaN, 1) is NaN: {}; infinity - infinity is NaN: {}; (a + b) - a taken for b: {}; "
      "1 / 3 correctly rounded: {}; exp() within {} ulp",
      yes(f.fused), yes(f.contracts), yes(f.subnormals), yes(f.nan_differs), yes(f.nan_stays),
      yes(f.nan_wins), yes(f.infinities), yes(f.reassociates), yes(f.divides), f.exp_ulps);
}

}  // namespace hologram::webgpu

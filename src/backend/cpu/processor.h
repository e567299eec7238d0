// backend/cpu/processor.h: what is known of designs of processors, by family and model. No LLVM in
// here.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace hologram::cpu {

/// Rates and sizes of a core, from the sources that docs/processors.md names for each number. 0:
/// not known. Choices follow from this table alone, so that each run on one machine makes the same.
struct Processor {
  std::string_view name;  ///< as HOLOGRAM_CPU_MODEL says it
  double multiply_adds;   ///< of f32 in a cycle, by FMA
  double dots;            ///< multiply-adds of bf16 in a cycle, by vdpbf16ps
  double tile_cycles;     ///< of a tile product; 0: no AMX
  double tile_share;      ///< of the tile products' peak, three terms from the second level
  int64_t first_level, second_level;  ///< caches of a core, in bytes
  double second_level_rate;           ///< bytes in a cycle that the second one gives
  /// Bytes ahead of itself that a row fetches; 0: hardware alone is faster, of weights of few bits
  /// too.
  int64_t row_fetch;
  /// Time of whole float32 models by multiply-adds over that by one, two and three bf16 terms on
  /// tiles, measured with these kernels.
  std::array<double, 3> terms_gain;
  /// Time of bfloat16 attention by PyTorch over that of ours on tiles, likewise; 0: not measured.
  double attention_gain = 0;
  /// Time of bfloat16 attention of few queries by multiply-adds over that on tiles, and of its
  /// gradients, likewise.
  double few_queries_gain = 0, gradients_gain = 0;
  /// Time of float32 attention by multiply-adds over that by three bf16 terms on tiles, likewise.
  double float_attention_gain = 0;
  /// Whether AVX-512's gathers take longer than loads of each lane, likewise.
  bool slow_gathers = false;
  /// Whether vectors of half an AVX-512 register go through memory faster than whole ones,
  /// likewise.
  bool half_vectors = false;
  /// Whether few rows read a packed matrix from memory faster panel by panel than several panels
  /// side by side, likewise.
  bool one_stream = false;
};

/// Every design of the table; the last one stands for those that are not in it.
std::span<const Processor> processors();
/// That of cpuid's vendor string, family and model (the extended ones included).
const Processor& processor_of(std::string_view vendor, int family, int model);
/// By its name; null if there is none.
const Processor* find_processor(std::string_view name);
/// This machine's, or the one that HOLOGRAM_CPU_MODEL names: Error(invalid_argument) for others.
const Processor& host_processor();

/// Whether vdpbf16ps is worth more than widening to f32 and a multiply-add.
bool dots_pay(const Processor& processor);

}  // namespace hologram::cpu

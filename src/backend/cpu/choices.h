// backend/cpu/choices.h: which instructions serve which products on a target, and why.
#pragma once

#include <string>
#include <vector>

#include "backend/cpu/target.h"

namespace hologram::cpu {

/// How much faster than by multiply-adds terms must have been measured to be taken.
inline constexpr double least_gain = 1.1;

/// Whether float32 products of so many bf16 terms may run on tiles here; `why` gets the reason.
bool terms_allowed(const Target& target, int terms, std::string* why = nullptr);

/// What of attention takes multiply-adds where tiles were not measured to be faster: of bfloat16
/// few queries and gradients, and all of float32 (by terms).
enum class AttentionPart : uint8_t { few_queries, gradients, float32 };

/// Whether its products may run on tiles here; `why` gets the reason.
bool tiles_allowed(const Target& target, AttentionPart part, std::string* why = nullptr);

struct Choice {
  std::string_view what;  ///< "float32", "float32 high", "float32 medium", "bfloat16", "bytes",
                          ///< "bfloat16 attention", "… of few queries", "… gradients",
                          ///< "float32 attention"
  std::string_view path;  ///< "fma", "terms", "dots", "tiles" or "pytorch" (PyTorch's kernel)
  std::string why;
};

/// Of every kind of product, for products of ordinary sizes.
std::vector<Choice> choices(const Target& target);

}  // namespace hologram::cpu

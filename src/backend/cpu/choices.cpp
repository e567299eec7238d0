// backend/cpu/choices.cpp: which instructions serve which products on a target, and why.
#include "backend/cpu/choices.h"

#include <fmt/format.h>

namespace hologram::cpu {
namespace {

Choice of_float32(const Target& target, std::string_view what, int terms) {
  Choice c{what, "fma", {}};
  if (terms_allowed(target, terms, &c.why)) c.path = "terms";
  return c;
}

Choice of_bfloat16(const Target& target) {
  const Processor& p = *target.processor;
  if (target.tiles)
    return {"bfloat16", "tiles", "a tile product is 16 times a cycle's multiply-adds"};
  if (target.bf16_dots) return {"bfloat16", "dots", "AVX512_BF16"};
  if (!dots_pay(p))
    return {"bfloat16", "fma",
            fmt::format("vdpbf16ps of {}: {} multiply-adds a cycle, by FMA {}", p.name, p.dots,
                        p.multiply_adds)};
  return {"bfloat16", "fma", "no AVX512_BF16"};
}

Choice of_bytes(const Target& target) {
  if (target.tiles) return {"bytes", "tiles", "AMX"};
  if (target.i8_dots) return {"bytes", "dots", "VNNI"};
  return {"bytes", "fma", "no VNNI"};
}

Choice of_attention(const Target& target) {
  if (target.tiles) {
    const Processor& p = *target.processor;
    constexpr const char* what = "bfloat16 attention";
    if (target.tile_attention) return {what, "tiles", "HOLOGRAM_CPU_ATTENTION=tiles"};
    if (p.attention_gain == 0)
      return {what, "pytorch",
              fmt::format("our kernel on tiles has not been measured on {}", p.name)};
    return {what, p.attention_gain >= 1 ? "tiles" : "pytorch",
            fmt::format("ours took 1/{} of the time of PyTorch's on {}", p.attention_gain, p.name)};
  }
  return {"bfloat16 attention", target.bf16_dots ? "dots" : "fma", of_bfloat16(target).why};
}

Choice of_part(const Target& target, std::string_view what, AttentionPart part) {
  Choice c{what, "fma", {}};
  if (tiles_allowed(target, part, &c.why))
    c.path = part == AttentionPart::float32 ? "terms" : "tiles";
  return c;
}

double gain_of(const Processor& p, AttentionPart part) {
  switch (part) {
    case AttentionPart::few_queries:
      return p.few_queries_gain;
    case AttentionPart::gradients:
      return p.gradients_gain;
    case AttentionPart::float32:
      return p.float_attention_gain;
  }
  return 0;
}

}  // namespace

bool tiles_allowed(const Target& target, AttentionPart part, std::string* why) {
  const Processor& p = *target.processor;
  const double gain = gain_of(p, part);
  auto because = [&](bool allowed, std::string reason) {
    if (why) *why = std::move(reason);
    return allowed;
  };
  if (!target.tiles) return because(false, "no tiles on this level");
  if (part == AttentionPart::float32 && target.terms == Terms::never)
    return because(false, "HOLOGRAM_CPU_TERMS=never");
  if (target.tile_attention) return because(true, "HOLOGRAM_CPU_ATTENTION=tiles");
  if (gain == 0)
    return because(false, fmt::format("tiles have not been measured for it on {}", p.name));
  return because(gain >= least_gain,
                 fmt::format("tiles took 1/{} of the time of multiply-adds on {}", gain, p.name));
}

bool terms_allowed(const Target& target, int terms, std::string* why) {
  const Processor& p = *target.processor;
  const double gain = p.terms_gain[static_cast<size_t>(terms) - 1];
  auto because = [&](bool allowed, std::string reason) {
    if (why) *why = std::move(reason);
    return allowed;
  };
  if (!target.tiles) return because(false, "no tiles on this level");
  if (target.terms == Terms::never) return because(false, "HOLOGRAM_CPU_TERMS=never");
  if (target.terms == Terms::model) return because(true, "HOLOGRAM_CPU_TERMS=model");
  if (gain == 0)
    return because(false, fmt::format("terms on tiles have not been measured on {}", p.name));
  return because(
      gain >= least_gain,
      fmt::format("terms on tiles took 1/{} of the time of multiply-adds on {}", gain, p.name));
}

// Seen from outside of libhologram: the Python module asks.
[[gnu::visibility("default")]] std::vector<Choice> choices(const Target& target) {
  return {of_float32(target, "float32", 3),
          of_float32(target, "float32 high", 2),
          of_float32(target, "float32 medium", 1),
          of_bfloat16(target),
          of_bytes(target),
          of_attention(target),
          of_part(target, "bfloat16 attention of few queries", AttentionPart::few_queries),
          of_part(target, "bfloat16 attention gradients", AttentionPart::gradients),
          of_part(target, "float32 attention", AttentionPart::float32)};
}

}  // namespace hologram::cpu

// backend/cpu/keys.cpp: what machine code is named by.
#include "backend/cpu/keys.h"

#include <fmt/format.h>

#include "backend/cpu/choices.h"
#include "backend/cpu/sources.h"

namespace hologram::cpu {

std::string_view version() { return sources_hash; }

std::string target_key(const Target& target) {
  std::string out = fmt::format("cpu {} {} {}", name_of(target.isa), target.cpu, target.features);
  for (int terms : {1, 2, 3})
    if (terms_allowed(target, terms)) out += fmt::format(" {}-terms", terms);
  if (out.ends_with("-terms")) out += fmt::format(" of {}", target.processor->name);
  if (tiles_allowed(target, AttentionPart::few_queries)) out += " few queries on tiles";
  if (tiles_allowed(target, AttentionPart::gradients)) out += " gradients on tiles";
  return out;
}

std::string code_key(const Target& target) {
  return fmt::format("{} {} {} {} {}", target_key(target), target.processor->name,
                     target.tile_prefetch, target.threads, version());
}

}  // namespace hologram::cpu

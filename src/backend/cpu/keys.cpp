// backend/cpu/keys.cpp: what machine code is named by.
#include "backend/cpu/keys.h"

#include <fmt/format.h>

#include "backend/cpu/choices.h"
#include "backend/cpu/sources.h"

namespace hologram::cpu {
namespace {

// Compilers evaluate the arguments of a call in different orders, so that instructions of kernels
// stand in the order of the compiler that the generator was built with: other bytes with the same
// results.
constexpr std::string_view maker =
#if defined(__clang__)
    "Clang"
#elif defined(__GNUC__)
    "GCC"
#else
    "another compiler"
#endif
#if defined(__x86_64__)
    " for x86-64";
#elif defined(__aarch64__)
    " for AArch64";
#else
    " for another processor";
#endif

}  // namespace

std::string_view version() { return sources_hash; }

std::string target_key(const Target& target) {
  std::string out = fmt::format("cpu {} {} {}", name_of(target.isa), target.cpu, target.features);
  for (int terms : {1, 2, 3})
    if (terms_allowed(target, terms)) out += fmt::format(" {}-terms", terms);
  if (out.ends_with("-terms")) out += fmt::format(" of {}", target.processor->name);
  if (tiles_allowed(target, AttentionPart::few_queries)) out += " few queries on tiles";
  if (tiles_allowed(target, AttentionPart::gradients)) out += " gradients on tiles";
  if (tiles_allowed(target, AttentionPart::float32)) out += " float32 attention by terms";
  return out;
}

std::string code_key(const Target& target) {
  return fmt::format("{} {} {} {} {} made by {}", target_key(target), target.processor->name,
                     target.tile_prefetch, target.threads, version(), maker);
}

}  // namespace hologram::cpu

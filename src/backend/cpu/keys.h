// backend/cpu/keys.h: what machine code is named by. No LLVM in here.
#pragma once

#include <string>
#include <string_view>

#include "backend/cpu/target.h"

namespace hologram::cpu {

/// A hash over the generator's sources: part of every cache key.
std::string_view version();
/// Backend::target(): all that bits depend on. Prefetching and cuts for threads change none of
/// them; the processor does where float32 products may be terms on tiles, and attention of few
/// queries or gradients may be there: its row of the table says which.
std::string target_key(const Target& target);
/// Backend::code_key(). What stands behind " made by " says in which order the build puts
/// instructions, and changes no bit of a result.
std::string code_key(const Target& target);

}  // namespace hologram::cpu

// backend/cpu/link.h: objects as code that runs wherever it lies. No LLVM in here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hologram::cpu {

/// Lays an object (Object::code) behind the code that is there, to be loaded at a multiple of 4096,
/// and returns the offset of its function kernel_symbol. Throws Error(corrupt) for what is no such
/// object, Error(unsupported) for one that refers to more than its own bytes by distance.
uint64_t link(std::string& out, std::string_view object);

}  // namespace hologram::cpu

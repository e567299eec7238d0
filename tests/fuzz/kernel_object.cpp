// tests/fuzz/kernel_object.cpp: any bytes are a kernel's object, which is linked within itself, or refused.
#include "backend/cpu/link.h"
#include "fuzz/input.h"

HOLOGRAM_FUZZ(text) {
  using namespace hologram;
  std::string code;
  try {
    if (cpu::link(code, text) >= code.size()) std::abort();
  } catch (const Error& e) {
    if (e.code() != ErrorCode::corrupt && e.code() != ErrorCode::unsupported) std::abort();
  }
}

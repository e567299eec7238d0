// backend/cpu/target.cpp: the instruction-set levels and what this machine runs.
#include <algorithm>
#include <bit>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "backend/cpu/target.h"
#include "backend/cpu/variants.h"
#include "base/error.h"
#include "base/settings.h"
#include "host/thread_pool.h"

namespace hologram::cpu {
namespace {

constexpr const char* sse42_features =
    "+cx8,+cx16,+fxsr,+mmx,+popcnt,+sahf,+sse,+sse2,+sse3,+ssse3,+sse4.1,+sse4.2,+x87,+64bit,+"
    "crc32";
constexpr const char* avx2_features =
    "+cx8,+cx16,+fxsr,+mmx,+popcnt,+sahf,+sse,+sse2,+sse3,+ssse3,+sse4.1,+sse4.2,+x87,+64bit,+"
    "crc32,"
    "+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+movbe,+xsave";
constexpr const char* avx512_features =
    "+cx8,+cx16,+fxsr,+mmx,+popcnt,+sahf,+sse,+sse2,+sse3,+ssse3,+sse4.1,+sse4.2,+x87,+64bit,+"
    "crc32,"
    "+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+movbe,+xsave,"
    "+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl,+evex512,-prefer-256-bit";

// What browsers have had since 2021. The relaxed operations, a fused multiply-add among them, are
// not here: each processor may answer differently.
constexpr const char* wasm_features =
    "+simd128,+bulk-memory,+mutable-globals,+nontrapping-fptoint,+sign-ext";

bool is_x86(Isa isa) { return isa != Isa::neon && isa != Isa::wasm; }

bool runs_here(Isa isa) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  switch (isa) {
    case Isa::sse42:
      return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
    case Isa::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
             __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("f16c");
    case Isa::avx512:
      return runs_here(Isa::avx2) && __builtin_cpu_supports("avx512f") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    case Isa::neon:
    case Isa::wasm:
      return false;
  }
  return false;
#elif defined(__aarch64__)
  return isa == Isa::neon;
#elif defined(__wasm__)
  return isa == Isa::wasm;
#else
  (void)isa;
  return false;
#endif
}

#if defined(__x86_64__) && defined(__linux__)
// What the operating system saves: XCR0.
uint64_t saved_state() {
  uint32_t low = 0, high = 0;
  asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

bool request_tiles() {
  constexpr uint32_t tiles_bf16_int8 = 1u << 24 | 1u << 22 | 1u << 25;  // leaf 7, edx
  constexpr uint32_t osxsave = 1u << 27;                                // leaf 1, ecx
  constexpr uint64_t tile_state = 1u << 17 | 1u << 18;
  constexpr long request_permission = 0x1023, tile_data = 18;  // arch_prctl
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (!runs_here(Isa::avx512) || !__builtin_cpu_supports("avx512bf16")) return false;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & osxsave)) return false;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  if ((d & tiles_bf16_int8) != tiles_bf16_int8 || (saved_state() & tile_state) != tile_state)
    return false;
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}
#else
bool request_tiles() { return false; }
#endif

#if defined(__x86_64__)
bool has_avx_vnni() {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  constexpr uint32_t avx_vnni = 1u << 4;  // leaf 7, subleaf 1, eax
  return runs_here(Isa::avx2) && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & avx_vnni);
}
#endif

Terms wanted_terms() {
  const std::string name = settings::text("HOLOGRAM_CPU_TERMS").value_or("measured");
  return name == "model" ? Terms::model : name == "never" ? Terms::never : Terms::measured;
}

bool wants_tile_attention() { return settings::text("HOLOGRAM_CPU_ATTENTION") == "tiles"; }

}  // namespace

std::string_view name_of(Isa isa) {
  constexpr std::string_view names[] = {"sse42", "avx2", "avx512", "neon", "wasm32-simd128"};
  return names[static_cast<size_t>(isa)];
}

Target generic_target(Isa isa) {
  Target t;
  t.isa = isa;
  auto is = [&](const char* cpu, const char* features, int vector_bytes) {
    t.cpu = cpu;
    t.features = features;
    t.vector_bytes = vector_bytes;
  };
  if (isa == Isa::sse42) is("x86-64-v2", sse42_features, 16);
  if (isa == Isa::avx2) is("x86-64-v3", avx2_features, 32);
  if (isa == Isa::avx512) is("x86-64-v4", avx512_features, 64);
  if (isa == Isa::neon) is("generic", "+neon,+fp-armv8", 16);
  if (isa == Isa::wasm) is("generic", wasm_features, 16);
  t.triple = isa == Isa::neon   ? "aarch64-unknown-linux-gnu"
             : isa == Isa::wasm ? "wasm32-unknown-unknown"
                                : "x86_64-unknown-linux-gnu";
  t.fma = t.half = isa != Isa::sse42 && isa != Isa::wasm;
  t.masks = isa == Isa::avx512;
  t.max_gives_second = is_x86(isa);
  t.keeps_nan = is_x86(isa) || isa == Isa::neon;
  return t;
}

bool writes_around_caches(const Target& target) { return is_x86(target.isa); }

Target with_dots_of_host(Target target) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (target.isa == Isa::avx2) return with_dots(std::move(target), false, has_avx_vnni());
  if (target.isa == Isa::avx512) {
    const bool bf16 = __builtin_cpu_supports("avx512bf16") && dots_pay(*target.processor);
    return with_dots(std::move(target), bf16, __builtin_cpu_supports("avx512vnni"));
  }
#endif
  return target;
}

Target with_tiles(Target target) {
  target.tiles = true;
  target.features += ",+amx-tile,+amx-bf16,+amx-int8";
  if (target.isa == Isa::avx512 && !target.bf16_rounding) {
    target.bf16_rounding = true;
    target.features += ",+avx512bf16";
  }
  return target;
}

int threads_class(int threads) {
  return static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::clamp(threads, 2, 64))));
}

bool tiles_here() {
  static const bool permitted = request_tiles();
  return permitted;
}

// These two are seen from outside of libhologram: the Python module asks.
[[gnu::visibility("default")]] std::string_view level_of(const Target& target) {
  return target.tiles ? "amx" : name_of(target.isa);
}

[[gnu::visibility("default")]] Target host_target() {
  constexpr Isa best_first[] = {Isa::avx512, Isa::avx2, Isa::sse42, Isa::neon, Isa::wasm};
  std::string name = settings::text("HOLOGRAM_CPU_ISA").value_or("");
  auto best_of = [](Isa isa) {
    Target target = generic_target(isa);
    target.processor = &host_processor();
    target.gathers = isa != Isa::avx512 || !target.processor->slow_gathers;
    target.terms = wanted_terms();
    target.tile_attention = wants_tile_attention();
    target.threads = threads_class(host::ThreadPool::default_threads());
    target.tile_prefetch = settings::is_on("HOLOGRAM_CPU_TILE_PREFETCH");
    return with_dots_of_host(std::move(target));
  };
  if (name.empty() && tiles_here()) name = "amx";
  if (name.empty()) {
    for (Isa isa : best_first)
      if (runs_here(isa)) return best_of(isa);
    fail(ErrorCode::unavailable, "this processor has neither SSE4.2 nor NEON");
  }
  if (name == "amx" && tiles_here()) return with_tiles(best_of(Isa::avx512));
  for (Isa isa : best_first)
    if (name == name_of(isa) && runs_here(isa)) return best_of(isa);
  fail(ErrorCode::unavailable, "HOLOGRAM_CPU_ISA={}: this machine cannot run it", name);
}

}  // namespace hologram::cpu

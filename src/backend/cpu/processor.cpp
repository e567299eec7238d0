// backend/cpu/processor.cpp: the table of processors; docs/processors.md has its sources.
#include "backend/cpu/processor.h"

#include <algorithm>
#include <cstring>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/error.h"
#include "base/settings.h"

namespace hologram::cpu {
namespace {

constexpr int64_t KiB = 1024;

// name, multiply-adds, dots, tile products: cycles and share, caches, bytes of the second, rows'
// fetches, gain of terms and others, slow gathers, half vectors, one stream
constexpr Processor table[] = {
    {"skylake-server", 32, 0, 0, 0, 32 * KiB, 1024 * KiB, 64, 2 * KiB, {}},
    {"ice-lake-server", 32, 0, 0, 0, 48 * KiB, 1280 * KiB, 64, 2 * KiB, {}},
    {"sapphire-rapids", 32, 16, 16, 0, 48 * KiB, 2048 * KiB, 64, 2 * KiB, {}},
    {"emerald-rapids", 32, 16, 16, 0.73, 48 * KiB, 2048 * KiB, 64, 2 * KiB, {0, 0, 0.72}},
    {"granite-rapids", 32, 0, 16, 0, 48 * KiB, 2048 * KiB, 64, 2 * KiB, {}},
    {"zen2", 16, 0, 0, 0, 32 * KiB, 512 * KiB, 32, 2 * KiB, {}},
    {"zen3", 16, 0, 0, 0, 32 * KiB, 512 * KiB, 32, 2 * KiB, {}},
    {"zen4", 16, 32, 0, 0, 32 * KiB, 1024 * KiB, 32, 0, {}, 0, 0, 0, 0, true, true, true},
    {"zen5", 32, 64, 0, 0, 48 * KiB, 1024 * KiB, 64, 2 * KiB, {}},
    {"unknown", 32, 0, 0, 0, 32 * KiB, 1024 * KiB, 32, 2 * KiB, {}},
};

struct Models {
  std::string_view vendor;
  int family, first, last;
  std::string_view name;
};

constexpr Models models[] = {
    {"GenuineIntel", 6, 0x55, 0x55, "skylake-server"},
    {"GenuineIntel", 6, 0x6a, 0x6a, "ice-lake-server"},
    {"GenuineIntel", 6, 0x6c, 0x6c, "ice-lake-server"},
    {"GenuineIntel", 6, 0x8f, 0x8f, "sapphire-rapids"},
    {"GenuineIntel", 6, 0xcf, 0xcf, "emerald-rapids"},
    {"GenuineIntel", 6, 0xad, 0xae, "granite-rapids"},
    {"AuthenticAMD", 0x17, 0x30, 0xff, "zen2"},
    {"AuthenticAMD", 0x19, 0x00, 0x0f, "zen3"},
    {"AuthenticAMD", 0x19, 0x10, 0x1f, "zen4"},
    {"AuthenticAMD", 0x19, 0x20, 0x5f, "zen3"},
    {"AuthenticAMD", 0x19, 0x60, 0x7f, "zen4"},
    {"AuthenticAMD", 0x19, 0xa0, 0xaf, "zen4"},
    {"AuthenticAMD", 0x1a, 0x00, 0xff, "zen5"},
};

const Processor& unknown() { return std::end(table)[-1]; }

const Processor& detect() {
#if defined(__x86_64__)
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(0, &a, &b, &c, &d)) return unknown();
  char vendor[13] = {};
  std::memcpy(vendor, &b, 4);
  std::memcpy(vendor + 4, &d, 4);
  std::memcpy(vendor + 8, &c, 4);
  if (!__get_cpuid(1, &a, &b, &c, &d)) return unknown();
  const uint32_t family = a >> 8 & 15, model = a >> 4 & 15;
  const bool extended = family == 15 || family == 6;
  return processor_of(vendor, static_cast<int>(family == 15 ? family + (a >> 20 & 255) : family),
                      static_cast<int>(extended ? model | (a >> 16 & 15) << 4 : model));
#else
  return unknown();
#endif
}

}  // namespace

std::span<const Processor> processors() { return table; }

const Processor* find_processor(std::string_view name) {
  auto at = std::ranges::find(table, name, &Processor::name);
  return at == std::end(table) ? nullptr : at;
}

const Processor& processor_of(std::string_view vendor, int family, int model) {
  for (const Models& m : models)
    if (m.vendor == vendor && m.family == family && m.first <= model && model <= m.last)
      return *find_processor(m.name);
  return unknown();
}

const Processor& host_processor() {
  const auto wanted = settings::text("HOLOGRAM_CPU_MODEL");
  if (!wanted) return detect();
  if (const Processor* p = find_processor(*wanted)) return *p;
  std::string names;
  for (const Processor& p : table) names += (names.empty() ? "" : ", ") + std::string(p.name);
  settings::refuse("HOLOGRAM_CPU_MODEL", "one of " + names);
}

bool dots_pay(const Processor& processor) {
  return processor.dots == 0 || processor.dots > processor.multiply_adds;
}

}  // namespace hologram::cpu

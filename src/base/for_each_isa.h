// base/for_each_isa.h: functions that are compiled for several instruction sets.
#pragma once

/// Before a function: the one for this machine's instruction set is chosen when the library is
/// loaded. What it calls is for that set where it is
/// HOLOGRAM_INLINE.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define HOLOGRAM_FOR_EACH_ISA \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define HOLOGRAM_FOR_EACH_ISA
#endif

#define HOLOGRAM_INLINE inline __attribute__((always_inline))

/* tests/support/webgpu/bare_wgpu.c: a library that has of wgpu-native its version alone: the one that BARE_WGPU_VERSION says */
#include <stdint.h>
#include <stdlib.h>

uint32_t wgpuGetVersion(void);

uint32_t wgpuGetVersion(void) {
  const char* said = getenv("BARE_WGPU_VERSION");
  return said ? (uint32_t)strtoul(said, NULL, 16) : 0;
}

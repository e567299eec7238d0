/* examples/dlopen.c: the C interface from a library that is found at run time. */
#include <dlfcn.h>
#include <hologram/hologram.h>
#include <stdio.h>

int main(int argc, char** argv) {
  void* library = dlopen(argc > 1 ? argv[1] : "libhologram.so.0", RTLD_NOW | RTLD_LOCAL);
  hologram_status (*abi_version)(uint32_t*);
  hologram_status (*get_version)(char*, size_t, size_t*);
  uint32_t abi = 0;
  char version[32];
  if (!library) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  *(void**)&abi_version = dlsym(library, "hologram_abi_version");
  *(void**)&get_version = dlsym(library, "hologram_get_version");
  if (!abi_version || abi_version(&abi) != HOLOGRAM_OK || abi != HOLOGRAM_ABI_VERSION) {
    fprintf(stderr, "this program wants version %d of the interface\n", HOLOGRAM_ABI_VERSION);
    return 1;
  }
  if (!get_version || get_version(version, sizeof version, NULL) != HOLOGRAM_OK) return 1;
  printf("hologram %s\n", version);
  return 0;
}

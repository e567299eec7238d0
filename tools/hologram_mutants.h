// tools/hologram_mutants.h: the guard of a planted fault (tools/mutants.py copies it beside the sources)
#pragma once
#include <fcntl.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
namespace hologram_mutants {
constexpr std::size_t size = 1 << 14;  // faults at most, as in tools/faults.py
struct State {
  int chosen = std::getenv("MUTANT") ? std::atoi(std::getenv("MUTANT")) : -1;
  unsigned char* reached = map();
  static unsigned char* map() {
    static unsigned char none[size];
    const char* path = std::getenv("MUTANTS_REACHED");
    const int file = path ? ::open(path, O_RDWR) : -1;
    void* found = file < 0 ? MAP_FAILED : ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return found == MAP_FAILED ? none : static_cast<unsigned char*>(found);
  }
};
inline bool at(int fault) {
  static const State state;
  __atomic_store_n(state.reached + fault, 1, __ATOMIC_RELAXED);
  return fault == state.chosen;
}
}  // namespace hologram_mutants

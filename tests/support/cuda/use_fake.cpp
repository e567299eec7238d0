// tests/support/cuda/use_fake.cpp: programs that this is linked into find the fake driver.
//
// HOLOGRAM_CUDA_DRIVER=libcuda.so.1 in the environment has them run on a GPU instead. That driver knows nothing of NVIDIA's machine code.
// Tests there try the code of every assembler, in which a fault of it shows: no witness takes it away before.
#include <cstdlib>

#include "support/paths.h"

namespace {

[[maybe_unused]] const int set = setenv("HOLOGRAM_CUDA_DRIVER", hologram::test::beside_program(HOLOGRAM_FAKE_CUDA).c_str(), 0) +
                                 setenv("HOLOGRAM_CUDA_ASSEMBLER", "driver", 0) + setenv("HOLOGRAM_CUDA_WITNESS", "0", 0);

}  // namespace
